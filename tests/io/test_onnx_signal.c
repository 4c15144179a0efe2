/* Operators for signals, images and matrices that the import composes from others. Invalid nodes
 * fail with the reason. test_onnx_stored.c tests valid ones. */
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/support.h"

static void refuse(context_t *ctx, status_t status, const char *words)
{
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_model_with(ctx, NULL, &model), status, words);
}

static void known(const char *name, int64_t number)
{
    maker_initializer(&maker, name, INT64, 0, NULL, &number, sizeof number);
}

static void known_float(const char *name, float number)
{
    maker_initializer(&maker, name, FLOAT, 0, NULL, &number, sizeof number);
}

static void a_transform_needs_real_and_imaginary_parts(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(17, DIMS(2, 4, 3));
    maker_node(&maker, "DFT", "d", "x", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"d\" (DFT): x is f32[2,4,3], floating numbers of 1 or 2 parts in its last "
           "dimension are needed");
    begin_model(17, DIMS(2, 4, 1));
    maker_int(maker_node(&maker, "DFT", "d", "x", "y"), "axis", 2);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "axis 2 is that of the parts");
    begin_model(17, DIMS(2, 4, 1));
    known("n", 0);
    maker_node(&maker, "DFT", "d", "x n", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a length of 0");
    begin_model(17, DIMS(2, 4, 2));
    maker_int(maker_node(&maker, "DFT", "d", "x", "y"), "onesided", 1);
    refuse(ctx, STATUS_UNSUPPORTED, "onesided of complex numbers");
    begin_model(17, DIMS(1, 100000, 1));
    maker_node(&maker, "DFT", "d", "x", "y");
    refuse(ctx, STATUS_UNSUPPORTED, "a transform of 100000 numbers to 100000 frequencies");
}

static void begin_frames(int64_t step, int64_t length)
{
    begin_model(17, DIMS(2, 12, 1));
    known("step", step);
    known("length", length);
    maker_node(&maker, "STFT", "s", "x step - length", "y");
}

static void frames_have_to_lie_in_the_signal(void **state)
{
    context_t *ctx = fixture_context(state);
    const float window[3] = {1, 2, 1};
    begin_frames(4, 13);
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"s\" (STFT): frames of 13 every 4 numbers, the signal has 12");
    begin_frames(0, 4);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "frames of 4 every 0 numbers");
    begin_model(17, DIMS(2, 12, 1));
    known("step", 2);
    known("length", 4);
    maker_initializer(&maker, "window", FLOAT, DIMS(3), window, sizeof window);
    maker_node(&maker, "STFT", "s", "x step window length", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "frames of 4, the window has 3");
    begin_model(17, DIMS(2, 12, 1));
    known("step", 2);
    maker_initializer(&maker, "window", FLOAT, DIMS(1, 3), window, sizeof window);
    maker_node(&maker, "STFT", "s", "x step window", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "the window is f32[1,3], rank 1 is needed");
}

static void mel_bins_have_to_be_frequencies_of_the_signal(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(17, DIMS(2));
    known("bins", 4);
    known("length", 8);
    known("rate", 8000);
    known_float("low", 500.0F);
    known_float("high", 100.0F);
    maker_node(&maker, "MelWeightMatrix", "m", "bins length rate low high", "y");
    refuse(
        ctx, STATUS_INVALID_ARGUMENT,
        "onnx: node \"m\" (MelWeightMatrix): 4 bins from 500 to 100 hertz, of a length of 8 at a "
        "rate of 8000");
}

static maker_node_t *begin_resize(int64_t opset, const char *coordinates)
{
    const int64_t sizes[4] = {1, 1, 3, 3};
    const float crop[6] = {0, 0, 0, 1, 1, 1};
    begin_model(opset, DIMS(1, 1, 4, 4));
    maker_initializer(&maker, "sizes", INT64, DIMS(4), sizes, sizeof sizes);
    maker_initializer(&maker, "crop", FLOAT, DIMS(6), crop, sizeof crop);
    maker_node_t *node = maker_node(&maker, "Resize", "r", "x crop - sizes", "y");
    maker_string(node, "coordinate_transformation_mode", coordinates);
    maker_string(node, "mode", "linear");
    return node;
}

