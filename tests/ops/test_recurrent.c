/* Recurrent operators: which kernel runs, packing of weights, and errors. test_reference.c and
 * test_conformance.c check results. */
#include "tests/support/support.h"

#include <string.h>

#include "ops/ops.h"
#include "tensor/storage_impl.h"
#include "tensor/tensor_impl.h"

enum { T = 5, N = 3, C = 7, H = 17, G = 4 };

/* ---- kernel selection ---- */

/* Checks which kernel is selected for f32 x[T][N][C] and these operands. */
static void check_policy(context_t *ctx, policy_t policy, const char *name, dtype_t dtype,
                         bool has_lengths, const recurrent_attrs_t *attrs, const char *kernel,
                         const char *reason)
{
    const opdef_t *op = ops_find(name);
    const int64_t rows = strcmp(name, "lstm") == 0 ? 4 * H : strcmp(name, "gru") == 0 ? 3 * H : H;
    const tensor_info_t none = {.dtype = DTYPE_NONE};
    const tensor_info_t x = info_dense(dtype, SHAPE(T, N, C));
    const tensor_info_t weight_ih = info_dense(dtype, SHAPE(rows, C));
    const tensor_info_t weight_hh = info_dense(dtype, SHAPE(rows, H));
    const tensor_info_t lengths = info_dense(DTYPE_S64, SHAPE(N));
    const tensor_info_t *const in[] = {
        &x,    &weight_ih, &weight_hh, &none, &none, &none, has_lengths ? &lengths : &none,
        &none, &none};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, dispatch_select(ctx, op, attrs, op->n_operands, in, policy, &prepared));
    assert_string_equal(prepared_kernel(prepared), kernel);
    if (strstr(prepared_reasons(prepared), reason) == NULL)
        fail_msg("%s: no \"%s\" in \"%s\"", name, reason, prepared_reasons(prepared));
    prepared_release(prepared);
}

static void check_kernel(context_t *ctx, const char *name, dtype_t dtype, bool has_lengths,
                         const recurrent_attrs_t *attrs, const char *kernel, const char *reason)
{
    check_policy(ctx, POLICY_AUTO, name, dtype, has_lengths, attrs, kernel, reason);
}

static void layers_of_the_usual_functions_run_by_a_kernel_of_our_own(void **state)
{
    context_t *ctx = fixture_context(state);
    recurrent_attrs_t attrs = {.reverse = true};
    check_kernel(ctx, "lstm", DTYPE_F32, false, NULL, "sequence", "");
    check_kernel(ctx, "gru", DTYPE_F32, false, NULL, "sequence", "");
    check_kernel(ctx, "lstm", DTYPE_F32, true, NULL, "sequence", "");
    check_kernel(ctx, "gru", DTYPE_F32, true, NULL, "sequence", "");
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "sequence", "");
    attrs = (recurrent_attrs_t){.batch_first = true};
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "sequence", "");
    check_kernel(ctx, "gru", DTYPE_F32, false, &attrs, "sequence", "");
}

static void calls_that_it_does_not_support_run_on_onednn(void **state)
{
    context_t *ctx = fixture_context(state);
    recurrent_attrs_t attrs = {.reset_before = true};
    check_kernel(ctx, "rnn", DTYPE_F32, false, NULL, "onednn", "");
    check_kernel(ctx, "gru", DTYPE_F32, false, &attrs, "onednn", "sequence: reset_before");
    attrs = (recurrent_attrs_t){.candidate = {.function = RECURRENT_RELU}};
    check_kernel(ctx, "rnn", DTYPE_F32, false, &attrs, "onednn", "");
    check_policy(ctx, POLICY_PER_OP, "lstm", DTYPE_F32, false, NULL, "onednn",
                 "sequence: oneDNN alone under policy per_op");
}

