/* The search for formats.
 *
 * Every operator is asked in which formats it runs without a reference implementation, and what
 * each costs by estimate. Then one way is chosen for every node so that the sum over nodes and over
 * the reorders between them is least: from each uniform start (all blocked, all channels last, ...)
 * nodes are improved one at a time until nothing gets better, and the best end is taken. Uniform
 * starts matter, since from a mixture no single change pays: it would add a reorder on either side.
 */
#include <string.h>

#include "dispatch/choose_impl.h"
#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert_impl.h"

const tensor_info_t *layout_value_info(const graph_t *graph, value_t value)
{
    if (value < 0) return NULL;
    const graph_type_t *type = graph_value_type(graph, value);
    return type_is_static(type) ? &type->info : NULL;
}

bool layout_is_activation(const layout_site_t *site, int input)
{
    return site->node->inputs[input] >= 0 &&
           select_operand(site->node->op, input)->role == ROLE_ACTIVATION;
}

/* ---- ways ---- */

/* Input infos of a node; false when something is not known. */
static bool gather_infos(const graph_t *graph, const graph_node_t *node, tensor_info_t *out)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i] < 0) {
            out[i] = absent;
            continue;
        }
        const tensor_info_t *info = layout_value_info(graph, node->inputs[i]);
        if (info == NULL) return false;
        out[i] = *info;
    }
    for (int i = 0; i < node->n_outputs; i++)
        if (layout_value_info(graph, node->outputs[i]) == NULL) return false;
    return true;
}

static int main_rank(const graph_node_t *node, const tensor_info_t *infos)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (infos[i].dtype != DTYPE_NONE && select_operand(node->op, i)->role == ROLE_ACTIVATION)
            return infos[i].rank;
    return 0;
}

/* Channels that are fewer than any block has lanes. */
#define FEW_CHANNELS 4

/* A layer's weight gets its gradient from its source and its result's gradient. These may lie in
 * two formats: images of three channels are read row-major beside a blocked gradient. */
static bool gives_weight_gradient(const graph_node_t *node)
{
    return (node->op->traits & TRAIT_GRADS_WEIGHT) != 0;
}

static status_t add_way(context_t *ctx, layout_site_t *site, const tensor_info_t *infos,
                        const format_t *candidates, layout_asked_t asked)
{
    const graph_node_t *node = site->node;
    layout_t layout = asked.in < 0 ? LAYOUT_DENSE : LAYOUT_MKLDNN;
    const format_t *first = asked.in < 0 ? NULL : &candidates[asked.in];
    const format_t *second = asked.second < 0 ? NULL : &candidates[asked.second];
    const format_t *out = gives_weight_gradient(node) ? NULL : second;
    tensor_info_t shown[OP_MAX_INPUTS];
    const tensor_info_t *at[OP_MAX_INPUTS];
    if (site->n_ways == LAYOUT_MAX_WAYS) return STATUS_OK;
    for (int i = 0; i < node->n_inputs; i++) {
        shown[i] = infos[i];
        at[i] = &shown[i];
        if (!layout_is_activation(site, i)) continue;
        if (layout == LAYOUT_MKLDNN && infos[i].rank > 0 && convert_refusal(&infos[i]) != NULL)
            return STATUS_OK;
        const format_t *in = i == 0 || out != NULL || second == NULL ? first : second;
        if (layout == LAYOUT_DENSE)
            shown[i] = info_dense(infos[i].dtype, infos[i].rank, infos[i].sizes);
        else if (infos[i].rank == in->rank)
            shown[i] = info_mkldnn(&infos[i], in);
    }
    prepared_t *way = NULL;
    status_t status = dispatch_select_fixed(ctx, node->op, node->attrs, node->n_inputs, at, layout,
                                            out, &way);
    if (status == STATUS_OK) {
        site->asked[site->n_ways] = asked;
        site->ways[site->n_ways++] = way;
    }
    return status == STATUS_UNSUPPORTED ? STATUS_OK : status;
}

static const layout_asked_t asked_dense = {-1, -1};

