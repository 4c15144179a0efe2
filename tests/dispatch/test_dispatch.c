#include "dispatch/dispatch.h"

#include "ops/ops.h"
#include "tests/support/support.h"

static void more_outputs_than_there_is_room_for_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const opdef_t *split = ops_find("split");
    struct {
        int64_t dim;
        ints_t sizes;
    } attrs = {.dim = 0, .sizes = {.n = 3, .values = {1, 2, 3}}};
    tensor_t *x = NULL, *out[3] = {NULL};
    const tensor_t *in[1];
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(6), &x));
    in[0] = x;
    int n = 2;
    CHECK_FAILS(ctx, dispatch_run(ctx, split, &attrs, 1, in, &n, out), STATUS_INVALID_ARGUMENT,
                "split: makes 3 tensors, there is room for 2");
    CHECK_FAILS(ctx, dispatch_run(ctx, split, &attrs, 1, in, NULL, out), STATUS_INVALID_ARGUMENT,
                "split: makes 3 tensors, there is room for 0");
    assert_null(out[0]);
    n = 7;
    tensor_t *roomy[7] = {NULL};
    CHECK_OK(ctx, dispatch_run(ctx, split, &attrs, 1, in, &n, roomy));
    assert_int_equal(n, 3);
    assert_int_equal(tensor_numel(roomy[2]), 3);
    for (int i = 0; i < 7; i++) tensor_release(roomy[i]);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(more_outputs_than_there_is_room_for_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
