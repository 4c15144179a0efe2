/* Freezes a clone of the module: runs the pass pipelines on the methods, then removes what the
 * methods no longer need.
 *
 * An attribute can become a constant if no method that stays can change it. Writes in branches that
 * are never taken do not count. So methods are inlined and unused methods are removed first, and
 * freezing is repeated as long as a method loses a call or a write. */
#include "freeze/freeze.h"

#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/analysis/attribute_impl.h"
#include "graph/method/method_impl.h"
#include "graph/passes/pass_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/text_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- the mark ---- */

static status_t mark(context_t *ctx, module_t *module, const char *const *preserved)
{
    datum_t *paths = NULL;
    TRY(datum_list(ctx, 0, NULL, &paths));
    status_t status = STATUS_OK;
    for (; preserved != NULL && *preserved != NULL && status == STATUS_OK; preserved++) {
        datum_t *path = NULL;
        status = datum_string(ctx, *preserved, &path);
        if (status == STATUS_OK) status = datum_append(ctx, paths, path);
        datum_release(path);
    }
    if (status == STATUS_OK) status = module_set_attribute(ctx, module, FREEZE_MARK, paths);
    datum_release(paths);
    return status;
}

bool freeze_is_border(const module_t *root, const module_t *owner, const char *name)
{
    static const char *const borders[] = {"training", FREEZE_MARK, FREEZE_SOURCE, "input_names",
                                          "output_names"};
    for (size_t i = 0; owner == root && i < sizeof borders / sizeof *borders; i++)
        if (strcmp(name, borders[i]) == 0) return true;
    return false;
}

bool freeze_is_frozen(const module_t *module)
{
    const datum_t *paths = module != NULL ? module_attribute(module, FREEZE_MARK) : NULL;
    return paths != NULL && datum_kind(paths) == DATUM_LIST;
}

status_t freeze_owner(context_t *ctx, module_t *root, const char *path, const char **out_name,
                      module_t **out_owner)
{
    const char *dot;
    module_t *owner = root;
    while ((dot = strchr(path, '.')) != NULL) {
        char name[256];
        size_t length = (size_t)(dot - path);
        REQUIRE(ctx, length > 0 && length < sizeof name, "freeze: path \"%s\" is too long", path);
        memcpy(name, path, length);
        name[length] = '\0';
        module_t *child = module_child(owner, name);
        if (child == NULL) {
            TRY(module_create(ctx, "Module", &child));
            status_t status = module_set_child(ctx, owner, name, child);
            module_release(child);
            TRY(status);
            child = module_child(owner, name);
        }
        owner = child;
        path = dot + 1;
    }
    *out_name = path;
    *out_owner = owner;
    return STATUS_OK;
}

/* ---- checks of the request ---- */

static status_t check_names(context_t *ctx, module_t *module, const freeze_options_t *options,
                            bool *out_has_graph)
{
    for (const char *const *name = options->preserved; name != NULL && *name != NULL; name++) {
        attribute_t member;
        REQUIRE(ctx, attribute_find(module, *name, &member),
                "freeze: \"%s\" is unknown, %s has no attribute, module or method of this name",
                *name, module_type(module));
        if (member.kind != MEMBER_METHOD) continue;
        REQUIRE(ctx, graph_of(member.owner, member.name) != NULL,
                "freeze: method \"%s\" has no graph, use graph_trace or graph_define", *name);
        *out_has_graph = true;
    }
    return STATUS_OK;
}

static status_t check_calibration(context_t *ctx, const freeze_options_t *options)
{
    REQUIRE(ctx,
            options->calibration >= CALIBRATION_PERCENTILE &&
                options->calibration <= CALIBRATION_MINMAX,
            "freeze: calibration %d is unknown", (int)options->calibration);
    REQUIRE(ctx, options->percentile >= 0.0 && options->percentile <= 100.0,
            "freeze: percentile %g, must be 0 to 100", options->percentile);
    if (options->dtype != DTYPE_S8) return STATUS_OK;
    REQUIRE(ctx, options->n_examples > 0,
            "freeze: dtype s8 without examples, which are needed to find the ranges of values");
    REQUIRE(ctx, !options->no_optimize,
            "freeze: dtype s8 with no_optimize, only optimising forward makes it s8");
    return STATUS_OK;
}

