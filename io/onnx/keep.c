/* Keeps an ONNX model in the module that was frozen from it, and imports it again for other sizes.
 *
 * The module's attribute FREEZE_SOURCE is a dict. It has the model's protobuf message without its
 * larger tensors, these tensors, and the options of the import and of freezing. */
#include "io/onnx/onnx.h"

#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/method/method_impl.h"
#include "io/onnx/onnx_impl.h"
#include "module/module_impl.h"
#include "ops/shape/shapes.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

#define MODEL "model"
#define WEIGHTS "weights"
#define GUARDS "guards"
#define KEEP_F32 "keep_f32"
#define NUMBERS "keeps_numbers"
#define NUMERICS "keep_numerics"
#define DTYPE "dtype"
#define ROUNDING "rounding_error"

/* Smaller tensors stay in the message. */
#define LEAST_BYTES 1024

/* ---- the dict ---- */

static status_t put_take(context_t *ctx, datum_t *dict, const char *key, datum_t *value)
{
    FINISH(datum_put(ctx, dict, key, value), datum_release(value));
}

static status_t put_bool(context_t *ctx, datum_t *dict, const char *key, bool is)
{
    datum_t *value = NULL;
    TRY(datum_bool(ctx, is, &value));
    return put_take(ctx, dict, key, value);
}

static status_t put_texts(context_t *ctx, datum_t *dict, const char *key, int n,
                          const char *const *texts)
{
    datum_t *list = NULL;
    TRY(datum_list(ctx, 0, NULL, &list));
    status_t status = STATUS_OK;
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        datum_t *text = NULL;
        status = datum_string(ctx, texts[i], &text);
        if (status == STATUS_OK) status = datum_append(ctx, list, text);
        datum_release(text);
    }
    if (status == STATUS_OK) status = datum_put(ctx, dict, key, list);
    datum_release(list);
    return status;
}

static status_t put_options(context_t *ctx, datum_t *dict, const onnx_options_t *options,
                            const freeze_options_t *how)
{
    datum_t *value = NULL;
    int n_kept = 0;
    while (how->keep_f32 != NULL && how->keep_f32[n_kept] != NULL) n_kept++;
    TRY(put_texts(ctx, dict, GUARDS, options->n_guards, options->guards));
    TRY(put_texts(ctx, dict, KEEP_F32, n_kept, how->keep_f32));
    TRY(put_bool(ctx, dict, NUMBERS, options->keeps_numbers));
    TRY(put_bool(ctx, dict, NUMERICS, how->keep_numerics));
    TRY(datum_string(ctx, how->dtype != DTYPE_NONE ? dtype_name(how->dtype) : "", &value));
    TRY(put_take(ctx, dict, DTYPE, value));
    if (!freeze_bounds_rounding(how)) return STATUS_OK;
    TRY(datum_float(ctx, how->rounding_error, &value));
    return put_take(ctx, dict, ROUNDING, value);
}

/* ---- keeping ---- */

static bool is_large(const Onnx__TensorProto *proto)
{
    int64_t n = 1;
    for (size_t d = 0; d < proto->n_dims; d++)
        if (!shape_multiply(n, proto->dims[d], &n)) return true;
    return n >= LEAST_BYTES / 4 ||
           proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* Moves the elements of an initializer from the message to the dict. */
static status_t move_weight(onnx_t *onnx, Onnx__TensorProto *proto, datum_t *weights)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    if (proto->name == NULL || !is_large(proto) ||
        proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING)
        return STATUS_OK;
    TRY(onnx_tensor_given(onnx, proto, &tensor));
    if (tensor == NULL) TRY(onnx_tensor(onnx, proto, &tensor));
    proto->has_raw_data = false;
    proto->n_float_data = proto->n_int32_data = proto->n_int64_data = 0;
    proto->n_double_data = proto->n_uint64_data = 0;
    status_t status = datum_tensor(onnx->ctx, tensor, &value);
    tensor_drop(tensor);
    return status == STATUS_OK ? put_take(onnx->ctx, weights, proto->name, value) : status;
}

/* Puts the packed message into the dict, as u8[bytes]. */
static status_t put_model(onnx_t *onnx, datum_t *dict)
{
    context_t *ctx = onnx->ctx;
    const int64_t n = (int64_t)onnx__model_proto__get_packed_size(onnx->model);
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    TRY(tensor_empty(ctx, DTYPE_U8, 1, &n, &tensor));
    scope_keep(ctx, tensor);
    void *bytes = NULL;
    status_t status = tensor_data_mutable(ctx, tensor, &bytes);
    if (status == STATUS_OK) (void)onnx__model_proto__pack(onnx->model, bytes);
    if (status == STATUS_OK) status = datum_tensor(ctx, tensor, &value);
    tensor_drop(tensor);
    return status == STATUS_OK ? put_take(ctx, dict, MODEL, value) : status;
}

