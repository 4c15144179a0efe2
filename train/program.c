/* Creates a program: traces forward and loss, adds gradients, chooses formats, makes the plan.
 *
 *   graph step(%self : module, %x, %target) {
 *     %w = getattr(%self) name="model.0.weight"
 *     ...                                             forward, loss
 *     ...                                             nodes added by graph_grad
 *     return %loss, %output, %states.., %gradients..
 *   }
 *
 * The trace runs on a copy of the module, so that running statistics do not change. If possible it
 * computes no elements. A tensor that the forward pass writes in place (running statistics of a
 * batch norm) becomes a result of the graph, which the trainer copies to the module's buffer. */
#include <inttypes.h>
#include <string.h>

#include "dispatch/hollow_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/method/trace_impl.h"
#include "graph/passes/pass_impl.h"
#include "module/module_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"
#include "train/graph_grad_impl.h"
#include "train/program_impl.h"

#define PREFIX "model."

/* ---- the traced module ---- */

typedef struct step_state {
    train_loss_t loss;
    void *user;
} step_state_t;

static status_t run_step(context_t *ctx, module_t *self, void *state, int n_in, datum_t *const *in,
                         int *n_out, datum_t **out)
{
    const step_state_t *step = state;
    datum_t *results[METHOD_MAX_OUTPUTS] = {NULL};
    tensor_t *loss = NULL;
    int n_results = METHOD_MAX_OUTPUTS;
    TRY(module_call(ctx, module_child(self, "model"), "forward", n_in - 1, in, &n_results,
                    results));
    tensor_t *output = n_results > 0 ? datum_as_tensor(results[0]) : NULL;
    status_t status = STATUS_OK;
    if (output == NULL)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "trainer_step: the module's first result is not a tensor");
    if (status == STATUS_OK)
        status = step->loss(ctx, step->user, output, datum_as_tensor(in[n_in - 1]), &loss);
    if (status == STATUS_OK) {
        scope_take(ctx, loss);
        status = datum_tensor(ctx, loss, &out[TRAIN_RESULT_LOSS]);
        tensor_drop(loss);
    }
    if (status == STATUS_OK) {
        out[TRAIN_RESULT_OUTPUT] = datum_retain(results[0]);
        *n_out = 2;
    }
    for (int i = 0; i < n_results; i++) datum_release(results[i]);
    return status;
}

static void release_step(void *state)
{
    (void)state; /* owned by the caller */
}

static const method_class_t step_class = {.name = "c", .run = run_step, .release = release_step};

/* Makes a module whose method "step" returns the loss and the output of its child "model". */
static status_t make_step(context_t *ctx, module_t *module, step_state_t *state,
                          module_t **out_step)
{
    module_t *step = NULL;
    TRY(module_create(ctx, "TrainingStep", &step));
    status_t status = module_set_child(ctx, step, "model", module);
    if (status == STATUS_OK && state != NULL)
        status = module_set_method_take(ctx, step, "step", &step_class, state);
    GIVE(status, out_step, step, module_release(step));
}

/* Traces the step on `copy`, and releases it. */
static status_t trace_copy(context_t *ctx, module_t *copy, step_state_t *state, int n_in,
                           const tensor_t *const *in, graph_t **out_graph)
{
    module_t *step = NULL;
    status_t status = make_step(ctx, copy, state, &step);
    if (status == STATUS_OK) status = trace_once(ctx, step, "step", n_in, in, out_graph);
    module_release(step);
    module_release(copy);
    return status;
}

/* Traces without computing elements: operators only infer sizes, so activations need no memory. */
static status_t trace_hollow(context_t *ctx, const module_t *module, step_state_t *state, int n_in,
                             const tensor_t *const *in, graph_t **out_graph)
{
    tensor_t *hollow[METHOD_MAX_OUTPUTS] = {NULL};
    hollow_run_t run;
    module_t *copy = NULL;
    TRY(module_snapshot(ctx, module, &copy));
    status_t status = hollow_begin(ctx, &run);
    TRY_OR(status, module_release(copy));
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        const tensor_info_t *info = tensor_info(in[i]);
        const tensor_info_t dense = info_dense(info->dtype, info->rank, info->sizes);
        status = tensor_hollow(ctx, &dense, &run.looks, &hollow[i]);
    }
    if (status == STATUS_OK)
        status = trace_copy(ctx, copy, state, n_in, (const tensor_t *const *)hollow, out_graph);
    else
        module_release(copy);
    hollow_end(ctx, &run);
    for (int i = 0; i < n_in; i++) tensor_drop(hollow[i]);
    return status;
}

