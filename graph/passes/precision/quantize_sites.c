#include <math.h>
#include <string.h>

#include "graph/passes/precision/precision_impl.h"
#include "graph/passes/precision/quantize_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* First finds the f32 products with a constant weight that fold_quantize can compute on integers.
 * Then visits the nodes from last to first and marks the values that products read as integers. If
 * a result is read as integers:
 *
 *   moves (max_pool, views, concat)    so is the moved value, with the same scale
 *   add(product, r), perhaps a relu    so is r, whose f32 form is then not needed
 *   a mean of such a sum               so is the sum, and then a sum before it
 *
 * Values with the same scale form a set (union-find): `same` links a value to another one of its
 * set, and the value at the end of the links stores the scale. */

typedef struct finding {
    const graph_t *graph;
    const alias_t *alias;
    const pass_options_t *options;
    quantize_sites_t *sites;
} finding_t;

/* ---- facts about values ---- */

static const tensor_info_t *number_info(const graph_t *graph, value_t value)
{
    const graph_type_t *type = value < 0 ? NULL : graph_value_type(graph, value);
    const bool is_known = type != NULL && type->kind == TYPE_TENSOR && type->has_info;
    return is_known && type->info.dtype == DTYPE_F32 ? &type->info : NULL;
}

static bool may_be_integers(const finding_t *finding, value_t value)
{
    return number_info(finding->graph, value) != NULL && finding->sites->has_range[value] &&
           !alias_is_mutated(finding->alias, value) &&
           graph_constant(finding->graph, value) == NULL;
}

value_t quantize_group(const quantize_sites_t *sites, value_t value)
{
    while (sites->items[value].same != VALUE_NONE) value = sites->items[value].same;
    return value;
}

static void want(finding_t *finding, value_t value)
{
    finding->sites->items[value].is_wanted = true;
    finding->sites->items[value].n_reads++;
}

static void join(quantize_sites_t *sites, value_t a, value_t b)
{
    a = quantize_group(sites, a);
    b = quantize_group(sites, b);
    if (a == b) return;
    sites->items[b].same = a;
    sites->items[a].low = fmin(sites->items[a].low, sites->items[b].low);
    sites->items[a].high = fmax(sites->items[a].high, sites->items[b].high);
}

/* ---- products ---- */

int quantize_weight_dim(const graph_node_t *product)
{
    return rewrite_is_op(product, "matmul") ? 1 : 0;
}

static bool is_finite(const tensor_t *weight)
{
    const float *elements = tensor_bytes(weight);
    bool is_finite = true;
    for (int64_t i = 0; i < tensor_numel(weight); i++) is_finite &= isfinite(elements[i]) != 0;
    return is_finite;
}

/* Checks the weight: sums of products up to 255 * 128 must fit s32. */
static const char *check_weight(const finding_t *finding, const graph_node_t *node)
{
    const datum_t *datum = graph_constant(finding->graph, node->inputs[1]);
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR) return "its weight is not a constant";
    const tensor_t *weight = datum_as_tensor(datum);
    const int64_t *sizes = tensor_info(weight)->sizes;
    const int dim = quantize_weight_dim(node);
    if (tensor_layout(weight) != LAYOUT_DENSE || !info_is_contiguous(tensor_info(weight)))
        return "its weight is not row-major";
    if (rewrite_conv(node) == 0 && tensor_rank(weight) != 2) return "its weight is not a matrix";
    if (tensor_numel(weight) == 0) return "its weight is empty";
    if (tensor_numel(weight) / sizes[dim] > INT32_MAX / (255 * 128))
        return "its sums may be too large for s32";
    return is_finite(weight) ? NULL : "its weight is not finite";
}

/* The reason why a product stays f32; NULL if it is quantized. */
static const char *check_product(const finding_t *finding, const graph_node_t *node)
{
    const post_ops_t *post = rewrite_post(node);
    const bool *flattens = rewrite_attr(node, "flatten", ATTR_BOOL);
    if (precision_is_kept(node, finding->options->keep_f32)) return "it is kept in f32";
    if (rewrite_conv_transpose(node) > 0) return "transposed convolutions have no integer version";
    if ((post != NULL && post->n > 0) || node->n_sized > 0 || (flattens != NULL && *flattens))
        return "it was fused already";
    if (graph_constant(finding->graph, node->inputs[0]) != NULL) return "its input is a constant";
    if (!may_be_integers(finding, node->inputs[0])) return "its input has no range";
    if (node->n_inputs > 2 && node->inputs[2] != VALUE_NONE) {
        const tensor_info_t *bias = number_info(finding->graph, node->inputs[2]);
        if (bias == NULL || bias->rank != 1) return "its bias is not a one-dimensional f32 tensor";
    }
    return check_weight(finding, node);
}

