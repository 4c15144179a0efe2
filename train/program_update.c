/* Updates inside a step's plan: adds calls to the graph, after the nodes on which they depend.
 *
 *   graph step(%self : module, %x, %target) {
 *     ...                                                     forward, loss
 *     call(%self, %loss, %output, %states..) method="check"   checks the loss, writes state
 *     ...
 *     %g = conv2d_backward_weight(..)
 *     call(%self, "conv1.weight", %g) method="update"         %g is complete, the weight is
 *     ...                                                     no longer read
 *     return %loss, %output
 *   }
 *
 * Then a gradient is not a result of the graph, and needs memory only from the node that computes
 * it to its call. Large gradients are computed by the call, or in slices (see program_slices.c). If
 * a later node would read memory that a call writes, the graph is not changed, and the trainer
 * updates all parameters after the plan. */
#include <string.h>

#include "graph/analysis/alias_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "module/module_impl.h"
#include "tensor/tensor_impl.h"
#include "train/optimizer_impl.h"
#include "train/program_impl.h"

/* A tensor that calls write: a parameter of the optimizer, or state. Parameters come first. */
typedef struct written {
    const tensor_t *tensor;
    const char *path;           /* attribute name that the graph reads, or NULL */
    value_t gradient;           /* in the old graph; VALUE_NONE: none, or state */
    int last, at;               /* last node that reads it, or -1; node before its call */
    const graph_node_t *sliced; /* node that is replaced by calls or slices, or NULL */
    bool is_beside;             /* a bias that is updated together with its weight */
} written_t;

typedef struct calls {
    context_t *ctx;
    const graph_t *from;
    graph_builder_t *to;
    const alias_t *alias;
    optimizer_t *optimizer;
    train_program_t *program;
    int n_parameters, n_written;
    written_t *written;
    int *owner;   /* [values] index of the written tensor whose memory the value may share, or -1 */
    int *made;    /* [values] index of the node that computes it; -1: an input of the graph */
    value_t *map; /* [values] in the new graph */
    int check;    /* node after which the loss is checked */
} calls_t;

/* ---- positions of calls ---- */

static const tensor_t *tensor_at(const module_t *step, const char *path)
{
    const tensor_t *tensor = module_parameter(step, path);
    return tensor != NULL ? tensor : module_buffer(step, path);
}

/* Records which written tensor the node reads. Returns false if the node reads a tensor that shares
 * memory with a written tensor but is not the same one. */
static bool own_attribute(calls_t *calls, const graph_node_t *node)
{
    const tensor_t *tensor = tensor_at(calls->program->step, node->name);
    for (int i = 0; tensor != NULL && i < calls->n_written; i++) {
        written_t *written = &calls->written[i];
        if (written->tensor == tensor) {
            calls->owner[node->outputs[0]] = i;
            written->path = node->name;
        } else if (written->tensor != NULL && tensor_shares_writes(written->tensor, tensor)) {
            return false;
        }
    }
    return true;
}

/* If the input is a written tensor, records that outputs of a conversion or view may share its
 * memory. */
static void own_outputs(calls_t *calls, const graph_node_t *node, value_t input)
{
    const bool converts = node->kind == NODE_OP && graph_is_conversion(node->op);
    for (int k = 0; k < node->n_outputs; k++)
        if (converts ||
            alias_class(calls->alias, node->outputs[k]) == alias_class(calls->alias, input))
            calls->owner[node->outputs[k]] = calls->owner[input];
}

static bool look_at_nodes(calls_t *calls)
{
    const graph_block_t *body = graph_body(calls->from);
    for (int k = 0; k < body->n_nodes; k++) {
        const graph_node_t *node = body->nodes[k];
        for (int i = 0; i < node->n_outputs; i++) calls->made[node->outputs[i]] = k;
        if (node->kind == NODE_GETATTR && !own_attribute(calls, node)) return false;
        for (int i = 0; i < node->n_inputs; i++) {
            const value_t input = node->inputs[i];
            if (input < 0 || calls->owner[input] < 0) continue;
            calls->written[calls->owner[input]].last = k;
            own_outputs(calls, node, input);
        }
    }
    return true;
}