/* Traces without computing elements, or, if a method needs to read some, with computing. Restores
 * the random generator, so that the trace does not affect later steps. */
static status_t trace(context_t *ctx, const module_t *module, step_state_t *state, int n_in,
                      const tensor_t *const *in, graph_t **out_graph)
{
    uint64_t random[4];
    module_t *copy = NULL;
    memcpy(random, context_random_state(ctx), sizeof random);
    scope_attempt(ctx);
    status_t status = trace_hollow(ctx, module, state, n_in, in, out_graph);
    const bool looks = status != STATUS_OK && !interrupt_is_final(status);
    status = scope_attempt_end(ctx, status, looks);
    if (looks) {
        status = module_clone(ctx, module, &copy);
        if (status == STATUS_OK) status = trace_copy(ctx, copy, state, n_in, in, out_graph);
    }
    memcpy(context_random_state(ctx), random, sizeof random);
    return status;
}

/* Fails if a constant of the trace shares memory with a tensor of the module: later steps would
 * read the old elements, and compute no gradient for the tensor. */
static status_t check_constant(context_t *ctx, const module_t *module, const tensor_t *constant)
{
    tree_t tree = {0};
    const member_t *found = NULL;
    TRY(tree_collect(ctx, module, &tree));
    for (int i = 0; i < tree.n && found == NULL; i++)
        for (int k = 0; k < tree.items[i].module->n_members && found == NULL; k++) {
            const member_t *member = &tree.items[i].module->members[k];
            if ((member->kind == MEMBER_PARAMETER || member->kind == MEMBER_BUFFER) &&
                member->is.tensor != NULL && tensor_overlaps(member->is.tensor, constant))
                found = member;
        }
    tree_clear(ctx, &tree);
    if (found != NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "trainer_step: the loss reads \"%.100s\" of the module, which a plan cannot do; use "
             "mode TRAIN_EAGER",
             found->name);
    return STATUS_OK;
}

static status_t check_constants(context_t *ctx, const module_t *module, const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        const tensor_t *constant = node->kind == NODE_CONSTANT ? datum_as_tensor(node->datum)
                                                               : NULL;
        if (constant != NULL) TRY(check_constant(ctx, module, constant));
    }
    return STATUS_OK;
}

/* ---- state ---- */

typedef struct states {
    context_t *ctx;
    const module_t *step;
    train_state_t *items;
    value_t *values; /* [n] the graph value that is written to each state */
    int n, items_capacity, values_capacity;
} states_t;

/* The path of the module's tensor that an in-place operator writes; NULL if it writes another
 * tensor. */
static const char *path_written(const graph_t *graph, const graph_node_t *node)
{
    const graph_node_t *maker = node;
    while (maker != NULL && maker->kind == NODE_OP && maker->is_in_place)
        maker = maker->inputs[0] >= 0 ? graph_producer(graph, maker->inputs[0]) : NULL;
    return maker != NULL && maker->kind == NODE_GETATTR ? maker->name : NULL;
}

static status_t add_state(states_t *states, const char *path, value_t value)
{
    context_t *ctx = states->ctx;
    for (int i = 0; i < states->n; i++)
        if (strcmp(states->items[i].path, path) == 0) {
            states->values[i] = value;
            return STATUS_OK;
        }
    TRY(context_grow(ctx, &states->items, &states->items_capacity, states->n + 1,
                     sizeof *states->items));
    TRY(context_grow(ctx, &states->values, &states->values_capacity, states->n + 1,
                     sizeof *states->values));
    /* The results of states come after the loss and the output. */
    states->items[states->n] = (train_state_t){.result = TRAIN_RESULT_OUTPUT + 1 + states->n};
    TRY(context_string(ctx, path, &states->items[states->n].path));
    states->values[states->n++] = value;
    return STATUS_OK;
}

