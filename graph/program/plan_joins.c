/* Producers write the parts of a concat (join) directly to its result, if possible. The concat
 * kernel skips parts that are at their offset already.
 *
 * Joins are processed from last to first. If concats grow step by step, all parts are then written
 * to the largest buffer:
 *
 *   %c1 = concat(%x, %a)        %x at 0, followed by %a, in the bytes of %c2
 *   %c2 = concat(%x, %a, %b)    %c1 is the first part of %c2
 *
 * If a value is overwritten in place while other steps still need its old bytes, the overwriting
 * step gets a new buffer. */
#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"

typedef struct joins {
    context_t *ctx;
    plan_t *plan;
    int *capacity; /* capacity of the plan's buffer array */
} joins_t;

/* The first step after `step` that writes to bytes begin to end - 1 of a buffer, or -1. */
static int next_writer(const plan_t *plan, int step, int root, size_t begin, size_t end)
{
    for (int s = step + 1; s < plan->n_steps; s++)
        for (int i = 0; i < plan->steps[s].n_outputs; i++) {
            const size_t offset = plan->steps[s].output_offsets[i];
            const size_t bytes = plan->steps[s].prepared != NULL
                                     ? info_bytes(&plan->steps[s].prepared->out[i])
                                     : info_bytes(plan->steps[s].to);
            if (plan->steps[s].output_roots[i] == root && offset < end && begin < offset + bytes)
                return s;
        }
    return -1;
}

/* Moves buffer `from` into buffer `to` at `offset`, plus `stride` for each slice, in all steps. */
static void move_root(plan_t *plan, int from, int to, size_t offset, size_t stride)
{
    plan_root_t *old = &plan->roots[from], *new = &plan->roots[to];
    for (int s = 0; s < plan->n_steps; s++) {
        step_t *step = &plan->steps[s];
        for (int i = 0; i < step->n_sources; i++)
            if (step->sources[i].kind == SOURCE_ROOT && step->sources[i].root == from) {
                step->sources[i].root = to;
                step->sources[i].offset += offset;
                step->sources[i].stride += stride;
            }
        for (int i = 0; i < step->n_outputs; i++)
            if (step->output_roots[i] == from) {
                step->output_roots[i] = to;
                step->output_offsets[i] += offset;
                step->output_strides[i] += stride;
            }
    }
    if (old->first_step < new->first_step) new->first_step = old->first_step;
    if (old->last_step > new->last_step) new->last_step = old->last_step;
    old->bytes = 0;
}

/* Makes step `at`, which overwrites the entire buffer, and all later steps use a new buffer. */
static status_t split_root(const joins_t *joins, int root, int at)
{
    plan_t *plan = joins->plan;
    TRY(context_grow(joins->ctx, &plan->roots, joins->capacity, plan->n_roots + 1,
                     sizeof *plan->roots));
    const int made = plan->n_roots++;
    plan->roots[made] = plan->roots[root];
    plan->roots[made].first_step = at;
    if (plan->roots[root].kind == ROOT_OUTPUT) plan->roots[root].kind = ROOT_ARENA;
    plan->roots[root].last_step = at;
    for (int i = 0; i < plan->n_results; i++)
        if (plan->results[i].root == root) plan->results[i].root = made;
    for (int s = at; s < plan->n_steps; s++) {
        step_t *step = &plan->steps[s];
        for (int i = 0; s > at && i < step->n_sources; i++)
            if (step->sources[i].kind == SOURCE_ROOT && step->sources[i].root == root)
                step->sources[i].root = made;
        for (int i = 0; i < step->n_outputs; i++)
            if (step->output_roots[i] == root) step->output_roots[i] = made;
    }
    plan->steps[at].view.overwrites = -1;
    return STATUS_OK;
}

/* True if a step writes an entire buffer, so that it can write to another one. */
static bool may_lie_apart(const plan_t *plan, const step_t *step, int root)
{
    return !step->is_in_place && step->prepared != NULL && step->output_roots[0] == root &&
           step->output_offsets[0] == 0 &&
           info_bytes(&step->prepared->out[0]) == plan->roots[root].bytes &&
           step->view.overwrites != step->prepared->sum_operand;
}

/* Makes steps after `s` that write to the buffer use a new one. *out_done is false if that is
 * impossible. */
static status_t end_writes(const joins_t *joins, int s, int root, bool *out_done)
{
    const plan_t *plan = joins->plan;
    const int writer = next_writer(plan, s, root, 0, plan->roots[root].bytes);
    *out_done = writer < 0 || may_lie_apart(plan, &plan->steps[writer], root);
    return writer < 0 || !*out_done ? STATUS_OK : split_root(joins, root, writer);
}