static status_t list_ways(context_t *ctx, layout_site_t *site, const tensor_info_t *infos)
{
    const graph_node_t *node = site->node;
    format_t candidates[CANDIDATES_MAX];
    int rank = main_rank(node, infos);
    int n = rank > 0 ? candidates_list(rank, candidates) : 0;
    if (node->op->preference != OP_DENSE)
        for (int i = 0; i < n; i++)
            TRY(add_way(ctx, site, infos, candidates, (layout_asked_t){(int8_t)i, -1}));
    if (node->op->preference == OP_PREFERS && rank > 2 &&
        (!gives_weight_gradient(node) || infos[0].sizes[1] < FEW_CHANNELS))
        for (int i = 0; i + 1 < n; i++)
            TRY(add_way(ctx, site, infos, candidates,
                        (layout_asked_t){(int8_t)(n - 1), (int8_t)i}));
    if (node->op->preference == OP_DENSE || site->n_ways == 0)
        TRY(add_way(ctx, site, infos, candidates, asked_dense));
    return STATUS_OK;
}

/* A candidate's digit, or -1 when this is none. */
static int8_t read_candidate(const char **at, int n)
{
    if (**at < '0' || **at >= '0' + n) return -1;
    return (int8_t)(*(*at)++ - '0');
}

/* The one way that the text says; *at is NULL after a site that has none, or text of another kind.
 */
static status_t take_way(context_t *ctx, layout_site_t *site, const tensor_info_t *infos,
                         const char **at)
{
    format_t candidates[CANDIDATES_MAX];
    int rank = main_rank(site->node, infos);
    int n = rank > 0 ? candidates_list(rank, candidates) : 0;
    layout_asked_t asked = asked_dense;
    if (**at == 'd') {
        ++*at;
    } else {
        asked.in = read_candidate(at, n);
        if (asked.in >= 0) asked.second = read_candidate(at, n);
    }
    bool is_read = **at == ' ' && ((*at)[-1] == 'd' || asked.in >= 0);
    if (is_read) TRY(add_way(ctx, site, infos, candidates, asked));
    *at = is_read && site->n_ways == 1 ? *at + 1 : NULL;
    return STATUS_OK;
}

/* All ways, or with `at` the chosen one: see take_way. */
static status_t find_ways(context_t *ctx, const graph_t *graph, layout_site_t *site,
                          const char **at)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    bool is_known = gather_infos(graph, site->node, infos);
    if (at == NULL) return is_known ? list_ways(ctx, site, infos) : STATUS_OK;
    if (*at == NULL) return STATUS_OK;
    if (strncmp(*at, "- ", 2) == 0)
        *at += 2;
    else if (!is_known)
        *at = NULL;
    else
        return take_way(ctx, site, infos, at);
    return STATUS_OK;
}

void layout_choice_print(const layout_search_t *search, text_t *text)
{
    for (int s = 0; s < search->n_sites; s++) {
        const layout_site_t *site = &search->sites[s];
        const layout_asked_t *asked = &site->asked[site->chosen];
        if (site->n_ways == 0)
            text_append(text, "- ");
        else if (asked->in < 0)
            text_append(text, "d ");
        else if (asked->second < 0)
            text_append(text, "%d ", asked->in);
        else
            text_append(text, "%d%d ", asked->in, asked->second);
    }
}

/* ---- sites ---- */

/* What is written in place stays where its writer finds it. */
static bool is_site(const layout_search_t *search, const graph_node_t *node)
{
    if (node->kind != NODE_OP || node->is_in_place) return false;
    for (int i = 0; i < node->n_inputs; i++)
        if (alias_is_mutated(search->alias, node->inputs[i])) return false;
    for (int i = 0; i < node->n_outputs; i++)
        if (alias_is_mutated(search->alias, node->outputs[i])) return false;
    return true;
}

typedef struct tally {
    const layout_search_t *search;
    int n_sites, n_inputs;
} tally_t;

static status_t count_site(void *user, const graph_node_t *node)
{
    tally_t *tally = user;
    if (!is_site(tally->search, node)) return STATUS_OK;
    tally->n_sites++;
    tally->n_inputs += node->n_inputs;
    return STATUS_OK;
}