static bool shares_with(const alias_t *alias, value_t value, int class)
{
    return value >= 0 && alias_class(alias, value) == class;
}

/* True if a node after the in-place operator `writer` reads the memory that it writes through a
 * value from before the write. */
static bool is_seen_later(const graph_t *graph, const alias_t *alias, const graph_node_t *writer,
                          bool *is_made)
{
    const graph_block_t *body = graph_body(graph);
    const int class = alias_class(alias, writer->inputs[0]);
    bool is_behind = false, is_seen = false;
    for (int i = 0; i < body->n_nodes; i++) {
        const graph_node_t *node = body->nodes[i];
        for (int k = 0; is_behind && k < node->n_inputs; k++)
            is_seen |= shares_with(alias, node->inputs[k], class) && is_made[node->inputs[k]];
        for (int k = 0; !is_behind && node != writer && k < node->n_outputs; k++)
            is_made[node->outputs[k]] = true;
        is_seen |= is_behind && node->kind == NODE_GETATTR &&
                   shares_with(alias, node->outputs[0], class);
        is_behind = is_behind || node == writer;
    }
    for (int i = 0; i < body->n_results; i++)
        is_seen |= shares_with(alias, body->results[i], class) && is_made[body->results[i]];
    return is_seen;
}

static const tensor_t *tensor_at(const module_t *module, const char *path)
{
    const tensor_t *tensor = path != NULL ? module_buffer(module, path) : NULL;
    return tensor == NULL && path != NULL ? module_parameter(module, path) : tensor;
}

/* True if the graph also reads a view of the written tensor under another name. The graph alone
 * does not show that both share memory. */
static bool is_seen_by_view(const graph_t *graph, const module_t *step, const graph_node_t *writer)
{
    const graph_block_t *body = graph_body(graph);
    const tensor_t *written = tensor_at(step, path_written(graph, writer));
    for (int i = 0; i < body->n_nodes && written != NULL; i++) {
        const graph_node_t *node = body->nodes[i];
        const tensor_t *tensor = node->kind == NODE_GETATTR ? tensor_at(step, node->name) : NULL;
        if (tensor != NULL && tensor != written && tensor_shares_writes(tensor, written))
            return true;
    }
    return false;
}

static status_t check_state(context_t *ctx, const graph_t *graph, const module_t *step,
                            const graph_node_t *node)
{
    const alias_t *alias = NULL;
    bool *is_made = NULL;
    TRY(alias_of(ctx, graph, &alias));
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph), "values of a graph", &is_made));
    const bool is_seen = is_seen_later(graph, alias, node, is_made);
    context_put(ctx, is_made);
    if (path_written(graph, node) == NULL || is_seen || is_seen_by_view(graph, step, node))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "trainer_step: %s_ in %s writes a tensor that is read later; use mode TRAIN_EAGER",
             node->op->name, node->path != NULL ? node->path : "the module itself");
    return STATUS_OK;
}

/* Replaces an in-place operator on a tensor of the module by the normal operator, and makes its
 * value a result of the graph. */
static status_t free_state(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    states_t *states = rewrite->user;
    value_t inputs[OP_MAX_INPUTS];
    *out_done = false;
    if (node->kind != NODE_OP || !node->is_in_place) return STATUS_OK;
    TRY(check_state(rewrite->ctx, rewrite->from, states->step, node));
    graph_node_t plain = *node;
    plain.is_in_place = false;
    for (int i = 0; i < node->n_inputs && i < OP_MAX_INPUTS; i++)
        inputs[i] = rewrite_value(rewrite, node->inputs[i]);
    TRY(rewrite_emit(rewrite, &plain, inputs, node->outputs));
    *out_done = true;
    return add_state(states, path_written(rewrite->from, node),
                     rewrite_value(rewrite, node->outputs[0]));
}

/* ---- parameters ---- */

/* Finds the graph values of the optimizer's parameters; VALUE_NONE if the step does not read the
 * parameter. If a tensor has several names, the trace reads it under one of them. */
