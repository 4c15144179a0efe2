/* The layout pass chooses formats and kernels for a whole graph.
 *
 * A site is a node whose formats are chosen. A way to run a site is a prepared operator, with fixed
 * formats and a fixed kernel. The pass finds the sites and their ways, chooses a way for each site,
 * and makes the graph with the chosen formats.
 *
 * The folder graph/passes/layout contains the passes about formats: choosing them, moving and
 * folding the conversions between them. */
#ifndef TESSERA_GRAPH_PASSES_LAYOUT_LAYOUT_IMPL_H
#define TESSERA_GRAPH_PASSES_LAYOUT_LAYOUT_IMPL_H

#include "dispatch/prepared_impl.h"
#include "graph/analysis/alias_impl.h"
#include "graph/passes/layout/cost_network_impl.h"
#include "graph/passes/pass_impl.h"

/* Maximum number of ways per site. */
#define LAYOUT_MAX_WAYS 24

/* The request for which a way was prepared. `in` is the requested format of the main input, an
 * index in candidates_list; `second` is that of the output (for a weight gradient: of the second
 * input). -1 means none, which is both in a dense way. `in` below -1 means dense views, see
 * layout_search.c. `kernel` is an index of the operator's kernels; -1: the kernel with the least
 * estimated time. With measured times, each other kernel is a separate way. */
typedef struct layout_asked {
    int8_t in, second, kernel;
} layout_asked_t;

typedef struct layout_site {
    const graph_node_t *node;
    weight_use_t weights;
    int n_ways, chosen;
    prepared_t *ways[LAYOUT_MAX_WAYS];
    layout_asked_t asked[LAYOUT_MAX_WAYS];
    double costs[LAYOUT_MAX_WAYS]; /* nanoseconds, estimated or measured */
    bool is_measured;
    int *producers;   /* [node->n_inputs]: site that produces the input, or -1 */
    value_t *sources; /* [node->n_inputs]: the output of that site */
} layout_site_t;

/* Choosing ways as an optimisation problem. */
typedef struct layout_problem layout_problem_t;

typedef struct layout_search {
    context_t *ctx;
    const graph_t *graph;
    int n_sites;
    layout_site_t *sites;
    int *site_of_value;      /* [graph_n_values]: site that produces the value, or -1 */
    value_t (*passed_on)[2]; /* [graph_n_values]: results of blocks that become this value */
    const alias_t *alias;
    bool has_timings;          /* every competing kernel is a way */
    double scale;              /* measured / estimated time; scales the other estimates */
    layout_problem_t *problem; /* NULL: no search was done */
    int *inputs;               /* memory of `producers` of all sites */
    value_t *sources;
} layout_search_t;

/* Finds all sites and their ways, and chooses ways that minimise the estimated time of the graph,
 * including reorders. */
status_t layout_search(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       layout_search_t *out_search, layout_certificate_t *out_certificate);

/* Measuring ways within the pass: the argument and result of layout_measure. */
typedef struct layout_tuning {
    uint64_t deadline; /* in the units of context_now */
    text_t *timings;   /* receives lines "#name;nanoseconds" */
    int n_measured;    /* number of operators measured; identical ones count once */
} layout_tuning_t;

/* layout_measure times the ways of the slowest sites until the deadline. layout_take_timings sets
 * costs from lines of timings; it ignores lines that do not begin with #. */
status_t layout_measure(const layout_search_t *search, layout_tuning_t *tuning);
status_t layout_take_timings(layout_search_t *search, const char *lines);
bool layout_has_timings(const char *lines);

/* Drops ways that have the same formats as a cheaper way of their site. */
void layout_drop_worse(layout_search_t *search);

/* Second half of layout_search: builds the problem, solves it and sets each site's chosen way. */
status_t layout_choose(layout_search_t *search, const pass_options_t *options,
                       layout_certificate_t *out_certificate);
void layout_problem_release(layout_problem_t *problem);

/* layout_choice_print writes the choice as text. It writes one of these for each site:
 *
 *   -              no way
 *   d              a dense way
 *   v, w, x        dense views of level 1, 2, 3
 *   y              a view of a dense tensor in channels last
 *   0, or 03       the requested candidates (0; or 0 and 3)
 *   0:winograd_4   also the kernel, if estimates did not choose it; with names_kernels, wherever
 *                  kernels compete
 *
 * layout_search_chosen makes only the ways in such a text. If the text does not fit the graph, or a
 * way is refused, *out_fits is false and no way is made. */
void layout_choice_print(const layout_search_t *search, bool names_kernels, text_t *text);
status_t layout_search_chosen(context_t *ctx, const graph_t *graph, const char *choice,
                              layout_search_t *out_search, bool *out_fits);
void layout_search_clear(layout_search_t *search);

/* The chosen way, with the formats of inputs and outputs; NULL if the site has no ways. */
static inline const prepared_t *layout_way(const layout_site_t *site)
{
    return site->n_ways > 0 ? site->ways[site->chosen] : NULL;
}

/* The kernel that the chosen way requested; NULL if estimates chose the kernel. */
static inline const kernel_t *layout_kernel(const layout_site_t *site)
{
    if (site->n_ways == 0 || site->asked[site->chosen].kernel < 0) return NULL;
    return site->node->op->kernels[site->asked[site->chosen].kernel];
}

/* Index of a value among a site's outputs. */
static inline int layout_output_of(const layout_site_t *site, value_t value)
{
    int output = 0;
    while (site->node->outputs[output] != value) output++;
    return output;
}

/* Appends the reason why an activation in the format of `have` is reordered for a site: how much
 * slower the alternatives are, by estimates. Example: "grad arrives in acdb and is read in abcd;
 * read as it arrives: not possible; made by relu as it is read: 12.5 us slower". */
void layout_say_why(const layout_search_t *search, const layout_site_t *site, int input,
                    const tensor_info_t *have, text_t *text);

/* The info of a value from its type, or NULL if it is unknown. */
const tensor_info_t *layout_value_info(const graph_t *graph, value_t value);

/* Sets the type of a value in the new graph; does nothing for VALUE_NONE. */
void layout_set_info(rewrite_t *rewrite, value_t value, const tensor_info_t *info);

/* Adds a conversion of `value`: to_dense, to_mkldnn or reorder. */
value_t layout_convert(rewrite_t *rewrite, value_t value, const tensor_info_t *have,
                       const tensor_info_t *want, const char *path);

/* True for inputs whose format is chosen: activations of rank 1 or more. */
bool layout_is_activation(const layout_site_t *site, int input);

#endif
