/* Computes the ranges of values on the examples. Each value has a histogram. */
#include <math.h>
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/passes/precision/quantize_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* Half of the bins are for negative numbers, half for positive ones. */
#define HALF 4096
/* Number of bins of magnitudes for CALIBRATION_ENTROPY. */
#define MAGNITUDES 2048

/* The bins cover -reach to reach. At first, reach is the largest magnitude of an example; larger
 * numbers double it. */
typedef struct histogram {
    double reach, least, most;
    int64_t n;                /* elements */
    int64_t counts[2 * HALF]; /* zeros are not counted: every scale represents them exactly */
} histogram_t;

typedef struct calibrating {
    context_t *ctx;
    const graph_t *graph;
    const freeze_options_t *options;
    const quantize_sites_t *sites;
    histogram_t **histograms; /* [graph_n_values]; NULL: not needed, or no value yet */
} calibrating_t;

/* ---- collection ---- */

/* Makes bins twice as wide. Bins -2 and -1 become bin -1, bins 0 and 1 become bin 0, if bin 0 is
 * the first one for positive numbers. */
static void widen(histogram_t *h)
{
    int64_t counts[2 * HALF] = {0};
    for (int i = 0; i < 2 * HALF; i++) counts[HALF / 2 + i / 2] += h->counts[i];
    memcpy(h->counts, counts, sizeof counts);
    h->reach *= 2.0;
}

static void count(histogram_t *h, int64_t n, const float *x)
{
    const double width = h->reach / HALF;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] == 0.0f) continue;
        int bin = HALF + (int)floor((double)x[i] / width);
        bin = bin < 0 ? 0 : bin;
        h->counts[bin < 2 * HALF ? bin : 2 * HALF - 1]++;
    }
}

/* Counts the numbers. False if one of them is not finite. */
static bool collect(histogram_t *h, int64_t n, const float *x)
{
    double least = 0.0, most = 0.0;
    bool is_finite = true;
    for (int64_t i = 0; i < n; i++) {
        is_finite &= isfinite(x[i]) != 0;
        least = (double)x[i] < least ? (double)x[i] : least;
        most = (double)x[i] > most ? (double)x[i] : most;
    }
    if (!is_finite) return false;
    const double magnitude = fmax(-least, most);
    h->n += n;
    h->least = fmin(h->least, least);
    h->most = fmax(h->most, most);
    if (magnitude == 0.0) return true;
    if (h->reach == 0.0) h->reach = magnitude;
    while (h->reach < magnitude) widen(h);
    count(h, n, x);
    return true;
}

static status_t see(void *user, int example, value_t value, const datum_t *datum)
{
    const calibrating_t *c = user;
    if (!c->sites->items[value].is_wanted || datum_kind(datum) != DATUM_TENSOR) return STATUS_OK;
    if (c->histograms[value] == NULL)
        TRY(context_get_zeroed(c->ctx, sizeof **c->histograms, "a histogram",
                               &c->histograms[value]));
    const tensor_t *tensor = datum_as_tensor(datum);
    float *elements = NULL;
    const size_t bytes = (size_t)tensor_numel(tensor) * sizeof *elements;
    TRY(context_get(c->ctx, bytes, "elements of a value", &elements));
    status_t status = tensor_read(c->ctx, tensor, elements, bytes);
    if (status == STATUS_OK && !collect(c->histograms[value], tensor_numel(tensor), elements))
        status = context_fail(
            c->ctx, STATUS_INVALID_ARGUMENT,
            "freeze: %%%s of examples[%d] contains NaN or infinity, ranges need finite numbers",
            graph_value_name(c->graph, value), example);
    context_put(c->ctx, elements);
    return status;
}

/* ---- bounds ---- */

/* Chooses bounds so that at most (100 - percentile) % of the numbers are above the range, and at
 * most as many below it. */
static void cut_percentile(const histogram_t *h, double percentile, pass_range_t *range)
{
    const double outside = (1.0 - percentile / 100.0) * (double)h->n, width = h->reach / HALF;
    int64_t above = 0, below = 0;
    int last = 2 * HALF - 1, first = 0;
    while (last > HALF && (double)(above += h->counts[last]) <= outside) last--;
    while (first < HALF && (double)(below += h->counts[first]) <= outside) first++;
    range->high = fmin(h->most, width * (last + 1 - HALF));
    range->low = fmax(h->least, width * (first - HALF));
}

