/* Gradients of grid_sample with respect to the image and the grid, compared with PyTorch's. */
#include "tests/support/support.h"

#include <math.h>

#include "ops/ops.h"
#include "train/tape.h"

static const float picture[] = {1.0f, -2.0f, 4.0f, 0.5f, 3.0f, -1.0f, 2.0f, -3.0f, 5.0f};
static const float places[] = {-0.75f, -0.5f, 0.25f,   0.375f, 0.875f, -0.25f,
                               1.375f, 0.5f,  -1.625f, -1.25f, 0.125f, 2.75f};

/* Values from grid_values.py. */
static const struct {
    grid_mode_t mode;
    grid_padding_t padding;
    bool align_corners;
    float of_picture[9], of_places[12];
} rows[] = {
    {GRID_LINEAR,
     GRID_ZEROS,
     false,
     {0.65625f, 0, 0.7734375f, 0.21875f, 0.546875f, 1.6171875f, 0, 0.703125f, 0.421875f},
     {1.3125f, -0.65625f, 8.25f, -4.5f, -3.9375f, -15.46875f, 0, 0, 0, 0, 0, 0}},
    {GRID_LINEAR,
     GRID_ZEROS,
     true,
     {1.78125f, 0.21875f, 0.65625f, 0.375f, 1.34375f, 3.53125f, 0, 0.5625f, 1.4375f},
     {-0.25f, 0.875f, 1, -6, -4.5f, -11.25f, -8, 15, 3.75f, 1.875f, 0, 0}},
    {GRID_LINEAR,
     GRID_BORDER,
     false,
     {5.75f, 0, 1.125f, 0.25f, 0.546875f, 3.203125f, 0, 5.578125f, 4.546875f},
     {0, -0.75f, 8.25f, -4.5f, 0, -22.5f, 0, 36, 0, 0, 72, 0}},
    {GRID_LINEAR,
     GRID_BORDER,
     true,
     {5.375f, 0.21875f, 0.65625f, 0.375f, 1.34375f, 4.28125f, 0, 5.8125f, 2.9375f},
     {-0.25f, 0.875f, 1, -6, -4.5f, -11.25f, 0, 24, 0, 0, 48, 0}},
    {GRID_LINEAR,
     GRID_REFLECTION,
     false,
     {3.5625f, 7.0625f, 2.25f, 0.25f, 0.609375f, 3.140625f, 0, 0.890625f, 3.234375f},
     {0, -0.75f, 8.25f, -4.5f, 0, -22.5f, -30, 31.5f, 22.5f, 0, 54, 0}},
    {GRID_LINEAR,
     GRID_REFLECTION,
     true,
     {1.78125f, 6.5f, 1.21875f, 0.84375f, 4.1875f, 3.71875f, 0, 1.3125f, 1.4375f},
     {-0.25f, 0.875f, 1, -6, -4.5f, -11.25f, -8, 6, 8.125f, -14.6875f, 21, -22.5f}},
    {GRID_NEAREST,
     GRID_ZEROS,
     false,
     {1, 0, 0, 0, 0, 3, 0, 2, 0},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_NEAREST,
     GRID_ZEROS,
     true,
     {1, 0, 0, 0, 2, 3, 0, 0, 4},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_NEAREST,
     GRID_BORDER,
     false,
     {6, 0, 0, 0, 0, 3, 0, 8, 4},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_NEAREST,
     GRID_BORDER,
     true,
     {6, 0, 0, 0, 2, 3, 0, 6, 4},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_NEAREST,
     GRID_REFLECTION,
     false,
     {6, 6, 0, 0, 0, 3, 0, 2, 4},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_NEAREST,
     GRID_REFLECTION,
     true,
     {1, 11, 0, 0, 2, 3, 0, 0, 4},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {GRID_CUBIC,
     GRID_ZEROS,
     false,
     {0.808330655f, -0.325795859f, 0.983554542f, 0.146296114f, 0.497464538f, 2.23238873f,
      -0.18210429f, 1.04939353f, 0.160038561f},
     {0.176570892f, -1.73046684f, 11.6672001f, -8.32905865f, -2.15156507f, -28.3710747f,
      -13.6841583f, -1.6453743f, -0.108388066f, -0.771051943f, 0, 0}},
    {GRID_CUBIC,
     GRID_ZEROS,
     true,
     {2.41022873f, -0.196109772f, 0.400022507f, 0.111923218f, 1.54928589f, 4.70199776f,
      -0.153928757f, 0.223497391f, 1.67625237f},
     {0.173583984f, 1.2220459f, -0.0475845337f, -9.63230896f, -8.0923233f, -13.5722694f,
      -9.23730469f, 29.4836426f, 8.11923981f, 2.49612808f, -1.27056885f, -3.47579956f}},
    {GRID_CUBIC,
     GRID_BORDER,
     false,
     {5.89796543f, -0.29631865f, 1.00199127f, 0.117051303f, 0.497464538f, 3.912462f, -0.719972491f,
      6.46859312f, 4.12076378f},
     {-0.916843414f, -2.1007061f, 6.95853996f, -9.74674606f, -0.248685837f, -32.2090378f, 0,
      44.15625f, 7.15255737e-07f, 0.57128942f, 58.4560547f, 0}},
    {GRID_CUBIC,
     GRID_BORDER,
     true,
     {6.29461861f, -0.307420731f, 0.125106812f, -0.288013458f, 1.54928589f, 5.31587601f,
      -0.575941086f, 6.15657234f, 2.72991562f},
     {0.496582031f, 1.35131836f, -1.48427582f, -9.36012268f, -9.1611557f, -10.091732f,
      -0.249023438f, 37.5065918f, 4.40517426f, -0.606479645f, 31.5703125f, 0}},
    {GRID_CUBIC,
     GRID_REFLECTION,
     false,
     {3.33713341f, 8.4282856f, 1.68929291f, -0.0200460553f, -0.23027426f, 3.92622352f,
      -0.171823382f, 1.0729233f, 2.96828508f},
     {-1.25738525f, -2.21498108f, 6.95853996f, -9.74674606f, -2.17034912f, -34.8644295f,
      -26.3672905f, 39.6199532f, 40.5068512f, -11.2701702f, 51.7832489f, -19.6102352f}},
    {GRID_CUBIC,
     GRID_REFLECTION,
     true,
     {2.05643463f, 7.87338257f, 0.522331238f, 0.403198242f, 3.40454102f, 4.30944824f, -0.385414124f,
      1.12051392f, 1.69556427f},
     {-0.24609375f, 0.647460938f, 0.0159301758f, -10.1861572f, -4.84991455f, -15.1949158f,
      -11.5664062f, 14.7231445f, 15.2297974f, -21.5473938f, 22.8482666f, -29.9547729f}},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static void check(context_t *ctx, tape_t *tape, tensor_t *x, int n, const float *wanted, int row)
{
    float got[12];
    CHECK_OK(ctx, tensor_read(ctx, tape_gradient(tape, x), got, sizeof got));
    for (int i = 0; i < n; i++)
        if (!(fabsf(got[i] - wanted[i]) <= 1e-5f * (1.0f + fabsf(wanted[i]))))
            fail_msg("row %d, element %d of %d: %.9g, PyTorch has %.9g", row, i, n, (double)got[i],
                     (double)wanted[i]);
}

static void gradients_of_pictures_and_places_are_pytorchs(void **state)
{
    context_t *ctx = fixture_context(state);
    const float of_y[] = {1, 2, 3, 4, 5, 6};
    for (int r = 0; r < N_ROWS; r++) {
        tensor_t *x = NULL, *grid = NULL, *y = NULL, *grad = NULL;
        tape_t *tape = NULL;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 3, 3), picture, &x));
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 2, 3, 2), places, &grid));
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(1, 1, 2, 3), of_y, &grad));
        CHECK_OK(ctx, tape_create(ctx, &tape));
        CHECK_OK(ctx, tape_watch(ctx, tape, x));
        CHECK_OK(ctx, tape_watch(ctx, tape, grid));
        CHECK_OK(ctx, op_grid_sample(ctx, x, grid, rows[r].mode, rows[r].padding,
                                     rows[r].align_corners, &y));
        CHECK_OK(ctx, tape_backward(ctx, tape, y, grad));
        check(ctx, tape, x, 9, rows[r].of_picture, r);
        check(ctx, tape, grid, 12, rows[r].of_places, r);
        tape_destroy(tape);
        tensor_t *all[] = {x, grid, y, grad};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(gradients_of_pictures_and_places_are_pytorchs),
    };
    return cmocka_run_group_tests_name("grid_values", tests, NULL, NULL);
}
