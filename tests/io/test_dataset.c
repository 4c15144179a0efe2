#define _POSIX_C_SOURCE 200809L

#include "io/data/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/data/loader.h"
#include "io/data/npy.h"
#include "tensor/convert/convert.h"
#include "tests/support/pictures.h"
#include "tests/support/support.h"

static char folder[64];

/* Returns a path in the folder, which is valid until the fourth call from now. */
static const char *path_of(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int setup(void **state)
{
    strcpy(folder, "/tmp/tessera_dataset_XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : fixture_setup(state);
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    int failed = system(command);
    return fixture_teardown(state) != 0 || failed != 0 ? -1 : 0;
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(path_of(name), 0777), 0);
}

static void put_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* ---- arrays ---- */

static void types_become_those_of_training(void **state)
{
    context_t *ctx = fixture_context(state);
    static const struct {
        dtype_t given, item, target;
    } types[] = {{DTYPE_U8, DTYPE_F32, DTYPE_S64},   {DTYPE_F32, DTYPE_F32, DTYPE_F32},
                 {DTYPE_F64, DTYPE_F32, DTYPE_F32},  {DTYPE_F16, DTYPE_F32, DTYPE_F32},
                 {DTYPE_S64, DTYPE_S64, DTYPE_S64},  {DTYPE_S32, DTYPE_S32, DTYPE_S64},
                 {DTYPE_BOOL, DTYPE_BOOL, DTYPE_S64}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        tensor_t *x = NULL, *y = NULL;
        dataset_t *dataset = NULL;
        CHECK_OK(ctx, tensor_zeros(ctx, types[i].given, SHAPE(4, 2, 3), &x));
        CHECK_OK(ctx, tensor_zeros(ctx, types[i].given, SHAPE(4), &y));
        CHECK_OK(ctx, dataset_from_tensors(ctx, x, y, &dataset));
        assert_int_equal(dataset_n(dataset), 4);
        const tensor_info_t *item = dataset_item(dataset), *target = dataset_target(dataset);
        assert_int_equal(item->dtype, types[i].item);
        assert_true(shape_equal(item->rank, item->sizes, SHAPE(2, 3)));
        assert_int_equal(target->dtype, types[i].target);
        assert_int_equal(target->rank, 0);
        dataset_release(dataset);
        tensor_release(x);
        tensor_release(y);
    }
}

static void classes_are_one_more_than_the_largest_label(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t labels[] = {2, -100, 6, 0};
    tensor_t *x = NULL, *y = NULL, *pairs = NULL;
    dataset_t *dataset = NULL, *other = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 2), &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(4), labels, &y));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(4, 2), &pairs));
    CHECK_OK(ctx, dataset_from_tensors(ctx, x, y, &dataset));
    assert_int_equal(dataset_classes(dataset), 7);
    assert_null(dataset_class_name(dataset, 0));
    CHECK_OK(ctx, dataset_from_tensors(ctx, x, pairs, &other));
    assert_int_equal(dataset_classes(other), 0);
    dataset_release(dataset_retain(dataset));
    dataset_release(dataset);
    dataset_release(other);
    dataset_release(NULL);
    tensor_release(pairs);
    tensor_release(y);
    tensor_release(x);
}

