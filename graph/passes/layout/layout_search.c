/* Finds the sites for the layout choice, and their ways.
 *
 * For each operator, finds the formats for which there is a kernel other than reference code, and
 * the estimated time of each. layout_problem.c then chooses a way for every site, so that the sum
 * of all ways and reorders is minimal. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "dispatch/select_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"

/* ---- ways ---- */

/* Reads the infos of a node's inputs. False if the type of an input or output is unknown. */
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

/* Fewer channels than the smallest block has. */
#define FEW_CHANNELS 4

/* True if the operator computes a weight's gradient, from a source and a result's gradient. These
 * two may have different formats: images of three channels stay row-major while the gradient is
 * blocked. */
static bool gives_weight_gradient(const graph_node_t *node)
{
    return (node->op->traits & TRAIT_GRADS_WEIGHT) != 0;
}

static const layout_asked_t asked_dense = {-1, -1, -1};
/* Some ways read views without a copy: dense inputs with the strides that their producers make.
 * Ways of level 1 read a view, those of level 2 a view of a view, those of level 3 deeper ones.
 * Level 0: no views. LEVEL_LAST: the way is a view of a dense tensor in channels last, which a
 * producer with blocked formats can make. A permute of it may be row-major. */
#define MAX_LEVEL 3
#define LEVEL_LAST 4

static layout_asked_t ask_views(int level)
{
    return (layout_asked_t){(int8_t)(-1 - level), -1, -1};
}

static int level_of(layout_asked_t asked)
{
    return asked.in < asked_dense.in ? asked_dense.in - asked.in : 0;
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
        if (!layout_is_activation(site, i) || select_reads_grouped(node->op, i, &infos[i]))
            continue;
        if (layout == LAYOUT_MKLDNN && infos[i].rank > 0 && convert_refusal(&infos[i]) != NULL)
            return STATUS_OK;
        if (level_of(asked) > 0) continue;
        const format_t *in = i == 0 || out != NULL || second == NULL ? first : second;
        if (layout == LAYOUT_DENSE)
            shown[i] = info_dense(infos[i].dtype, infos[i].rank, infos[i].sizes);
        else if (infos[i].rank == in->rank)
            shown[i] = info_mkldnn(&infos[i], in);
    }
    prepared_t *way = NULL;
    status_t status = select_fixed(ctx, node->op, node->attrs, node->n_inputs, at, site->weights,
                                   layout, out,
                                   asked.kernel < 0 ? NULL : node->op->kernels[asked.kernel], &way);
    if (status == STATUS_OK) {
        site->asked[site->n_ways] = asked;
        site->costs[site->n_ways] = way->cost_ns;
        site->ways[site->n_ways++] = way;
    }
    return status == STATUS_UNSUPPORTED ? STATUS_OK : status;
}

/* Adds the way with the least estimate and, with measured times, ways of all competing kernels. */
static status_t add_ways(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                         const tensor_info_t *infos, const format_t *candidates,
                         layout_asked_t asked)
{
    const int n = site->n_ways;
    TRY(add_way(ctx, site, infos, candidates, asked));
    if (!search->has_timings || site->n_ways == n) return STATUS_OK;
    const kernel_t *const *kernels = site->node->op->kernels;
    for (int k = 0; kernels[k] != NULL; k++) {
        if ((kernels[k]->flags & KERNEL_COMPETES) == 0 || kernels[k] == site->ways[n]->kernel)
            continue;
        asked.kernel = (int8_t)k;
        TRY(add_way(ctx, site, infos, candidates, asked));
    }
    return STATUS_OK;
}

/* The info of a value if its producer makes it as a view; NULL if no way of the producer does. Uses
 * the producer's way of the highest level below `level` (for MAX_LEVEL: up to this level). */
static const tensor_info_t *find_view(const layout_search_t *search, value_t value, int level)
{
    const int maker = value < 0 ? -1 : search->site_of_value[value];
    const tensor_info_t *best = NULL;
    int best_level = -1;
    if (maker < 0) return NULL;
    const layout_site_t *site = &search->sites[maker];
    for (int w = 0; w < site->n_ways; w++) {
        const tensor_info_t *out = &site->ways[w]->out[layout_output_of(site, value)];
        const int has = level_of(site->asked[w]);
        const bool is_view = has > 0 && has <= MAX_LEVEL;
        if (out->layout != LAYOUT_DENSE || (!is_view && info_is_contiguous(out))) continue;
        if (has <= best_level || (has >= level && level < MAX_LEVEL)) continue;
        best = out;
        best_level = has;
    }
    return best;
}

