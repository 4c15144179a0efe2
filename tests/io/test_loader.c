#define _POSIX_C_SOURCE 200809L

#include "io/data/loader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/pictures.h"
#include "tests/support/support.h"

#define N 10

/* Makes a dataset of N items s64 [], 0 to 9, whose targets are 100 larger. */
static dataset_t *make_numbers(context_t *ctx)
{
    tensor_t *x = NULL, *y = NULL;
    dataset_t *dataset = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, N, 0, &x));
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_S64, N, 100, &y));
    CHECK_OK(ctx, dataset_from_tensors(ctx, x, y, &dataset));
    tensor_release(x);
    tensor_release(y);
    return dataset;
}

static loader_t *make_loader(context_t *ctx, dataset_t *dataset, const loader_options_t *options)
{
    loader_t *loader = NULL;
    CHECK_OK(ctx, loader_create(ctx, dataset, options, &loader));
    return loader;
}

/* Appends the items of the next batch to `items`. Returns true at the end of an epoch. */
static bool next_items(context_t *ctx, loader_t *loader, int *n, int64_t *items)
{
    tensor_t *x = NULL, *y = NULL;
    int64_t targets[N];
    bool is_end = false;
    CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, &is_end));
    int n_more = (int)tensor_sizes(x)[0];
    assert_true(*n + n_more <= N);
    CHECK_OK(ctx, tensor_read(ctx, x, items + *n, (size_t)(N - *n) * sizeof *items));
    CHECK_OK(ctx, tensor_read(ctx, y, targets, sizeof targets));
    for (int i = 0; i < n_more; i++) assert_int_equal(targets[i], items[*n + i] + 100);
    *n += n_more;
    tensor_release(x);
    tensor_release(y);
    return is_end;
}

static int read_epoch(context_t *ctx, loader_t *loader, int64_t *items)
{
    int n = 0;
    while (!next_items(ctx, loader, &n, items)) continue;
    return n;
}

/* ---- order ---- */

static void without_shuffling_batches_follow_the_data_set(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    loader_t *loader = make_loader(ctx, dataset, &(loader_options_t){.batch = 4});
    dataset_release(dataset); /* the loader has retained it */
    assert_int_equal(loader_batches(loader), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        int64_t items[N];
        int n = 0;
        assert_false(next_items(ctx, loader, &n, items));
        assert_false(next_items(ctx, loader, &n, items));
        assert_int_equal(n, 8);
        assert_true(next_items(ctx, loader, &n, items));
        assert_int_equal(n, N); /* the last batch has fewer items */
        for (int i = 0; i < N; i++) assert_int_equal(items[i], i);
    }
    loader_destroy(loader);
}

static void a_last_batch_that_is_not_full_may_be_left_out(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    loader_t *loader = make_loader(ctx, dataset,
                                   &(loader_options_t){.batch = 4, .drop_last = true});
    int64_t items[N];
    assert_int_equal(loader_batches(loader), 2);
    assert_int_equal(read_epoch(ctx, loader, items), 8);
    assert_int_equal(read_epoch(ctx, loader, items), 8);
    loader_destroy(loader);
    dataset_release(dataset);
}

/* The thread sanitizer does not support threads in a child of a multithreaded process. */
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define CHILDREN_HAVE_THREADS false
#else
#define CHILDREN_HAVE_THREADS true
#endif

/* The loader's thread does not exist in the child, which must read the batch that the thread was
 * asked for, complete or not. */
static void a_forked_child_reads_on(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    const loader_options_t options = {.batch = 4, .shuffle = true, .seed = 3};
    loader_t *loader = make_loader(ctx, dataset, &options);
    int64_t items[N];
    int n = 0, status = 0;
    assert_false(next_items(ctx, loader, &n, items));
    const pid_t child = CHILDREN_HAVE_THREADS ? fork() : -1;
    assert_true(child >= 0 || !CHILDREN_HAVE_THREADS);
    if (child == 0) {
        alarm(120);
        while (!next_items(ctx, loader, &n, items)) continue;
        loader_destroy(loader);
        loader_t *whole = make_loader(ctx, dataset, &options);
        int64_t wanted[N];
        const bool is_right = read_epoch(ctx, whole, wanted) == N && n == N &&
                              memcmp(items, wanted, sizeof items) == 0;
        _exit(is_right ? 0 : 1);
    }
    if (child > 0) assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    loader_destroy(loader);
    dataset_release(dataset);
}

