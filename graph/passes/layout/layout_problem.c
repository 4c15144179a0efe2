/* Expresses the choice of formats as a cost function network; see cost_network_impl.h.
 *
 * Each site with ways is a variable; its ways are the values. Each value of the graph that is read
 * is a fan: its maker, and the sites that read it, each in the format of its chosen way. A weight
 * that is updated is a fan, too. Its maker is the operator of its gradient, because the weight has
 * the gradient's format; uses in other formats need copies. A dense result of the graph is a reader
 * with a single form. */
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/onednn/candidates.h"
#include "tensor/onednn/cost.h"

/* A reader of a fan, during construction. */
typedef struct entry {
    int site, input; /* site -1: a result of the graph, which must be dense */
    int next;        /* next entry of the fan, or -1 */
} entry_t;

/* An end of a fan: it has one info, or one for each way of its site. */
typedef struct end {
    const layout_site_t *site; /* NULL: use info */
    int input, output;         /* operand of the site; input -1: an output */
    const tensor_info_t *info;
} end_t;

struct layout_problem {
    context_t *ctx;
    layout_search_t *search;
    network_t network;
    int *n_values;
    const double **own;
    double *costs; /* memory for the costs of the ways of all sites, to which `own` points */
    network_fan_t *fans;
    double **fan_costs; /* [fans] costs of the fan's conversions */
    network_end_t *readers;
    int (*forms)[LAYOUT_MAX_WAYS]; /* [ends, including makers] form for each way */
    int n_readers, n_forms, n_entries;
    entry_t *entries;
    int *first_entry;   /* first entry of each value; then of each updated weight */
    value_t *gradients; /* [values] gradient of an updated weight; else VALUE_NONE */
    int *variables;     /* [sites] variable of the site, or -1 */
    int *chosen;        /* [variables] value of the variable */
};

/* ---- readers ---- */

static void add_entry(layout_problem_t *problem, int fan, int site, int input)
{
    problem->entries[problem->n_entries] = (entry_t){site, input, problem->first_entry[fan]};
    problem->first_entry[fan] = problem->n_entries++;
}

static bool is_weight(const layout_site_t *site, int input)
{
    return site->node->inputs[input] >= 0 &&
           select_operand(site->node->op, input)->role == ROLE_WEIGHT;
}

/* Adds a reader. Constants are converted once, when a plan is built, so reading them costs nothing.
 * Other inputs count if they are activations or updated weights. */
static void add_input(layout_problem_t *problem, int s, int input)
{
    const layout_search_t *search = problem->search;
    const layout_site_t *site = &search->sites[s];
    const value_t value = site->node->inputs[input];
    if (layout_is_activation(site, input)) {
        if (graph_constant(search->graph, value) != NULL) return;
        add_entry(problem, site->producers[input] >= 0 ? site->sources[input] : value, s, input);
    } else if (is_weight(site, input) && problem->gradients[value] >= 0) {
        add_entry(problem, graph_n_values(search->graph) + problem->gradients[value], s, input);
    }
}

static void add_entries(layout_problem_t *problem, bool keeps_results)
{
    const layout_search_t *search = problem->search;
    const graph_block_t *body = graph_body(search->graph);
    for (int i = 0; i < 2 * graph_n_values(search->graph); i++) problem->first_entry[i] = -1;
    for (int i = 0; i < body->n_results && !keeps_results; i++) {
        const value_t value = body->results[i];
        if (value >= 0 && search->site_of_value[value] >= 0) add_entry(problem, value, -1, 0);
    }
    for (int s = 0; s < search->n_sites; s++)
        for (int i = 0; i < search->sites[s].node->n_inputs && search->sites[s].n_ways > 0; i++)
            add_input(problem, s, i);
}

/* ---- fans ---- */

static const tensor_info_t *info_at(const end_t *end, int way)
{
    if (end->site == NULL) return end->info;
    const prepared_t *prepared = end->site->ways[way];
    return end->input < 0 ? &prepared->out[end->output] : &prepared->in[end->input];
}

