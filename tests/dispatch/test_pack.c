/* A custom operator whose kernel packs its weight, and has a state with a destructor:
 *
 *   y[n][k] = sum(c) x[n][c] * weight[k][c]
 *
 * The packed weight is transposed panels of WIDTH rows: packed[k / WIDTH][c][k % WIDTH]. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "module/mkldnn.h"
#include "ops/ops.h"

enum { N = 3, C = 5, K = 11, WIDTH = 4, PANELS = 3 };

static int n_states, n_destroyed;

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"weight", ROLE_WEIGHT, false, false}};
enum { X, WEIGHT };

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    const tensor_info_t *x = call->in[X], *weight = call->in[WEIGHT];
    (void)out_n;
    if (x->rank != 2 || weight->rank != 2 || x->sizes[1] != weight->sizes[1])
        return context_fail(ctx, STATUS_INVALID_ARGUMENT, "panels: wrong sizes");
    out[0] = info_dense(x->dtype, SHAPE(x->sizes[0], weight->sizes[0]));
    return STATUS_OK;
}

/* State of a prepared operator. */
typedef struct panels_state {
    int *width;
} panels_state_t;

static void destroy(void *state)
{
    panels_state_t *panels = state;
    n_destroyed++;
    free(panels->width);
}

static status_t prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *weight = call->in[WEIGHT];
    const int64_t n_panels = (weight->sizes[0] + WIDTH - 1) / WIDTH;
    panels_state_t *panels = NULL;
    TRY(prepared_make_state(ctx, prepared, sizeof *panels, &panels));
    n_states++;
    if (weight->dtype != DTYPE_F32) return prepared_decline(prepared, "f32 is needed");
    panels->width = malloc(sizeof *panels->width);
    assert_non_null(panels->width);
    *panels->width = WIDTH;
    TRY(ops_prepare_dense(ctx, call, prepared));
    return prepared_want_packed(ctx, prepared, WEIGHT, n_panels * weight->sizes[1] * WIDTH, 1, 1,
                                (const int64_t[]){WIDTH});
}

static status_t pack(context_t *ctx, const tensor_info_t *from, const void *bytes,
                     const tensor_info_t *want, void *out)
{
    const int64_t width = format_numbers(&want->format)[0], c = from->sizes[1];
    const float *weight = bytes;
    float *packed = out;
    (void)ctx;
    memset(out, 0, info_bytes(want));
    for (int64_t k = 0; k < from->sizes[0]; k++)
        for (int64_t i = 0; i < c; i++)
            packed[(k / width * c + i) * width + k % width] = weight[k * c + i];
    return STATUS_OK;
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const panels_state_t *panels = prepared_state(prepared);
    const tensor_info_t *y_info = prepared_output(prepared, 0);
    const int64_t width = *panels->width, c = prepared_input(prepared, X)->sizes[1];
    const int64_t n = y_info->sizes[0], k = y_info->sizes[1];
    const float *x = in[X], *packed = in[WEIGHT];
    float *y = out[0];
    (void)ctx, (void)scratch;
    for (int64_t row = 0; row < n; row++)
        for (int64_t first = 0; first < k; first += width) {
            float sums[WIDTH] = {0};
            for (int64_t i = 0; i < c; i++)
                for (int64_t j = 0; j < width; j++)
                    sums[j] += x[row * c + i] * packed[(first * c) + i * width + j];
            for (int64_t j = 0; j < width && first + j < k; j++) y[row * k + first + j] = sums[j];
        }
    return STATUS_OK;
}

static status_t run_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                         void *const *out, void *scratch)
{
    const int64_t n = prepared_output(prepared, 0)->sizes[0];
    (void)ctx, (void)in, (void)scratch;
    memset(out[0], 0, (size_t)n * K * sizeof(double));
    return STATUS_OK;
}

static const kernel_t panels = {
    .name = "panels", .prepare = prepare, .run = run, .pack = pack, .destroy = destroy};
static const kernel_t rows = {.name = "rows", .prepare = ops_prepare_dense, .run = run_rows};
static const kernel_t *const kernels[] = {&panels, &rows, NULL};
static const opdef_t op = {.name = "panels",
                           .preference = OP_DENSE,
                           .n_operands = 2,
                           .operands = operands,
                           .n_outputs = 1,
                           .infer = infer,
                           .kernels = kernels};

