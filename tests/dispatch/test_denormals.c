#include "tests/support/support.h"

#include "ops/ops.h"

#define N 100000

/* Computes 1e-38 * 0.1 a hundred thousand times on n_threads. */
static void check_products(bool flushes, int n_threads)
{
    static float products[N];
    context_t *ctx = NULL;
    tensor_t *tiny = NULL, *tenth = NULL, *out = NULL;
    const context_options_t options = {.n_threads = n_threads, .flush_denormals = flushes};
    const float denormal = 1e-38f * 0.1f;
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(N), 1e-38, &tiny));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(N), 0.1, &tenth));
    CHECK_OK(ctx, op_mul(ctx, tiny, tenth, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, products, sizeof products));
    for (int i = 0; i < N; i++) assert_true(products[i] == (flushes ? 0.0f : denormal));
    tensor_release(tiny);
    tensor_release(tenth);
    tensor_release(out);
    context_destroy(ctx);
}

static void a_result_does_not_depend_on_the_number_of_threads(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads <= 5; n_threads++) {
        check_products(false, n_threads);
#ifdef __SSE__
        check_products(true, n_threads);
#endif
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_result_does_not_depend_on_the_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