static void arrays_come_from_files_and_are_held_against_each_other(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *y = NULL, *number = NULL, *nothing = NULL;
    dataset_t *dataset = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_U8, SHAPE(5, 1, 8, 8), &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_U8, SHAPE(4), &y));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 0, NULL, &number));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(0, 2), &nothing));
    CHECK_OK(ctx, npy_save(ctx, path_of("x.npy"), x));
    CHECK_OK(ctx, npy_save(ctx, path_of("y.npy"), y));
    CHECK_OK(ctx, dataset_from_npy(ctx, path_of("x.npy"), path_of("x.npy"), &dataset));
    assert_int_equal(dataset_n(dataset), 5);
    dataset_release(dataset);
    CHECK_FAILS(ctx, dataset_from_npy(ctx, path_of("x.npy"), path_of("y.npy"), &dataset),
                STATUS_INVALID_ARGUMENT, "/x.npy has 5 items, ");
    CHECK_FAILS(ctx, dataset_from_npy(ctx, path_of("x.npy"), path_of("y.npy"), &dataset),
                STATUS_INVALID_ARGUMENT, "/y.npy 4, each item needs a target");
    assert_null(dataset);
    CHECK_FAILS(ctx, dataset_from_npy(ctx, path_of("x.npy"), path_of("z.npy"), &dataset), STATUS_IO,
                "z.npy, No such file");
    CHECK_FAILS(ctx, dataset_from_tensors(ctx, number, y, &dataset), STATUS_INVALID_ARGUMENT,
                "dataset_from_tensors: x is f32[], y u8[4], a first dimension of at least one item "
                "is needed");
    CHECK_FAILS(ctx, dataset_from_tensors(ctx, nothing, nothing, &dataset), STATUS_INVALID_ARGUMENT,
                "a first dimension of at least one item");
    tensor_release(nothing);
    tensor_release(number);
    tensor_release(y);
    tensor_release(x);
}

/* ---- folders ---- */

#if defined(TESSERA_HAVE_PNG) && defined(TESSERA_HAVE_JPEG)

#define HEIGHT 6
#define WIDTH 9
#define POINTS (HEIGHT * WIDTH)

/* Returns pixels, each byte of which differs from its neighbours. */
static const uint8_t *some_points(void)
{
    static uint8_t points[POINTS * 3];
    for (int i = 0; i < POINTS * 3; i++) points[i] = (uint8_t)(i * 37 + i / 7);
    return points;
}

/* Returns pixels of one colour, which JPEG changes only by rounding. */
static const uint8_t *one_colour(void)
{
    static uint8_t points[POINTS * 3];
    for (int i = 0; i < POINTS; i++) memcpy(points + 3 * i, (uint8_t[]){200, 30, 90}, 3);
    return points;
}

static void make_pets(void)
{
    make_folder("dog");
    make_folder("cat");
    make_folder(".git");
    pictures_write_png(path_of("dog/b.png"), HEIGHT, WIDTH, some_points());
    pictures_write_jpeg(path_of("dog/a.JPG"), HEIGHT, WIDTH, one_colour());
    pictures_write_jpeg(path_of("cat/one.jpeg"), HEIGHT, WIDTH, one_colour());
    put_text("dog/notes.txt", "not a picture");
    put_text("dog/.hidden.png", "not a picture");
    put_text("README", "not a class");
}

static void folders_are_classes_in_order_of_names(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = NULL;
    loader_t *loader = NULL;
    tensor_t *x = NULL, *y = NULL;
    int64_t labels[3];
    float numbers[3 * 3 * POINTS];
    make_pets();
    CHECK_OK(ctx, dataset_from_folder(ctx, folder, &dataset));
    assert_int_equal(dataset_n(dataset), 3);
    assert_int_equal(dataset_classes(dataset), 2);
    assert_string_equal(dataset_class_name(dataset, 0), "cat");
    assert_string_equal(dataset_class_name(dataset, 1), "dog");
    assert_null(dataset_class_name(dataset, 2));
    CHECK_OK(ctx, loader_create(ctx, dataset, &(loader_options_t){.batch = 3}, &loader));
    CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, NULL));
    assert_true(shape_equal(tensor_rank(x), tensor_sizes(x), SHAPE(3, 3, HEIGHT, WIDTH)));
    CHECK_OK(ctx, tensor_read(ctx, y, labels, sizeof labels));
    assert_memory_equal(labels, ((int64_t[]){0, 1, 1}), sizeof labels);
    CHECK_OK(ctx, tensor_read(ctx, x, numbers, sizeof numbers));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < POINTS; i++) {
            double written = one_colour()[c];
            assert_float_equal(numbers[c * POINTS + i] * 255.0F, written, 3);
            assert_float_equal(numbers[(3 + c) * POINTS + i] * 255.0F, written, 3);
            assert_float_equal(numbers[(6 + c) * POINTS + i],
                               (float)(some_points()[3 * i + c] / 255.0), 1e-7);
        }
    tensor_release(x);
    tensor_release(y);
    loader_destroy(loader);
    dataset_release(dataset);
}

