/* Layout: chooses formats for all operators at once, and makes every conversion a node.
 *
 * After the pass, every value of known type has a format, and every change of format is a node:
 * to_mkldnn (moves no bytes), reorder or to_dense. Weights get reorders, too. Pass fold_reorders
 * replaces the reorder of a constant by a packed constant. The reorder of an attribute runs each
 * time, or only once if module_mkldnn was called for the attribute. Nodes that have unknown types
 * or write in place, and inputs and results of blocks, use dense tensors. If a tensor that is
 * written was blocked, it stays blocked. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/trace.h"

/* A value of the new graph that is an old value in one of its formats (a form). */
typedef struct form {
    value_t old, value;
    int next; /* next form of the same old value, or -1 */
    tensor_info_t info;
} form_t;

typedef struct emission {
    layout_search_t search;
    form_t *forms;
    int *first_forms; /* [graph_n_values]: first form of each old value, or -1 */
    int n_forms, capacity;
    bool has_blocks, keeps_results;
    int n_outer; /* number of forms made before the current block */
} emission_t;

/* The format that an old value has in the new graph. The result of an in-place operator is its
 * operand 0. */
static const tensor_info_t *form_of(const emission_t *emission, value_t old)
{
    const graph_node_t *node = graph_producer(emission->search.graph, old);
    for (; node != NULL && node->kind == NODE_OP && node->is_in_place && node->inputs[0] >= 0;
         node = graph_producer(emission->search.graph, old))
        old = node->inputs[0];
    int site = emission->search.site_of_value[old];
    if (site < 0) return layout_value_info(emission->search.graph, old);
    const layout_site_t *maker = &emission->search.sites[site];
    int output = 0;
    while (maker->node->outputs[output] != old) output++;
    return &layout_way(maker)->out[output];
}

static bool same_form(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->layout == b->layout && format_same(&a->format, &b->format, a->sizes);
}

/* The old value in this format, if it exists in the new graph; else VALUE_NONE. */
static value_t find_form(const emission_t *emission, value_t old, const tensor_info_t *want)
{
    for (int i = emission->first_forms[old]; i >= 0; i = emission->forms[i].next)
        if (same_form(&emission->forms[i].info, want)) return emission->forms[i].value;
    return VALUE_NONE;
}

/* Returns `old` in the format of `want`. Adds a conversion if this form does not exist. */
static status_t fetch(rewrite_t *rewrite, value_t old, const tensor_info_t *want, value_t *out)
{
    emission_t *emission = rewrite->user;
    const tensor_info_t *have = form_of(emission, old);
    *out = rewrite_value(rewrite, old);
    if (have == NULL || want->dtype == DTYPE_NONE || have->rank == 0 || same_form(have, want))
        return STATUS_OK;
    bool same_bytes = format_same(&have->format, &want->format, want->sizes);
    if (same_bytes && have->layout == LAYOUT_MKLDNN && want->layout == LAYOUT_MKLDNN)
        return STATUS_OK;
    const value_t made = find_form(emission, old, want);
    if (made >= 0) {
        *out = made;
        return STATUS_OK;
    }

    const graph_node_t *maker = graph_producer(rewrite->from, old);
    value_t value = layout_convert(rewrite, *out, have, want, maker == NULL ? NULL : maker->path);
    TRY(context_grow(rewrite->ctx, &emission->forms, &emission->capacity, emission->n_forms + 1,
                     sizeof *emission->forms));
    emission->forms[emission->n_forms] = (form_t){old, value, emission->first_forms[old], *want};
    emission->first_forms[old] = emission->n_forms++;
    *out = value;
    return STATUS_OK;
}

/* Returns a value in a dense form. A value written in place is not converted, because the write
 * would change only one of the two copies. */
static status_t fetch_dense(rewrite_t *rewrite, value_t old, value_t *out)
{
    const emission_t *emission = rewrite->user;
    const tensor_info_t *have = old < 0 ? NULL : form_of(emission, old);
    if (have == NULL || have->layout == LAYOUT_DENSE ||
        alias_is_mutated(emission->search.alias, old)) {
        *out = rewrite_value(rewrite, old);
        return STATUS_OK;
    }
    tensor_info_t dense = info_dense(have->dtype, have->rank, have->sizes);
    return fetch(rewrite, old, &dense, out);
}

static bool wants_reorder(const emission_t *emission, const layout_site_t *site, int input)
{
    value_t value = site->node->inputs[input];
    if (value < 0) return false;
    if (layout_is_activation(site, input)) return true;
    if (site->node->op->operands[input].role != ROLE_WEIGHT) return false;
    const tensor_info_t *have = form_of(emission, value), *want = &layout_way(site)->in[input];
    const graph_node_t *maker = graph_producer(emission->search.graph, value);
    /* the interpreter packs attributes too, and only once */
    bool is_stored = maker != NULL && (maker->kind == NODE_CONSTANT ||
                                       (maker->kind == NODE_GETATTR && !emission->has_blocks));
    /* the plan, not this pass, converts constants to formats that only one version of oneDNN can
     * read */
    return is_stored && have != NULL && want->format.kind != FORMAT_OPAQUE &&
           shape_equal(have->rank, have->sizes, want->rank, want->sizes);
}

