#include "tools/support/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/print.h"
#include "tools/support/sizes.h"

/* ---- loading ---- */

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

model_kind_t model_kind(const char *spec)
{
    if (strncmp(spec, "zoo:", 4) == 0) return MODEL_ZOO;
    return ends_in(spec, ".onnx")      ? MODEL_ONNX
           : ends_in(spec, ".tessera") ? MODEL_FROZEN
                                       : MODEL_NONE;
}

static const datum_t *find_names(const module_t *module, const char *attribute)
{
    const datum_t *names = module_attribute(module, attribute);
    return names != NULL && datum_kind(names) == DATUM_LIST ? names : NULL;
}

static const char *name_at(const datum_t *names, int index)
{
    const datum_t *name = names != NULL ? datum_item(names, index) : NULL;
    return name != NULL && datum_kind(name) == DATUM_STRING ? datum_as_string(name) : NULL;
}

/* Lists the inputs. Until options set an open size, it has the value with which the model was
 * made. */
static status_t take_inputs(context_t *ctx, model_t *model)
{
    int n = module_n_inputs(model->module, "forward");
    REQUIRE(ctx, n >= 0, "%s: the inputs of forward are unknown", model->spec);
    REQUIRE(ctx, n <= MODEL_MAX_INPUTS, "%s: %d inputs, at most %d are possible", model->spec, n,
            MODEL_MAX_INPUTS);
    for (int i = 0; i < n; i++) {
        model_input_t *input = &model->inputs[i];
        module_value_t value;
        TRY(module_input(ctx, model->module, "forward", i, &value));
        snprintf(input->name, sizeof input->name, "%s", value.name != NULL ? value.name : "");
        REQUIRE(ctx, value.name == NULL || strlen(value.name) < sizeof input->name,
                "%s: the name of input %d has %zu bytes, at most %d are possible", model->spec, i,
                strlen(value.name), MODEL_NAME_MAX - 1);
        if (value.rank >= 0) input->info = info_dense(value.dtype, value.rank, value.made);
        input->bound = 2;
    }
    model->n_inputs = n;
    return STATUS_OK;
}

/* Returns the input whose name comes before '=' in the argument, or -1. Names may contain '=', so
 * the longest name counts. */
static int find_named(const model_t *model, const char *argument)
{
    int found = -1;
    size_t longest = 0;
    for (int i = 0; i < model->n_inputs; i++) {
        const char *name = model->inputs[i].name;
        const size_t length = strlen(name);
        if (strncmp(argument, name, length) != 0 || argument[length] != '=') continue;
        if (found < 0 || length > longest) found = i, longest = length;
    }
    return found;
}

static status_t load_zoo(context_t *ctx, model_t *model)
{
    const char *name = model->spec + strlen("zoo:"), *nearest = NULL;
    status_t status = zoo_create(ctx, name, NULL, &model->module, NULL);
    if (status != STATUS_OK) {
        char why[512], hint[ARGS_HINT_MAX];
        for (const char *const *at = zoo_names(); *at != NULL; at++)
            nearest = args_nearer(name, nearest, *at);
        snprintf(why, sizeof why, "%s", context_error(ctx));
        return context_fail(ctx, status, "%s%s", why, args_hint(nearest, hint));
    }
    return STATUS_OK;
}

/* Counts weights that are reordered to a packed format. Weights reordered to a plain format do not
 * count: our own kernels pack those, in forms that a file does not store. */
static void count_packed(context_t *ctx, void *user, const conversion_t *conversion)
{
    (void)ctx;
    *(uint64_t *)user += conversion->cause == CAUSE_WEIGHT && !conversion->is_copy &&
                         conversion->to->layout == LAYOUT_MKLDNN;
}

/* Loads a frozen file. If weights must be packed again for this machine, prints a warning, since
 * that takes time at every start. */
