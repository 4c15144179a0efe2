/* Replaces estimated costs of ways by times measured on this machine.
 *
 * Only one of several equal sites is measured: their ways have the same names. Sets of equal sites
 * with the largest sum of estimates come first, until the deadline. The ways of a site run
 * alternately, so that the machine's state affects all of them; the shortest time of each counts.
 * Activations are in caches as the previous run left them. Each run reads the weights from another
 * part of a large block, as in a network whose weights are in no cache. Estimates of sites that
 * were not measured are scaled by the ratio of all measured times to their estimates. */
#include <stdlib.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/info_impl.h"
#include "tensor/threads/interrupt_impl.h"
#include "tensor/threads/threads_impl.h"

#define POOL_BYTES ((size_t)32 << 20) /* size of the block from which weights are read */
#define WORTH_MEASURING 4.0           /* measures ways up to this multiple of the least estimate */
#define WORTH_REPEATING 1.6           /* repeats ways up to this multiple of the shortest time */
#define MOST_ROUNDS 9
#define LEAST_ROUNDS 3
#define MOST_NS_EACH 6e7 /* maximum time for a site, after LEAST_ROUNDS */

/* ---- names ---- */

/* "#conv2d padding=[1,1] f32[1,64,56,56]@aBcd8b ... to f32[1,64,56,56]@aBcd8b by winograd_4;". */
static void print_name(const layout_site_t *site, int way, text_t *text)
{
    const prepared_t *prepared = site->ways[way];
    const opdef_t *op = site->node->op;
    char info[INFO_TEXT_MAX];
    text_append(text, "#%s ", op->name);
    if (op->attrs.n_fields > 0) attrs_print(&op->attrs, site->node->attrs, text);
    for (int i = 0; i < prepared->n_in; i++)
        text_append(text, " %s",
                    prepared->in[i].dtype == DTYPE_NONE ? "none"
                                                        : info_text(&prepared->in[i], info));
    for (int i = 0; i < prepared->n_out; i++)
        text_append(text, "%s %s", i == 0 ? " to" : "", info_text(&prepared->out[i], info));
    text_append(text, " by %s;", prepared->kernel->name);
}

/* Finds the time for a name in lines of timings; 0 if there is none. */
static double find_timing(const char *lines, const text_t *name)
{
    for (const char *at = lines; at != NULL && *at != '\0';) {
        if (strncmp(at, text_string(name), name->length) == 0)
            return strtod(at + name->length, NULL);
        at = strchr(at, '\n');
        if (at != NULL) at++;
    }
    return 0.0;
}

bool layout_has_timings(const char *lines)
{
    return lines != NULL && (lines[0] == '#' || strstr(lines, "\n#") != NULL);
}

/* ---- one way ---- */

typedef struct trial {
    const prepared_t *prepared; /* NULL: not measured, or dropped */
    void *in[OP_MAX_INPUTS], *out[OP_MAX_OUTPUTS], *scratch;
    int weight; /* input that is read from the block, or -1 */
    size_t weight_bytes, weight_at;
    double ns; /* shortest time; 0: none yet */
} trial_t;

typedef struct bench {
    context_t *ctx;
    float *pool;
    uint64_t deadline;
    trial_t trials[LAYOUT_MAX_WAYS];
} bench_t;

static void fill(dtype_t dtype, size_t bytes, void *to)
{
    float *numbers = to;
    memset(to, 0, bytes);
    if (dtype == DTYPE_F32)
        for (size_t i = 0; i < bytes / sizeof *numbers; i++) numbers[i] = 0.5f;
}

/* False for views, which compute nothing; for joins, whose cost depends on the plan; for strided
 * inputs, which are views of other tensors; and for random operators. */
static bool can_measure(const layout_site_t *site, int way)
{
    const prepared_t *prepared = site->ways[way];
    return !prepared->is_view && !prepared->is_joined && prepared->run != NULL &&
           site->asked[way].in >= -1 && (site->node->op->traits & TRAIT_DRAWS) == 0;
}

static status_t begin_trial(bench_t *bench, const prepared_t *prepared, trial_t *trial)
{
    context_t *ctx = bench->ctx;
    trial->weight = -1;
    for (int i = 0; i < prepared->n_in; i++) {
        const tensor_info_t *info = &prepared->in[i];
        const size_t bytes = info->dtype == DTYPE_NONE ? 0 : info_bytes(info);
        if (bytes == 0) continue;
        if (trial->weight < 0 && select_operand(prepared->op, i)->role == ROLE_WEIGHT &&
            bytes <= POOL_BYTES / 2) {
            trial->weight = i;
            trial->weight_bytes = (bytes + 63) & ~(size_t)63;
            continue;
        }
        TRY(context_get(ctx, bytes, "an input for measurements", &trial->in[i]));
        fill(info->dtype, bytes, trial->in[i]);
    }
    for (int i = 0; i < prepared->n_out; i++)
        TRY(context_get_zeroed(ctx, info_bytes(&prepared->out[i]), "a result for measurements",
                               &trial->out[i]));
    if (prepared->scratch_bytes > 0)
        TRY(context_get(ctx, prepared->scratch_bytes, "scratch", &trial->scratch));
    trial->prepared = prepared;
    return STATUS_OK;
}

