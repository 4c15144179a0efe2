#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "kernels/linear/stream_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "ops/linear/linear_impl.h"
#include "ops/linear/strassen_impl.h"
#include "ops/recurrent/recurrent_impl.h"
#include "ops/sample_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/grouped_impl.h"
#include "tensor/convert/trim_impl.h"
#include "tensor/scope_impl.h"

/* Allows faster, less accurate algorithms while the sum of their errors stays within a bound.
 *
 * The error of each algorithm is measured with the layer's own weight:
 *
 *   - Winograd with several transform sizes: 3x3 and 5x5 convolutions, and larger ones at the start
 *     of a network
 *   - 3-byte weights: linear layers with few rows
 *   - Strassen's algorithm: linear layers with many rows, 1x1 convolutions, and lstms with many
 *     sequences
 *
 * Round 1 allows transforms of size 2 and 3-byte weights, rounds 2 and 3 transforms of sizes 4 and
 * 6, and round 4 Strassen's algorithm, which saves the least time. In each round, layers with the
 * smallest errors come first. The layout pass, which knows all sizes, decides whether an allowed
 * algorithm is used. If this pass runs again, weights that already have 3 bytes stay so, and their
 * errors are added to the sum.
 *
 * In a bf16 convolution, rounding the inputs adds an error of up to 2^-8, and so does rounding the
 * outputs. If the options have no bound, a transform in a bf16 convolution may add as much as these
 * two together, 2^-7, and its error is not added to the sum.
 *
 * In training, the weight is transformed in each call. Even so, convolutions with results of 13x13
 * and more are faster: in ResNet-50, those of size 56, 28 and 14, but not those of size 7. */

#define LEAST_TRAINED 13                 /* rows and columns of the result */
#define LEAST_CHANNELS 16                /* channels of the source; fewer are padded to this */
#define LEAST_TRIMMED ((int64_t)1 << 18) /* elements; smaller weights stay in caches */
#define MAX_ERROR 1e-4                   /* bound if the options have none */

/* Algorithms to allow for a layer: winograd transforms of size 2, 4 or 6; 3-byte weights;
 * Strassen's algorithm; nothing, if the weight is 3-byte already. */
typedef enum site_kind {
    SITE_WINOGRAD,
    SITE_TRIM,
    SITE_STRASSEN,
    SITE_LSTM, /* Strassen's algorithm in an lstm */
    SITE_TRIMMED
} site_kind_t;

enum { N_LEVELS = 4, N_ROUNDS = N_LEVELS };

static const int n_levels[] = {[SITE_WINOGRAD] = N_LEVELS,
                               [SITE_TRIM] = 2,
                               [SITE_STRASSEN] = 2,
                               [SITE_LSTM] = 2,
                               [SITE_TRIMMED] = 1};
static const int winograd[N_LEVELS] = {CONV_DIRECT, CONV_WINOGRAD_UP_TO_2, CONV_WINOGRAD,
                                       CONV_WINOGRAD_UP_TO_6};
static const int conv_strassen_of[] = {CONV_DIRECT, CONV_STRASSEN};
static const int linear_strassen_of[] = {LINEAR_DIRECT, LINEAR_STRASSEN};
static const int lstm_strassen_of[] = {RECURRENT_DIRECT, RECURRENT_STRASSEN};

typedef struct site {
    const graph_node_t *node;
    site_kind_t kind;
    tensor_t *weight;
    int level;
    double errors[N_LEVELS]; /* relative to level 0; errors[0] is 0 except for SITE_TRIMMED */
} site_t;

typedef struct search {
    context_t *ctx;
    const graph_t *graph;
    const pass_options_t *options;
    int n, capacity;
    site_t *sites;
} search_t;

static bool is_bounded(const pass_options_t *options)
{
    return options->has_rounding_error || options->rounding_error > 0.0;
}

/* ---- candidates ---- */

static bool has_info(const graph_type_t *type)
{
    return type->kind == TYPE_TENSOR && type->has_info;
}

