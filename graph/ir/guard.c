/* Checks whether a graph is valid for given inputs: whether they match the parameters' types and
 * satisfy the guards. */
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"

bool type_is_open(const graph_type_t *type, int dim)
{
    return type->info.sizes[dim] < 0 || (type->dims != NULL && type->dims[dim] != NULL);
}

const char *type_dim_name(const graph_type_t *type, int dim)
{
    return type->kind == TYPE_TENSOR && type->has_info && type->dims != NULL ? type->dims[dim]
                                                                             : NULL;
}

int graph_first_input(const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    return body->n_params > 0 && graph_value_type(graph, body->params[0])->kind == TYPE_MODULE;
}

static const graph_type_t *input_type(const graph_t *graph, int input)
{
    return graph_value_type(graph, graph_body(graph)->params[graph_first_input(graph) + input]);
}

static const char *input_name(const graph_t *graph, int input)
{
    return graph_value_name(graph, graph_body(graph)->params[graph_first_input(graph) + input]);
}

static bool fits(const graph_type_t *type, const tensor_info_t *given)
{
    const tensor_info_t *want = &type->info;
    if (given->dtype != want->dtype || given->rank != want->rank) return false;
    for (int d = 0; d < want->rank; d++)
        if (!type_is_open(type, d) && want->sizes[d] != given->sizes[d]) return false;
    return true;
}

static status_t refuse(context_t *ctx, const graph_t *graph, int input, const tensor_info_t *given)
{
    char info[INFO_TEXT_MAX];
    text_t text = text_begin(ctx);
    type_print(input_type(graph, input), &text);
    status_t status = text_status(&text);
    if (status == STATUS_OK)
        status = context_fail(
            ctx, STATUS_INVALID_ARGUMENT, "%s: input %s is %s, the graph was made for %s%s%s%s",
            graph_name(graph), input_name(graph, input), info_text(given, info), text_string(&text),
            graph->fixed != NULL ? " (" : "", graph->fixed != NULL ? graph->fixed : "",
            graph->fixed != NULL ? ")" : "");
    text_clear(&text);
    return status;
}

/* A mismatch between inputs and types. If dim is -1, `input` has a wrong dtype or rank. Else
 * dimension `dim` of `input` has another size than the equally named dimension of input `other`. */
typedef struct misfit {
    int input, dim, other;
    int64_t size; /* in `other` */
} misfit_t;

/* Finds an earlier dimension, of this or an earlier input, with the same name but another size. */
static bool find_other_size(const graph_t *graph, const tensor_info_t *const *in, int input,
                            int dim, misfit_t *out_misfit)
{
    const char *name = type_dim_name(input_type(graph, input), dim);
    for (int i = 0; name != NULL && i <= input; i++) {
        const graph_type_t *type = input_type(graph, i);
        int n = i < input ? type->info.rank : dim;
        for (int d = 0; in[i] != NULL && d < n; d++) {
            const char *other = type_dim_name(type, d);
            if (other == NULL || strcmp(other, name) != 0) continue;
            *out_misfit = (misfit_t){input, dim, i, in[i]->sizes[d]};
            if (in[i]->sizes[d] != in[input]->sizes[dim]) return true;
        }
    }
    return false;
}

static bool find_misfit(const graph_t *graph, int n_in, const tensor_info_t *const *in,
                        misfit_t *out_misfit)
{
    for (int i = 0; i < n_in; i++) {
        const graph_type_t *type = input_type(graph, i);
        if (in[i] == NULL || type->kind != TYPE_TENSOR || !type->has_info) continue;
        *out_misfit = (misfit_t){.input = i, .dim = -1};
        if (!fits(type, in[i])) return true;
        for (int d = 0; d < type->info.rank; d++)
            if (find_other_size(graph, in, i, d, out_misfit)) return true;
    }
    return false;
}