/* ---- results ---- */

static float x_at(int i)
{
    return (float)(i % 7 - 3) / 2.0f;
}

static float weight_at(int i)
{
    return (float)(i % 11 - 4) / 4.0f;
}

static void make_operands(context_t *ctx, tensor_t **out_x, tensor_t **out_weight)
{
    float x[N * C], weight[K * C];
    for (int i = 0; i < N * C; i++) x[i] = x_at(i);
    for (int i = 0; i < K * C; i++) weight[i] = weight_at(i);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(N, C), x, out_x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(K, C), weight, out_weight));
}

/* Compares y with `times` the product, which is computed in double. */
static void check_product(context_t *ctx, const tensor_t *y, double times)
{
    float elements[N * K];
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int n = 0; n < N; n++)
        for (int k = 0; k < K; k++) {
            double sum = 0.0;
            for (int c = 0; c < C; c++)
                sum += (double)x_at(n * C + c) * (double)weight_at(k * C + c);
            assert_float_equal(elements[n * K + k], (float)(times * sum), 1e-6f);
        }
}

static void check_counts(context_t *ctx, uint64_t copies, uint64_t packed)
{
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters.copies[CAUSE_WEIGHT], copies);
    assert_int_equal(counters.reorders[CAUSE_WEIGHT], 0);
    assert_int_equal(counters.weights_packed, packed);
    counters_reset(ctx);
}

static status_t multiply(context_t *ctx, const tensor_t *x, const tensor_t *weight, tensor_t **out)
{
    return dispatch_run(ctx, &op, NULL, 2, (const tensor_t *[]){x, weight}, NULL, out);
}

static void a_weight_that_is_not_marked_is_packed_in_each_call(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *weight = NULL, *y = NULL;
    make_operands(ctx, &x, &weight);
    for (int i = 0; i < 4; i++) {
        if (i == 2) CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_PER_OP));
        CHECK_OK(ctx, multiply(ctx, x, weight, &y));
        check_product(ctx, y, 1.0);
        check_counts(ctx, 1, 0);
        tensor_release(y);
    }
    tensor_release(weight);
    tensor_release(x);
}

static void a_weight_with_gaps_is_gathered_first(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *weight = NULL, *turned = NULL, *copy = NULL, *view = NULL, *y = NULL;
    make_operands(ctx, &x, &weight);
    CHECK_OK(ctx, op_transpose(ctx, weight, 0, 1, &turned));
    CHECK_OK(ctx, tensor_contiguous(ctx, turned, &copy));
    CHECK_OK(ctx, op_transpose(ctx, copy, 0, 1, &view));
    CHECK_OK(ctx, multiply(ctx, x, view, &y));
    check_product(ctx, y, 1.0);
    tensor_release(y);
    tensor_release(view);
    tensor_release(copy);
    tensor_release(turned);
    tensor_release(weight);
    tensor_release(x);
}

/* ---- in modules: the product twice, with one weight ---- */

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    const tensor_t *weight = module_parameter(self, "weight");
    tensor_t *a = NULL, *b = NULL;
    (void)n_in;
    *n_out = 1;
    status_t status = multiply(ctx, in[0], weight, &a);
    if (status == STATUS_OK) status = multiply(ctx, in[0], weight, &b);
    if (status == STATUS_OK) status = op_add(ctx, a, b, out);
    tensor_release(b);
    tensor_release(a);
    return status;
}

static void make_net(context_t *ctx, tensor_t **out_x, module_t **out_net)
{
    tensor_t *weight = NULL;
    make_operands(ctx, out_x, &weight);
    CHECK_OK(ctx, module_create(ctx, "Net", out_net));
    CHECK_OK(ctx, module_set_parameter(ctx, *out_net, "weight", weight));
    CHECK_OK(ctx, module_set_forward(ctx, *out_net, "forward", forward));
    tensor_release(weight);
}

static void run_net(context_t *ctx, module_t *net, const tensor_t *x)
{
    tensor_t *y = NULL;
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    check_product(ctx, y, 2.0);
    tensor_release(y);
}

