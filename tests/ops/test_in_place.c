/* Operators in place, compared with PyTorch's functions that end in an underscore: on dense
 * tensors, views and blocked tensors. Also tests which other tensors see the new elements, and
 * errors. */
#include "tests/support/support.h"

#include <math.h>
#include <string.h>

#include "module/layers/layers.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tests/support/eltwise_values.h"

#define N ELTWISE_POINTS

static const float xs[N] = {0.25f, -0.5f, 1.5f, 3.0f};
static const float ys[N] = {2.0f, -0.5f, 0.75f, 3.0f};

typedef status_t (*one_t)(context_t *ctx, tensor_t *x);
typedef status_t (*two_t)(context_t *ctx, tensor_t *a, const tensor_t *b);

#define NUMBER(name, function, ...)                                                                \
    static status_t name##_number(context_t *ctx, tensor_t *x)                                     \
    {                                                                                              \
        return function(ctx, x, __VA_ARGS__);                                                      \
    }

NUMBER(add_scalar, op_add_scalar_, 0.5)
NUMBER(sub_scalar, op_sub_scalar_, 0.5)
NUMBER(mul_scalar, op_mul_scalar_, 0.5)
NUMBER(div_scalar, op_div_scalar_, 0.5)
NUMBER(pow_scalar, op_pow_scalar_, 2.5)
NUMBER(add_integer, op_add_integer_, 3)
NUMBER(sub_integer, op_sub_integer_, 3)
NUMBER(mul_integer, op_mul_integer_, 3)
NUMBER(div_integer, op_div_integer_, 3)
NUMBER(pow_integer, op_pow_integer_, 3)
NUMBER(fill, op_fill_, 1.25)

/* ---- values printed by in_place_values.py ---- */

static const struct {
    const char *name;
    one_t run;
    float values[N];
} ones[] = {
    {"relu6", op_relu6_, {0.25f, 0.0f, 1.5f, 3.0f}},
    {"floor", op_floor_, {0.0f, -1.0f, 1.0f, 3.0f}},
    {"ceil", op_ceil_, {1.0f, 0.0f, 2.0f, 3.0f}},
    {"round", op_round_, {0.0f, 0.0f, 2.0f, 3.0f}},
    {"trunc", op_trunc_, {0.0f, 0.0f, 1.0f, 3.0f}},
    {"sign", op_sign_, {1.0f, -1.0f, 1.0f, 1.0f}},
    {"softsign", op_softsign_, {0.200000003f, -0.333333343f, 0.600000024f, 0.75f}},
    {"logsigmoid", op_logsigmoid_, {-0.575939417f, -0.974076986f, -0.201413289f, -0.048587352f}},
    {"rsqrt", op_rsqrt_, {2.0f, NAN, 0.816496551f, 0.577350259f}},
    {"square", op_square_, {0.0625f, 0.25f, 2.25f, 9.0f}},
    {"exp2", op_exp2_, {1.18920708f, 0.707106769f, 2.82842708f, 8.0f}},
    {"expm1", op_expm1_, {0.284025431f, -0.393469334f, 3.48168898f, 19.085537f}},
    {"log2", op_log2_, {-2.0f, NAN, 0.584962487f, 1.58496249f}},
    {"log10", op_log10_, {-0.60206002f, NAN, 0.176091254f, 0.477121264f}},
    {"log1p", op_log1p_, {0.223143548f, -0.693147182f, 0.91629076f, 1.38629436f}},
    {"logical_not", op_logical_not_, {0.0f, 0.0f, 0.0f, 0.0f}},
    {"isnan", op_isnan_, {0.0f, 0.0f, 0.0f, 0.0f}},
    {"isinf", op_isinf_, {0.0f, 0.0f, 0.0f, 0.0f}},
    {"sin", op_sin_, {0.247403964f, -0.47942555f, 0.997494996f, 0.141120002f}},
    {"cos", op_cos_, {0.968912423f, 0.87758255f, 0.070737198f, -0.989992499f}},
    {"tan", op_tan_, {0.255341917f, -0.546302497f, 14.1014204f, -0.142546549f}},
    {"asin", op_asin_, {0.252680242f, -0.52359879f, NAN, NAN}},
    {"acos", op_acos_, {1.31811607f, 2.09439516f, NAN, NAN}},
    {"atan", op_atan_, {0.244978666f, -0.463647604f, 0.982793748f, 1.24904573f}},
    {"sinh", op_sinh_, {0.252612323f, -0.521095276f, 2.12927938f, 10.0178747f}},
    {"cosh", op_cosh_, {1.03141308f, 1.12762594f, 2.3524096f, 10.0676622f}},
    {"asinh", op_asinh_, {0.247466475f, -0.481211841f, 1.19476318f, 1.81844652f}},
    {"acosh", op_acosh_, {NAN, NAN, 0.962423682f, 1.76274717f}},
    {"atanh", op_atanh_, {0.255412817f, -0.549306154f, NAN, NAN}},
    {"add_scalar", add_scalar_number, {0.75f, 0.0f, 2.0f, 3.5f}},
    {"sub_scalar", sub_scalar_number, {-0.25f, -1.0f, 1.0f, 2.5f}},
    {"mul_scalar", mul_scalar_number, {0.125f, -0.25f, 0.75f, 1.5f}},
    {"div_scalar", div_scalar_number, {0.5f, -1.0f, 3.0f, 6.0f}},
    {"pow_scalar", pow_scalar_number, {0.03125f, NAN, 2.75567603f, 15.5884571f}},
    {"add_integer", add_integer_number, {3.25f, 2.5f, 4.5f, 6.0f}},
    {"sub_integer", sub_integer_number, {-2.75f, -3.5f, -1.5f, 0.0f}},
    {"mul_integer", mul_integer_number, {0.75f, -1.5f, 4.5f, 9.0f}},
    {"div_integer", div_integer_number, {0.0833333358f, -0.166666672f, 0.5f, 1.0f}},
    {"pow_integer", pow_integer_number, {0.015625f, -0.125f, 3.375f, 27.0f}},
    {"fill", fill_number, {1.25f, 1.25f, 1.25f, 1.25f}},
};

