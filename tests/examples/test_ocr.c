/* The example ocr reads two images of different sizes, which ocr_pictures.py draws. tools/models
 * downloads the networks. */
#include "tests/support/support.h"

#ifdef TESSERA_HAVE_PNG

#include <stdio.h>
#include <string.h>

#include "examples/ocr/ocr.h"
#include "io/onnx/onnx.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/examples/"
#define MODELS TESSERA_SOURCE_DIR "/build/models/rapidocr/"

static const char *const names[] = {"wide", "high"};
static const int widths[] = {480, 400}, heights[] = {128, 620};

static bool is_there(void)
{
    FILE *file = fopen(MODELS "ch_PP-OCRv4_rec_infer.onnx", "rb");
    if (file != NULL) fclose(file);
    return file != NULL;
}

static void read_picture(const char *name, picture_t *out_picture)
{
    char path[512], error[128] = "";
    snprintf(path, sizeof path, FOLDER "ocr_%s.png", name);
    if (!picture_read(path, out_picture, sizeof error, error)) fail_msg("%s: %s", path, error);
}

/* ---- pictures ---- */

static void bytes_of_a_picture_are_blue_green_red(void **state)
{
    (void)state;
    picture_t picture;
    char error[128];
    for (int i = 0; i < 2; i++) {
        read_picture(names[i], &picture);
        assert_int_equal(picture.width, widths[i]);
        assert_int_equal(picture.height, heights[i]);
        const uint8_t backgrounds[2][3] = {{255, 255, 255}, {224, 255, 255}}; /* light yellow */
        assert_memory_equal(picture.bytes, backgrounds[i], 3);
        picture_clear(&picture);
    }
    assert_false(picture_read(FOLDER "ocr_wide.txt", &picture, sizeof error, error));
    assert_non_null(strstr(error, "PNG"));
    assert_null(picture.bytes);
    assert_false(picture_read(FOLDER "no such file", &picture, sizeof error, error));
    assert_true(error[0] != '\0');
}

static void a_part_is_scaled_by_what_lies_between_its_points(void **state)
{
    context_t *ctx = fixture_context(state);
    uint8_t bytes[2 * 3 * 3]; /* blue at (x, y) is 10 x + 100 y */
    float elements[3 * 2 * 5];
    tensor_t *tensor = NULL;
    for (int i = 0; i < 18; i++) bytes[i] = (uint8_t)(i / 3 % 3 * 10 + i / 9 * 100 + i % 3);
    const picture_t picture = {3, 2, bytes};
    /* The right two columns become four columns, followed by one of padding. */
    CHECK_OK(ctx, picture_tensor(ctx, &picture, &(box_t){1, 0, 3, 2}, 2, 4, 5, &tensor));
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, sizeof elements));
    static const double blue[] = {10, 12.5, 17.5, 20, 127.5, 110, 112.5, 117.5, 120, 127.5};
    for (int i = 0; i < 30; i++) {
        const double byte = blue[i % 10] + (i % 5 < 4 ? i / 10 : 0);
        assert_float_equal(elements[i], (float)(byte / 127.5 - 1), 1e-6F);
    }
    tensor_release(tensor);
}

/* ---- text ---- */

static void check_text(context_t *ctx, module_t *detector, const reader_t *reader, const char *name)
{
    char path[512], line[128];
    picture_t picture;
    box_t boxes[DETECT_MAX];
    int n = 0, n_lines = 0;
    snprintf(path, sizeof path, FOLDER "ocr_%s.txt", name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    read_picture(name, &picture);
    CHECK_OK(ctx, detect(ctx, detector, &picture, boxes, &n));
    for (; fgets(line, sizeof line, file) != NULL; n_lines++) {
        char text[128] = "";
        double score = 0;
        line[strcspn(line, "\n")] = '\0';
        assert_true(n_lines < n);
        CHECK_OK(ctx,
                 reader_read(ctx, reader, &picture, &boxes[n_lines], sizeof text, text, &score));
        assert_string_equal(text, line);
        assert_true(score > 0.5 && score <= 1.0 + 1e-6);
        CHECK_OK(ctx, reader_read(ctx, reader, &picture, &boxes[n_lines], 3, text, &score));
        assert_int_equal(strlen(text), 2);
    }
    assert_int_equal(n_lines, n);
    picture_clear(&picture);
    fclose(file);
}

static void text_that_is_drawn_is_read(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *detector = NULL, *model = NULL;
    const char *error = NULL;
    if (!is_there()) skip_without("tools/models");
    CHECK_OK(ctx, detect_load(ctx, MODELS "ch_PP-OCRv4_det_infer.onnx", &detector));
    CHECK_OK(ctx, reader_load(ctx, MODELS "ch_PP-OCRv4_rec_infer.onnx", &model));
    reader_t *reader = reader_create(ctx, model, &error);
    assert_non_null(reader);
    for (int i = 0; i < 2; i++) check_text(ctx, detector, reader, names[i]);
    reader_destroy(reader);

    assert_null(reader_create(ctx, detector, &error));
    assert_string_equal(error, "the model has no list of characters");
    module_release(model);
    module_release(detector);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_of_a_picture_are_blue_green_red),
        TEST(a_part_is_scaled_by_what_lies_between_its_points),
        TEST(text_that_is_drawn_is_read),
    };
    return cmocka_run_group_tests_name("ocr", tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