static int later(int a, int b)
{
    return a > b ? a : b;
}

/* Finds the node after which each call comes. The check of the loss comes first. An update comes
 * after the node that completes the gradient and after all nodes that read the parameter. Returns
 * false if that is impossible. */
static bool place_calls(calls_t *calls)
{
    const graph_block_t *body = graph_body(calls->from);
    const int n_checked = TRAIN_RESULT_OUTPUT + 1 + calls->program->n_states;
    calls->check = -1;
    for (int i = 0; i < n_checked; i++) {
        if (body->results[i] < 0 || calls->owner[body->results[i]] >= 0) return false;
        calls->check = later(calls->check, calls->made[body->results[i]]);
    }
    for (int i = 0; i < calls->n_written; i++) {
        written_t *written = &calls->written[i];
        const bool is_state = i >= calls->n_parameters;
        if (is_state && written->last > calls->check) return false;
        if (is_state || written->gradient == VALUE_NONE) continue;
        if (calls->owner[written->gradient] >= 0) return false;
        written->at = later(calls->check, later(written->last, calls->made[written->gradient]));
    }
    return true;
}

static void list_written(calls_t *calls)
{
    const graph_block_t *body = graph_body(calls->from);
    const train_program_t *program = calls->program;
    for (int i = 0; i < calls->n_written; i++) {
        const bool is_state = i >= calls->n_parameters;
        const int result = is_state ? -1 : program->gradients[i];
        calls->written[i] = (written_t){
            .tensor = is_state
                          ? tensor_at(program->step, program->states[i - calls->n_parameters].path)
                          : optimizer_parameter(calls->optimizer, i),
            .gradient = result < 0 ? VALUE_NONE : body->results[result],
            .last = -1,
            .at = -1};
    }
}

/* ---- rewriting ---- */