static status_t allocate(context_t *ctx, const graph_t *graph, layout_search_t *search)
{
    tally_t tally = {.search = search};
    size_t n_values = (size_t)graph_n_values(graph);
    (void)rewrite_visit(graph_body(graph), count_site, &tally);
    size_t n_inputs = (size_t)tally.n_inputs;
    TRY(context_get_zeroed(ctx, (size_t)tally.n_sites * sizeof *search->sites, "layout sites",
                           &search->sites));
    TRY(context_get(ctx, n_values * sizeof *search->site_of_value, "layout sites",
                    &search->site_of_value));
    TRY(context_get(ctx, n_values * sizeof *search->passed_on, "layout sites", &search->passed_on));
    TRY(context_get(ctx, n_inputs * sizeof *search->inputs, "layout sites", &search->inputs));
    TRY(context_get(ctx, n_inputs * sizeof *search->sources, "layout sites", &search->sources));
    return context_get(ctx, n_inputs * sizeof *search->readers, "layout sites", &search->readers);
}

/* Values that cross the border of a block: an if gives what either branch yields, a loop what its
 * body yields, to itself and in the end. What a loop begins with comes once only. */
static status_t note_borders(void *user, const graph_node_t *node)
{
    layout_search_t *search = user;
    for (int i = 0; i < node->n_outputs && node->kind == NODE_IF; i++)
        for (int b = 0; b < 2; b++)
            search->passed_on[node->outputs[i]][b] = node->blocks[b]->results[i];
    for (int i = 0; i < node->n_outputs && node->kind == NODE_LOOP; i++) {
        const graph_block_t *body = node->blocks[0];
        search->passed_on[node->outputs[i]][0] = body->results[i + 1];
        search->passed_on[body->params[i + 1]][0] = body->results[i + 1];
    }
    return STATUS_OK;
}

/* The output of a site that arrives as this value, through borders of blocks; VALUE_NONE if it
 * comes from elsewhere. Values that loops carry round unchanged end at the limit. */
static value_t find_source(const layout_search_t *search, value_t value, int limit)
{
    if (value < 0 || limit == 0) return VALUE_NONE;
    if (search->site_of_value[value] >= 0) return value;
    value_t source = find_source(search, search->passed_on[value][0], limit - 1);
    return source >= 0 ? source : find_source(search, search->passed_on[value][1], limit - 1);
}

#define MAX_BORDERS 8

static void link_producers(layout_search_t *search)
{
    int at = 0;
    for (int s = 0; s < search->n_sites; s++) {
        layout_site_t *site = &search->sites[s];
        site->producers = &search->inputs[at];
        site->sources = &search->sources[at];
        for (int i = 0; i < site->node->n_inputs; i++) {
            value_t source = find_source(search, site->node->inputs[i], MAX_BORDERS);
            site->sources[i] = source;
            site->producers[i] = source < 0 ? -1 : search->site_of_value[source];
        }
        at += site->node->n_inputs;
    }
}

static int output_of(const layout_site_t *maker, value_t value)
{
    int output = 0;
    while (maker->node->outputs[output] != value) output++;
    return output;
}

static void link_readers(layout_search_t *search)
{
    int n = 0;
    for (int s = 0; s < search->n_sites; s++) {
        layout_site_t *maker = &search->sites[s];
        maker->first_reader = n;
        for (int r = 0; r < search->n_sites; r++) {
            const layout_site_t *reader = &search->sites[r];
            for (int i = 0; i < reader->node->n_inputs; i++) {
                if (reader->producers[i] != s) continue;
                int output = output_of(maker, reader->sources[i]);
                search->readers[n++] = (layout_reader_t){r, i, output};
            }
        }
        maker->n_readers = n - maker->first_reader;
    }
}

/* Sites being listed; *chosen moves over what was chosen earlier, NULL: nothing was. */
typedef struct listing {
    layout_search_t *search;
    const char **chosen;
} listing_t;

static status_t add_site(void *user, const graph_node_t *node)
{
    const listing_t *listing = user;
    layout_search_t *search = listing->search;
    if (!is_site(search, node)) return STATUS_OK;
    layout_site_t *site = &search->sites[search->n_sites++];
    site->node = node;
    TRY(find_ways(search->ctx, search->graph, site, listing->chosen));
    for (int i = 0; i < node->n_outputs && site->n_ways > 0; i++)
        search->site_of_value[node->outputs[i]] = search->n_sites - 1;
    return STATUS_OK;
}

