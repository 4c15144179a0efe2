/* Memory plan: roots one by one, each at the lowest place that is free while it lives, in the order
 * that needs the least. */
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

/* The lowest offset at which a root overlaps none of those placed that live with it. placed is
 * sorted by offset. */
static size_t lowest_offset(const plan_t *plan, const int *placed, int n_placed,
                            const plan_root_t *root)
{
    size_t offset = 0;
    for (int i = 0; i < n_placed; i++) {
        const plan_root_t *other = &plan->roots[placed[i]];
        if (!alive_together(root, other)) continue;
        if (offset + root->bytes <= other->offset) break;
        size_t end = round_up(other->offset + other->bytes);
        if (end > offset) offset = end;
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

/* What goes first: no order is best for all graphs, and a plan is made once. */
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

/* The roots of the arena in an order; gives how many. */
static int sort_roots(const plan_t *plan, order_t order, int *sorted)
{
    int n = 0;
    for (int r = 0; r < plan->n_roots; r++) {
        if (plan->roots[r].kind != ROOT_ARENA) continue;
        double weight = weight_of(&plan->roots[r], order);
        int at = n++;
        for (; at > 0 && weight_of(&plan->roots[sorted[at - 1]], order) < weight; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = r;
    }
    return n;
}

/* Gives each its offset; placed has room for all. Gives the bytes. */
static size_t place_sorted(plan_t *plan, int n, const int *sorted, int *placed)
{
    size_t arena_bytes = 0;
    for (int i = 0; i < n; i++) {
        plan_root_t *root = &plan->roots[sorted[i]];
        root->offset = lowest_offset(plan, placed, i, root);
        insert_by_offset(plan, placed, i, sorted[i]);
        size_t end = round_up(root->offset + root->bytes);
        if (end > arena_bytes) arena_bytes = end;
    }
    return arena_bytes;
}

/* What lives at once: no placement has less. */
static size_t least_bytes(const plan_t *plan, int n, const int *sorted)
{
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const int step = plan->roots[sorted[i]].first_step;
        size_t bytes = 0;
        for (int k = 0; k < n; k++) {
            const plan_root_t *root = &plan->roots[sorted[k]];
            if (root->first_step <= step && step <= root->last_step) bytes += round_up(root->bytes);
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Whoever lies at the arena's end goes first, the others keep their order. */
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

/* Each order, and what follows from it when those that do not fit are placed before the others,
 * until no order can be better. rooms: three of n_roots. The best order is left in the first. */
static size_t place_best(plan_t *plan, int *const *rooms, int *out_n)
{
    int *best = rooms[0], *sorted = rooms[1], *placed = rooms[2];
    size_t best_bytes = SIZE_MAX, least = 0;
    for (order_t order = BY_BYTES; order < N_ORDERS && best_bytes > least; order++) {
        const int n = *out_n = sort_roots(plan, order, sorted);
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

status_t plan_place(context_t *ctx, plan_t *plan)
{
    int *rooms[3] = {NULL}, n = 0;
    status_t status = STATUS_OK;
    for (int i = 0; i < 3 && status == STATUS_OK; i++)
        status = context_get(ctx, (size_t)plan->n_roots * sizeof **rooms, "a memory plan",
                             &rooms[i]);
    if (status == STATUS_OK) {
        const size_t bytes = place_best(plan, rooms, &n);
        plan->arena_bytes = n > 0 ? bytes : 0;
        (void)place_sorted(plan, n, rooms[0], rooms[2]);
    }
    for (int i = 0; i < 3; i++) context_put(ctx, rooms[i]);
    return status;
}
