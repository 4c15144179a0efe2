/* Assigns arena offsets. Each buffer gets the lowest offset that is free during its lifetime.
 * Buffers are placed in several orders, and the order with the smallest arena is used.
 *
 * If a step extends a buffer, as a concat of batches extends its first input, result and input may
 * start at the same offset. Such twins are placed together.
 *
 * If each worker of a loop has its own copy of some buffers, these buffers are placed in a block.
 * The block itself is one buffer of the arena, large enough for all copies:
 *
 *   block of 2 workers   | %1 %2 %3 of the first | %1 %2 %3 of the second | */
#include <string.h>

#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"

static bool alive_together(const plan_root_t *a, const plan_root_t *b)
{
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static const plan_root_t *twin_of(const plan_t *plan, const plan_root_t *root)
{
    return root->twin > 0 ? &plan->roots[root->twin - 1] : NULL;
}

/* The lowest offset, from `offset` on, at which the buffer overlaps no placed buffer that is alive
 * at the same time. placed is sorted by offset. */
static size_t lowest_offset(const plan_t *plan, const int *placed, int n_placed,
                            const plan_root_t *root, size_t offset)
{
    for (int i = 0; i < n_placed; i++) {
        const plan_root_t *other = &plan->roots[placed[i]];
        if (!alive_together(root, other)) continue;
        if (offset + root->bytes <= other->offset) break;
        size_t end = round_up(other->offset + other->bytes);
        if (end > offset) offset = end;
    }
    return offset;
}

/* The lowest offset that is free for both the buffer and its twin. */
static size_t common_offset(const plan_t *plan, const int *placed, int n_placed,
                            const plan_root_t *root)
{
    const plan_root_t *twin = twin_of(plan, root);
    size_t offset = lowest_offset(plan, placed, n_placed, root, 0), before = SIZE_MAX;
    while (twin != NULL && before != offset) {
        before = offset;
        offset = lowest_offset(plan, placed, n_placed, twin, offset);
        offset = lowest_offset(plan, placed, n_placed, root, offset);
    }
    return offset;
}

static void insert_by_offset(const plan_t *plan, int *placed, int n_placed, int root)
{
    int at = n_placed;
    while (at > 0 && plan->roots[placed[at - 1]].offset > plan->roots[root].offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = root;
}

/* Orders of placement. Each is best for some graphs; plans are made seldom, so all are tried. */
typedef enum order { BY_BYTES, BY_AREA, BY_LIFETIME, BY_STEP, N_ORDERS } order_t;

static double weight_of(const plan_root_t *root, order_t order)
{
    double lifetime = (double)(root->last_step - root->first_step + 1);
    switch (order) {
    case BY_BYTES: return (double)root->bytes;
    case BY_AREA: return (double)root->bytes * lifetime;
    case BY_LIFETIME: return lifetime;
    default: return -(double)root->first_step;
    }
}

/* Lists the buffers of a block or of the arena itself in the given order; returns their number. */
static int sort_roots(const plan_t *plan, int block, order_t order, int *sorted)
{
    int n = 0;
    for (int r = 0; r < plan->n_roots; r++) {
        if (plan->roots[r].kind != ROOT_ARENA || plan->roots[r].block != block) continue;
        double weight = weight_of(&plan->roots[r], order);
        int at = n++;
        for (; at > 0 && weight_of(&plan->roots[sorted[at - 1]], order) < weight; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = r;
    }
    return n;
}

/* With more buffers than this, only step order is tried, and dead buffers are skipped; other orders
 * would take quadratic time. */
enum { MOST_ORDERED = 4000 };

/* Removes buffers that are dead at a step from the list. Returns the number left. */
static int drop_dead(const plan_t *plan, int *placed, int n_placed, int step)
{
    int n = 0;
    for (int i = 0; i < n_placed; i++)
        if (plan->roots[placed[i]].last_step >= step) placed[n++] = placed[i];
    return n;
}

/* Assigns offsets in this order, and returns the arena's size. placed has n elements. */
static size_t place_sorted(plan_t *plan, int n, const int *sorted, int *placed)
{
    size_t arena_bytes = 0;
    int n_placed = 0;
    for (int i = 0; i < n; i++) plan->roots[sorted[i]].offset = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        const int twin = plan->roots[sorted[i]].twin - 1, both[] = {sorted[i], twin};
        if (plan->roots[sorted[i]].offset != SIZE_MAX) continue;
        if (n > MOST_ORDERED)
            n_placed = drop_dead(plan, placed, n_placed, plan->roots[sorted[i]].first_step);
        const size_t offset = common_offset(plan, placed, n_placed, &plan->roots[sorted[i]]);
        for (int k = 0; k < (twin >= 0 ? 2 : 1); k++) {
            plan->roots[both[k]].offset = offset;
            insert_by_offset(plan, placed, n_placed++, both[k]);
            size_t end = round_up(offset + plan->roots[both[k]].bytes);
            if (end > arena_bytes) arena_bytes = end;
        }
    }
    return arena_bytes;
}

/* True if at this step the buffer's bytes already count as its twin's. */
static bool has_grown(const plan_t *plan, const plan_root_t *root, int step)
{
    const plan_root_t *twin = twin_of(plan, root);
    return twin != NULL && root->last_step == step && twin->first_step == step;
}

/* The most bytes that are alive at the same time: no placement needs less. */
static size_t least_bytes(const plan_t *plan, int n, const int *sorted)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const int step = plan->roots[sorted[i]].first_step;
        size_t bytes = 0;
        for (int k = 0; k < n; k++) {
            const plan_root_t *root = &plan->roots[sorted[k]];
            if (root->first_step <= step && step <= root->last_step && !has_grown(plan, root, step))
                bytes += round_up(root->bytes);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Moves buffers that reach the arena's end to the front of the order; the others stay in order. */
static void put_last_first(const plan_t *plan, int n, int *sorted, size_t arena_bytes)
{
    for (int i = 1; i < n; i++) {
        const int root = sorted[i];
        if (round_up(plan->roots[root].offset + plan->roots[root].bytes) < arena_bytes) continue;
        memmove(&sorted[1], sorted, (size_t)i * sizeof *sorted);
        sorted[0] = root;
    }
}

enum { MOST_TRIES = 32, MOST_ROOTS = 1000 };

/* Tries each order, then changed orders that begin with the buffers at the arena's end, until the
 * arena is as small as least_bytes. rooms: three arrays [n_roots]; rooms[0] returns the best
 * order. */
static size_t place_best(plan_t *plan, int block, int *const *rooms, int *out_n)
{
    int *best = rooms[0], *sorted = rooms[1], *placed = rooms[2];
    size_t best_bytes = SIZE_MAX, least = 0;
    const int n_all = sort_roots(plan, block, BY_STEP, sorted);
    for (order_t order = n_all > MOST_ORDERED ? BY_STEP : BY_BYTES;
         order < N_ORDERS && best_bytes > least; order++) {
        const int n = *out_n = sort_roots(plan, block, order, sorted);
        if (order == BY_BYTES) least = least_bytes(plan, n, sorted);
        const int n_tries = n > MOST_ROOTS ? 1 : MOST_TRIES;
        for (int i = 0; i < n_tries && best_bytes > least; i++) {
            const size_t bytes = place_sorted(plan, n, sorted, placed);
            if (bytes < best_bytes) {
                best_bytes = bytes;
                memcpy(best, sorted, (size_t)n * sizeof *best);
            }
            put_last_first(plan, n, sorted, bytes);
        }
    }
    return best_bytes;
}

/* Places each block separately, then the arena. */
static size_t place_blocks(plan_t *plan, int *const *rooms, int *out_n)
{
    for (int b = 0; b < plan->n_roots; b++) {
        plan_root_t *block = &plan->roots[b];
        if (block->n_copies == 0) continue;
        int n = 0;
        const size_t bytes = place_best(plan, b + 1, rooms, &n);
        if (n > 0) (void)place_sorted(plan, n, rooms[0], rooms[2]);
        const size_t copy = n > 0 ? plan_round_to_page(bytes) : 0;
        for (int i = 0; i < n; i++) plan->roots[rooms[0][i]].copy_bytes = copy;
        block->bytes = copy * (size_t)block->n_copies;
    }
    return place_best(plan, 0, rooms, out_n);
}

/* ---- twins ---- */

static int n_readers(const step_t *step, int root)
{
    int n = 0;
    for (int i = 0; i < step->n_sources; i++)
        n += step->sources[i].kind == SOURCE_ROOT && step->sources[i].root == root;
    return n;
}

/* True for an arena buffer that contains exactly these elements and has no twin. */
static bool is_alone(const plan_root_t *root, size_t offset, const tensor_info_t *info)
{
    return root->kind == ROOT_ARENA && offset == 0 && root->twin == 0 &&
           root->bytes == info_bytes(info);
}

/* True if the first input is last used, and the result first used, by this step. */
static bool can_grow(const plan_t *plan, int s)
{
    const step_t *step = &plan->steps[s];
    if (step->prepared == NULL || !step->prepared->may_grow || step->is_in_place ||
        step->sources[0].kind != SOURCE_ROOT)
        return false;
    const plan_root_t *from = &plan->roots[step->sources[0].root];
    const plan_root_t *to = &plan->roots[step->output_roots[0]];
    return from->block == to->block &&
           is_alone(from, step->sources[0].offset, &step->prepared->in[0]) &&
           is_alone(to, step->output_offsets[0], &step->prepared->out[0]) &&
           n_readers(step, step->sources[0].root) == 1 && from->last_step == s &&
           to->first_step == s;
}

/* Makes twins where possible. Returns the number of pairs. */
static int join_twins(plan_t *plan)
{
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        if (!can_grow(plan, s)) continue;
        step_t *step = &plan->steps[s];
        plan->roots[step->sources[0].root].twin = 1 + step->output_roots[0];
        plan->roots[step->output_roots[0]].twin = 1 + step->sources[0].root;
        step->view.overwrites = 0;
        n++;
    }
    return n;
}

static void part_twins(plan_t *plan)
{
    for (int s = 0; s < plan->n_steps; s++) {
        step_t *step = &plan->steps[s];
        if (step->n_outputs == 0 || step->view.overwrites != 0) continue;
        if (plan->roots[step->output_roots[0]].twin > 0 && step->prepared->may_grow)
            step->view.overwrites = -1;
    }
    for (int r = 0; r < plan->n_roots; r++) plan->roots[r].twin = 0;
}

/* Places all buffers, with and without twins. Threads that extend a buffer wait for each other at
 * each row, so twins are used only if they save an eighth of the memory. */
static size_t place_all(plan_t *plan, int *const *rooms, int *out_n)
{
    const size_t apart = place_blocks(plan, rooms, out_n);
    if (join_twins(plan) == 0) return apart;
    const size_t grown = place_blocks(plan, rooms, out_n);
    if (grown <= apart - apart / 8) return grown;
    part_twins(plan);
    return place_blocks(plan, rooms, out_n);
}

/* ---- scratch ---- */

/* 1 + the block of the loop of workers that runs a step, or 0. */
static int block_of(const plan_t *plan, int s)
{
    for (int r = 0; r < plan->n_roots && plan->steps[s].view.n_workers > 1; r++)
        if (plan->roots[r].n_copies > 0 && plan->roots[r].first_step <= s &&
            s <= plan->roots[r].last_step)
            return 1 + r;
    return 0;
}

status_t plan_add_scratch(context_t *ctx, plan_t *plan, int *roots_capacity)
{
    for (int s = 0; s < plan->n_steps; s++) {
        step_t *step = &plan->steps[s];
        step->scratch = -1;
        if (plan_scratch_bytes(plan, s) == 0) continue;
        TRY(context_grow(ctx, &plan->roots, roots_capacity, plan->n_roots + 1,
                         sizeof *plan->roots));
        const int block = block_of(plan, s);
        plan->roots[plan->n_roots] = (plan_root_t){.kind = ROOT_ARENA,
                                                   .bytes = plan_scratch_bytes(plan, s),
                                                   .first_step = s,
                                                   .last_step = s,
                                                   .block = block};
        step->scratch = plan->n_roots++;
    }
    return STATUS_OK;
}

status_t plan_place(context_t *ctx, plan_t *plan)
{
    int *rooms[3] = {NULL}, n = 0;
    status_t status = STATUS_OK;
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = context_get(ctx, (size_t)plan->n_roots * sizeof **rooms, "a memory plan",
                             &rooms[i]);
    if (status == STATUS_OK) {
        const size_t bytes = place_all(plan, rooms, &n);
        plan->arena_bytes = n > 0 ? bytes : 0;
        (void)place_sorted(plan, n, rooms[0], rooms[2]);
        for (int r = 0; r < plan->n_roots; r++)
            if (plan->roots[r].block > 0)
                plan->roots[r].offset += plan->roots[plan->roots[r].block - 1].offset;
    }
    for (int i = 0; i < 3; i++) context_put(ctx, rooms[i]);
    return status;
}
