/* Schedules and clipping compared with PyTorch: optimizer_values.py writes optimizer_values.txt. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tests/support/drawn.h"
#include "train/clip.h"
#include "train/schedule.h"

enum { MAX_LINE = 4096, N = 6 };

/* Finds the line that begins with these words. Returns the text after its colon. */
static char *find_line(const char *words)
{
    static char line[MAX_LINE];
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/train/values/optimizer_values.txt", "r");
    char *found = NULL;
    assert_non_null(file);
    while (found == NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, words, strlen(words)) == 0 && line[strlen(words)] == ':')
            found = line + strlen(words) + 1;
    fclose(file);
    assert_non_null(found);
    return found;
}

static void check_number(const char *what, int64_t i, double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-8 * (1.0 + fabs(wanted))))
        fail_msg("%s: number %lld is %.9g, must be %.9g", what, (long long)i, got, wanted);
}

static void learning_rates_are_those_of_pytorch(void **state)
{
    (void)state;
    char *numbers = find_line("step step_size=4 gamma=0.3");
    for (int64_t i = 0; i < 14; i++)
        check_number("step", i, schedule_step(0.1, i, 4, 0.3), strtod(numbers, &numbers));
    numbers = find_line("cosine t_max=10 eta_min=0.01");
    for (int64_t i = 0; i < 11; i++)
        check_number("cosine", i, schedule_cosine(0.1, i, 10, 0.01), strtod(numbers, &numbers));
    assert_true(schedule_step(0.1, 2, 0, 0.5) == 0.025);
    assert_true(schedule_cosine(0.1, 1, 0, 0.0) == 0.0);
}

static void check_cycle(const char *words, const one_cycle_options_t *options)
{
    char *numbers = find_line(words);
    double rate = 0.0;
    for (int64_t i = 0; i < 20; i++) {
        rate = strtod(numbers, &numbers);
        check_number(words, i, schedule_one_cycle(options, i), rate);
    }
    check_number(words, 100, schedule_one_cycle(options, 100), rate);
}

static void one_cycle_schedules_equal_pytorchs(void **state)
{
    (void)state;
    one_cycle_options_t options = one_cycle_options(0.5, 20);
    check_cycle("one_cycle", &options);
    options.is_linear = true;
    options.pct_start = 0.4;
    options.div_factor = 10.0;
    check_cycle("one_cycle anneal_strategy=linear pct_start=0.4 div_factor=10.0", &options);
    options = one_cycle_options(0.5, 20);
    options.three_phase = true;
    options.final_div_factor = 100.0;
    check_cycle("one_cycle three_phase=True final_div_factor=100.0", &options);
    assert_true(schedule_one_cycle(NULL, 3) == 0.0);
}

/* ---- clipping ---- */

static void check_clip(context_t *ctx, const char *words, double max_norm, const char *format)
{
    static const char *const keys[] = {"gradient 1", "gradient 2"};
    const int64_t sizes[] = {2, 3, 1, 1};
    tensor_t *gradients[3] = {NULL};
    char *numbers = find_line(words);
    double norm = 0.0;
    for (int i = 0; i < 2; i++) {
        tensor_t *dense = drawn_tensor(ctx, keys[i], 4, sizes);
        CHECK_OK(ctx, convert_reorder(ctx, dense, format, &gradients[2 * i]));
        tensor_release(dense);
    }
    CHECK_OK(ctx, clip_gradients(ctx, 3, gradients, max_norm, &norm));
    assert_float_equal(norm, strtod(numbers, &numbers), 1e-6);
    for (int i = 0; i < 3; i += 2) {
        float elements[N];
        const tensor_t *gradient = gradients[i];
        CHECK_OK(ctx, tensor_read(ctx, gradient, elements, sizeof elements));
        for (int k = 0; k < N; k++)
            assert_float_equal(elements[k], strtod(numbers, &numbers), 1e-6);
        assert_true(convert_padding_is_zero(tensor_info(gradient), tensor_bytes(gradient)));
        tensor_release(gradients[i]);
    }
}