static status_t load_frozen(context_t *ctx, const model_options_t *options, model_t *model)
{
    const freeze_load_options_t loading = {.is_copied = options->load != NULL &&
                                                        strcmp(options->load, MODEL_COPIED) == 0,
                                           .is_unchecked = options->is_unchecked};
    uint64_t n = 0;
    observer_t observer = {.user = &n, .converted = count_packed};
    TRY(dispatch_add_observer(ctx, &observer));
    status_t status = freeze_load_with(ctx, model->spec, &loading, &model->module);
    dispatch_remove_observer(ctx, &observer);
    TRY(status);
    TRY(onnx_reopen(ctx, model->module));
    if (n > 0)
        print_error("%s: %" PRIu64 " weights were packed again for this machine (oneDNN %s, %s, %d "
                    "threads); tessera append %s keeps them\n",
                    model->spec, n, onednn_version_text(), onednn_isa_text(), context_threads(ctx),
                    model->spec);
    return STATUS_OK;
}

/* Sizes that --shape options or the arrays of --input request, as the importer needs them. */
typedef struct asked {
    int n;
    onnx_shape_t shapes[2 * ARGS_MAX];
    int64_t sizes[2 * ARGS_MAX][TENSOR_MAX_RANK];
    char names[2 * ARGS_MAX][MODEL_NAME_MAX];
} asked_t;

static void ask_sizes(asked_t *asked, size_t length, const char *name, int rank,
                      const int64_t *sizes)
{
    const int n = asked->n++;
    snprintf(asked->names[n], MODEL_NAME_MAX, "%.*s", (int)length, name);
    memcpy(asked->sizes[n], sizes, (size_t)rank * sizeof *sizes);
    asked->shapes[n] = (onnx_shape_t){asked->names[n], rank, asked->sizes[n]};
}

/* Reads --shape options. Skips arguments that are not shapes, because sizes_apply reports them. */
static void read_asked(const args_list_t *list, asked_t *asked)
{
    sizes_t sizes;
    for (int i = 0; i < list->n; i++)
        if (sizes_parse(list->items[i], &sizes))
            ask_sizes(asked, sizes.name_length, sizes.name, sizes.rank, sizes.sizes);
}

static bool is_asked(const asked_t *asked, const char *name)
{
    for (int i = 0; i < asked->n; i++)
        if (strcmp(asked->names[i], name) == 0) return true;
    return false;
}

/* Returns false if an array's sizes contradict those in the file; check_given reports that. */
static bool fits(const tensor_info_t *want, const tensor_t *given)
{
    if (want->dtype == DTYPE_NONE || want->rank != tensor_rank(given)) return false;
    for (int d = 0; d < want->rank; d++)
        if (want->sizes[d] >= 0 && want->sizes[d] != tensor_sizes(given)[d]) return false;
    return true;
}

/* Sets open sizes of the file to those of the given arrays. */
static status_t read_arrays(context_t *ctx, const model_options_t *options, model_t *model,
                            asked_t *asked)
{
    if (options->inputs.n == 0) return STATUS_OK;
    TRY(onnx_describe(ctx, model->spec, &model->module));
    TRY(take_inputs(ctx, model));
    for (int i = 0; i < options->inputs.n; i++) {
        const char *argument = options->inputs.items[i];
        const int index = find_named(model, argument);
        if (index < 0 || is_asked(asked, model->inputs[index].name)) continue;
        const char *name = model->inputs[index].name;
        tensor_t *tensor = NULL;
        TRY(npy_load(ctx, argument + strlen(name) + 1, &tensor));
        if (fits(&model->inputs[index].info, tensor))
            ask_sizes(asked, strlen(name), name, tensor_rank(tensor), tensor_sizes(tensor));
        tensor_release(tensor);
    }
    module_release(model->module);
    model->module = NULL;
    return STATUS_OK;
}