static status_t check_dtype(context_t *ctx, const freeze_options_t *options)
{
    const dtype_t dtype = options->dtype;
    const bool is_narrow = dtype == DTYPE_BF16 || dtype == DTYPE_S8;
    REQUIRE(ctx, is_narrow || dtype == DTYPE_NONE || dtype == DTYPE_F32,
            "freeze: dtype %s, must be f32, bf16 or s8",
            dtype > DTYPE_NONE && dtype < DTYPE_COUNT ? dtype_name(dtype) : "of unknown name");
    REQUIRE(ctx, !is_narrow || !options->keep_numerics,
            "freeze: dtype %s changes the last bits, which keep_numerics forbids",
            dtype_name(dtype));
    REQUIRE(ctx,
            options->n_examples >= 0 && (options->n_examples == 0 || options->examples != NULL),
            "freeze: n_examples %d, needs that many examples", options->n_examples);
    REQUIRE(ctx, options->max_error >= 0.0, "freeze: max_error %g, must be at least 0",
            options->max_error);
    REQUIRE(ctx, !freeze_bounds_layers(options) || options->n_examples > 0,
            "freeze: max_error %g without examples, which are needed to measure layers",
            options->max_error);
    return check_calibration(ctx, options);
}

static status_t check_error(context_t *ctx, const char *call, const freeze_options_t *options)
{
    REQUIRE(ctx, options->rounding_error >= 0.0, "%s: rounding_error %g, must be at least 0", call,
            options->rounding_error);
    return STATUS_OK;
}

static status_t check_module(context_t *ctx, module_t *module, const freeze_options_t *options)
{
    TRY(check_dtype(ctx, options));
    REQUIRE(ctx, options->plans >= 0, "freeze: plans %d, must be at least 0", options->plans);
    TRY(check_error(ctx, "freeze", options));
    REQUIRE(ctx, !module_is_training(module),
            "freeze: %s is in training mode, only evaluation mode can be frozen: "
            "module_train(ctx, module, false)",
            module_type(module));
    REQUIRE(ctx, options->dtype != DTYPE_S8 || !freeze_is_frozen(module),
            "freeze: dtype s8, but %s is frozen already; freeze the original module",
            module_type(module));
    bool has_graph = graph_of(module, "forward") != NULL;
    REQUIRE(ctx, has_graph || options->dtype != DTYPE_S8,
            "freeze: dtype s8, but forward of %s has no graph to calibrate", module_type(module));
    TRY(check_names(ctx, module, options, &has_graph));
    REQUIRE(ctx, has_graph, "freeze: no method of %s has a graph, use graph_trace or graph_define",
            module_type(module));
    return STATUS_OK;
}

static status_t list_wishes(context_t *ctx, module_t *root, const freeze_options_t *options,
                            freeze_methods_t *methods)
{
    if (graph_of(root, "forward") != NULL)
        TRY(freeze_add_method(ctx, methods, root, "forward", true));
    for (const char *const *name = options->preserved; name != NULL && *name != NULL; name++) {
        attribute_t member;
        if (!attribute_find(root, *name, &member)) continue;
        if (member.kind == MEMBER_METHOD)
            TRY(freeze_add_method(ctx, methods, root, *name, true));
        else if (member.kind == MEMBER_CHILD)
            TRY(freeze_add_methods(ctx, methods, module_child(member.owner, member.name)));
    }
    return STATUS_OK;
}

/* ---- passes ---- */

/* Replaces a method's graph by the result of the passes. */
static status_t run_passes(context_t *ctx, const freeze_method_t *method, const char *const *names,
                           const pass_options_t *options)
{
    graph_t *graph = NULL;
    pass_options_t own = *options;
    own.self = method->owner;
    TRY(pass_run(ctx, graph_of(method->owner, method->name), names, &own, &graph));
    FINISH(graph_set_method(ctx, method->owner, method->name, graph), graph_release(graph));
}

