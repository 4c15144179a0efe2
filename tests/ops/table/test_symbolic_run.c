/* Operators on symbolic elements, compared with their kernels. Elements are random expressions of
 * sizes. The result must equal the kernel's for numbers at all sizes that satisfy the guards
 * (conditions). */
#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops_impl.h"
#include "ops/shape/symbolic_impl.h"
#include "tensor/tensor.h"
#include "tests/support/case.h"

#define MAX_ELEMENTS 256
#define N_NAMES 3
#define N_ROUNDS 8
#define N_TRIES 200
#define N_WANTED 8

static uint64_t seed = 1;

/* Cases as in tests/support/case.h. Here "<n" limits elements to numbers from 0 to n - 1, and "+"
 * to at least 1. */
static const struct {
    const char *op, *text;
} cases[] = {
    {"add", "(s64[2,3], s64[3])"},
    {"add", "(bool[5], bool[5])"},
    {"add", "(s32[4], s32[])"},
    {"add", "(f32[4], f32[4])"},
    {"sub", "(s64[4], s64[4])"},
    {"sub", "(f64[4], f32[1])"},
    {"mul", "(s64[2,2], s64[2,1])"},
    {"mul", "(f32[4], f32[4])"},
    {"div", "(s64[4], s64[4]+)"},
    {"div", "(f32[4], f32[4]+)"},
    {"div_floor", "(s64[4], s64[4]+)"},
    {"div_floor", "(f32[4], f32[1]+)"},
    {"div_trunc", "(s64[6], s64[6]+)"},
    {"div_trunc", "(s32[6], s32[1]+)"},
    {"remainder", "(s64[6], s64[6]+)"},
    {"fmod", "(s64[6], s64[6]+)"},
    {"minimum", "(s64[6], s64[6])"},
    {"maximum", "(s32[6], s32[6])"},
    {"eq", "(s64[6], s64[6])"},
    {"ne", "(s64[6], s64[6])"},
    {"lt", "(s64[6], s64[6])"},
    {"le", "(s64[6], s64[6])"},
    {"gt", "(s64[6], s64[6])"},
    {"ge", "(s64[6], s64[6])"},
    {"logical_and", "(bool[6], bool[6])"},
    {"logical_or", "(s64[6], bool[6])"},
    {"logical_xor", "(bool[6], bool[6])"},
    {"logical_not", "(bool[6])"},
    {"where", "(bool[6], s64[6], s64[6])"},
    {"where", "(bool[2,1], s64[3], s32[])"},
    {"neg", "(s64[5])"},
    {"neg", "(f32[5])"},
    {"abs", "(s64[5])"},
    {"sign", "(s64[5])"},
    {"floor", "(f32[5])"},
    {"ceil", "(f32[5])"},
    {"round", "(f32[5])"},
    {"trunc", "(f64[5])"},
    {"floor", "(s64[5])"},
    {"cast", "(s64[5]) dtype=s32"},
    {"cast", "(s64[5]) dtype=bool"},
    {"cast", "(s32[5]) dtype=f32"},
    {"cast", "(s64[5]) dtype=f64"},
    {"cast", "(f32[5]) dtype=s64"},
    {"cast", "(f32[5]) dtype=f64"},
    {"sum", "(s64[2,3]) dims=[1]"},
    {"sum", "(s32[2,3])"},
    {"prod", "(s64[2,3]) dims=[0] keepdim=true"},
    {"prod", "(s64[3])"},
    {"amax", "(s64[2,3]) dims=[1]"},
    {"amin", "(s64[4])"},
    {"any", "(bool[2,3]) dims=[1]"},
    {"all", "(s64[4])"},
    {"cumsum", "(s64[2,3]) dim=1"},
    {"cumsum", "(s32[2,3]) dim=0 exclusive=true"},
    {"cumsum", "(s64[5]) dim=0 reverse=true"},
    {"cumprod", "(s64[3]) dim=0"},
    {"range", "(s64[], s64[], s64[]+)"},
    {"identity", "(s64[3])"},
    {"reshape", "(s64[2,3]) sizes=[3,-1]"},
    {"flatten", "(f32[2,3])"},
    {"squeeze", "(s64[1,3])"},
    {"unsqueeze", "(s64[3]) dims=[0]"},
    {"transpose", "(s64[2,3]) dim0=0 dim1=1"},
    {"permute", "(s64[2,1,3]) dims=[2,0,1]"},
    {"expand", "(s64[1,3]) sizes=[2,-1]"},
    {"slice", "(s64[6]) dim=0 start=1 end=-1 step=2"},
    {"slice", "(f32[6]) dim=0 start=-2"},
    {"split", "(s64[5]) dim=0 sizes=[2,3]"},
    {"concat", "(s64[2], s64[1], s64[3]) dim=0"},
    {"concat", "(f32[2,1], f32[2,2]) dim=1"},
    {"flip", "(s64[2,3]) dims=[1]"},
    {"roll", "(s64[5]) dims=[0] shifts=[2]"},
    {"pad", "(s64[3]) before=[1] after=[2] value=7"},
    {"pad", "(f32[3]) before=[1] after=[2] value=0.5"},
    {"pad", "(s64[4]) before=[1] after=[2] mode=\"reflect\""},
    {"gather", "(s64[4], s64[2]<4) dim=0"},
    {"gather", "(s64[4], s32[]<4) dim=0"},
    {"gather_elements", "(s64[3,2], s64[2,2]<3) dim=0"},
    {"gather_nd", "(s64[2,2], s64[3,2]<2)"},
    {"scatter", "(s64[4], s64[2]<4, s64[2]) dim=0"},
    {"scatter_nd", "(s64[4], s64[1,1]<4, s64[1])"},
};