static void gradients_are_clipped_as_pytorch_does(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const formats[] = {"abcd", "ABcd16b16a", "acdb"};
    for (int i = 0; i < 3; i++) {
        check_clip(ctx, "clip max_norm=0.5", 0.5, formats[i]);
        check_clip(ctx, "clip max_norm=100.0", 100.0, formats[i]);
    }
}

static void the_norm_does_not_depend_on_the_number_of_threads(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {3, 50021};
    double first = 0.0, norm = 0.0;
    for (int threads = 1; threads <= 5; threads++) {
        tensor_t *gradient = drawn_tensor(ctx, "large", 2, sizes);
        CHECK_OK(ctx, context_set_threads(ctx, threads));
        CHECK_OK(ctx, clip_gradients(ctx, 1, &gradient, 1.0, &norm));
        if (threads == 1) first = norm;
        assert_true(norm == first);
        CHECK_OK(ctx, clip_gradients(ctx, 1, &gradient, 1.0, &norm));
        assert_float_equal(norm, 1.0, 1e-5);
        tensor_release(gradient);
    }
}

static void tensors_that_share_bytes_are_scaled_once(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t n = 4, strides[] = {2}, spread[] = {0};
    float memory[8] = {3, 1, 3, 1, 3, 1, 3, 1}, four = 4.0f;
    tensor_t *gapped = NULL, *number = NULL, *all[4], *part = NULL;
    double norm = 0.0;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, &n, strides, memory, NULL, NULL, &gapped));
    CHECK_OK(ctx,
             tensor_borrow(ctx, DTYPE_F32, 1, (int64_t[]){1}, NULL, &four, NULL, NULL, &number));
    CHECK_OK(ctx, tensor_as_strided(ctx, number, 1, &n, spread, 0, &all[2]));
    all[0] = gapped;
    all[1] = gapped;
    all[3] = all[2];
    CHECK_OK(ctx, clip_gradients(ctx, 4, all, 1.0, &norm)); /* 8 threes and 8 fours */
    assert_float_equal(norm, sqrt(200.0), 1e-6);
    const float factor = (float)(1.0 / (norm + 1e-6));
    for (int i = 0; i < 8; i++) assert_true(memory[i] == (i % 2 == 0 ? 3.0f * factor : 1.0f));
    assert_true(four == 4.0f * factor);
    CHECK_OK(ctx, tensor_narrow(ctx, gapped, 0, 1, 2, &part));
    all[1] = part;
    CHECK_FAILS(ctx, clip_gradients(ctx, 2, all, 1.0, NULL), STATUS_INVALID_ARGUMENT,
                "share some of their bytes, must share all or none");
    tensor_release(part);
    tensor_release(gapped);
    tensor_release(number);
    tensor_release(all[2]);
}

/* As in a result of unfold, 4 windows of 3 elements start one element apart, so they share
 * elements. Each element must be multiplied once. */
static void elements_that_windows_share_are_multiplied_once(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {4, 3}, strides[] = {1, 1}, n = 8;
    float memory[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    tensor_t *whole = NULL, *windows = NULL;
    double norm = 0.0;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, &n, NULL, memory, NULL, NULL, &whole));
    CHECK_OK(ctx, tensor_as_strided(ctx, whole, 2, sizes, strides, 1, &windows));
    CHECK_OK(ctx, clip_gradients(ctx, 1, &windows, 1.0, &norm));
    /* 2 3 4, 3 4 5, 4 5 6, 5 6 7 */
    assert_float_equal(norm, sqrt(29.0 + 50.0 + 77.0 + 110.0), 1e-5);
    const float factor = (float)(1.0 / (norm + 1e-6));
    for (int i = 0; i < 8; i++) {
        const float before = (float)(i + 1);
        assert_true(memory[i] == (i >= 1 && i <= 6 ? before * factor : before));
    }
    tensor_release(windows);
    tensor_release(whole);
}

/* Even and odd columns are two gradients whose elements alternate in memory. Such gradients are
 * allowed. A gradient that shares only some elements with another one is refused. */