static status_t check_results(context_t *ctx, const freeze_method_t *method)
{
    const graph_t *graph = graph_of(method->owner, method->name);
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_results; i++)
        REQUIRE(ctx,
                body->results[i] < 0 || body->n_params == 0 ||
                    body->results[i] != body->params[0] ||
                    graph_value_type(graph, body->params[0])->kind != TYPE_MODULE,
                "freeze: %s of %s returns the module itself, which cannot be frozen", method->name,
                module_type(method->owner));
    return STATUS_OK;
}

/* Lists the methods to keep, and inlines their calls where possible. Removes all other methods. */
static status_t list_methods(context_t *ctx, module_t *root, const freeze_options_t *options,
                             const pass_options_t *passes, freeze_methods_t *methods)
{
    static const char *const inlining[] = {"inline", "dead_code", NULL};
    pass_options_t quiet = {.skip = passes->skip, .root = root};
    TRY(list_wishes(ctx, root, options, methods));
    for (int i = 0; i < methods->n; i++) {
        freeze_method_t method = methods->items[i];
        if (method.is_frozen) {
            TRY(run_passes(ctx, &method, inlining, &quiet));
            TRY(check_results(ctx, &method));
        }
        TRY(freeze_add_callees(ctx, methods, root, i));
    }
    return freeze_drop_methods(ctx, root, methods);
}

/* Numbers of nodes by which a method may change attributes. */
typedef struct effects {
    int n_calls, n_writes;
} effects_t;

static status_t count_effect(void *user, const graph_node_t *node)
{
    effects_t *effects = user;
    bool has_effect = node->n_blocks == 0 && alias_has_effect(node);
    effects->n_calls += node->kind == NODE_CALL;
    effects->n_writes += has_effect && node->kind != NODE_CALL;
    return STATUS_OK;
}

static effects_t count_effects(const freeze_method_t *method)
{
    effects_t effects = {0, 0};
    const graph_t *graph = graph_of(method->owner, method->name);
    (void)rewrite_visit(graph_body(graph), count_effect, &effects);
    return effects;
}

static status_t freeze_round(context_t *ctx, module_t *root, const freeze_options_t *options,
                             const pass_options_t *passes, freeze_methods_t *methods,
                             bool *out_loses)
{
    methods->n = 0;
    *out_loses = false;
    TRY(list_methods(ctx, root, options, passes, methods));
    for (int i = 0; i < methods->n; i++) {
        if (!methods->items[i].is_frozen) continue;
        effects_t before = count_effects(&methods->items[i]);
        TRY(run_passes(ctx, &methods->items[i], pass_pipeline_freeze(), passes));
        effects_t after = count_effects(&methods->items[i]);
        *out_loses |= after.n_calls < before.n_calls || after.n_writes < before.n_writes;
    }
    return STATUS_OK;
}

/* Turns a graph method into a plan method. */
static status_t plan_method(context_t *ctx, const freeze_method_t *method,
                            const freeze_options_t *options)
{
    graph_t *graph = graph_retain(graph_of(method->owner, method->name));
    status_t status = plan_set_method_without(ctx, method->owner, method->name, graph,
                                              options->plans, options->skip);
    graph_release(graph);
    return status == STATUS_OK ? plan_warm(ctx, method->owner, method->name) : status;
}

static pass_options_t pass_options_of(const freeze_options_t *options, module_t *root)
{
    return (pass_options_t){.skip = options->skip,
                            .after = options->after,
                            .dump = options->dump,
                            .dump_user = options->dump_user,
                            .keep_numerics = options->keep_numerics,
                            .dtype = options->dtype,
                            .keep_f32 = options->keep_f32,
                            .rounding_error = options->rounding_error,
                            .has_rounding_error = options->has_rounding_error,
                            .root = root,
                            .keep = options->preserved};
}

/* A pattern of keep_f32, and whether it matches the path of an operator. */
typedef struct pattern {
    const char *text;
    bool is_found;
} pattern_t;

static status_t find_pattern(void *user, const graph_node_t *node)
{
    pattern_t *pattern = user;
    pattern->is_found |= node->kind == NODE_OP && node->path != NULL &&
                         text_matches(pattern->text, node->path);
    return STATUS_OK;
}

