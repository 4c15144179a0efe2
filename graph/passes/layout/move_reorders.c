/* Moves reorders to places where they run least often: partial redundancy elimination for the nodes
 * to_mkldnn, to_dense and reorder.
 *
 * A form of a value is the value in one layout and format. The pass applies these moves, one after
 * another, until none is possible. They add no conversion to any path:
 *
 *  - A conversion that repeats or undoes an earlier one is removed.
 *  - A conversion in an `if` or `loop` moves before this node if both branches have it, if every
 *    path after the node has it, too, or if every iteration converts the same value from outside.
 *  - A conversion of an `if`'s result moves into the branches if one of them has that form already.
 *  - A conversion of a carried value (which an iteration passes to the next one) moves before the
 *    loop if an iteration ends with that form.
 *
 * Moves out of a loop, and of carried values, need a loop that runs at least once. If this is not
 * certain, an `if` around the loop checks it. Values written in place are not moved. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/move_impl.h"
#include "tensor/context_impl.h"

typedef struct place {
    const graph_block_t *block;
    int outer;                 /* index in places of the block around this one, or -1 */
    const graph_node_t *owner; /* NULL: the graph's body */
    int index;                 /* index of owner in the block around it */
} place_t;

typedef struct survey {
    context_t *ctx;
    const graph_t *graph;
    const alias_t *alias;
    int n_places, capacity;
    place_t *places; /* all blocks; a block comes before the blocks inside it */
    int *home;       /* [value]: index in places of the block that produces it */
} survey_t;

/* ---- conversions ---- */

static bool is_written(const survey_t *survey, const graph_node_t *node)
{
    return alias_is_mutated(survey->alias, node->inputs[0]) ||
           alias_is_mutated(survey->alias, node->outputs[0]);
}

static bool is_movable(const survey_t *survey, const graph_node_t *node)
{
    return move_is_conversion(survey->graph, node) && !is_written(survey, node);
}

static bool is_same(const survey_t *survey, const graph_node_t *a, const graph_node_t *b)
{
    return move_is_same(survey->graph, a, b) && !is_written(survey, a);
}

static const graph_type_t *form_of(const survey_t *survey, const graph_node_t *conversion)
{
    return graph_value_type(survey->graph, conversion->outputs[0]);
}

/* ---- blocks ---- */

static status_t add_places(survey_t *survey, const graph_block_t *block, int outer,
                           const graph_node_t *owner, int index)
{
    int at = survey->n_places;
    TRY(context_grow(survey->ctx, &survey->places, &survey->capacity, at + 1,
                     sizeof *survey->places));
    survey->places[survey->n_places++] = (place_t){block, outer, owner, index};
    for (int i = 0; i < block->n_params; i++) survey->home[block->params[i]] = at;
    for (int n = 0; n < block->n_nodes; n++) {
        const graph_node_t *node = block->nodes[n];
        for (int i = 0; i < node->n_outputs; i++) survey->home[node->outputs[i]] = at;
        for (int b = 0; b < node->n_blocks; b++)
            TRY(add_places(survey, node->blocks[b], at, node, n));
    }
    return STATUS_OK;
}

static bool is_within(const survey_t *survey, int place, int around)
{
    while (place >= 0 && place != around) place = survey->places[place].outer;
    return place == around;
}

/* ---- loops that run ---- */

/* tells_count: true if the condition implies that the count is above zero. tells_truth: true if it
 * implies that the value is true. */
static bool tells_count(const graph_t *graph, value_t condition, value_t count)
{
    const graph_node_t *node = condition < 0 ? NULL : graph_producer(graph, condition);
    if (node == NULL || node->kind != NODE_BUILTIN) return false;
    if (strcmp(node->name, "scalar_and") == 0)
        return tells_count(graph, node->inputs[0], count) ||
               tells_count(graph, node->inputs[1], count);
    const datum_t *bound = graph_constant(graph, node->inputs[node->n_inputs - 1]);
    return strcmp(node->name, "scalar_gt") == 0 && node->inputs[0] == count && bound != NULL &&
           datum_kind(bound) == DATUM_INT && datum_as_int(bound) == 0;
}

