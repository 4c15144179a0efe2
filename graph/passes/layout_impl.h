/* The layout pass in three parts: the sites and their ways, the choice, and the graph that has the
 * chosen formats. */
#ifndef TESSERA_GRAPH_PASSES_LAYOUT_IMPL_H
#define TESSERA_GRAPH_PASSES_LAYOUT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/passes/cost_network_impl.h"
#include "graph/passes/pass_impl.h"

/* Ways to run one node: each a prepared operator that says what it wants and makes. */
#define LAYOUT_MAX_WAYS 24

/* What was asked for a way: candidates (of candidates_list) for the main input, and for the output
 * (of a gradient of a weight: for its second input), -1 where none was; dense has neither. Below -1
 * in `in`: dense views, see layout_search.c. And the operator's kernel by number, -1: that of the
 * least estimate. For one pair of formats that one is as good as any, as long as estimates count:
 * others become ways where there are measured times. */
typedef struct layout_asked {
    int8_t in, second, kernel;
} layout_asked_t;

typedef struct layout_site {
    const graph_node_t *node;
    weight_use_t weights;
    int n_ways, chosen;
    prepared_t *ways[LAYOUT_MAX_WAYS];
    layout_asked_t asked[LAYOUT_MAX_WAYS];
    double costs[LAYOUT_MAX_WAYS]; /* in nanoseconds: estimated, or measured */
    bool is_measured;
    int *producers;   /* [node->n_inputs]: site that makes the input, or -1 */
    value_t *sources; /* [node->n_inputs]: its output that arrives there */
} layout_site_t;

/* The choice among the ways, with its costs. */
typedef struct layout_problem layout_problem_t;

typedef struct layout_search {
    context_t *ctx;
    const graph_t *graph;
    int n_sites;
    layout_site_t *sites;
    int *site_of_value; /* [graph_n_values]: producing site, or -1 */
    value_t (
        *passed_on)[2]; /* [graph_n_values]: what a result or parameter of a block stands for */
    const alias_t *alias;
    bool has_timings;          /* every kernel that competes is a way */
    double scale;              /* of estimates beside measured times */
    layout_problem_t *problem; /* NULL: nothing was searched for */
    int *inputs;               /* behind every site's producers */
    value_t *sources;
} layout_search_t;

/* Finds all sites, their ways, and chooses one for each so that the estimated time of the whole
 * graph, reorders included, is least. */
status_t layout_search(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       layout_search_t *out_search, layout_certificate_t *out_certificate);

/* Measuring ways within the pass: what layout_measure is told and tells. */
typedef struct layout_tuning {
    uint64_t deadline; /* by context_now */
    text_t *timings;   /* lines "#name;nanoseconds" */
    int n_measured;    /* operators; those that are alike count once */
} layout_tuning_t;

/* Times the ways of the sites that take longest until the deadline. And sets costs by such lines,
 * of which those that do not begin with # are passed over. */
status_t layout_measure(const layout_search_t *search, layout_tuning_t *tuning);
status_t layout_take_timings(layout_search_t *search, const char *lines);
bool layout_has_timings(const char *lines);

/* Of ways of one site in the same formats the cheapest stays. */
void layout_drop_worse(layout_search_t *search);

/* The second half of that: makes the problem, and sets the chosen way of each site. */
status_t layout_choose(layout_search_t *search, const pass_options_t *options,
                       layout_certificate_t *out_certificate);
void layout_problem_release(layout_problem_t *problem);

/* What was chosen, as text: for each site "-" (nothing), "d" (dense), "v", "w", "x" (views), or the
 * digits of the candidates that were asked for ("0", "0" "3": "03"), and a kernel where it was not
 * chosen by estimate ("0:winograd_4"), or with names_kernels wherever kernels compete. And the
 * search without searching: only the ways that such a text says; *out_fits is false, and nothing is
 * made, when the text is not of this graph or a way is refused. */
void layout_choice_print(const layout_search_t *search, bool names_kernels, text_t *text);
status_t layout_search_chosen(context_t *ctx, const graph_t *graph, const char *choice,
                              layout_search_t *out_search, bool *out_fits);
void layout_search_clear(layout_search_t *search);

/* What a way wants of an input and makes. */
static inline const prepared_t *layout_way(const layout_site_t *site)
{
    return site->n_ways > 0 ? site->ways[site->chosen] : NULL;
}

/* The kernel that was asked for by itself, or NULL. */
static inline const kernel_t *layout_kernel(const layout_site_t *site)
{
    if (site->n_ways == 0 || site->asked[site->chosen].kernel < 0) return NULL;
    return site->node->op->kernels[site->asked[site->chosen].kernel];
}

/* Which of a site's outputs a value is. */
static inline int layout_output_of(const layout_site_t *site, value_t value)
{
    int output = 0;
    while (site->node->outputs[output] != value) output++;
    return output;
}

/* Why an activation, which comes as `have`, is reordered for a site: how much longer the site and
 * its neighbours would take by estimate without that. Example: "grad comes in acdb and is read in
 * abcd; read as it comes: not to be had; made by relu as it is read: 12.5 us longer". */
void layout_say_why(const layout_search_t *search, const layout_site_t *site, int input,
                    const tensor_info_t *have, text_t *text);

/* The info of a value as the graph has it, or NULL when that is not known. */
const tensor_info_t *layout_value_info(const graph_t *graph, value_t value);

/* The same bytes in another form: the node to_dense, to_mkldnn or reorder. */
value_t layout_convert(rewrite_t *rewrite, value_t value, const tensor_info_t *have,
                       const tensor_info_t *want, const char *path);

/* True for inputs whose format follows the choice: activations of rank 1 and more. */
bool layout_is_activation(const layout_site_t *site, int input);

#endif
