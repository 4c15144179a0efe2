/* Replaces the gradients of each rank by the mean over all ranks (all-reduce). All gradients are
 * packed one after another into one array, which is divided into buckets (ranges). A bucket is sent
 * when it and all earlier buckets are complete, so all ranks send the same buckets in the same
 * order. After the buckets comes a "vote": the ranks sum a few numbers, which say whether a step
 * has failed, how many items there are, and which gradients exist. */
#ifdef TESSERA_HAVE_MPI

#include <string.h>

#include "kernels/optimizer/gradients_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/tensor_impl.h"
#include "train/optimizer_impl.h"
#include "train/parallel_impl.h"

static const char op[] = "trainer_step";

void parallel_clear(parallel_t *parallel)
{
    context_t *ctx = parallel->ctx;
    tensor_drop(parallel->elements);
    CONTEXT_PUT(ctx, parallel->sent, parallel->buckets, parallel->gradients);
    parallel->elements = NULL;
    parallel->sent = NULL;
    parallel->buckets = NULL;
    parallel->gradients = NULL;
    parallel->n = parallel->n_buckets = parallel->n_begun = 0;
}

/* ---- packing ---- */

/* Writes a gradient, multiplied by this rank's number of items, into the array. NULL counts as
 * zeros. */
static status_t pack(parallel_t *parallel, int index, const tensor_t *gradient)
{
    context_t *ctx = parallel->ctx;
    exchanged_t *to = &parallel->gradients[index];
    tensor_t *converted = NULL;
    status_t status = STATUS_OK;
    if (gradient != NULL && !tensor_lies_like(tensor_info(gradient), &to->info)) {
        TRY(convert_make(ctx, gradient, &to->info, CAUSE_GRADIENT, &converted));
        gradient = converted;
    }
    if (gradient == NULL)
        memset(parallel->data + to->first, 0, (size_t)to->n * sizeof *parallel->data);
    else
        status = storage_restore(ctx, gradient->storage, CAUSE_GRADIENT);
    if (gradient != NULL && status == STATUS_OK)
        gradients_scale(to->n, (float)parallel->n_items, tensor_bytes(gradient),
                        parallel->data + to->first);
    tensor_drop(converted);
    return status;
}

static status_t begin_bucket(parallel_t *parallel, bucket_t *bucket)
{
    const int n = (int)bucket->n;
    group_t *group = &parallel->group;
    TRY(group_check(parallel->ctx, op, group));
    float *elements = parallel->data + bucket->first;
    if (parallel->sent == NULL)
        return group_begin(parallel->ctx, op, group,
                           MPI_Iallreduce(MPI_IN_PLACE, elements, n, MPI_FLOAT, MPI_SUM,
                                          group->comm, &bucket->request));
    uint16_t *sent = parallel->sent + bucket->first;
    dtype_cast(n, DTYPE_F32, elements, 1, DTYPE_BF16, sent, 1);
    return group_begin(parallel->ctx, op, group,
                       MPI_Iallreduce(MPI_IN_PLACE, sent, n, MPI_UINT16_T, parallel->add_bf16,
                                      group->comm, &bucket->request));
}

/* Marks a gradient as packed, and starts to sum the buckets that are complete now. */
static status_t note_ready(parallel_t *parallel, int index)
{
    exchanged_t *gradient = &parallel->gradients[index];
    gradient->is_ready = true;
    for (int i = parallel->n_begun; i < parallel->n_buckets; i++) {
        bucket_t *bucket = &parallel->buckets[i];
        if (bucket->first < gradient->first + gradient->n &&
            gradient->first < bucket->first + bucket->n)
            bucket->n_missing--;
    }
    while (parallel->n_begun < parallel->n_buckets &&
           parallel->buckets[parallel->n_begun].n_missing == 0) {
        TRY(begin_bucket(parallel, &parallel->buckets[parallel->n_begun]));
        parallel->n_begun++;
    }
    return STATUS_OK;
}

static status_t begin_step(parallel_t *parallel)
{
    void *data = NULL;
    for (int i = 0; i < parallel->n; i++) parallel->gradients[i].is_ready = false;
    for (int i = 0; i < parallel->n_buckets; i++)
        parallel->buckets[i].n_missing = parallel->buckets[i].n_gradients;
    parallel->n_begun = 0;
    if (parallel->elements == NULL) return STATUS_OK;
    TRY(tensor_writable(parallel->ctx, parallel->elements, &data));
    parallel->data = data;
    return STATUS_OK;
}