static void a_marked_weight_is_packed_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL;
    make_net(ctx, &x, &net);
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    counters_reset(ctx);
    run_net(ctx, net, x);
    check_counts(ctx, 1, 1);
    dispatch_clear_cache(ctx);
    run_net(ctx, net, x);
    check_counts(ctx, 0, 0);
    tensor_release(x);
    module_release(net);
}

static void a_write_to_the_weight_is_packed_anew(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *y = NULL;
    float elements[N * K];
    make_net(ctx, &x, &net);
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    run_net(ctx, net, x);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(net, "weight"), 0.0));
    CHECK_OK(ctx, module_forward(ctx, net, x, &y));
    CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
    for (int i = 0; i < N * K; i++) assert_float_equal(elements[i], 0, 0);
    tensor_release(y);
    tensor_release(x);
    module_release(net);
}

static void a_traced_and_a_frozen_module_pack_once_for_their_plan(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL;
    make_net(ctx, &x, &net);
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, module_mkldnn(ctx, net, NULL));
    run_net(ctx, net, x);
    counters_reset(ctx);
    run_net(ctx, net, x);
    check_counts(ctx, 0, 0);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    run_net(ctx, frozen, x);
    counters_reset(ctx);
    run_net(ctx, frozen, x);
    check_counts(ctx, 0, 0);
    module_release(frozen);
    tensor_release(x);
    module_release(net);
}

/* Computes x times its transpose, so the weight is an input of the graph and not a parameter. */
static status_t forward_square(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                               int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return multiply(ctx, in[0], in[0], out);
}

static void a_plan_packs_a_weight_that_it_is_given_in_each_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL, *weight = NULL, *y = NULL;
    float elements[N * N];
    make_operands(ctx, &x, &weight);
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward_square));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    for (int run = 0; run < 3; run++) {
        counters_t counters;
        counters_reset(ctx);
        CHECK_OK(ctx, module_forward(ctx, net, x, &y));
        counters_read(ctx, &counters);
        assert_int_equal(counters_copies(&counters), 1);
        CHECK_OK(ctx, tensor_read(ctx, y, elements, sizeof elements));
        for (int i = 0; i < N * N; i++) {
            double sum = 0.0;
            for (int c = 0; c < C; c++)
                sum += (double)x_at(i / N * C + c) * (double)x_at(i % N * C + c);
            assert_float_equal(elements[i], (float)sum, 1e-6f);
        }
        tensor_release(y);
    }
    tensor_release(weight);
    tensor_release(x);
    module_release(net);
}

/* ---- formats ---- */

static void the_format_is_text_that_parses_to_itself(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t numbers[] = {4, 0, 7};
    const format_t format = format_owned(2, 60, "panels/panels", 1, 3, numbers);
    const format_t other = format_owned(2, 60, "panels/rows", 1, 3, numbers);
    const format_t later = format_owned(2, 60, "panels/panels", 2, 3, numbers);
    format_t parsed;
    char text[FORMAT_TEXT_MAX];
    CHECK_OK(ctx, format_parse(ctx, format_text(&format, text), &parsed));
    assert_true(format_same(&parsed, &format, (const int64_t[]){K, C}));
    assert_false(format_same(&other, &format, (const int64_t[]){K, C}));
    assert_false(format_same(&later, &format, (const int64_t[]){K, C}));
    assert_int_equal(format_numbers(&parsed)[2], 7);
    assert_null(format_numbers(&(format_t){.kind = FORMAT_TAG}));
    CHECK_OK(ctx, format_parse(ctx, "opaque2x60x20603x4", &parsed));
    assert_null(format_numbers(&parsed));
}

/* ---- data of a prepared operator ---- */

static void select_once(context_t *ctx, dtype_t dtype, const char *kernel)
{
    const tensor_info_t x = info_dense(dtype, SHAPE(N, C)), weight = info_dense(dtype, SHAPE(K, C));
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select(ctx, &op, NULL, 2, (const tensor_info_t *const[]){&x, &weight},
                                  POLICY_AUTO, &prepared));
    assert_string_equal(prepared_kernel(prepared), kernel);
    prepared_release(prepared);
}

static void a_state_is_destroyed_once_also_of_a_kernel_that_declines(void **state)
{
    context_t *ctx = fixture_context(state);
    n_states = n_destroyed = 0;
    select_once(ctx, DTYPE_F32, "panels");
    assert_int_equal(n_states, 1);
    assert_int_equal(n_destroyed, 1);
    select_once(ctx, DTYPE_F64, "rows");
    assert_int_equal(n_states, 2);
    assert_int_equal(n_destroyed, 2);
}