static bool tells_truth(const graph_t *graph, value_t condition, value_t value)
{
    if (condition < 0 || condition == value) return condition == value;
    const graph_node_t *node = graph_producer(graph, condition);
    return node != NULL && node->kind == NODE_BUILTIN && strcmp(node->name, "scalar_and") == 0 &&
           (tells_truth(graph, node->inputs[0], value) ||
            tells_truth(graph, node->inputs[1], value));
}

/* True if the loop certainly runs at least once: its operands or an if around it guarantee this. */
static bool runs(const survey_t *survey, int place, const graph_node_t *loop)
{
    const graph_t *graph = survey->graph;
    bool has_trip = move_has_trip(graph, loop), may_begin = move_may_begin(graph, loop);
    for (; place > 0; place = survey->places[place].outer) {
        const place_t *at = &survey->places[place];
        if (at->owner->kind != NODE_IF || at->block != at->owner->blocks[0]) continue;
        value_t condition = at->owner->inputs[0];
        has_trip |= tells_count(graph, condition, loop->inputs[0]) &&
                    !alias_is_mutated(survey->alias, loop->inputs[0]);
        may_begin |= tells_truth(graph, condition, loop->inputs[1]) &&
                     !alias_is_mutated(survey->alias, loop->inputs[1]);
    }
    return has_trip && may_begin;
}

/* True if nothing can change the value, so that a check before the loop is also valid inside. */
static bool is_lasting(const survey_t *survey, value_t value)
{
    return value >= 0 && graph_constant(survey->graph, value) == NULL &&
           !alias_is_mutated(survey->alias, value);
}

/* True if an if around the loop could check whether the loop runs. */
static bool can_guard(const survey_t *survey, const graph_node_t *loop)
{
    const graph_t *graph = survey->graph;
    return (move_has_trip(graph, loop) || is_lasting(survey, loop->inputs[0])) &&
           (move_may_begin(graph, loop) || is_lasting(survey, loop->inputs[1]));
}

static int place_of(const survey_t *survey, const graph_block_t *block)
{
    int place = 0;
    while (survey->places[place].block != block) place++;
    return place;
}

/* True if every path through the block, from node `first` on, does this conversion. */
static bool is_sure(const survey_t *survey, const graph_block_t *block, int first,
                    const graph_node_t *conversion)
{
    for (int i = first; i < block->n_nodes; i++) {
        const graph_node_t *node = block->nodes[i];
        if (is_same(survey, node, conversion)) return true;
        if (node->kind == NODE_IF && is_sure(survey, node->blocks[0], 0, conversion) &&
            is_sure(survey, node->blocks[1], 0, conversion))
            return true;
        if (node->kind == NODE_LOOP && is_sure(survey, node->blocks[0], 0, conversion) &&
            runs(survey, place_of(survey, block), node))
            return true;
    }
    return false;
}

/* ---- existing forms ---- */

/* Returns `value`, or the first value before its conversions, that has this form; VALUE_NONE if
 * there is none. */
static value_t original(const survey_t *survey, value_t value, const graph_type_t *form)
{
    while (value >= 0 && !type_equal(graph_value_type(survey->graph, value), form)) {
        const graph_node_t *maker = graph_producer(survey->graph, value);
        value = is_movable(survey, maker) ? maker->inputs[0] : VALUE_NONE;
    }
    return value;
}

/* The result of an equal conversion of `value` that comes before node `index` of this block, or in
 * a block around it. */
