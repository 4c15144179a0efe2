/* Freezing by name, method by method: tensors that convolutions and batch norms take, and flags
 * that decide an `if`. The rest of the method stays as it is. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/attribute_impl.h"
#include "graph/graph_impl.h"
#include "graph/pass_impl.h"
#include "tensor/context_impl.h"

static status_t find_method(context_t *ctx, const module_t *module, const char *method,
                            const char *who, graph_t **out_graph)
{
    if (module == NULL) return context_null(ctx, who, "module");
    if (method == NULL) return context_null(ctx, who, "method");
    *out_graph = graph_of(module, method);
    REQUIRE(ctx, *out_graph != NULL,
            "%s: %s has no graph method \"%s\", graph_trace or graph_define makes one", who,
            module_type(module), method);
    return STATUS_OK;
}

/* Calls on modules below become part of the method, and every getattr that can be is one of self.
 */
static status_t inline_calls(context_t *ctx, module_t *module, const graph_t *graph,
                             graph_t **out_graph)
{
    static const char *const names[] = {"inline", NULL};
    return pass_run(ctx, graph, names, &(pass_options_t){.self = module}, out_graph);
}

/* ---- parameters ---- */

/* What operators that batch norm was folded by call its operands. */
static const struct alias_name {
    const char *operand, *param;
} folded_names[] = {
    {"scale", "weight"}, {"shift", "bias"}, {"mean", "running_mean"}, {"variance", "running_var"}};

static bool is_reader(const graph_node_t *node)
{
    static const char *const readers[] = {"conv1d",           "conv2d",           "conv3d",
                                          "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
                                          "batch_norm",       "fold_weight",      "fold_bias"};
    if (node->kind != NODE_OP) return false;
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (strcmp(node->op->name, readers[i]) == 0) return true;
    return false;
}

static bool is_called(const operand_t *operand, const char *param)
{
    if (strcmp(operand->name, param) == 0) return true;
    for (size_t i = 0; i < sizeof folded_names / sizeof *folded_names; i++)
        if (strcmp(operand->name, folded_names[i].operand) == 0)
            return strcmp(folded_names[i].param, param) == 0;
    return false;
}

/* Wanted: attributes that a reader takes by this name, though conversions stand between. */
typedef struct wanted {
    context_t *ctx;
    const graph_t *graph;
    module_t *module;
    const char *param;
    attribute_t *attributes;
    int n_attributes, capacity;
    const char **others; /* paths of all other attributes that the graph reads */
    int n_others, others_capacity;
} wanted_t;

/* The getattr of self, of a tensor or of an absent one, that a value comes from. */
static bool find_tensor(const wanted_t *wanted, value_t value, attribute_t *out_attribute)
{
    const graph_node_t *maker = value < 0 ? NULL : graph_producer(wanted->graph, value);
    while (maker != NULL && maker->kind == NODE_OP && graph_is_conversion(maker->op))
        maker = graph_producer(wanted->graph, maker->inputs[0]);
    const graph_block_t *body = graph_body(wanted->graph);
    bool is_own = maker != NULL && maker->kind == NODE_GETATTR && body->n_params > 0 &&
                  maker->inputs[0] == body->params[0];
    if (!is_own || !attribute_find(wanted->module, maker->name, out_attribute)) return false;
    return out_attribute->kind == MEMBER_PARAMETER || out_attribute->kind == MEMBER_BUFFER ||
           attribute_tensor(out_attribute) != NULL;
}

static status_t note_reader(void *user, const graph_node_t *node)
{
    wanted_t *wanted = user;
    if (!is_reader(node)) return STATUS_OK;
    for (int i = 0; i < node->n_inputs && i < node->op->n_operands; i++) {
        attribute_t attribute;
        if (!is_called(&node->op->operands[i], wanted->param) ||
            !find_tensor(wanted, node->inputs[i], &attribute))
            continue;
        TRY(context_grow(wanted->ctx, &wanted->attributes, &wanted->capacity,
                         wanted->n_attributes + 1, sizeof *wanted->attributes));
        wanted->attributes[wanted->n_attributes++] = attribute;
    }
    return STATUS_OK;
}

static bool is_wanted(const wanted_t *wanted, const char *path)
{
    attribute_t attribute;
    if (!attribute_find(wanted->module, path, &attribute)) return false;
    for (int i = 0; i < wanted->n_attributes; i++)
        if (wanted->attributes[i].owner == attribute.owner &&
            strcmp(wanted->attributes[i].name, attribute.name) == 0)
            return true;
    return false;
}