static void copy_node(calls_t *calls, const graph_node_t *node, value_t *inputs)
{
    const graph_type_t *types[OP_MAX_OUTPUTS];
    const char *names[OP_MAX_OUTPUTS];
    value_t outputs[OP_MAX_OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = node->inputs[i] < 0 ? VALUE_NONE : calls->map[node->inputs[i]];
    for (int i = 0; i < node->n_outputs; i++) {
        types[i] = graph_value_type(calls->from, node->outputs[i]);
        names[i] = rewrite_name(calls->from, node->outputs[i]);
    }
    graph_add_node(calls->to, node, inputs, types, names, outputs);
    for (int i = 0; i < node->n_outputs; i++) calls->map[node->outputs[i]] = outputs[i];
}

static void add_call(calls_t *calls, const char *method, int n_inputs, const value_t *inputs)
{
    const graph_node_t call = {.kind = NODE_CALL, .name = method, .n_inputs = n_inputs};
    graph_add_node(calls->to, &call, inputs, NULL, NULL, NULL);
}

static void add_check(calls_t *calls, value_t *inputs)
{
    const graph_block_t *body = graph_body(calls->from);
    const int n = TRAIN_RESULT_OUTPUT + 1 + calls->program->n_states;
    inputs[0] = calls->map[body->params[0]];
    for (int i = 0; i < n; i++) inputs[i + 1] = calls->map[body->results[i]];
    add_call(calls, TRAIN_CHECK, n + 1, inputs);
}

/* Adds a call that updates a parameter. first: first index of the slice; -1: the complete
 * gradient. */
static status_t add_update(calls_t *calls, int parameter, value_t gradient, int64_t first)
{
    train_program_t *program = calls->program;
    datum_t *name = NULL, *index = NULL;
    TRY(datum_string(calls->ctx, optimizer_name(calls->optimizer, parameter), &name));
    status_t status = datum_int(calls->ctx, first, &index);
    if (status == STATUS_OK) {
        const value_t inputs[] = {calls->map[graph_body(calls->from)->params[0]],
                                  graph_add_literal(calls->to, name), gradient,
                                  first < 0 ? VALUE_NONE : graph_add_literal(calls->to, index)};
        add_call(calls, TRAIN_UPDATE, first < 0 ? 3 : 4, inputs);
        program->order[program->n_updates++] = parameter;
    }
    datum_release(index);
    datum_release(name);
    return status;
}

/* Adds a call that computes a gradient in tiles and updates the parameter with each tile. `rows`
 * are the call's arguments: x and grad for a weight, grad for a bias. */
static status_t add_product(calls_t *calls, int parameter, int n_rows, const value_t *rows)
{
    train_program_t *program = calls->program;
    value_t inputs[4] = {calls->map[graph_body(calls->from)->params[0]]};
    datum_t *name = NULL;
    TRY(datum_string(calls->ctx, optimizer_name(calls->optimizer, parameter), &name));
    inputs[1] = graph_add_literal(calls->to, name);
    for (int i = 0; i < n_rows; i++) inputs[2 + i] = calls->map[rows[i]];
    add_call(calls, TRAIN_UPDATE, 2 + n_rows, inputs);
    program->order[program->n_updates++] = parameter;
    datum_release(name);
    return STATUS_OK;
}

/* Finds the parameter whose gradient is output `index` of the node; -1: none. */
static int find_parameter(const calls_t *calls, const graph_node_t *node, int index)
{
    for (int i = 0; i < calls->n_parameters && index < node->n_outputs; i++)
        if (calls->written[i].gradient == node->outputs[index]) return i;
    return -1;
}

/* Adds the slices of the gradients of a weight and its bias, each followed by its update. */
static status_t add_slices(calls_t *calls, int parameter)
{
    const graph_node_t *node = calls->written[parameter].sliced;
    const int bias = find_parameter(calls, node, 1);
    const step_slices_t slices = calls->program->slices[parameter];
    const int64_t n = tensor_info(calls->written[parameter].tensor)->sizes[slices.dim];
    value_t inputs[OP_MAX_INPUTS], outputs[OP_MAX_OUTPUTS];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = calls->map[node->inputs[i]];
    for (int64_t first = 0; first < n; first += slices.size) {
        const int64_t size = n - first < slices.size ? n - first : slices.size;
        train_slices_add(calls->to, calls->from, node, inputs, slices.dim, first, size, outputs);
        TRY(add_update(calls, parameter, outputs[0], first));
        if (bias >= 0 && outputs[1] != VALUE_NONE)
            TRY(add_update(calls, bias, outputs[1], slices.dim == 0 ? first : -1));
    }
    return STATUS_OK;
}

static status_t add_products(calls_t *calls, int parameter)
{
    const graph_node_t *node = calls->written[parameter].sliced;
    const int bias = find_parameter(calls, node, 1);
    TRY(add_product(calls, parameter, 2, node->inputs));
    return bias < 0 ? STATUS_OK : add_product(calls, bias, 1, &node->inputs[1]);
}

static bool is_sliced(const calls_t *calls, const graph_node_t *node)
{
    for (int i = 0; i < calls->n_parameters; i++)
        if (calls->written[i].sliced == node) return true;
    return false;
}

/* Adds the updates that come after node k. */
static status_t add_updates(calls_t *calls, int k)
{
    for (int i = 0; i < calls->n_parameters; i++) {
        const written_t *written = &calls->written[i];
        if (written->at != k) continue;
        if (written->sliced != NULL && calls->program->slices[i].is_product)
            TRY(add_products(calls, i));
        else if (written->sliced != NULL)
            TRY(add_slices(calls, i));
        else if (!written->is_beside)
            TRY(add_update(calls, i, calls->map[written->gradient], -1));
    }
    return STATUS_OK;
}

/* Copies the graph and adds the calls. `inputs` is temporary space for the inputs of any node. */
static status_t copy_graph(calls_t *calls, value_t *inputs, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(calls->from);
    for (int i = 0; i < body->n_params; i++)
        calls->map[body->params[i]] = graph_add_param(
            calls->to, rewrite_name(calls->from, body->params[i]),
            graph_value_type(calls->from, body->params[i]));
    if (calls->check < 0) add_check(calls, inputs);
    for (int k = 0; k < body->n_nodes; k++) {
        if (!is_sliced(calls, body->nodes[k])) copy_node(calls, body->nodes[k], inputs);
        if (k == calls->check) add_check(calls, inputs);
        TRY(add_updates(calls, k));
    }
    const value_t results[] = {calls->map[body->results[TRAIN_RESULT_LOSS]],
                               calls->map[body->results[TRAIN_RESULT_OUTPUT]]};
    return graph_finish(calls->to, 2, results, out_graph);
}

static status_t add_calls(calls_t *calls, graph_t **out_graph)
{
    context_t *ctx = calls->ctx;
    const graph_block_t *body = graph_body(calls->from);
    value_t *inputs = NULL;
    int n = TRAIN_RESULT_OUTPUT + 2 + calls->program->n_states;
    for (int k = 0; k < body->n_nodes; k++) n = later(n, body->nodes[k]->n_inputs);
    TRY(context_get(ctx, (size_t)n * sizeof *inputs, "inputs of a node", &inputs));
    status_t status = graph_builder_create(ctx, graph_name(calls->from), &calls->to);
    if (status == STATUS_OK) status = copy_graph(calls, inputs, out_graph);
    graph_builder_destroy(calls->to);
    context_put(ctx, inputs);
    return status;
}

static status_t list_masters(calls_t *calls)
{
    context_t *ctx = calls->ctx;
    train_program_t *program = calls->program;
    TRY(context_get(ctx, (size_t)calls->n_parameters * sizeof *program->masters,
                    "weights that are stepped", &program->masters));
    for (int i = 0; i < calls->n_parameters; i++) {
        const written_t *written = &calls->written[i];
        if (written->at < 0 || written->path == NULL) continue;
        const graph_type_t *type = graph_value_type(calls->from, written->gradient);
        if (!type_is_static(type)) continue;
        plan_master_t *master = &program->masters[program->n_masters++];
        *master = (plan_master_t){.info = type->info};
        TRY(context_string(ctx, written->path, (char **)(uintptr_t)&master->path));
    }
    return STATUS_OK;
}

/* ---- slices ---- */

static bool may_slice(const calls_t *calls, int parameter, step_slices_t slices)
{
    const written_t *written = &calls->written[parameter];
    const graph_type_t *type = graph_value_type(calls->from, written->gradient);
    return type_is_static(type) && step_may_slice(written->tensor, &type->info, slices);
}

/* True if a call can read the node's operands at a later position: they are results of operators or
 * inputs of the step (calls accept no attributes or constants), and no call writes their memory. */
static bool may_be_read_late(const calls_t *calls, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const int class = alias_class(calls->alias, node->inputs[i]);
        if (calls->owner[node->inputs[i]] >= 0 || class < 0 ||
            (calls->alias->classes[class].origins & (ALIAS_ATTRIBUTE | ALIAS_CONSTANT)) != 0)
            return false;
    }
    return true;
}