static value_t earlier(const survey_t *survey, int place, int index, value_t value,
                       const graph_type_t *form)
{
    for (; place >= 0; index = survey->places[place].index, place = survey->places[place].outer) {
        const graph_block_t *block = survey->places[place].block;
        for (int i = 0; i < index; i++) {
            const graph_node_t *node = block->nodes[i];
            if (is_movable(survey, node) && node->inputs[0] == value &&
                type_equal(form_of(survey, node), form))
                return node->outputs[0];
        }
    }
    return VALUE_NONE;
}

static bool find_replacement(const survey_t *survey, int place, int index, move_t *move)
{
    const graph_node_t *node = survey->places[place].block->nodes[index];
    const graph_type_t *form = form_of(survey, node);
    *move = (move_t){.kind = MOVE_REPLACE, .conversion = node};
    move->source = original(survey, node->inputs[0], form);
    if (move->source < 0) move->source = earlier(survey, place, index, node->inputs[0], form);
    if (move->source >= 0) return true;
    const graph_node_t *before = graph_producer(survey->graph, node->inputs[0]);
    if (!is_movable(survey, before) || graph_n_uses(survey->graph, node->inputs[0]) != 1)
        return false;
    move->kind = MOVE_CONVERT;
    move->source = before->inputs[0];
    return true;
}

/* ---- out of blocks ---- */

/* A conversion inside a node's blocks, while the search looks at it. */
typedef struct inner {
    const survey_t *survey;
    int place, index;
    const graph_node_t *node; /* the node at `index` */
    move_t *move;
} inner_t;

static bool can_hoist(const inner_t *inner, const graph_node_t *conversion, bool *out_needs_guard)
{
    const survey_t *survey = inner->survey;
    const graph_node_t *node = inner->node;
    *out_needs_guard = false;
    if (is_sure(survey, survey->places[inner->place].block, inner->index + 1, conversion))
        return true;
    bool is_inside = is_sure(survey, node->blocks[0], 0, conversion);
    if (node->kind == NODE_IF) return is_inside && is_sure(survey, node->blocks[1], 0, conversion);
    *out_needs_guard = is_inside && !runs(survey, inner->place, node);
    return is_inside && (!*out_needs_guard || can_guard(survey, node));
}

static status_t look_inside(void *user, const graph_node_t *conversion)
{
    const inner_t *inner = user;
    const survey_t *survey = inner->survey;
    move_t *move = inner->move;
    bool needs_guard = false;
    if (move->kind != MOVE_NONE || !is_movable(survey, conversion)) return STATUS_OK;
    if (!is_within(survey, inner->place, survey->home[conversion->inputs[0]])) return STATUS_OK;
    if (!can_hoist(inner, conversion, &needs_guard)) return STATUS_OK;
    *move = (move_t){.kind = needs_guard ? MOVE_GUARD : MOVE_HOIST,
                     .conversion = conversion,
                     .at = inner->node,
                     .block = survey->places[inner->place].block};
    return STATUS_OK;
}

static bool find_hoist(const survey_t *survey, int place, int index, move_t *move)
{
    const graph_node_t *node = survey->places[place].block->nodes[index];
    inner_t inner = {survey, place, index, node, move};
    *move = (move_t){.kind = MOVE_NONE};
    for (int b = 0; b < node->n_blocks; b++)
        (void)rewrite_visit(node->blocks[b], look_inside, &inner);
    return move->kind != MOVE_NONE;
}

/* ---- moves into branches and carried values ---- */

/* Counts conversions that are equal to this one. */
typedef struct likes {
    const survey_t *survey;
    const graph_node_t *conversion;
    int n;
} likes_t;

static status_t count_like(void *user, const graph_node_t *node)
{
    likes_t *likes = user;
    likes->n += is_same(likes->survey, node, likes->conversion);
    return STATUS_OK;
}

/* True if only conversions equal to this one read the value. */
static bool reads_all(const survey_t *survey, const graph_node_t *conversion)
{
    likes_t likes = {survey, conversion, 0};
    (void)rewrite_visit(graph_body(survey->graph), count_like, &likes);
    return likes.n == graph_n_uses(survey->graph, conversion->inputs[0]);
}