static void slices_between_each_other_are_clipped_each(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 2}, strides[] = {4, 2}, all_sizes[] = {2, 4};
    const float columns_are[] = {0.3f, 0.4f};
    float memory[8] = {3, 4, 3, 4, 3, 4, 3, 4};
    tensor_t *matrix = NULL, *ends = NULL, *columns[2] = {NULL};
    double norm = 0.0;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 2, all_sizes, NULL, memory, NULL, NULL, &matrix));
    for (int i = 0; i < 2; i++)
        CHECK_OK(ctx, tensor_as_strided(ctx, matrix, 2, sizes, strides, i, &columns[i]));
    CHECK_OK(ctx, clip_gradients(ctx, 2, columns, 1.0, &norm));
    assert_float_equal(norm, 10.0, 1e-6);
    for (int i = 0; i < 8; i++) assert_float_equal(memory[i], columns_are[i % 2], 1e-6);

    /* their first and last elements are the same, but those between are not */
    tensor_t *apart[] = {NULL, NULL};
    CHECK_OK(ctx, tensor_as_strided(ctx, matrix, 1, &sizes[0], (const int64_t[]){4}, 0, &ends));
    CHECK_OK(ctx, tensor_as_strided(ctx, matrix, 1, (const int64_t[]){5}, (const int64_t[]){1}, 0,
                                    &apart[1]));
    apart[0] = ends;
    CHECK_FAILS(ctx, clip_gradients(ctx, 2, apart, 0.1, NULL), STATUS_INVALID_ARGUMENT,
                "share some of their bytes, must share all or none");
    tensor_release(apart[1]);
    tensor_release(ends);

    /* they share one element, at different offsets */
    for (int i = 0; i < 2; i++)
        CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 1, &sizes[0], NULL, &memory[i], NULL, NULL,
                                    &apart[i]));
    CHECK_FAILS(ctx, clip_gradients(ctx, 2, apart, 0.1, NULL), STATUS_INVALID_ARGUMENT,
                "share some of their bytes, must share all or none");
    for (int i = 0; i < 2; i++) {
        tensor_release(apart[i]);
        tensor_release(columns[i]);
    }
    tensor_release(matrix);
}

static void a_norm_that_is_no_number_leaves_padded_lanes_zero(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {1, 3, 1, 1};
    tensor_t *dense = NULL, *gradient = NULL;
    float elements[3];
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 4, sizes, (float[]){1, NAN, 2}, &dense));
    CHECK_OK(ctx, convert_reorder(ctx, dense, "aBcd16b", &gradient));
    CHECK_OK(ctx, clip_gradients(ctx, 1, &gradient, 1.0, NULL));
    CHECK_OK(ctx, tensor_read(ctx, gradient, elements, sizeof elements));
    for (int i = 0; i < 3; i++) assert_true(isnan(elements[i]));
    assert_true(convert_padding_is_zero(tensor_info(gradient), tensor_bytes(gradient)));
    tensor_release(dense);
    tensor_release(gradient);
}

static void invalid_clipping_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *index = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F64, 3, 0, &index));
    CHECK_FAILS(ctx, clip_gradients(ctx, 1, &index, 1.0, NULL), STATUS_UNSUPPORTED,
                "a gradient is f64[3], must be f32 in a readable format");
    CHECK_FAILS(ctx, clip_gradients(ctx, 1, &index, NAN, NULL), STATUS_INVALID_ARGUMENT,
                "of 1 gradients, neither may be negative");
    CHECK_OK(ctx, clip_gradients(ctx, 0, NULL, 1.0, NULL));
    tensor_release(index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(learning_rates_are_those_of_pytorch),
        TEST(one_cycle_schedules_equal_pytorchs),
        TEST(gradients_are_clipped_as_pytorch_does),
        TEST(the_norm_does_not_depend_on_the_number_of_threads),
        TEST(tensors_that_share_bytes_are_scaled_once),
        TEST(elements_that_windows_share_are_multiplied_once),
        TEST(slices_between_each_other_are_clipped_each),
        TEST(a_norm_that_is_no_number_leaves_padded_lanes_zero),
        TEST(invalid_clipping_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