/* Notes that calls replace the node. Weight and bias are both updated at the later of their two
 * positions. */
static void take_node(calls_t *calls, int parameter, int bias, const graph_node_t *node)
{
    written_t *written = &calls->written[parameter];
    written->sliced = node;
    if (bias < 0) return;
    written->at = later(written->at, calls->written[bias].at);
    calls->written[bias].is_beside = true;
}

static status_t choose_product(calls_t *calls, int parameter, const graph_node_t *node,
                               bool *out_is_product)
{
    const step_slices_t product = {.is_product = true};
    const int bias = find_parameter(calls, node, 1);
    train_program_t *program = calls->program;
    tensor_info_t info;
    TRY(train_product_of(calls->ctx, calls->from, node, out_is_product, &info));
    *out_is_product = *out_is_product &&
                      step_may_slice(calls->written[parameter].tensor, &info, product) &&
                      (bias < 0 || may_slice(calls, bias, product));
    if (!*out_is_product) return STATUS_OK;
    take_node(calls, parameter, bias, node);
    program->slices[parameter] = product;
    program->given[parameter] = info;
    if (bias < 0) return STATUS_OK;
    program->slices[bias] = product;
    program->given[bias] = graph_value_type(calls->from, node->outputs[1])->info;
    return STATUS_OK;
}