static tensor_t *constant_input(const graph_t *graph, const graph_node_t *node, int input)
{
    const datum_t *constant = graph_constant(graph, node->inputs[input]);
    return constant != NULL && datum_kind(constant) == DATUM_TENSOR ? datum_as_tensor(constant)
                                                                    : NULL;
}

static tensor_t *constant_weight(const graph_t *graph, const graph_node_t *node)
{
    return constant_input(graph, node, 1);
}

/* The info of a trained weight for which a transform in each call is worth it, else NULL. */
static const tensor_info_t *trained_weight(const graph_t *graph, const graph_node_t *node)
{
    const graph_type_t *type = graph_value_type(graph, node->inputs[1]);
    const graph_type_t *result = graph_value_type(graph, node->outputs[0]);
    if (!has_info(type) || !has_info(result) || result->info.rank != 4 ||
        result->info.sizes[2] < LEAST_TRAINED || result->info.sizes[3] < LEAST_TRAINED ||
        type->info.rank != 4 || type->info.sizes[1] < LEAST_CHANNELS)
        return NULL;
    return &type->info;
}

static bool has_windows(const graph_node_t *node, const tensor_info_t *weight)
{
    const conv_attrs_t *attrs = node->attrs;
    bool fits = conv_parities_fits(weight, attrs->stride, attrs->dilation, attrs->groups);
    for (int i = 1; i < N_LEVELS; i++)
        fits = fits ||
               conv_winograd_fits(weight, attrs->stride, attrs->dilation, attrs->groups, 2 * i);
    return (weight->dtype == DTYPE_F32 || weight->dtype == DTYPE_BF16) && fits;
}

/* True if this pass decides about the node, in this run or an earlier one. */
static bool is_open(const graph_node_t *node)
{
    const int *algorithm = rewrite_attr(node, "algorithm", ATTR_NAME);
    if (algorithm == NULL) return false;
    if (rewrite_is_op(node, "linear")) return *algorithm != LINEAR_STRASSEN_ONLY;
    if (rewrite_is_op(node, "lstm")) return *algorithm != RECURRENT_STRASSEN_ONLY;
    if (*algorithm == CONV_STRASSEN) return true;
    for (int i = 0; i < N_LEVELS; i++)
        if (*algorithm == winograd[i]) return true;
    return false;
}

/* Number of rows that are multiplied by the weight: those of one image in a convolution, all in a
 * linear layer; INT64_MAX if unknown. */
static int64_t count_rows(const graph_t *graph, const graph_node_t *node)
{
    const graph_type_t *result = graph_value_type(graph, node->outputs[0]);
    if (!has_info(result) || !type_is_static(result)) return INT64_MAX;
    const tensor_info_t *info = &result->info;
    const bool is_linear = rewrite_is_op(node, "linear");
    int64_t n_rows = 1;
    for (int i = is_linear ? 0 : 2; i < info->rank - (is_linear ? 1 : 0); i++)
        n_rows *= info->sizes[i];
    return n_rows;
}

/* True for linear layers and 1x1 convolutions that suit Strassen's algorithm. */
static bool is_product(const graph_t *graph, const graph_node_t *node, const tensor_info_t *weight)
{
    const bool is_conv = rewrite_is_op(node, "conv2d");
    if (weight->dtype != DTYPE_F32 || weight->rank != (is_conv ? 4 : 2)) return false;
    if (is_conv && (weight->sizes[2] != 1 || weight->sizes[3] != 1 ||
                    ((const conv_attrs_t *)node->attrs)->groups > 1))
        return false;
    return !trim_is(weight) &&
           strassen_suits(weight->sizes[1], weight->sizes[0], count_rows(graph, node));
}

/* True for a linear layer with few rows if nothing else reads its weight, and the weight is
 * large. */
