/* Reads the inputs and outputs of a model from its file, without importing it. */
#include "io/onnx/function_impl.h"

#include <string.h>

#include "module/signature.h"
#include "tensor/context_impl.h"

/* ---- values ---- */

/* Open sizes are -1. Their names are those that an import gives them. */
static void describe_shape(onnx_t *onnx, const Onnx__TensorShapeProto *shape,
                           module_value_t *out_value)
{
    if (shape == NULL || shape->n_dim > TENSOR_MAX_RANK) return;
    out_value->rank = (int)shape->n_dim;
    for (int d = 0; d < out_value->rank; d++) {
        const bool is_fixed = onnx_is_fixed(shape->dim[d]);
        out_value->sizes[d] = out_value->made[d] = is_fixed ? shape->dim[d]->dim_value : -1;
        if (is_fixed) continue;
        const int open = onnx_open_find(onnx, onnx_param_of(shape->dim[d]), d, -1);
        if (open != ONNX_NOT_OPEN) out_value->dims[d] = onnx->open[open].name;
    }
}

static status_t describe_value(onnx_t *onnx, const Onnx__ValueInfoProto *value,
                               module_value_t *out_value)
{
    const Onnx__TypeProto *type = value->type;
    *out_value = (module_value_t){.name = value->name, .rank = -1};
    if (type == NULL) return STATUS_OK;
    if (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) out_value->kind = DATUM_LIST;
    if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || type->tensor_type == NULL)
        return STATUS_OK;
    if (type->tensor_type->elem_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING) return STATUS_OK;
    TRY(onnx_dtype(onnx->ctx, type->tensor_type->elem_type, &out_value->dtype));
    out_value->kind = DATUM_TENSOR;
    describe_shape(onnx, onnx_shape_of(value), out_value);
    return STATUS_OK;
}

/* ---- the module ---- */

static status_t refuse_to_run(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                              int *n_out, tensor_t **out)
{
    (void)self, (void)n_in, (void)in, (void)n_out, (void)out;
    FAIL(ctx, STATUS_UNSUPPORTED,
         "forward: onnx_describe has read what the model takes and gives; onnx_load imports it");
}

static status_t bind_initializers(onnx_t *onnx)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const char *name = graph->initializer[i]->name;
        item_t item = ITEM_NONE;
        if (name == NULL || *name == '\0') continue;
        TRY(onnx_value(onnx, name, &(tensor_info_t){.dtype = DTYPE_NONE}, &item));
        onnx->items[item].is_weight = true;
        TRY(onnx_bind(onnx, name, item));
    }
    return STATUS_OK;
}

static status_t describe_values(onnx_t *onnx, size_t n, Onnx__ValueInfoProto *const *values,
                                bool is_input, int *out_n, module_value_t *out_values)
{
    *out_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (values[i]->name == NULL || *values[i]->name == '\0')
            FAIL(onnx->ctx, STATUS_CORRUPT, "onnx: %s %zu has no name",
                 is_input ? "input" : "output", i);
        if (is_input && onnx_is_initializer(onnx, values[i])) continue;
        status_t status = describe_value(onnx, values[i], &out_values[(*out_n)++]);
        if (status != STATUS_OK)
            return onnx_fail_at(onnx, status, is_input ? "input" : "output", values[i]->name, NULL);
    }
    return STATUS_OK;
}

static status_t describe(onnx_t *onnx, module_value_t *values)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    int n_in = 0, n_out = 0;
    module_value_t *outputs = values + graph->n_input;
    TRY(bind_initializers(onnx));
    TRY(describe_values(onnx, graph->n_input, graph->input, true, &n_in, values));
    TRY(describe_values(onnx, graph->n_output, graph->output, false, &n_out, outputs));
    TRY(module_create(onnx->ctx, "OnnxModel", &onnx->module));
    TRY(onnx_set_attributes(onnx));
    TRY(module_set_forward(onnx->ctx, onnx->module, "forward", refuse_to_run));
    return module_describe(onnx->ctx, onnx->module, "forward", n_in, values, n_out, outputs);
}

static status_t describe_source(context_t *ctx, const onnx_source_t *source, module_t **out_module)
{
    onnx_t *onnx = NULL;
    module_value_t *values = NULL;
    TRY(context_get_zeroed(ctx, sizeof *onnx, "an import", &onnx));
    status_t status = onnx_begin(onnx, ctx, source);
    if (status == STATUS_OK)
        status = context_get(
            ctx, (onnx->model->graph->n_input + onnx->model->graph->n_output + 1) * sizeof *values,
            "what a model takes and gives", &values);
    if (status == STATUS_OK) status = describe(onnx, values);
    if (status == STATUS_OK) *out_module = module_retain(onnx->module);
    context_put(ctx, values);
    onnx_end(onnx);
    context_put(ctx, onnx);
    return status;
}

status_t onnx_describe(context_t *ctx, const char *path, module_t **out_module)
{
    onnx_source_t source = {0};
    TRY(context_output(ctx, "onnx_describe", out_module));
    TRY(onnx_from_path(ctx, "onnx_describe", path, &source));
    FINISH(describe_source(ctx, &source, out_module), context_put(ctx, source.folder));
}

status_t onnx_describe_bytes(context_t *ctx, const void *bytes, size_t n_bytes,
                             module_t **out_module)
{
    TRY(context_output(ctx, "onnx_describe_bytes", out_module));
    if (bytes == NULL) return context_null(ctx, "onnx_describe_bytes", "bytes");
    return describe_source(ctx, &(onnx_source_t){.bytes = bytes, .n_bytes = n_bytes}, out_module);
}
