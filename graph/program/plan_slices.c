/* Slices of a batch. If a step's output for all of the batch exceeds the last-level cache, the next
 * step must read it from memory. If steps treat each batch element separately, as convolutions do,
 * they can run one after another for a few elements, then for the next few:
 *
 *   %1 = conv2d(%x, ...)       [16,64,112,112]: 51 MB          for each of 8 slices of 2 elements:
 *   %2 = max_pool2d(%1)        [16,64,56,56]                       %1 in 6.4 MB, %2 at its offset
 *
 * Either all threads share each step, or each worker runs all steps for its own slices. Workers do
 * not wait for each other after each step, and each finds its own output in a cache, but each reads
 * all weights.
 *
 * A value that is used only inside the loop needs memory for one slice, or for one slice of each
 * worker. For other values, all of the batch is stored, each slice at its offset. A step in a loop
 * gets an operator prepared for the smaller batch; its packed weights stay the same.
 *
 * Estimated times decide which steps form a loop, how many slices it has, and its kind: the time to
 * move bytes from memory or cache, plus a cost for each slice and step. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/program/plan_slices_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/threads_impl.h"

/* Workers do not run a step if one thread for each slice would take longer than all threads
 * together for each slice in turn, by more than this share plus this many nanoseconds. */
#define WORKER_LOSS 0.05
#define WORKER_NS 3000.0

enum { MAX_LOOP = 64, MAX_SLICES = 64, MAX_WORKER_SLICES = 1024 };

typedef struct slicing {
    context_t *ctx;
    plan_t *plan;
    int n_threads;
    bool is_large; /* a step reads and writes more bytes than a quarter of the last-level cache */
    plan_slice_costs_t *estimates;
    int64_t *batches;     /* [n_steps] batch size; 0: cannot run by slices */
    int *most_slices;     /* [n_steps] maximum slices for workers; 0: workers cannot run it */
    prepared_t **smaller; /* [n_steps] operator for one slice of the chosen loop */
    double *costs;        /* [n_steps + 1] best cost of all earlier steps */
    plan_loop_t *chosen;  /* [n_steps + 1] the loop that ends before the step */
    int n_loops;
    plan_loop_t *loops; /* [n_steps] */
} slicing_t;

/* ---- steps that can be sliced ---- */

/* True if each batch element is contiguous and the elements are in order. */
static bool lies_by_batch(const tensor_info_t *info)
{
    const format_t *format = &info->format;
    if (format->kind == FORMAT_STRIDED) return info_is_contiguous(info);
    if (format->kind != FORMAT_TAG || format->order[0] != 0) return false;
    for (int b = 0; b < format->n_blocks; b++)
        if (format->block_dims[b] == 0) return false;
    return true;
}

/* Workers cannot run steps that read parameters, because a single thread must pack a parameter when
 * a step reads it. */
static bool reads_parameters(const step_t *step)
{
    for (int i = 0; i < step->n_sources; i++)
        if (step->sources[i].kind == SOURCE_PARAMETER) return true;
    return false;
}

static bool is_whole(const plan_t *plan, int root, size_t offset, const tensor_info_t *info)
{
    const plan_root_t *of = &plan->roots[root];
    return offset == 0 && info_bytes(info) == of->bytes && !of->is_shared && !of->is_written &&
           lies_by_batch(info);
}

/* True if a slice of the step can read this operand. Each slice reads all of an operand without a
 * batch dimension. So no step of the loop may write to the operand, which is certain only for
 * inputs and constants. Example: %2 = slice(%1) end=1 is in the buffer of %1, which in a loop may
 * contain another slice. */
static bool can_slice_source(const plan_t *plan, const step_t *step, int index)
{
    const plan_source_t *source = &step->sources[index];
    const tensor_info_t *in = &step->prepared->in[index];
    if (plan_has_batch(step, index))
        return source->kind == SOURCE_ROOT && plan->roots[source->root].kind != ROOT_CONSTANT &&
               is_whole(plan, source->root, source->offset, in);
    if (source->kind == SOURCE_ROOT && plan->roots[source->root].kind != ROOT_INPUT &&
        plan->roots[source->root].kind != ROOT_CONSTANT)
        return false;
    return index > 0 || (step->prepared->op->traits & TRAIT_BATCHED) == 0;
}

