/* Bands of rows. For one image there are no slices of a batch, but steps that compute each row of
 * their result from a few rows of their input can run one after another for some rows, then for the
 * next rows:
 *
 *   %1 = conv2d(%x, ...)       [1,64,224,224]: 12.8 MB         for each of 14 bands:
 *   %2 = conv2d(%1, ...)       [1,64,224,224]: 12.8 MB             18 rows of %1, 16 rows of %2,
 *   %3 = max_pool2d(%2)        [1,64,112,112]: 3.2 MB              8 rows of %3
 *
 * Such steps are a chain. A value inside a chain needs memory for the rows of a band, and for those
 * before it that the next step still reads. They are moved to the front of the buffer when the next
 * band begins, so no row is computed twice.
 *
 * Bands cost time: each band reads the weights again, and threads wait for each other more often.
 * So only those steps form a chain that need the most memory in the plan. */
#include <string.h>

#include "dispatch/prepared_impl.h"
#include "graph/program/plan_impl.h"
#include "tensor/context_impl.h"
#include "tensor/info_impl.h"

enum { MOST_STEPS = PLAN_CHAIN_MOST, MOST_BANDS = 64, LEAST_PIXELS = 256 };

/* A band costs this time for each step, and reads weights from a cache at this speed. The bands of
 * a chain may take this share of its time. */
#define BAND_NS 3000.0
#define BYTES_PER_NS 40.0
#define LOSS 0.2

/* A chain must lower the plan's memory by this share. */
#define GAIN 0.05

typedef struct banding {
    context_t *ctx;
    plan_t *plan;
    bool *is_linked;    /* [n_steps] the result of the step may be a value inside a chain */
    size_t *bytes;      /* [n_steps] memory during the step */
    plan_band_t *bands; /* [MOST_BANDS * MOST_STEPS] those of the candidate */
} banding_t;

/* ---- steps that can be in a chain ---- */

static bool is_constant(const plan_t *plan, const plan_source_t *source)
{
    return source->kind == SOURCE_NONE || source->kind == SOURCE_TENSOR ||
           (source->kind == SOURCE_ROOT && plan->roots[source->root].kind == ROOT_CONSTANT);
}

static bool can_band(const plan_t *plan, int s)
{
    const step_t *step = &plan->steps[s];
    const prepared_t *prepared = step->prepared;
    if (prepared == NULL || prepared->rows == NULL || prepared->post_left > 0 ||
        step->is_in_place || step->view.n_slices > 1 || step->n_outputs != 1 ||
        step->sources[0].kind != SOURCE_ROOT)
        return false;
    for (int i = 1; i < step->n_sources; i++)
        if (step->sources[i].kind == SOURCE_PARAMETER) return false;
    return true;
}

/* True if rows of the value are adjacent in each plane of channels. */
static bool lies_in_planes(const tensor_info_t *info)
{
    const format_t *format = &info->format;
    if (format->kind != FORMAT_TAG || format->n_blocks != 1 || format->block_dims[0] != 1)
        return false;
    const format_t blocks = format_channel_blocks(4, format->block_sizes[0]);
    return info->rank == 4 && format_same(format, &blocks, info->sizes);
}

/* True if only step s writes the value, and only the next step reads it, as its input 0. */
static bool is_link(const plan_t *plan, int s)
{
    if (s + 1 >= plan->n_steps || !can_band(plan, s) || !can_band(plan, s + 1)) return false;
    const step_t *step = &plan->steps[s], *next = &plan->steps[s + 1];
    const int root = step->output_roots[0];
    const plan_root_t *of = &plan->roots[root];
    const tensor_info_t *info = &step->prepared->out[0];
    for (int i = 1; i < step->n_sources; i++)
        if (!is_constant(plan, &step->sources[i])) return false;
    for (int i = 1; i < next->n_sources; i++)
        if (next->sources[i].kind == SOURCE_ROOT && next->sources[i].root == root) return false;
    return of->kind == ROOT_ARENA && of->block == 0 && !of->is_shared && !of->is_written &&
           of->first_step == s && of->last_step == s + 1 && step->output_offsets[0] == 0 &&
           of->bytes == info_bytes(info) && lies_in_planes(info) && next->output_roots[0] != root &&
           next->sources[0].root == root && next->sources[0].offset == 0;
}

/* ---- rows of bands ---- */