/* If producers make views of inputs, adds a way that reads these views. */
static status_t add_view_way(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                             const tensor_info_t *infos, int level)
{
    tensor_info_t shown[OP_MAX_INPUTS];
    bool has_view = false;
    for (int i = 0; i < site->node->n_inputs; i++) {
        const value_t value = site->node->inputs[i];
        const tensor_info_t *view = NULL;
        if (layout_is_activation(site, i)) view = find_view(search, value, level);
        shown[i] = view != NULL ? *view : infos[i];
        has_view |= view != NULL;
    }
    return has_view ? add_way(ctx, site, shown, NULL, ask_views(level)) : STATUS_OK;
}

/* For a view of an image that its producer can make in other formats, adds the way that reads it in
 * channels last. */
static status_t add_last_way(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                             const tensor_info_t *infos)
{
    const value_t value = site->node->inputs[0];
    const int maker = value < 0 ? -1 : search->site_of_value[value];
    if ((site->node->op->traits & TRAIT_VIEW) == 0 || site->node->op->preference != OP_DENSE ||
        maker < 0 || search->sites[maker].node->op->preference == OP_DENSE || infos[0].rank < 3)
        return STATUS_OK;
    tensor_info_t shown[OP_MAX_INPUTS];
    for (int i = 0; i < site->node->n_inputs; i++) shown[i] = infos[i];
    const format_t last = format_channels_last(infos[0].rank);
    const tensor_info_t blocked = info_mkldnn(&infos[0], &last);
    shown[0] = choose_as_dense(&blocked);
    return add_way(ctx, site, shown, NULL, ask_views(LEVEL_LAST));
}

static status_t list_ways(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                          const tensor_info_t *infos)
{
    const graph_node_t *node = site->node;
    format_t candidates[CANDIDATES_MAX];
    int rank = main_rank(node, infos);
    int n = rank > 0 ? candidates_list(rank, candidates) : 0;
    if (node->op->preference != OP_DENSE)
        for (int i = 0; i < n; i++)
            TRY(add_ways(ctx, search, site, infos, candidates,
                         (layout_asked_t){(int8_t)i, -1, -1}));
    if (node->op->preference == OP_PREFERS && rank > 2 &&
        (!gives_weight_gradient(node) || infos[0].sizes[1] < FEW_CHANNELS))
        for (int i = 0; i + 1 < n; i++)
            TRY(add_ways(ctx, search, site, infos, candidates,
                         (layout_asked_t){(int8_t)(n - 1), (int8_t)i, -1}));
    if (node->op->preference == OP_DENSE || site->n_ways == 0)
        TRY(add_way(ctx, site, infos, candidates, asked_dense));
    for (int level = 1; level <= MAX_LEVEL; level++)
        TRY(add_view_way(ctx, search, site, infos, level));
    return add_last_way(ctx, search, site, infos);
}

/* Parses the digit of a candidate; -1 if there is none. */
static int8_t read_candidate(const char **at, int n)
{
    if (**at < '0' || **at >= '0' + n) return -1;
    return (int8_t)(*(*at)++ - '0');
}

/* Parses ":winograd_4" and returns the kernel's index; -1 if there is no colon. If the kernel is
 * unknown, *at stays at the colon. */
static int8_t read_kernel(const opdef_t *op, const char **at)
{
    if (**at != ':') return -1;
    for (int k = 0; op->kernels[k] != NULL; k++) {
        const size_t length = strlen(op->kernels[k]->name);
        if (strncmp(*at + 1, op->kernels[k]->name, length) != 0 || (*at)[1 + length] != ' ')
            continue;
        *at += 1 + length;
        return (int8_t)k;
    }
    return -1;
}

/* Adds the way that the text *at describes. Sets *at to NULL if that is wrong or refused. */
static status_t take_way(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                         const tensor_info_t *infos, const char **at)
{
    format_t candidates[CANDIDATES_MAX];
    int rank = main_rank(site->node, infos);
    int n = rank > 0 ? candidates_list(rank, candidates) : 0;
    layout_asked_t asked = asked_dense;
    const bool is_dense = **at == 'd';
    if (**at >= 'v' && **at < 'v' + LEVEL_LAST) asked = ask_views(**at - 'v' + 1);
    if (is_dense || level_of(asked) > 0) {
        ++*at;
    } else {
        asked.in = read_candidate(at, n);
        if (asked.in >= 0) asked.second = read_candidate(at, n);
    }
    if (asked.in >= 0) asked.kernel = read_kernel(site->node->op, at);
    bool is_read = **at == ' ' && (asked.in >= 0 || is_dense || level_of(asked) > 0);
    if (is_read && level_of(asked) == LEVEL_LAST)
        TRY(add_last_way(ctx, search, site, infos));
    else if (is_read && level_of(asked) > 0)
        TRY(add_view_way(ctx, search, site, infos, level_of(asked)));
    else if (is_read)
        TRY(add_way(ctx, site, infos, candidates, asked));
    *at = is_read && site->n_ways == 1 ? *at + 1 : NULL;
    return STATUS_OK;
}