static status_t note_other(void *user, const graph_node_t *node)
{
    wanted_t *wanted = user;
    if (node->kind != NODE_GETATTR || is_wanted(wanted, node->name)) return STATUS_OK;
    TRY(context_grow(wanted->ctx, &wanted->others, &wanted->others_capacity, wanted->n_others + 2,
                     sizeof *wanted->others));
    wanted->others[wanted->n_others++] = node->name;
    wanted->others[wanted->n_others] = NULL;
    return STATUS_OK;
}

/* Constants are made from a copy of the module, so that later writes to it do not show. */
static status_t freeze_wanted(context_t *ctx, const wanted_t *wanted, graph_t **out_graph)
{
    static const char *const names[] = {"attributes", "dead_code", NULL};
    module_t *copy = NULL;
    TRY(module_clone(ctx, wanted->module, &copy));
    status_t status = pass_run(ctx, wanted->graph, names,
                               &(pass_options_t){.self = copy, .keep = wanted->others}, out_graph);
    module_release(copy);
    return status;
}

static status_t freeze_inlined(context_t *ctx, module_t *module, const graph_t *graph,
                               const char *param, graph_t **out_graph)
{
    wanted_t wanted = {.ctx = ctx, .graph = graph, .module = module, .param = param};
    const graph_block_t *body = graph_body(graph);
    status_t status = rewrite_visit(body, note_reader, &wanted);
    if (status == STATUS_OK) status = rewrite_visit(body, note_other, &wanted);
    if (status == STATUS_OK)
        status = wanted.n_attributes > 0 ? freeze_wanted(ctx, &wanted, out_graph)
                                         : rewrite_nothing(graph, out_graph);
    context_put(ctx, wanted.attributes);
    context_put(ctx, wanted.others);
    return status;
}

status_t freeze_params(context_t *ctx, module_t *module, const char *method, const char *param)
{
    graph_t *graph = NULL, *inlined = NULL, *frozen = NULL;
    TRY(find_method(ctx, module, method, "freeze_params", &graph));
    if (param == NULL) return context_null(ctx, "freeze_params", "param");
    bool is_known = false;
    for (size_t i = 0; i < sizeof folded_names / sizeof *folded_names; i++)
        is_known |= strcmp(param, folded_names[i].param) == 0;
    REQUIRE(ctx, is_known,
            "freeze_params: \"%s\", Invalid Param Name: weight, bias, running_mean or running_var",
            param);
    TRY(inline_calls(ctx, module, graph, &inlined));
    status_t status = freeze_inlined(ctx, module, inlined, param, &frozen);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, method, frozen);
    graph_release(frozen);
    graph_release(inlined);
    return status;
}

/* ---- flags ---- */

typedef struct flag {
    const char *name;
    bool value;
} flag_t;

static bool is_flag(const graph_t *graph, value_t value, const char *name)
{
    const graph_node_t *maker = value < 0 ? NULL : graph_producer(graph, value);
    if (maker == NULL || maker->kind != NODE_GETATTR) return false;
    const char *dot = strrchr(maker->name, '.');
    return strcmp(dot != NULL ? dot + 1 : maker->name, name) == 0;
}

static status_t decide(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    const flag_t *flag = rewrite->user;
    *out_done = node->kind == NODE_IF && is_flag(rewrite->from, node->inputs[0], flag->name);
    return *out_done ? rewrite_branch(rewrite, node, flag->value) : STATUS_OK;
}

static status_t freeze_flag(context_t *ctx, const graph_t *graph, flag_t *flag,
                            graph_t **out_graph)
{
    static const char *const names[] = {"dead_code", NULL};
    graph_t *decided = NULL;
    TRY(rewrite_graph(ctx, graph, decide, flag, &decided));
    status_t status = pass_run(ctx, decided, names, NULL, out_graph);
    graph_release(decided);
    return status;
}

status_t freeze_flags(context_t *ctx, module_t *module, const char *method, const char *flag,
                      bool value)
{
    graph_t *graph = NULL, *inlined = NULL, *frozen = NULL;
    TRY(find_method(ctx, module, method, "freeze_flags", &graph));
    if (flag == NULL) return context_null(ctx, "freeze_flags", "flag");
    TRY(inline_calls(ctx, module, graph, &inlined));
    status_t status = freeze_flag(ctx, inlined, &(flag_t){flag, value}, &frozen);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, method, frozen);
    graph_release(frozen);
    graph_release(inlined);
    return status;
}
