/* Tunes the programs of a method: measures kernels of its operators one by one, then chooses
 * layouts with these times. If there are inputs, complete runs with the old and the new layouts are
 * compared, and the new ones are kept if they are clearly faster. Without inputs, no runs are
 * compared, and the new layouts are kept. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "graph/method/method_impl.h"
#include "graph/method/programs_impl.h"
#include "graph/method/specialise_impl.h"
#include "graph/passes/layout/layout_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define MEASURING_SHARE 0.7 /* share of the given seconds; the rest is for comparing runs */
#define LEAST_PAIRS 5       /* pairs of runs, with old and new layouts alternately */
#define MOST_PAIRS 200
#define LARGEST_RATIO 0.99 /* largest ratio (new time / old time) that counts as faster */

typedef struct tuner {
    context_t *ctx;
    module_t *module;
    programs_t *programs;
    programs_entry_t *entry;       /* contains only the inputs */
    const tensor_t *const *inputs; /* NULL if no values are known */
    text_t untuned, tuned, timings;
    plan_tuned_t result;
} tuner_t;

static status_t specialise_as(tuner_t *t, const layout_talk_t *talk, graph_t **out_graph)
{
    const shapes_t shapes = {t->entry->n_inputs, t->entry->inputs};
    return specialise(t->ctx, t->module, t->programs->computed, &shapes, talk, out_graph);
}

/* ---- comparison ---- */