void parallel_begin(parallel_t *parallel, int64_t n_items)
{
    parallel->n_items = n_items;
    parallel->status = begin_step(parallel);
}

/* Packs a gradient as soon as it is complete. Then tests the last bucket, because MPI makes
 * progress only while one of its functions runs. */
void parallel_ready(parallel_t *parallel, int parameter, const tensor_t *gradient)
{
    int is_done = 0;
    if (parallel->status != STATUS_OK || parameter >= parallel->n) return;
    const exchanged_t *to = &parallel->gradients[parameter];
    if (!to->is_planned || to->is_ready || gradient == NULL) return;
    parallel->status = pack(parallel, parameter, gradient);
    if (parallel->status == STATUS_OK) parallel->status = note_ready(parallel, parameter);
    if (parallel->status == STATUS_OK && parallel->n_begun > 0)
        parallel->status = group_begin(parallel->ctx, op, &parallel->group,
                                       MPI_Test(&parallel->buckets[parallel->n_begun - 1].request,
                                                &is_done, MPI_STATUS_IGNORE));
}

/* Packs all remaining gradients. If this rank's step has failed (*own), packs zeros, because the
 * other ranks still wait for its buckets. Sets *own if packing fails. */
static status_t begin_rest(parallel_t *parallel, status_t *own, tensor_t *const *gradients)
{
    for (int i = parallel->n - 1; i >= 0; i--) {
        const exchanged_t *gradient = &parallel->gradients[i];
        if (!gradient->is_planned || gradient->is_ready) continue;
        if (*own == STATUS_OK) *own = pack(parallel, i, gradients[i]);
        if (*own != STATUS_OK) TRY(pack(parallel, i, NULL));
        TRY(note_ready(parallel, i));
    }
    return STATUS_OK;
}

static status_t wait_for_buckets(parallel_t *parallel)
{
    for (int i = 0; i < parallel->n_begun; i++)
        TRY(group_wait(parallel->ctx, op, &parallel->group, &parallel->buckets[i].request));
    return STATUS_OK;
}

/* ---- the vote: numbers that are summed over the ranks ---- */

enum { FAILED, FAILED_RANK, FAILED_STATUS, ITEMS, LOSS, PRESENT };

static status_t vote(parallel_t *parallel, status_t own, int n, tensor_t *const *gradients,
                     double loss, double *votes)
{
    votes[FAILED] = own != STATUS_OK;
    votes[FAILED_RANK] = own != STATUS_OK ? parallel->group.rank : 0;
    votes[FAILED_STATUS] = own;
    votes[ITEMS] = (double)parallel->n_items;
    votes[LOSS] = own == STATUS_OK ? (double)parallel->n_items * loss : 0.0;
    for (int i = 0; i < n; i++) votes[PRESENT + i] = own == STATUS_OK && gradients[i] != NULL;
    return group_sum(parallel->ctx, op, &parallel->group, PRESENT + n, votes);
}

static status_t judge(parallel_t *parallel, status_t own, const double *votes)
{
    if (own != STATUS_OK || votes[FAILED] == 0.0) return own;
    if (votes[FAILED] > 1.0)
        FAIL(parallel->ctx, STATUS_INVALID_ARGUMENT,
             "%s: %g other ranks have failed, so no rank has made the step", op, votes[FAILED]);
    FAIL(parallel->ctx, (status_t)votes[FAILED_STATUS],
         "%s: rank %g has failed, so no rank has made the step", op, votes[FAILED_RANK]);
}

/* The number of items by which sums are divided, or 1 if there are no items (then all sums are
 * 0). */
static double weight_of(const double *votes)
{
    return votes[ITEMS] > 0.0 ? votes[ITEMS] : 1.0;
}

static bool needs_plan(const parallel_t *parallel, int n, const double *votes)
{
    for (int i = 0; i < n; i++)
        if (votes[PRESENT + i] > 0.0 && (parallel->n == 0 || !parallel->gradients[i].is_planned))
            return true;
    return false;
}

/* ---- the plan: which gradients exist, their formats and offsets ---- */

/* True for a blocked format whose order of elements is known, unlike oneDNN's opaque formats. */
static bool is_blocked(const tensor_info_t *info)
{
    const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
    return (info->format.kind == FORMAT_TAG || info->format.kind == FORMAT_REGROUPED) &&
           info->layout == LAYOUT_MKLDNN && !tensor_lies_like(info, &dense);
}

/* Hash of a gradient's blocked format; 0: no gradient, 1: dense or an opaque format. */
static uint64_t hash_of(const tensor_t *gradient)
{
    if (gradient == NULL) return 0;
    const tensor_info_t *info = tensor_info(gradient);
    return is_blocked(info) ? format_hash(&info->format, info->sizes, 2) | 2 : 1;
}