/* 10 items in batches of 4 are batches of 4, 4 and 2. With 3 parts, the last one is left out,
 * because it has fewer items than parts. */
static void parts_of_a_batch_are_the_batch(void **state)
{
    static const int64_t firsts[] = {0, 2, 3, 4};
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    loader_options_t options = {.batch = 4, .shuffle = true, .seed = 7};
    loader_t *whole = make_loader(ctx, dataset, &options);
    int64_t all[N];
    read_epoch(ctx, whole, all);
    options.n_parts = 3;
    for (options.part = 0; options.part < 3; options.part++) {
        loader_t *loader = make_loader(ctx, dataset, &options);
        int64_t items[N];
        const int64_t first = firsts[options.part], n = firsts[options.part + 1] - first;
        assert_int_equal(loader_batches(loader), 2);
        assert_int_equal(read_epoch(ctx, loader, items), 2 * n);
        for (int64_t i = 0; i < 2 * n; i++)
            assert_int_equal(items[i], all[i / n * 4 + first + i % n]);
        loader_destroy(loader);
    }
    options.n_parts = 2;
    options.part = 1;
    loader_t *half = make_loader(ctx, dataset, &options);
    int64_t items[N];
    assert_int_equal(loader_batches(half), 3);
    assert_int_equal(read_epoch(ctx, half, items), 5);
    assert_int_equal(items[4], all[9]);
    loader_destroy(half);
    loader_destroy(whole);
    dataset_release(dataset);
}

static void parts_that_would_be_empty_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    loader_t *loader = NULL;
    CHECK_FAILS(ctx,
                loader_create(ctx, dataset,
                              &(loader_options_t){.batch = 4, .part = 2, .n_parts = 2}, &loader),
                STATUS_INVALID_ARGUMENT, "part 2 of 2, parts count from 0");
    CHECK_FAILS(ctx,
                loader_create(ctx, dataset, &(loader_options_t){.batch = 4, .n_parts = 5}, &loader),
                STATUS_INVALID_ARGUMENT, "in 5 parts, each needs an item");
    dataset_release(dataset);
}

/* Orders computed by loader_order.py. */
static void orders_are_those_of_every_machine(void **state)
{
    static const int64_t orders[][N] = {{9, 4, 1, 5, 3, 0, 8, 7, 6, 2},
                                        {4, 5, 2, 0, 9, 8, 1, 3, 7, 6},
                                        {1, 0, 4, 3, 8, 5, 6, 7, 2, 9}};
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    loader_t *loader = make_loader(ctx, dataset,
                                   &(loader_options_t){.batch = 3, .shuffle = true, .seed = 7});
    for (int epoch = 0; epoch < 3; epoch++) {
        int64_t items[N];
        assert_int_equal(read_epoch(ctx, loader, items), N);
        assert_memory_equal(items, orders[epoch], sizeof items);
    }
    loader_destroy(loader);
    dataset_release(dataset);
}

static void another_seed_has_another_order(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    int64_t items[2][N];
    for (int i = 0; i < 2; i++) {
        loader_t *loader = make_loader(
            ctx, dataset,
            &(loader_options_t){.batch = 3, .shuffle = true, .seed = 7 + (uint64_t)i});
        read_epoch(ctx, loader, items[i]);
        loader_destroy(loader);
    }
    assert_memory_not_equal(items[0], items[1], sizeof items[0]);
    dataset_release(dataset);
}