static status_t find_sites(context_t *ctx, const graph_t *graph, const char **chosen,
                           layout_search_t *search)
{
    listing_t listing = {search, chosen};
    TRY(alias_of(ctx, graph, &search->alias));
    TRY(allocate(ctx, graph, search));
    for (int i = 0; i < graph_n_values(graph); i++) {
        search->site_of_value[i] = -1;
        search->passed_on[i][0] = search->passed_on[i][1] = VALUE_NONE;
    }
    (void)rewrite_visit(graph_body(graph), note_borders, search);
    TRY(rewrite_visit(graph_body(graph), add_site, &listing));
    link_producers(search);
    link_readers(search);
    return STATUS_OK;
}

/* ---- weights that are stepped ---- */

static value_t find_attribute(const graph_t *graph, const char *path)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++)
        if (body->nodes[i]->kind == NODE_GETATTR && strcmp(body->nodes[i]->name, path) == 0)
            return body->nodes[i]->outputs[0];
    return VALUE_NONE;
}

static bool is_weight(const layout_site_t *site, int input)
{
    return site->node->inputs[input] >= 0 &&
           select_operand(site->node->op, input)->role == ROLE_WEIGHT;
}

static status_t find_stepped(layout_search_t *search, const pass_options_t *options)
{
    const size_t n_values = (size_t)graph_n_values(search->graph);
    const graph_block_t *body = graph_body(search->graph);
    int n_uses = 0, n_inputs = 0;
    if (options->n_stepped == 0) return STATUS_OK;
    for (int s = 0; s < search->n_sites; s++) n_inputs += search->sites[s].node->n_inputs;
    TRY(context_get(search->ctx, n_values * sizeof *search->stepped, "weights that are stepped",
                    &search->stepped));
    TRY(context_get(search->ctx, (size_t)n_inputs * sizeof *search->uses,
                    "weights that are stepped", &search->uses));
    for (size_t v = 0; v < n_values; v++)
        search->stepped[v] = (layout_stepped_t){VALUE_NONE, VALUE_NONE, -1};
    for (int i = 0; i < options->n_stepped; i++) {
        const int result = options->stepped[i].result;
        const value_t weight = find_attribute(search->graph, options->stepped[i].path);
        if (weight < 0 || result < 0 || result >= body->n_results) continue;
        const value_t gradient = body->results[result];
        if (gradient < 0 || search->site_of_value[gradient] < 0) continue;
        search->stepped[weight].gradient = gradient;
        search->stepped[gradient].weight = weight;
    }
    for (int s = 0; s < search->n_sites; s++)
        for (int i = 0; i < search->sites[s].node->n_inputs; i++) {
            if (!is_weight(&search->sites[s], i)) continue;
            layout_stepped_t *weight = &search->stepped[search->sites[s].node->inputs[i]];
            search->uses[n_uses] = (layout_weight_use_t){s, i, weight->first_use};
            weight->first_use = n_uses++;
        }
    return STATUS_OK;
}

/* The format in which a weight lies that is stepped by this gradient. */
static const tensor_info_t *info_made(const layout_search_t *search, value_t value)
{
    const layout_site_t *maker = &search->sites[search->site_of_value[value]];
    return &layout_way(maker)->out[output_of(maker, value)];
}

static double weight_cost(const layout_search_t *search, const layout_site_t *site,
                          const prepared_t *way, int input)
{
    if (search->stepped == NULL || !is_weight(site, input)) return 0.0;
    const value_t gradient = search->stepped[site->node->inputs[input]].gradient;
    return gradient < 0 ? 0.0 : cost_reorder(info_made(search, gradient), &way->in[input]);
}

/* Reorders that the uses of the weights would need that this node's outputs step. */
static double uses_cost(const layout_search_t *search, const layout_site_t *site,
                        const prepared_t *way)
{
    double cost = 0.0;
    for (int i = 0; i < site->node->n_outputs && search->stepped != NULL; i++) {
        const value_t weight = search->stepped[site->node->outputs[i]].weight;
        if (weight < 0) continue;
        for (int u = search->stepped[weight].first_use; u >= 0; u = search->uses[u].next) {
            const layout_site_t *user = &search->sites[search->uses[u].site];
            if (layout_way(user) != NULL)
                cost += cost_reorder(&way->out[i], &layout_way(user)->in[search->uses[u].input]);
        }
    }
    return cost;
}