static const struct {
    const char *name;
    two_t run;
    float values[N];
} twos[] =
    {
        {"add", op_add_, {2.25f, -1.0f, 2.25f, 6.0f}},
        {"sub", op_sub_, {-1.75f, 0.0f, 0.75f, 0.0f}},
        {"mul", op_mul_, {0.5f, 0.25f, 1.125f, 9.0f}},
        {"div", op_div_, {0.125f, 1.0f, 2.0f, 1.0f}},
        {"pow", op_pow_, {0.0625f, NAN, 1.35540295f, 27.0f}},
        {"maximum", op_maximum_, {2.0f, -0.5f, 1.5f, 3.0f}},
        {"minimum", op_minimum_, {0.25f, -0.5f, 0.75f, 3.0f}},
        {"div_trunc", op_div_trunc_, {0.0f, 1.0f, 2.0f, 1.0f}},
        {"div_floor", op_div_floor_, {0.0f, 1.0f, 2.0f, 1.0f}},
        {"fmod", op_fmod_, {0.25f, 0.0f, 0.0f, 0.0f}},
        {"remainder", op_remainder_, {0.25f, 0.0f, 0.0f, 0.0f}},
        {"atan2", op_atan2_, {0.124354996f, -2.3561945f, 1.10714877f, 0.785398185f}},
        {"hypot", op_hypot_, {2.01556444f, 0.707106769f, 1.67705095f, 4.2426405f}},
        {"eq", op_eq_, {0.0f, 1.0f, 0.0f, 1.0f}},
        {"ne", op_ne_, {1.0f, 0.0f, 1.0f, 0.0f}},
        {"lt", op_lt_, {1.0f, 0.0f, 0.0f, 0.0f}},
        {"le", op_le_, {1.0f, 1.0f, 0.0f, 1.0f}},
        {"gt", op_gt_, {0.0f, 0.0f, 1.0f, 0.0f}},
        {"ge", op_ge_, {0.0f, 1.0f, 1.0f, 1.0f}},
        {"logical_and", op_logical_and_, {1.0f, 1.0f, 1.0f, 1.0f}},
        {"logical_or", op_logical_or_, {1.0f, 1.0f, 1.0f, 1.0f}},
        {"logical_xor", op_logical_xor_, {0.0f, 0.0f, 0.0f, 0.0f}},
},
  bits[] = {
      {"bitwise_and", op_bitwise_and_, {4.0f, 1.0f, 0.0f, 0.0f}},
      {"bitwise_or", op_bitwise_or_, {6.0f, -5.0f, 14.0f, 1.0f}},
      {"bitwise_xor", op_bitwise_xor_, {2.0f, -6.0f, 14.0f, 1.0f}},
      {"bitwise_left_shift", op_bitwise_left_shift_, {96.0f, -56.0f, 48.0f, 0.0f}},
      {"bitwise_right_shift", op_bitwise_right_shift_, {0.0f, -1.0f, 3.0f, 0.0f}},
};