static void a_position_is_gone_back_to(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    const loader_options_t options = {.batch = 4, .shuffle = true, .seed = 1};
    loader_t *loader = make_loader(ctx, dataset, &options), *other = NULL;
    int64_t items[N], wanted[N], epoch = -1, batch = -1;
    int n = 0;
    loader_position(loader, &epoch, &batch);
    assert_int_equal(epoch, 0);
    assert_int_equal(batch, 0);
    read_epoch(ctx, loader, wanted);
    next_items(ctx, loader, &n, items);
    loader_position(loader, &epoch, &batch);
    assert_int_equal(epoch, 1);
    assert_int_equal(batch, 1);
    n = 0;
    while (!next_items(ctx, loader, &n, wanted)) continue;

    other = make_loader(ctx, dataset, &options);
    n = 0;
    next_items(ctx, other, &n, items); /* the thread reads another batch of epoch 0 */
    CHECK_OK(ctx, loader_seek(ctx, other, epoch, batch));
    n = 0;
    while (!next_items(ctx, other, &n, items)) continue;
    assert_int_equal(n, 6);
    assert_memory_equal(items, wanted, 6 * sizeof *items);

    CHECK_FAILS(ctx, loader_seek(ctx, other, 0, 3), STATUS_INVALID_ARGUMENT,
                "loader_seek: epoch 0, batch 3, an epoch has 3 batches, from 0");
    CHECK_FAILS(ctx, loader_seek(ctx, other, -1, 0), STATUS_INVALID_ARGUMENT, "epoch -1, batch 0");
    loader_position(other, &epoch, &batch);
    assert_int_equal(epoch, 2); /* the failed calls have changed nothing */
    loader_destroy(other);
    loader_destroy(loader);
    dataset_release(dataset);
}

/* ---- numbers ---- */

static void bytes_are_divided_and_normalized_by_channel(void **state)
{
    context_t *ctx = fixture_context(state);
    const uint8_t bytes[] = {0, 255, 51, 102, 7, 200, 128, 64}; /* [2][2][2] */
    const float mean[] = {0.5F, 0.25F}, std[] = {0.2F, 3.0F};
    const loader_options_t options[] = {
        {.batch = 2},
        {.batch = 2, .n_channels = 2, .mean = mean, .std = std},
        {.batch = 2, .n_channels = 1, .mean = mean},
        {.batch = 2, .n_channels = 1, .std = std},
    };
    static const double means[][2] = {{0, 0}, {0.5, 0.25}, {0.5, 0.5}, {0, 0}};
    static const double stds[][2] = {{1, 1}, {0.2F, 3}, {1, 1}, {0.2F, 0.2F}};
    tensor_t *x = NULL, *y = NULL;
    dataset_t *dataset = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_U8, SHAPE(2, 2, 2), bytes, &x));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2), &y));
    CHECK_OK(ctx, dataset_from_tensors(ctx, x, y, &dataset));
    tensor_release(x);
    tensor_release(y);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        loader_t *loader = make_loader(ctx, dataset, &options[i]);
        float numbers[8];
        CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, NULL));
        CHECK_OK(ctx, tensor_read(ctx, x, numbers, sizeof numbers));
        for (int at = 0; at < 8; at++) {
            int c = at / 2 % 2;
            double wanted = (bytes[at] / 255.0 - means[i][c]) / stds[i][c];
            assert_float_equal(numbers[at], wanted, 1e-6);
        }
        tensor_release(x);
        tensor_release(y);
        loader_destroy(loader);
    }
    dataset_release(dataset);
}

#define SIDE 5
#define PADDING 2

/* Returns an element of the images f32 [2][5][5]: a number that identifies the element's position,
 * and is never 0. */
static float number_of(int item, int c, int h, int w)
{
    return (float)(1 + ((item * 2 + c) * SIDE + h) * SIDE + w);
}

static dataset_t *make_pictures(context_t *ctx)
{
    tensor_t *x = NULL, *y = NULL;
    dataset_t *dataset = NULL;
    int64_t sizes[] = {N, 2, SIDE, SIDE};
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, N * 2 * SIDE * SIDE, 1, &y));
    CHECK_OK(ctx, tensor_view(ctx, y, 4, sizes, &x));
    tensor_release(y);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_S64, SHAPE(N), &y));
    CHECK_OK(ctx, dataset_from_tensors(ctx, x, y, &dataset));
    tensor_release(x);
    tensor_release(y);
    return dataset;
}

typedef float picture_t[2][SIDE][SIDE];

/* True if `picture` is what PyTorch's RandomCrop makes of the padded item at this corner, then
 * flipped if `flips`. */
static bool is_changed_so(int item, picture_t picture, int down, int right, bool flips)
{
    for (int c = 0; c < 2; c++)
        for (int h = 0; h < SIDE; h++)
            for (int w = 0; w < SIDE; w++) {
                int row = h + down - PADDING;
                int column = (flips ? SIDE - 1 - w : w) + right - PADDING;
                bool is_inside = row >= 0 && row < SIDE && column >= 0 && column < SIDE;
                float wanted = is_inside ? number_of(item, c, row, column) : 0.0F;
                if (memcmp(&wanted, &picture[c][h][w], sizeof wanted) != 0) return false;
            }
    return true;
}

