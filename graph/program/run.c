/* Runs graphs node by node, and programs region by region: blocks, control flow, complete runs. */
#include "graph/program/run_inside_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- values ---- */

void run_clear_slot(slot_t *slot)
{
    datum_release(slot->datum);
    *slot = (slot_t){0};
}

slot_t run_copy_slot(const slot_t *slot)
{
    return (slot_t){datum_retain(slot->datum), slot->module, slot->path};
}

void run_release_dead(run_t *run, const graph_block_t *block, int index, value_t value)
{
    if (value >= 0 && run->lifetimes->home[value] == block &&
        run->lifetimes->last_use[value] <= index)
        run_clear_slot(&run->slots[value]);
}

/* Releases values last used by node `index` of `block`; `node` is that node or one inside it. */
static void release_all(run_t *run, const graph_block_t *block, int index, const graph_node_t *node)
{
    for (int i = 0; i < node->n_inputs; i++) run_release_dead(run, block, index, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++) run_release_dead(run, block, index, node->outputs[i]);
    for (int b = 0; b < node->n_blocks; b++) {
        const graph_block_t *inner = node->blocks[b];
        for (int i = 0; i < inner->n_nodes; i++) release_all(run, block, index, inner->nodes[i]);
        for (int i = 0; i < inner->n_results; i++)
            run_release_dead(run, block, index, inner->results[i]);
    }
}

static void clear_block(run_t *run, const graph_block_t *block)
{
    for (int i = 0; i < block->n_params; i++) run_clear_slot(&run->slots[block->params[i]]);
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        for (int i = 0; i < node->n_outputs; i++) run_clear_slot(&run->slots[node->outputs[i]]);
    }
}

/* ---- nodes ---- */

static status_t run_block(run_t *run, const graph_block_t *block, slot_t *results);

/* A value that has views and is written must be dense, under every policy. An operator's
 * output is converted. A tensor that comes from an attribute or a call is refused, because others
 * may hold it. */
static status_t keep_views(run_t *run, const graph_node_t *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        datum_t **datum = &run->slots[node->outputs[i]].datum;
        if (!run_is_blocked(*datum) || !alias_is_viewed(run->alias, node->outputs[i])) continue;
        if (node->kind == NODE_OP && !node->is_in_place) {
            TRY(run_make_dense(run->ctx, datum));
            continue;
        }
        FAIL(run->ctx, STATUS_UNSUPPORTED,
             "%s: %%%s is %s, but a view of it is written in place; convert it with to_dense",
             graph_node_word(node), graph_value_name(run->graph, node->outputs[i]),
             tensor_text(datum_as_tensor(*datum)));
    }
    return STATUS_OK;
}

static status_t run_if(run_t *run, const graph_node_t *node)
{
    TRY(run_gather(run, node, 0));
    bool truth;
    TRY(run_truth(run->ctx, "if", run->in[0], &truth));
    const graph_block_t *block = node->blocks[truth ? 0 : 1];
    INVARIANT(block->n_results == node->n_outputs);
    slot_t *results;
    TRY(context_get_zeroed(run->ctx, (size_t)node->n_outputs * sizeof *results,
                           "results of a branch", &results));
    status_t status = run_block(run, block, results);
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++)
        run->slots[node->outputs[i]] = results[i];
    context_put(run->ctx, results);
    return status;
}

/* Reads the maximum number of iterations; for none there is no limit. */
static status_t trip_count(run_t *run, const datum_t *datum, int64_t *out_count)
{
    switch (datum_kind(datum)) {
    case DATUM_NONE: *out_count = INT64_MAX; return STATUS_OK;
    case DATUM_INT: *out_count = datum_as_int(datum); return STATUS_OK;
    case DATUM_TENSOR: return tensor_item_integer(run->ctx, datum_as_tensor(datum), out_count);
    default:
        FAIL(run->ctx, STATUS_INVALID_ARGUMENT,
             "loop: the trip count is of kind %s, must be an int",
             datum_kind_name(datum_kind(datum)));
    }
}

/* Runs one iteration. `state` has the condition, then the carried values; the iteration replaces
 * them. */
static status_t run_iteration(run_t *run, const graph_block_t *block, int64_t iteration,
                              slot_t *state)
{
    datum_t *index;
    TRY(datum_int(run->ctx, iteration, &index));
    run->slots[block->params[0]] = (slot_t){.datum = index};
    for (int i = 1; i < block->n_params; i++) {
        run->slots[block->params[i]] = state[i];
        state[i] = (slot_t){0};
    }
    run_clear_slot(&state[0]);
    return run_block(run, block, state);
}