static const int64_t hints[N_NAMES] = {5, 12, 3};

typedef struct subject {
    context_t *ctx;
    sym_space_t *space;
    const opdef_t *op;
    uint64_t random;
    case_call_t call;
    int64_t sizes[N_NAMES];
    symbolic_t in[CASE_MAX_INPUTS];
    /* elements of float operands are source + offset */
    int64_t source[CASE_MAX_INPUTS][MAX_ELEMENTS];
    double offset[CASE_MAX_INPUTS][MAX_ELEMENTS];
    int n_out;
    symbolic_t out[OP_MAX_OUTPUTS];
} subject_t;

static uint64_t draw(subject_t *s, uint64_t n)
{
    s->random = s->random * 6364136223846793005u + 1442695040888963407u;
    return (s->random >> 33) % n;
}

static int64_t draw_name(subject_t *s)
{
    static const char *const names[N_NAMES] = {"a", "b", "c"};
    const int i = (int)draw(s, N_NAMES);
    for (int k = 0; k <= i; k++) (void)sym_name(s->ctx, names[k], hints[k], 1, INT64_MAX);
    return sym_name(s->ctx, names[i], hints[i], 1, INT64_MAX);
}

static int64_t draw_integer(subject_t *s, const case_operand_t *operand)
{
    context_t *ctx = s->ctx;
    const int64_t k = 1 + (int64_t)draw(s, 7);
    if (operand->limit > 0) return (int64_t)draw(s, (uint64_t)operand->limit);
    if (operand->dtype == DTYPE_BOOL)
        return draw(s, 3) == 0 ? k % 2 : sym_is_less(ctx, draw_name(s), draw_name(s));
    switch (draw(s, operand->is_positive ? 3 : 6)) {
    case 0: return k;
    case 1: return draw_name(s);
    case 2: return sym_multiply(ctx, k, draw_name(s));
    case 3: return sym_subtract(ctx, draw_name(s), k);
    case 4: return sym_divide(ctx, draw_name(s), k);
    default: return -k;
    }
}

static status_t make_operand(subject_t *s, int operand)
{
    const case_operand_t *from = &s->call.in[operand];
    symbolic_t *to = &s->in[operand];
    const bool is_real = dtype_is_floating(from->dtype);
    const sym_real_t type = from->dtype == DTYPE_F64 ? SYM_F64 : SYM_F32;
    TRY(symbolic_create(s->ctx, from->dtype, from->rank, from->sizes, to));
    for (int64_t i = 0; i < to->n && i < MAX_ELEMENTS; i++) {
        const int64_t source = s->source[operand][i] = draw_integer(s, from);
        const double offset = s->offset[operand][i] = is_real ? 0.25 * (double)draw(s, 4) : 0.0;
        to->elements[i] = source;
        if (is_real)
            to->elements[i] = sym_real_calculate(s->ctx, '+', sym_to_real(s->ctx, type, source),
                                                 sym_real(s->ctx, type, offset));
    }
    return sym_status(s->ctx);
}

