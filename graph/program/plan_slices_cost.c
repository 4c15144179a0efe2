/* Estimated costs of loops over slices: computing time as estimated by kernels, plus memory
 * traffic, which depends on how much data stays in the last-level cache. */
#include "graph/program/plan_slices_impl.h"

#include "dispatch/select_impl.h"
#include "tensor/context_impl.h"
#include "tensor/onednn/cost.h"

/* Measured. STEP_NS: nanoseconds per step and slice. SLICE_LOSS: share by which smaller slices slow
 * computing down. APART: computing and memory access overlap; this share of the shorter of both
 * times does not. */
#define STEP_NS 3000.0
#define SLICE_LOSS 0.04
#define APART 0.3

/* Measured for workers: nanoseconds per step and slice; time in which threads wait for each other
 * after a step that all share: a constant, and a share of the step's work. */
#define WORKER_STEP_NS 500.0
#define WAIT_NS 2000.0
#define WAIT_SHARE 0.02

/* A buffer with a batch dimension that a step reads or writes. */
typedef struct use {
    double bytes;
    int root;
} use_t;

/* Estimates for one step. Its uses are number first_use to last_use - 1. */
typedef struct work {
    double computed; /* nanoseconds for the entire batch */
    size_t batch_bytes, weight_bytes;
    int first_use, last_use;
    double outside_share; /* for buffers also used elsewhere: share of accesses that reach memory */
} work_t;

/* The memory that a loop needs. */
typedef struct room {
    int first, end;
    double outside;      /* bytes of buffers that are also alive before or after the loop */
    double inside;       /* largest sum of the other buffers' bytes, for all of the batch */
    double *inside_step; /* [n_steps] */
    int *first_alive;    /* [n_steps + 1] index in `alive` of a step's first buffer */
    int *alive;          /* the arena's buffers alive at each step */
} room_t;

struct plan_slice_costs {
    const plan_t *plan;
    cost_limits_t limits;
    double cache; /* bytes of the last-level cache */
    int n_threads;
    work_t *works; /* [n_steps] */
    use_t *uses;
    double peak; /* arena bytes without loops */
    room_t room;
};

bool plan_has_batch(const step_t *step, int index)
{
    const prepared_t *prepared = step->prepared;
    const tensor_info_t *in = &prepared->in[index], *out = &prepared->out[0];
    return step->sources[index].kind != SOURCE_NONE && in->rank == out->rank && in->rank > 0 &&
           select_operand(prepared->op, index)->role == ROLE_ACTIVATION &&
           in->sizes[0] == out->sizes[0];
}

/* The share of accesses that go to memory if `bytes` other bytes are used in between: 0 up to a
 * quarter of the cache, 1 if they fill the cache, linear in between. */
static double memory_share(const plan_slice_costs_t *costs, size_t bytes)
{
    const double whole = costs->cache, quarter = whole / 4.0;
    if ((double)bytes <= quarter) return 0.0;
    if ((double)bytes >= whole) return 1.0;
    return ((double)bytes - quarter) / (whole - quarter);
}

static void add_use(plan_slice_costs_t *costs, work_t *work, int root, size_t bytes)
{
    costs->uses[work->last_use++] = (use_t){(double)costs->plan->roots[root].bytes, root};
    work->batch_bytes += bytes;
}

static void describe(plan_slice_costs_t *costs, const step_t *step, work_t *work)
{
    const prepared_t *prepared = step->prepared;
    work->computed = prepared->cost_ns;
    for (int i = 0; i < step->n_sources; i++) {
        const size_t bytes = info_bytes(&prepared->in[i]);
        if (plan_has_batch(step, i))
            add_use(costs, work, step->sources[i].root, bytes);
        else if (step->sources[i].kind != SOURCE_NONE)
            work->weight_bytes += bytes;
    }
    for (int i = 0; i < step->n_outputs; i++)
        add_use(costs, work, step->output_roots[i], info_bytes(&prepared->out[i]));
    work->outside_share = memory_share(costs, work->batch_bytes);
}

/* ---- the arena ---- */

/* The first step that writes a part of a join. The result contains the part, so it is alive from
 * that step on. */
static int first_of_joined(const plan_t *plan, const step_t *step)
{
    int first = plan->roots[step->output_roots[0]].first_step;
    for (int i = 0; i < step->n_sources; i++)
        if (step->sources[i].kind == SOURCE_ROOT &&
            plan->roots[step->sources[i].root].kind == ROOT_ARENA &&
            plan->roots[step->sources[i].root].first_step < first)
            first = plan->roots[step->sources[i].root].first_step;
    return first;
}