/* Writes "--shape x=1x64 --shape y=1x64": options that set all open sizes of the file. */
static void write_shapes(context_t *ctx, model_t *model, int64_t size, size_t capacity, char *text)
{
    *text = '\0';
    if (onnx_describe(ctx, model->spec, &model->module) != STATUS_OK ||
        take_inputs(ctx, model) != STATUS_OK)
        return;
    for (int i = 0; i < model->n_inputs; i++) {
        const tensor_info_t *info = &model->inputs[i].info;
        bool is_open = false;
        for (int d = 0; d < info->rank; d++) is_open |= info->sizes[d] < 0;
        if (!is_open) continue;
        size_t at = strlen(text);
        snprintf(text + at, capacity - at, " --shape %s=", model->inputs[i].name);
        for (int d = 0; d < info->rank; d++) {
            const int64_t open = d == 0 ? 1 : size;
            at = strlen(text);
            snprintf(text + at, capacity - at, "%s%" PRId64, d > 0 ? "x" : "",
                     info->sizes[d] < 0 ? open : info->sizes[d]);
        }
    }
}

/* After a failed import: imports again without a value for open sizes. If the message then differs,
 * that value was the cause, and the message says how to set others. */
static status_t explain_open_size(context_t *ctx, model_t *model, onnx_options_t *onnx,
                                  status_t status)
{
    char message[1024], shapes[512];
    const int64_t size = onnx->open_size;
    snprintf(message, sizeof message, "%s", context_error(ctx));
    onnx->open_size = 0;
    (void)onnx_load(ctx, model->spec, onnx, &model->module);
    if (strncmp(message, context_error(ctx), sizeof message - 1) == 0) return status;
    write_shapes(ctx, model, size, sizeof shapes, shapes);
    return context_fail(ctx, status, "%s (this is for%s, pass sizes that the model accepts)",
                        message, shapes);
}

/* Passes all known sizes to the importer, which needs a number for each open size. */
static status_t load_onnx(context_t *ctx, const model_options_t *options, model_t *model)
{
    asked_t asked = {.n = 0};
    read_asked(&options->shapes, &asked);
    TRY(read_arrays(ctx, options, model, &asked));
    onnx_options_t onnx = {.batch = options->batch,
                           .n_shapes = asked.n,
                           .shapes = asked.shapes,
                           .open_size = options->open_size};
    if (onnx.batch == 0) onnx.batch = sizes_batch(&options->shapes);
    const status_t status = options->is_frozen
                                ? onnx_load_frozen(ctx, model->spec, &onnx, NULL, &model->module)
                                : onnx_load(ctx, model->spec, &onnx, &model->module);
    const bool may_be_size = status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
    if (!may_be_size || options->open_size == 0) return status;
    return explain_open_size(ctx, model, &onnx, status);
}

static status_t load_by_kind(context_t *ctx, const model_options_t *options, model_t *model)
{
    model->kind = model_kind(model->spec);
    switch (model->kind) {
    case MODEL_ZOO: TRY(load_zoo(ctx, model)); break;
    case MODEL_ONNX: TRY(load_onnx(ctx, options, model)); break;
    case MODEL_FROZEN: TRY(load_frozen(ctx, options, model)); break;
    case MODEL_NONE:
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "\"%s\" is not a model, must be file.onnx, file.tessera or zoo:NAME", model->spec);
    }
    TRY(take_inputs(ctx, model));
    return sizes_apply(ctx, model, &options->shapes, options->batch);
}

/* ---- legal ranges of integer inputs ---- */

static int64_t find_integer(const attr_table_t *table, const void *attrs, const char *name)
{
    int64_t value = 0;
    for (int i = 0; i < table->n_fields; i++)
        if (table->fields[i].kind == ATTR_INT && strcmp(table->fields[i].name, name) == 0)
            memcpy(&value, (const char *)attrs + table->fields[i].offset, sizeof value);
    return value;
}