/* Decides whether the gradient of a weight, and of the bias that the same node computes, is
 * computed in the call or in slices. *n_more counts the additional calls. */
static status_t choose_slices(calls_t *calls, int parameter, int *n_more)
{
    written_t *written = &calls->written[parameter];
    step_slices_t slices = {0};
    if (written->at < 0) return STATUS_OK;
    const graph_node_t *node = graph_producer(calls->from, written->gradient);
    if (node == NULL || node->outputs[0] != written->gradient || !may_be_read_late(calls, node))
        return STATUS_OK;
    bool is_product = false;
    TRY(choose_product(calls, parameter, node, &is_product));
    if (is_product) return STATUS_OK;
    TRY(train_slices_of(calls->ctx, calls->from, node, &slices));
    const int bias = find_parameter(calls, node, 1);
    if (slices.size == 0 || !may_slice(calls, parameter, slices) ||
        (bias >= 0 && slices.dim == 0 && !may_slice(calls, bias, slices)))
        return STATUS_OK;
    const int64_t size = tensor_info(written->tensor)->sizes[slices.dim];
    take_node(calls, parameter, bias, node);
    calls->program->slices[parameter] = slices;
    *n_more += 2 * (int)(size / slices.size); /* 2: weight and bias */
    if (bias >= 0 && slices.dim == 0) calls->program->slices[bias] = slices;
    return STATUS_OK;
}

static status_t plan_updates(calls_t *calls)
{
    context_t *ctx = calls->ctx;
    train_program_t *program = calls->program;
    const size_t n = (size_t)calls->n_parameters;
    int n_more = 0;
    TRY(context_get_zeroed(ctx, n * sizeof *program->slices, "updates of a step",
                           &program->slices));
    TRY(context_get_zeroed(ctx, n * sizeof *program->given, "updates of a step", &program->given));
    for (size_t i = 0; i < n; i++) program->given[i].dtype = DTYPE_NONE;
    for (int i = 0; i < calls->n_parameters; i++) TRY(choose_slices(calls, i, &n_more));
    return context_get(ctx, (n + (size_t)n_more) * sizeof *program->order, "updates of a step",
                       &program->order);
}

static status_t rewrite(calls_t *calls, graph_t **out_graph)
{
    context_t *ctx = calls->ctx;
    train_program_t *program = calls->program;
    TRY(alias_of(ctx, calls->from, &calls->alias));
    list_written(calls);
    if (!look_at_nodes(calls) || !place_calls(calls))
        return rewrite_nothing(calls->from, out_graph);
    TRY(plan_updates(calls));
    TRY(list_masters(calls));
    TRY(add_calls(calls, out_graph));
    for (int i = 0; i < calls->n_parameters; i++) program->gradients[i] = -1;
    return STATUS_OK;
}

