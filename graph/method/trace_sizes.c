/* Checks a traced graph at other sizes.
 *
 * The method runs again on tensors without data, at other input sizes: first with one dimension
 * changed, then with all those that may vary. Each number that differs between these runs must be
 * an expression of the sizes. At further sizes, the graph must equal a new trace, and it must
 * reject sizes at which the method fails. A method that reads sizes may branch on them, so it runs
 * at many sizes. */
#include "graph/method/holes_impl.h"
#include "graph/method/trace_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/hollow_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/trace.h"
#include "tensor/threads/interrupt_impl.h"

#define MAX_INPUTS 64
#define MAX_NAMES 16
#define N_FITTED 6
#define NOT_NAMED (-1)

typedef struct name {
    char text[16];
    int64_t size, step; /* size in the first trace; step by which it changed */
} name_t;

typedef struct proof {
    context_t *ctx;
    module_t *initial;
    const char *method;
    int n_in;
    tensor_info_t *base;  /* infos of the inputs */
    tensor_info_t *infos; /* for the next run */
    const graph_t *graph;
    int8_t *name_of; /* [input * TENSOR_MAX_RANK + dim]: index in names, NOT_NAMED */
    int64_t *steps;  /* step by which the dimension changed alone; 0 if it cannot change alone */
    int n_names;
    name_t names[MAX_NAMES];
    bool has_looked;
    char reason[256]; /* why sizes are fixed although they might vary */
} proof_t;

/* ---- one run ---- */

static status_t run_hollow(proof_t *proof, hollow_run_t *hollow, tensor_t **in, graph_t **out_graph)
{
    context_t *ctx = proof->ctx;
    module_t *module = NULL;
    TRY(module_snapshot(ctx, proof->initial, &module));
    status_t status = hollow_begin(ctx, hollow);
    for (int i = 0; i < proof->n_in && status == STATUS_OK; i++)
        status = tensor_hollow(ctx, &proof->infos[i], &hollow->looks, &in[i]);
    if (status == STATUS_OK)
        status = trace_once(ctx, module, proof->method, proof->n_in, (const tensor_t *const *)in,
                            out_graph);
    hollow_end(ctx, hollow);
    for (int i = 0; i < proof->n_in; i++) tensor_drop(in[i]);
    module_release(module);
    return status;
}

/* Runs the method at proof->infos. If may_fail and the method fails, *out_graph is NULL. Leaves the
 * context's state unchanged. */
static status_t attempt(proof_t *proof, bool may_fail, graph_t **out_graph)
{
    context_t *ctx = proof->ctx;
    hollow_run_t hollow;
    uint64_t random[4];
    counters_t counters = *context_counters(ctx);
    tensor_t **in = NULL;
    *out_graph = NULL;
    TRY(context_get_zeroed(ctx, (size_t)proof->n_in * sizeof *in, "inputs of a trace", &in));
    memcpy(random, context_random_state(ctx), sizeof random);
    scope_attempt(ctx);
    status_t status = run_hollow(proof, &hollow, in, out_graph);
    bool is_forgiven = may_fail && status != STATUS_OK && !interrupt_is_final(status);
    status = scope_attempt_end(ctx, status, is_forgiven);
    memcpy(context_random_state(ctx), random, sizeof random);
    *context_counters(ctx) = counters;
    context_put(ctx, in);
    if (!is_forgiven && status == STATUS_OK) proof->has_looked |= atomic_load(&hollow.looks) > 0;
    return is_forgiven ? STATUS_OK : status;
}

static status_t probe(proof_t *proof, graph_t **out_graph)
{
    return attempt(proof, true, out_graph);
}

static void set_infos(proof_t *proof)
{
    memcpy(proof->infos, proof->base, (size_t)proof->n_in * sizeof *proof->infos);
}

static void set_size(proof_t *proof, int input, int dim, int64_t size)
{
    tensor_info_t *info = &proof->infos[input];
    info->sizes[dim] = size;
    *info = info_dense(info->dtype, info->rank, info->sizes);
}