static void other_layers_run_by_loops_of_our_own(void **state)
{
    context_t *ctx = fixture_context(state);
    recurrent_attrs_t attrs = {.clip = 1.0};
    check_kernel(ctx, "lstm", DTYPE_F64, false, NULL, "native", "onednn: f32 is needed");
    check_kernel(ctx, "lstm", DTYPE_F64, false, NULL, "native", "sequence: f32 is needed");
    check_kernel(ctx, "rnn", DTYPE_F32, true, NULL, "native",
                 "onednn: sequences of several lengths");
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native", "onednn: clip");
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native", "sequence: clip");
    attrs = (recurrent_attrs_t){.input_forget = true};
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native", "onednn: input_forget");
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native", "sequence: input_forget");
    attrs = (recurrent_attrs_t){.gate = {.function = RECURRENT_RELU}};
    check_kernel(ctx, "gru", DTYPE_F32, false, &attrs, "native", "onednn: gates are no sigmoid");
    check_kernel(ctx, "gru", DTYPE_F32, false, &attrs, "native", "sequence: gates are no sigmoid");
    attrs = (recurrent_attrs_t){.candidate = {.function = RECURRENT_RELU}};
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native",
                 "onednn: a function that it has not");
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native",
                 "sequence: a function other than tanh");
    attrs = (recurrent_attrs_t){.output = {.function = RECURRENT_RELU}};
    check_kernel(ctx, "lstm", DTYPE_F32, false, &attrs, "native",
                 "onednn: a function that it has not");
}

/* ---- packed weights ---- */

typedef struct operands {
    tensor_t *x, *weight_ih, *weight_hh;
    recurrent_weights_t weights;
} operands_t;

static void make(context_t *ctx, int64_t n_steps, operands_t *o)
{
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(n_steps, N, C), &o->x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(G * H, C), &o->weight_ih));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(G * H, H), &o->weight_hh));
    o->weights = (recurrent_weights_t){.weight_ih = o->weight_ih, .weight_hh = o->weight_hh};
}

static void drop(operands_t *o)
{
    tensor_release(o->x);
    tensor_release(o->weight_ih);
    tensor_release(o->weight_hh);
}

/* Runs the operator. Returns how many weights it copies or reorders. */
static uint64_t count_packing(context_t *ctx, const tensor_t *x, const recurrent_weights_t *weights)
{
    tensor_t *y = NULL, *h = NULL, *c = NULL;
    counters_t counters;
    counters_reset(ctx);
    CHECK_OK(ctx, op_lstm(ctx, x, NULL, NULL, NULL, weights, NULL, &y, &h, &c));
    counters_read(ctx, &counters);
    tensor_release(y);
    tensor_release(h);
    tensor_release(c);
    return counters.copies[CAUSE_WEIGHT] + counters.reorders[CAUSE_WEIGHT];
}

static void a_marked_weight_is_packed_once_for_sequences_of_any_length(void **state)
{
    context_t *ctx = fixture_context(state);
    operands_t o;
    tensor_t *longer = NULL;
    make(ctx, T, &o);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(2 * T, 2 * N, C), &longer));
    assert_int_equal(count_packing(ctx, o.x, &o.weights), 2);
    assert_int_equal(count_packing(ctx, o.x, &o.weights), 2);
    storage_set_packable(o.weight_ih->storage, true);
    storage_set_packable(o.weight_hh->storage, true);
    assert_int_equal(count_packing(ctx, o.x, &o.weights), 2);
    assert_int_equal(count_packing(ctx, o.x, &o.weights), 0);
    assert_int_equal(count_packing(ctx, longer, &o.weights), 0);
    tensor_release(longer);
    drop(&o);
}

/* ---- errors ---- */

static void operands_that_do_not_fit_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL, *h = NULL, *c = NULL, *wrong = NULL, *flat = NULL, *whole = NULL;
    operands_t o;
    make(ctx, T, &o);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(H, N), &wrong));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(N), &flat));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S32, SHAPE(T, N, C), &whole));
    recurrent_weights_t weights = o.weights;
