/* Functions that call several operators must release each temporary once, with and without a scope.
 * Other tests check their results. */
#include "tests/support/support.h"

#include "ops/ops.h"
#include "tensor/scope.h"

typedef struct inputs {
    tensor_t *x, *index, *mask;
} inputs_t;

typedef status_t (*call_t)(context_t *ctx, const inputs_t *in, tensor_t **out);

static status_t stack(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_stack(ctx, 2, (const tensor_t *const[]){in->x, in->x}, 0, out);
}
static status_t tile(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_tile(ctx, in->x, 2, ((const int64_t[]){2, 3}), out);
}
static status_t repeat_interleave(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_repeat_interleave(ctx, in->x, 2, NULL, out);
}
static status_t masked_fill(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_masked_fill(ctx, in->x, in->mask, 7, out);
}
static status_t one_hot(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_one_hot(ctx, in->index, 5, out);
}
static status_t scatter_value(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_scatter_value(ctx, in->x, 1, in->index, 2, SCATTER_NONE, out);
}
static status_t bernoulli(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_bernoulli(ctx, in->x, 1, DTYPE_NONE, out);
}
static status_t einsum(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_einsum(ctx, "ij,kj,ki->k", 3, (const tensor_t *const[]){in->x, in->x, in->x}, out);
}
static status_t unique_values(context_t *ctx, const inputs_t *in, tensor_t **out)
{
    return op_unique(ctx, in->x, NULL, true, out, NULL, NULL, NULL);
}

static const struct {
    const char *name;
    call_t call;
} rows[] = {{"stack", stack},
            {"tile", tile},
            {"repeat_interleave", repeat_interleave},
            {"masked_fill", masked_fill},
            {"one_hot", one_hot},
            {"scatter_value", scatter_value},
            {"bernoulli", bernoulli},
            {"einsum", einsum},
            {"unique", unique_values}};

static void intermediate_tensors_are_released_once(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    inputs_t in = {NULL, NULL, NULL};
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(3, 3), 1, &in.x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(3, 3), &in.index));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_BOOL, SHAPE(3), &in.mask));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tensor_t *out = NULL;
        CHECK_OK(ctx, rows[i].call(ctx, &in, &out)); /* fills caches, which stay */
        tensor_release(out);
        const long live = atomic_load(&fixture->memory.live);
        for (int depth = 0; depth < 3; depth++) {
            for (int k = 0; k < depth; k++) CHECK_OK(ctx, scope_begin(ctx));
            CHECK_OK(ctx, rows[i].call(ctx, &in, &out));
            for (int k = 0; k < depth; k++) CHECK_OK(ctx, scope_end(ctx));
            if (depth == 0) tensor_release(out);
            if (atomic_load(&fixture->memory.live) != live)
                fail_msg("%s in %d scopes leaves blocks", rows[i].name, depth);
        }
    }
    tensor_release(in.x);
    tensor_release(in.index);
    tensor_release(in.mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(intermediate_tensors_are_released_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