static status_t refuse_misfit(context_t *ctx, const graph_t *graph, const tensor_info_t *const *in,
                              const misfit_t *misfit)
{
    const int input = misfit->input, dim = misfit->dim;
    if (dim < 0) return refuse(ctx, graph, input, in[input]);
    FAIL(ctx, STATUS_INVALID_ARGUMENT,
         "%s: size %s is %lld in input %s and %lld in input %s, one name is one size",
         graph_name(graph), type_dim_name(input_type(graph, input), dim), (long long)misfit->size,
         input_name(graph, misfit->other), (long long)in[input]->sizes[dim],
         input_name(graph, input));
}

/* ---- guards ---- */

/* The infos or the types of the inputs; the other of the two is NULL. */
typedef struct inputs {
    const graph_t *graph;
    const tensor_info_t *const *in;
    const graph_type_t *const *types;
} inputs_t;

/* The info of an input; NULL if the input is unknown. */
static const tensor_info_t *given_info(const inputs_t *inputs, int input)
{
    if (inputs->in != NULL) return inputs->in[input];
    const graph_type_t *type = inputs->types[input];
    return type->kind == TYPE_TENSOR && type->has_info ? &type->info : NULL;
}

static bool size_of_name(void *user, int number, const char *name, int64_t *out_size)
{
    const inputs_t *inputs = user;
    const int n = graph_body(inputs->graph)->n_params - graph_first_input(inputs->graph);
    (void)number;
    for (int i = 0; i < n; i++) {
        const graph_type_t *type = input_type(inputs->graph, i);
        const tensor_info_t *given = given_info(inputs, i);
        for (int d = 0; given != NULL && d < given->rank && d < type->info.rank; d++) {
            const char *other = type_dim_name(type, d);
            if (other == NULL || strcmp(other, name) != 0) continue;
            *out_size = given->sizes[d];
            return *out_size >= 0;
        }
    }
    return false;
}

typedef struct naming {
    inputs_t inputs;
    text_t *text;
    const char *told[8];
    int n_told;
} naming_t;

/* Appends the size of a name to a text such as "H is 12, W is 7". Each name is appended once. */
static bool name_size(void *user, int number, const char *name)
{
    naming_t *naming = user;
    int64_t size = 0;
    for (int i = 0; i < naming->n_told; i++)
        if (strcmp(naming->told[i], name) == 0) return false;
    if (naming->n_told == sizeof naming->told / sizeof *naming->told ||
        !size_of_name(&naming->inputs, number, name, &size))
        return false;
    text_append(naming->text, "%s%s is %lld", naming->n_told > 0 ? ", " : "", name,
                (long long)size);
    naming->told[naming->n_told++] = name;
    return false;
}

static status_t refuse_guard(context_t *ctx, const graph_t *graph, int k, const inputs_t *inputs)
{
    char guard[512];
    text_t text = text_begin(ctx);
    naming_t naming = {.inputs = *inputs, .text = &text};
    const char *origin = sym_guard_origin(graph->space, k);
    (void)sym_any_name(graph->space, sym_guard_value(graph->space, k), name_size, &naming);
    sym_guard_text(graph->space, k, sizeof guard, guard);
    status_t status = text_status(&text);
    if (status == STATUS_OK)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "%s: %s, the graph holds where %s%s%s%s", graph_name(graph),
                              naming.n_told > 0 ? text_string(&text) : "a size is unknown", guard,
                              *origin != '\0' ? " (" : "", origin, *origin != '\0' ? ")" : "");
    text_clear(&text);
    return status;
}

status_t graph_check_guards(context_t *ctx, const graph_t *graph, const tensor_info_t *const *in)
{
    inputs_t inputs = {.graph = graph, .in = in};
    int first = 0;
    if (sym_n_guards(graph->space) == 0) return STATUS_OK;
    return sym_guards_hold(graph->space, size_of_name, &inputs, &first)
               ? STATUS_OK
               : refuse_guard(ctx, graph, first, &inputs);
}

static int count_inputs(const graph_t *graph)
{
    return graph_body(graph)->n_params - graph_first_input(graph);
}

