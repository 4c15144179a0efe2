/* Memory plan: largest roots first, each at the lowest place that is free while it lives. */
#include "graph/plan_impl.h"
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

status_t plan_place(context_t *ctx, plan_t *plan)
{
    int *by_size = NULL, *placed = NULL, n = 0;
    TRY(context_get(ctx, (size_t)plan->n_roots * sizeof *by_size, "a memory plan", &by_size));
    status_t status = context_get(ctx, (size_t)plan->n_roots * sizeof *placed, "a memory plan",
                                  &placed);
    if (status != STATUS_OK) {
        context_put(ctx, by_size);
        return status;
    }
    for (int r = 0; r < plan->n_roots; r++) {
        if (plan->roots[r].kind != ROOT_ARENA) continue;
        int at = n++;
        for (; at > 0 && plan->roots[by_size[at - 1]].bytes < plan->roots[r].bytes; at--)
            by_size[at] = by_size[at - 1];
        by_size[at] = r;
    }
    plan->arena_bytes = 0;
    for (int i = 0; i < n; i++) {
        plan_root_t *root = &plan->roots[by_size[i]];
        root->offset = lowest_offset(plan, placed, i, root);
        insert_by_offset(plan, placed, i, by_size[i]);
        size_t end = round_up(root->offset + root->bytes);
        if (end > plan->arena_bytes) plan->arena_bytes = end;
    }
    context_put(ctx, by_size);
    context_put(ctx, placed);
    return STATUS_OK;
}
