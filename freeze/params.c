/* Freezing by name in one method: tensors that convolutions and batch norms read, and flags that
 * decide an `if`. The rest of the method stays. */
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/pass_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"

static status_t check_method(context_t *ctx, const module_t *module, const char *method,
                             const char *who)
{
    if (module == NULL) return context_null(ctx, who, "module");
    if (method == NULL) return context_null(ctx, who, "method");
    REQUIRE(ctx, graph_of(module, method) != NULL,
            "%s: %s has no graph method \"%s\", use graph_trace or graph_define", who,
            module_type(module), method);
    return STATUS_OK;
}

/* Inlines calls of descendants' methods, so that most attributes are read from self. */
static status_t inline_calls(context_t *ctx, module_t *module, const char *method,
                             graph_t **out_graph)
{
    static const char *const names[] = {"inline", "dead_code", NULL};
    return pass_run(ctx, graph_of(module, method), names, &(pass_options_t){.self = module},
                    out_graph);
}

static status_t inline_method(context_t *ctx, module_t *module, const char *method)
{
    graph_t *inlined = NULL;
    TRY(inline_calls(ctx, module, method, &inlined));
    FINISH(graph_set_method(ctx, module, method, inlined), graph_release(inlined));
}

/* ---- parameters ---- */

/* Names of operands of the operators that replace a folded batch norm. */
static const struct alias_name {
    const char *operand, *param;
} folded_names[] = {
    {"scale", "weight"}, {"shift", "bias"}, {"mean", "running_mean"}, {"variance", "running_var"}};

static bool is_reader(const graph_node_t *node)
{
    return rewrite_conv(node) > 0 || rewrite_conv_transpose(node) > 0 ||
           rewrite_is_op(node, "batch_norm") || rewrite_is_op(node, "fold_weight") ||
           rewrite_is_op(node, "fold_bias");
}

static bool is_called(const operand_t *operand, const char *param)
{
    if (strcmp(operand->name, param) == 0) return true;
    for (size_t i = 0; i < sizeof folded_names / sizeof *folded_names; i++)
        if (strcmp(operand->name, folded_names[i].operand) == 0)
            return strcmp(folded_names[i].param, param) == 0;
    return false;
}

/* Paths of attributes that convolutions and batch norms read as operand `param`, perhaps through
 * conversions. */
typedef struct wanted {
    context_t *ctx;
    const graph_t *graph;
    const char *param;
    const char **paths; /* NULL-terminated */
    int n, capacity;
} wanted_t;

/* The getattr that produces a value, before any conversions; NULL if there is none. */
static const graph_node_t *find_getattr(const graph_t *graph, value_t value)
{
    value = rewrite_before_conversions(graph, value);
    const graph_node_t *maker = value < 0 ? NULL : graph_producer(graph, value);
    return maker != NULL && maker->kind == NODE_GETATTR ? maker : NULL;
}

static status_t note_reader(void *user, const graph_node_t *node)
{
    wanted_t *wanted = user;
    if (!is_reader(node)) return STATUS_OK;
    for (int i = 0; i < node->n_inputs && i < node->op->n_operands; i++) {
        const graph_node_t *getattr = find_getattr(wanted->graph, node->inputs[i]);
        if (getattr == NULL || !is_called(&node->op->operands[i], wanted->param)) continue;
        TRY(context_grow(wanted->ctx, &wanted->paths, &wanted->capacity, wanted->n + 2,
                         sizeof *wanted->paths));
        wanted->paths[wanted->n++] = getattr->name;
        wanted->paths[wanted->n] = NULL;
    }
    return STATUS_OK;
}

/* Inlines calls in the module's own methods, so that these contain all their writes. Removes
 * methods that no remaining call can reach. */
static status_t inline_methods(context_t *ctx, module_t *module, freeze_methods_t *methods)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD && graph_of(module, name) != NULL)
            TRY(freeze_add_method(ctx, methods, module, name, true));
    }
    for (int i = 0; i < methods->n; i++) {
        const freeze_method_t *method = &methods->items[i];
        if (method->is_frozen) TRY(inline_method(ctx, method->owner, method->name));
        TRY(freeze_add_callees(ctx, methods, module, i));
    }
    return freeze_drop_methods(ctx, module, methods);
}

/* Freezes in a module that may be changed. Returns the method's new graph. */
static status_t freeze_in(context_t *ctx, module_t *module, const char *method, const char *param,
                          graph_t **out_graph)
{
    static const char *const passes[] = {"attributes", "dead_code", NULL};
    freeze_methods_t methods = {0};
    status_t status = inline_methods(ctx, module, &methods);
    context_put(ctx, methods.items);
    TRY(status);
    wanted_t wanted = {.ctx = ctx, .graph = graph_of(module, method), .param = param};
    status = rewrite_visit(graph_body(wanted.graph), note_reader, &wanted);
    if (status == STATUS_OK)
        status = wanted.n == 0
                     ? rewrite_nothing(wanted.graph, out_graph)
                     : pass_run(ctx, wanted.graph, passes,
                                &(pass_options_t){.self = module, .only = wanted.paths}, out_graph);
    context_put(ctx, wanted.paths);
    return status;
}

/* Takes the constants from a copy of the module, which shares bytes with it until a write. */
status_t freeze_params(context_t *ctx, module_t *module, const char *method, const char *param)
{
    TRY(check_method(ctx, module, method, "freeze_params"));
    if (param == NULL) return context_null(ctx, "freeze_params", "param");
    bool is_known = false;
    for (size_t i = 0; i < sizeof folded_names / sizeof *folded_names; i++)
        is_known |= strcmp(param, folded_names[i].param) == 0;
    REQUIRE(ctx, is_known,
            "freeze_params: \"%s\", Invalid Param Name: weight, bias, running_mean or running_var",
            param);
    module_t *copy = NULL;
    graph_t *graph = NULL;
    TRY(module_snapshot(ctx, module, &copy));
    status_t status = freeze_in(ctx, copy, method, param, &graph);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, method, graph);
    graph_release(graph);
    module_release(copy);
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

static status_t freeze_flag(context_t *ctx, const graph_t *graph, flag_t *flag, graph_t **out_graph)
{
    static const char *const names[] = {"dead_code", NULL};
    graph_t *decided = NULL;
    TRY(rewrite_graph(ctx, graph, decide, flag, &decided));
    FINISH(pass_run(ctx, decided, names, NULL, out_graph), graph_release(decided));
}

status_t freeze_flags(context_t *ctx, module_t *module, const char *method, const char *flag,
                      bool value)
{
    graph_t *inlined = NULL, *frozen = NULL;
    TRY(check_method(ctx, module, method, "freeze_flags"));
    if (flag == NULL) return context_null(ctx, "freeze_flags", "flag");
    TRY(inline_calls(ctx, module, method, &inlined));
    status_t status = freeze_flag(ctx, inlined, &(flag_t){flag, value}, &frozen);
    if (status == STATUS_OK) status = graph_set_method(ctx, module, method, frozen);
    graph_release(frozen);
    graph_release(inlined);
    return status;
}