/* The Kullback-Leibler divergence between the magnitudes and their approximation by `levels` levels
 * of equal width. The levels cover the first `n` bins; the `above` larger magnitudes get the
 * largest level. */
static double divergence(const double *bins, double above, int n, int levels)
{
    double total = above, loss = 0.0;
    for (int i = 0; i < n; i++) total += bins[i];
    for (int level = 0; level < levels; level++) {
        const int begin = (int)((int64_t)level * n / levels);
        const int end = (int)((int64_t)(level + 1) * n / levels);
        double sum = 0.0;
        int n_filled = 0;
        for (int i = begin; i < end; i++) {
            sum += bins[i];
            n_filled += bins[i] > 0.0;
        }
        for (int i = begin; i < end; i++) {
            const double p = bins[i] + (i == n - 1 ? above : 0.0);
            const double q = bins[i] > 0.0 ? sum / n_filled : 1e-6 * (total - above);
            if (p > 0.0) loss += p / total * log(p / q);
        }
    }
    return loss + log((total - above) / total);
}

/* Cuts off at most 1 % of the numbers. Without this limit, a range in which all numbers are in one
 * bin would seem to lose nothing. */
static void cut_entropy(const histogram_t *h, pass_range_t *range)
{
    double bins[MAGNITUDES] = {0.0}, all = 0.0, above = 0.0, least = INFINITY;
    const int levels = h->least < 0.0 ? 128 : 256, each = HALF / MAGNITUDES;
    int best = MAGNITUDES;
    for (int i = 0; i < HALF; i++)
        bins[i / each] += (double)(h->counts[HALF + i] + h->counts[HALF - 1 - i]);
    for (int i = 0; i < MAGNITUDES; i++) all += bins[i];
    for (int n = MAGNITUDES; n >= levels && above <= 0.01 * all; n--) {
        const double loss = divergence(bins, above, n, levels);
        if (loss < least) {
            least = loss;
            best = n;
        }
        above += bins[n - 1];
    }
    const double bound = h->reach * best / MAGNITUDES;
    range->high = fmin(h->most, bound);
    range->low = fmax(h->least, -bound);
}

static pass_range_t cut(const calibrating_t *c, value_t value)
{
    const histogram_t *h = c->histograms[value];
    const double percentile = c->options->percentile > 0.0 ? c->options->percentile : 99.99;
    pass_range_t range = {graph_value_name(c->graph, value), h->least, h->most};
    if (h->reach == 0.0 || c->options->calibration == CALIBRATION_MINMAX) return range;
    if (c->options->calibration == CALIBRATION_ENTROPY)
        cut_entropy(h, &range);
    else
        cut_percentile(h, percentile, &range);
    return range;
}

/* ---- the graph ---- */

static status_t calibrate(calibrating_t *c, int *out_n, pass_range_t **out_ranges)
{
    const freeze_walk_t walk = {.user = c, .value = see};
    const int n_values = graph_n_values(c->graph);
    pass_range_t *ranges = NULL;
    int n = 0;
    TRY(freeze_walk(c->ctx, c->graph, c->options, &walk));
    TRY(context_get(c->ctx, (size_t)n_values * sizeof *ranges, "ranges", &ranges));
    for (value_t v = 0; v < n_values; v++)
        if (c->histograms[v] != NULL) ranges[n++] = cut(c, v);
    *out_n = n;
    *out_ranges = ranges;
    return STATUS_OK;
}

status_t freeze_calibrate(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                          int *out_n, pass_range_t **out_ranges)
{
    const pass_options_t wanted = {.dtype = DTYPE_S8, .keep_f32 = options->keep_f32};
    const int n_values = graph_n_values(graph);
    quantize_sites_t sites = {0};
    TRY(quantize_find(ctx, graph, &wanted, &sites));
    calibrating_t c = {.ctx = ctx, .graph = graph, .options = options, .sites = &sites};
    status_t status = context_get_zeroed(ctx, (size_t)n_values * sizeof *c.histograms, "histograms",
                                         (void *)&c.histograms);
    if (status == STATUS_OK) status = calibrate(&c, out_n, out_ranges);
    for (value_t v = 0; c.histograms != NULL && v < n_values; v++)
        context_put(ctx, c.histograms[v]);
    context_put(ctx, (void *)c.histograms);
    quantize_clear(ctx, &sites);
    return status;
}