/* A value of this form that exists at the end of a block without adding a conversion. */
static value_t ready_at_end(const survey_t *survey, const graph_block_t *block, value_t result,
                            const graph_type_t *form)
{
    value_t ready = original(survey, result, form);
    if (ready >= 0 || result < 0) return ready;
    return earlier(survey, place_of(survey, block), block->n_nodes, result, form);
}

/* Finds the first conversion of a value, in node order, that every path does. */
typedef struct wanted {
    const survey_t *survey;
    value_t value;
    const graph_block_t *block; /* every path through this block must do the conversion */
    int first;
    const graph_node_t *found;
} wanted_t;

static status_t look_for(void *user, const graph_node_t *node)
{
    wanted_t *wanted = user;
    if (wanted->found == NULL && is_movable(wanted->survey, node) &&
        node->inputs[0] == wanted->value &&
        is_sure(wanted->survey, wanted->block, wanted->first, node))
        wanted->found = node;
    return STATUS_OK;
}

static const graph_node_t *find_sure(const survey_t *survey, const graph_block_t *block, int first,
                                     value_t value)
{
    wanted_t wanted = {survey, value, block, first, NULL};
    if (layout_value_info(survey->graph, value) != NULL)
        (void)rewrite_visit(block, look_for, &wanted);
    return wanted.found;
}

static bool find_sink(const survey_t *survey, int place, int index, move_t *move)
{
    const graph_block_t *block = survey->places[place].block;
    const graph_node_t *node = block->nodes[index];
    for (int i = 0; node->kind == NODE_IF && i < node->n_outputs; i++) {
        const graph_node_t *conversion = find_sure(survey, block, index + 1, node->outputs[i]);
        if (conversion == NULL) continue;
        *move = (move_t){.kind = MOVE_SINK,
                         .conversion = conversion,
                         .at = node,
                         .block = block,
                         .index = i,
                         .replaces = reads_all(survey, conversion)};
        bool is_known = true;
        for (int b = 0; b < 2; b++) {
            value_t result = node->blocks[b]->results[i];
            is_known &= layout_value_info(survey->graph, result) != NULL;
            move->available[b] = ready_at_end(survey, node->blocks[b], result,
                                              form_of(survey, conversion));
        }
        if (is_known && (move->available[0] >= 0 || move->available[1] >= 0)) return true;
    }
    return false;
}

/* True if the loop can carry only the converted value. If the original is read after the loop, it
 * is converted back there, once. Before the move, each iteration must have done this conversion. */
static bool replaces_carried(const survey_t *survey, const graph_node_t *loop,
                             const graph_node_t *conversion, int index)
{
    const graph_block_t *body = loop->blocks[0];
    if (!reads_all(survey, conversion)) return false;
    if (graph_n_uses(survey->graph, loop->outputs[index]) == 0) return true;
    value_t result = body->results[index + 1];
    bool is_inside = survey->home[result] == place_of(survey, body);
    return layout_value_info(survey->graph, loop->outputs[index]) != NULL && is_inside &&
           is_movable(survey, graph_producer(survey->graph, result)) &&
           original(survey, result, form_of(survey, conversion)) >= 0;
}

static bool find_carry(const survey_t *survey, int place, int index, move_t *move)
{
    const graph_block_t *block = survey->places[place].block;
    const graph_node_t *node = block->nodes[index];
    for (int i = 0; node->kind == NODE_LOOP && i < node->n_outputs; i++) {
        const graph_block_t *body = node->blocks[0];
        const graph_node_t *conversion = find_sure(survey, body, 0, body->params[i + 1]);
        if (conversion == NULL || layout_value_info(survey->graph, node->inputs[i + 2]) == NULL)
            continue;
        value_t ready = ready_at_end(survey, body, body->results[i + 1],
                                     form_of(survey, conversion));
        bool is_sure_to_run = runs(survey, place, node);
        if (ready < 0 || (!is_sure_to_run && !can_guard(survey, node))) continue;
        *move = (move_t){.kind = is_sure_to_run ? MOVE_CARRY : MOVE_GUARD,
                         .conversion = conversion,
                         .at = node,
                         .block = block,
                         .index = i,
                         .replaces = replaces_carried(survey, node, conversion, i),
                         .available = {ready, VALUE_NONE}};
        return true;
    }
    return false;
}