/* The batch size of a step; 0 if it cannot be sliced. */
static int64_t batch_of(const plan_t *plan, const step_t *step)
{
    const prepared_t *prepared = step->prepared;
    if (prepared == NULL || step->view.node == NULL || step->is_in_place || prepared->n_out == 0 ||
        (prepared->op->traits & (TRAIT_BATCHED | TRAIT_ELEMENTWISE)) == 0 ||
        (prepared->op->traits & (TRAIT_DRAWS | TRAIT_MEASURES)) != 0 || prepared->out[0].rank == 0)
        return 0;
    const int64_t batch = prepared->out[0].sizes[0];
    int n_sliced = 0;
    for (int i = 0; i < step->n_outputs; i++)
        if (prepared->out[i].rank == 0 || prepared->out[i].sizes[0] != batch ||
            !is_whole(plan, step->output_roots[i], step->output_offsets[i], &prepared->out[i]))
            return 0;
    for (int i = 0; i < step->n_sources; i++) {
        if (!can_slice_source(plan, step, i)) return 0;
        n_sliced += plan_has_batch(step, i);
    }
    return n_sliced > 0 && batch > 1 ? batch : 0;
}

static tensor_info_t slice_of(const tensor_info_t *info, int64_t n)
{
    tensor_info_t slice = *info;
    slice.sizes[0] = n;
    return slice;
}

/* ---- the operator of a slice ---- */

static bool lie_alike(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && a->layout == b->layout && a->rank == b->rank &&
           format_same(&a->format, &b->format, a->sizes);
}

/* The operand whose buffer the result reuses, or -1. If a plan has swapped the operands, this
 * differs from view.overwrites. */
static int find_overwritten(const step_t *step)
{
    for (int i = 0; step->view.overwrites >= 0 && i < step->n_sources; i++)
        if (step->sources[i].kind == SOURCE_ROOT && step->sources[i].root == step->output_roots[0])
            return i;
    return -1;
}

/* True if the operator for a slice has the step's kernel and formats, so that it may replace the
 * step's operator. */
static bool can_replace(const step_t *step, const prepared_t *smaller)
{
    const prepared_t *whole = step->prepared;
    const int overwritten = find_overwritten(step);
    if (smaller->kernel != whole->kernel || smaller->is_view || smaller->n_out != whole->n_out)
        return false;
    for (int i = 0; i < whole->n_in; i++)
        if (step->sources[i].kind != SOURCE_NONE && !lie_alike(&smaller->in[i], &whole->in[i]))
            return false;
    for (int i = 0; i < whole->n_out; i++)
        if (!lie_alike(&smaller->out[i], &whole->out[i])) return false;
    return overwritten < 0 || overwritten == smaller->sum_operand ||
           (smaller->overwrites >> overwritten & 1) != 0;
}

/* Prepares the operator for a slice of n elements. *out_smaller is NULL if the kernel and formats
 * of the entire batch do not suit the slice. */
static status_t prepare_on(context_t *ctx, const slicing_t *slicing, const step_t *step, int64_t n,
                           prepared_t **out_smaller)
{
    const graph_node_t *node = step->view.node;
    const prepared_t *whole = step->prepared;
    const tensor_info_t *infos[OP_MAX_INPUTS];
    tensor_info_t slices[OP_MAX_INPUTS];
    for (int i = 0; i < whole->n_in; i++) {
        infos[i] = &whole->asked[i];
        if (!plan_has_batch(step, i)) continue;
        slices[i] = slice_of(&whole->in[i], n);
        infos[i] = &slices[i];
    }
    const format_t *out_format = whole->out[0].layout == LAYOUT_MKLDNN ? &whole->out[0].format
                                                                       : NULL;
    *out_smaller = NULL;
    status_t status = select_fixed(ctx, whole->op, node->attrs, whole->n_in, infos,
                                   weights_of(slicing->plan->graph, node), whole->out[0].layout,
                                   out_format, whole->kernel, out_smaller);
    if (status == STATUS_UNSUPPORTED || status == STATUS_INVALID_ARGUMENT) return STATUS_OK;
    TRY(status);
    if (can_replace(step, *out_smaller)) return STATUS_OK;
    prepared_release(*out_smaller);
    *out_smaller = NULL;
    return STATUS_OK;
}