static void end_trial(context_t *ctx, trial_t *trial)
{
    for (int i = 0; i < OP_MAX_INPUTS; i++)
        if (i != trial->weight) context_put(ctx, trial->in[i]);
    for (int i = 0; i < OP_MAX_OUTPUTS; i++) context_put(ctx, trial->out[i]);
    context_put(ctx, trial->scratch);
}

static status_t run_trial(bench_t *bench, trial_t *trial, bool counts)
{
    if (trial->weight >= 0) {
        if (trial->weight_at + trial->weight_bytes > POOL_BYTES) trial->weight_at = 0;
        trial->in[trial->weight] = (char *)bench->pool + trial->weight_at;
        trial->weight_at += trial->weight_bytes;
    }
    const uint64_t begin = context_now();
    status_t status = trial->prepared->run(bench->ctx, trial->prepared, trial->in, trial->out,
                                           trial->scratch);
    const double ns = (double)(context_now() - begin);
    if (status == STATUS_INVALID_ARGUMENT) { /* invalid elements, such as a divisor of 0 */
        trial->prepared = NULL;
        trial->ns = 0.0;
        context_clear_error(bench->ctx);
        return STATUS_OK;
    }
    TRY(status);
    if (counts && (trial->ns == 0.0 || ns < trial->ns)) trial->ns = ns;
    return STATUS_OK;
}

/* ---- one site ---- */

static double least_cost(const layout_site_t *site)
{
    double least = site->ways[0]->cost_ns;
    for (int w = 1; w < site->n_ways; w++)
        if (site->ways[w]->cost_ns < least) least = site->ways[w]->cost_ns;
    return least;
}

/* Runs every way once. Then drops the ways that are much slower than the fastest. */
static status_t run_round(bench_t *bench, int n_ways, bool counts)
{
    double least = 0.0;
    for (int w = 0; w < n_ways; w++)
        if (bench->trials[w].prepared != NULL) TRY(run_trial(bench, &bench->trials[w], counts));
    for (int w = 0; w < n_ways; w++) {
        const double ns = bench->trials[w].ns;
        if (ns > 0.0 && (least == 0.0 || ns < least)) least = ns;
    }
    for (int w = 0; w < n_ways; w++)
        if (bench->trials[w].ns > WORTH_REPEATING * least) bench->trials[w].prepared = NULL;
    return STATUS_OK;
}

static status_t run_rounds(bench_t *bench, const layout_site_t *site)
{
    const uint64_t begin = context_now();
    const double least = least_cost(site);
    for (int w = 0; w < site->n_ways; w++)
        if (can_measure(site, w) && site->ways[w]->cost_ns <= WORTH_MEASURING * least)
            TRY(begin_trial(bench, site->ways[w], &bench->trials[w]));
    TRY(run_round(bench, site->n_ways, false)); /* warm-up: maps the pages */
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const uint64_t now = context_now();
        if ((round > 0 && now >= bench->deadline) ||
            (round >= LEAST_ROUNDS && (double)(now - begin) > MOST_NS_EACH))
            break;
        TRY(run_round(bench, site->n_ways, true));
    }
    return STATUS_OK;
}

static status_t measure_site(bench_t *bench, const layout_site_t *site, text_t *timings)
{
    memset(bench->trials, 0, sizeof bench->trials);
    status_t status = run_rounds(bench, site);
    for (int w = 0; w < site->n_ways; w++) {
        trial_t *trial = &bench->trials[w];
        end_trial(bench->ctx, trial);
        if (status != STATUS_OK || trial->ns == 0.0) continue;
        print_name(site, w, timings);
        text_append(timings, "%.0f\n", trial->ns);
    }
    return status == STATUS_OK ? text_status(timings) : status;
}

/* ---- all sites ---- */

/* A set of equal sites. */
typedef struct kind {
    uint64_t hash; /* hash of the first way's name */
    int site;      /* index of one of the sites */
    double heat;   /* sum of the sites' estimates */
} kind_t;

static int compare_heat(const void *a, const void *b)
{
    const kind_t *one = a, *other = b;
    if (one->heat != other->heat) return one->heat > other->heat ? -1 : 1;
    return one->site - other->site;
}

static status_t list_kinds(const layout_search_t *search, kind_t *kinds, int *out_n)
{
    *out_n = 0;
    for (int s = 0; s < search->n_sites; s++) {
        const layout_site_t *site = &search->sites[s];
        int k = 0;
        if (site->n_ways < 2) continue;
        text_t name = text_begin(search->ctx);
        print_name(site, 0, &name);
        const uint64_t hash = hash_bytes(text_string(&name), name.length, 0);
        const status_t status = text_status(&name);
        text_clear(&name);
        TRY(status);
        while (k < *out_n && kinds[k].hash != hash) k++;
        if (k == *out_n) kinds[(*out_n)++] = (kind_t){hash, s, 0.0};
        kinds[k].heat += least_cost(site);
    }
    qsort(kinds, (size_t)*out_n, sizeof *kinds, compare_heat);
    return STATUS_OK;
}