static void set_names(proof_t *proof, const int64_t *sizes)
{
    set_infos(proof);
    for (int i = 0; i < proof->n_in; i++)
        for (int d = 0; d < proof->base[i].rank; d++) {
            int name = proof->name_of[i * TENSOR_MAX_RANK + d];
            if (name != NOT_NAMED) set_size(proof, i, d, sizes[name]);
        }
}

/* ---- reasons ---- */

static void give_reason(proof_t *proof, const graph_node_t *node, const char *why)
{
    const char *word = node == NULL ? "" : graph_node_word(node);
    bool has_path = node != NULL && node->path != NULL;
    snprintf(proof->reason, sizeof proof->reason, "%s%s%.100s%s%s%.100s", word,
             has_path ? " at " : "", has_path ? node->path : "", node != NULL ? ": " : "", why, "");
}

static void give_hole(proof_t *proof, const hole_t *hole)
{
    const graph_node_t *node = graph_body(proof->graph)->nodes[hole->node];
    char why[128];
    if (hole->field < 0)
        snprintf(why, sizeof why, "%%%s changes with the sizes, but not as an expression of them",
                 graph_value_name(proof->graph, node->outputs[0]));
    else
        snprintf(why, sizeof why, "%s[%d] changes with the sizes, but not as an expression of them",
                 node->op->attrs.fields[hole->field].name, hole->index);
    give_reason(proof, node, why);
}

/* ---- which sizes can vary ---- */

static bool matches(proof_t *proof, const graph_t *graph)
{
    const graph_node_t *node = NULL;
    if (holes_match(proof->ctx, proof->graph, graph, &node)) return true;
    give_reason(proof, node, "other operators run at other sizes");
    return false;
}

/* Tries to change these dimensions together, by several steps; *out_step is 0 if no step works. */
static status_t find_step(proof_t *proof, int n, const int *places, int64_t *out_step)
{
    static const int64_t small[] = {1, 2, 4, 8}, large[] = {32, 1, 2, 64};
    int64_t size = proof->base[places[0] / TENSOR_MAX_RANK].sizes[places[0] % TENSOR_MAX_RANK];
    *out_step = 0;
    for (int t = 0; t < 4 && size > 0; t++) {
        int64_t step = size < 16 ? small[t] : large[t];
        graph_t *graph = NULL;
        set_infos(proof);
        for (int i = 0; i < n; i++)
            set_size(proof, places[i] / TENSOR_MAX_RANK, places[i] % TENSOR_MAX_RANK, size + step);
        TRY(probe(proof, &graph));
        bool is_open = graph != NULL && matches(proof, graph);
        bool is_over = graph != NULL;
        graph_release(graph);
        if (is_open) *out_step = step;
        if (is_over) return STATUS_OK;
    }
    return STATUS_OK;
}

static int64_t size_at(const proof_t *proof, int place)
{
    return proof->base[place / TENSOR_MAX_RANK].sizes[place % TENSOR_MAX_RANK];
}

/* Tries to vary dimensions of equal size together: those that must be equal cannot vary alone. */
static status_t try_group(proof_t *proof, int n_places, const int *places, int first)
{
    int group[MAX_INPUTS], n = 0;
    int64_t step = 0, size = size_at(proof, places[first]);
    int dim = places[first] % TENSOR_MAX_RANK;
    for (int same_dim = 1; same_dim >= 0 && step == 0; same_dim--) {
        n = 0;
        for (int i = first; i < n_places && n < MAX_INPUTS; i++)
            if (proof->steps[places[i]] == 0 && size_at(proof, places[i]) == size &&
                (!same_dim || places[i] % TENSOR_MAX_RANK == dim))
                group[n++] = places[i];
        if (n > 1) TRY(find_step(proof, n, group, &step));
    }
    if (step == 0 || proof->n_names == MAX_NAMES) return STATUS_OK;
    proof->names[proof->n_names] = (name_t){.size = size, .step = step};
    for (int i = 0; i < n; i++) {
        proof->steps[group[i]] = step;
        proof->name_of[group[i]] = (int8_t)proof->n_names;
    }
    proof->n_names++;
    return STATUS_OK;
}