static status_t multiply_anew(context_t *ctx)
{
    tensor_t *x = NULL, *weight = NULL, *y = NULL;
    status_t status = tensor_zeros(ctx, DTYPE_F32, SHAPE(N, C), &x);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(K, C), &weight);
    if (status == STATUS_OK) status = multiply(ctx, x, weight, &y);
    tensor_release(y);
    tensor_release(weight);
    tensor_release(x);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    n_states = n_destroyed = 0;
    check_every_allocation(multiply_anew);
    assert_true(n_states > 0);
    assert_int_equal(n_destroyed, n_states);
}

/* ---- errors ---- */

/* Arguments that prepare_wrong passes on. Each case of the test below makes one of them wrong. */
static struct {
    int index, version, n_numbers;
    int64_t elements, number;
    bool has_numbers, makes_two_states;
} wrong;

static status_t prepare_wrong(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    void *data = NULL;
    TRY(ops_prepare_dense(ctx, call, prepared));
    TRY(prepared_make_state(ctx, prepared, 1, &data));
    if (wrong.makes_two_states) TRY(prepared_make_state(ctx, prepared, 1, &data));
    return prepared_want_packed(ctx, prepared, wrong.index, wrong.elements, wrong.version,
                                wrong.n_numbers, wrong.has_numbers ? &wrong.number : NULL);
}

static void requests_to_pack_in_an_invalid_way_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    kernel_t kernel = {.name = "wrong", .prepare = prepare_wrong, .run = run, .pack = pack};
    const kernel_t *const wrong_kernels[] = {&kernel, NULL};
    opdef_t wrong_op = op;
    tensor_t *in[2] = {NULL, NULL}, *y = NULL;
    wrong_op.kernels = wrong_kernels;
    make_operands(ctx, &in[0], &in[1]);
#define REFUSED(part, ...)                                                                         \
    context_clear_error(ctx);                                                                      \
    memset(&wrong, 0, sizeof wrong);                                                               \
    wrong.index = WEIGHT, wrong.elements = 60, __VA_ARGS__;                                        \
    CHECK_FAILS(ctx, dispatch_run(ctx, &wrong_op, NULL, 2, (const tensor_t *const *)in, NULL, &y), \
                STATUS_INVALID_ARGUMENT, part)
    REFUSED("panels: operand 0 is not a weight, only weights are packed", wrong.index = X);
    REFUSED("panels: operand 2 is not a weight, only weights are packed", wrong.index = 2);
    REFUSED("panels: a packed weight of 0 elements, 1 or more are needed", wrong.elements = 0);
    REFUSED("panels: version -1 of a packed weight, must not be negative", wrong.version = -1);
    REFUSED("panels: 99 numbers of a packed weight, 0 to 9 are possible", wrong.n_numbers = 99);
    REFUSED("panels: numbers is NULL", wrong.n_numbers = 1);
    REFUSED("panels: number -4 of a packed weight, must not be negative", wrong.n_numbers = 1,
            wrong.has_numbers = true, wrong.number = -4);
    REFUSED("overflow", wrong.elements = INT64_MAX);
    REFUSED("panels: prepared_make_state was called before", wrong.makes_two_states = true);
    kernel.pack = NULL;
    REFUSED("panels: kernel wrong has no pack", wrong.version = 0);
#undef REFUSED
    assert_null(y);
    assert_null(prepared_state(NULL));
    tensor_release(in[1]);
    tensor_release(in[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_weight_that_is_not_marked_is_packed_in_each_call),
        TEST(a_weight_with_gaps_is_gathered_first),
        TEST(a_marked_weight_is_packed_once),
        TEST(a_write_to_the_weight_is_packed_anew),
        TEST(a_traced_and_a_frozen_module_pack_once_for_their_plan),
        TEST(a_plan_packs_a_weight_that_it_is_given_in_each_run),
        TEST(the_format_is_text_that_parses_to_itself),
        TEST(a_state_is_destroyed_once_also_of_a_kernel_that_declines),
        TEST(every_allocation_may_fail),
        TEST(requests_to_pack_in_an_invalid_way_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