static status_t loop_until_done(run_t *run, const graph_node_t *node, slot_t *state)
{
    const graph_block_t *block = node->blocks[0];
    int64_t trips;
    bool goes_on = true;
    TRY(trip_count(run, run->in[0], &trips));
    if (datum_kind(run->in[1]) != DATUM_NONE)
        TRY(run_truth(run->ctx, "loop", run->in[1], &goes_on));
    for (int64_t i = 0; i < trips && goes_on; i++) {
        if (run->is_limited && run->limits.trips-- <= 0)
            FAIL(run->ctx, STATUS_UNSUPPORTED, "loop: too many iterations");
        if (!run->is_limited) TRY(interrupt_count(run->ctx, "loop"));
        TRY(run_iteration(run, block, i, state));
        if (state[0].datum != NULL && datum_kind(state[0].datum) != DATUM_NONE)
            TRY(run_truth(run->ctx, "loop", state[0].datum, &goes_on));
    }
    return STATUS_OK;
}

static status_t run_loop(run_t *run, const graph_node_t *node)
{
    const graph_block_t *block = node->blocks[0];
    int n = node->n_outputs + 1;
    INVARIANT(node->n_inputs == n + 1 && block->n_params == n && block->n_results == n);
    for (int i = 0; i < 2; i++) {
        run->in[i] = node->inputs[i] < 0 ? run->none : run->slots[node->inputs[i]].datum;
        REQUIRE(run->ctx, run->in[i] != NULL, "loop: a module as %s, must be a number or a bool",
                i == 0 ? "trip count" : "condition");
    }
    slot_t *state;
    TRY(context_get_zeroed(run->ctx, (size_t)n * sizeof *state, "carried values of a loop",
                           &state));
    for (int i = 1; i < n; i++) {
        value_t value = node->inputs[i + 1];
        if (value < 0)
            state[i].datum = datum_retain(run->none);
        else
            state[i] = run_copy_slot(&run->slots[value]);
    }
    status_t status = loop_until_done(run, node, state);
    run_clear_slot(&state[0]);
    for (int i = 1; i < n; i++) {
        if (status == STATUS_OK)
            run->slots[node->outputs[i - 1]] = state[i];
        else
            run_clear_slot(&state[i]);
    }
    context_put(run->ctx, state);
    return status;
}
status_t run_node(run_t *run, const graph_node_t *node)
{
    if (node->kind == NODE_IF) return run_if(run, node);
    if (node->kind == NODE_LOOP) return run_loop(run, node);
    return run_plain_node(run, node);
}

/* ---- blocks ---- */

status_t run_nodes(run_t *run, const graph_block_t *block, int first, int end)
{
    for (int i = first; i < end; i++) {
        TRY(interrupt_check(run->ctx, graph_node_word(block->nodes[i])));
        TRY(run_node(run, block->nodes[i]));
        TRY(keep_views(run, block->nodes[i]));
        release_all(run, block, i, block->nodes[i]);
    }
    return STATUS_OK;
}

static status_t run_all(run_t *run, const graph_block_t *block)
{
    int at = 0;
    const row_t row = run->program != NULL ? run->program->rows[block->index] : (row_t){0};
    for (int i = 0; i < row.n; i++) {
        const region_t *region = &run->program->regions[row.first + i];
        TRY(run_nodes(run, block, at, region->first));
        TRY(run_region(run, region));
        at = region->first + region->n_nodes;
    }
    return run_nodes(run, block, at, block->n_nodes);
}

/* Runs a block after its parameters were set. On success each result has a reference. */
static status_t run_block(run_t *run, const graph_block_t *block, slot_t *results)
{
    TRY_OR(run_all(run, block), clear_block(run, block));
    for (int i = 0; i < block->n_results; i++) {
        value_t value = block->results[i];
        if (value < 0)
            results[i] = (slot_t){.datum = datum_retain(run->none)};
        else
            results[i] = run_copy_slot(&run->slots[value]);
    }
    clear_block(run, block);
    return STATUS_OK;
}

/* ---- complete runs ---- */

