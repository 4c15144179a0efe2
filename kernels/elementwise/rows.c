#include "kernels/elementwise/rows_impl.h"

const elementwise_loops_t *elementwise_unary(unary_function_t function, isa_t isa)
{
    static const unary_loops_t *const loops[ISA_COUNT] = ISA_TABLE(unary_loops);
    return &loops[isa]->of[function];
}

static const binary_loops_t *const binary_tables[ISA_COUNT] = ISA_TABLE(binary_loops);

const elementwise_loops_t *elementwise_binary(binary_function_t function, isa_t isa)
{
    return &binary_tables[isa]->of[function];
}

elementwise_loop_t *elementwise_binary_s32(binary_function_t function, isa_t isa)
{
    return binary_tables[isa]->s32[function];
}

const elementwise_loops_t *elementwise_unary_slope(unary_slope_t function, isa_t isa)
{
    static const unary_slopes_loops_t *const loops[ISA_COUNT] = ISA_TABLE(unary_slopes_loops);
    return &loops[isa]->of[function];
}

const elementwise_loops_t *elementwise_binary_slope(binary_slope_t function, isa_t isa)
{
    static const binary_slopes_loops_t *const loops[ISA_COUNT] = ISA_TABLE(binary_slopes_loops);
    return &loops[isa]->of[function];
}

elementwise_loop_t *elementwise_select(size_t element_bytes, isa_t isa)
{
    static const select_loops_t *const loops[ISA_COUNT] = ISA_TABLE(select_loops);
    switch (element_bytes) {
    case 1: return loops[isa]->bytes_1;
    case 2: return loops[isa]->bytes_2;
    case 4: return loops[isa]->bytes_4;
    default: return loops[isa]->bytes_8;
    }
}
