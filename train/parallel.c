#include "train/parallel.h"

#include "train/parallel_impl.h"

#ifdef TESSERA_HAVE_MPI

#include "tensor/tensor_impl.h"

/* ---- creation ---- */

/* An MPI_Op that sums bf16 numbers in f32 and rounds the sum to bf16. */
static void add_bf16(void *in, void *in_out, int *n, MPI_Datatype *type)
{
    const uint16_t *a = in;
    uint16_t *b = in_out;
    (void)type;
    for (int i = 0; i < *n; i++) {
        float x = 0.0F, y = 0.0F;
        dtype_cast(1, DTYPE_BF16, &a[i], 1, DTYPE_F32, &x, 1);
        dtype_cast(1, DTYPE_BF16, &b[i], 1, DTYPE_F32, &y, 1);
        x += y;
        dtype_cast(1, DTYPE_F32, &x, 1, DTYPE_BF16, &b[i], 1);
    }
}

static status_t open_group(context_t *ctx, parallel_t *parallel)
{
    TRY(group_open(ctx, "parallel_create", &parallel->group));
    if (!parallel->options.bf16_gradients) return STATUS_OK;
    TRY(group_begin(ctx, "parallel_create", &parallel->group,
                    MPI_Op_create(add_bf16, true, &parallel->add_bf16)));
    parallel->has_add_bf16 = true;
    return STATUS_OK;
}

status_t parallel_create(context_t *ctx, const parallel_options_t *options,
                         parallel_t **out_parallel)
{
    parallel_t *parallel = NULL;
    TRY(context_output(ctx, "parallel_create", out_parallel));
    TRY(context_get_zeroed(ctx, sizeof *parallel, "ranks", &parallel));
    parallel->ctx = ctx;
    if (options != NULL) parallel->options = *options;
    if (parallel->options.bucket_bytes == 0) parallel->options.bucket_bytes = (size_t)4 << 20;
    status_t status = open_group(ctx, parallel);
    GIVE(status, out_parallel, parallel, context_put(ctx, parallel));
}

void parallel_destroy(parallel_t *parallel)
{
    if (parallel == NULL) return;
    context_t *ctx = parallel->ctx;
    if (parallel->has_add_bf16) MPI_Op_free(&parallel->add_bf16);
    group_close(ctx, &parallel->group);
    parallel_clear(parallel);
    context_put(ctx, parallel);
}

void parallel_leave(parallel_t *parallel)
{
    if (parallel != NULL) group_leave(&parallel->group);
}

/* ---- queries ---- */

int parallel_rank(const parallel_t *parallel)
{
    return parallel != NULL ? parallel->group.rank : 0;
}

int parallel_n_ranks(const parallel_t *parallel)
{
    return parallel != NULL ? parallel->group.n_ranks : 1;
}

parallel_counts_t parallel_counts(const parallel_t *parallel)
{
    return parallel != NULL ? parallel->counts : (parallel_counts_t){0};
}

status_t parallel_sum(context_t *ctx, parallel_t *parallel, int n, double *numbers)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (parallel == NULL) return context_null(ctx, "parallel_sum", "parallel");
    REQUIRE(ctx, n >= 0, "parallel_sum: %d numbers, must not be negative", n);
    if (n > 0 && numbers == NULL) return context_null(ctx, "parallel_sum", "numbers");
    return group_sum(ctx, "parallel_sum", &parallel->group, n, numbers);
}

#else

static status_t refuse(context_t *ctx, const char *op)
{
    FAIL(ctx, STATUS_UNSUPPORTED, "%s: this build has no Open MPI", op);
}

status_t parallel_create(context_t *ctx, const parallel_options_t *options,
                         parallel_t **out_parallel)
{
    (void)options;
    TRY(context_output(ctx, "parallel_create", out_parallel));
    return refuse(ctx, "parallel_create");
}

void parallel_destroy(parallel_t *parallel)
{
    (void)parallel;
}

void parallel_leave(parallel_t *parallel)
{
    (void)parallel;
}

int parallel_rank(const parallel_t *parallel)
{
    (void)parallel;
    return 0;
}

int parallel_n_ranks(const parallel_t *parallel)
{
    (void)parallel;
    return 1;
}

parallel_counts_t parallel_counts(const parallel_t *parallel)
{
    (void)parallel;
    return (parallel_counts_t){0};
}

status_t parallel_sum(context_t *ctx, parallel_t *parallel, int n, double *numbers)
{
    (void)parallel, (void)n, (void)numbers;
    return ctx != NULL ? refuse(ctx, "parallel_sum") : STATUS_INVALID_ARGUMENT;
}

status_t parallel_broadcast(context_t *ctx, parallel_t *parallel, module_t *module,
                            optimizer_t *optimizer)
{
    (void)parallel, (void)module, (void)optimizer;
    return ctx != NULL ? refuse(ctx, "parallel_broadcast") : STATUS_INVALID_ARGUMENT;
}

void parallel_begin(parallel_t *parallel, int64_t n_items)
{
    (void)parallel, (void)n_items;
}

void parallel_ready(parallel_t *parallel, int parameter, const tensor_t *gradient)
{
    (void)parallel, (void)parameter, (void)gradient;
}

status_t parallel_exchange(context_t *ctx, parallel_t *parallel, status_t own,
                           const optimizer_t *optimizer, tensor_t **gradients, double *loss)
{
    (void)parallel, (void)own, (void)optimizer, (void)gradients, (void)loss;
    return refuse(ctx, "trainer_step");
}

#endif
