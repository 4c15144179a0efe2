/* Graphs as text. If a text parses, the graph must print to text that parses and prints the same.
 * If it also verifies, it runs, and passes must not change its result. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "graph/passes/pass.h"

/* Constants $0 to $5 of the graph, and attributes of its module. */
static const struct constant {
    const char *name;
    dtype_t dtype;
    int rank;
    int64_t sizes[4];
} constants[] = {
    {"weight", DTYPE_F32, 4, {8, 4, 3, 3}}, {"bias", DTYPE_F32, 1, {8}},
    {"fc", DTYPE_F32, 2, {3, 4}},           {"indices", DTYPE_S64, 1, {2}},
    {"scale", DTYPE_F32, 0, {0}},           {"running_var", DTYPE_F32, 1, {4}},
};
enum { N_CONSTANTS = sizeof constants / sizeof *constants };

/* Fills with numbers. Indices are 1, and variances are positive. */
static status_t fill_constant(context_t *ctx, const struct constant *constant, double shake,
                              tensor_t **out)
{
    TRY(tensor_full(ctx, constant->dtype, constant->rank, constant->sizes, 1, out));
    void *data = NULL;
    if (constant->dtype != DTYPE_F32) return STATUS_OK;
    status_t status = tensor_data_mutable(ctx, *out, &data);
    for (int64_t i = 0; status == STATUS_OK && i < tensor_numel(*out); i++) {
        double number = fuzz_number(i, shake);
        bool is_variance = strstr(constant->name, "var") != NULL;
        ((float *)data)[i] = (float)(is_variance ? number * number + 0.5 : number);
    }
    return status;
}

static status_t add_constant(context_t *ctx, const struct constant *constant, double shake,
                             datum_t *pool, module_t *self)
{
    tensor_t *tensor = NULL;
    datum_t *datum = NULL;
    status_t status = fill_constant(ctx, constant, shake, &tensor);
    if (status == STATUS_OK) status = datum_tensor(ctx, tensor, &datum);
    if (status == STATUS_OK) status = datum_append(ctx, pool, datum);
    if (status == STATUS_OK) status = module_set_parameter(ctx, self, constant->name, tensor);
    datum_release(datum);
    tensor_release(tensor);
    return status;
}

/* Makes constants and module. Returns false if out of memory; the caller releases what was made. */
static bool make_world(context_t *ctx, double shake, datum_t **out_pool, module_t **out_self)
{
    datum_t *training = NULL;
    status_t status = datum_list(ctx, 0, NULL, out_pool);
    if (status == STATUS_OK) status = module_create(ctx, "Net", out_self);
    for (int i = 0; i < N_CONSTANTS && status == STATUS_OK; i++)
        status = add_constant(ctx, &constants[i], shake, *out_pool, *out_self);
    if (status == STATUS_OK) status = datum_bool(ctx, false, &training);
    if (status == STATUS_OK) status = module_set_attribute(ctx, *out_self, "training", training);
    datum_release(training);
    return status == STATUS_OK;
}

/* Prints a graph. *out_pool gets its constants. Returns NULL if out of memory. */
static char *print(context_t *ctx, const graph_t *graph, datum_t **out_pool)
{
    char *copy = NULL;
    text_t text = text_begin(ctx);
    status_t status = datum_list(ctx, 0, NULL, out_pool);
    if (status == STATUS_OK) status = graph_print(ctx, graph, *out_pool, &text);
    if (status == STATUS_OK) status = text_status(&text);
    FUZZ_CHECK(status == STATUS_OK || status == STATUS_OUT_OF_MEMORY, "%s", context_error(ctx));
    if (status == STATUS_OK) copy = strdup(text_string(&text));
    text_clear(&text);
    return copy;
}

static void check_text(context_t *ctx, const graph_t *graph)
{
    datum_t *pool = NULL, *pool_again = NULL;
    graph_t *again = NULL;
    char *text = print(ctx, graph, &pool), *text_again = NULL;
    if (text != NULL) {
        status_t status = graph_parse(ctx, text, pool, &again);
        FUZZ_CHECK(status == STATUS_OK || status == STATUS_OUT_OF_MEMORY, "%s\n%s",
                   context_error(ctx), text);
    }
    if (again != NULL) text_again = print(ctx, again, &pool_again);
    if (text_again != NULL)
        FUZZ_CHECK(strcmp(text, text_again) == 0, "%s\nis again\n%s", text, text_again);
    graph_release(again);
    datum_release(pool);
    datum_release(pool_again);
    free(text);
    free(text_again);
}

/* Runs the graph on a module of its own, because running may change the module. */
static bool run(context_t *ctx, const graph_t *graph, double shake, fuzz_outcome_t *outcome)
{
    datum_t *pool = NULL;
    module_t *self = NULL;
    bool has_room = make_world(ctx, shake, &pool, &self);
    bool has_run = has_room && fuzz_run_graph(ctx, graph, self, shake, outcome);
    datum_release(pool);
    module_release(self);
    return has_run;
}

/* Runs the passes. A graph that does not verify after a pass is an error of that pass. Results
 * before and after must agree. */
static void optimise(context_t *ctx, const graph_t *graph, module_t *self)
{
    const char *const *const pipelines[] = {pass_pipeline_graph(), pass_pipeline_freeze(),
                                            pass_pipeline_optimize()};
    pass_options_t options = {.self = self};
    fuzz_outcome_t before = {0}, shaken = {0}, after = {0};
    bool has_run = run(ctx, graph, 0.0, &before);
    if (has_run) run(ctx, graph, fuzz_shake(graph), &shaken);
    for (int i = 0; i < 3; i++) {
        graph_t *result = NULL;
        status_t status = pass_run(ctx, graph, pipelines[i], &options, &result);
        fuzz_check_failure(ctx, status);
        bool is_spoilt = status == STATUS_INVALID_ARGUMENT &&
                         strncmp(context_error(ctx), "pass ", 5) == 0;
        FUZZ_CHECK(!is_spoilt, "%s", context_error(ctx));
        if (result != NULL && has_run && run(ctx, result, 0.0, &after))
            fuzz_check_same(ctx, &before, &shaken, &after);
        fuzz_outcome_clear(&after);
        graph_release(result);
    }
    fuzz_outcome_clear(&before);
    fuzz_outcome_clear(&shaken);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    datum_t *pool = NULL;
    module_t *self = NULL;
    graph_t *graph = NULL;
    context_t *ctx = fuzz_begin(16 << 20, 100000);
    char *text = malloc(n_bytes + 1);
    FUZZ_CHECK(text != NULL, "%zu bytes", n_bytes);
    if (n_bytes > 0) memcpy(text, bytes, n_bytes);
    text[n_bytes] = '\0';
    FUZZ_CHECK(make_world(ctx, 0.0, &pool, &self), "%s", context_error(ctx));
    status_t status = graph_parse(ctx, text, pool, &graph);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) {
        check_text(ctx, graph);
        status = graph_verify(ctx, graph);
        fuzz_check_failure(ctx, status);
    }
    if (status == STATUS_OK) optimise(ctx, graph, self);
    graph_release(graph);
    datum_release(pool);
    module_release(self);
    free(text);
    fuzz_end(ctx);
    return 0;
}