static bool is_streamed(const graph_t *graph, const graph_node_t *node, const tensor_info_t *weight)
{
    const graph_type_t *result = graph_value_type(graph, node->outputs[0]);
    return weight->dtype == DTYPE_F32 && weight->rank == 2 && info_numel(weight) >= LEAST_TRIMMED &&
           graph_n_uses(graph, node->inputs[1]) == 1 && has_info(result) &&
           type_is_static(result) &&
           info_numel(&result->info) <= STREAM_BLOCKED_ROWS * weight->sizes[0];
}

/* An unknown number of steps or sequences is INT64_MAX. */
static recurrent_sizes_t find_sizes(const graph_t *graph, const graph_node_t *node,
                                    const tensor_info_t *weight)
{
    const graph_type_t *result = graph_value_type(graph, node->outputs[0]);
    const bool is_known = has_info(result) && type_is_static(result);
    const int64_t *sizes = result->info.sizes;
    const bool batch_first = ((const recurrent_attrs_t *)node->attrs)->batch_first;
    return (recurrent_sizes_t){.t = is_known ? sizes[batch_first ? 1 : 0] : INT64_MAX,
                               .n = is_known ? sizes[batch_first ? 0 : 1] : INT64_MAX,
                               .c = weight->sizes[1],
                               .h = weight->sizes[0] / 4,
                               .g = 4};
}

static bool has_elements(const tensor_t *tensor, int64_t n)
{
    return tensor_info(tensor)->dtype == DTYPE_F32 && tensor_numel(tensor) == n;
}

/* True for an lstm with constant weights that suits Strassen's algorithm. */
static bool is_recurrent(const graph_t *graph, const graph_node_t *node,
                         const tensor_info_t *weight)
{
    const tensor_t *other = constant_input(graph, node, RECURRENT_WEIGHT_HH);
    if (other == NULL || weight->dtype != DTYPE_F32 || weight->rank != 2) return false;
    const recurrent_sizes_t sizes = find_sizes(graph, node, weight);
    return has_elements(other, 4 * sizes.h * sizes.h) &&
           recurrent_strassen_suits(node->attrs, &sizes);
}

/* ---- measuring errors ---- */

/* Measures the error of each transform size for a convolution. In bf16, errors up to `free` count
 * as 0. */
static status_t measure_conv(context_t *ctx, const tensor_info_t *info, const float *weight,
                             double free, site_t *site)
{
    const conv_attrs_t *attrs = site->node->attrs;
    const int64_t stride = attrs->stride[0];
    const bool is_split = conv_parities_fits(info, attrs->stride, attrs->dilation, attrs->groups);
    for (int i = 1; i < N_LEVELS; i++) {
        site->errors[i] = site->errors[i - 1]; /* if there is no transform of this size */
        if (is_split && conv_parities_tile(info, 2 * i) > 0)
            TRY(conv_parities_error(ctx, info, weight, 2 * i, &site->errors[i]));
        if (conv_winograd_tile(info->sizes[2], stride, 2 * i) > 0)
            TRY(conv_winograd_error(ctx, info, weight, stride, 2 * i, &site->errors[i]));
        const double least = site->errors[i - 1]; /* level i allows smaller sizes, too */
        if (info->dtype == DTYPE_BF16 && (site->errors[i] <= free || site->errors[i] < least))
            site->errors[i] = least;
    }
    return STATUS_OK;
}

/* Replaces the lost low bytes of a 3-byte weight by random bytes that round to the same numbers. */
static status_t draw_lost_bytes(context_t *ctx, tensor_t *weight)
{
    void *bytes = NULL;
    uint64_t state = 1;
    TRY(tensor_writable(ctx, weight, &bytes));
    uint32_t *words = bytes;
    for (int64_t i = 0; i < tensor_numel(weight); i++) {
        const int lost = (int)(127.0f * sample_draw(&state));
        if ((words[i] & 0x7fffffffu) != 0) words[i] += (uint32_t)lost;
    }
    return STATUS_OK;
}