static void find_product(context_t *ctx, finding_t *finding, const graph_node_t *node)
{
    if (!precision_may_lower(finding->graph, finding->alias, node)) return;
    const char *reason = check_product(finding, node);
    if (reason == NULL)
        finding->sites->is_product[node->outputs[0]] = true;
    else
        pass_note(ctx, "quantize", node, reason);
}

/* ---- operators between products ---- */

static bool is_one_op(const graph_node_t *node)
{
    return node->kind == NODE_OP && !node->is_in_place && node->n_outputs == 1;
}

/* Number of operands, counted from the first, whose elements a node moves: all for concat, else 1;
 * 0: it is no move. */
static int count_moved(const graph_node_t *node)
{
    const bool is_pool = rewrite_is_op(node, "max_pool1d") || rewrite_is_op(node, "max_pool2d") ||
                         rewrite_is_op(node, "max_pool3d");
    if (rewrite_is_op(node, "concat")) return node->n_inputs;
    return is_pool || (node->op->traits & TRAIT_VIEW) != 0 ? 1 : 0;
}

static bool find_move(finding_t *finding, const graph_node_t *node)
{
    const int n = count_moved(node);
    for (int i = 0; i < n; i++)
        if (!may_be_integers(finding, node->inputs[i])) return false;
    for (int i = 0; i < n; i++) {
        want(finding, node->inputs[i]);
        join(finding->sites, node->outputs[0], node->inputs[i]);
    }
    return n > 0;
}

/* True if all readers use the value, or the relu that alone reads it, as integers. */
static bool becomes_integers(const finding_t *finding, value_t value)
{
    const quantize_site_t *items = finding->sites->items;
    if (items[value].is_wanted) return items[value].n_reads == graph_n_uses(finding->graph, value);
    if (graph_n_uses(finding->graph, value) != 1) return false;
    const graph_block_t *body = graph_body(finding->graph);
    for (int i = 0; i < body->n_nodes; i++)
        if (rewrite_is_op(body->nodes[i], "relu") && body->nodes[i]->inputs[0] == value) {
            const value_t out = body->nodes[i]->outputs[0];
            return items[out].is_wanted && items[out].n_reads == graph_n_uses(finding->graph, out);
        }
    return false;
}

static bool find_sum(finding_t *finding, const graph_node_t *node)
{
    const graph_t *graph = finding->graph;
    if (!rewrite_is_op(node, "add") || node->n_inputs != 2 ||
        !becomes_integers(finding, node->outputs[0]))
        return false;
    for (int i = 1; i >= 0; i--) {
        const value_t sums = node->inputs[i], other = node->inputs[1 - i];
        const tensor_info_t *a = number_info(graph, sums), *b = number_info(graph, other);
        if (a == NULL || b == NULL || !finding->sites->is_product[sums] ||
            graph_n_uses(graph, sums) != 1 || !may_be_integers(finding, other) ||
            !shape_equal(a->rank, a->sizes, b->rank, b->sizes))
            continue;
        want(finding, other);
        return true;
    }
    return false;
}

/* True for a sum, with or without a relu, that becomes part of the product before it. */
static bool is_residual(const finding_t *finding, value_t value)
{
    const graph_t *graph = finding->graph;
    const graph_node_t *node = graph_producer(graph, value);
    if (rewrite_is_op(node, "relu") && graph_n_uses(graph, node->inputs[0]) == 1)
        node = graph_producer(graph, node->inputs[0]);
    if (!rewrite_is_op(node, "add") || node->n_inputs != 2) return false;
    for (int i = 0; i < 2; i++)
        if (node->inputs[i] >= 0 && finding->sites->is_product[node->inputs[i]]) return true;
    return false;
}

static bool is_mean(const graph_node_t *node)
{
    return rewrite_is_op(node, "adaptive_avg_pool") || rewrite_is_op(node, "mean");
}