/* ---- cost ---- */

/* What an input is when this node gets it: as its producer's chosen way makes it. */
static double input_cost(const layout_search_t *search, const layout_site_t *site,
                         const prepared_t *way, int input)
{
    if (!layout_is_activation(site, input)) return weight_cost(search, site, way, input);
    value_t value = site->node->inputs[input];
    if (graph_constant(search->graph, value) != NULL) return 0.0;
    const tensor_info_t *have = layout_value_info(search->graph, value);
    int producer = site->producers[input];
    if (producer >= 0) {
        const layout_site_t *maker = &search->sites[producer];
        have = &layout_way(maker)->out[output_of(maker, site->sources[input])];
    }
    return cost_reorder(have, &way->in[input]);
}

static double way_cost(const layout_search_t *search, const layout_site_t *site,
                       const prepared_t *way)
{
    double cost = way->cost_ns;
    for (int i = 0; i < site->node->n_inputs; i++) cost += input_cost(search, site, way, i);
    return cost;
}

/* Reorders that the readers of this node's outputs would need. */
static double readers_cost(const layout_search_t *search, const layout_site_t *site,
                           const prepared_t *way)
{
    double cost = uses_cost(search, site, way);
    for (int r = 0; r < site->n_readers; r++) {
        const layout_reader_t *reader = &search->readers[site->first_reader + r];
        const layout_site_t *to = &search->sites[reader->site];
        if (layout_way(to) == NULL || !layout_is_activation(to, reader->input)) continue;
        cost += cost_reorder(&way->out[reader->output], &layout_way(to)->in[reader->input]);
    }
    return cost;
}

static double total_cost(const layout_search_t *search)
{
    double cost = 0.0;
    for (int s = 0; s < search->n_sites; s++)
        if (layout_way(&search->sites[s]) != NULL)
            cost += way_cost(search, &search->sites[s], layout_way(&search->sites[s]));
    return cost;
}

/* ---- reasons ---- */

/* How much longer a site and its neighbours would take with the best of its ways that has `info` as
 * this input, or with output >= 0 as that output; negative: no way has it. */
static double cost_more(const layout_search_t *search, const layout_site_t *site, int input,
                        int output, const tensor_info_t *info)
{
    double best = -1.0;
    const double now = way_cost(search, site, layout_way(site)) +
                       readers_cost(search, site, layout_way(site));
    for (int w = 0; w < site->n_ways; w++) {
        const prepared_t *way = site->ways[w];
        const tensor_info_t *has = output >= 0 ? &way->out[output] : &way->in[input];
        if (!format_same(&has->format, &info->format, info->sizes)) continue;
        const double more = way_cost(search, site, way) + readers_cost(search, site, way) - now;
        if (best < 0.0 || more < best) best = more > 0.0 ? more : 0.0;
    }
    return best;
}

static void append_more(text_t *text, double more)
{
    if (more < 0.0)
        text_append(text, "not to be had");
    else
        text_append(text, "%.1f us longer", more / 1000.0);
}

void layout_say_why(const layout_search_t *search, const layout_site_t *site, int input,
                    const tensor_info_t *have, text_t *text)
{
    char from[FORMAT_TEXT_MAX], to[FORMAT_TEXT_MAX];
    const tensor_info_t *want = &layout_way(site)->in[input];
    const int producer = site->producers[input];
    text_append(text, "%s comes in %s and is read in %s; read as it comes: ",
                select_operand(site->node->op, input)->name, format_text(&have->format, from),
                format_text(&want->format, to));
    append_more(text, cost_more(search, site, input, -1, have));
    if (producer < 0) return;
    const layout_site_t *maker = &search->sites[producer];
    text_append(text, "; made by %s as it is read: ", maker->node->op->name);
    append_more(text, cost_more(search, maker, 0, output_of(maker, site->sources[input]), want));
}

/* ---- search ---- */