static void find_parameters(const graph_t *graph, const module_t *module,
                            const optimizer_t *optimizer, value_t *values)
{
    const graph_block_t *body = graph_body(graph);
    const int n = optimizer_n_parameters(optimizer);
    for (int i = 0; i < n; i++) values[i] = VALUE_NONE;
    for (int k = 0; k < body->n_nodes; k++) {
        const graph_node_t *node = body->nodes[k];
        if (node->kind != NODE_GETATTR || strncmp(node->name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        const tensor_t *tensor = module_parameter(module, node->name + strlen(PREFIX));
        for (int i = 0; tensor != NULL && i < n; i++)
            if (optimizer_parameter(optimizer, i) == tensor) values[i] = node->outputs[0];
    }
}

/* Adds the gradients of the parameters that the graph reads. gradients [parameters] receives the
 * index of each gradient among the results, or -1. */
static status_t add_gradients(context_t *ctx, const graph_t *graph, module_t *module,
                              optimizer_t *optimizer, const states_t *states, int *gradients,
                              graph_t **out_graph)
{
    const int n = optimizer_n_parameters(optimizer);
    value_t *values = NULL, *wrt = NULL;
    int *results = NULL, n_wrt = 0;
    status_t status = context_get(ctx, (size_t)n * sizeof *values, "parameters", &values);
    if (status == STATUS_OK) status = context_get(ctx, (size_t)n * sizeof *wrt, "parameters", &wrt);
    if (status == STATUS_OK)
        status = context_get(ctx, (size_t)n * sizeof *results, "parameters", &results);
    if (status == STATUS_OK) {
        find_parameters(graph, module, optimizer, values);
        for (int i = 0; i < n; i++)
            if (values[i] != VALUE_NONE) wrt[n_wrt++] = values[i];
        status = graph_grad_after(ctx, graph, TRAIN_RESULT_LOSS, states->n, states->values, n_wrt,
                                  wrt, results, out_graph);
    }
    bool has_gradient = false;
    if (status == STATUS_OK)
        for (int i = 0, k = 0; i < n; i++) {
            gradients[i] = values[i] == VALUE_NONE ? -1 : results[k++];
            has_gradient |= gradients[i] >= 0;
        }
    if (status == STATUS_OK && !has_gradient) {
        graph_release(*out_graph);
        *out_graph = NULL;
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "trainer_step: the loss depends on none of the optimizer's %d "
                              "parameters",
                              n);
    }
    CONTEXT_PUT(ctx, results, wrt, values);
    return status;
}

/* ---- compilation ---- */

/* If the node reads a parameter, returns the index of its gradient among the results, else -1. */
static int result_stepping(const graph_node_t *node, const optimizer_t *optimizer,
                           const train_program_t *program)
{
    int result = -1;
    if (node->kind != NODE_GETATTR) return -1;
    const tensor_t *tensor = module_parameter(program->step, node->name);
    for (int i = 0; tensor != NULL && i < optimizer_n_parameters(optimizer); i++)
        if (optimizer_parameter(optimizer, i) == tensor) result = program->gradients[i];
    return result;
}

/* Chooses formats. First fuses an activation into the operator before it (as a post-op) if nothing
 * but the activation's own gradient reads that operator's result. */
static status_t choose_formats(context_t *ctx, const optimizer_t *optimizer, const graph_t *graph,
                               train_program_t *program)
{
    static const char *const fuse[] = {"fuse_post_ops", "dead_code", NULL};
    const graph_block_t *body = graph_body(graph);
    pass_options_t options = {.self = program->step, .keeps_results = true};
    pass_stepped_t *stepped = NULL;
    graph_t *fused = NULL;
    TRY(context_get(ctx, (size_t)body->n_nodes * sizeof *stepped, "weights that are stepped",
                    &stepped));
    for (int i = 0; i < body->n_nodes; i++) {
        const int result = result_stepping(body->nodes[i], optimizer, program);
        if (result >= 0)
            stepped[options.n_stepped++] = (pass_stepped_t){body->nodes[i]->name, result};
    }
    options.stepped = stepped;
    status_t status = pass_run(ctx, graph, fuse, &options, &fused);
    if (status == STATUS_OK)
        status = pass_run(ctx, fused, pass_pipeline_plan(), &options, &program->graph);
    graph_release(fused);
    context_put(ctx, stepped);
    return status;
}

/* Compiles the trace: simplifies it, turns states into results, adds gradients, chooses formats.
 * Skips the pass flatten_into_linear, because a linear weight for unflattened inputs would need
 * different formats in the forward and the backward pass. */
static status_t compile(context_t *ctx, module_t *module, optimizer_t *optimizer,
                        const graph_t *traced, states_t *states, train_program_t *program)
{
    static const char *const skip[] = {"flatten_into_linear", NULL};
    static const char *const allow[] = {"bound_errors", "fuse_norm_activation", NULL};
    const pass_options_t options = {.self = program->step,
                                    .skip = skip,
                                    .trains = true,
                                    .keep_numerics = program->keep_numerics};
    graph_t *clean = NULL, *allowed = NULL, *free = NULL, *whole = NULL;
    status_t status = pass_run(ctx, traced, pass_pipeline_graph(), &options, &clean);
    if (status == STATUS_OK) status = pass_run(ctx, clean, allow, &options, &allowed);
    if (status == STATUS_OK) status = rewrite_graph(ctx, allowed, free_state, states, &free);
    if (status == STATUS_OK)
        status = add_gradients(ctx, free, module, optimizer, states, program->gradients, &whole);
    if (status == STATUS_OK) status = choose_formats(ctx, optimizer, whole, program);
    graph_release(whole);
    graph_release(free);
    graph_release(allowed);
    graph_release(clean);
    return status;
}

static status_t add_updates(context_t *ctx, optimizer_t *optimizer, train_program_t *program)
{
    graph_t *graph = NULL;
    TRY(train_program_add_updates(ctx, optimizer, program->graph, program, &graph));
    graph_release(program->graph);
    program->graph = graph;
    return program->n_updates > 0 ? train_program_set_calls(ctx, program) : STATUS_OK;
}

/* Makes the plan. `shares` is all zeros: no value shares memory with tensors outside of the
 * plan. */
static status_t make_plan(context_t *ctx, optimizer_t *optimizer, train_program_t *program)
{
    plan_share_t *shares = NULL;
    if (program->may_update) TRY(add_updates(ctx, optimizer, program));
    const size_t n = (size_t)graph_n_values(program->graph);
    TRY(context_get_zeroed(ctx, n * sizeof *shares, "values of a graph", &shares));
    status_t status = plan_create_calling(ctx, program->graph, program->step, shares,
                                          program->n_masters, program->masters, &program->plan);
    context_put(ctx, shares);
    if (status == STATUS_OK && program->n_updates > 0)
        train_program_note_gradients(optimizer, program);
    return status;
}

static void clear_plan(context_t *ctx, train_program_t *program)
{
    plan_release(program->plan);
    graph_release(program->graph);
    for (int i = 0; i < program->n_masters; i++)
        context_put(ctx, (char *)(uintptr_t)program->masters[i].path);
    CONTEXT_PUT(ctx, program->masters, program->order, program->slices, program->given);
    program->plan = NULL;
    program->graph = NULL;
    program->masters = NULL;
    program->order = NULL;
    program->slices = NULL;
    program->given = NULL;
    program->n_masters = program->n_updates = 0;
}

/* ---- a plan within the memory limit ---- */

/* A step's graph before updates are added, with the indices of its gradients among the results. */
typedef struct bounded {
    context_t *ctx;
    optimizer_t *optimizer;
    train_program_t *program;
    graph_t *graph;
    int *gradients;
    size_t limit;
} bounded_t;

/* Makes the plan with *n recomputed activations (see train_recompute), and compares its memory with
 * the limit. */
static status_t plan_with(bounded_t *bounded, int *n, bool *out_fits)
{
    train_program_t *program = bounded->program;
    const size_t n_parameters = (size_t)optimizer_n_parameters(bounded->optimizer);
    clear_plan(bounded->ctx, program);
    memcpy(program->gradients, bounded->gradients, n_parameters * sizeof(int));
    TRY(train_recompute(bounded->ctx, bounded->graph, n, &program->graph));
    TRY(make_plan(bounded->ctx, bounded->optimizer, program));
    *out_fits = plan_arena_bytes(program->plan) <= bounded->limit;
    return STATUS_OK;
}

/* Recomputing costs time, so this finds by bisection the smallest number of recomputed activations
 * that fits the limit. */
static status_t find_plan(bounded_t *bounded)
{
    int too_few = 0, enough = -1;
    bool is_within = false;
    TRY(plan_with(bounded, &too_few, &is_within));
    if (is_within) return STATUS_OK;
    TRY(plan_with(bounded, &enough, &is_within));
    REQUIRE(bounded->ctx, is_within,
            "trainer_step: memory_limit %zu, a step on these inputs needs %zu bytes even if it "
            "recomputes all it can",
            bounded->limit, plan_arena_bytes(bounded->program->plan));
    while (enough - too_few > 1) {
        int middle = too_few + (enough - too_few) / 2;
        TRY(plan_with(bounded, &middle, &is_within));
        *(is_within ? &enough : &too_few) = middle;
    }
    return is_within ? STATUS_OK : plan_with(bounded, &enough, &is_within);
}

static status_t make_bounded_plan(context_t *ctx, optimizer_t *optimizer, size_t limit,
                                  train_program_t *program)
{
    const size_t n = (size_t)optimizer_n_parameters(optimizer);
    bounded_t bounded = {.ctx = ctx, .optimizer = optimizer, .program = program, .limit = limit};
    if (limit == 0) return make_plan(ctx, optimizer, program);
    TRY(context_get(ctx, n * sizeof(int), "gradients of a step", &bounded.gradients));
    memcpy(bounded.gradients, program->gradients, n * sizeof(int));
    bounded.graph = graph_retain(program->graph);
    status_t status = find_plan(&bounded);
    graph_release(bounded.graph);
    context_put(ctx, bounded.gradients);
    return status;
}

/* ---- does the module still match the trace? ---- */

/* The tensors of a module tree. A tensor with several names is listed several times. */
typedef struct names {
    text_t *text;
    const tensor_t **tensors;
    int n, capacity;
} names_t;

/* Prints " 3=1" if tensor 3 is tensor 1, and " 3~1" if tensor 3 is a view of tensor 1. */
static status_t print_ties(context_t *ctx, names_t *names, const tensor_t *tensor)
{
    TRY(context_grow(ctx, &names->tensors, &names->capacity, names->n + 1, sizeof *names->tensors));
    for (int i = 0; i < names->n && tensor != NULL; i++) {
        const tensor_t *before = names->tensors[i];
        if (before == NULL || !tensor_shares_writes(before, tensor)) continue;
        text_append(names->text, " %d%c%d", names->n, before == tensor ? '=' : '~', i);
    }
    names->tensors[names->n++] = tensor;
    return STATUS_OK;
}

/* True if the text of module_print does not identify the member's value, so that its change number
 * must be printed too: methods, and attributes that are tensors or containers. */
static bool is_told_by_change(const member_t *member)
{
    if (member->kind == MEMBER_METHOD) return true;
    return member->kind == MEMBER_ATTRIBUTE &&
           (datum_as_tensor(member->is.datum) != NULL || datum_length(member->is.datum) > 0);
}

/* Prints what module_print omits: change numbers, and which names share a tensor. */
static status_t print_members(context_t *ctx, const module_t *module, text_t *text)
{
    tree_t tree = {0};
    names_t names = {.text = text};
    status_t status = tree_collect(ctx, module, &tree);
    for (int i = 0; i < tree.n && status == STATUS_OK; i++) {
        const module_t *here = tree.items[i].module;
        for (int k = 0; k < here->n_members && status == STATUS_OK; k++) {
            const member_t *member = &here->members[k];
            if (member->kind == MEMBER_PARAMETER || member->kind == MEMBER_BUFFER)
                status = print_ties(ctx, &names, member->is.tensor);
            else if (is_told_by_change(member))
                text_append(text, " %s@%" PRIu64, member->name, member->change);
        }
    }
    tree_clear(ctx, &tree);
    context_put(ctx, names.tensors);
    return status;
}

static status_t print_tree(context_t *ctx, const train_program_t *program, char **out_tree)
{
    const module_t *module = module_child(program->step, "model");
    text_t text = text_begin(ctx);
    status_t status = module_print(ctx, module, &text);
    if (status == STATUS_OK) status = print_members(ctx, module, &text);
    if (status == STATUS_OK) status = text_status(&text);
    if (status == STATUS_OK) status = context_string(ctx, text_string(&text), out_tree);
    text_clear(&text);
    return status;
}

status_t train_program_check(context_t *ctx, train_program_t *program, bool *out_is_valid)
{
    const uint64_t changes = module_changes();
    char *tree = NULL;
    *out_is_valid = true;
    if (program->changes == changes) return STATUS_OK;
    TRY(print_tree(ctx, program, &tree));
    *out_is_valid = strcmp(tree, program->tree) == 0;
    context_put(ctx, tree);
    program->changes = changes;
    return STATUS_OK;
}

static status_t fill(context_t *ctx, module_t *module, const train_asked_t *asked,
                     optimizer_t *optimizer, const tensor_t *const *in, train_program_t *program)
{
    graph_t *traced = NULL;
    states_t states = {.ctx = ctx};
    step_state_t state = {asked->loss, asked->user};
    const int n = optimizer_n_parameters(optimizer);
    TRY(context_get(ctx, (size_t)program->n_in * sizeof *program->inputs, "inputs of a step",
                    &program->inputs));
    for (int i = 0; i < program->n_in; i++) program->inputs[i] = *tensor_info(in[i]);
    TRY(context_get(ctx, (size_t)n * sizeof(int), "gradients of a step", &program->gradients));
    TRY(make_step(ctx, module, NULL, &program->step));
    states.step = program->step;
    TRY(print_tree(ctx, program, &program->tree));
    TRY(trace(ctx, module, &state, program->n_in, in, &traced));
    status_t status = check_constants(ctx, module, traced);
    if (status == STATUS_OK) status = compile(ctx, module, optimizer, traced, &states, program);
    graph_release(traced);
    program->states = states.items;
    program->n_states = states.n;
    context_put(ctx, states.values);
    TRY(status);
    TRY(make_bounded_plan(ctx, optimizer, asked->memory_limit, program));
    program->changes = module_changes();
    return STATUS_OK;
}

status_t train_program_create(context_t *ctx, module_t *module, const train_asked_t *asked,
                              optimizer_t *optimizer, int n_in, const tensor_t *const *in,
                              train_program_t **out_program)
{
    train_program_t *program = NULL;
    TRY(context_get_zeroed(ctx, sizeof *program, "the program of a step", &program));
    program->n_in = n_in;
    program->n_threads = context_threads(ctx);
    program->keep_numerics = asked->keep_numerics;
    program->may_update = asked->may_update;
    status_t status = fill(ctx, module, asked, optimizer, in, program);
    GIVE(status, out_program, program, train_program_destroy(ctx, program));
}

void train_program_destroy(context_t *ctx, train_program_t *program)
{
    if (program == NULL) return;
    clear_plan(ctx, program);
    module_release(program->step);
    for (int i = 0; i < program->n_states; i++) context_put(ctx, program->states[i].path);
    CONTEXT_PUT(ctx, program->states, program->tree, program->gradients, program->inputs, program);
}

bool train_program_takes(const context_t *ctx, const train_program_t *program, int n_in,
                         const tensor_t *const *in)
{
    if (program->n_in != n_in || program->n_threads != context_threads(ctx)) return false;
    for (int i = 0; i < n_in; i++) {
        const tensor_info_t *info = tensor_info(in[i]), *planned = &program->inputs[i];
        if (info->dtype != planned->dtype ||
            !shape_equal(info->rank, info->sizes, planned->rank, planned->sizes))
            return false;
    }
    return true;
}