/* Finds all ways or, if there is a text *at, only the way that it describes. */
static status_t find_ways(context_t *ctx, const layout_search_t *search, layout_site_t *site,
                          const char **at)
{
    tensor_info_t infos[OP_MAX_INPUTS];
    bool is_known = gather_infos(search->graph, site->node, infos);
    site->weights = weights_of(search->graph, site->node);
    if (at == NULL) return is_known ? list_ways(ctx, search, site, infos) : STATUS_OK;
    if (*at == NULL) return STATUS_OK;
    if (strncmp(*at, "- ", 2) == 0)
        *at += 2;
    else if (!is_known)
        *at = NULL;
    else
        return take_way(ctx, search, site, infos, at);
    return STATUS_OK;
}

static bool has_competitors(const opdef_t *op)
{
    int k = 0;
    while (op->kernels[k] != NULL && (op->kernels[k]->flags & KERNEL_COMPETES) == 0) k++;
    return op->kernels[k] != NULL;
}

void layout_choice_print(const layout_search_t *search, bool names_kernels, text_t *text)
{
    for (int s = 0; s < search->n_sites; s++) {
        const layout_site_t *site = &search->sites[s];
        const layout_asked_t *asked = &site->asked[site->chosen];
        const kernel_t *kernel = layout_kernel(site);
        if (names_kernels && site->n_ways > 0 && asked->in >= 0 && has_competitors(site->node->op))
            kernel = layout_way(site)->kernel;
        if (site->n_ways == 0)
            text_append(text, "-");
        else if (asked->in < 0)
            text_append(text, "%c", "dvwxy"[level_of(*asked)]);
        else if (asked->second < 0)
            text_append(text, "%d", asked->in);
        else
            text_append(text, "%d%d", asked->in, asked->second);
        if (kernel != NULL) text_append(text, ":%s", kernel->name);
        text_append(text, " ");
    }
}

/* ---- sites ---- */

/* An operator is not a site if it, or another node, writes one of its values in place. */
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
    return context_get(ctx, n_inputs * sizeof *search->sources, "layout sites", &search->sources);
}

/* Records which results of blocks become which values. The output of an `if` may come from either
 * branch. The outputs and parameters of a `loop` come from its body; the initial values are
 * ignored, because the loop reads them only once. */
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

/* Returns the output of a site to which a value is equal, which may be in another block; VALUE_NONE
 * if there is none. The limit ends the search at values that a loop passes on unchanged. */
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

/* The sites found so far. *chosen is the part of an earlier choice's text that was not read yet;
 * `chosen` is NULL without such a text. */
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
    TRY(find_ways(search->ctx, search, site, listing->chosen));
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
    return STATUS_OK;
}

/* ---- search ---- */

status_t layout_search(context_t *ctx, const graph_t *graph, const pass_options_t *options,
                       layout_search_t *out_search, layout_certificate_t *out_certificate)
{
    const char *timings = options->timings;
    *out_search = (layout_search_t){.ctx = ctx,
                                    .graph = graph,
                                    .scale = 1.0,
                                    .has_timings = options->tuning != NULL ||
                                                   layout_has_timings(timings)};
    status_t status = find_sites(ctx, graph, NULL, out_search);
    if (status == STATUS_OK && options->tuning != NULL) {
        status = layout_measure(out_search, options->tuning);
        timings = text_string(options->tuning->timings);
    }
    if (status == STATUS_OK && out_search->has_timings) {
        status = layout_take_timings(out_search, timings);
        layout_drop_worse(out_search);
    }
    if (status == STATUS_OK) status = layout_choose(out_search, options, out_certificate);
    if (status != STATUS_OK) layout_search_clear(out_search);
    return status;
}

status_t layout_search_chosen(context_t *ctx, const graph_t *graph, const char *choice,
                              layout_search_t *out_search, bool *out_fits)
{
    *out_search = (layout_search_t){.ctx = ctx, .graph = graph, .scale = 1.0};
    status_t status = find_sites(ctx, graph, &choice, out_search);
    *out_fits = status == STATUS_OK && choice != NULL && *choice == '\0';
    if (!*out_fits) layout_search_clear(out_search);
    return status;
}

void layout_search_clear(layout_search_t *search)
{
    layout_problem_release(search->problem);
    for (int s = 0; s < search->n_sites; s++)
        for (int w = 0; w < search->sites[s].n_ways; w++)
            prepared_release(search->sites[s].ways[w]);
    CONTEXT_PUT(search->ctx, search->sites, search->site_of_value, search->passed_on,
                search->inputs, search->sources);
    *search = (layout_search_t){0};
}