static void gray_has_three_channels_and_transparency_is_on_white(void **state)
{
    context_t *ctx = fixture_context(state);
    const uint8_t points[] = {100, 255, 100, 0};
    dataset_t *dataset = NULL;
    loader_t *loader = NULL;
    tensor_t *x = NULL, *y = NULL;
    float numbers[6];
    make_folder("gray");
    pictures_write_gray_png(path_of("gray/1.png"), 1, 2, points);
    CHECK_OK(ctx, dataset_from_folder(ctx, folder, &dataset));
    CHECK_OK(ctx, loader_create(ctx, dataset, &(loader_options_t){.batch = 1}, &loader));
    CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, NULL));
    CHECK_OK(ctx, tensor_read(ctx, x, numbers, sizeof numbers));
    for (int c = 0; c < 3; c++) {
        assert_float_equal(numbers[2 * c], 100 / 255.0F, 1e-6);
        assert_float_equal(numbers[2 * c + 1], 1, 0);
    }
    tensor_release(x);
    tensor_release(y);
    loader_destroy(loader);
    dataset_release(dataset);
}

static void folders_without_pictures_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = NULL;
    CHECK_FAILS(ctx, dataset_from_folder(ctx, "/nonexistent", &dataset), STATUS_IO,
                "dataset_from_folder: /nonexistent: No such file");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_INVALID_ARGUMENT,
                "has no folder, one for each class is needed");
    make_folder("dog");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_INVALID_ARGUMENT,
                "dog has no picture, a class needs files that end in .png, .jpg or .jpeg");
    assert_int_equal(symlink("/nonexistent", path_of("dog/gone.png")), 0);
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_IO,
                "dog/gone.png: No such file");
    assert_null(dataset);
}

static void files_that_are_no_pictures_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = NULL;
    make_folder("dog");
    put_text("dog/text.png", "this is no picture");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_CORRUPT,
                "dog/text.png: neither a PNG nor a JPEG file");
    put_text("dog/text.png", "");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_CORRUPT, "neither a PNG");
    pictures_write_png(path_of("dog/text.png"), HEIGHT, WIDTH, some_points());
    pictures_cut(path_of("dog/text.png"), 20);
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_CORRUPT,
                "dog/text.png: PNG, ");
    pictures_write_jpeg(path_of("dog/text.png"), HEIGHT, WIDTH, some_points());
    pictures_cut(path_of("dog/text.png"), 20);
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_CORRUPT,
                "dog/text.png: JPEG, Premature end");
}

static void pictures_of_another_size_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = NULL;
    make_pets();
    pictures_write_png(path_of("dog/c.png"), WIDTH, HEIGHT, some_points());
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_INVALID_ARGUMENT,
                "dog/c.png has 9 x 6 points, ");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_INVALID_ARGUMENT,
                "cat/one.jpeg 6 x 9, all must have the same size");
}

/* Spoils a file after its header was read. loader_next must fail, and must return the batch after
 * the file was repaired. */
static void check_broken(context_t *ctx, void (*spoil)(void), status_t status, const char *part)
{
    dataset_t *dataset = NULL;
    loader_t *loader = NULL;
    tensor_t *x = NULL, *y = NULL;
    bool is_end = true;
    pictures_write_png(path_of("dog/b.png"), HEIGHT, WIDTH, some_points());
    pictures_write_jpeg(path_of("dog/a.JPG"), HEIGHT, WIDTH, one_colour());
    CHECK_OK(ctx, dataset_from_folder(ctx, folder, &dataset));
    CHECK_OK(ctx, loader_create(ctx, dataset, &(loader_options_t){.batch = 3}, &loader));
    spoil();
    CHECK_FAILS(ctx, loader_next(ctx, loader, &x, &y, &is_end), status, part);
    assert_null(x);
    assert_null(y);
    pictures_write_png(path_of("dog/b.png"), HEIGHT, WIDTH, some_points());
    pictures_write_jpeg(path_of("dog/a.JPG"), HEIGHT, WIDTH, one_colour());
    CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, &is_end));
    assert_true(is_end);
    tensor_release(x);
    tensor_release(y);
    loader_destroy(loader);
    dataset_release(dataset);
}