/* True if a source is a complete buffer in the arena. */
static bool is_whole(const plan_t *plan, const plan_source_t *source)
{
    return source->kind == SOURCE_ROOT && source->offset == 0 &&
           plan->roots[source->root].kind == ROOT_ARENA &&
           plan->roots[source->root].bytes == info_bytes(&source->info);
}

/* True if the sources of a join follow each other without gaps in one buffer. */
static bool lies_joined(const step_t *step)
{
    size_t at = step->sources[0].offset;
    for (int i = 0; i < step->n_sources; i++) {
        const plan_source_t *source = &step->sources[i];
        if (source->kind != SOURCE_ROOT || source->root != step->sources[0].root ||
            source->offset != at || source->stride != step->sources[0].stride)
            return false;
        at += info_bytes(&step->prepared->in[i]);
    }
    return step->sources[0].root != step->output_roots[0];
}

/* If the sources of a join already form its result, uses their bytes as the result. */
static status_t join_as_part(const joins_t *joins, int s)
{
    plan_t *plan = joins->plan;
    const step_t *step = &plan->steps[s];
    const plan_source_t first = step->sources[0];
    const int root = step->output_roots[0];
    const root_kind_t kind = plan->roots[first.root].kind;
    bool is_done = step->output_offsets[0] == 0 && step->output_strides[0] == 0 &&
                   (kind == ROOT_ARENA || kind == ROOT_OUTPUT);
    if (is_done) TRY(end_writes(joins, s, root, &is_done));
    is_done &= plan->roots[root].kind == ROOT_ARENA;
    const int writer = next_writer(plan, s, first.root, first.offset,
                                   first.offset + plan->roots[root].bytes);
    if (is_done && (writer < 0 || writer > plan->roots[root].last_step))
        move_root(plan, root, first.root, first.offset, first.stride);
    return STATUS_OK;
}

/* If a step overwrites the result while a part of it is still read, gives the step a new buffer. */
static status_t keep_parts(const joins_t *joins, int s, bool *out_done)
{
    const plan_t *plan = joins->plan;
    const step_t *step = &plan->steps[s];
    const int root = step->output_roots[0];
    const size_t at = step->output_offsets[0];
    const int writer = next_writer(plan, s, root, at, at + info_bytes(&step->prepared->out[0]));
    bool is_read = false;
    *out_done = true;
    for (int i = 0; writer >= 0 && i < step->n_sources; i++)
        is_read |= is_whole(plan, &step->sources[i]) &&
                   plan->roots[step->sources[i].root].last_step >= writer;
    return is_read ? end_writes(joins, s, root, out_done) : STATUS_OK;
}

/* Moves sources that fill their buffers into the result's buffer. */
static status_t join_parts(const joins_t *joins, int s)
{
    plan_t *plan = joins->plan;
    const step_t *step = &plan->steps[s];
    const int root = step->output_roots[0];
    size_t at = step->output_offsets[0];
    bool may = true;
    TRY(keep_parts(joins, s, &may));
    for (int i = 0; may && i < step->n_sources; i++) {
        const plan_source_t source = step->sources[i];
        const size_t offset = at;
        bool is_ended = false;
        at += info_bytes(&step->prepared->in[i]);
        if (!is_whole(plan, &source) || source.root == root || offset % 64 != 0) continue;
        TRY(end_writes(joins, s, source.root, &is_ended));
        if (is_ended) move_root(plan, source.root, root, offset, step->output_strides[0]);
    }
    return STATUS_OK;
}

static void count_joined(step_t *step)
{
    if (step->prepared == NULL || !step->prepared->is_joined) return;
    size_t at = step->output_offsets[0];
    for (int i = 0; i < step->n_sources; i++) {
        const plan_source_t *source = &step->sources[i];
        step->view.n_joined += source->kind == SOURCE_ROOT &&
                               source->root == step->output_roots[0] && source->offset == at &&
                               source->stride == step->output_strides[0];
        at += info_bytes(&step->prepared->in[i]);
    }
}

status_t plan_join(context_t *ctx, plan_t *plan, int *roots_capacity)
{
    const joins_t joins = {ctx, plan, roots_capacity};
    for (int s = plan->n_steps - 1; s >= 0; s--) {
        const step_t *step = &plan->steps[s];
        if (step->prepared == NULL || !step->prepared->is_joined || step->is_in_place) continue;
        const root_kind_t kind = plan->roots[step->output_roots[0]].kind;
        if (kind != ROOT_ARENA && kind != ROOT_OUTPUT) continue;
        TRY(lies_joined(step) ? join_as_part(&joins, s) : join_parts(&joins, s));
    }
    for (int s = 0; s < plan->n_steps; s++) count_joined(&plan->steps[s]);
    return STATUS_OK;
}