/* ---- every function ---- */

static tensor_t *make(context_t *ctx, const float *elements)
{
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, N, 1, 1), elements, &x));
    return x;
}

static void check(context_t *ctx, const tensor_t *x, const char *name, const float *wanted)
{
    float given[N];
    tensor_t *wide = NULL;
    CHECK_OK(ctx, op_cast(ctx, x, DTYPE_F32, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, given, sizeof given));
    tensor_release(wide);
    for (int i = 0; i < N; i++)
        if (!(isnan(wanted[i]) && isnan(given[i])) &&
            !(fabsf(given[i] - wanted[i]) <= 2e-6f * (1 + fabsf(wanted[i]))))
            fail_msg("%s_ leaves %.9g at %d, wanted %.9g", name, (double)given[i], i,
                     (double)wanted[i]);
}

/* The tensor to write: a whole tensor, a column of a larger one, or a blocked tensor. */
typedef enum target_kind { WHOLE, COLUMN, BLOCKED, N_TARGETS } target_kind_t;

typedef struct target {
    tensor_t *base, *x;
} target_t;

static target_t begin(context_t *ctx, target_kind_t kind, const float *elements)
{
    target_t target = {make(ctx, elements), NULL};
    if (kind == WHOLE) {
        target.x = tensor_retain(target.base);
    } else if (kind == COLUMN) {
        tensor_release(target.base);
        tensor_t *column = NULL;
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(1, N, 2, 1), 7, &target.base));
        CHECK_OK(ctx, tensor_narrow(ctx, target.base, 2, 1, 1, &target.x));
        column = make(ctx, elements);
        CHECK_OK(ctx, tensor_copy(ctx, target.x, column));
        tensor_release(column);
    } else {
        CHECK_OK(ctx, op_reorder(ctx, target.base, "aBcd16b", &target.x));
    }
    return target;
}

static void end(context_t *ctx, target_kind_t kind, target_t *target)
{
    float elements[2 * N];
    CHECK_OK(ctx, tensor_read(ctx, target->base, elements, sizeof elements));
    for (int i = 0; kind == COLUMN && i < N; i++) assert_true(elements[2 * i] == 7);
    if (kind == BLOCKED) assert_int_equal(tensor_layout(target->x), LAYOUT_MKLDNN);
    tensor_release(target->x);
    tensor_release(target->base);
}

static void functions_of_one_tensor_leave_what_pytorch_leaves(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t k = 0; k < sizeof ones / sizeof *ones; k++)
        for (target_kind_t kind = WHOLE; kind < N_TARGETS; kind++) {
            target_t target = begin(ctx, kind, xs);
            CHECK_OK(ctx, ones[k].run(ctx, target.x));
            check(ctx, target.x, ones[k].name, ones[k].values);
            end(ctx, kind, &target);
        }
}

#define ARGUMENTS_NONE
#define ARGUMENTS_FLAG(name) , is_tanh
#define ARGUMENTS_ONE(name, initial) , a
#define ARGUMENTS_TWO(name, initial, name2, initial2) , a, b