static int list_places(const proof_t *proof, int *places)
{
    int n = 0;
    for (int i = 0; i < proof->n_in; i++)
        for (int d = 0; d < proof->base[i].rank; d++) places[n++] = i * TENSOR_MAX_RANK + d;
    return n;
}

static status_t find_open(proof_t *proof, int n, const int *places)
{
    for (int i = 0; i < n; i++) {
        int place = places[i];
        int64_t step = 0;
        if (proof->n_names < MAX_NAMES) TRY(find_step(proof, 1, &place, &step));
        proof->steps[place] = step;
        if (step == 0) continue;
        proof->names[proof->n_names] = (name_t){.size = size_at(proof, place), .step = step};
        proof->name_of[place] = (int8_t)proof->n_names++;
    }
    for (int i = 0; i < n; i++)
        if (proof->steps[places[i]] == 0) TRY(try_group(proof, n, places, i));
    return STATUS_OK;
}

/* ---- names ---- */

static bool is_taken(const proof_t *proof, int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (strcmp(proof->names[i].text, text) == 0) return true;
    return false;
}

/* Names sizes with the usual letters for the rank, such as NCHW. */
static void choose_names(proof_t *proof, int n_places, const int *places)
{
    static const char *const letters[] = {"", "N", "NC", "NCT", "NCHW", "NCDHW"};
    int n = 0;
    for (int i = 0; i < n_places; i++) {
        int name = proof->name_of[places[i]], d = places[i] % TENSOR_MAX_RANK, number = 1;
        int rank = proof->base[places[i] / TENSOR_MAX_RANK].rank;
        if (name != n) continue;
        char letter = rank <= 5 ? letters[rank][d] : d == 0 ? 'N' : 'D';
        char *text = proof->names[n].text;
        snprintf(text, sizeof proof->names[n].text, "%c", letter);
        while (is_taken(proof, n, text))
            snprintf(text, sizeof proof->names[n].text, "%c%d", letter, number++);
        n++;
    }
}

static void renumber(proof_t *proof, int n_places, const int *places)
{
    name_t old[MAX_NAMES];
    int8_t map[MAX_NAMES];
    int n = 0;
    memcpy(old, proof->names, sizeof old);
    memset(map, NOT_NAMED, sizeof map);
    for (int i = 0; i < n_places; i++) {
        int8_t *name = &proof->name_of[places[i]];
        if (*name == NOT_NAMED) continue;
        if (map[*name] == NOT_NAMED) {
            proof->names[n] = old[*name];
            map[*name] = (int8_t)n++;
        }
        *name = map[*name];
    }
    proof->n_names = n;
    choose_names(proof, n_places, places);
}

/* Uses one name for equal sizes of the same dimension of different inputs. With first_only, only
 * first dimensions keep a name, and share one name if they are equal. */
static void merge_names(proof_t *proof, bool first_only, int n_places, const int *places)
{
    for (int i = 0; i < n_places; i++) {
        int8_t *name = &proof->name_of[places[i]];
        if (first_only && places[i] % TENSOR_MAX_RANK != 0) *name = NOT_NAMED;
        for (int j = 0; j < i && *name != NOT_NAMED; j++) {
            bool is_same = places[i] % TENSOR_MAX_RANK == places[j] % TENSOR_MAX_RANK &&
                           size_at(proof, places[i]) == size_at(proof, places[j]);
            if (is_same && proof->name_of[places[j]] != NOT_NAMED) {
                *name = proof->name_of[places[j]];
                break;
            }
        }
    }
    renumber(proof, n_places, places);
}

/* ---- the graph ---- */

