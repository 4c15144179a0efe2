/* Measures on the examples how much a lower precision changes each product (convolution, linear
 * layer or matmul). The network runs node by node in f32, and each product once more with rounded
 * operands (and a rounded result, for float dtypes). So each error is caused by one layer only, and
 * is the same on every processor. For bf16, adds the error of Winograd transforms. */
#include <math.h>
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/passes/precision/precision_impl.h"
#include "graph/passes/precision/quantize_impl.h"
#include "graph/program/run_impl.h"
#include "ops/conv/conv_winograd_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"

typedef struct measuring {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
    const freeze_options_t *options;
    freeze_layers_t *layers;
    quantize_sites_t sites; /* for s8 */
} measuring_t;

/* ---- layers ---- */

void freeze_layers_clear(context_t *ctx, freeze_layers_t *layers)
{
    for (int i = 0; i < layers->n; i++) context_put(ctx, (void *)(uintptr_t)layers->items[i].path);
    context_put(ctx, layers->items);
    *layers = (freeze_layers_t){0};
}

static status_t note(const measuring_t *m, const graph_node_t *node, double error)
{
    freeze_layers_t *layers = m->layers;
    const char *path = node->path != NULL ? node->path : "";
    for (int i = 0; i < layers->n; i++) {
        freeze_layer_t *layer = &layers->items[i];
        if (strcmp(layer->path, path) != 0 || strcmp(layer->op, node->op->name) != 0) continue;
        if (!(error <= layer->error)) layer->error = error;
        return STATUS_OK;
    }
    char *copy = NULL;
    TRY(context_grow(m->ctx, &layers->items, &layers->capacity, layers->n + 1,
                     sizeof *layers->items));
    TRY(context_string(m->ctx, path, &copy));
    layers->items[layers->n++] = (freeze_layer_t){
        .path = copy, .op = node->op->name, .error = error};
    return STATUS_OK;
}

/* ---- operands ---- */

static void drop(context_t *ctx, tensor_t *tensor)
{
    scope_take(ctx, tensor);
    tensor_drop(tensor);
}

/* Rounds a tensor to the dtype. The result is f32. */
static status_t round_tensor(const measuring_t *m, const tensor_t *tensor, tensor_t **out_rounded)
{
    tensor_t *narrow = NULL;
    TRY(tensor_cast(m->ctx, tensor, m->options->dtype, &narrow));
    FINISH(tensor_cast(m->ctx, narrow, DTYPE_F32, out_rounded), drop(m->ctx, narrow));
}

/* Quantizes and dequantizes a tensor. The result is f32. */
static status_t round_to_integers(const measuring_t *m, value_t value, const tensor_t *tensor,
                                  tensor_t **out_rounded)
{
    const quantize_site_t *site = &m->sites.items[quantize_group(&m->sites, value)];
    tensor_t *scale = NULL, *zero = NULL, *integers = NULL;
    status_t status = tensor_full(m->ctx, DTYPE_F32, 0, NULL, (double)site->scale, &scale);
    if (status == STATUS_OK)
        status = tensor_full(m->ctx, site->dtype, 0, NULL, (double)site->zero, &zero);
    if (status == STATUS_OK)
        status = op_quantize(m->ctx, tensor, scale, zero, 1, 0, site->dtype, &integers);
    if (status == STATUS_OK)
        status = op_dequantize(m->ctx, integers, scale, zero, 1, 0, out_rounded);
    drop(m->ctx, integers);
    drop(m->ctx, zero);
    drop(m->ctx, scale);
    return status;
}

static status_t round_weight(const measuring_t *m, const graph_node_t *node, const tensor_t *tensor,
                             tensor_t **out_rounded)
{
    tensor_t *integers = NULL, *scales = NULL;
    const int dim = quantize_weight_dim(node);
    TRY(quantize_weight(m->ctx, tensor, dim, &integers, &scales));
    status_t status = op_dequantize(m->ctx, integers, scales, NULL, dim, 0, out_rounded);
    drop(m->ctx, scales);
    drop(m->ctx, integers);
    return status;
}