static status_t put_weights(onnx_t *onnx, const module_t *frozen, datum_t *dict)
{
    const Onnx__GraphProto *graph = onnx->model->graph;
    datum_t *weights = NULL;
    TRY(datum_dict(onnx->ctx, 0, NULL, NULL, &weights));
    status_t status = onnx_check_given(onnx, graph);
    for (size_t i = 0; i < graph->n_initializer && status == STATUS_OK; i++)
        status = move_weight(onnx, graph->initializer[i], weights);
    if (status == STATUS_OK) status = freeze_share_tensors(onnx->ctx, frozen, "forward", weights);
    if (status == STATUS_OK) status = datum_put(onnx->ctx, dict, WEIGHTS, weights);
    datum_release(weights);
    return status;
}

static status_t make_source(onnx_t *onnx, const module_t *frozen, const freeze_options_t *how,
                            datum_t *dict)
{
    TRY(put_weights(onnx, frozen, dict));
    TRY(put_model(onnx, dict));
    return put_options(onnx->ctx, dict, onnx->options, how);
}

static status_t has_guards(context_t *ctx, const module_t *frozen, bool *out_has)
{
    for (int i = 0; i < plan_n_graphs(frozen, "forward") && !*out_has; i++) {
        text_t text = text_begin(ctx);
        const status_t status = graph_guards(ctx, plan_graph_at(frozen, "forward", i), &text);
        *out_has = text_string(&text)[0] != '\0';
        text_clear(&text);
        TRY(status);
    }
    return STATUS_OK;
}

static plan_extend_t import_again;

static status_t keep(context_t *ctx, module_t *frozen, const onnx_source_t *source,
                     const onnx_options_t *options, const freeze_options_t *how)
{
    static const onnx_options_t no_options;
    static const freeze_options_t no_how;
    bool is_wanted = false;
    onnx_t *onnx = NULL;
    datum_t *dict = NULL;
    if (frozen == NULL) return context_null(ctx, "onnx_keep", "module");
    if (how == NULL) how = &no_how;
    REQUIRE(ctx, freeze_is_frozen(frozen), "onnx_keep: %s is not frozen, freeze it first",
            module_type(frozen));
    if (how->dtype == DTYPE_S8 || freeze_bounds_layers(how))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "onnx_keep: dtype s8 and max_error need examples, which a file does not have");
    if (how->no_optimize || (how->preserved != NULL && how->preserved[0] != NULL) ||
        (how->skip != NULL && how->skip[0] != NULL))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "onnx_keep: preserved, skip and no_optimize would not hold for other sizes");
    TRY(has_guards(ctx, frozen, &is_wanted));
    if (!is_wanted) return STATUS_OK;
    TRY(context_get_zeroed(ctx, sizeof *onnx, "a model", &onnx));
    onnx->options = options != NULL ? options : &no_options;
    status_t status = onnx_begin(onnx, ctx, source);
    if (status == STATUS_OK) status = datum_dict(ctx, 0, NULL, NULL, &dict);
    if (status == STATUS_OK) status = make_source(onnx, frozen, how, dict);
    if (status == STATUS_OK) status = module_set_attribute(ctx, frozen, FREEZE_SOURCE, dict);
    if (status == STATUS_OK) plan_set_extend(frozen, "forward", import_again);
    datum_release(dict);
    onnx_end(onnx);
    context_put(ctx, onnx);
    return status;
}

status_t onnx_keep(context_t *ctx, module_t *frozen, const char *path,
                   const onnx_options_t *options, const freeze_options_t *how)
{
    onnx_source_t source = {0};
    TRY(onnx_from_path(ctx, "onnx_keep", path, &source));
    FINISH(keep(ctx, frozen, &source, options, how), context_put(ctx, source.folder));
}

status_t onnx_keep_bytes(context_t *ctx, module_t *frozen, const void *bytes, size_t n_bytes,
                         const onnx_options_t *options, const freeze_options_t *how)
{
    if (bytes == NULL) return context_null(ctx, "onnx_keep_bytes", "bytes");
    return keep(ctx, frozen, &(onnx_source_t){.bytes = bytes, .n_bytes = n_bytes}, options, how);
}