/* Returns false if the function has no operator. */
static bool run_activation(context_t *ctx, eltwise_t eltwise, double a, double b, tensor_t *x)
{
    const bool is_tanh = eltwise == ELTWISE_GELU_TANH;
    switch (is_tanh ? ELTWISE_GELU : eltwise) {
#define ACTIVATION(name, NAME, layer, parameters, ...)                                             \
    case ELTWISE_##NAME:                                                                           \
        CHECK_OK(ctx, op_##name##_(ctx, x ARGUMENTS_##parameters));                                \
        return true;
#define POST_ONLY(...)
#include "kernels/elementwise/eltwise.def"
    default: return false;
    }
}

static void floats(const double *numbers, float *out)
{
    for (int i = 0; i < N; i++) out[i] = (float)numbers[i];
}

static void activations_leave_their_values(void **state)
{
    context_t *ctx = fixture_context(state);
    const eltwise_values_t *rows = eltwise_values(TESSERA_SOURCE_DIR);
    int n_run = 0;
    for (int r = 0; r < ELTWISE_FUNCTIONS; r++)
        for (target_kind_t kind = WHOLE; kind < N_TARGETS; kind++) {
            float x[N], wanted[N];
            floats(rows[r].x, x);
            floats(rows[r].value, wanted);
            target_t target = begin(ctx, kind, x);
            if (run_activation(ctx, rows[r].eltwise, rows[r].alpha, rows[r].beta, target.x)) {
                check(ctx, target.x, rows[r].name, wanted);
                n_run++;
            }
            end(ctx, kind, &target);
        }
    assert_int_equal(n_run, (ELTWISE_FUNCTIONS - 2) * N_TARGETS); /* not square and linear */
}

static void functions_of_two_tensors_leave_what_pytorch_leaves(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = make(ctx, ys);
    for (size_t k = 0; k < sizeof twos / sizeof *twos; k++)
        for (target_kind_t kind = WHOLE; kind < N_TARGETS; kind++) {
            target_t target = begin(ctx, kind, xs);
            CHECK_OK(ctx, twos[k].run(ctx, target.x, y));
            check(ctx, target.x, twos[k].name, twos[k].values);
            end(ctx, kind, &target);
        }
    tensor_release(y);
}

static void bits_are_those_of_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(N), (const int32_t[]){4, 3, 2, 1}, &y));
    for (size_t k = 0; k < sizeof bits / sizeof *bits; k++) {
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_S32, SHAPE(N), (const int32_t[]){6, -7, 12, 0}, &x));
        CHECK_OK(ctx, bits[k].run(ctx, x, y));
        assert_int_equal(tensor_dtype(x), DTYPE_S32);
        check(ctx, x, bits[k].name, bits[k].values);
        tensor_release(x);
    }
    CHECK_OK(ctx, op_bitwise_not_(ctx, y));
    check(ctx, y, "bitwise_not", (const float[]){-5, -4, -3, -2});
    tensor_release(y);
}

/* ---- other elements ---- */

static void check_integers(context_t *ctx, const tensor_t *x, const int64_t *wanted)
{
    int64_t given[16];
    tensor_t *wide = NULL;
    CHECK_OK(ctx, op_cast(ctx, x, DTYPE_S64, &wide));
    CHECK_OK(ctx, tensor_read(ctx, wide, given, sizeof given));
    for (int64_t i = 0; i < tensor_numel(x); i++) assert_int_equal(given[i], wanted[i]);
    tensor_release(wide);
}

#define INTEGERS(...)                                                                              \
    (const int64_t[])                                                                              \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static tensor_t *ramp(context_t *ctx, dtype_t dtype, double first, int64_t rows, int64_t columns)
{
    tensor_t *line = NULL, *x = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, dtype, rows * columns, first, &line));
    CHECK_OK(ctx, tensor_view(ctx, line, SHAPE(rows, columns), &x));
    tensor_release(line);
    return x;
}

static tensor_t *indices(context_t *ctx, int64_t a, int64_t b)
{
    tensor_t *index = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(2), (const int64_t[]){a, b}, &index));
    return index;
}

/* Compares with PyTorch: x = torch.arange(6).reshape(2, 3); i = torch.tensor([2, 0]); s =
 * torch.arange(10, 14).view(2, 2); x.index_add_(1, i, s, alpha=2), index_copy_(1, i, s),
 * index_fill_(1, i, -1) */