static status_t check_patterns(context_t *ctx, const freeze_options_t *options,
                               const freeze_methods_t *methods)
{
    for (const char *const *text = options->keep_f32; text != NULL && *text != NULL; text++) {
        pattern_t pattern = {*text, false};
        for (int i = 0; i < methods->n; i++) {
            const freeze_method_t *method = &methods->items[i];
            if (!method->is_frozen) continue;
            (void)rewrite_visit(graph_body(graph_of(method->owner, method->name)), find_pattern,
                                &pattern);
        }
        REQUIRE(ctx, pattern.is_found, "freeze: keep_f32 \"%s\" matches no operator", *text);
    }
    return STATUS_OK;
}

/* The passes for `forward`. Ranges belong to names of values in the calibrated graph, so passes
 * before `quantize`, which could rename values, must not run again. Another method may have values
 * of the same names, so only `forward` uses the ranges. */
static const char *const *rest_of_passes(const freeze_narrow_t *narrow)
{
    const char *const *names = pass_pipeline_optimize();
    while (narrow->passes.n_ranges > 0 && strcmp(*names, "quantize") != 0) names++;
    return names;
}

static status_t optimize_methods(context_t *ctx, module_t *root, const freeze_options_t *options,
                                 const pass_options_t *passes, const freeze_methods_t *methods)
{
    freeze_narrow_t narrow;
    if (options->no_optimize) return STATUS_OK;
    status_t status = freeze_narrow(ctx, root, options, passes, &narrow);
    pass_options_t other = narrow.passes;
    other.n_ranges = 0;
    for (int i = 0; i < methods->n && status == STATUS_OK; i++) {
        const freeze_method_t *method = &methods->items[i];
        const bool is_forward = method->owner == root && strcmp(method->name, "forward") == 0;
        if (method->is_frozen)
            status = run_passes(ctx, method,
                                is_forward ? rest_of_passes(&narrow) : pass_pipeline_optimize(),
                                is_forward ? &narrow.passes : &other);
    }
    freeze_narrow_clear(ctx, &narrow);
    return status;
}

static status_t freeze_methods(context_t *ctx, module_t *root, const freeze_options_t *options,
                               freeze_methods_t *methods)
{
    pass_options_t passes = pass_options_of(options, root);
    for (bool loses = true; loses;) TRY(freeze_round(ctx, root, options, &passes, methods, &loses));
    TRY(check_patterns(ctx, options, methods));
    TRY(optimize_methods(ctx, root, options, &passes, methods));
    TRY(freeze_drop_members(ctx, root, methods, options->preserved));
    for (int i = 0; i < methods->n; i++)
        if (methods->items[i].is_frozen) TRY(plan_method(ctx, &methods->items[i], options));
    return mark(ctx, root, options->preserved);
}

/* Freezes a copy that nothing else owns. Releases it on failure. */
static status_t freeze_copy(context_t *ctx, module_t *copy, const freeze_options_t *options,
                            module_t **out_frozen)
{
    freeze_methods_t methods = {0};
    status_t status = freeze_methods(ctx, copy, options, &methods);
    context_put(ctx, methods.items);
    GIVE(status, out_frozen, copy, module_release(copy));
}

/* ---- public functions ---- */

static const freeze_options_t no_options;

static status_t freeze_clone(context_t *ctx, module_t *module, const freeze_options_t *options,
                             module_t **out_frozen)
{
    module_t *copy = NULL;
    TRY(check_module(ctx, module, options));
    TRY(module_clone(ctx, module, &copy));
    if (!freeze_is_frozen(module)) return freeze_copy(ctx, copy, options, out_frozen);
    *out_frozen = copy;
    return STATUS_OK;
}

status_t freeze(context_t *ctx, module_t *module, const freeze_options_t *options,
                module_t **out_frozen)
{
    TRY(context_output(ctx, "freeze", out_frozen));
    if (module == NULL) return context_null(ctx, "freeze", "module");
    if (options == NULL) options = &no_options;
    INTERRUPTIBLE(ctx, "freeze", freeze_clone(ctx, module, options, out_frozen));
}