static status_t run_once(tuner_t *t, const program_t *program, datum_t *const *in, double *out_ns)
{
    datum_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    const uint64_t begin = context_now();
    TRY(program_run(t->ctx, program, t->module, t->entry->n_inputs, in, &n_out, out));
    *out_ns = (double)(context_now() - begin);
    for (int i = 0; i < n_out; i++) datum_release(out[i]);
    return STATUS_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

/* Run times vary by a few per cent. In ascending order, ratio number `above` is an upper bound of
 * the median with 95 % confidence. It must be at most LARGEST_RATIO. */
bool plan_tune_is_faster(int n, double *ratios, double *out_median)
{
    const int above = n / 2 + (int)sqrt((double)n);
    qsort(ratios, (size_t)n, sizeof *ratios, compare_numbers);
    *out_median = ratios[n / 2];
    return ratios[above < n ? above : n - 1] <= LARGEST_RATIO;
}

/* Compares old and new layouts by the ratios of the times of consecutive runs. */
static status_t compare_runs(tuner_t *t, const program_t *untuned, const program_t *tuned,
                             datum_t *const *in, uint64_t deadline)
{
    double ratios[MOST_PAIRS], before = 0.0, after = 0.0;
    int n = 0;
    TRY(run_once(t, untuned, in, &before));
    TRY(run_once(t, tuned, in, &after));
    while (n < LEAST_PAIRS || (n < MOST_PAIRS && context_now() < deadline)) {
        const bool is_turned = n % 2 == 1;
        TRY(run_once(t, is_turned ? tuned : untuned, in, is_turned ? &after : &before));
        TRY(run_once(t, is_turned ? untuned : tuned, in, is_turned ? &before : &after));
        ratios[n++] = after / before;
    }
    t->result.is_kept = plan_tune_is_faster(n, ratios, &t->result.ratio);
    return STATUS_OK;
}

/* Frees packed weights that only the comparison needed, so that they are not saved. */
static status_t drop_forms(void *user, const graph_node_t *node)
{
    (void)user;
    if (node->kind == NODE_CONSTANT && datum_kind(node->datum) == DATUM_TENSOR)
        form_drop(datum_as_tensor(node->datum)->storage);
    return STATUS_OK;
}

static status_t make_inputs(tuner_t *t, datum_t **in)
{
    for (int i = 0; i < t->entry->n_inputs; i++)
        TRY(datum_tensor(t->ctx, (tensor_t *)(uintptr_t)t->inputs[i], &in[i]));
    return STATUS_OK;
}

static status_t compare(tuner_t *t, const graph_t *untuned, const graph_t *tuned, uint64_t deadline)
{
    program_t *before = NULL, *after = NULL;
    datum_t *in[METHOD_MAX_OUTPUTS] = {NULL};
    status_t status = make_inputs(t, in);
    if (status == STATUS_OK) status = program_create(t->ctx, untuned, t->module, &before);
    if (status == STATUS_OK) status = program_create(t->ctx, tuned, t->module, &after);
    if (status == STATUS_OK && before->has_effects)
        status = context_fail(t->ctx, STATUS_UNSUPPORTED,
                              "freeze_tune: forward of %s writes attributes or inputs, so its runs "
                              "cannot be compared",
                              module_type(t->module));
    if (status == STATUS_OK) status = compare_runs(t, before, after, in, deadline);
    for (int i = 0; i < t->entry->n_inputs; i++) datum_release(in[i]);
    program_release(before);
    program_release(after);
    (void)rewrite_visit(graph_body(t->programs->computed), drop_forms, NULL);
    return status;
}

/* ---- tuning ---- */

/* Stores the chosen layouts and, if they were tuned, the measured times. */
static status_t keep(tuner_t *t)
{
    text_t lines = text_begin(t->ctx);
    programs_print_key(t->entry, &lines);
    text_append(&lines, "%s\n", text_string(t->result.is_kept ? &t->tuned : &t->untuned));
    if (t->result.is_kept) text_append(&lines, "%s", text_string(&t->timings));
    status_t status = text_status(&lines);
    if (status == STATUS_OK)
        status = programs_add_layouts(t->ctx, t->programs, text_string(&lines));
    if (status == STATUS_OK) programs_forget(t->programs);
    text_clear(&lines);
    return status;
}

static status_t tune(tuner_t *t, double seconds)
{
    const uint64_t begin = context_now();
    const double ns = seconds * 1e9;
    layout_tuning_t measuring = {.deadline = begin + (uint64_t)(MEASURING_SHARE * ns),
                                 .timings = &t->timings};
    graph_t *untuned = NULL, *tuned = NULL;
    status_t status = specialise_as(t, &(layout_talk_t){.chosen = &t->untuned}, &untuned);
    if (status == STATUS_OK)
        status = specialise_as(t, &(layout_talk_t){.chosen = &t->tuned, .tuning = &measuring},
                               &tuned);
    if (status == STATUS_OK) status = text_status(&t->untuned);
    if (status == STATUS_OK) status = text_status(&t->tuned);
    t->result.n_measured = measuring.n_measured;
    t->result.ratio = 1.0;
    const bool is_other = strcmp(text_string(&t->untuned), text_string(&t->tuned)) != 0;
    if (status == STATUS_OK && is_other && t->inputs != NULL)
        status = compare(t, untuned, tuned, begin + (uint64_t)ns);
    else if (status == STATUS_OK && is_other)
        t->result = (plan_tuned_t){measuring.n_measured, PLAN_NOT_COMPARED, true};
    graph_release(untuned);
    graph_release(tuned);
    return status == STATUS_OK ? keep(t) : status;
}

/* Tunes the graph that was chosen for the inputs. */
static status_t tune_chosen(tuner_t *t, int n_in, const tensor_info_t *const *infos, double seconds)
{
    context_t *ctx = t->ctx;
    TRY(graph_check_inputs(ctx, t->programs->computed, n_in, infos));
    TRY(context_get_zeroed(ctx, sizeof *t->entry + (size_t)n_in * sizeof *t->entry->inputs,
                           "inputs to tune for", &t->entry));
    t->entry->n_inputs = n_in;
    for (int i = 0; i < n_in; i++)
        t->entry->inputs[i] = info_dense(infos[i]->dtype, infos[i]->rank, infos[i]->sizes);
    t->untuned = text_begin(ctx);
    t->tuned = text_begin(ctx);
    t->timings = text_begin(ctx);
    interrupt_begin(ctx, "freeze_tune");
    const status_t status = interrupt_end(ctx, tune(t, seconds));
    text_clear(&t->untuned);
    text_clear(&t->tuned);
    text_clear(&t->timings);
    context_put(ctx, t->entry);
    return status;
}

status_t plan_tune(context_t *ctx, module_t *module, const char *method, int n_in,
                   const tensor_info_t *const *infos, const tensor_t *const *inputs, double seconds,
                   plan_tuned_t *out_tuned)
{
    programs_t *programs = programs_of(module, method);
    if (programs == NULL || n_in > METHOD_MAX_OUTPUTS)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "freeze_tune: \"%s\" must be a frozen method with at most %d inputs", method,
             METHOD_MAX_OUTPUTS);
    tuner_t t = {.ctx = ctx, .module = module, .programs = programs, .inputs = inputs};
    TRY(programs_choose(ctx, programs, NULL, n_in, infos, &t.programs));
    programs_unwatch(programs);
    const status_t status = tune_chosen(&t, n_in, infos, seconds);
    programs_leave(programs, t.programs);
    if (status == STATUS_OK) *out_tuned = t.result;
    return status;
}