/* Index of the info's form among those of a fan; infos with equal bytes are the same form. */
static int number_of(const tensor_info_t *info, const tensor_info_t **infos, int *n)
{
    int i = 0;
    if (info == NULL || info->dtype == DTYPE_NONE) return NETWORK_NO_FORM;
    while (i < *n && !(infos[i]->rank == info->rank &&
                       format_same(&infos[i]->format, &info->format, info->sizes)))
        i++;
    if (i == *n) infos[(*n)++] = info;
    return i;
}

static network_end_t make_end(layout_problem_t *problem, const end_t *end,
                              const tensor_info_t **infos, int *n_infos)
{
    int *forms = problem->forms[problem->n_forms++];
    const int n = end->site == NULL ? 1 : end->site->n_ways;
    for (int way = 0; way < n; way++) forms[way] = number_of(info_at(end, way), infos, n_infos);
    const int variable = end->site == NULL ? NETWORK_GIVEN
                                           : problem->variables[end->site - problem->search->sites];
    return (network_end_t){variable, forms};
}

static end_t maker_of(const layout_search_t *search, value_t value)
{
    const int site = search->site_of_value[value];
    if (site < 0) return (end_t){NULL, -1, -1, layout_value_info(search->graph, value)};
    return (end_t){&search->sites[site], -1, layout_output_of(&search->sites[site], value), NULL};
}

static status_t make_costs(context_t *ctx, const tensor_info_t *const *infos, int n, double scale,
                           double **out_costs)
{
    double *costs = NULL;
    TRY(context_get_zeroed(ctx, (size_t)(n * n) * sizeof *costs, "costs of reorders", &costs));
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++)
            if (from != to) costs[from * n + to] = scale * cost_reorder(infos[from], infos[to]);
    *out_costs = costs;
    return STATUS_OK;
}

/* Makes the fan of a value or, from n_values on, of an updated weight. infos: scratch memory for
 * the forms of all ends. */
static status_t make_fan(layout_problem_t *problem, int number, const tensor_info_t **infos)
{
    const layout_search_t *search = problem->search;
    const int n_values = graph_n_values(search->graph);
    const end_t maker = maker_of(search, number < n_values ? number : number - n_values);
    network_fan_t fan = {.readers = &problem->readers[problem->n_readers]};
    tensor_info_t dense;
    fan.maker = make_end(problem, &maker, infos, &fan.n_forms);
    for (int e = problem->first_entry[number]; e >= 0; e = problem->entries[e].next) {
        const entry_t *entry = &problem->entries[e];
        end_t reader = {NULL, entry->input, -1, &dense};
        if (entry->site >= 0)
            reader.site = &search->sites[entry->site];
        else
            dense = info_dense(info_at(&maker, 0)->dtype, info_at(&maker, 0)->rank,
                               info_at(&maker, 0)->sizes);
        problem->readers[problem->n_readers++] = make_end(problem, &reader, infos, &fan.n_forms);
        fan.n_readers++;
    }
    double **costs = &problem->fan_costs[problem->network.n_fans];
    TRY(make_costs(problem->ctx, infos, fan.n_forms, search->scale, costs));
    fan.costs = *costs;
    problem->fans[problem->network.n_fans++] = fan;
    return STATUS_OK;
}

static status_t make_fans(layout_problem_t *problem)
{
    const tensor_info_t **infos = NULL;
    const int n = 2 * graph_n_values(problem->search->graph);
    int n_longest = 0;
    for (int i = 0; i < n; i++) {
        int length = 1;
        for (int e = problem->first_entry[i]; e >= 0; e = problem->entries[e].next) length++;
        n_longest = length > n_longest ? length : n_longest;
    }
    TRY(context_get(problem->ctx, (size_t)(n_longest * LAYOUT_MAX_WAYS) * sizeof *infos, "formats",
                    &infos));
    status_t status = STATUS_OK;
    for (int i = 0; i < n && status == STATUS_OK; i++)
        if (problem->first_entry[i] >= 0) status = make_fan(problem, i, infos);
    context_put(problem->ctx, infos);
    return status;
}

/* ---- variables ---- */

static void make_variables(layout_problem_t *problem)
{
    const layout_search_t *search = problem->search;
    double *own = problem->costs;
    int n = 0;
    for (int s = 0; s < search->n_sites; s++) {
        const layout_site_t *site = &search->sites[s];
        problem->variables[s] = site->n_ways > 0 ? n : -1;
        if (site->n_ways == 0) continue;
        problem->n_values[n] = site->n_ways;
        problem->own[n++] = own;
        for (int way = 0; way < site->n_ways; way++) *own++ = site->costs[way];
    }
    problem->network.n_variables = n;
}