static bool improve(const layout_search_t *search, layout_site_t *site)
{
    int best = site->chosen;
    double best_cost = 0.0;
    for (int w = 0; w < site->n_ways; w++) {
        /* the present way first, so that ties keep it */
        int way = w == 0 ? site->chosen : w <= site->chosen ? w - 1 : w;
        double cost = way_cost(search, site, site->ways[way]) +
                      readers_cost(search, site, site->ways[way]);
        if (w == 0 || cost < best_cost - 1.0) {
            best = way;
            best_cost = cost;
        }
    }
    bool is_better = best != site->chosen;
    site->chosen = best;
    return is_better;
}

static void settle(layout_search_t *search)
{
    bool is_better = true;
    for (int round = 0; is_better && round < 8; round++) {
        is_better = false;
        for (int s = 0; s < search->n_sites; s++) is_better |= improve(search, &search->sites[s]);
        for (int s = search->n_sites - 1; s >= 0; s--)
            is_better |= improve(search, &search->sites[s]);
    }
}

/* A way that makes this format, preferring one that also takes it; else the cheapest. */
static int uniform_way(const layout_site_t *site, int candidate)
{
    int best = 0, best_score = -1;
    for (int w = 0; w < site->n_ways; w++) {
        const tensor_info_t *out = &site->ways[w]->out[0], *in = NULL;
        for (int i = 0; i < site->node->n_inputs && in == NULL; i++)
            if (layout_is_activation(site, i)) in = &site->ways[w]->in[i];
        format_t formats[CANDIDATES_MAX];
        int score = 0;
        if (candidate < candidates_list(out->rank, formats) &&
            format_same(&out->format, &formats[candidate], out->sizes))
            score += 2;
        if (in != NULL && candidate < candidates_list(in->rank, formats) &&
            format_same(&in->format, &formats[candidate], in->sizes))
            score += 1;
        if (score > best_score ||
            (score == best_score && site->ways[w]->cost_ns < site->ways[best]->cost_ns)) {
            best = w;
            best_score = score;
        }
    }
    return best;
}

static status_t choose(context_t *ctx, layout_search_t *search)
{
    format_t formats[CANDIDATES_MAX];
    int n_starts = candidates_list(4, formats), *best = NULL;
    double best_cost = 0.0;
    TRY(context_get(ctx, (size_t)search->n_sites * sizeof *best, "layout choices", &best));
    for (int start = 0; start < n_starts; start++) {
        for (int s = 0; s < search->n_sites; s++)
            search->sites[s].chosen = uniform_way(&search->sites[s], start);
        settle(search);
        double cost = total_cost(search);
        if (start > 0 && cost >= best_cost) continue;
        best_cost = cost;
        for (int s = 0; s < search->n_sites; s++) best[s] = search->sites[s].chosen;
    }
    for (int s = 0; s < search->n_sites; s++) search->sites[s].chosen = best[s];
    context_put(ctx, best);
    return STATUS_OK;
}

status_t layout_search(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       layout_search_t *out_search)
{
    *out_search = (layout_search_t){.ctx = ctx, .graph = graph};
    status_t status = find_sites(ctx, graph, NULL, out_search);
    if (status == STATUS_OK) status = find_stepped(out_search, options);
    if (status == STATUS_OK) status = choose(ctx, out_search);
    if (status != STATUS_OK) layout_search_clear(out_search);
    return status;
}

status_t layout_search_chosen(context_t *ctx, const graph_t *graph, const char *choice,
                              layout_search_t *out_search, bool *out_fits)
{
    *out_search = (layout_search_t){.ctx = ctx, .graph = graph};
    status_t status = find_sites(ctx, graph, &choice, out_search);
    *out_fits = status == STATUS_OK && choice != NULL && *choice == '\0';
    if (!*out_fits) layout_search_clear(out_search);
    return status;
}

void layout_search_clear(layout_search_t *search)
{
    for (int s = 0; s < search->n_sites; s++)
        for (int w = 0; w < search->sites[s].n_ways; w++)
            prepared_release(search->sites[s].ways[w]);
    context_put(search->ctx, search->sites);
    context_put(search->ctx, search->site_of_value);
    context_put(search->ctx, search->passed_on);
    context_put(search->ctx, search->inputs);
    context_put(search->ctx, search->sources);
    context_put(search->ctx, search->readers);
    context_put(search->ctx, search->stepped);
    context_put(search->ctx, search->uses);
    *search = (layout_search_t){0};
}