static void slices_are_put_by_an_index(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *index = indices(ctx, 2, 0), *twice = indices(ctx, 1, 1), *out = NULL;
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        const dtype_t dtype = is_whole ? DTYPE_S32 : DTYPE_F32;
        tensor_t *x = ramp(ctx, dtype, 0, 2, 3), *src = ramp(ctx, dtype, 10, 2, 2);
        CHECK_OK(ctx, op_index_add(ctx, x, 1, index, src, 2, &out));
        check_integers(ctx, out, INTEGERS(22, 1, 22, 29, 4, 29));
        tensor_release(out);
        CHECK_OK(ctx, op_index_add(ctx, x, -1, twice, src, 1, &out));
        check_integers(ctx, out, INTEGERS(0, 22, 2, 3, 29, 5));
        tensor_release(out);
        CHECK_OK(ctx, op_index_copy(ctx, x, 1, index, src, &out));
        check_integers(ctx, out, INTEGERS(11, 1, 10, 13, 4, 12));
        tensor_release(out);
        CHECK_OK(ctx, op_index_fill(ctx, x, 1, index, -1, &out));
        check_integers(ctx, out, INTEGERS(-1, 1, -1, -1, 4, -1));
        tensor_release(out);
        CHECK_OK(ctx, op_index_add_(ctx, x, 1, index, src, 2));
        check_integers(ctx, x, INTEGERS(22, 1, 22, 29, 4, 29));
        CHECK_OK(ctx, op_index_copy_(ctx, x, 1, index, src));
        check_integers(ctx, x, INTEGERS(11, 1, 10, 13, 4, 12));
        CHECK_OK(ctx, op_index_fill_(ctx, x, 1, index, -1));
        check_integers(ctx, x, INTEGERS(-1, 1, -1, -1, 4, -1));
        tensor_release(x);
        tensor_release(src);
    }
    tensor_release(index);
    tensor_release(twice);
}

static void elements_are_put_copied_and_filled(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, DTYPE_F32, 0, 2, 3), *src = ramp(ctx, DTYPE_S64, 10, 2, 1);
    tensor_t *index = NULL, *mask = NULL, *put = ramp(ctx, DTYPE_F32, 20, 1, 3), *row = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(1, 3), INTEGERS(1, 0, 1), &index));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(3), (const bool[]){false, true, true}, &mask));
    CHECK_OK(ctx, op_scatter_(ctx, x, 0, index, put, SCATTER_ADD));
    check_integers(ctx, x, INTEGERS(0, 22, 2, 23, 4, 27));
    CHECK_OK(ctx, op_scatter_value_(ctx, x, 0, index, -3, SCATTER_NONE));
    check_integers(ctx, x, INTEGERS(0, -3, 2, -3, 4, -3));
    CHECK_OK(ctx, op_masked_fill_(ctx, x, mask, 9));
    check_integers(ctx, x, INTEGERS(0, 9, 9, -3, 9, 9));
    CHECK_OK(ctx, op_copy_(ctx, x, src));
    check_integers(ctx, x, INTEGERS(10, 10, 10, 11, 11, 11));
    CHECK_OK(ctx, op_select(ctx, x, 0, -1, &row));
    CHECK_OK(ctx, op_fill_(ctx, row, 5));
    check_integers(ctx, x, INTEGERS(10, 10, 10, 5, 5, 5));
    tensor_t *const all[] = {x, src, index, mask, put, row};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

/* ---- visibility ---- */

/* x[1:] += x[:-1] must read all operands before it writes: 0, 1, 2, ... becomes 0, 1, 3, 5, ... */
static void operands_among_the_target_are_read_first(void **state)
{
    enum { LENGTH = 1000 };
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *front = NULL, *back = NULL;
    float elements[LENGTH];
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, LENGTH, 0, &x));
    CHECK_OK(ctx, op_slice(ctx, x, 0, 0, LENGTH - 1, 1, &front));
    CHECK_OK(ctx, op_slice(ctx, x, 0, 1, LENGTH, 1, &back));
    CHECK_OK(ctx, op_add_(ctx, back, front));
    CHECK_OK(ctx, op_mul_(ctx, x, x));
    CHECK_OK(ctx, tensor_read(ctx, x, elements, sizeof elements));
    for (int i = 1; i < LENGTH; i++) assert_true(elements[i] == (float)((2 * i - 1) * (2 * i - 1)));
    tensor_release(x);
    tensor_release(front);
    tensor_release(back);
}

static void snapshots_and_clones_keep_their_elements(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = make(ctx, xs), *clone = NULL, *snapshot = NULL;
    const float doubled[N] = {0.5f, -1.0f, 3.0f, 6.0f};
    CHECK_OK(ctx, op_to_mkldnn(ctx, x, &snapshot));
    CHECK_OK(ctx, tensor_clone(ctx, x, &clone));
    CHECK_OK(ctx, op_add_(ctx, x, x));
    check(ctx, x, "add", doubled);
    check(ctx, snapshot, "snapshot", xs);
    check(ctx, clone, "clone", xs);
    CHECK_OK(ctx, op_add_(ctx, snapshot, clone));
    check(ctx, snapshot, "add", doubled);
    check(ctx, x, "other", doubled);
    tensor_release(x);
    tensor_release(clone);
    tensor_release(snapshot);
}