/* Returns the number of rows of the table from which a node gathers; 0 if unknown. */
static int64_t gather_rows(const graph_t *graph, const graph_node_t *node)
{
    if (node->inputs[0] == VALUE_NONE) return 0;
    const graph_type_t *type = graph_value_type(graph, node->inputs[0]);
    int dim = 0;
    if (!type->has_info ||
        !shape_dim(type->info.rank, find_integer(&node->op->attrs, node->attrs, "dim"), &dim))
        return 0;
    return type->info.rank > 0 ? type->info.sizes[dim] : 0;
}

/* Finds the smallest table that a value indexes, also after casts, views and identities. Returns 0
 * if the value is not an index. */
static int64_t index_bound(const graph_t *graph, value_t value, int depth)
{
    const graph_block_t *body = graph_body(graph);
    int64_t bound = 0;
    for (int i = 0; i < body->n_nodes && depth < 8; i++) {
        const graph_node_t *node = body->nodes[i];
        if (node->kind != NODE_OP) continue;
        int64_t found = 0;
        bool passes_on = (node->op->traits & (TRAIT_VIEW | TRAIT_IDENTITY)) != 0 ||
                         strcmp(node->op->name, "cast") == 0;
        if (strcmp(node->op->name, "gather") == 0 && node->n_inputs > 1 && node->inputs[1] == value)
            found = gather_rows(graph, node);
        else if (passes_on && node->n_inputs > 0 && node->inputs[0] == value)
            found = index_bound(graph, node->outputs[0], depth + 1);
        if (found > 0 && (bound == 0 || found < bound)) bound = found;
    }
    return bound;
}

/* Sets the range of random integers for each input: for an index, below the table's length; for
 * bytes, all values, since most are images; otherwise 0 or 1, as for a mask. */
static void find_bounds(model_t *model)
{
    const graph_t *graph = graph_of(model->module, "forward");
    const graph_block_t *body = graph != NULL ? graph_body(graph) : NULL;
    int input = 0;
    for (int i = 0; body != NULL && i < body->n_params && input < model->n_inputs; i++) {
        if (graph_value_type(graph, body->params[i])->kind == TYPE_MODULE) continue;
        model_input_t *at = &model->inputs[input++];
        int64_t bound = index_bound(graph, body->params[i], 0);
        if (at->info.dtype == DTYPE_U8) at->bound = 256;
        if (at->info.dtype == DTYPE_S8) at->bound = 128;
        if (bound > 0) at->bound = bound;
    }
}

status_t model_load(context_t *ctx, const char *spec, const model_options_t *options,
                    model_t *out_model)
{
    model_t model = {.spec = spec};
    status_t status = load_by_kind(ctx, options, &model);
    if (status != STATUS_OK) {
        model_clear(&model);
        return status;
    }
    find_bounds(&model);
    *out_model = model;
    return STATUS_OK;
}

void model_clear(model_t *model)
{
    for (int i = 0; i < model->n_inputs; i++) tensor_release(model->inputs[i].tensor);
    module_release(model->module);
    model->n_inputs = 0;
    model->module = NULL;
}

/* ---- inputs ---- */

/* Fills an integer input with random values from 0 to bound - 1. */
static status_t draw_integers(context_t *ctx, model_input_t *input)
{
    const tensor_info_t *info = &input->info;
    tensor_t *uniform = NULL, *made = NULL;
    const void *src = NULL;
    void *dst = NULL;
    TRY(tensor_rand(ctx, DTYPE_F64, info->rank, info->sizes, &uniform));
    status_t status = tensor_empty(ctx, info->dtype, info->rank, info->sizes, &made);
    if (status == STATUS_OK) status = tensor_data(ctx, uniform, &src);
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, made, &dst);
    size_t size = dtype_size(info->dtype);
    for (int64_t i = 0; status == STATUS_OK && i < info_numel(info); i++) {
        double value = ((const double *)src)[i] * (double)input->bound;
        dtype_store_integer(info->dtype, (char *)dst + (size_t)i * size, (int64_t)value);
    }
    tensor_release(uniform);
    if (status == STATUS_OK)
        input->tensor = made;
    else
        tensor_release(made);
    return status;
}

