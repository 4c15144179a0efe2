/* Decides, before the precision is lowered, the ranges of values and the layers that stay f32. */
#include "freeze/freeze_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* For s8: runs the passes before `quantize`, makes the result `forward`, and computes ranges. */
static status_t calibrate(context_t *ctx, module_t *root, const freeze_options_t *options,
                          freeze_narrow_t *narrow)
{
    pass_options_t how = narrow->passes;
    how.self = root;
    how.after = NULL;
    TRY(pass_run(ctx, graph_of(root, "forward"), pass_pipeline_calibrate(), &how, &narrow->graph));
    TRY(graph_set_method(ctx, root, "forward", narrow->graph));
    TRY(freeze_calibrate(ctx, narrow->graph, options, &narrow->passes.n_ranges, &narrow->ranges));
    narrow->passes.ranges = narrow->ranges;
    return STATUS_OK;
}

/* For bf16: makes the graph that would run in f32. */
static status_t optimize_wide(context_t *ctx, module_t *root, freeze_narrow_t *narrow)
{
    pass_options_t wide = narrow->passes;
    wide.dtype = DTYPE_NONE;
    wide.after = NULL;
    return pass_run(ctx, graph_of(root, "forward"), pass_pipeline_optimize(), &wide,
                    &narrow->graph);
}

/* Reports all layers. Lists the paths in keep_f32, then the layers above the limit. */
static status_t keep_layers(context_t *ctx, const freeze_options_t *options,
                            freeze_narrow_t *narrow)
{
    freeze_layers_t *layers = &narrow->layers;
    int n = 0;
    while (options->keep_f32 != NULL && options->keep_f32[n] != NULL) n++;
    TRY(context_get_zeroed(ctx, (size_t)(n + layers->n + 1) * sizeof *narrow->kept, "paths",
                           (void *)&narrow->kept));
    for (int i = 0; i < n; i++) narrow->kept[i] = options->keep_f32[i];
    for (int i = 0; i < layers->n; i++) {
        freeze_layer_t *layer = &layers->items[i];
        layer->is_kept = freeze_bounds_layers(options) && !(layer->error <= options->max_error) &&
                         layer->path[0] != '\0';
        if (layer->is_kept) narrow->kept[n++] = layer->path;
        if (options->report != NULL) options->report(options->report_user, layer);
    }
    narrow->passes.keep_f32 = narrow->kept;
    return STATUS_OK;
}

typedef struct products {
    const graph_t *graph;
    int n_known;
    const graph_node_t *unknown; /* the first product whose operand's sizes are not known */
} products_t;

static status_t note_product(void *user, const graph_node_t *node)
{
    products_t *products = user;
    if (rewrite_conv(node) == 0 && rewrite_conv_transpose(node) == 0 &&
        !rewrite_is_op(node, "linear") && !rewrite_is_op(node, "matmul"))
        return STATUS_OK;
    const graph_type_t *type = graph_value_type(products->graph, node->inputs[0]);
    if (type->kind != TYPE_TENSOR || type->has_info)
        products->n_known++;
    else if (products->unknown == NULL)
        products->unknown = node;
    return STATUS_OK;
}

/* Fails if no product reads a tensor of known sizes, because the passes would then silently change
 * nothing. Accepts graphs without products. */
static status_t check_products(context_t *ctx, const graph_t *graph, dtype_t dtype)
{
    products_t products = {.graph = graph};
    if (graph == NULL) return STATUS_OK;
    TRY(rewrite_visit(graph_body(graph), note_product, &products));
    if (products.unknown == NULL || products.n_known > 0) return STATUS_OK;
    const char *path = products.unknown->path;
    FAIL(ctx, STATUS_INVALID_ARGUMENT,
         "freeze: dtype %s, the sizes that %s%s%s reads are not known, so nothing would change; "
         "parameters need types such as f32[N=1,3,224,224]",
         dtype_name(dtype), products.unknown->op->name, path != NULL ? " " : "",
         path != NULL ? path : "");
}

status_t freeze_narrow(context_t *ctx, module_t *root, const freeze_options_t *options,
                       const pass_options_t *passes, freeze_narrow_t *narrow)
{
    const bool has_examples = options->n_examples > 0 && graph_of(root, "forward") != NULL;
    *narrow = (freeze_narrow_t){.passes = *passes};
    if (options->dtype == DTYPE_S8 || options->dtype == DTYPE_BF16)
        TRY(check_products(ctx, graph_of(root, "forward"), options->dtype));
    if (options->dtype == DTYPE_S8)
        TRY(calibrate(ctx, root, options, narrow));
    else if (options->dtype == DTYPE_BF16 && has_examples)
        TRY(optimize_wide(ctx, root, narrow));
    else
        return STATUS_OK;
    TRY(freeze_measure(ctx, narrow->graph, options, &narrow->passes, &narrow->layers));
    return keep_layers(ctx, options, narrow);
}

void freeze_narrow_clear(context_t *ctx, freeze_narrow_t *narrow)
{
    CONTEXT_PUT(ctx, narrow->ranges, (void *)narrow->kept);
    freeze_layers_clear(ctx, &narrow->layers);
    graph_release(narrow->graph);
}