static status_t freeze_taken(context_t *ctx, module_t **module, const freeze_options_t *options,
                             module_t **out_frozen)
{
    module_t *copy = NULL;
    TRY(check_module(ctx, *module, options));
    if (freeze_is_frozen(*module)) {
        *out_frozen = *module;
    } else {
        TRY(module_snapshot(ctx, *module, &copy));
        TRY(freeze_copy(ctx, copy, options, out_frozen));
        module_release(*module);
    }
    *module = NULL;
    return STATUS_OK;
}

status_t freeze_take(context_t *ctx, module_t **module, const freeze_options_t *options,
                     module_t **out_frozen)
{
    TRY(context_output(ctx, "freeze_take", out_frozen));
    if (module == NULL || *module == NULL) return context_null(ctx, "freeze_take", "module");
    if (options == NULL) options = &no_options;
    INTERRUPTIBLE(ctx, "freeze_take", freeze_taken(ctx, module, options, out_frozen));
}

static status_t list_plans(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD && plan_is_method(module, name))
            TRY(freeze_add_method(ctx, user, module, name, true));
    }
    return STATUS_OK;
}

/* Replaces all graphs of the method. */
static status_t replace_graphs(context_t *ctx, const freeze_method_t *method, int n,
                               graph_t *const *graphs, const char *const *skip)
{
    const int plans = plan_capacity(method->owner, method->name);
    plan_extend_t *extend = plan_extends(method->owner, method->name);
    TRY(plan_set_method_without(ctx, method->owner, method->name, graphs[0], plans, skip));
    for (int i = 1; i < n; i++) TRY(plan_add_graph(ctx, method->owner, method->name, graphs[i]));
    plan_set_extend(method->owner, method->name, extend);
    return plan_warm(ctx, method->owner, method->name);
}

/* Runs the passes on the graphs of a method. If no graph changes, the method keeps its plans. */
static status_t optimize_method(context_t *ctx, const freeze_method_t *method,
                                const pass_options_t *options)
{
    graph_t *graphs[PLAN_MAX_GRAPHS] = {NULL};
    const int n = plan_n_graphs(method->owner, method->name);
    pass_options_t own = *options;
    status_t status = STATUS_OK;
    bool has_changes = false;
    own.self = method->owner;
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        graph_t *before = plan_graph_at(method->owner, method->name, i);
        status = pass_run(ctx, before, pass_pipeline_optimize(), &own, &graphs[i]);
        has_changes |= graphs[i] != before;
    }
    if (status == STATUS_OK && has_changes)
        status = replace_graphs(ctx, method, n, graphs, options->skip);
    for (int i = 0; i < n; i++) graph_release(graphs[i]);
    return status;
}

status_t freeze_optimize(context_t *ctx, module_t *frozen, const freeze_options_t *options)
{
    if (frozen == NULL) return context_null(ctx, "freeze_optimize", "frozen");
    if (options == NULL) options = &no_options;
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_optimize: %s is not frozen, freeze it first",
            module_type(frozen));
    TRY(check_dtype(ctx, options));
    REQUIRE(ctx, options->dtype != DTYPE_S8,
            "freeze_optimize: dtype s8, only freeze can convert to s8");
    TRY(check_error(ctx, "freeze_optimize", options));
    freeze_methods_t methods = {0};
    pass_options_t passes = pass_options_of(options, frozen);
    interrupt_begin(ctx, "freeze_optimize");
    status_t status = module_walk(ctx, frozen, list_plans, &methods);
    for (int i = 0; i < methods.n && status == STATUS_OK; i++)
        status = optimize_method(ctx, &methods.items[i], &passes);
    context_put(ctx, methods.items);
    return interrupt_end(ctx, status);
}

static status_t set_plans(context_t *ctx, void *user, const char *path, module_t *module)
{
    (void)ctx, (void)path;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind == MEMBER_METHOD) plan_set_capacity(module, name, *(const int *)user);
    }
    return STATUS_OK;
}

status_t freeze_set_plans(context_t *ctx, module_t *frozen, int plans)
{
    if (frozen == NULL) return context_null(ctx, "freeze_set_plans", "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_set_plans: %s is not frozen, freeze it first",
            module_type(frozen));
    REQUIRE(ctx, plans >= 0, "freeze_set_plans: plans %d, must be at least 0", plans);
    return module_walk(ctx, frozen, set_plans, &plans);
}