/* Prepares the operator for a slice of n elements, for all threads or, in a worker, for one. */
static status_t prepare_slice(const slicing_t *slicing, const step_t *step, int64_t n,
                              int n_workers, prepared_t **out_smaller)
{
    context_t *ctx = slicing->ctx, *worker = NULL;
    if (n_workers == 1) return prepare_on(ctx, slicing, step, n, out_smaller);
    TRY(context_worker(ctx, 0, &worker));
    threads_guard_t guard = threads_enter(worker);
    status_t status = prepare_on(worker, slicing, step, n, out_smaller);
    threads_leave(worker, guard);
    counters_take(ctx, worker);
    return status == STATUS_OK ? status : context_blame(ctx, worker, status);
}

/* ---- choice of loops ---- */

/* Chooses this loop if the total cost of all steps before its end is the lowest so far. */
static void try_loop(slicing_t *slicing, plan_loop_t loop)
{
    const int end = loop.first_step + loop.n_steps;
    if (loop.n_slices > 1 &&
        !plan_slice_costs_have_room(slicing->estimates, loop.n_slices, loop.n_workers))
        return;
    const double cost = slicing->costs[loop.first_step] +
                        plan_slice_costs_loop(slicing->estimates, &loop);
    if (slicing->costs[end] >= 0.0 && cost >= slicing->costs[end]) return;
    slicing->costs[end] = cost;
    slicing->chosen[end] = loop;
}

/* Tries all numbers of slices for steps first to end - 1; workers get at most most_slices. */
static void try_slices(slicing_t *slicing, int first, int end, int most_slices)
{
    const int64_t batch = slicing->batches[first];
    for (int n_slices = 2; n_slices <= MAX_WORKER_SLICES && n_slices <= batch; n_slices++) {
        if (batch % n_slices != 0) continue;
        if (slicing->is_large && n_slices <= MAX_SLICES)
            try_loop(slicing, (plan_loop_t){first, end - first, n_slices, 1});
        if (slicing->n_threads > 1 && n_slices >= slicing->n_threads && n_slices <= most_slices)
            try_loop(slicing, (plan_loop_t){first, end - first, n_slices, slicing->n_threads});
    }
}

/* Chooses the last loop, or single step, before step `end`. The loop begins at `begin` or later. */
static void choose_last(slicing_t *slicing, int begin, int end)
{
    int most_slices = MAX_WORKER_SLICES;
    slicing->costs[end] = -1.0;
    try_loop(slicing, (plan_loop_t){end - 1, 1, 1, 1});
    plan_slice_costs_end_before(slicing->estimates, end);
    for (int first = end - 1; first >= begin && end - first <= MAX_LOOP; first--) {
        if (slicing->most_slices[first] < most_slices) most_slices = slicing->most_slices[first];
        plan_slice_costs_add(slicing->estimates, first);
        if (end - first > 1) try_slices(slicing, first, end, most_slices);
    }
}

/* Adds the best loops of steps begin to end - 1, which have the same batch size. */
static void choose_loops(slicing_t *slicing, int begin, int end)
{
    slicing->costs[begin] = 0.0;
    for (int e = begin + 1; e <= end; e++) choose_last(slicing, begin, e);
    const int n_before = slicing->n_loops;
    for (int e = end; e > begin; e = slicing->chosen[e].first_step)
        if (slicing->chosen[e].n_slices > 1)
            slicing->loops[slicing->n_loops++] = slicing->chosen[e];
    for (int i = n_before, k = slicing->n_loops - 1; i < k; i++, k--) {
        const plan_loop_t last = slicing->loops[k];
        slicing->loops[k] = slicing->loops[i];
        slicing->loops[i] = last;
    }
}

static void choose_all(slicing_t *slicing)
{
    slicing->n_loops = 0;
    for (int begin = 0, end; begin < slicing->plan->n_steps; begin = end) {
        for (end = begin + 1; end < slicing->plan->n_steps; end++)
            if (slicing->batches[end] != slicing->batches[begin]) break;
        if (slicing->batches[begin] == 0) continue;
        slicing->is_large = plan_slice_costs_are_large(slicing->estimates, begin, end);
        if (slicing->is_large || slicing->n_threads > 1) choose_loops(slicing, begin, end);
    }
}

/* ---- building loops ---- */

static void forget_smaller(const slicing_t *slicing)
{
    for (int s = 0; s < slicing->plan->n_steps; s++) {
        prepared_release(slicing->smaller[s]);
        slicing->smaller[s] = NULL;
    }
}