static status_t fill(proof_t *proof, holes_t *holes, graph_t **out_graph)
{
    const graph_block_t *body = graph_body(proof->graph);
    int first = graph_first_input(proof->graph);
    graph_type_t *types = NULL;
    const char **dims = NULL;
    TRY(context_get(proof->ctx, (size_t)body->n_params * sizeof *types, "types", &types));
    status_t status = context_get_zeroed(
        proof->ctx, (size_t)proof->n_in * TENSOR_MAX_RANK * sizeof *dims, "names", &dims);
    for (int i = 0; i < body->n_params && status == STATUS_OK; i++) {
        types[i] = *graph_value_type(proof->graph, body->params[i]);
        if (i < first) continue;
        const char **own = &dims[(i - first) * TENSOR_MAX_RANK];
        for (int d = 0; d < types[i].info.rank; d++) {
            int name = proof->name_of[(i - first) * TENSOR_MAX_RANK + d];
            if (name != NOT_NAMED) own[d] = proof->names[name].text;
        }
        types[i].dims = own;
    }
    if (status == STATUS_OK) status = holes_fill(holes, proof->graph, types, out_graph);
    if (status == STATUS_OK) status = graph_verify(proof->ctx, *out_graph);
    CONTEXT_PUT(proof->ctx, dims, types);
    return status;
}

/* ---- checks ---- */

/* Graphs of the method at several sizes; the first is proof->graph. */
typedef struct made {
    int n;
    graph_t *graphs[TRACE_MAX_GRAPHS];
} made_t;

static void release_made(made_t *made)
{
    for (int i = 1; i < made->n; i++) graph_release(made->graphs[i]);
    made->n = 0;
}

/* Runs at these sizes, and adds the graph to `made` unless the method fails. */
static status_t make_at(proof_t *proof, const int64_t *sizes, bool *out_is_made, made_t *made)
{
    graph_t *graph = NULL;
    *out_is_made = false;
    if (made->n == TRACE_MAX_GRAPHS) return STATUS_OK;
    set_names(proof, sizes);
    TRY(probe(proof, &graph));
    *out_is_made = graph != NULL;
    if (graph != NULL) made->graphs[made->n++] = graph;
    return STATUS_OK;
}

/* Runs a few times with all named sizes changed, by a different number of steps in each run. */
static status_t make_few(proof_t *proof, bool *out_fits, made_t *made)
{
    *out_fits = true;
    for (int p = 0; p < N_FITTED && *out_fits; p++) {
        int64_t sizes[MAX_NAMES];
        for (int k = 0; k < proof->n_names; k++)
            sizes[k] = proof->names[k].size +
                       proof->names[k].step * (1 + (3 * p + 2 * k + p * k) % 7);
        TRY(make_at(proof, sizes, out_fits, made));
        if (!*out_fits) give_reason(proof, NULL, "the method fails where several sizes vary");
        *out_fits = *out_fits && matches(proof, made->graphs[made->n - 1]);
    }
    return STATUS_OK;
}

/* Changes one named size at a time: to all small sizes, and to sizes around some larger ones. Many
 * sizes are needed to exclude other expressions, because quotients with similar divisors differ
 * only at few sizes. */
static status_t make_many(proof_t *proof, bool *out_fits, made_t *made)
{
    enum { N_SMALL = 40 };
    static const int64_t large[] = {47,  48,  49,  63,  64,  65,  95,  96,  97,  127,
                                    128, 129, 255, 256, 257, 719, 720, 721, 840, 841};
    for (int k = 0; k < proof->n_names && *out_fits; k++) {
        const int64_t size = proof->names[k].size;
        for (int i = 0; i < N_SMALL + 20 + 17 && *out_fits; i++) {
            int64_t sizes[MAX_NAMES];
            bool is_made = false;
            for (int j = 0; j < proof->n_names; j++) sizes[j] = proof->names[j].size;
            sizes[k] = i < N_SMALL        ? i + 1
                       : i < N_SMALL + 20 ? large[i - N_SMALL]
                                          : size - 8 + (i - N_SMALL - 20);
            if (sizes[k] < 1 || sizes[k] == size) continue;
            TRY(make_at(proof, sizes, &is_made, made));
            if (is_made) *out_fits = matches(proof, made->graphs[made->n - 1]);
        }
    }
    return STATUS_OK;
}