static void a_resize_says_where_it_samples(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_resize(13, "tf_crop_and_resize");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "roi has 6 numbers, needs 8");
    const float scales[4] = {1, 1, 0.75F, 0.75F};
    begin_resize(13, "half_pixel");
    maker_initializer(&maker, "scales", FLOAT, DIMS(4), scales, sizeof scales);
    maker_node(&maker, "Resize", "s", "x - scales sizes", "z");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "4 scales and 4 sizes, one of them must be left out");
}

static void attention_that_contradicts_itself_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(23, DIMS(1, 2, 3, 4));
    maker_int(maker_node(&maker, "Attention", "a", "x x x", "y"), "softmax_precision", 11);
    refuse(ctx, STATUS_UNSUPPORTED, "a softmax in f64 of f32");
    begin_model(23, DIMS(1, 2, 3, 4));
    maker_int(maker_node(&maker, "Attention", "a", "x x x", "y"), "qk_matmul_output_mode", 4);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "qk_matmul_output_mode 4, softcap 0");
    begin_model(23, DIMS(1, 2, 3, 4));
    maker_node(&maker, "Attention", "a", "x x x - x", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "past_key and past_value come together");
}

static maker_node_t *begin_unpool(const int64_t *index_sizes)
{
    begin_model(17, DIMS(1, 1, 2, 2));
    maker_input(&maker, "at", INT64, 4, index_sizes);
    maker_node_t *node = maker_node(&maker, "MaxUnpool", "u", "x at wanted", "y");
    maker_ints(node, "kernel_shape", DIMS(2, 2));
    maker_ints(node, "strides", DIMS(2, 2));
    return node;
}

static void unpooling_writes_each_element_to_its_index(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t small[4] = {1, 1, 4, 3};
    begin_unpool((int64_t[]){1, 1, 2, 1});
    maker_initializer(&maker, "wanted", INT64, DIMS(4), small, sizeof small);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "x and its indices are of other sizes, s64[1,1,2,1]");
    begin_unpool((int64_t[]){1, 1, 2, 2});
    maker_initializer(&maker, "wanted", INT64, DIMS(4), small, sizeof small);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "output_shape 3, at least 4");
    begin_unpool((int64_t[]){1, 1, 2, 2});
    maker_initializer(&maker, "wanted", INT64, DIMS(2), small, 2 * sizeof *small);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "output_shape has 2 numbers, needs 4");
    maker_node_t *node = begin_unpool((int64_t[]){1, 1, 2, 2});
    maker_initializer(&maker, "wanted", INT64, DIMS(4), small, sizeof small);
    maker_ints(node, "pads", DIMS(2, 2, 2, 2));
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a size of 0 was pooled");
}

/* The run checks the index, because the import does not know it. */
static void an_index_behind_what_was_pooled_is_an_error(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    tensor_t *in[2] = {NULL}, *out = NULL;
    const int64_t places[4] = {0, 5, 16, 15}, wanted[4] = {1, 1, 4, 4};
    int n_out = 1;
    begin_unpool((int64_t[]){1, 1, 2, 2});
    maker_initializer(&maker, "wanted", INT64, DIMS(4), wanted, sizeof wanted);
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 1, 2, 2), &in[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(1, 1, 2, 2), places, &in[1]));
    CHECK_FAILS(
        ctx,
        module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in, &n_out, &out),
        STATUS_INVALID_ARGUMENT, "16");
    tensor_release(in[0]);
    tensor_release(in[1]);
    module_release(model);
}