/* Bytes of the first input, if the step may extend it to become the result (plan_place.c). */
static double grown_bytes(const plan_t *plan, int s)
{
    const step_t *step = &plan->steps[s];
    if (step->prepared == NULL || !step->prepared->may_grow || step->sources[0].kind != SOURCE_ROOT)
        return 0.0;
    const plan_root_t *root = &plan->roots[step->sources[0].root];
    return root->kind == ROOT_ARENA && root->last_step == s ? (double)root->bytes : 0.0;
}

/* The largest number of bytes that are alive at the same time. Parts of joins (plan_joins.c) count
 * as part of the result. alive: [n_steps] zeros; is_part: [n_roots] zeros. */
static double find_peak(const plan_t *plan, double *alive, bool *is_part)
{
    double peak = 0.0;
    for (int s = 0; s < plan->n_steps; s++) {
        const step_t *step = &plan->steps[s];
        if (step->prepared == NULL || !step->prepared->is_joined) continue;
        for (int i = 0; i < step->n_sources; i++)
            if (step->sources[i].kind == SOURCE_ROOT) is_part[step->sources[i].root] = true;
        const plan_root_t *root = &plan->roots[step->output_roots[0]];
        for (int k = first_of_joined(plan, step); k < root->first_step; k++)
            alive[k] += (double)root->bytes;
    }
    for (int r = 0; r < plan->n_roots; r++) {
        const plan_root_t *root = &plan->roots[r];
        if (root->kind != ROOT_ARENA || is_part[r]) continue;
        for (int s = root->first_step; s <= root->last_step; s++) alive[s] += (double)root->bytes;
    }
    for (int s = 0; s < plan->n_steps; s++) {
        alive[s] -= grown_bytes(plan, s);
        if (alive[s] > peak) peak = alive[s];
    }
    return peak;
}

/* Lists the arena's buffers alive at each step, sorted by index. */
static status_t list_alive(context_t *ctx, const plan_t *plan, room_t *room)
{
    const size_t n_steps = (size_t)plan->n_steps;
    TRY(context_get_zeroed(ctx, (n_steps + 2) * sizeof *room->first_alive, "roots of steps",
                           &room->first_alive));
    int *next = room->first_alive + 2; /* first counts, then positions, shifted by one step */
    for (int r = 0; r < plan->n_roots; r++)
        for (int s = plan->roots[r].first_step;
             plan->roots[r].kind == ROOT_ARENA && s <= plan->roots[r].last_step; s++)
            next[s]++;
    for (size_t s = 1; s <= n_steps; s++) room->first_alive[s + 1] += room->first_alive[s];
    TRY(context_get(ctx, (size_t)room->first_alive[n_steps + 1] * sizeof *room->alive,
                    "roots of steps", &room->alive));
    next--;
    for (int r = 0; r < plan->n_roots; r++)
        for (int s = plan->roots[r].first_step;
             plan->roots[r].kind == ROOT_ARENA && s <= plan->roots[r].last_step; s++)
            room->alive[next[s]++] = r;
    return STATUS_OK;
}

static status_t prepare_room(context_t *ctx, plan_slice_costs_t *costs)
{
    const plan_t *plan = costs->plan;
    const size_t n_steps = (size_t)plan->n_steps;
    double *alive = NULL;
    bool *is_part = NULL;
    TRY(context_get_zeroed(ctx, n_steps * sizeof(double), "estimates of slices",
                           &costs->room.inside_step));
    TRY(list_alive(ctx, plan, &costs->room));
    status_t status = context_get_zeroed(ctx, n_steps * sizeof *alive, "bytes of steps", &alive);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, (size_t)plan->n_roots * sizeof *is_part, "parts of joins",
                                    &is_part);
    if (status == STATUS_OK) costs->peak = find_peak(plan, alive, is_part);
    CONTEXT_PUT(ctx, alive, is_part);
    return status;
}

void plan_slice_costs_end_before(plan_slice_costs_t *costs, int end)
{
    costs->room.first = costs->room.end = end;
    costs->room.outside = costs->room.inside = 0.0;
}

void plan_slice_costs_add(plan_slice_costs_t *costs, int first)
{
    room_t *room = &costs->room;
    const bool is_shortest = room->first == room->end;
    room->first = first;
    room->inside_step[first] = 0.0;
    for (int i = room->first_alive[first]; i < room->first_alive[first + 1]; i++) {
        const plan_root_t *root = &costs->plan->roots[room->alive[i]];
        const double bytes = (double)root->bytes;
        if (is_shortest || root->last_step == first) room->outside += bytes;
        if (root->first_step < first || root->last_step >= room->end) continue;
        room->outside -= bytes;
        for (int s = first; s <= root->last_step; s++) {
            room->inside_step[s] += bytes;
            if (room->inside_step[s] > room->inside) room->inside = room->inside_step[s];
        }
    }
}