static status_t fit(proof_t *proof, bool is_at_many, holes_t *holes, bool *out_fits)
{
    made_t *made = NULL;
    TRY(context_get_zeroed(proof->ctx, sizeof *made, "graphs at several sizes", &made));
    memcpy(&made->graphs[made->n++], &proof->graph, sizeof proof->graph);
    status_t status = make_few(proof, out_fits, made);
    if (status == STATUS_OK && *out_fits && is_at_many) status = make_many(proof, out_fits, made);
    if (status == STATUS_OK && *out_fits) {
        status = holes_find(holes, made->n, (const graph_t *const *)made->graphs, is_at_many);
        const hole_t *hole = holes_open(holes);
        *out_fits = hole == NULL;
        if (hole != NULL) give_hole(proof, hole);
    }
    release_made(made);
    context_put(proof->ctx, made);
    return status;
}

/* Checks that the opened graph rejects the sizes of the last run, in which the method failed. */
static status_t check_failure(proof_t *proof, const graph_t *opened, bool *out_agrees)
{
    graph_t *resized = NULL;
    scope_attempt(proof->ctx);
    status_t status = graph_resize(proof->ctx, opened, proof->infos, true, &resized);
    bool is_forgiven = status == STATUS_INVALID_ARGUMENT || status == STATUS_UNSUPPORTED;
    status = scope_attempt_end(proof->ctx, status, is_forgiven);
    graph_release(resized);
    *out_agrees = is_forgiven;
    if (!is_forgiven) give_reason(proof, NULL, "the method rejects other sizes");
    return is_forgiven ? STATUS_OK : status;
}

static status_t check_at(proof_t *proof, const holes_t *holes, const graph_t *opened, int name,
                         int64_t size, bool *out_agrees)
{
    int64_t sizes[MAX_NAMES];
    graph_t *graph = NULL;
    const graph_node_t *node = NULL;
    for (int k = 0; k < proof->n_names; k++) sizes[k] = proof->names[k].size;
    sizes[name] = size;
    set_names(proof, sizes);
    TRY(probe(proof, &graph));
    if (graph == NULL) return check_failure(proof, opened, out_agrees);
    *out_agrees = matches(proof, graph);
    if (*out_agrees && !holes_agree(holes, proof->graph, graph, &node)) {
        give_reason(proof, node,
                    "a number changes with the sizes, but not as an expression of them");
        *out_agrees = false;
    }
    graph_release(graph);
    return STATUS_OK;
}

/* Checks each name alone: at few sizes, or at many if the method reads sizes. */
static status_t check_sizes(proof_t *proof, const holes_t *holes, const graph_t *opened,
                            bool *out_agrees)
{
    static const int64_t few[] = {1, 2, 3}, more[] = {31, 32, 33, 63, 64, 65, 100, 128, 256};
    const int n_more = (int)(sizeof more / sizeof *more);
    *out_agrees = true;
    for (int k = 0; k < proof->n_names && *out_agrees; k++) {
        for (int i = 0; i < 3 && *out_agrees; i++)
            TRY(check_at(proof, holes, opened, k, few[i], out_agrees));
        int64_t size = proof->names[k].size;
        if (*out_agrees) TRY(check_at(proof, holes, opened, k, size + 1, out_agrees));
        if (!proof->has_looked) continue;
        for (int64_t at = 4; at <= 20 && *out_agrees; at++)
            TRY(check_at(proof, holes, opened, k, at, out_agrees));
        for (int i = 0; i < n_more && *out_agrees; i++)
            TRY(check_at(proof, holes, opened, k, more[i], out_agrees));
        for (int64_t at = size - 3; at <= size + 3 && *out_agrees; at++)
            if (at > 0) TRY(check_at(proof, holes, opened, k, at, out_agrees));
    }
    return STATUS_OK;
}

static status_t prove_by(proof_t *proof, bool is_at_many, graph_t **out_graph)
{
    holes_t holes = {.ctx = proof->ctx};
    graph_t *opened = NULL;
    bool is_proven = false;
    status_t status = fit(proof, is_at_many, &holes, &is_proven);
    if (status == STATUS_OK && is_proven) {
        status = fill(proof, &holes, &opened);
        if (status == STATUS_OK) status = check_sizes(proof, &holes, opened, &is_proven);
    }
    context_put(proof->ctx, holes.items);
    if (status == STATUS_OK && is_proven)
        *out_graph = opened;
    else
        graph_release(opened);
    return status;
}