/* Uses a gradient's blocked format if its hash is the same on all ranks, else a dense format. To
 * compare hashes, group_max finds the largest hash and the largest complement of a hash, which is
 * the complement of the smallest. */
static status_t choose_infos(parallel_t *parallel, const optimizer_t *optimizer,
                             tensor_t *const *gradients, const double *votes, uint64_t *hashes,
                             exchanged_t *plan)
{
    const int n = optimizer->n;
    for (int i = 0; i < n; i++) {
        hashes[i] = hash_of(gradients[i]);
        hashes[n + i] = ~hashes[i];
    }
    TRY(group_max(parallel->ctx, op, &parallel->group, 2 * n, hashes));
    for (int i = 0; i < n; i++) {
        const tensor_info_t *own = &optimizer->entries[i].info;
        const bool agree = hashes[i] == ~hashes[n + i] && hashes[i] > 1;
        if (parallel->n > 0) plan[i] = parallel->gradients[i];
        if (votes[PRESENT + i] == 0.0) continue;
        plan[i].is_planned = true;
        plan[i].info = agree ? *tensor_info(gradients[i])
                             : info_dense(own->dtype, own->rank, own->sizes);
    }
    return STATUS_OK;
}

/* Floats in a cache line. Each gradient starts at a multiple of it in the array. */
#define LINE 16

/* Assigns offsets in the array. The last parameter comes first, because its gradient is ready
 * first. */
static void place(int n, exchanged_t *plan, int64_t *out_n)
{
    *out_n = 0;
    for (int i = n - 1; i >= 0; i--) {
        if (!plan[i].is_planned) continue;
        plan[i].first = *out_n;
        plan[i].n = (int64_t)(info_bytes(&plan[i].info) / sizeof(float));
        *out_n += (plan[i].n + LINE - 1) / LINE * LINE;
    }
}

static status_t make_elements(parallel_t *parallel, int64_t n)
{
    context_t *ctx = parallel->ctx;
    const tensor_info_t info = info_dense(DTYPE_F32, 1, &n);
    size_t n_bytes = 0;
    void *data = NULL;
    TRY(tensor_count_bytes(ctx, &info, &n_bytes));
    TRY(tensor_make_of(ctx, &info, n_bytes, 0, &parallel->elements, &data));
    if (n_bytes > 0) memset(data, 0, n_bytes);
    parallel->data = data;
    if (!parallel->options.bf16_gradients) return STATUS_OK;
    return context_get(ctx, (size_t)n * sizeof *parallel->sent, "gradients as bf16",
                       &parallel->sent);
}

/* Number of elements of a bucket. MPI counts elements in int, so it is limited. */
static int64_t bucket_size(const parallel_t *parallel)
{
    const size_t n = parallel->options.bucket_bytes / sizeof(float), most = (size_t)1 << 30;
    if (n > most) return (int64_t)most;
    return n > 0 ? (int64_t)n : 1;
}

static status_t make_buckets(parallel_t *parallel, int64_t n_elements)
{
    const int64_t size = bucket_size(parallel), n = (n_elements + size - 1) / size;
    TRY(context_get_zeroed(parallel->ctx, (size_t)n * sizeof *parallel->buckets, "buckets",
                           &parallel->buckets));
    for (int64_t b = 0; b < n; b++) {
        bucket_t *bucket = &parallel->buckets[b];
        bucket->first = b * size;
        bucket->n = n_elements - bucket->first < size ? n_elements - bucket->first : size;
        bucket->request = MPI_REQUEST_NULL;
        for (int i = 0; i < parallel->n; i++) {
            const exchanged_t *gradient = &parallel->gradients[i];
            bucket->n_gradients += gradient->is_planned &&
                                   bucket->first < gradient->first + gradient->n &&
                                   gradient->first < bucket->first + bucket->n;
        }
    }
    parallel->n_buckets = (int)n;
    return STATUS_OK;
}

static void count(parallel_t *parallel)
{
    parallel_counts_t counts = {.n_buckets = parallel->n_buckets};
    for (int i = 0; i < parallel->n; i++) {
        const exchanged_t *gradient = &parallel->gradients[i];
        if (gradient->is_planned && is_blocked(&gradient->info)) counts.n_blocked++;
        if (gradient->is_planned && !is_blocked(&gradient->info)) counts.n_plain++;
    }
    parallel->counts = counts;
}