static void a_packed_weight_follows_what_is_written(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *linear = NULL;
    tensor_t *x = NULL, *before = NULL, *after = NULL, *doubled = NULL;
    double difference = 1;
    CHECK_OK(ctx, layer_linear(ctx, 32, 64, false, &linear));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 32), &x));
    CHECK_OK(ctx, module_mkldnn(ctx, linear,
                                &(mkldnn_options_t){.example = (const tensor_t *[]){x, NULL}}));
    CHECK_OK(ctx, module_forward(ctx, linear, x, &before));
    CHECK_OK(ctx, op_mul_scalar_(ctx, module_parameter(linear, "weight"), 2));
    CHECK_OK(ctx, module_forward(ctx, linear, x, &after));
    CHECK_OK(ctx, op_mul_scalar(ctx, before, 2, &doubled));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, after, doubled, &difference));
    assert_true(difference < 1e-6);
    tensor_t *const all[] = {x, before, after, doubled};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
    module_release(linear);
}

/* If no element is read after it was written, the kernel writes to the target itself. */
static void a_kernel_that_may_writes_the_target(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    tensor_t *x = make(ctx, xs), *y = make(ctx, ys);
    const void *place = NULL, *later = NULL;
    CHECK_OK(ctx, tensor_data(ctx, x, &place));
    for (int i = 0; i < 2; i++) {
        counting_fail(&fixture->memory, 0, false);
        CHECK_OK(ctx, op_tanh_(ctx, x));
        CHECK_OK(ctx, op_add_(ctx, x, y));
    }
    assert_int_equal(atomic_load(&fixture->memory.requests), 0);
    CHECK_OK(ctx, tensor_data(ctx, x, &later));
    assert_ptr_equal(place, later);
    tensor_release(x);
    tensor_release(y);
}

/* ---- dtypes and errors ---- */

static void a_target_keeps_its_dtype(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *half = NULL, *wide = make(ctx, ys), *whole = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BF16, SHAPE(1, N, 1, 1), 1, &half));
    CHECK_OK(ctx, op_add_(ctx, half, wide));
    assert_int_equal(tensor_dtype(half), DTYPE_BF16);
    check(ctx, half, "add", (const float[]){3, 0.5f, 1.75f, 4});
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_U8, N, 254, &whole));
    CHECK_OK(ctx, op_add_integer_(ctx, whole, 1));
    check_integers(ctx, whole, INTEGERS(255, 0, 1, 2));
    tensor_release(half);
    tensor_release(wide);
    tensor_release(whole);
}