/* ---- importing again ---- */

static const datum_t *find(const datum_t *dict, const char *key, datum_kind_t kind)
{
    const datum_t *value = dict != NULL && datum_kind(dict) == DATUM_DICT ? datum_find(dict, key)
                                                                          : NULL;
    return value != NULL && datum_kind(value) == kind ? value : NULL;
}

static bool is_list_of(const datum_t *list, datum_kind_t kind)
{
    bool is = list != NULL;
    for (int i = 0; is && i < datum_length(list); i++) is = datum_kind(datum_item(list, i)) == kind;
    return is;
}

/* Returns the tensor of an entry of WEIGHTS, or NULL if the entry is malformed. A weight that is
 * stored as the transpose of a frozen constant is a list of one matrix (freeze_share_tensors). */
static tensor_t *weight_of(const datum_t *value, bool *out_is_transposed)
{
    *out_is_transposed = datum_kind(value) == DATUM_LIST;
    if (!*out_is_transposed) return datum_as_tensor(value);
    if (datum_length(value) != 1 || datum_kind(datum_item(value, 0)) != DATUM_TENSOR) return NULL;
    tensor_t *tensor = datum_as_tensor(datum_item(value, 0));
    return tensor_rank(tensor) == 2 ? tensor : NULL;
}

static bool are_weights(const datum_t *dict)
{
    bool are = dict != NULL, is_transposed;
    for (int i = 0; are && i < datum_length(dict); i++)
        are = weight_of(datum_item(dict, i), &is_transposed) != NULL;
    return are;
}

static bool is_source(const datum_t *dict)
{
    const datum_t *model = find(dict, MODEL, DATUM_TENSOR);
    const tensor_t *message = model != NULL ? datum_as_tensor(model) : NULL;
    return message != NULL && tensor_dtype(message) == DTYPE_U8 && tensor_rank(message) == 1 &&
           tensor_info(message)->layout == LAYOUT_DENSE &&
           info_is_contiguous(tensor_info(message)) &&
           are_weights(find(dict, WEIGHTS, DATUM_DICT)) &&
           is_list_of(find(dict, GUARDS, DATUM_LIST), DATUM_STRING) &&
           is_list_of(find(dict, KEEP_F32, DATUM_LIST), DATUM_STRING) &&
           find(dict, NUMBERS, DATUM_BOOL) != NULL && find(dict, NUMERICS, DATUM_BOOL) != NULL &&
           find(dict, DTYPE, DATUM_STRING) != NULL;
}

/* The arguments of the import and of freezing, read from the dict. */
typedef struct again {
    context_t *ctx;
    const datum_t *dict;
    onnx_options_t options;
    freeze_options_t how;
    onnx_tensor_t *tensors;
    onnx_shape_t *shapes;
    const char **guards, **kept;
} again_t;

static status_t read_texts(context_t *ctx, const datum_t *list, const char ***out_texts)
{
    const size_t n = (size_t)datum_length(list) + 1;
    TRY(context_get_zeroed(ctx, n * sizeof **out_texts, "texts", out_texts));
    for (int i = 0; i < datum_length(list); i++)
        (*out_texts)[i] = datum_as_string(datum_item(list, i));
    return STATUS_OK;
}

static status_t read_weight(context_t *ctx, const tensor_t *tensor, tensor_t **out_dense)
{
    TRY(to_dense(ctx, tensor, out_dense));
    scope_keep(ctx, *out_dense);
    return STATUS_OK;
}

static status_t transpose_take(context_t *ctx, tensor_t **dense)
{
    tensor_t *matrix = *dense;
    *dense = NULL;
    status_t status = op_transpose(ctx, matrix, 0, 1, dense);
    if (status == STATUS_OK) scope_keep(ctx, *dense);
    tensor_drop(matrix);
    return status;
}

/* Packed tensors are converted, because an import reads dense ones. */
static status_t read_weights(again_t *again)
{
    context_t *ctx = again->ctx;
    const datum_t *weights = find(again->dict, WEIGHTS, DATUM_DICT);
    const int n = datum_length(weights);
    TRY(context_get_zeroed(ctx, ((size_t)n + 1) * sizeof *again->tensors, "weights",
                           &again->tensors));
    for (int i = 0; i < n; i++) {
        bool is_transposed = false;
        tensor_t *dense = NULL;
        TRY(read_weight(ctx, weight_of(datum_item(weights, i), &is_transposed), &dense));
        if (is_transposed) TRY(transpose_take(ctx, &dense));
        again->tensors[again->options.n_tensors++] = (onnx_tensor_t){datum_key(weights, i), dense};
    }
    return STATUS_OK;
}

