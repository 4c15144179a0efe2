/* A loader has one buffer for a batch. The loader's thread fills it, then the caller empties it,
 * and so on.
 *
 *   EMPTY    no batch is requested; the caller owns the buffer
 *   ASKED    a batch is requested; the thread owns the buffer until it sets FULL
 *   FULL     the buffer has a batch or a failure; the caller owns it
 *
 * The lock protects only the state. All other fields have one owner at a time, the thread or the
 * caller. */
#include "io/data/loader.h"

#include <pthread.h>
#include <string.h>

#include "io/data/dataset_impl.h"
#include "io/data/picture_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/threads_impl.h"

typedef enum loader_state { LOADER_EMPTY, LOADER_ASKED, LOADER_FULL } loader_state_t;

/* Epoch and batch, both from 0. */
typedef struct position {
    int64_t epoch, batch;
} position_t;

struct loader {
    allocator_t allocator;
    dataset_t *dataset;
    loader_options_t options;
    float *mean, *std; /* arrays that `options` points to */
    position_t next;   /* position of the next batch for loader_next */

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool has_lock, has_condition, has_thread;
    int forks;            /* threads_forks() when the thread started */
    loader_state_t state; /* protected by the lock */
    bool is_ending;       /* protected by the lock */

    position_t asked; /* position of the batch in the buffer */
    failure_t failure;
    char *x, *y;
    uint8_t *pixels;
    int64_t *items; /* the order of one epoch */
    int64_t ordered_epoch;
};

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the thread ---- */

/* Index, in the batch, of the first item of a part. For 7 items in 2 parts: 0 and 4; 7 is the
 * end. */
static int64_t part_begin(const loader_t *loader, int64_t batch, int part)
{
    const int64_t n_parts = loader->options.n_parts;
    const int64_t size = loader->options.batch;
    const int64_t n = min(size, loader->dataset->n - batch * size);
    return n / n_parts * part + min(n % n_parts, part);
}

/* The number of items in this loader's part of a batch. */
static int64_t batch_size(const loader_t *loader, int64_t batch)
{
    const int part = loader->options.part;
    return part_begin(loader, batch, part + 1) - part_begin(loader, batch, part);
}

static status_t fill(loader_t *loader)
{
    const dataset_t *dataset = loader->dataset;
    size_t item_bytes = info_bytes(&dataset->item), target_bytes = info_bytes(&dataset->target);
    const char *targets = tensor_bytes(dataset->targets);
    const int64_t *items = loader->items + loader->asked.batch * loader->options.batch +
                           part_begin(loader, loader->asked.batch, loader->options.part);
    if (loader->ordered_epoch != loader->asked.epoch) {
        loader_order(&loader->options, loader->asked.epoch, dataset->n, loader->items);
        loader->ordered_epoch = loader->asked.epoch;
    }
    for (int64_t i = 0; i < batch_size(loader, loader->asked.batch); i++) {
        TRY(loader_read_item(dataset, &loader->options, loader->asked.epoch, items[i],
                             loader->pixels, loader->x + (size_t)i * item_bytes, &loader->failure));
        memcpy(loader->y + (size_t)i * target_bytes, targets + (size_t)items[i] * target_bytes,
               target_bytes);
    }
    return STATUS_OK;
}