static value_t find_attribute(const graph_t *graph, const char *path)
{
    const graph_block_t *body = graph_body(graph);
    for (int i = 0; i < body->n_nodes; i++)
        if (body->nodes[i]->kind == NODE_GETATTR && strcmp(body->nodes[i]->name, path) == 0)
            return body->nodes[i]->outputs[0];
    return VALUE_NONE;
}

static void find_stepped(layout_problem_t *problem, const pass_options_t *options)
{
    const layout_search_t *search = problem->search;
    const graph_block_t *body = graph_body(search->graph);
    for (int v = 0; v < graph_n_values(search->graph); v++) problem->gradients[v] = VALUE_NONE;
    for (int i = 0; i < options->n_stepped; i++) {
        const int result = options->stepped[i].result;
        const value_t weight = find_attribute(search->graph, options->stepped[i].path);
        if (weight < 0 || result < 0 || result >= body->n_results) continue;
        const value_t gradient = body->results[result];
        if (gradient >= 0 && search->site_of_value[gradient] >= 0)
            problem->gradients[weight] = gradient;
    }
}

static status_t allocate(layout_problem_t *problem)
{
    context_t *ctx = problem->ctx;
    const layout_search_t *search = problem->search;
    const size_t n_sites = (size_t)search->n_sites,
                 n_values = (size_t)graph_n_values(search->graph);
    size_t n_entries = (size_t)graph_body(search->graph)->n_results;
    for (int s = 0; s < search->n_sites; s++) n_entries += (size_t)search->sites[s].node->n_inputs;
    static const char purpose[] = "the choice of formats";
    TRY(context_get(ctx, n_sites * sizeof *problem->n_values, purpose, &problem->n_values));
    TRY(context_get(ctx, n_sites * sizeof *problem->own, purpose, &problem->own));
    TRY(context_get(ctx, n_sites * LAYOUT_MAX_WAYS * sizeof *problem->costs, purpose,
                    &problem->costs));
    TRY(context_get(ctx, n_entries * sizeof *problem->fans, purpose, &problem->fans));
    TRY(context_get(ctx, n_entries * sizeof *problem->fan_costs, purpose, &problem->fan_costs));
    TRY(context_get(ctx, n_entries * sizeof *problem->readers, purpose, &problem->readers));
    TRY(context_get(ctx, 2 * n_entries * sizeof *problem->forms, purpose, &problem->forms));
    TRY(context_get(ctx, n_entries * sizeof *problem->entries, purpose, &problem->entries));
    TRY(context_get(ctx, 2 * n_values * sizeof *problem->first_entry, purpose,
                    &problem->first_entry));
    TRY(context_get(ctx, n_values * sizeof *problem->gradients, purpose, &problem->gradients));
    TRY(context_get(ctx, n_sites * sizeof *problem->chosen, purpose, &problem->chosen));
    return context_get(ctx, n_sites * sizeof *problem->variables, purpose, &problem->variables);
}

static status_t make_problem(layout_problem_t *problem, const pass_options_t *options)
{
    TRY(allocate(problem));
    make_variables(problem);
    find_stepped(problem, options);
    add_entries(problem, options->keeps_results);
    TRY(make_fans(problem));
    problem->network.n_values = problem->n_values;
    problem->network.own = problem->own;
    problem->network.fans = problem->fans;
    return STATUS_OK;
}

void layout_problem_release(layout_problem_t *problem)
{
    if (problem == NULL) return;
    for (int f = 0; f < problem->network.n_fans; f++)
        context_put(problem->ctx, problem->fan_costs[f]);
    CONTEXT_PUT(problem->ctx, problem->n_values, problem->own, problem->costs, problem->fans,
                problem->fan_costs, problem->readers, problem->forms, problem->entries,
                problem->first_entry, problem->gradients, problem->variables, problem->chosen,
                problem);
}

/* ---- solving ---- */

/* The way with this output format, if possible also as input format; else the cheapest way. */
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
        if (score > best_score || (score == best_score && site->costs[w] < site->costs[best])) {
            best = w;
            best_score = score;
        }
    }
    return best;
}