/* Replaces float results by their floors, which are integers and can be compared. */
static status_t make_integers(context_t *ctx, symbolic_t *out)
{
    const dtype_t wanted = DTYPE_S64;
    symbolic_t floors[OP_MAX_OUTPUTS], integers[OP_MAX_OUTPUTS];
    int n = 0;
    if (!dtype_is_floating(out->dtype)) return STATUS_OK;
    TRY(symbolic_run(ctx, &op_def_floor, NULL, 1, out, &n, floors));
    TRY(symbolic_run(ctx, &op_def_cast, &wanted, 1, floors, &n, integers));
    symbolic_clear(ctx, &floors[0]);
    symbolic_clear(ctx, out);
    *out = integers[0];
    return STATUS_OK;
}

static bool size_of(void *user, int name, const char *text, int64_t *out_size)
{
    (void)name;
    *out_size = ((subject_t *)user)->sizes[text[0] - 'a'];
    return true;
}

/* Makes the operand for the current sizes. Returns false if an element overflows. */
static bool make_tensor(subject_t *s, int operand, tensor_t **out_tensor)
{
    const symbolic_t *from = &s->in[operand];
    void *data = NULL;
    CHECK_OK(s->ctx, tensor_empty(s->ctx, from->dtype, from->rank, from->sizes, out_tensor));
    CHECK_OK(s->ctx, tensor_data_mutable(s->ctx, *out_tensor, &data));
    for (int64_t i = 0; i < from->n; i++) {
        void *to = (char *)data + (size_t)i * dtype_size(from->dtype);
        int64_t value = 0;
        if (!sym_calculate(s->space, s->source[operand][i], size_of, s, &value)) return false;
        if (dtype_is_floating(from->dtype))
            dtype_store(from->dtype, to, (double)value + s->offset[operand][i]);
        else
            dtype_store_integer(from->dtype, to, value);
    }
    return true;
}

static void compare_output(subject_t *s, const tensor_t *tensor, const symbolic_t *out)
{
    const tensor_info_t *info = tensor_info(tensor);
    char elements[MAX_ELEMENTS * 8];
    assert_true(shape_equal(info->rank, info->sizes, out->rank, out->sizes));
    CHECK_OK(s->ctx, tensor_read(s->ctx, tensor, elements, sizeof elements));
    for (int64_t i = 0; i < out->n; i++) {
        const void *at = elements + (size_t)i * dtype_size(info->dtype);
        const int64_t wanted = dtype_is_floating(info->dtype)
                                   ? (int64_t)floor(dtype_load(info->dtype, at))
                                   : dtype_load_integer(info->dtype, at);
        int64_t value = 0;
        char text[128];
        if (!sym_calculate(s->space, out->elements[i], size_of, s, &value) || value != wanted)
            fail_msg("%s: element %lld is %lld by %s at a=%lld b=%lld c=%lld, the kernel's %lld",
                     s->op->name, (long long)i, (long long)value,
                     sym_text(s->ctx, out->elements[i], sizeof text, text), (long long)s->sizes[0],
                     (long long)s->sizes[1], (long long)s->sizes[2], (long long)wanted);
    }
}

static void compare(subject_t *s)
{
    tensor_t *in[CASE_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL};
    int n_out = OP_MAX_OUTPUTS;
    bool fits = true;
    for (int i = 0; i < s->call.n_in; i++) fits = make_tensor(s, i, &in[i]) && fits;
    if (fits) {
        CHECK_OK(s->ctx, dispatch_run(s->ctx, s->op, s->call.attrs, s->call.n_in,
                                      (const tensor_t *const *)in, &n_out, out));
        assert_int_equal(n_out, s->n_out);
        for (int i = 0; i < n_out; i++) compare_output(s, out[i], &s->out[i]);
    }
    for (int i = 0; i < s->call.n_in; i++) tensor_release(in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) tensor_release(out[i]);
}

static void compare_at_other_sizes(subject_t *s)
{
    int first = 0, n = 0;
    memcpy(s->sizes, hints, sizeof hints);
    assert_true(sym_guards_hold(s->space, size_of, s, &first));
    for (int i = 0; i < N_TRIES && n < N_WANTED; i++) {
        if (sym_guards_hold(s->space, size_of, s, &first)) {
            compare(s);
            n++;
        }
        for (int k = 0; k < N_NAMES; k++)
            s->sizes[k] = draw(s, 2) == 0 ? hints[k] : 1 + (int64_t)draw(s, 40);
    }
}