static bool find_mean(finding_t *finding, const graph_node_t *node)
{
    if (!is_mean(node) || !may_be_integers(finding, node->inputs[0]) ||
        !is_residual(finding, node->inputs[0]))
        return false;
    want(finding, node->inputs[0]);
    return true;
}

static void find_reads(finding_t *finding, const graph_node_t *node)
{
    if (!is_one_op(node)) return;
    const value_t out = node->outputs[0];
    if (finding->sites->is_product[out])
        want(finding, node->inputs[0]);
    else if (number_info(finding->graph, out) != NULL && finding->sites->has_range[out] &&
             finding->sites->items[out].is_wanted && find_move(finding, node))
        finding->sites->is_on_integers[out] = true;
    else
        finding->sites->is_on_integers[out] = find_sum(finding, node) || find_mean(finding, node);
}

bool quantize_reads(const quantize_sites_t *sites, const graph_node_t *node, int input)
{
    if (node->kind != NODE_OP || node->n_outputs != 1 || node->inputs[input] < 0) return false;
    const value_t out = node->outputs[0];
    if (sites->is_product[out]) return input == 0;
    if (!sites->is_on_integers[out] || !sites->items[node->inputs[input]].is_wanted) return false;
    return rewrite_is_op(node, "add") || is_mean(node) || input < count_moved(node);
}

/* ---- scales ---- */

/* Chooses the scale for u8. If the range is nearly symmetric, the zero is 128 and the larger side
 * ends 127 from it. Else the range is 0 to 255. A value that is always zero gets scale 1. */
static void choose_scale(quantize_site_t *site)
{
    const double low = fmin(site->low, 0.0), high = fmax(site->high, 0.0);
    const double most = fmax(-low, high);
    const bool is_centred = low < 0.0 && 2.0 * most <= 1.1 * (high - low);
    site->dtype = DTYPE_U8;
    site->scale = (float)(is_centred ? most / 127.0 : (high - low) / 255.0);
    if (!(site->scale >= 0x1p-120f)) site->scale = 1.0f;
    site->zero = is_centred ? 128 : (int32_t)fmin(255.0, nearbyint(-low / (double)site->scale));
}

/* ---- search ---- */

static void read_ranges(finding_t *finding)
{
    const pass_options_t *options = finding->options;
    for (value_t v = 0; v < graph_n_values(finding->graph); v++) {
        const char *name = graph_value_name(finding->graph, v);
        finding->sites->items[v].same = VALUE_NONE;
        finding->sites->has_range[v] = options->n_ranges == 0;
        for (int i = 0; i < options->n_ranges && name != NULL; i++) {
            if (strcmp(options->ranges[i].value, name) != 0) continue;
            finding->sites->has_range[v] = true;
            finding->sites->items[v].low = options->ranges[i].low;
            finding->sites->items[v].high = options->ranges[i].high;
        }
    }
}

status_t quantize_find(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       quantize_sites_t *out_sites)
{
    quantize_sites_t sites = {0};
    finding_t finding = {.graph = graph, .options = options, .sites = &sites};
    const graph_block_t *body = graph_body(graph);
    const size_t n = (size_t)graph_n_values(graph);
    status_t status = alias_of(ctx, graph, &finding.alias);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, n * sizeof *sites.items, "values on integers",
                                    &sites.items);
    bool **const flags[] = {&sites.has_range, &sites.is_product, &sites.is_on_integers};
    for (size_t i = 0; i < sizeof flags / sizeof *flags && status == STATUS_OK; i++)
        status = context_get_zeroed(ctx, n * sizeof **flags[i], "values on integers", flags[i]);
    TRY_OR(status, quantize_clear(ctx, &sites));
    read_ranges(&finding);
    for (int i = 0; i < body->n_nodes; i++) find_product(ctx, &finding, body->nodes[i]);
    for (int i = body->n_nodes - 1; i >= 0; i--) find_reads(&finding, body->nodes[i]);
    for (value_t v = 0; v < graph_n_values(graph); v++) choose_scale(&sites.items[v]);
    *out_sites = sites;
    return STATUS_OK;
}

void quantize_clear(context_t *ctx, quantize_sites_t *sites)
{
    CONTEXT_PUT(ctx, sites->items, sites->has_range, sites->is_product, sites->is_on_integers);
    *sites = (quantize_sites_t){0};
}