status_t train_program_add_updates(context_t *ctx, optimizer_t *optimizer, const graph_t *graph,
                                   train_program_t *program, graph_t **out_graph)
{
    const size_t n = (size_t)graph_n_values(graph);
    calls_t calls = {.ctx = ctx,
                     .from = graph,
                     .optimizer = optimizer,
                     .program = program,
                     .n_parameters = optimizer_n_parameters(optimizer)};
    char *block = NULL;
    calls.n_written = calls.n_parameters + program->n_states;
    TRY(context_get(ctx, (size_t)calls.n_written * sizeof *calls.written, "parameters and state",
                    &calls.written));
    status_t status = context_get(ctx, n * (2 * sizeof(int) + sizeof(value_t)), "values of a graph",
                                  &block);
    if (status == STATUS_OK) {
        calls.map = (value_t *)(void *)block;
        calls.owner = (int *)(void *)(calls.map + n);
        calls.made = calls.owner + n;
        for (size_t i = 0; i < n; i++) calls.owner[i] = calls.made[i] = -1;
        status = rewrite(&calls, out_graph);
    }
    CONTEXT_PUT(ctx, block, calls.written);
    return status;
}

/* ---- running the calls ---- */

static status_t run_check(context_t *ctx, module_t *self, void *state, int n_in, datum_t *const *in,
                          int *n_out, datum_t **out)
{
    const train_program_t *program = state;
    (void)self, (void)out, (void)n_in;
    *n_out = 0;
    return program->sink->check(ctx, program->sink->user, program, in);
}

bool train_program_may_slice(const train_program_t *program, const optimizer_t *optimizer)
{
    for (int i = 0; program->n_updates > 0 && i < optimizer_n_parameters(optimizer); i++)
        if ((program->slices[i].size > 0 || program->slices[i].is_product) &&
            !step_may_slice(optimizer_parameter(optimizer, i), &program->given[i],
                            program->slices[i]))
            return false;
    return true;
}

/* Runs a call of "update". Calls run in the order of program->order, which lists the parameter that
 * each call updates. */
static status_t run_update(context_t *ctx, module_t *self, void *state, int n_in,
                           datum_t *const *in, int *n_out, datum_t **out)
{
    train_program_t *program = state;
    train_sink_t *sink = program->sink;
    const int parameter = program->order[sink->n_done++];
    (void)self, (void)out;
    *n_out = 0;
    if (program->slices[parameter].is_product)
        return sink->product(ctx, sink->user, parameter, n_in > 2 ? datum_as_tensor(in[1]) : NULL,
                             datum_as_tensor(in[n_in - 1]));
    return sink->update(ctx, sink->user, parameter, n_in > 2 ? datum_as_int(in[2]) : 0,
                        datum_as_tensor(in[1]));
}

static void release_call(void *state)
{
    (void)state; /* the program, which owns the module */
}

static const method_class_t check_class = {.name = "c", .run = run_check, .release = release_call};
static const method_class_t update_class = {
    .name = "c", .run = run_update, .release = release_call};

status_t train_program_set_calls(context_t *ctx, train_program_t *program)
{
    TRY(module_set_method_take(ctx, program->step, TRAIN_CHECK, &check_class, program));
    return module_set_method_take(ctx, program->step, TRAIN_UPDATE, &update_class, program);
}

/* Records the format that each gradient has in the plan. All slices of a gradient have the same
 * format. */
void train_program_note_gradients(const optimizer_t *optimizer, train_program_t *program)
{
    int n = 0;
    for (int s = 0; s < program->plan->n_steps; s++) {
        const step_t *step = &program->plan->steps[s];
        if (step->method == NULL || strcmp(step->method, TRAIN_UPDATE) != 0) continue;
        const int parameter = program->order[n++];
        tensor_info_t *given = &program->given[parameter];
        if (program->slices[parameter].is_product) continue;
        *given = step->sources[1].info;
        const step_slices_t slices = program->slices[parameter];
        if (slices.size > 0)
            *given = step_slice_info(given, slices,
                                     optimizer->entries[parameter].info.sizes[slices.dim]);
    }
    INVARIANT(n == program->n_updates);
}
