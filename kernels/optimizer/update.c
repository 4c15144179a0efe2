#include "kernels/optimizer/update_impl.h"

#include <stddef.h>

#include "tensor/threads/threads_impl.h"

static update_loop_t *loop_of(update_kind_t kind, const update_t *update)
{
    static const update_loops_t *const tables[ISA_COUNT] = ISA_TABLE(update_loops);
    const update_loops_t *loops = tables[isa_best()];
    switch (kind) {
    case UPDATE_SGD: return update->state[0] != NULL ? loops->sgd_momentum : loops->sgd;
    case UPDATE_ADAM: return update->state[2] != NULL ? loops->adam_amsgrad : loops->adam;
    case UPDATE_RMSPROP: break;
    }
    return update->state[2] != NULL ? loops->rmsprop_centered : loops->rmsprop;
}

/* Threads get multiples of this many elements, so that they do not share cache lines. */
#define UNIT 64

typedef struct work {
    update_kind_t kind;
    int n;
    const update_t *updates;
} work_t;

static int64_t count_units(const update_t *update)
{
    return (update->n + UNIT - 1) / UNIT;
}

/* Updates units [first, last), which are numbered over all tensors. */
static void run_units(void *user, int64_t first, int64_t last)
{
    const work_t *work = user;
    int64_t begin = 0;
    for (int i = 0; i < work->n && begin < last; i++) {
        const update_t *update = &work->updates[i];
        const int64_t end = begin + count_units(update);
        const int64_t from = (first > begin ? first - begin : 0) * UNIT;
        const int64_t to = last < end ? (last - begin) * UNIT : update->n;
        if (from < to) loop_of(work->kind, update)(update, from, to);
        begin = end;
    }
}

void update_part(update_kind_t kind, const update_t *update, int64_t first, int64_t n,
                 const float *gradient)
{
    update_t part = *update;
    part.parameter += first;
    part.gradient = gradient;
    for (int s = 0; s < UPDATE_MAX_STATES; s++)
        if (part.state[s] != NULL) part.state[s] += first;
    loop_of(kind, &part)(&part, 0, n);
}

void update_run(update_kind_t kind, int n_threads, int n, const update_t *updates)
{
    work_t work = {.kind = kind, .n = n, .updates = updates};
    int64_t n_units = 0;
    for (int i = 0; i < n; i++) n_units += count_units(&updates[i]);
    threads_share(n_threads, n_units, run_units, &work);
}