static void run_case(context_t *ctx, size_t index, int round)
{
    static subject_t s;
    s = (subject_t){.ctx = ctx,
                    .op = ops_find(cases[index].op),
                    .random = seed * 1000003u + index * 31u + (uint64_t)round * 7919u};
    assert_non_null(s.op);
    CHECK_OK(ctx, case_parse(ctx, s.op, cases[index].text, &s.call));
    CHECK_OK(ctx, sym_space_create(ctx, &s.space));
    sym_space_enter(ctx, s.space);
    for (int i = 0; i < s.call.n_in; i++) CHECK_OK(ctx, make_operand(&s, i));
    CHECK_OK(ctx, symbolic_run(ctx, s.op, s.call.attrs, s.call.n_in, s.in, &s.n_out, s.out));
    for (int i = 0; i < s.n_out; i++) CHECK_OK(ctx, make_integers(ctx, &s.out[i]));
    compare_at_other_sizes(&s);
    sym_space_enter(ctx, NULL);
    for (int i = 0; i < s.call.n_in; i++) symbolic_clear(ctx, &s.in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) symbolic_clear(ctx, &s.out[i]);
    sym_space_release(s.space);
}

static void elements_are_those_of_the_kernels_at_all_sizes(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int round = 0; round < N_ROUNDS; round++) run_case(fixture_context(state), i, round);
}

/* A network that crops its input to a multiple of 8 computes these sizes. */
static void sizes_of_a_crop_are_one_expression(void **state)
{
    context_t *ctx = fixture_context(state);
    sym_space_t *space = NULL;
    symbolic_t in[2], halves[OP_MAX_OUTPUTS], wholes[OP_MAX_OUTPUTS], none[OP_MAX_OUTPUTS];
    char text[64];
    int n = 0;
    CHECK_OK(ctx, sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    CHECK_OK(ctx, symbolic_create(ctx, DTYPE_S64, 1, (int64_t[]){2}, &in[0]));
    CHECK_OK(ctx, symbolic_create(ctx, DTYPE_S64, 0, NULL, &in[1]));
    in[0].elements[0] = sym_name(ctx, "H", 64, 1, INT64_MAX);
    in[0].elements[1] = sym_name(ctx, "W", 48, 1, INT64_MAX);
    in[1].elements[0] = 8;
    CHECK_OK(ctx, symbolic_run(ctx, &op_def_div_floor, NULL, 2, in, &n, halves));
    const symbolic_t again[2] = {halves[0], in[1]};
    CHECK_OK(ctx, symbolic_run(ctx, &op_def_mul, NULL, 2, again, &n, wholes));
    assert_string_equal(sym_text(ctx, wholes[0].elements[0], sizeof text, text), "8*(H/8)");
    assert_int_equal(sym_n_guards(space), 0);
    assert_int_equal(symbolic_run(ctx, &op_def_sort, NULL, 1, in, &n, none), STATUS_UNSUPPORTED);
    assert_string_equal(context_error(ctx),
                        "sort: symbolic elements, this operator does not take them");
    sym_space_enter(ctx, NULL);
    symbolic_clear(ctx, &in[0]);
    symbolic_clear(ctx, &in[1]);
    symbolic_clear(ctx, &halves[0]);
    symbolic_clear(ctx, &wholes[0]);
    sym_space_release(space);
}

static status_t concatenate(context_t *ctx)
{
    sym_space_t *space = NULL;
    symbolic_t in[2] = {{.dtype = DTYPE_NONE}, {.dtype = DTYPE_NONE}}, out[OP_MAX_OUTPUTS];
    int n = 0;
    TRY(sym_space_create(ctx, &space));
    sym_space_enter(ctx, space);
    status_t status = symbolic_create(ctx, DTYPE_S64, 1, (int64_t[]){2}, &in[0]);
    if (status == STATUS_OK) status = symbolic_create(ctx, DTYPE_S64, 1, (int64_t[]){1}, &in[1]);
    if (status == STATUS_OK) {
        in[0].elements[0] = sym_name(ctx, "H", 64, 1, INT64_MAX);
        status = sym_status(ctx);
    }
    if (status == STATUS_OK) status = symbolic_run(ctx, &op_def_concat, NULL, 2, in, &n, out);
    if (status == STATUS_OK) symbolic_clear(ctx, &out[0]);
    for (int i = 0; i < 2; i++) symbolic_clear(ctx, &in[i]);
    sym_space_enter(ctx, NULL);
    sym_space_release(space);
    return status;
}

static void a_refused_allocation_leaves_nothing(void **state)
{
    (void)state;
    check_every_allocation(concatenate);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(elements_are_those_of_the_kernels_at_all_sizes),
        TEST(sizes_of_a_crop_are_one_expression),
        TEST(a_refused_allocation_leaves_nothing),
    };
    if (argc > 1) seed = strtoull(argv[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