static void *work(void *user)
{
    loader_t *loader = user;
    pthread_mutex_lock(&loader->lock);
    while (!loader->is_ending) {
        if (loader->state != LOADER_ASKED) {
            pthread_cond_wait(&loader->changed, &loader->lock);
            continue;
        }
        pthread_mutex_unlock(&loader->lock);
        loader->failure.status = fill(loader);
        pthread_mutex_lock(&loader->lock);
        loader->state = LOADER_FULL;
        pthread_cond_broadcast(&loader->changed);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* ---- creating ---- */

static bool is_picture(const dataset_t *dataset)
{
    return dataset->item.dtype == DTYPE_F32 && dataset->item.rank == 3;
}

static status_t check_normalization(context_t *ctx, const dataset_t *dataset,
                                    const loader_options_t *options)
{
    int n = options->n_channels;
    bool is_given = options->mean != NULL || options->std != NULL;
    int64_t channels = dataset->item.rank > 0 ? dataset->item.sizes[0] : 1;
    REQUIRE(ctx, is_given == (n != 0),
            "loader_create: n_channels %d with %s, goes with mean and std", n,
            is_given ? "mean or std" : "neither mean nor std");
    if (!is_given) return STATUS_OK;
    REQUIRE(ctx, n == 1 || n == channels,
            "loader_create: mean and std of %d channels, items have %lld", n, (long long)channels);
    REQUIRE(ctx, dataset->item.dtype == DTYPE_F32,
            "loader_create: mean and std of items that are %s, must be f32",
            info_brief(&dataset->item));
    for (int i = 0; i < n && options->std != NULL; i++)
        REQUIRE(ctx, options->std[i] > 0.0F, "loader_create: std %g of channel %d, must be above 0",
                (double)options->std[i], i);
    return STATUS_OK;
}

static status_t check(context_t *ctx, const dataset_t *dataset, const loader_options_t *options)
{
    REQUIRE(ctx, options->batch >= 1, "loader_create: batch %lld, must be at least 1",
            (long long)options->batch);
    const int n_parts = options->n_parts > 0 ? options->n_parts : 1;
    REQUIRE(ctx, options->n_parts >= 0 && options->part >= 0 && options->part < n_parts,
            "loader_create: part %d of %d, parts count from 0", options->part, options->n_parts);
    REQUIRE(ctx, options->batch >= n_parts && dataset->n >= n_parts,
            "loader_create: batch %lld of %lld items in %d parts, each needs an item",
            (long long)options->batch, (long long)dataset->n, n_parts);
    REQUIRE(ctx, !options->drop_last || options->batch <= dataset->n,
            "loader_create: batch %lld of %lld items, drop_last leaves nothing",
            (long long)options->batch, (long long)dataset->n);
    REQUIRE(ctx, options->crop_padding >= 0 && options->crop_padding <= INT32_MAX,
            "loader_create: crop_padding %lld, must be from 0 to %d",
            (long long)options->crop_padding, INT32_MAX);
    REQUIRE(ctx, (options->crop_padding == 0 && !options->flip) || is_picture(dataset),
            "loader_create: flip or crop_padding for items %s, must be f32 [channels,height,width]",
            info_brief(&dataset->item));
    return check_normalization(ctx, dataset, options);
}

static status_t copy_numbers(context_t *ctx, int n, const float *numbers, float **out_copy)
{
    if (numbers == NULL) return STATUS_OK;
    TRY(context_get(ctx, (size_t)n * sizeof *numbers, "mean and std", out_copy));
    memcpy(*out_copy, numbers, (size_t)n * sizeof *numbers);
    return STATUS_OK;
}

static tensor_info_t info_of_batch(const tensor_info_t *one, int64_t n)
{
    int64_t sizes[TENSOR_MAX_RANK] = {n};
    for (int d = 0; d < one->rank; d++) sizes[d + 1] = one->sizes[d];
    return info_dense(one->dtype, one->rank + 1, sizes);
}

static status_t get_buffer(context_t *ctx, const tensor_info_t *one, int64_t n, char **out_buffer)
{
    tensor_info_t info = info_of_batch(one, n);
    TRY(shape_check(ctx, "loader_create", info.dtype, info.rank, info.sizes));
    return context_get(ctx, info_bytes(&info), "a batch", out_buffer);
}

static status_t get_buffers(context_t *ctx, loader_t *loader)
{
    const dataset_t *dataset = loader->dataset;
    int64_t n = batch_size(loader, 0);
    TRY(get_buffer(ctx, &dataset->item, n, &loader->x));
    TRY(get_buffer(ctx, &dataset->target, n, &loader->y));
    TRY(context_get(ctx, (size_t)dataset->n * sizeof *loader->items, "the order of an epoch",
                    &loader->items));
    if (dataset->elements == NULL)
        TRY(context_get(ctx, (size_t)info_numel(&dataset->item), "a picture", &loader->pixels));
    return STATUS_OK;
}

static status_t start(context_t *ctx, loader_t *loader)
{
    loader->has_lock = pthread_mutex_init(&loader->lock, NULL) == 0;
    loader->has_condition = loader->has_lock && pthread_cond_init(&loader->changed, NULL) == 0;
    int error = loader->has_condition ? pthread_create(&loader->thread, NULL, work, loader) : -1;
    loader->has_thread = error == 0;
    if (loader->has_thread) {
        loader->forks = threads_forks();
        return STATUS_OK;
    }
    return context_fail(ctx, STATUS_OUT_OF_MEMORY, "loader_create: the system refuses a thread");
}

static status_t prepare(context_t *ctx, dataset_t *dataset, const loader_options_t *options,
                        loader_t *loader)
{
    loader->allocator = *context_allocator(ctx);
    loader->forks = threads_forks();
    loader->dataset = dataset_retain(dataset);
    loader->options = *options;
    if (options->n_parts == 0) loader->options.n_parts = 1;
    loader->ordered_epoch = -1;
    TRY(copy_numbers(ctx, options->n_channels, options->mean, &loader->mean));
    TRY(copy_numbers(ctx, options->n_channels, options->std, &loader->std));
    loader->options.mean = loader->mean;
    loader->options.std = loader->std;
    TRY(get_buffers(ctx, loader));
    return start(ctx, loader);
}

status_t loader_create(context_t *ctx, dataset_t *dataset, const loader_options_t *options,
                       loader_t **out_loader)
{
    TRY(context_output(ctx, "loader_create", out_loader));
    if (dataset == NULL) return context_null(ctx, "loader_create", "dataset");
    if (options == NULL) return context_null(ctx, "loader_create", "options");
    TRY(check(ctx, dataset, options));
    loader_t *loader = NULL;
    TRY(context_get_zeroed(ctx, sizeof *loader, "a loader", &loader));
    status_t status = prepare(ctx, dataset, options, loader);
    GIVE(status, out_loader, loader, loader_destroy(loader));
}

/* True in a forked child. A child process does not have the loader's thread. If the thread held the
 * lock during the fork, the lock stays locked. */
static bool is_forked(const loader_t *loader)
{
    return loader->forks != threads_forks();
}

static void stop(loader_t *loader)
{
    if (is_forked(loader)) return;
    if (loader->has_thread) {
        pthread_mutex_lock(&loader->lock);
        loader->is_ending = true;
        pthread_cond_broadcast(&loader->changed);
        pthread_mutex_unlock(&loader->lock);
        pthread_join(loader->thread, NULL);
    }
    if (loader->has_condition) pthread_cond_destroy(&loader->changed);
    if (loader->has_lock) pthread_mutex_destroy(&loader->lock);
}

void loader_destroy(loader_t *loader)
{
    if (loader == NULL) return;
    const allocator_t allocator = loader->allocator;
    stop(loader);
    dataset_release(loader->dataset);
    allocator_put(&allocator, loader->mean);
    allocator_put(&allocator, loader->std);
    allocator_put(&allocator, loader->x);
    allocator_put(&allocator, loader->y);
    allocator_put(&allocator, loader->items);
    allocator_put(&allocator, loader->pixels);
    allocator_put(&allocator, loader);
}

/* ---- the caller ---- */

/* Requests the next batch. The state must be EMPTY or FULL. */
static void ask(loader_t *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->asked = loader->next;
    failure_clear(&loader->failure);
    loader->state = LOADER_ASKED;
    pthread_cond_broadcast(&loader->changed);
    pthread_mutex_unlock(&loader->lock);
}

/* Makes sure that the thread exists: a forked child starts a new one, which reads the requested
 * batch again. */
static status_t have_thread(context_t *ctx, loader_t *loader)
{
    if (!is_forked(loader)) return STATUS_OK;
    loader->ordered_epoch = -1;
    return start(ctx, loader);
}

/* Waits until the caller owns the buffer. */
static loader_state_t wait_for_thread(loader_t *loader)
{
    pthread_mutex_lock(&loader->lock);
    while (loader->state == LOADER_ASKED) pthread_cond_wait(&loader->changed, &loader->lock);
    loader_state_t state = loader->state;
    pthread_mutex_unlock(&loader->lock);
    return state;
}

static void forget(loader_t *loader)
{
    pthread_mutex_lock(&loader->lock);
    loader->state = LOADER_EMPTY;
    pthread_mutex_unlock(&loader->lock);
}

static status_t take(context_t *ctx, const tensor_info_t *one, int64_t n, const char *buffer,
                     tensor_t **out_tensor)
{
    tensor_info_t info = info_of_batch(one, n);
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    if (info_bytes(&info) > 0) memcpy(bytes, buffer, info_bytes(&info));
    *out_tensor = tensor;
    return STATUS_OK;
}

/* Creates the tensors of the batch. Returns both or neither: if the second one fails, the open
 * scope releases the first. */
static status_t give(context_t *ctx, const loader_t *loader, tensor_t **out_x, tensor_t **out_y)
{
    const dataset_t *dataset = loader->dataset;
    int64_t n = batch_size(loader, loader->asked.batch);
    tensor_t *x = NULL, *y = NULL;
    TRY(take(ctx, &dataset->item, n, loader->x, &x));
    status_t status = take(ctx, &dataset->target, n, loader->y, &y);
    TRY_OR(status, tensor_drop(x));
    status = tensor_give(ctx, x, out_x);
    status_t other = tensor_give(ctx, y, out_y);
    if (status == STATUS_OK) status = other;
    if (status != STATUS_OK) *out_x = *out_y = NULL;
    return status;
}

int64_t loader_batches(const loader_t *loader)
{
    if (loader == NULL) return 0;
    int64_t n = loader->dataset->n, batch = loader->options.batch;
    return n / batch + (!loader->options.drop_last && n % batch >= loader->options.n_parts ? 1 : 0);
}

status_t loader_next(context_t *ctx, loader_t *loader, tensor_t **out_x, tensor_t **out_y,
                     bool *out_is_end)
{
    TRY(context_output(ctx, "loader_next", out_x));
    TRY(context_output(ctx, "loader_next", out_y));
    if (loader == NULL) return context_null(ctx, "loader_next", "loader");
    TRY(have_thread(ctx, loader));
    if (wait_for_thread(loader) == LOADER_EMPTY) {
        ask(loader);
        wait_for_thread(loader);
    }
    if (loader->failure.status != STATUS_OK) {
        forget(loader);
        FAIL(ctx, loader->failure.status, "loader_next: %s", loader->failure.message);
    }
    TRY(give(ctx, loader, out_x, out_y));
    bool is_end = ++loader->next.batch == loader_batches(loader);
    if (is_end) loader->next = (position_t){.epoch = loader->next.epoch + 1};
    ask(loader);
    if (out_is_end != NULL) *out_is_end = is_end;
    return STATUS_OK;
}

void loader_position(const loader_t *loader, int64_t *out_epoch, int64_t *out_batch)
{
    if (out_epoch != NULL) *out_epoch = loader != NULL ? loader->next.epoch : 0;
    if (out_batch != NULL) *out_batch = loader != NULL ? loader->next.batch : 0;
}

status_t loader_seek(context_t *ctx, loader_t *loader, int64_t epoch, int64_t batch)
{
    if (loader == NULL) return context_null(ctx, "loader_seek", "loader");
    REQUIRE(ctx, epoch >= 0 && batch >= 0 && batch < loader_batches(loader),
            "loader_seek: epoch %lld, batch %lld, an epoch has %lld batches, from 0",
            (long long)epoch, (long long)batch, (long long)loader_batches(loader));
    TRY(have_thread(ctx, loader));
    wait_for_thread(loader);
    loader->next = (position_t){epoch, batch};
    ask(loader);
    return STATUS_OK;
}