/* Reports in the pass trace why an activation is reordered. */
static status_t note_reorder(const emission_t *emission, const layout_site_t *site, int input)
{
    context_t *ctx = emission->search.ctx;
    const value_t value = site->node->inputs[input];
    const tensor_info_t *have = form_of(emission, value), *want = &layout_way(site)->in[input];
    if (!trace_wanted(ctx, TRACE_PASS) || !layout_is_activation(site, input)) return STATUS_OK;
    if (have == NULL || format_same(&have->format, &want->format, want->sizes) ||
        find_form(emission, value, want) >= 0)
        return STATUS_OK;
    text_t text = text_begin(ctx);
    layout_say_why(&emission->search, site, input, have, &text);
    status_t status = text_status(&text);
    if (status == STATUS_OK) pass_note(ctx, "layout", site->node, text_string(&text));
    text_clear(&text);
    return status;
}

/* The new value for an input of a site, in the format of the site's chosen way (layout_impl.h). */
static status_t fetch_for(rewrite_t *rewrite, const layout_site_t *site, int input, value_t *out)
{
    TRY(note_reorder(rewrite->user, site, input));
    return fetch(rewrite, site->node->inputs[input], &layout_way(site)->in[input], out);
}

static const layout_site_t *site_of(const emission_t *emission, const graph_node_t *node)
{
    if (node->n_outputs == 0) return NULL;
    int site = emission->search.site_of_value[node->outputs[0]];
    return site < 0 || emission->search.sites[site].node != node ? NULL
                                                                 : &emission->search.sites[site];
}

static bool reads_grouped(const emission_t *emission, const graph_node_t *node, int input)
{
    const value_t value = node->inputs[input];
    const tensor_info_t *have = value < 0 || node->kind != NODE_OP ? NULL
                                                                   : form_of(emission, value);
    return have != NULL && select_reads_grouped(node->op, input, have);
}

static status_t emit_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    emission_t *emission = rewrite->user;
    const layout_site_t *site = site_of(emission, node);
    value_t *inputs = NULL;
    *out_done = true;
    TRY(context_get(rewrite->ctx, (size_t)node->n_inputs * sizeof *inputs, "inputs", &inputs));
    status_t status = STATUS_OK;
    for (int i = 0; status == STATUS_OK && i < node->n_inputs; i++) {
        inputs[i] = rewrite_value(rewrite, node->inputs[i]);
        if (site == NULL && reads_grouped(emission, node, i)) continue;
        if (site == NULL)
            status = fetch_dense(rewrite, node->inputs[i], &inputs[i]);
        else if (wants_reorder(emission, site, i))
            status = fetch_for(rewrite, site, i, &inputs[i]);
    }
    if (status == STATUS_OK && node->n_blocks > 0) {
        int n_outer = emission->n_outer;
        emission->n_outer = emission->n_forms;
        status = rewrite_copy_with(rewrite, node, inputs);
        emission->n_outer = n_outer;
    } else if (status == STATUS_OK) {
        graph_node_t chosen = *node;
        if (site != NULL) chosen.kernel = layout_kernel(site);
        status = rewrite_emit(rewrite, &chosen, inputs, node->outputs);
        for (int i = 0; site != NULL && status == STATUS_OK && i < node->n_outputs; i++)
            layout_set_info(rewrite, rewrite_value(rewrite, node->outputs[i]),
                            &layout_way(site)->out[i]);
        const tensor_info_t *written = node->is_in_place ? form_of(emission, node->outputs[0])
                                                         : NULL;
        if (status == STATUS_OK && written != NULL)
            layout_set_info(rewrite, rewrite_value(rewrite, node->outputs[0]), written);
    }
    context_put(rewrite->ctx, inputs);
    return status;
}

/* Results of blocks are dense, except those of the graph itself if keeps_results is set. Forms made
 * in the block cannot be used after it. */
static status_t end_block(rewrite_t *rewrite, const graph_block_t *block, value_t *results)
{
    emission_t *emission = rewrite->user;
    for (int i = 0; i < block->n_results; i++)
        if (block->index > 0 || !emission->keeps_results)
            TRY(fetch_dense(rewrite, block->results[i], &results[i]));
    while (emission->n_forms > emission->n_outer) {
        const form_t *form = &emission->forms[--emission->n_forms];
        emission->first_forms[form->old] = form->next;
    }
    return STATUS_OK;
}

/* Uses the earlier choice in the options if it is valid for the graph; else searches. */
static status_t search(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       layout_search_t *out_search)
{
    bool fits = false;
    layout_certificate_t certificate = {0};
    if (options->layout != NULL)
        TRY(layout_search_chosen(ctx, graph, options->layout, out_search, &fits));
    if (!fits) TRY(layout_search(ctx, graph, options, out_search, &certificate));
    if (options->out_certificate != NULL) *options->out_certificate = certificate;
    if (options->out_layout != NULL)
        layout_choice_print(out_search, options->names_kernels, options->out_layout);
    return STATUS_OK;
}

static status_t choose_and_emit(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                                graph_t **out_graph)
{
    emission_t emission = {.has_blocks = graph_has_blocks(graph),
                           .keeps_results = options->keeps_results};
    const size_t n_values = (size_t)graph_n_values(graph);
    TRY(search(ctx, graph, options, &emission.search));
    status_t status = context_get(ctx, n_values * sizeof *emission.first_forms, "formats",
                                  &emission.first_forms);
    for (size_t i = 0; status == STATUS_OK && i < n_values; i++) emission.first_forms[i] = -1;
    if (status == STATUS_OK)
        status = rewrite_graph_to_end(ctx, graph, emit_node, end_block, &emission, out_graph);
    layout_search_clear(&emission.search);
    CONTEXT_PUT(ctx, emission.first_forms, emission.forms);
    return status;
}

status_t pass_layout(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                     graph_t **out_graph)
{
    graph_t *typed = NULL;
    TRY(graph_retype(ctx, graph, NULL, &typed));
    FINISH(choose_and_emit(ctx, typed, options, out_graph), graph_release(typed));
}