status_t graph_check_inputs(context_t *ctx, const graph_t *graph, int n_in,
                            const tensor_info_t *const *in)
{
    const int n = count_inputs(graph);
    misfit_t misfit;
    REQUIRE(ctx, n_in == n, "%s: %d inputs are given, the graph takes %d", graph_name(graph), n_in,
            n);
    if (find_misfit(graph, n, in, &misfit)) return refuse_misfit(ctx, graph, in, &misfit);
    return graph_check_guards(ctx, graph, in);
}

bool graph_accepts(const graph_t *graph, int n_in, const tensor_info_t *const *in)
{
    inputs_t inputs = {.graph = graph, .in = in};
    misfit_t misfit;
    int failing = 0;
    return n_in == count_inputs(graph) && !find_misfit(graph, n_in, in, &misfit) &&
           sym_guards_hold(graph->space, size_of_name, &inputs, &failing);
}

status_t graph_guards(context_t *ctx, const graph_t *graph, text_t *text)
{
    if (graph == NULL) return context_null(ctx, "graph_guards", "graph");
    if (text == NULL) return context_null(ctx, "graph_guards", "text");
    for (int k = 0; k < sym_n_guards(graph->space); k++) {
        if (k > 0) text_append(text, ", ");
        sym_append_guard(text, graph->space, k);
    }
    return text_status(text);
}

bool graph_is_alike(const graph_t *a, const graph_t *b)
{
    const int n = count_inputs(a);
    bool is_alike = count_inputs(b) == n && graph_body(a)->n_results == graph_body(b)->n_results;
    for (int i = 0; i < n && is_alike; i++) {
        const graph_type_t *one = input_type(a, i), *other = input_type(b, i);
        is_alike = one->kind == other->kind && one->has_info == other->has_info;
        if (is_alike && one->kind == TYPE_TENSOR && one->has_info)
            is_alike = one->info.dtype == other->info.dtype && one->info.rank == other->info.rank;
    }
    return is_alike;
}

/* ---- checks on types ---- */

static bool is_sure(const graph_type_t *type, const graph_type_t *given)
{
    bool is_guarded = type->kind == TYPE_TENSOR && type->has_info && given->kind != TYPE_NONE;
    if (!is_guarded) return type_fits(given, type, NULL);
    return given->kind == TYPE_TENSOR && given->has_info && fits(type, &given->info);
}

/* True if all earlier dimensions of the same name certainly have the same size as this one. */
static bool is_one_size(const graph_t *graph, const graph_type_t *const *given, int input, int dim)
{
    const char *name = type_dim_name(input_type(graph, input), dim);
    for (int i = 0; name != NULL && i <= input; i++) {
        const graph_type_t *type = input_type(graph, i);
        int n = i < input ? type->info.rank : dim;
        for (int d = 0; given[i]->kind == TYPE_TENSOR && d < n; d++) {
            const char *other = type_dim_name(type, d);
            if (other == NULL || strcmp(other, name) != 0) continue;
            int64_t size = given[i]->info.sizes[d];
            if (size < 0 || size != given[input]->info.sizes[dim]) return false;
        }
    }
    return true;
}

bool graph_takes(const graph_t *graph, const graph_type_t *const *given)
{
    int n = graph_body(graph)->n_params - graph_first_input(graph);
    for (int i = 0; i < n; i++)
        if (!is_sure(input_type(graph, i), given[i])) return false;
    for (int i = 0; i < n; i++) {
        const graph_type_t *type = input_type(graph, i);
        bool has_sizes = given[i]->kind == TYPE_TENSOR && given[i]->has_info &&
                         type->kind == TYPE_TENSOR && type->has_info;
        for (int d = 0; has_sizes && d < type->info.rank; d++)
            if (!is_one_size(graph, given, i, d)) return false;
    }
    inputs_t inputs = {.graph = graph, .types = given};
    int failing = 0;
    return sym_guards_hold(graph->space, size_of_name, &inputs, &failing);
}