static status_t draw(context_t *ctx, const model_t *model, model_input_t *input)
{
    const tensor_info_t *info = &input->info;
    REQUIRE(ctx, info->dtype != DTYPE_NONE,
            "%s: shape and type of input %s are unknown, pass --input %s=FILE.npy", model->spec,
            input->name, input->name);
    for (int d = 0; d < info->rank; d++)
        REQUIRE(ctx, info->sizes[d] >= 0, "%s: size %d of input %s is open, set it with --shape",
                model->spec, d, input->name);
    if (dtype_is_floating(info->dtype))
        return tensor_randn(ctx, info->dtype, info->rank, info->sizes, &input->tensor);
    return draw_integers(ctx, input);
}

static status_t check_given(context_t *ctx, model_t *model, int index)
{
    const model_input_t *input = &model->inputs[index];
    const tensor_info_t *want = &input->info, *given = tensor_info(input->tensor);
    char want_text[INFO_TEXT_MAX], given_text[INFO_TEXT_MAX];
    if (want->dtype == DTYPE_NONE) return STATUS_OK;
    REQUIRE(ctx, want->dtype == given->dtype, "input %s: %s was given, must be %s", input->name,
            info_text(given, given_text), info_text(want, want_text));
    return sizes_take(ctx, model, index, given);
}

static status_t read_given(context_t *ctx, model_t *model, const char *argument)
{
    const char *equals = strchr(argument, '=');
    REQUIRE(ctx, equals != NULL && equals != argument && equals[1] != '\0',
            "--input %s, must be NAME=FILE.npy", argument);
    const size_t length = (size_t)(equals - argument);
    const int index = find_named(model, argument);
    if (index >= 0) {
        model_input_t *input = &model->inputs[index];
        REQUIRE(ctx, input->tensor == NULL, "input %s: was given twice", input->name);
        TRY(npy_load(ctx, argument + strlen(input->name) + 1, &input->tensor));
        return check_given(ctx, model, index);
    }
    char names[512] = "";
    for (int i = 0; i < model->n_inputs; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i > 0 ? ", " : "",
                 model->inputs[i].name);
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s has no input \"%.*s\", there are: %s", model->spec,
         (int)length, argument, names);
}

status_t model_fill_inputs(context_t *ctx, model_t *model, const model_options_t *options)
{
    for (int i = 0; i < options->inputs.n; i++)
        TRY(read_given(ctx, model, options->inputs.items[i]));
    if (options->inputs.n > 0) TRY(sizes_check_given(ctx, model, &options->shapes, options->batch));
    for (int i = 0; i < model->n_inputs && !options->draws_none; i++) {
        if (model->inputs[i].tensor != NULL) continue;
        context_seed(ctx, (uint64_t)options->seed + (uint64_t)i * 0x9e3779b97f4a7c15u);
        TRY(draw(ctx, model, &model->inputs[i]));
    }
    return STATUS_OK;
}

/* ---- outputs ---- */

int64_t model_batch(const model_t *model)
{
    const tensor_t *first = model->n_inputs > 0 ? model->inputs[0].tensor : NULL;
    return first != NULL && tensor_rank(first) > 0 ? tensor_sizes(first)[0] : 1;
}

const char *model_output_name(const module_t *module, int index, int n_outputs, char *out_name)
{
    const char *name = name_at(find_names(module, "output_names"), index);
    if (name != NULL)
        snprintf(out_name, MODEL_NAME_MAX, "%s", name);
    else if (n_outputs == 1)
        snprintf(out_name, MODEL_NAME_MAX, "output");
    else
        snprintf(out_name, MODEL_NAME_MAX, "output%d", index);
    return out_name;
}