/* ---- the search ---- */

static bool find_move(const survey_t *survey, move_t *move)
{
    for (int place = 0; place < survey->n_places; place++) {
        const graph_block_t *block = survey->places[place].block;
        for (int i = 0; i < block->n_nodes; i++) {
            const graph_node_t *node = block->nodes[i];
            if (is_movable(survey, node) && find_replacement(survey, place, i, move)) return true;
            if (node->n_blocks == 0) continue;
            if (find_hoist(survey, place, i, move) || find_sink(survey, place, i, move) ||
                find_carry(survey, place, i, move))
                return true;
        }
    }
    return false;
}

/* Reports why conversions of values from outside a block were not moved out of it. */
static void note_left(const survey_t *survey)
{
    for (int place = 1; place < survey->n_places; place++) {
        const place_t *at = &survey->places[place];
        for (int i = 0; i < at->block->n_nodes; i++) {
            const graph_node_t *node = at->block->nodes[i];
            if (!move_is_conversion(survey->graph, node) ||
                is_within(survey, survey->home[node->inputs[0]], place))
                continue;
            pass_note(survey->ctx, "move_reorders", node,
                      is_written(survey, node) ? "the tensor is written in place"
                                               : "not on every path through the block around it");
        }
    }
}

static status_t survey_begin(context_t *ctx, const graph_t *graph, survey_t *survey)
{
    *survey = (survey_t){.ctx = ctx, .graph = graph};
    TRY(alias_of(ctx, graph, &survey->alias));
    TRY(context_get_zeroed(ctx, (size_t)graph_n_values(graph) * sizeof *survey->home,
                           "blocks of values", &survey->home));
    return add_places(survey, graph_body(graph), -1, NULL, 0);
}

static void survey_end(survey_t *survey)
{
    CONTEXT_PUT(survey->ctx, survey->home, survey->places);
}

/* Finds a move, and applies it to *current. */
static status_t move_one(context_t *ctx, const pass_options_t *options, graph_t **current,
                         bool *out_moves)
{
    survey_t survey;
    move_t move = {.kind = MOVE_NONE};
    graph_t *moved = NULL, *clean = NULL;
    status_t status = survey_begin(ctx, *current, &survey);
    *out_moves = status == STATUS_OK && find_move(&survey, &move);
    if (status == STATUS_OK && !*out_moves) note_left(&survey);
    if (*out_moves) status = move_apply(ctx, *current, &move, &moved);
    survey_end(&survey);
    if (moved != NULL) status = pass_dead_code(ctx, moved, options, &clean);
    graph_release(moved);
    if (clean == NULL) return status;
    graph_release(*current);
    *current = clean;
    return status;
}

static status_t count_conversion(void *user, const graph_node_t *node)
{
    *(int *)user += node->kind == NODE_OP && graph_is_conversion(node->op);
    return STATUS_OK;
}

status_t pass_move_reorders(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                            graph_t **out_graph)
{
    graph_t *current = NULL;
    int n = 0;
    (void)rewrite_visit(graph_body(graph), count_conversion, &n);
    TRY(rewrite_nothing(graph, &current));
    status_t status = STATUS_OK;
    bool moves = n > 0;
    while (moves && status == STATUS_OK) status = move_one(ctx, options, &current, &moves);
    GIVE(status, out_graph, current, graph_release(current));
}
