/* Memory plan: roots one by one, each at the lowest place that is free while it lives, in the order
 * that needs the least. */
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

/* Gives each root of the arena its offset; sorted and placed have room for all. Gives the bytes. */
static size_t place_in_order(plan_t *plan, order_t order, int *sorted, int *placed)
{
    size_t arena_bytes = 0;
    int n = 0;
    for (int r = 0; r < plan->n_roots; r++) {
        if (plan->roots[r].kind != ROOT_ARENA) continue;
        double weight = weight_of(&plan->roots[r], order);
        int at = n++;
        for (; at > 0 && weight_of(&plan->roots[sorted[at - 1]], order) < weight; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = r;
    }
    for (int i = 0; i < n; i++) {
        plan_root_t *root = &plan->roots[sorted[i]];
        root->offset = lowest_offset(plan, placed, i, root);
        insert_by_offset(plan, placed, i, sorted[i]);
        size_t end = round_up(root->offset + root->bytes);
        if (end > arena_bytes) arena_bytes = end;
    }
    return arena_bytes;
}

status_t plan_place(context_t *ctx, plan_t *plan)
{
    int *sorted = NULL, *placed = NULL;
    order_t best = BY_BYTES;
    TRY(context_get(ctx, (size_t)plan->n_roots * sizeof *sorted, "a memory plan", &sorted));
    status_t status = context_get(ctx, (size_t)plan->n_roots * sizeof *placed, "a memory plan",
                                  &placed);
    if (status == STATUS_OK) {
        plan->arena_bytes = place_in_order(plan, best, sorted, placed);
        for (order_t order = BY_AREA; order < N_ORDERS; order++) {
            size_t bytes = place_in_order(plan, order, sorted, placed);
            if (bytes >= plan->arena_bytes) continue;
            plan->arena_bytes = bytes;
            best = order;
        }
        (void)place_in_order(plan, best, sorted, placed);
    }
    context_put(ctx, placed);
    context_put(ctx, sorted);
    return status;
}