bool plan_slice_costs_have_room(const plan_slice_costs_t *costs, int n_slices, int n_workers)
{
    return costs->room.outside + costs->room.inside * n_workers / n_slices <= costs->peak;
}

/* ---- all steps ---- */

status_t plan_slice_costs_create(context_t *ctx, const plan_t *plan, int n_threads,
                                 const int64_t *batches, plan_slice_costs_t **out_costs)
{
    const char *purpose = "estimates of slices";
    const size_t n_steps = (size_t)plan->n_steps;
    size_t n_uses = 0;
    plan_slice_costs_t *costs = NULL;
    TRY(context_get_zeroed(ctx, sizeof *costs, purpose, out_costs));
    costs = *out_costs;
    costs->plan = plan;
    costs->limits = cost_limits();
    costs->cache = (double)context_cpu_cache(ctx);
    costs->n_threads = n_threads;
    for (int s = 0; s < plan->n_steps; s++)
        if (batches[s] > 0) n_uses += (size_t)(plan->steps[s].n_sources + plan->steps[s].n_outputs);
    TRY(context_get_zeroed(ctx, n_steps * sizeof *costs->works, purpose, &costs->works));
    TRY(context_get_zeroed(ctx, n_uses * sizeof *costs->uses, purpose, &costs->uses));
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        work_t *work = &costs->works[s];
        work->first_use = work->last_use = n;
        if (batches[s] > 0) describe(costs, &plan->steps[s], work);
        n = work->last_use;
    }
    return prepare_room(ctx, costs);
}

void plan_slice_costs_destroy(context_t *ctx, plan_slice_costs_t *costs)
{
    if (costs == NULL) return;
    CONTEXT_PUT(ctx, costs->works, costs->uses, costs->room.inside_step, costs->room.first_alive,
                costs->room.alive, costs);
}

bool plan_slice_costs_are_large(const plan_slice_costs_t *costs, int begin, int end)
{
    for (int s = begin; s < end; s++)
        if ((double)costs->works[s].batch_bytes > costs->cache / 4.0) return true;
    return false;
}

/* ---- a loop ---- */

static double computed_ns(const plan_slice_costs_t *costs, const plan_loop_t *loop,
                          const work_t *work)
{
    const int n_turns = plan_slices_of_each(loop);
    if (loop->n_workers > 1)
        return work->computed * (1.0 - WAIT_SHARE) * n_turns * loop->n_workers / loop->n_slices +
               WORKER_STEP_NS * n_turns;
    if (loop->n_slices > 1) return work->computed * (1.0 + SLICE_LOSS) + STEP_NS * n_turns;
    return work->computed + (costs->n_threads > 1 ? WAIT_NS : 0.0);
}

/* Time to move the bytes of all slices. inside_share: share of accesses to buffers inside the loop
 * that go to memory. Workers read weights at the same time. */
static double moved_ns(const plan_slice_costs_t *costs, const plan_loop_t *loop, const work_t *work,
                       double inside_share)
{
    double bytes = 0.0;
    for (int i = work->first_use; i < work->last_use; i++) {
        const use_t *use = &costs->uses[i];
        const bool is_inside = plan_stays_inside(&costs->plan->roots[use->root], loop);
        bytes += use->bytes * (is_inside ? inside_share : work->outside_share);
    }
    const double again = (double)work->weight_bytes * (plan_slices_of_each(loop) - 1);
    return (bytes + again * inside_share) / costs->limits.memory +
           again * (1.0 - inside_share) / costs->limits.cached;
}

double plan_slice_costs_loop(const plan_slice_costs_t *costs, const plan_loop_t *loop)
{
    const work_t *works = &costs->works[loop->first_step];
    const size_t n_turns = (size_t)plan_slices_of_each(loop);
    size_t most = 0, weights = 0;
    double ns = 0.0;
    for (int s = 0; s < loop->n_steps; s++) {
        const size_t bytes = works[s].batch_bytes / n_turns;
        if (bytes > most) most = bytes;
        weights += works[s].weight_bytes;
    }
    const double inside_share = memory_share(costs, most + weights);
    for (int s = 0; s < loop->n_steps; s++) {
        const double computed = computed_ns(costs, loop, &works[s]);
        const double moved = moved_ns(costs, loop, &works[s], inside_share);
        /* The shorter time mostly overlaps with the longer one. */
        ns += moved > computed ? moved + APART * computed : computed + APART * moved;
    }
    return ns;
}
