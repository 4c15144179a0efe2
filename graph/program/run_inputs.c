/* Checking and binding the inputs of a run. */
#include "graph/program/run_inside_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* Checks an input's kind. *out_info is NULL if it is not a tensor. */
static status_t check_kind(run_t *run, value_t value, const datum_t *datum,
                           const tensor_info_t **out_info)
{
    const graph_type_t *type = graph_value_type(run->graph, value);
    datum_kind_t kind = datum_kind(datum);
    bool is_number = kind == DATUM_INT || kind == DATUM_FLOAT;
    *out_info = kind == DATUM_TENSOR ? tensor_info(datum_as_tensor(datum)) : NULL;
    if (type->kind != TYPE_TENSOR || kind == DATUM_TENSOR || is_number ||
        (type->is_optional && kind == DATUM_NONE))
        return STATUS_OK;
    FAIL(run->ctx, STATUS_INVALID_ARGUMENT, "%s: input %s is of kind %s, must be a tensor",
         run->name, graph_value_name(run->graph, value), datum_kind_name(kind));
}

static status_t check_inputs(run_t *run, int first, int n_in, datum_t *const *in)
{
    const graph_block_t *body = graph_body(run->graph);
    TRY(context_get(run->ctx, (size_t)n_in * sizeof *run->infos, "infos of inputs", &run->infos));
    for (int i = 0; i < n_in; i++)
        TRY(in[i] == NULL ? context_null(run->ctx, run->name, "an input")
                          : check_kind(run, body->params[first + i], in[i], &run->infos[i]));
    return graph_check_inputs(run->ctx, run->graph, n_in, run->infos);
}

/* If views of an mkldnn input are written, a dense copy replaces the input wherever it occurs. */
static status_t bind_dense(run_t *run, int first, int n_in, int input)
{
    const value_t *params = graph_body(run->graph)->params + first;
    datum_t *given = run->slots[params[input]].datum;
    if (!run_is_blocked(given) || !alias_is_viewed(run->alias, params[input])) return STATUS_OK;
    if (run->dense == NULL)
        TRY(context_get_zeroed(run->ctx, (size_t)n_in * sizeof *run->dense, "inputs of a run",
                               &run->dense));
    const tensor_t *tensor = datum_as_tensor(given);
    datum_t *dense = datum_retain(given);
    status_t status = run_make_dense(run->ctx, &dense);
    run->n_dense = n_in;
    for (int i = 0; i < n_in && status == STATUS_OK; i++) {
        slot_t *slot = &run->slots[params[i]];
        if (!run_is_blocked(slot->datum) || datum_as_tensor(slot->datum) != tensor) continue;
        run->dense[i] = datum_retain(dense);
        datum_release(slot->datum);
        slot->datum = datum_retain(dense);
    }
    datum_release(dense);
    return status;
}

status_t run_give_back(run_t *run, datum_t *const *in)
{
    for (int i = 0; i < run->n_dense; i++)
        if (run->dense[i] != NULL)
            TRY(tensor_copy(run->ctx, datum_as_tensor(in[i]), datum_as_tensor(run->dense[i])));
    return STATUS_OK;
}

status_t run_bind_inputs(run_t *run, module_t *self, int n_in, datum_t *const *in)
{
    context_t *ctx = run->ctx;
    const graph_block_t *body = graph_body(run->graph);
    REQUIRE(ctx, body->n_results <= METHOD_MAX_OUTPUTS,
            "%s: returns %d values, at most %d are supported", run->name, body->n_results,
            METHOD_MAX_OUTPUTS);
    int first = 0;
    if (body->n_params > 0 && graph_value_type(run->graph, body->params[0])->kind == TYPE_MODULE) {
        REQUIRE(ctx, self != NULL, "%s: takes a module as its first input, given none", run->name);
        run->slots[body->params[0]].module = self;
        first = 1;
    }
    REQUIRE(ctx, n_in == body->n_params - first, "%s: given %d inputs, takes %d", run->name, n_in,
            body->n_params - first);
    TRY(check_inputs(run, first, n_in, in));
    for (int i = 0; i < n_in; i++) run->slots[body->params[first + i]].datum = datum_retain(in[i]);
    for (int i = 0; i < n_in; i++) TRY(bind_dense(run, first, n_in, i));
    return STATUS_OK;
}