/* Finds the crop and flip that made `picture` of the item. Returns a number for them. */
static int find_change(int item, picture_t picture)
{
    for (int change = 0; change < 2 * SIDE * SIDE; change++)
        if (is_changed_so(item, picture, change / 2 / SIDE, change / 2 % SIDE, change % 2 == 1))
            return change;
    fail_msg("item %d has undergone no change that is allowed", item);
    return -1;
}

static void pictures_are_flipped_and_cut_anew_in_each_epoch(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_pictures(ctx);
    loader_t *loader = make_loader(
        ctx, dataset, &(loader_options_t){.batch = N, .flip = true, .crop_padding = PADDING});
    int n_flipped = 0, n_epochs = 100, seen[2 * SIDE * SIDE] = {0}, first[2][N];
    for (int epoch = 0; epoch < n_epochs + 2; epoch++) {
        tensor_t *x = NULL, *y = NULL;
        picture_t pictures[N];
        if (epoch == n_epochs) CHECK_OK(ctx, loader_seek(ctx, loader, 0, 0));
        CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, NULL));
        CHECK_OK(ctx, tensor_read(ctx, x, pictures, sizeof pictures));
        for (int i = 0; i < N; i++) {
            int change = find_change(i, pictures[i]);
            if (epoch < 2) first[epoch][i] = change;
            if (epoch >= n_epochs) assert_int_equal(change, first[epoch - n_epochs][i]);
            if (epoch < n_epochs) n_flipped += change % 2;
            seen[change]++;
        }
        tensor_release(x);
        tensor_release(y);
    }
    assert_memory_not_equal(first[0], first[1], sizeof first[0]);
    /* Each of the 50 changes occurs among 1000 samples. Half are flipped, within five standard
     * deviations (of 16). */
    for (int change = 0; change < 2 * SIDE * SIDE; change++) assert_true(seen[change] > 0);
    assert_in_range(n_flipped, 420, 580);
    loader_destroy(loader);
    dataset_release(dataset);
}

/* ---- the thread ---- */

#ifdef TESSERA_HAVE_PNG

/* The second image is replaced by a FIFO, which can be opened for writing only while someone reads
 * it. */
static void the_next_batch_is_read_while_the_caller_works(void **state)
{
    context_t *ctx = fixture_context(state);
    const struct timespec pause = {.tv_nsec = 1000000};
    const uint8_t points[3] = {1, 2, 3};
    char folder[] = "/tmp/tessera_loader_XXXXXX", class[64], paths[2][80];
    dataset_t *dataset = NULL;
    tensor_t *x = NULL, *y = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(class, sizeof class, "%s/class", folder);
    assert_int_equal(mkdir(class, 0777), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%d.png", class, i);
        pictures_write_png(paths[i], 1, 1, points);
    }
    CHECK_OK(ctx, dataset_from_folder(ctx, folder, &dataset));
    assert_int_equal(unlink(paths[1]), 0);
    assert_int_equal(mkfifo(paths[1], 0600), 0);
    loader_t *loader = make_loader(ctx, dataset, &(loader_options_t){.batch = 1});
    CHECK_OK(ctx, loader_next(ctx, loader, &x, &y, NULL));
    tensor_release(x);
    tensor_release(y);
    int fifo = -1;
    for (int i = 0; fifo < 0 && i < 10000; i++) {
        fifo = open(paths[1], O_WRONLY | O_NONBLOCK);
        if (fifo < 0) nanosleep(&pause, NULL);
    }
    assert_true(fifo >= 0); /* so the thread has opened it, though no caller needs it yet */
    assert_int_equal(write(fifo, "no picture", 10), 10);
    close(fifo);
    CHECK_FAILS(ctx, loader_next(ctx, loader, &x, &y, NULL), STATUS_CORRUPT,
                "loader_next: /tmp/tessera_loader_");
    loader_destroy(loader);
    dataset_release(dataset);
    for (int i = 0; i < 2; i++) assert_int_equal(unlink(paths[i]), 0);
    assert_int_equal(rmdir(class), 0);
    assert_int_equal(rmdir(folder), 0);
}

