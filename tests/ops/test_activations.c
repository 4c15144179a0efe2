/* Values and gradients of the activations of eltwise.def, compared with eltwise_values.txt. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/elementwise/activation_impl.h"
#include "tests/support/eltwise_values.h"
#include "train/tape.h"

static void check(context_t *ctx, const char *what, const eltwise_values_t *row,
                  const tensor_t *tensor, const double *wanted)
{
    float given[ELTWISE_POINTS];
    CHECK_OK(ctx, tensor_read(ctx, tensor, given, sizeof given));
    for (int i = 0; i < ELTWISE_POINTS; i++)
        if (!(fabs((double)given[i] - wanted[i]) <= 2e-6 * (1 + fabs(wanted[i]))))
            fail_msg("%s of %s at %g is %.9g, wanted %.9g", what, row->name, row->x[i],
                     (double)given[i], wanted[i]);
}

static void values_and_gradients_are_those_of_forty_digit_arithmetic(void **state)
{
    context_t *ctx = fixture_context(state);
    const eltwise_values_t *rows = eltwise_values(TESSERA_SOURCE_DIR);
    for (const eltwise_values_t *row = rows; row < rows + ELTWISE_FUNCTIONS; row++) {
        if (activation_operator(row->eltwise) == NULL) continue;
        float elements[ELTWISE_POINTS];
        tensor_t *x = NULL, *y = NULL, *ones = NULL;
        tape_t *tape = NULL;
        for (int i = 0; i < ELTWISE_POINTS; i++) elements[i] = (float)row->x[i];
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(ELTWISE_POINTS), elements, &x));
        CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(ELTWISE_POINTS), 1, &ones));
        CHECK_OK(ctx, tape_create(ctx, &tape));
        CHECK_OK(ctx, tape_watch(ctx, tape, x));
        CHECK_OK(ctx, activation_call(ctx, row->eltwise, row->alpha, row->beta, x, &y));
        check(ctx, "value", row, y, row->value);
        CHECK_OK(ctx, tape_backward(ctx, tape, y, ones));
        check(ctx, "gradient", row, tape_gradient(tape, x), row->slope);
        tape_destroy(tape);
        tensor_release(x);
        tensor_release(y);
        tensor_release(ones);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(values_and_gradients_are_those_of_forty_digit_arithmetic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