/* Converts a weight to row-major f32. */
static status_t widen(context_t *ctx, const tensor_t *weight, tensor_t **out_plain)
{
    const tensor_info_t *info = tensor_info(weight);
    const tensor_info_t plain = info_dense(info->dtype, info->rank, info->sizes);
    tensor_t *converted = NULL;
    TRY(convert_to(ctx, weight, &plain, CAUSE_USER, &converted));
    if (info->dtype == DTYPE_F32) {
        *out_plain = converted;
        return STATUS_OK;
    }
    const status_t status = tensor_cast(ctx, converted, DTYPE_F32, out_plain);
    tensor_drop(converted);
    if (status == STATUS_OK) scope_take(ctx, *out_plain);
    return status;
}

/* Measures the error of Strassen's algorithm in an lstm, without biases that are not constants. */
static status_t measure_lstm(context_t *ctx, const graph_t *graph, site_t *site)
{
    enum { N = 5 };
    static const int inputs[N] = {RECURRENT_WEIGHT_IH, RECURRENT_WEIGHT_HH, RECURRENT_BIAS_IH,
                                  RECURRENT_BIAS_HH, RECURRENT_PEEPHOLE};
    const recurrent_sizes_t sizes = find_sizes(graph, site->node, tensor_info(site->weight));
    tensor_t *plain[N] = {NULL};
    const float *elements[N] = {NULL};
    status_t status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < N; i++) {
        const tensor_t *given = constant_input(graph, site->node, inputs[i]);
        const bool is_bias = inputs[i] >= RECURRENT_BIAS_IH;
        const int64_t n = (inputs[i] == RECURRENT_PEEPHOLE ? 3 : 4) * sizes.h;
        if (given == NULL || (is_bias && !has_elements(given, n))) continue;
        const tensor_info_t *info = tensor_info(given);
        const tensor_info_t want = info_dense(info->dtype, info->rank, info->sizes);
        status = convert_to(ctx, given, &want, CAUSE_USER, &plain[i]);
        if (status == STATUS_OK) elements[i] = tensor_bytes(plain[i]);
    }
    const recurrent_plain_t weights = {elements[0], elements[1], elements[2], elements[3],
                                       elements[4]};
    if (status == STATUS_OK)
        status = recurrent_strassen_error(ctx, &sizes, &weights, &site->errors[1]);
    for (int i = 0; i < N; i++) tensor_drop(plain[i]);
    return status;
}

/* Measures the error of each level. If the weight already has 3 bytes, estimates the error of that
 * rounding. */
static status_t measure(context_t *ctx, const graph_t *graph, double free, site_t *site)
{
    if (site->kind == SITE_LSTM) return measure_lstm(ctx, graph, site);
    const tensor_info_t *info = tensor_info(site->weight);
    tensor_t *converted = NULL;
    TRY(widen(ctx, site->weight, &converted));
    const float *elements = tensor_bytes(converted);
    status_t status = STATUS_OK;
    switch (site->kind) {
    case SITE_TRIMMED:
        status = draw_lost_bytes(ctx, converted);
        elements = tensor_bytes(converted);
        if (status == STATUS_OK) status = linear_trim_error(ctx, info, elements, &site->errors[0]);
        break;
    case SITE_WINOGRAD: status = measure_conv(ctx, info, elements, free, site); break;
    case SITE_TRIM: status = linear_trim_error(ctx, info, elements, &site->errors[1]); break;
    case SITE_STRASSEN:
        status = strassen_error(ctx, info->sizes[0], info->sizes[1], elements, &site->errors[1]);
        break;
    case SITE_LSTM: break;
    }
    tensor_drop(converted);
    return status;
}