static status_t make_plan(parallel_t *parallel, const optimizer_t *optimizer,
                          tensor_t *const *gradients, const double *votes)
{
    context_t *ctx = parallel->ctx;
    const size_t n = (size_t)optimizer->n;
    int64_t n_elements = 0;
    uint64_t *hashes = NULL;
    exchanged_t *plan = NULL;
    TRY(context_get_zeroed(ctx, n * sizeof *plan, "gradients of all ranks", &plan));
    status_t status = context_get(ctx, 2 * n * sizeof *hashes, "hashes of formats", &hashes);
    if (status == STATUS_OK)
        status = choose_infos(parallel, optimizer, gradients, votes, hashes, plan);
    context_put(ctx, hashes);
    TRY_OR(status, context_put(ctx, plan));
    parallel_clear(parallel);
    place(optimizer->n, plan, &n_elements);
    parallel->gradients = plan;
    parallel->n = optimizer->n;
    TRY(make_elements(parallel, n_elements));
    TRY(make_buckets(parallel, n_elements));
    count(parallel);
    return STATUS_OK;
}

/* ---- the exchange ---- */

/* Replaces each gradient by the mean over the ranks: a tensor in the memory of `parallel`. */
static status_t take(parallel_t *parallel, const double *votes, tensor_t **gradients)
{
    const int64_t n = info_numel(tensor_info(parallel->elements));
    if (parallel->sent != NULL)
        dtype_cast(n, DTYPE_BF16, parallel->sent, 1, DTYPE_F32, parallel->data, 1);
    gradients_scale(n, (float)(1.0 / weight_of(votes)), parallel->data, parallel->data);
    for (int i = 0; i < parallel->n; i++) {
        const exchanged_t *from = &parallel->gradients[i];
        tensor_t *mean = NULL;
        if (votes[PRESENT + i] == 0.0) continue;
        TRY(tensor_over(parallel->ctx, &from->info, parallel->elements->storage,
                        from->first * (int64_t)sizeof(float), &mean));
        tensor_drop(gradients[i]);
        gradients[i] = mean;
    }
    return STATUS_OK;
}

static status_t check_dtypes(context_t *ctx, const optimizer_t *optimizer,
                             tensor_t *const *gradients)
{
    for (int i = 0; i < optimizer->n; i++)
        if (gradients[i] != NULL && tensor_dtype(gradients[i]) != DTYPE_F32)
            FAIL(ctx, STATUS_UNSUPPORTED, "%s: the gradient of %s is %s, ranks exchange f32", op,
                 optimizer->entries[i].name, tensor_text(gradients[i]));
    return STATUS_OK;
}

/* Exchanges the gradients. A step that has failed on some rank is reported in *own. If the function
 * itself fails, the caller leaves the group. */
static status_t exchange(parallel_t *parallel, status_t *own, const optimizer_t *optimizer,
                         tensor_t **gradients, double *loss, double *votes)
{
    context_t *ctx = parallel->ctx;
    if (*own == STATUS_OK) *own = parallel->status;
    if (*own == STATUS_OK) *own = check_dtypes(ctx, optimizer, gradients);
    parallel->counts.n_early = parallel->n_begun;
    TRY(begin_rest(parallel, own, gradients));
    TRY(vote(parallel, *own, optimizer->n, gradients, *loss, votes));
    TRY(wait_for_buckets(parallel));
    *own = judge(parallel, *own, votes);
    if (*own != STATUS_OK) return STATUS_OK;
    if (needs_plan(parallel, optimizer->n, votes)) {
        status_t packed = STATUS_OK;
        TRY(make_plan(parallel, optimizer, gradients, votes));
        TRY(begin_step(parallel));
        TRY(begin_rest(parallel, &packed, gradients));
        TRY(packed);
        TRY(wait_for_buckets(parallel));
    }
    *loss = votes[LOSS] / weight_of(votes);
    return parallel->elements != NULL ? take(parallel, votes, gradients) : STATUS_OK;
}

status_t parallel_exchange(context_t *ctx, parallel_t *parallel, status_t own,
                           const optimizer_t *optimizer, tensor_t **gradients, double *loss)
{
    double *votes = NULL;
    status_t status = group_check(ctx, op, &parallel->group);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)(PRESENT + optimizer->n) * sizeof *votes, "a vote",
                             &votes);
    if (status == STATUS_OK) status = exchange(parallel, &own, optimizer, gradients, loss, votes);
    context_put(ctx, votes);
    if (status == STATUS_OK) return own;
    group_leave(&parallel->group);
    return status;
}

#endif