static status_t read_shapes(again_t *again, const module_t *self, const char *method, int n_in,
                            const tensor_info_t *const *in)
{
    context_t *ctx = again->ctx;
    TRY(context_get_zeroed(ctx, ((size_t)n_in + 1) * sizeof *again->shapes, "shapes",
                           &again->shapes));
    for (int i = 0; i < n_in; i++) {
        module_value_t value;
        TRY(module_input(ctx, self, method, i, &value));
        if (in[i] == NULL) continue;
        if (value.dtype != in[i]->dtype) return STATUS_INVALID_ARGUMENT; /* the run reports it */
        again->shapes[again->options.n_shapes++] = (onnx_shape_t){value.name, in[i]->rank,
                                                                  in[i]->sizes};
    }
    return STATUS_OK;
}

static status_t read_source(again_t *again)
{
    context_t *ctx = again->ctx;
    const datum_t *dict = again->dict, *guards = find(dict, GUARDS, DATUM_LIST);
    const datum_t *rounding = find(dict, ROUNDING, DATUM_FLOAT);
    TRY(read_texts(ctx, guards, &again->guards));
    TRY(read_texts(ctx, find(dict, KEEP_F32, DATUM_LIST), &again->kept));
    TRY(read_weights(again));
    again->options.n_guards = datum_length(guards);
    again->options.guards = again->guards;
    again->options.tensors = again->tensors;
    again->options.shapes = again->shapes;
    again->options.keeps_numbers = datum_as_bool(find(dict, NUMBERS, DATUM_BOOL));
    again->how.keep_f32 = again->kept;
    again->how.keep_numerics = datum_as_bool(find(dict, NUMERICS, DATUM_BOOL));
    again->how.dtype = dtype_parse(datum_as_string(find(dict, DTYPE, DATUM_STRING)));
    again->how.has_rounding_error = rounding != NULL;
    again->how.rounding_error = rounding != NULL ? datum_as_float(rounding) : 0.0;
    return STATUS_OK;
}

static void clear(again_t *again)
{
    for (int i = 0; i < again->options.n_tensors; i++) tensor_drop(again->tensors[i].tensor);
    CONTEXT_PUT(again->ctx, again->tensors, again->shapes, again->guards, again->kept);
}

static status_t import(const again_t *again, const module_t *self, const char *method,
                       graph_t **out_graph)
{
    context_t *ctx = again->ctx;
    const tensor_t *model = datum_as_tensor(find(again->dict, MODEL, DATUM_TENSOR));
    module_t *imported = NULL, *frozen = NULL;
    TRY(onnx_load_bytes(ctx, tensor_bytes(model), (size_t)tensor_numel(model), &again->options,
                        &imported));
    status_t status = freeze_take(ctx, &imported, &again->how, &frozen);
    if (status == STATUS_OK && graph_of(frozen, method) == NULL)
        status = context_fail(ctx, STATUS_UNSUPPORTED, "onnx: the kept model has no method \"%s\"",
                              method);
    if (status == STATUS_OK)
        status = freeze_share_graph(ctx, self, method, graph_of(frozen, method), out_graph);
    module_release(imported);
    module_release(frozen);
    return status;
}

static status_t import_again(context_t *ctx, module_t *self, const char *method, int n_in,
                             const tensor_info_t *const *in, graph_t **out_graph)
{
    again_t again = {.ctx = ctx, .dict = module_attribute(self, FREEZE_SOURCE)};
    if (!is_source(again.dict)) FAIL(ctx, STATUS_UNSUPPORTED, "onnx: no model is kept");
    status_t status = read_shapes(&again, self, method, n_in, in);
    if (status == STATUS_OK) status = read_source(&again);
    if (status == STATUS_OK) status = import(&again, self, method, out_graph);
    clear(&again);
    return status;
}

status_t onnx_reopen(context_t *ctx, module_t *frozen)
{
    if (frozen == NULL) return context_null(ctx, "onnx_reopen", "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "onnx_reopen: %s is not frozen", module_type(frozen));
    const datum_t *dict = module_attribute(frozen, FREEZE_SOURCE);
    if (dict == NULL) return STATUS_OK;
    if (!is_source(dict))
        FAIL(ctx, STATUS_CORRUPT, "onnx_reopen: the model in the file is malformed");
    plan_set_extend(frozen, "forward", import_again);
    return STATUS_OK;
}