static status_t run_body(run_t *run, datum_t *const *in, int *n_out, datum_t **out)
{
    const graph_block_t *body = graph_body(run->graph);
    slot_t results[METHOD_MAX_OUTPUTS] = {{0}};
    TRY(run_block(run, body, results));
    status_t status = run_give_back(run, in);
    for (int i = 0; i < body->n_results; i++) {
        if (results[i].datum == NULL)
            status = context_fail(run->ctx, STATUS_UNSUPPORTED,
                                  "%s: result %d is a module, which cannot be returned", run->name,
                                  i);
    }
    for (int i = 0; i < body->n_results; i++) {
        if (status == STATUS_OK)
            out[i] = results[i].datum;
        else
            run_clear_slot(&results[i]);
    }
    if (status == STATUS_OK) *n_out = body->n_results;
    return status;
}

static status_t prepare(run_t *run)
{
    context_t *ctx = run->ctx;
    size_t n = (size_t)graph_n_values(run->graph);
    TRY(context_get_zeroed(ctx, n * sizeof *run->slots, "values of a run", &run->slots));
    TRY(lifetimes_of(ctx, run->graph, &run->lifetimes));
    TRY(alias_of(ctx, run->graph, &run->alias));
    int most = run->lifetimes->most_operands;
    size_t bytes = (size_t)(most > 2 ? most : 2) * sizeof(datum_t *);
    TRY(context_get_zeroed(ctx, bytes, "operands of a run", &run->in));
    TRY(context_get_zeroed(ctx, bytes, "results of a run", &run->out));
    int n_live = run->program == NULL ? 0 : run->program->most_inputs;
    TRY(context_get(ctx, (size_t)n_live * sizeof *run->live_in, "inputs of regions",
                    &run->live_in));
    return datum_none(ctx, &run->none);
}

static void clear_run(run_t *run)
{
    context_t *ctx = run->ctx;
    datum_release(run->none);
    context_put(ctx, run->infos);
    for (int i = 0; i < run->n_dense; i++) datum_release(run->dense[i]);
    CONTEXT_PUT(ctx, run->dense, run->out, run->in, run->live_in, run->slots);
}

static status_t run_whole(run_t *run, module_t *self, int n_in, datum_t *const *in, int *n_out,
                          datum_t **out)
{
    status_t status = prepare(run);
    if (status == STATUS_OK) status = run_bind_inputs(run, self, n_in, in);
    if (status == STATUS_OK) status = run_body(run, in, n_out, out);
    clear_run(run);
    return status;
}

status_t graph_run(context_t *ctx, const graph_t *graph, module_t *self, int n_in,
                   datum_t *const *in, int *n_out, datum_t **out)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (graph == NULL) return context_null(ctx, "graph_run", "the graph");
    TRY(context_array(ctx, "graph_run", "inputs", n_in, in));
    if (n_out == NULL || out == NULL) return context_null(ctx, "graph_run", "the output");
    run_t run = {.ctx = ctx, .graph = graph, .name = graph_name(graph)};
    INTERRUPTIBLE(ctx, "graph_run", run_whole(&run, self, n_in, in, n_out, out));
}

status_t run_program(context_t *ctx, const program_t *program, module_t *self, int n_in,
                     datum_t *const *in, int *n_out, datum_t **out)
{
    run_t run = {.ctx = ctx,
                 .graph = program->graph,
                 .name = graph_name(program->graph),
                 .program = program};
    return run_whole(&run, self, n_in, in, n_out, out);
}

status_t run_known(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                   const tensor_info_t **infos, datum_t *const *known, const run_limits_t *limits,
                   datum_t **out)
{
    run_t run = {.ctx = ctx,
                 .graph = graph,
                 .name = graph_name(graph),
                 .is_limited = true,
                 .limits = *limits};
    status_t status = prepare(&run);
    int n = graph_n_values(graph);
    run.infos = infos;
    for (int i = 0; i < n && status == STATUS_OK; i++) run.slots[i].datum = datum_retain(known[i]);
    if (status == STATUS_OK) status = run_node(&run, node);
    for (int i = 0; i < node->n_outputs && status == STATUS_OK; i++)
        out[i] = datum_retain(run.slots[node->outputs[i]].datum);
    for (int i = 0; i < n && run.slots != NULL; i++) run_clear_slot(&run.slots[i]);
    run.infos = NULL; /* the infos belong to the caller */
    clear_run(&run);
    return status;
}