static void sizes_around_the_middle_are_checked(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[2] = {3, -1};
    begin_model(18, DIMS(2, 4));
    maker_initializer(&maker, "sizes", INT64, DIMS(1), sizes, sizeof *sizes);
    maker_node(&maker, "CenterCropPad", "c", "x sizes", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"c\" (CenterCropPad): 1 sizes for 2 dimensions");
    begin_model(18, DIMS(2, 4));
    maker_initializer(&maker, "sizes", INT64, DIMS(2), sizes, sizeof sizes);
    maker_node(&maker, "CenterCropPad", "c", "x sizes", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a size of -1 is asked for");
}

static void begin_columns(const int64_t *image, const int64_t *block, int n_block)
{
    begin_model(18, DIMS(1, 4, 3));
    maker_initializer(&maker, "image", INT64, DIMS(2), image, 2 * sizeof *image);
    maker_initializer(&maker, "block", INT64, 1, (int64_t[]){n_block}, block,
                      (size_t)n_block * sizeof *block);
    maker_node(&maker, "Col2Im", "c", "x image block", "y");
}

static void columns_have_to_be_those_of_the_image(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_columns((int64_t[]){2, 3}, (int64_t[]){2, 2}, 2);
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"c\" (Col2Im): x is f32[1,4,3], the block has 4 elements and 2 places");
    begin_columns((int64_t[]){2, 3}, (int64_t[]){2}, 1);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a block of 1 dimensions in an image of 2");
    begin_columns((int64_t[]){2, 3}, (int64_t[]){2, 4}, 2);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a block of 4 in an image of 3");
}

static void matrices_of_a_determinant_are_square_and_small(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_model(17, DIMS(2, 3));
    maker_node(&maker, "Det", "d", "x", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "x is f32[2,3], square matrices are needed");
    begin_model(17, DIMS(4, 4));
    maker_node(&maker, "Det", "d", "x", "y");
    refuse(ctx, STATUS_UNSUPPORTED, "matrices of 4 rows, 1 to 3 are supported");
}

static void pools_of_powers_and_grids_are_checked(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t size[4] = {2, 1, 4, 5}, none[4] = {1, 1, 0, 5};
    begin_model(18, DIMS(1, 1, 4));
    maker_int(maker_node(&maker, "GlobalLpPool", "p", "x", "y"), "p", 0);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "p 0, 1 to 64 is needed");
    begin_model(18, DIMS(1, 1, 4));
    maker_node(&maker, "LpPool", "p", "x", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "kernel_shape is missing");
    begin_model(18, DIMS(1, 1, 4));
    maker_node_t *pool = maker_node(&maker, "LpPool", "p", "x", "y");
    maker_ints(pool, "kernel_shape", DIMS(2));
    maker_int(pool, "ceil_mode", 1);
    refuse(ctx, STATUS_UNSUPPORTED, "ceil_mode of LpPool");
    begin_model(20, DIMS(1, 2, 3));
    maker_initializer(&maker, "size", INT64, DIMS(4), size, sizeof size);
    maker_node(&maker, "AffineGrid", "g", "x size", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "theta is f32[1,2,3] for a size of 4 numbers");
    begin_model(20, DIMS(1, 2, 3));
    maker_initializer(&maker, "size", INT64, DIMS(4), none, sizeof none);
    maker_node(&maker, "AffineGrid", "g", "x size", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a grid of size 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_transform_needs_real_and_imaginary_parts),
        TEST(frames_have_to_lie_in_the_signal),
        TEST(mel_bins_have_to_be_frequencies_of_the_signal),
        TEST(a_resize_says_where_it_samples),
        TEST(attention_that_contradicts_itself_is_refused),
        TEST(unpooling_writes_each_element_to_its_index),
        TEST(an_index_behind_what_was_pooled_is_an_error),
        TEST(sizes_around_the_middle_are_checked),
        TEST(columns_have_to_be_those_of_the_image),
        TEST(matrices_of_a_determinant_are_square_and_small),
        TEST(pools_of_powers_and_grids_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