static int64_t height_of(const prepared_t *prepared)
{
    return prepared->out[0].sizes[2];
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The rows of input 0 that come before the one that row `row` of the result reads first, and the
 * rows up to the last one that it reads. */
static int64_t read_from(const prepared_t *prepared, int64_t row)
{
    const int64_t first = row * prepared->rows_stride - prepared->rows_padding;
    return first > 0 ? least(first, prepared->in[0].sizes[2]) : 0;
}

static int64_t read_up_to(const prepared_t *prepared, int64_t row)
{
    const int64_t last = row * prepared->rows_stride - prepared->rows_padding +
                         prepared->rows_reach;
    return last > 0 ? least(last, prepared->in[0].sizes[2]) : 0;
}

static int64_t end_of(const prepared_t *prepared, int64_t row)
{
    const int64_t height = height_of(prepared);
    if (row >= height || prepared->rows->end == NULL) return least(row, height);
    return prepared->rows->end(prepared, row);
}

static const prepared_t *prepared_at(const plan_t *plan, const plan_chain_t *chain, int k)
{
    return plan->steps[chain->first_step + k].prepared;
}

static plan_band_t *band_at(const plan_chain_t *chain, int b, int k)
{
    return &chain->bands[b * chain->n_steps + k];
}

/* Divides the last step's rows into n_bands, as its kernel allows, and finds the rows of all other
 * steps. Sets the number of bands that are left. */
static void divide(const plan_t *plan, plan_chain_t *chain, int n_bands)
{
    int64_t made[MOST_STEPS] = {0};
    const int n = chain->n_steps;
    const prepared_t *last = prepared_at(plan, chain, n - 1);
    const int64_t height = height_of(last);
    chain->n_bands = 0;
    for (int b = 0; b < n_bands; b++) {
        int64_t end = end_of(last, height * (b + 1) / n_bands);
        if (end <= made[n - 1]) continue;
        plan_band_t *bands = band_at(chain, chain->n_bands++, 0);
        for (int k = n - 1; k >= 0; k--) {
            const prepared_t *prepared = prepared_at(plan, chain, k);
            const int64_t first = made[k], kept = k == n - 1 ? 0 : bands[k + 1].first;
            const prepared_t *reader = k == n - 1 ? NULL : prepared_at(plan, chain, k + 1);
            if (k < n - 1) end = end > 0 ? read_up_to(reader, end - 1) : 0;
            end = end_of(prepared, end > first ? end : first);
            bands[k] = (plan_band_t){first, end, 0};
            if (reader != NULL) bands[k].kept = least(read_from(reader, kept), first);
            made[k] = end;
        }
    }
}

/* The number of rows that the buffer of step k's result needs. */
static int64_t count_rows(const plan_chain_t *chain, int k)
{
    int64_t most = 0;
    for (int b = 0; b < chain->n_bands; b++) {
        const plan_band_t *band = band_at(chain, b, k);
        if (band->last - band->kept > most) most = band->last - band->kept;
    }
    return most;
}

static size_t window_bytes(const plan_t *plan, const plan_chain_t *chain, int k)
{
    const tensor_info_t *info = &prepared_at(plan, chain, k)->out[0];
    return info_bytes(info) / (size_t)info->sizes[2] * (size_t)count_rows(chain, k);
}

/* True if no band reads rows that an earlier band has overwritten. */
static bool reads_before_writing(const plan_t *plan, const plan_chain_t *chain)
{
    const step_t *first = &plan->steps[chain->first_step];
    const step_t *last = first + chain->n_steps - 1;
    const plan_source_t *source = &first->sources[0];
    if (source->root != last->output_roots[0]) return true;
    if (source->offset != last->output_offsets[0] ||
        !info_equal(&first->prepared->in[0], &last->prepared->out[0]))
        return false;
    for (int b = 1; b < chain->n_bands; b++)
        if (read_from(first->prepared, band_at(chain, b, 0)->first) <
            band_at(chain, b - 1, chain->n_steps - 1)->last)
            return false;
    return true;
}

/* ---- memory ---- */

size_t plan_scratch_bytes(const plan_t *plan, int s)
{
    const prepared_t *prepared = plan->steps[s].prepared;
    for (int c = 0; c < plan->n_chains; c++) {
        const plan_chain_t *chain = &plan->chains[c];
        const int k = s - chain->first_step;
        if (k >= 0 && k < chain->n_steps) return chain->scratch[k];
    }
    return prepared != NULL ? prepared->scratch_bytes : 0;
}

/* The most scratch memory that step k needs for a band. */
static size_t most_scratch(const plan_t *plan, const plan_chain_t *chain, int k)
{
    const prepared_t *prepared = prepared_at(plan, chain, k);
    size_t most = 0;
    if (prepared->rows->scratch == NULL) return prepared->scratch_bytes;
    for (int b = 0; b < chain->n_bands; b++) {
        const plan_band_t *band = band_at(chain, b, k);
        const image_rows_t rows = {band->first, band->last, 0, 0};
        const size_t bytes = band->first < band->last ? prepared->rows->scratch(prepared, &rows)
                                                      : 0;
        if (bytes > most) most = bytes;
    }
    return most;
}

static bool is_inside(const plan_t *plan, const plan_chain_t *chain, int root)
{
    for (int k = 0; k < chain->n_steps - 1; k++)
        if (plan->steps[chain->first_step + k].output_roots[0] == root) return true;
    return false;
}

/* Bytes of arena buffers that are alive during some of these steps, apart from those in a chain. */
static size_t live_bytes(const plan_t *plan, int first, int last, const plan_chain_t *chain)
{
    size_t bytes = 0;
    for (int r = 0; r < plan->n_roots; r++) {
        const plan_root_t *root = &plan->roots[r];
        if (root->kind == ROOT_ARENA && root->block == 0 && root->first_step <= last &&
            first <= root->last_step && (chain == NULL || !is_inside(plan, chain, r)))
            bytes += root->bytes;
    }
    return bytes;
}

static size_t chain_bytes(const plan_t *plan, const plan_chain_t *chain)
{
    const int end = chain->first_step + chain->n_steps - 1;
    size_t bytes = live_bytes(plan, chain->first_step, end, chain), scratch = 0;
    for (int k = 0; k < chain->n_steps; k++) {
        const size_t of_step = most_scratch(plan, chain, k);
        if (k < chain->n_steps - 1) bytes += window_bytes(plan, chain, k);
        if (of_step > scratch) scratch = of_step;
    }
    return bytes + scratch;
}

/* True if the bands take a small part of the time of the steps. */
static bool is_cheap(const plan_t *plan, const plan_chain_t *chain)
{
    double time = 0.0, lost = 0.0;
    for (int k = 0; k < chain->n_steps; k++) {
        const step_t *step = &plan->steps[chain->first_step + k];
        time += step->prepared->cost_ns;
        lost += BAND_NS;
        for (int i = 1; i < step->n_sources; i++)
            if (step->sources[i].kind == SOURCE_TENSOR)
                lost += (double)info_bytes(&step->sources[i].info) / BYTES_PER_NS;
    }
    return lost * (chain->n_bands - 1) <= LOSS * time;
}

/* ---- choice ---- */

typedef struct choice {
    int first_step, n_steps, n_bands;
    size_t bytes; /* memory during the chain */
} choice_t;

static bool is_free(const plan_t *plan, int first, int last)
{
    for (int c = 0; c < plan->n_chains; c++)
        if (plan->chains[c].first_step <= last &&
            first < plan->chains[c].first_step + plan->chains[c].n_steps)
            return false;
    return true;
}

/* Tries all numbers of bands. With equal memory, fewer bands are better. */
static void try_bands(const banding_t *b, int first, int last, choice_t *best)
{
    const plan_t *plan = b->plan;
    plan_chain_t chain = {.first_step = first, .n_steps = last - first + 1, .bands = b->bands};
    const tensor_info_t *out = &plan->steps[last].prepared->out[0];
    for (int n = 2; n <= MOST_BANDS && n <= out->sizes[2]; n++) {
        divide(plan, &chain, n);
        if (out->sizes[2] * out->sizes[3] < (int64_t)n * LEAST_PIXELS || !is_cheap(plan, &chain))
            return;
        if (chain.n_bands < n || !reads_before_writing(plan, &chain)) continue;
        const size_t bytes = chain_bytes(plan, &chain);
        if (bytes < best->bytes) *best = (choice_t){first, chain.n_steps, n, bytes};
    }
}

/* Finds the chain with step `at` that needs the least memory. */
static choice_t choose(const banding_t *b, int at)
{
    choice_t best = {.bytes = (size_t)((double)b->bytes[at] * (1.0 - GAIN))};
    for (int first = at; first >= 0 && at - first < MOST_STEPS; first--) {
        if (first < at && !b->is_linked[first]) break;
        for (int last = first; last < first + MOST_STEPS && last < b->plan->n_steps; last++) {
            if (last > first && !b->is_linked[last - 1]) break;
            if (last > first && last >= at && is_free(b->plan, first, last))
                try_bands(b, first, last, &best);
        }
    }
    return best;
}

/* ---- building ---- */

/* Keeps all buffers that the chain uses alive during all of its bands. */
static void keep_alive(plan_t *plan, int root, const plan_chain_t *chain)
{
    plan_root_t *of = &plan->roots[root];
    const int last = chain->first_step + chain->n_steps - 1;
    if (of->first_step > chain->first_step) of->first_step = chain->first_step;
    if (of->last_step < last) of->last_step = last;
}

/* Sets the memory of the chain's values and steps for its bands. */
static void set_memory(plan_t *plan, plan_chain_t *chain)
{
    for (int k = 0; k < chain->n_steps; k++) {
        step_t *step = &plan->steps[chain->first_step + k];
        plan_root_t *root = &plan->roots[step->output_roots[0]];
        chain->scratch[k] = most_scratch(plan, chain, k);
        step->view.n_bands = chain->n_bands;
        if (k == chain->n_steps - 1) continue;
        root->n_rows = count_rows(chain, k);
        root->bytes = window_bytes(plan, chain, k);
    }
}

static status_t add_chain(const banding_t *b, const choice_t *choice)
{
    plan_t *plan = b->plan;
    int capacity = plan->n_chains;
    plan_chain_t chain = {.first_step = choice->first_step, .n_steps = choice->n_steps};
    const size_t n = (size_t)choice->n_bands * (size_t)choice->n_steps;
    TRY(context_grow(b->ctx, &plan->chains, &capacity, plan->n_chains + 1, sizeof *plan->chains));
    TRY(context_get_zeroed(b->ctx, n * sizeof *chain.bands, "bands", &chain.bands));
    divide(plan, &chain, choice->n_bands);
    set_memory(plan, &chain);
    for (int k = 0; k < chain.n_steps; k++) {
        const step_t *step = &plan->steps[chain.first_step + k];
        for (int i = 0; i < step->n_sources; i++)
            if (step->sources[i].kind == SOURCE_ROOT)
                keep_alive(plan, step->sources[i].root, &chain);
        keep_alive(plan, step->output_roots[0], &chain);
    }
    int at = plan->n_chains;
    for (; at > 0 && plan->chains[at - 1].first_step > chain.first_step; at--)
        plan->chains[at] = plan->chains[at - 1];
    plan->chains[at] = chain;
    plan->n_chains++;
    return STATUS_OK;
}

static int find_most(const banding_t *b)
{
    int most = 0;
    for (int s = 0; s < b->plan->n_steps; s++) {
        b->bytes[s] = live_bytes(b->plan, s, s, NULL) + plan_scratch_bytes(b->plan, s);
        if (b->bytes[s] > b->bytes[most]) most = s;
    }
    return most;
}

/* Gives each chain as few bands as the plan's memory allows. */
static void join_bands(const banding_t *b)
{
    plan_t *plan = b->plan;
    const size_t most = b->bytes[find_most(b)];
    for (int c = 0; c < plan->n_chains; c++) {
        plan_chain_t *chain = &plan->chains[c];
        const int n_bands = chain->n_bands;
        for (int n = 2; n <= n_bands; n++) {
            divide(plan, chain, n);
            if (n == n_bands || (chain->n_bands == n && reads_before_writing(plan, chain) &&
                                 chain_bytes(plan, chain) <= most))
                break;
        }
        set_memory(plan, chain);
    }
}

static status_t add_chains(const banding_t *b)
{
    for (int s = 0; s < b->plan->n_steps; s++) b->is_linked[s] = is_link(b->plan, s);
    for (;;) {
        const choice_t choice = choose(b, find_most(b));
        if (choice.n_steps == 0) break;
        TRY(add_chain(b, &choice));
    }
    join_bands(b);
    return STATUS_OK;
}

status_t plan_band(context_t *ctx, plan_t *plan)
{
    banding_t b = {.ctx = ctx, .plan = plan};
    const size_t n = (size_t)plan->n_steps;
    bool any = false;
    for (int s = 0; s < plan->n_steps && !any; s++) any = is_link(plan, s);
    if (!any) return STATUS_OK;
    status_t status = context_get_zeroed(ctx, n * sizeof *b.is_linked, "bands", &b.is_linked);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, n * sizeof *b.bytes, "bands", &b.bytes);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, MOST_BANDS * MOST_STEPS * sizeof *b.bands, "bands",
                                    &b.bands);
    if (status == STATUS_OK) status = add_chains(&b);
    context_put(ctx, b.is_linked);
    context_put(ctx, b.bytes);
    context_put(ctx, b.bands);
    return status;
}
