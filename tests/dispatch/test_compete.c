/* Competing kernels: the one with the least estimate is chosen, and the estimates of the others are
 * reported. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "ops/ops_impl.h"
#include "tests/support/support.h"

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t prepare_at(const op_call_t *call, prepared_t *prepared, double ns)
{
    if (call->layout != LAYOUT_DENSE) return prepared_decline(prepared, "dense only");
    prepared->cost_ns = ns;
    return STATUS_OK;
}

static status_t prepare_slow(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    return prepare_at(call, prepared, 9000.0);
}

static status_t prepare_fast(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    return prepare_at(call, prepared, 2000.0);
}

static status_t prepare_never(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx, (void)call;
    return prepared_decline(prepared, "never: it declines");
}

static status_t prepare_asked(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(prepare_slow(ctx, call, prepared));
    prepared->is_asked_for = true;
    return STATUS_OK;
}

static status_t prepare_broken(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)call, (void)prepared;
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "compete: broken");
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    (void)ctx, (void)prepared, (void)in, (void)out, (void)scratch;
    return STATUS_OK;
}

#define STUB(word, how)                                                                            \
    {                                                                                              \
        .name = #word, .prepare = prepare_##word, .run = run, .flags = how                         \
    }

static const kernel_t slow = STUB(slow, KERNEL_COMPETES), fast = STUB(fast, KERNEL_COMPETES),
                      never = STUB(never, KERNEL_COMPETES), asked = STUB(asked, KERNEL_COMPETES),
                      broken = STUB(broken, KERNEL_COMPETES),
                      last = {.name = "last", .prepare = prepare_fast, .run = run};

static prepared_t *choose(context_t *ctx, const kernel_t *const *kernels, const kernel_t *kernel)
{
    const opdef_t op = {.name = "compete",
                        .n_operands = 1,
                        .operands = operands,
                        .n_outputs = 1,
                        .infer = ops_infer_like,
                        .kernels = kernels};
    const tensor_info_t x = info_dense(DTYPE_F32, 1, (int64_t[]){4});
    const tensor_info_t *in[] = {&x};
    prepared_t *prepared = NULL;
    CHECK_OK(ctx, select_fixed(ctx, &op, NULL, 1, in, WEIGHT_GIVEN, LAYOUT_DENSE, NULL, kernel,
                               &prepared));
    return prepared;
}

static void check(context_t *ctx, const kernel_t *const *kernels, const kernel_t *kernel,
                  const char *wanted, const char *reasons)
{
    prepared_t *prepared = choose(ctx, kernels, kernel);
    assert_string_equal(prepared_kernel(prepared), wanted);
    assert_string_equal(prepared_reasons(prepared), reasons);
    prepared_release(prepared);
}

static void the_least_estimate_wins_and_the_others_are_told(void **state)
{
    context_t *ctx = fixture_context(state);
    check(ctx, (const kernel_t *const[]){&slow, &never, &fast, &last, NULL}, NULL, "fast",
          "never: it declines\nslow: estimated at 9.0 us, fast at 2.0 us\n");
    check(ctx, (const kernel_t *const[]){&fast, &slow, NULL}, NULL, "fast",
          "slow: estimated at 9.0 us, fast at 2.0 us\n");
    check(ctx, (const kernel_t *const[]){&never, &last, NULL}, NULL, "last",
          "never: it declines\n");
}

static void requested_kernels_run_without_a_comparison_of_times(void **state)
{
    context_t *ctx = fixture_context(state);
    const kernel_t *const kernels[] = {&fast, &asked, &slow, NULL};
    check(ctx, kernels, NULL, "asked", "");
    check(ctx, kernels, &slow, "slow", "");
    check(ctx, kernels, &fast, "fast", "");
}

static void an_error_of_one_is_an_error_of_all(void **state)
{
    context_t *ctx = fixture_context(state);
    const kernel_t *const kernels[] = {&slow, &broken, &fast, NULL};
    const opdef_t op = {.name = "compete",
                        .n_operands = 1,
                        .operands = operands,
                        .n_outputs = 1,
                        .infer = ops_infer_like,
                        .kernels = kernels};
    const tensor_info_t x = info_dense(DTYPE_F32, 1, (int64_t[]){4});
    const tensor_info_t *in[] = {&x};
    prepared_t *prepared = NULL;
    CHECK_FAILS(ctx, dispatch_select(ctx, &op, NULL, 1, in, POLICY_AUTO, &prepared),
                STATUS_INVALID_ARGUMENT, "compete: broken");
    assert_null(prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_least_estimate_wins_and_the_others_are_told),
        TEST(requested_kernels_run_without_a_comparison_of_times),
        TEST(an_error_of_one_is_an_error_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