/* Rounds an activation or a weight. Biases stay. */
static status_t round_operand(const measuring_t *m, const graph_node_t *node, int index,
                              datum_t *datum, datum_t **out_datum)
{
    const operand_role_t role = precision_role(node, index);
    tensor_t *rounded = NULL;
    if (datum == NULL || datum_kind(datum) != DATUM_TENSOR ||
        (role != ROLE_ACTIVATION && role != ROLE_WEIGHT) ||
        tensor_dtype(datum_as_tensor(datum)) != DTYPE_F32) {
        *out_datum = datum_retain(datum);
        return STATUS_OK;
    }
    const tensor_t *tensor = datum_as_tensor(datum);
    if (m->options->dtype != DTYPE_S8)
        TRY(round_tensor(m, tensor, &rounded));
    else if (index == 0)
        TRY(round_to_integers(m, node->inputs[0], tensor, &rounded));
    else
        TRY(round_weight(m, node, tensor, &rounded));
    FINISH(datum_tensor(m->ctx, rounded, out_datum), drop(m->ctx, rounded));
}

/* ---- one product ---- */

/* Measures the error of Winograd transforms in a bf16 convolution; 0 unless `bound_errors` allows
 * them. */
static status_t measure_transforms(const measuring_t *m, const graph_node_t *node,
                                   const datum_t *weight, double *out_error)
{
    const double bound = freeze_bounds_rounding(m->options) ? m->options->rounding_error
                                                            : CONV_WINOGRAD_BF16_ERROR;
    tensor_t *plain = NULL;
    *out_error = 0.0;
    if (m->options->dtype != DTYPE_BF16 || !rewrite_is_op(node, "conv2d")) return STATUS_OK;
    TRY(to_dense(m->ctx, datum_as_tensor(weight), &plain));
    const status_t status = conv_winograd_pairs_error(m->ctx, node->attrs, tensor_info(plain),
                                                      tensor_bytes(plain), out_error);
    drop(m->ctx, plain);
    if (!(*out_error <= bound)) *out_error = 0.0;
    return status;
}

static status_t compare(const measuring_t *m, const graph_node_t *node, const datum_t *wide,
                        const datum_t *narrow, double transforms)
{
    tensor_t *rounded = NULL;
    const tensor_t *result = datum_as_tensor(narrow);
    double error = 0.0;
    if (m->options->dtype != DTYPE_S8) {
        TRY(round_tensor(m, result, &rounded));
        result = rounded;
    }
    status_t status = tensor_max_rel_diff(m->ctx, result, datum_as_tensor(wide), &error);
    drop(m->ctx, rounded);
    return status == STATUS_OK ? note(m, node, error + transforms) : status;
}

static status_t measure_product(const measuring_t *m, const graph_node_t *node,
                                datum_t *const *known)
{
    datum_t *in[OP_MAX_INPUTS] = {NULL}, *out = NULL;
    double transforms = 0.0;
    status_t status = STATUS_OK;
    for (int i = 0; i < node->n_inputs && status == STATUS_OK; i++)
        status = round_operand(m, node, i, node->inputs[i] < 0 ? NULL : known[node->inputs[i]],
                               &in[i]);
    if (status == STATUS_OK)
        status = run_op(m->ctx, node->op, node->attrs, node->n_inputs, in, WEIGHT_GIVEN, NULL, 1,
                        &out);
    if (status == STATUS_OK) status = measure_transforms(m, node, in[1], &transforms);
    if (status == STATUS_OK) status = compare(m, node, known[node->outputs[0]], out, transforms);
    datum_release(out);
    for (int i = 0; i < node->n_inputs; i++) datum_release(in[i]);
    return status;
}

static status_t measure_node(void *user, const graph_node_t *node, datum_t *const *known)
{
    const measuring_t *m = user;
    const bool is_narrow = m->options->dtype == DTYPE_S8
                               ? node->n_outputs == 1 && m->sites.is_product[node->outputs[0]]
                               : precision_may_lower(m->graph, m->alias, node) &&
                                     !precision_is_kept(node, m->options->keep_f32);
    return is_narrow ? measure_product(m, node, known) : STATUS_OK;
}

status_t freeze_measure(context_t *ctx, const graph_t *graph, const freeze_options_t *options,
                        const pass_options_t *passes, freeze_layers_t *layers)
{
    measuring_t m = {.ctx = ctx, .graph = graph, .options = options, .layers = layers};
    const freeze_walk_t walk = {.user = &m, .node = measure_node};
    TRY(alias_of(ctx, graph, &m.alias));
    if (options->dtype == DTYPE_S8) TRY(quantize_find(ctx, graph, passes, &m.sites));
    FINISH(freeze_walk(ctx, graph, options, &walk), quantize_clear(ctx, &m.sites));
}