/* Finds expressions for the numbers that differ between sizes. Few sizes are enough for linear
 * expressions; more are tried only if the method reads sizes. */
static status_t prove(proof_t *proof, graph_t **out_graph)
{
    if (proof->n_names == 0) return STATUS_OK;
    TRY(prove_by(proof, false, out_graph));
    return *out_graph == NULL && proof->has_looked ? prove_by(proof, true, out_graph) : STATUS_OK;
}

static status_t prove_any(proof_t *proof, graph_t **out_graph)
{
    int places[MAX_INPUTS * TENSOR_MAX_RANK];
    int n = list_places(proof, places);
    char reason[sizeof proof->reason];
    TRY(find_open(proof, n, places));
    memcpy(reason, proof->reason, sizeof reason);
    renumber(proof, n, places);
    TRY(prove(proof, out_graph));
    if (*out_graph == NULL) {
        merge_names(proof, false, n, places);
        TRY(prove(proof, out_graph));
    }
    if (*out_graph != NULL) {
        memcpy(proof->reason, reason, sizeof reason);
        return STATUS_OK;
    }
    merge_names(proof, true, n, places);
    return prove(proof, out_graph);
}

static status_t begin(proof_t *proof, const tensor_info_t *const *in)
{
    context_t *ctx = proof->ctx;
    size_t n = (size_t)proof->n_in, n_places = n * TENSOR_MAX_RANK;
    TRY(context_get(ctx, n * sizeof *proof->base, "infos of inputs", &proof->base));
    TRY(context_get(ctx, n * sizeof *proof->infos, "infos of inputs", &proof->infos));
    TRY(context_get(ctx, n_places * sizeof *proof->name_of, "names of sizes", &proof->name_of));
    TRY(context_get_zeroed(ctx, n_places * sizeof *proof->steps, "sizes", &proof->steps));
    memset(proof->name_of, NOT_NAMED, n_places * sizeof *proof->name_of);
    for (int i = 0; i < proof->n_in; i++)
        proof->base[i] = info_dense(in[i]->dtype, in[i]->rank, in[i]->sizes);
    set_infos(proof);
    return STATUS_OK;
}

static void end(proof_t *proof)
{
    CONTEXT_PUT(proof->ctx, proof->steps, proof->name_of, proof->infos, proof->base);
}

status_t trace_infos(context_t *ctx, module_t *initial, const char *method, int n_in,
                     const tensor_info_t *const *in, graph_t **out_graph)
{
    proof_t proof = {.ctx = ctx, .initial = initial, .method = method, .n_in = n_in};
    status_t status = begin(&proof, in);
    if (status == STATUS_OK) status = attempt(&proof, false, out_graph);
    end(&proof);
    return status;
}

status_t trace_other_sizes(context_t *ctx, module_t *initial, const char *method, int n_in,
                           const tensor_info_t *const *in, const graph_t *graph,
                           graph_t **out_graph)
{
    proof_t proof = {
        .ctx = ctx, .initial = initial, .method = method, .n_in = n_in, .graph = graph};
    graph_t *opened = NULL;
    if (n_in > MAX_INPUTS || n_in == 0) return rewrite_nothing(graph, out_graph);
    status_t status = begin(&proof, in);
    if (status == STATUS_OK) status = prove_any(&proof, &opened);
    if (status == STATUS_OK && proof.reason[0] != '\0')
        trace_event(ctx, TRACE_PASS, "sizes,,,,%s: %s", method, proof.reason);
    if (status == STATUS_OK && opened == NULL) status = rewrite_nothing(graph, &opened);
    if (status == STATUS_OK) status = graph_with_reason(ctx, opened, proof.reason, out_graph);
    graph_release(opened);
    end(&proof);
    return status;
}