#define REFUSED(part, x, h0, c0, lengths, attrs)                                                   \
    CHECK_FAILS(ctx, op_lstm(ctx, x, h0, c0, lengths, &weights, attrs, &y, &h, &c),                \
                STATUS_INVALID_ARGUMENT, part)
    REFUSED("lstm: x is f32[17,3], rank 3 is needed", wrong, NULL, NULL, NULL, NULL);
    REFUSED("lstm: x is s32[5,3,7], a floating type is needed", whole, NULL, NULL, NULL, NULL);
    REFUSED("lstm: h0 is f32[17,3], the layer needs f32[3,17]", o.x, wrong, NULL, NULL, NULL);
    REFUSED("lstm: c0 is f32[17,3], the layer needs f32[3,17]", o.x, NULL, wrong, NULL, NULL);
    REFUSED("lstm: lengths is f32[17,3], one number for each of 3 sequences", o.x, NULL, NULL,
            wrong, NULL);
    REFUSED("lstm: lengths is f32[3], s32 or s64 is needed", o.x, NULL, NULL, flat, NULL);
    REFUSED("lstm: clip=-1, must not be negative", o.x, NULL, NULL, NULL,
            &(recurrent_attrs_t){.clip = -1.0});
    REFUSED("lstm: gate is 99, must be 0 to 11", o.x, NULL, NULL, NULL,
            &(recurrent_attrs_t){.gate = {.function = 99}});
    weights.bias_ih = flat;
    REFUSED("lstm: bias_ih is f32[3], the layer needs f32[68]", o.x, NULL, NULL, NULL, NULL);
    weights = (recurrent_weights_t){.weight_ih = o.weight_ih, .weight_hh = wrong};
    REFUSED("lstm: weight_hh is f32[17,3], [4 H,H] is needed", o.x, NULL, NULL, NULL, NULL);
#undef REFUSED
    context_clear_error(ctx);
    CHECK_FAILS(ctx, op_lstm(ctx, o.x, NULL, NULL, NULL, NULL, NULL, &y, &h, &c),
                STATUS_INVALID_ARGUMENT, "lstm: weights is NULL");
    weights.peephole = flat;
    CHECK_FAILS(ctx, op_gru(ctx, o.x, NULL, NULL, &weights, NULL, &y, &h), STATUS_INVALID_ARGUMENT,
                "gru: a peephole, only lstm has one");
    assert_null(y);
    assert_null(h);
    assert_null(c);
    tensor_release(wrong);
    tensor_release(flat);
    tensor_release(whole);
    drop(&o);
}

static void a_length_that_is_out_of_range_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t wrong[2][N] = {{T, 0, T + 1}, {T, -1, 1}};
    static const char *const messages[] = {"lstm: lengths[2] is 6, 0 to 5 are possible",
                                           "lstm: lengths[1] is -1, 0 to 5 are possible"};
    operands_t o;
    make(ctx, T, &o);
    for (int i = 0; i < 2; i++) {
        tensor_t *lengths = NULL, *y = NULL, *h = NULL, *c = NULL;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(N), wrong[i], &lengths));
        CHECK_FAILS(ctx, op_lstm(ctx, o.x, NULL, NULL, lengths, &o.weights, NULL, &y, &h, &c),
                    STATUS_INVALID_ARGUMENT, messages[i]);
        assert_null(y);
        tensor_release(lengths);
    }
    drop(&o);
}

static status_t run_both_kernels(context_t *ctx)
{
    tensor_t *x = NULL, *weight_ih = NULL, *weight_hh = NULL, *y = NULL, *h = NULL, *c = NULL;
    status_t status = tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 1, 3), &x);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(12, 3), &weight_ih);
    if (status == STATUS_OK) status = tensor_zeros(ctx, DTYPE_F32, SHAPE(12, 3), &weight_hh);
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        recurrent_weights_t weights = {.weight_ih = weight_ih, .weight_hh = weight_hh};
        recurrent_attrs_t attrs = {.clip = i};
        status = op_lstm(ctx, x, NULL, NULL, NULL, &weights, &attrs, &y, &h, &c);
        tensor_release(y);
        tensor_release(h);
        tensor_release(c);
    }
    tensor_release(weight_hh);
    tensor_release(weight_ih);
    tensor_release(x);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(run_both_kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layers_of_the_usual_functions_run_by_a_kernel_of_our_own),
        TEST(calls_that_it_does_not_support_run_on_onednn),
        TEST(other_layers_run_by_loops_of_our_own),
        TEST(a_marked_weight_is_packed_once_for_sequences_of_any_length),
        TEST(operands_that_do_not_fit_are_named),
        TEST(a_length_that_is_out_of_range_is_named),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