/* Finds what can be allowed for a node with this weight. False if nothing can. */
static bool find_kind(const graph_t *graph, const graph_node_t *node, const tensor_info_t *weight,
                      site_kind_t *out_kind)
{
    const bool is_conv = rewrite_is_op(node, "conv2d");
    if (rewrite_is_op(node, "lstm")) {
        *out_kind = SITE_LSTM;
        return is_recurrent(graph, node, weight);
    }
    if (is_conv && has_windows(node, weight))
        *out_kind = SITE_WINOGRAD;
    else if (!is_conv && trim_is(weight))
        *out_kind = SITE_TRIMMED;
    else if (!is_conv && is_streamed(graph, node, weight))
        *out_kind = SITE_TRIM;
    else if (is_product(graph, node, weight))
        *out_kind = SITE_STRASSEN;
    else
        return false;
    return true;
}

static status_t add_site(void *user, const graph_node_t *node)
{
    search_t *search = user;
    site_t site = {.node = node};
    if ((!rewrite_is_op(node, "conv2d") && !rewrite_is_op(node, "linear") &&
         !rewrite_is_op(node, "lstm")) ||
        !is_open(node))
        return STATUS_OK;
    site.weight = constant_weight(search->graph, node);
    if (site.weight == NULL || grouped_is(tensor_info(site.weight)) ||
        !find_kind(search->graph, node, tensor_info(site.weight), &site.kind))
        return STATUS_OK;
    TRY(context_grow(search->ctx, &search->sites, &search->capacity, search->n + 1,
                     sizeof *search->sites));
    const double free = is_bounded(search->options) ? 0.0 : CONV_WINOGRAD_BF16_ERROR;
    TRY(measure(search->ctx, search->graph, free, &site));
    search->sites[search->n++] = site;
    return STATUS_OK;
}

static bool is_by_strassen(const site_t *site)
{
    return site->kind == SITE_STRASSEN || site->kind == SITE_LSTM;
}

/* True if this round (counted from 1) decides about the site's next level. */
static bool has_turn(const site_t *site, int round)
{
    if (is_by_strassen(site)) return round == N_ROUNDS;
    return round < n_levels[site->kind];
}

/* The site of this round with the smallest error; NULL if none is left. */
static site_t *find_next(const search_t *search, int round)
{
    site_t *next = NULL;
    double least = INFINITY;
    for (int i = 0; i < search->n; i++) {
        site_t *site = &search->sites[i];
        const int level = is_by_strassen(site) ? 1 : round;
        if (!has_turn(site, round) || site->level != level - 1) continue;
        if (!(site->errors[level] < least)) continue;
        least = site->errors[level];
        next = site;
    }
    return next;
}

static void allow(search_t *search)
{
    const double bound = is_bounded(search->options) ? search->options->rounding_error : MAX_ERROR;
    double sum = 0.0;
    for (int i = 0; i < search->n; i++) sum += search->sites[i].errors[0];
    for (int round = 1; round <= N_ROUNDS; round++) {
        site_t *site = find_next(search, round);
        for (; site != NULL; site = find_next(search, round)) {
            const double more = site->errors[site->level + 1] - site->errors[site->level];
            if (!(sum + more <= bound)) break;
            sum += more;
            site->level++;
        }
    }
}

static void note_rest(const search_t *search)
{
    static const char *const losing[] = {[SITE_TRIM] = "a 3-byte weight adds",
                                         [SITE_STRASSEN] = "Strassen's algorithm adds",
                                         [SITE_LSTM] = "Strassen's algorithm adds"};
    char text[128], transforms[40];
    for (int i = 0; i < search->n; i++) {
        const site_t *site = &search->sites[i];
        if (site->level + 1 == n_levels[site->kind]) continue;
        snprintf(transforms, sizeof transforms, "transforms of size %d add", 2 * (site->level + 1));
        snprintf(text, sizeof text, "%s an error of %.1e, which exceeds the bound",
                 site->kind == SITE_WINOGRAD ? transforms : losing[site->kind],
                 site->errors[site->level + 1]);
        pass_note(search->ctx, "bound_errors", site->node, text);
    }
}

/* ---- rewriting ---- */

static const site_t *find_site(const search_t *search, const graph_node_t *node)
{
    for (int i = 0; i < search->n; i++)
        if (search->sites[i].node == node) return &search->sites[i];
    return NULL;
}

