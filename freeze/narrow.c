/* What is found out on examples before a network is made of a narrower dtype: the ranges of values,
 * and the layers that are to stay f32. */
#include "freeze/freeze_impl.h"
#include "graph/passes/pass_impl.h"
#include "tensor/context_impl.h"

/* Of s8, what the pass reads: the graph with folded weights, which stands for `forward` then. */
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

/* Of bf16, the network in f32 as it would run. */
static status_t optimize_wide(context_t *ctx, module_t *root, freeze_narrow_t *narrow)
{
    pass_options_t wide = narrow->passes;
    wide.dtype = DTYPE_NONE;
    wide.after = NULL;
    return pass_run(ctx, graph_of(root, "forward"), pass_pipeline_optimize(), &wide,
                    &narrow->graph);
}

/* Tells the layers, and lists, behind what the options keep, those above the bound. */
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
        layer->is_kept = options->max_error > 0.0 && !(layer->error <= options->max_error) &&
                         layer->path[0] != '\0';
        if (layer->is_kept) narrow->kept[n++] = layer->path;
        if (options->report != NULL) options->report(options->report_user, layer);
    }
    narrow->passes.keep_f32 = narrow->kept;
    return STATUS_OK;
}

status_t freeze_narrow(context_t *ctx, module_t *root, const freeze_options_t *options,
                       const pass_options_t *passes, freeze_narrow_t *narrow)
{
    const bool has_examples = options->n_examples > 0 && graph_of(root, "forward") != NULL;
    *narrow = (freeze_narrow_t){.passes = *passes};
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
    context_put(ctx, narrow->ranges);
    context_put(ctx, (void *)narrow->kept);
    freeze_layers_clear(ctx, &narrow->layers);
    graph_release(narrow->graph);
}