static void cut_png(void)
{
    pictures_cut(path_of("dog/b.png"), 60);
}

static void cut_jpeg(void)
{
    struct stat about;
    assert_int_equal(stat(path_of("dog/a.JPG"), &about), 0);
    pictures_cut(path_of("dog/a.JPG"), (long)about.st_size - 12);
}

static void remove_png(void)
{
    assert_int_equal(unlink(path_of("dog/b.png")), 0);
}

static void turn_png(void)
{
    pictures_write_png(path_of("dog/b.png"), WIDTH, HEIGHT, some_points());
}

static void read_errors_of_the_thread_reach_the_caller(void **state)
{
    context_t *ctx = fixture_context(state);
    make_pets();
    check_broken(ctx, cut_png, STATUS_CORRUPT, "dog/b.png: PNG, ");
    check_broken(ctx, cut_jpeg, STATUS_CORRUPT, "dog/a.JPG: JPEG, ");
    check_broken(ctx, remove_png, STATUS_IO, "dog/b.png: No such file");
    check_broken(ctx, turn_png, STATUS_INVALID_ARGUMENT,
                 "dog/b.png: 9 x 6 points, pictures before it have 6 x 9");
}

static status_t read_a_folder(context_t *ctx)
{
    dataset_t *dataset = NULL;
    loader_t *loader = NULL;
    tensor_t *x = NULL, *y = NULL;
    status_t status = dataset_from_folder(ctx, folder, &dataset);
    if (status == STATUS_OK)
        status = loader_create(ctx, dataset, &(loader_options_t){.batch = 2}, &loader);
    if (status == STATUS_OK) status = loader_next(ctx, loader, &x, &y, NULL);
    tensor_release(x);
    tensor_release(y);
    loader_destroy(loader);
    dataset_release(dataset);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    make_pets();
    check_every_allocation(read_a_folder);
}

#else

static void a_build_without_the_libraries_says_so(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = NULL;
    make_folder("dog");
#ifndef TESSERA_HAVE_PNG
    put_text("dog/1.png", "\x89PNG\r\n\x1a\n");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_UNSUPPORTED,
                "dog/1.png: PNG, this build has no libpng");
#endif
#ifndef TESSERA_HAVE_JPEG
    put_text("dog/1.png", "\xff\xd8\xff and so on");
    CHECK_FAILS(ctx, dataset_from_folder(ctx, folder, &dataset), STATUS_UNSUPPORTED,
                "dog/1.png: JPEG, this build has no libjpeg");
#endif
}

#endif

#define FOLDER_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(types_become_those_of_training),
        TEST(classes_are_one_more_than_the_largest_label),
        FOLDER_TEST(arrays_come_from_files_and_are_held_against_each_other),
#if defined(TESSERA_HAVE_PNG) && defined(TESSERA_HAVE_JPEG)
        FOLDER_TEST(folders_are_classes_in_order_of_names),
        FOLDER_TEST(gray_has_three_channels_and_transparency_is_on_white),
        FOLDER_TEST(folders_without_pictures_are_refused),
        FOLDER_TEST(files_that_are_no_pictures_are_named),
        FOLDER_TEST(pictures_of_another_size_are_named),
        FOLDER_TEST(read_errors_of_the_thread_reach_the_caller),
        FOLDER_TEST(every_allocation_may_fail),
#else
        FOLDER_TEST(a_build_without_the_libraries_says_so),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