/* Solves the network, starting from each uniform choice (all blocked, all channels last, ...). The
 * difference between the result and the best uniform choice is the gain of mixed formats. */
static status_t solve(layout_problem_t *problem, layout_certificate_t *out_certificate)
{
    const layout_search_t *search = problem->search;
    const int n = problem->network.n_variables;
    format_t formats[CANDIDATES_MAX];
    const int n_starts = candidates_list(4, formats);
    const int *starts[CANDIDATES_MAX];
    network_certificate_t certificate;
    int *choices = NULL;
    TRY(context_get(problem->ctx, (size_t)(n_starts * n) * sizeof *choices, "uniform formats",
                    &choices));
    for (int start = 0; start < n_starts; start++) {
        starts[start] = choices + start * n;
        for (int s = 0; s < search->n_sites; s++)
            if (problem->variables[s] >= 0)
                choices[start * n + problem->variables[s]] = uniform_way(&search->sites[s], start);
    }
    status_t status = network_solve(problem->ctx, &problem->network, n_starts, starts,
                                    problem->chosen, &certificate);
    if (status == STATUS_OK)
        *out_certificate = (layout_certificate_t){certificate.cost, certificate.best_start,
                                                  certificate.lower_bound};
    context_put(problem->ctx, choices);
    return status;
}

status_t layout_choose(layout_search_t *search, const pass_options_t *options,
                       layout_certificate_t *out_certificate)
{
    layout_problem_t *problem = NULL;
    TRY(context_get_zeroed(search->ctx, sizeof *problem, "the choice of formats", &problem));
    search->problem = problem;
    problem->ctx = search->ctx;
    problem->search = search;
    TRY(make_problem(problem, options));
    TRY(solve(problem, out_certificate));
    for (int s = 0; s < search->n_sites; s++)
        if (problem->variables[s] >= 0)
            search->sites[s].chosen = problem->chosen[problem->variables[s]];
    return STATUS_OK;
}

/* ---- reasons ---- */

/* Additional time if the site used the best of its ways with `info` as this input (or, if output >=
 * 0, as that output) and all other sites kept their ways. Negative if there is no such way. */
static double cost_more(const layout_problem_t *problem, const layout_site_t *site, int input,
                        int output, const tensor_info_t *info)
{
    int *chosen = &problem->chosen[problem->variables[site - problem->search->sites]];
    const int now = *chosen;
    const double cost_now = network_cost(&problem->network, problem->chosen);
    double best = -1.0;
    for (int w = 0; w < site->n_ways; w++) {
        const tensor_info_t *has = output >= 0 ? &site->ways[w]->out[output]
                                               : &site->ways[w]->in[input];
        if (!format_same(&has->format, &info->format, info->sizes)) continue;
        *chosen = w;
        const double more = network_cost(&problem->network, problem->chosen) - cost_now;
        if (best < 0.0 || more < best) best = more > 0.0 ? more : 0.0;
    }
    *chosen = now;
    return best;
}

static void append_more(text_t *text, double more)
{
    if (more < 0.0)
        text_append(text, "not possible");
    else
        text_append(text, "%.1f us slower", more / 1000.0);
}

void layout_say_why(const layout_search_t *search, const layout_site_t *site, int input,
                    const tensor_info_t *have, text_t *text)
{
    char from[FORMAT_TEXT_MAX], to[FORMAT_TEXT_MAX];
    const tensor_info_t *want = &layout_way(site)->in[input];
    const int producer = site->producers[input];
    text_append(text, "%s arrives in %s and is read in %s; ",
                select_operand(site->node->op, input)->name, format_text(&have->format, from),
                format_text(&want->format, to));
    if (search->problem == NULL) {
        text_append(text, "as chosen earlier");
        return;
    }
    text_append(text, "read as it arrives: ");
    append_more(text, cost_more(search->problem, site, input, -1, have));
    if (producer < 0) return;
    const layout_site_t *maker = &search->sites[producer];
    text_append(text, "; made by %s as it is read: ", maker->node->op->name);
    append_more(text, cost_more(search->problem, maker, 0,
                                layout_output_of(maker, site->sources[input]), want));
}