static status_t measure_kinds(const layout_search_t *search, layout_tuning_t *tuning,
                              bench_t *bench, kind_t *kinds)
{
    int n = 0;
    TRY(list_kinds(search, kinds, &n));
    fill(DTYPE_F32, POOL_BYTES, bench->pool);
    for (int k = 0; k < n && (k == 0 || context_now() < bench->deadline); k++) {
        TRY(measure_site(bench, &search->sites[kinds[k].site], tuning->timings));
        tuning->n_measured = k + 1;
        TRY(interrupt_tell(search->ctx, "measure operators", k + 1, n));
    }
    return STATUS_OK;
}

status_t layout_measure(const layout_search_t *search, layout_tuning_t *tuning)
{
    context_t *ctx = search->ctx;
    bench_t bench = {.ctx = ctx, .deadline = tuning->deadline};
    kind_t *kinds = NULL;
    TRY(context_get(ctx, (size_t)search->n_sites * sizeof *kinds, "operators to measure", &kinds));
    status_t status = context_get(ctx, POOL_BYTES, "weights for measurements", &bench.pool);
    if (status == STATUS_OK) {
        const threads_guard_t guard = threads_enter(ctx);
        status = measure_kinds(search, tuning, &bench, kinds);
        threads_leave(ctx, guard);
    }
    CONTEXT_PUT(ctx, bench.pool, kinds);
    return status;
}

/* ---- measured costs ---- */

static status_t take_site(context_t *ctx, layout_site_t *site, const char *lines,
                          double *out_measured, double *out_estimated)
{
    double ratio = 0.0;
    bool is_measured[LAYOUT_MAX_WAYS] = {false};
    for (int w = 0; w < site->n_ways; w++) {
        text_t name = text_begin(ctx);
        print_name(site, w, &name);
        const status_t status = text_status(&name);
        const double ns = status == STATUS_OK ? find_timing(lines, &name) : 0.0;
        text_clear(&name);
        TRY(status);
        if (!(ns > 0.0)) continue;
        is_measured[w] = true;
        site->costs[w] = ns;
        if (ns / site->ways[w]->cost_ns > ratio) ratio = ns / site->ways[w]->cost_ns;
        *out_measured += ns;
        *out_estimated += site->ways[w]->cost_ns;
    }
    /* scales estimates of ways that were not measured by the site's largest ratio, so that they do
     * not seem better */
    for (int w = 0; w < site->n_ways && ratio > 0.0; w++)
        if (!is_measured[w]) site->costs[w] *= ratio;
    site->is_measured = ratio > 0.0;
    return STATUS_OK;
}

status_t layout_take_timings(layout_search_t *search, const char *lines)
{
    double measured = 0.0, estimated = 0.0;
    for (int s = 0; s < search->n_sites; s++)
        TRY(take_site(search->ctx, &search->sites[s], lines, &measured, &estimated));
    if (!(estimated > 0.0)) return STATUS_OK;
    search->scale = measured / estimated;
    for (int s = 0; s < search->n_sites; s++)
        for (int w = 0; w < search->sites[s].n_ways && !search->sites[s].is_measured; w++)
            search->sites[s].costs[w] *= search->scale;
    return STATUS_OK;
}

/* ---- ways that are never better ---- */

static bool is_alike(const layout_site_t *site, int a, int b)
{
    const prepared_t *one = site->ways[a], *other = site->ways[b];
    for (int i = 0; i < one->n_in; i++)
        if (one->in[i].dtype != DTYPE_NONE &&
            (layout_is_activation(site, i) || site->weights == WEIGHT_KEPT) &&
            (one->in[i].rank != other->in[i].rank ||
             !format_same(&one->in[i].format, &other->in[i].format, one->in[i].sizes)))
            return false;
    for (int i = 0; i < one->n_out; i++)
        if (one->out[i].layout != other->out[i].layout ||
            !format_same(&one->out[i].format, &other->out[i].format, one->out[i].sizes))
            return false;
    return true;
}

static void drop_way(layout_site_t *site, int way)
{
    prepared_release(site->ways[way]);
    site->n_ways--;
    for (int w = way; w < site->n_ways; w++) {
        site->ways[w] = site->ways[w + 1];
        site->asked[w] = site->asked[w + 1];
        site->costs[w] = site->costs[w + 1];
    }
}

void layout_drop_worse(layout_search_t *search)
{
    for (int s = 0; s < search->n_sites; s++) {
        layout_site_t *site = &search->sites[s];
        for (int a = 0; a < site->n_ways; a++)
            for (int b = a + 1; b < site->n_ways;) {
                if (!is_alike(site, a, b)) {
                    b++;
                } else if (site->costs[a] <= site->costs[b]) {
                    drop_way(site, b);
                } else {
                    drop_way(site, a);
                    b = a + 1;
                }
            }
    }
}