/* True if one thread per slice takes no longer than all threads for all slices, see WORKER_LOSS. */
static bool is_for_workers(const slicing_t *slicing, const plan_loop_t *loop, int s)
{
    const double together = slicing->plan->steps[s].prepared->cost_ns;
    return slicing->smaller[s]->cost_ns * plan_slices_of_each(loop) <=
           together * (1.0 + WORKER_LOSS) + WORKER_NS;
}

static status_t prepare_step(slicing_t *slicing, const plan_loop_t *loop, int s, bool *out_done)
{
    prepared_t **smaller = &slicing->smaller[s];
    TRY(prepare_slice(slicing, &slicing->plan->steps[s], slicing->batches[s] / loop->n_slices,
                      loop->n_workers, smaller));
    if (*smaller != NULL && (loop->n_workers == 1 || is_for_workers(slicing, loop, s)))
        return STATUS_OK;
    if (loop->n_workers > 1)
        slicing->most_slices[s] = loop->n_slices - 1;
    else
        slicing->batches[s] = 0;
    *out_done = false;
    return STATUS_OK;
}

/* Prepares the operators for all slices. *out_done is false if a step cannot run with the chosen
 * slices; the loops must then be chosen again. */
static status_t prepare_loops(slicing_t *slicing, bool *out_done)
{
    *out_done = true;
    for (int l = 0; l < slicing->n_loops; l++) {
        const plan_loop_t *loop = &slicing->loops[l];
        for (int s = loop->first_step; s < loop->first_step + loop->n_steps; s++)
            TRY(prepare_step(slicing, loop, s, out_done));
    }
    if (!*out_done) forget_smaller(slicing);
    return STATUS_OK;
}

/* Distance between slices of a buffer; 0 if the buffer contains one slice only. */
static size_t stride_of(const plan_t *plan, int root, const plan_loop_t *loop)
{
    const plan_root_t *of = &plan->roots[root];
    return plan_stays_inside(of, loop) ? 0 : of->bytes / (size_t)loop->n_slices;
}

static void slice_step(slicing_t *slicing, const plan_loop_t *loop, int s)
{
    step_t *step = &slicing->plan->steps[s];
    prepared_t *smaller = slicing->smaller[s];
    const int64_t n = slicing->batches[s] / loop->n_slices;
    for (int i = 0; i < step->n_sources; i++) {
        plan_source_t *source = &step->sources[i];
        if (!plan_has_batch(step, i)) continue;
        source->stride = stride_of(slicing->plan, source->root, loop);
        source->info = slice_of(&source->info, n);
    }
    for (int i = 0; i < step->n_outputs; i++)
        step->output_strides[i] = stride_of(slicing->plan, step->output_roots[i], loop);
    slicing->smaller[s] = NULL;
    prepared_release(step->prepared);
    step->prepared = smaller;
    step->view.prepared = smaller;
    step->view.n_slices = loop->n_slices;
    step->view.n_workers = loop->n_workers;
}

/* Adds a block for the workers' copies of inner buffers. *out_block: 1 + its index; 0: none. */
static status_t make_block(const slicing_t *slicing, const plan_loop_t *loop, int *roots_capacity,
                           int *out_block)
{
    plan_t *plan = slicing->plan;
    *out_block = 0;
    if (loop->n_workers == 1) return STATUS_OK;
    TRY(context_grow(slicing->ctx, &plan->roots, roots_capacity, plan->n_roots + 1,
                     sizeof *plan->roots));
    plan->roots[plan->n_roots++] = (plan_root_t){.kind = ROOT_ARENA,
                                                 .first_step = loop->first_step,
                                                 .last_step = loop->first_step + loop->n_steps - 1,
                                                 .n_copies = loop->n_workers};
    *out_block = plan->n_roots;
    return STATUS_OK;
}

static void shrink_roots(plan_t *plan, const plan_loop_t *loop, int block)
{
    for (int r = 0; r < plan->n_roots; r++) {
        plan_root_t *root = &plan->roots[r];
        if (!plan_stays_inside(root, loop) || root->n_copies > 0) continue;
        root->bytes /= (size_t)loop->n_slices;
        root->info = slice_of(&root->info, root->info.sizes[0] / loop->n_slices);
        root->block = block;
    }
}

