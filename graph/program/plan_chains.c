/* Runs chains of steps by bands of rows (plan_bands.c).
 *
 * If observers or the trace receive each step, the steps of a chain compute all rows at once
 * instead, with the same results, and all values have memory of their own. So observers see
 * complete values. */
#include <string.h>

#include "dispatch/prepared_impl.h"
#include "graph/program/plan_run_impl.h"
#include "tensor/context_impl.h"
#include "tensor/info_impl.h"

/* ---- bands ---- */

/* The planes of an image's channels, in a buffer with some of their rows. */
typedef struct planes {
    int64_t n, n_rows; /* planes; rows of each in the buffer */
    size_t row_bytes;
} planes_t;

static planes_t planes_of(const tensor_info_t *info, int64_t n_rows)
{
    const int64_t block = info->format.n_blocks == 1 ? info->format.block_sizes[0] : 1;
    planes_t planes = {(info->sizes[1] + block - 1) / block, n_rows, 0};
    planes.row_bytes = info_bytes(info) / (size_t)(planes.n * info->sizes[2]);
    return planes;
}

/* Moves rows from row `from` of each plane to its front. */
static void move_rows(const planes_t *planes, int64_t from, int64_t n, char *bytes)
{
    const size_t plane = (size_t)planes->n_rows * planes->row_bytes;
    for (int64_t i = 0; i < planes->n; i++, bytes += plane)
        memmove(bytes, bytes + (size_t)from * planes->row_bytes, (size_t)n * planes->row_bytes);
}

/* The address that row 0 of a value would have if its buffer begins with row `kept`. */
static void *row_0(const planes_t *planes, int64_t kept, void *bytes)
{
    return (void *)((uintptr_t)bytes - (uintptr_t)kept * planes->row_bytes);
}

/* The planes of step k's result. A reader may describe the same bytes otherwise: one block of 16
 * channels is also a tensor with channels last. */
static planes_t planes_at(const plan_run_t *run, const plan_chain_t *chain, int k)
{
    const step_t *step = &run->plan->steps[chain->first_step + k];
    return planes_of(&step->prepared->out[0], run->plan->roots[step->output_roots[0]].n_rows);
}

/* Changes the address of step k's result, as its reader and the step itself get it, to that of row
 * 0. Returns the number of rows of a plane. `height`: rows of the result. */
static int64_t place_rows(const plan_run_t *run, const plan_chain_t *chain, int b, int k,
                          int64_t height, void **bytes)
{
    if (k < 0 || k == chain->n_steps - 1) return height;
    const planes_t planes = planes_at(run, chain, k);
    *bytes = row_0(&planes, chain->bands[b * chain->n_steps + k].kept, *bytes);
    return planes.n_rows;
}

/* Moves the rows of step k's result that are still needed to the front of its buffer. */
static void keep_rows(const plan_run_t *run, const plan_chain_t *chain, int b, int k)
{
    const step_t *step = &run->plan->steps[chain->first_step + k];
    if (b == 0 || k == chain->n_steps - 1) return;
    const planes_t planes = planes_at(run, chain, k);
    const plan_band_t *now = &chain->bands[b * chain->n_steps + k], *before = now - chain->n_steps;
    if (now->kept == before->kept || now->first <= now->kept) return;
    move_rows(&planes, now->kept - before->kept, now->first - now->kept,
              (char *)run->frame->pointers[step->output_roots[0]] + step->output_offsets[0]);
}

static status_t run_band(plan_run_t *run, const plan_chain_t *chain, int b, int k)
{
    const step_t *step = &run->plan->steps[chain->first_step + k];
    const prepared_t *prepared = step->prepared;
    const plan_band_t *band = &chain->bands[b * chain->n_steps + k];
    void *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS], *scratch = NULL;
    TRY(plan_check_step(run, step));
    keep_rows(run, chain, b, k);
    if (band->first == band->last) return STATUS_OK;
    plan_find_places(run, step, in, out);
    if (step->scratch >= 0) scratch = run->frame->pointers[step->scratch];
    image_rows_t rows = {.first = band->first, .last = band->last};
    rows.of_x = place_rows(run, chain, b, k - 1, prepared->in[0].sizes[2], &in[0]);
    rows.of_out = place_rows(run, chain, b, k, prepared->out[0].sizes[2], &out[0]);
    return prepared->rows->run(run->ctx, prepared, in, out, scratch, &rows);
}

static status_t run_bands(plan_run_t *run, const plan_chain_t *chain)
{
    for (int b = 0; b < chain->n_bands; b++)
        for (int k = 0; k < chain->n_steps; k++) TRY(run_band(run, chain, b, k));
    context_counters(run->ctx)->operators += (uint64_t)chain->n_steps;
    return STATUS_OK;
}

/* ---- all rows at once ---- */

/* Gives a buffer other memory, as large as all rows need. */
static status_t replace(plan_run_t *run, int root, size_t bytes, void **out_bytes)
{
    if (root < 0 || bytes <= run->plan->roots[root].bytes) return STATUS_OK;
    TRY(context_get(run->ctx, bytes, "all rows of an image", out_bytes));
    run->frame->pointers[root] = *out_bytes;
    return STATUS_OK;
}

static status_t run_whole(plan_run_t *run, const plan_chain_t *chain)
{
    const plan_t *plan = run->plan;
    void *made[2 * PLAN_CHAIN_MOST] = {NULL}, *before[2 * PLAN_CHAIN_MOST];
    int roots[2 * PLAN_CHAIN_MOST], n = 0;
    status_t status = STATUS_OK;
    for (int k = 0; k < chain->n_steps; k++) {
        const step_t *step = &plan->steps[chain->first_step + k];
        const prepared_t *prepared = step->prepared;
        const bool is_inside = plan->roots[step->output_roots[0]].n_rows > 0;
        roots[n] = is_inside ? step->output_roots[0] : -1;
        roots[n + 1] = step->scratch;
        for (int i = 0; i < 2; i++, n++) {
            before[n] = roots[n] >= 0 ? run->frame->pointers[roots[n]] : NULL;
            if (status == STATUS_OK)
                status = replace(run, roots[n],
                                 i == 0 ? info_bytes(&prepared->out[0]) : prepared->scratch_bytes,
                                 &made[n]);
        }
    }
    for (int k = 0; k < chain->n_steps && status == STATUS_OK; k++)
        status = plan_run_step(run, &plan->steps[chain->first_step + k]);
    for (int i = 0; i < n; i++) {
        if (roots[i] >= 0) run->frame->pointers[roots[i]] = before[i];
        context_put(run->ctx, made[i]);
    }
    return status;
}

status_t plan_run_chain(plan_run_t *run, const plan_chain_t *chain)
{
    return run->is_watched ? run_whole(run, chain) : run_bands(run, chain);
}