/* The algorithm to allow for the node, a value of its attribute; -1: no change. */
static int algorithm_for(const search_t *search, const graph_node_t *node)
{
    const bool is_conv = rewrite_is_op(node, "conv2d");
    const site_t *site = find_site(search, node);
    if (site != NULL && site->kind == SITE_WINOGRAD) return winograd[site->level];
    if (site != NULL && site->kind == SITE_LSTM) return lstm_strassen_of[site->level];
    if (site != NULL && site->kind == SITE_STRASSEN)
        return is_conv ? conv_strassen_of[site->level] : linear_strassen_of[site->level];
    if (!is_conv || !is_open(node) || !search->options->trains) return -1;
    const tensor_info_t *weight = trained_weight(search->graph, node);
    return weight != NULL && weight->dtype == DTYPE_F32 && has_windows(node, weight) &&
                   ((const conv_attrs_t *)node->attrs)->stride[0] == 1
               ? CONV_WINOGRAD_TRAINING
               : -1;
}

/* The site of the linear layer that reads this constant as its weight, if the weight becomes
 * 3-byte; else NULL. */
static const site_t *trimmed_site(const search_t *search, const graph_node_t *node)
{
    for (int i = 0; i < search->n && node->kind == NODE_CONSTANT; i++) {
        const site_t *site = &search->sites[i];
        if (site->kind == SITE_TRIM && site->level > 0 && site->node->inputs[1] == node->outputs[0])
            return site;
    }
    return NULL;
}

static status_t trim(rewrite_t *rewrite, const graph_node_t *node, tensor_t *weight)
{
    context_t *ctx = rewrite->ctx;
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true};
    tensor_t *trimmed = NULL;
    datum_t *datum = NULL;
    const bool is_possible = trim_plain(tensor_info(weight), &type.info);
    INVARIANT(is_possible);
    TRY(convert_make(ctx, weight, &type.info, CAUSE_WEIGHT, &trimmed));
    storage_set_packable(trimmed->storage, true);
    status_t status = datum_tensor(ctx, trimmed, &datum);
    if (status == STATUS_OK) {
        const value_t value = graph_add_constant(rewrite->to, datum,
                                                 rewrite_name(rewrite->from, node->outputs[0]));
        if (value >= 0) graph_set_type(rewrite->to, value, &type);
        rewrite_map(rewrite, node->outputs[0], value);
    }
    datum_release(datum);
    tensor_drop(trimmed);
    return status;
}

static status_t allow_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const site_t *site = trimmed_site(rewrite->user, node);
    if (site != NULL) {
        *out_done = true;
        return trim(rewrite, node, site->weight);
    }
    const int algorithm = algorithm_for(rewrite->user, node);
    if (algorithm < 0 || *(const int *)rewrite_attr(node, "algorithm", ATTR_NAME) == algorithm)
        return STATUS_OK;
    *out_done = true;
    union {
        conv_attrs_t conv;
        linear_attrs_t linear;
        recurrent_attrs_t recurrent;
    } attrs;
    memcpy(&attrs, node->attrs, node->op->attrs.bytes);
    *(int *)rewrite_attr_in(node, &attrs, "algorithm", ATTR_NAME) = algorithm;
    graph_node_t copy = *node;
    copy.attrs = &attrs;
    value_t inputs[OP_MAX_INPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    return rewrite_emit(rewrite, &copy, inputs, node->outputs);
}

status_t pass_bound_errors(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                           graph_t **out_graph)
{
    search_t search = {.ctx = ctx, .graph = graph, .options = options};
    status_t status = STATUS_OK;
    if (!options->trains) status = rewrite_visit(graph_body(graph), add_site, &search);
    if (status == STATUS_OK) {
        allow(&search);
        note_rest(&search);
        status = rewrite_graph(ctx, graph, allow_node, &search, out_graph);
    }
    context_put(ctx, search.sites);
    return status;
}