static status_t make_loops(slicing_t *slicing, int *roots_capacity)
{
    plan_t *plan = slicing->plan;
    const size_t bytes = (size_t)slicing->n_loops * sizeof *plan->loops;
    if (slicing->n_loops == 0) return STATUS_OK;
    TRY(context_get(slicing->ctx, bytes, "a plan", &plan->loops));
    memcpy(plan->loops, slicing->loops, bytes);
    plan->n_loops = slicing->n_loops;
    for (int l = 0; l < plan->n_loops; l++) {
        const plan_loop_t *loop = &plan->loops[l];
        int block = 0;
        for (int s = 0; s < loop->n_steps; s++) slice_step(slicing, loop, loop->first_step + s);
        TRY(make_block(slicing, loop, roots_capacity, &block));
        shrink_roots(plan, loop, block);
    }
    return STATUS_OK;
}

static status_t slice(slicing_t *slicing, int *roots_capacity)
{
    const size_t n = (size_t)slicing->plan->n_steps;
    bool is_done = false;
    TRY(context_get_zeroed(slicing->ctx, n * sizeof *slicing->batches, "a plan",
                           &slicing->batches));
    TRY(context_get_zeroed(slicing->ctx, n * sizeof *slicing->smaller, "a plan",
                           &slicing->smaller));
    TRY(context_get_zeroed(slicing->ctx, n * sizeof *slicing->most_slices, "a plan",
                           &slicing->most_slices));
    TRY(context_get_zeroed(slicing->ctx, (n + 1) * sizeof *slicing->costs, "a plan",
                           &slicing->costs));
    TRY(context_get_zeroed(slicing->ctx, (n + 1) * sizeof *slicing->chosen, "a plan",
                           &slicing->chosen));
    TRY(context_get_zeroed(slicing->ctx, n * sizeof *slicing->loops, "a plan", &slicing->loops));
    for (size_t s = 0; s < n; s++) {
        slicing->batches[s] = batch_of(slicing->plan, &slicing->plan->steps[s]);
        slicing->most_slices[s] = reads_parameters(&slicing->plan->steps[s]) ? 0
                                                                             : MAX_WORKER_SLICES;
    }
    TRY(plan_slice_costs_create(slicing->ctx, slicing->plan, slicing->n_threads, slicing->batches,
                                &slicing->estimates));
    while (!is_done) {
        choose_all(slicing);
        TRY(prepare_loops(slicing, &is_done));
    }
    return make_loops(slicing, roots_capacity);
}

status_t plan_slice(context_t *ctx, plan_t *plan, int *roots_capacity)
{
    slicing_t slicing = {.ctx = ctx, .plan = plan, .n_threads = context_threads(ctx)};
    for (int s = 0; s < plan->n_steps; s++)
        plan->steps[s].view.n_slices = plan->steps[s].view.n_workers = 1;
    if (context_cpu_cache(ctx) == 0 || plan->n_steps == 0) return STATUS_OK;
    status_t status = slice(&slicing, roots_capacity);
    if (slicing.smaller != NULL) forget_smaller(&slicing);
    plan_slice_costs_destroy(ctx, slicing.estimates);
    CONTEXT_PUT(ctx, slicing.batches, slicing.most_slices, (void *)slicing.smaller, slicing.costs,
                slicing.chosen, slicing.loops);
    return status;
}

/* ---- lifetimes ---- */

static void keep_root(plan_root_t *root, const plan_loop_t *loop)
{
    const int last = loop->first_step + loop->n_steps - 1;
    if (plan_stays_inside(root, loop)) return;
    if (root->first_step > loop->first_step) root->first_step = loop->first_step;
    if (root->last_step < last) root->last_step = last;
}

void plan_keep_sliced(plan_t *plan)
{
    for (int l = 0; l < plan->n_loops; l++) {
        const plan_loop_t *loop = &plan->loops[l];
        for (int s = loop->first_step; s < loop->first_step + loop->n_steps; s++) {
            const step_t *step = &plan->steps[s];
            for (int i = 0; i < step->n_sources; i++)
                if (step->sources[i].kind == SOURCE_ROOT)
                    keep_root(&plan->roots[step->sources[i].root], loop);
            for (int i = 0; i < step->n_outputs; i++)
                keep_root(&plan->roots[step->output_roots[i]], loop);
        }
    }
}