static void tensors_that_cannot_be_written_are_refused_and_unchanged(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, DTYPE_S32, 0, 2, 3), *wide = NULL, *truth = NULL, *mask = NULL;
    CHECK_FAILS(ctx, op_sqrt_(ctx, x), STATUS_INVALID_ARGUMENT,
                "sqrt_: the result is f32[2,3], the target s32[2,3] cannot hold its dtype");
    CHECK_FAILS(ctx, op_add_scalar_(ctx, x, 0.5), STATUS_INVALID_ARGUMENT, "cannot hold its dtype");
    CHECK_OK(ctx, op_expand(ctx, x, SHAPE(2, 2, 3), &wide));
    CHECK_FAILS(ctx, op_add_(ctx, x, wide), STATUS_INVALID_ARGUMENT,
                "add_: the result is s32[2,2,3], the target s32[2,3], equal sizes are");
    CHECK_FAILS(ctx, op_neg_(ctx, wide), STATUS_INVALID_ARGUMENT, "elements that share memory");
    CHECK_FAILS(ctx, op_copy_(ctx, x, wide), STATUS_INVALID_ARGUMENT, "it does not broadcast to x");
    CHECK_OK(ctx, op_eq(ctx, x, x, &truth));
    CHECK_FAILS(ctx, op_add_(ctx, truth, x), STATUS_INVALID_ARGUMENT, "cannot hold its dtype");
    CHECK_OK(ctx, op_eq(ctx, wide, wide, &mask));
    CHECK_FAILS(ctx, op_masked_fill_(ctx, x, mask, 1), STATUS_INVALID_ARGUMENT,
                "masked_fill_: mask is");
    CHECK_FAILS(ctx, dispatch_run_in_place(ctx, ops_find("reshape"), NULL, x, 0, NULL),
                STATUS_INVALID_ARGUMENT, "needs one result of known sizes");
    CHECK_FAILS(ctx,
                dispatch_run_in_place(ctx, ops_find("add"), NULL, x, OP_MAX_INPUTS,
                                      (const tensor_t *[]){x}),
                STATUS_INVALID_ARGUMENT, "operands, 0 to 63 are possible");
    check_integers(ctx, x, INTEGERS(0, 1, 2, 3, 4, 5));
    tensor_t *const all[] = {x, wide, truth, mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void an_index_that_does_not_fit_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, DTYPE_S32, 0, 2, 3), *src = ramp(ctx, DTYPE_S32, 10, 2, 2);
    tensor_t *index = indices(ctx, 2, 0), *out = NULL;
    CHECK_FAILS(ctx, op_index_add(ctx, x, 2, index, src, 1, &out), STATUS_INVALID_ARGUMENT,
                "index_add: dim 2 of s32[2,3], out of range");
    CHECK_FAILS(ctx, op_index_add(ctx, x, 0, index, src, 1, &out), STATUS_INVALID_ARGUMENT,
                "x's dtype and sizes are needed");
    CHECK_FAILS(ctx, op_index_add(ctx, x, 1, index, src, 0.5, &out), STATUS_INVALID_ARGUMENT,
                "a whole number of 32 bits is needed");
    CHECK_FAILS(ctx, op_index_fill(ctx, x, 1, src, 1, &out), STATUS_INVALID_ARGUMENT,
                "index is s32[2,2], rank 0 or 1 is needed");
    CHECK_FAILS(ctx, op_index_copy_(ctx, x, 1, NULL, src), STATUS_INVALID_ARGUMENT, "index");
    tensor_release(x);
    tensor_release(src);
    tensor_release(index);
}

/* Temporaries must be released, even in a scope, which releases them otherwise only at its end. */
static void scopes_keep_nothing_but_results(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = ramp(ctx, DTYPE_F32, 0, 2, 3), *index = indices(ctx, 2, 0), *out = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, op_index_fill(ctx, x, 1, index, 7, &out));
    CHECK_OK(ctx, op_index_fill_(ctx, x, 1, index, 8));
    CHECK_OK(ctx, op_fill_(ctx, out, 1));
    scope_keep(ctx, out);
    CHECK_OK(ctx, scope_end(ctx));
    check_integers(ctx, out, INTEGERS(1, 1, 1, 1, 1, 1));
    tensor_release(out);
    tensor_release(x);
    tensor_release(index);
}

static status_t write_all(context_t *ctx)
{
    tensor_t *x = NULL, *line = NULL, *index = NULL;
    status_t status = tensor_arange(ctx, DTYPE_F32, 6, 0, &line);
    if (status == STATUS_OK) status = op_reshape(ctx, line, SHAPE(2, 3), &x);
    if (status == STATUS_OK)
        status = tensor_from(ctx, DTYPE_S64, SHAPE(2), (const int64_t[]){2, 0}, &index);
    if (status == STATUS_OK) status = op_add_scalar_(ctx, x, 1);
    if (status == STATUS_OK) status = op_index_fill_(ctx, x, 1, index, 3);
    if (status == STATUS_OK) status = op_fill_(ctx, x, 2);
    tensor_release(x);
    tensor_release(line);
    tensor_release(index);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(write_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(functions_of_one_tensor_leave_what_pytorch_leaves),
        TEST(activations_leave_their_values),
        TEST(functions_of_two_tensors_leave_what_pytorch_leaves),
        TEST(bits_are_those_of_pytorch),
        TEST(slices_are_put_by_an_index),
        TEST(elements_are_put_copied_and_filled),
        TEST(operands_among_the_target_are_read_first),
        TEST(snapshots_and_clones_keep_their_elements),
        TEST(a_packed_weight_follows_what_is_written),
        TEST(a_kernel_that_may_writes_the_target),
        TEST(a_target_keeps_its_dtype),
        TEST(tensors_that_cannot_be_written_are_refused_and_unchanged),
        TEST(an_index_that_does_not_fit_is_refused),
        TEST(scopes_keep_nothing_but_results),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("test_in_place", tests, NULL, NULL);
}