#endif

static void loaders_end_at_any_time(void **state)
{
    context_t *ctx = fixture_context(state);
    dataset_t *dataset = make_numbers(ctx);
    for (int i = 0; i < 50; i++) {
        int64_t items[N];
        int n = 0;
        loader_t *loader = make_loader(ctx, dataset,
                                       &(loader_options_t){.batch = 3, .shuffle = true});
        if (i % 2 == 1) next_items(ctx, loader, &n, items);
        loader_destroy(loader);
    }
    loader_destroy(NULL);
    dataset_release(dataset);
}

static status_t read_batches(context_t *ctx)
{
    const float mean = 0.5F;
    const loader_options_t options = {.batch = 3, .n_channels = 1, .mean = &mean, .std = &mean};
    tensor_t *data = NULL, *x = NULL, *y = NULL;
    dataset_t *dataset = NULL;
    loader_t *loader = NULL;
    status_t status = tensor_zeros(ctx, DTYPE_U8, SHAPE(4, 2), &data);
    if (status == STATUS_OK) status = dataset_from_tensors(ctx, data, data, &dataset);
    if (status == STATUS_OK) status = loader_create(ctx, dataset, &options, &loader);
    for (int i = 0; i < 3 && status == STATUS_OK; i++) {
        status = loader_next(ctx, loader, &x, &y, NULL);
        assert_int_equal(x == NULL, y == NULL);
        tensor_release(x);
        tensor_release(y);
    }
    loader_destroy(loader);
    dataset_release(dataset);
    tensor_release(data);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(read_batches);
}

/* ---- errors ---- */

static void options_that_items_do_not_allow_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const float one = 1, zero = 0;
    dataset_t *numbers = make_numbers(ctx), *pictures = make_pictures(ctx);
    const struct {
        dataset_t *dataset;
        loader_options_t options;
        const char *message;
    } cases[] = {
        {numbers, {.batch = 0}, "loader_create: batch 0, must be at least 1"},
        {numbers, {.batch = 11, .drop_last = true}, "batch 11 of 10 items, drop_last leaves"},
        {numbers, {.batch = 1, .flip = true}, "flip or crop_padding for items s64[], must be f32"},
        {numbers, {.batch = 1, .crop_padding = 1}, "flip or crop_padding for items s64[]"},
        {pictures, {.batch = 1, .crop_padding = -1}, "crop_padding -1, must be from 0"},
        {pictures, {.batch = 1, .mean = &one}, "n_channels 0 with mean or std, goes with"},
        {pictures, {.batch = 1, .n_channels = 1}, "n_channels 1 with neither mean nor std"},
        {pictures,
         {.batch = 1, .n_channels = 3, .std = &one},
         "mean and std of 3 channels, items have 2"},
        {pictures,
         {.batch = 1, .n_channels = 1, .std = &zero},
         "std 0 of channel 0, must be above 0"},
        {numbers,
         {.batch = 1, .n_channels = 1, .mean = &one},
         "mean and std of items that are s64[], must be f32"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loader_t *loader = NULL;
        CHECK_FAILS(ctx, loader_create(ctx, cases[i].dataset, &cases[i].options, &loader),
                    STATUS_INVALID_ARGUMENT, cases[i].message);
        assert_null(loader);
    }
    dataset_release(numbers);
    dataset_release(pictures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_shuffling_batches_follow_the_data_set),
        TEST(a_last_batch_that_is_not_full_may_be_left_out),
        TEST(a_forked_child_reads_on),
        TEST(parts_of_a_batch_are_the_batch),
        TEST(parts_that_would_be_empty_are_refused),
        TEST(orders_are_those_of_every_machine),
        TEST(another_seed_has_another_order),
        TEST(a_position_is_gone_back_to),
        TEST(bytes_are_divided_and_normalized_by_channel),
        TEST(pictures_are_flipped_and_cut_anew_in_each_epoch),
#ifdef TESSERA_HAVE_PNG
        TEST(the_next_batch_is_read_while_the_caller_works),
#endif
        TEST(loaders_end_at_any_time),
        TEST(every_allocation_may_fail),
        TEST(options_that_items_do_not_allow_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
