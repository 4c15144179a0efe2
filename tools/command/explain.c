/* tessera explain: shows for each operator which kernel runs it, in which formats, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/command.h"
#include "tools/support/path.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/table.h"

#define NAME "explain"
#define FORMATS_MAX 512
#define REASONS_MAX 4096

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera explain zoo:squeezenet1_1 --mode mkldnn",
    .about =
        "Lists the operators in the order in which they run after weights are packed, each with\n"
        "its module path, layout, kernel, oneDNN implementation, and formats in and out. Then\n"
        "prints the transitions and reorders of one inference. For a frozen model, also shows\n"
        "whether weights are mapped or made by this process, and which attributes are not\n"
        "constant, with the node that changes each.",
    .more =
        "formats are oneDNN's: abcd is row-major, acdb channels last, aBcd16b blocked; x>y: the\n"
        "  operand has format x and is reordered to y; packed: the own format of one of\n"
        "  Tessera's kernels\n"
        "modes: dense, nhwc, mkldnn (the default), graph, frozen (the default of file.tessera)"};

typedef struct explainer {
    table_t table;
    text_t lines; /* lines that --repro prints */
    bool as_repro, has_reasons, has_packed_weights;
    path_t path;
    int n;
} explainer_t;

/* A call of an operator, or a step of a plan. */
typedef struct call {
    const char *name, *path;
    const prepared_t *prepared; /* NULL: nothing was computed */
    int n_slices;  /* slices of the batch, which a plan runs one after another; 0 or 1: none */
    int n_workers; /* threads that run different slices; 0 or 1: all threads share each step */
    int n_bands;   /* bands of rows of an image, which a plan runs one after another; 0: none */
    int n_weights, n_mapped;
    int n_in;
    const tensor_info_t *given[OP_MAX_INPUTS]; /* NULL: as prepared */
    const tensor_info_t *made[OP_MAX_OUTPUTS]; /* NULL: as prepared */
} call_t;

/* ---- cells ---- */

static const char *format_of(const tensor_info_t *info, char *out_text)
{
    format_t format = info->format;
    if (info->layout == LAYOUT_DENSE && format.kind == FORMAT_STRIDED)
        format = format_of_strides(info->rank, info->sizes, format.strides);
    if (info->rank == 0) return "scalar";
    if (format.kind == FORMAT_OPAQUE) return "packed";
    return format_text(&format, out_text);
}

static bool is_reordered(const tensor_info_t *given, const tensor_info_t *want)
{
    return given != NULL && want->dtype != DTYPE_NONE && given->format.kind != FORMAT_ANY &&
           !format_same(&given->format, &want->format, want->sizes);
}

/* Appends the format "acdb" or, if the given tensor must be reordered, "abcd>acdb". */
static void append_format(char *text, size_t capacity, const tensor_info_t *given,
                          const tensor_info_t *want)
{
    char a[FORMAT_TEXT_MAX], b[FORMAT_TEXT_MAX];
    size_t length = strlen(text);
    const char *separator = length > 0 ? " " : "";
    if (want->dtype == DTYPE_NONE) {
        snprintf(text + length, capacity - length, "%snone", separator);
        return;
    }
    bool is_other = is_reordered(given, want);
    snprintf(text + length, capacity - length, "%s%s%s%s", separator,
             is_other ? format_of(given, a) : "", is_other ? ">" : "", format_of(want, b));
}

/* Sets out_text to the reasons of kernels that declined, each once, with semicolons between. */
static void join_reasons(const prepared_t *prepared, char *out_text, size_t capacity)
{
    const char *line = prepared != NULL ? prepared_reasons(prepared) : NULL, *last = "";
    size_t n_last = 0, used = 0;
    out_text[0] = '\0';
    while (line != NULL && *line != '\0') {
        const size_t n = strcspn(line, "\n");
        if (n != n_last || strncmp(line, last, n) != 0)
            used += (size_t)snprintf(out_text + used, capacity - used, "%s%.*s",
                                     used > 0 ? "; " : "", (int)n, line);
        if (used >= capacity) return;
        last = line;
        n_last = n;
        line += n + (line[n] == '\n');
    }
}

static void put_weights(table_t *table, const call_t *call)
{
    if (call->n_weights == 0)
        table_cell(table, "%s", "");
    else if (call->n_mapped == 0 || call->n_mapped == call->n_weights)
        table_cell(table, "%s", call->n_mapped > 0 ? "mapped" : "made");
    else
        table_cell(table, "%d of %d mapped", call->n_mapped, call->n_weights);
}

static void put_line(explainer_t *explainer, const call_t *call, const char *inputs,
                     const char *outputs)
{
    char reasons[REASONS_MAX];
    table_t *table = &explainer->table;
    const prepared_t *prepared = call->prepared;
    table_cell(table, "%d", ++explainer->n);
    table_cell(table, "%s", call->name);
    table_cell(table, "%s", call->path);
    table_cell(table, "%s",
               prepared != NULL && prepared_n_outputs(prepared) > 0
                   ? layout_name(prepared_output(prepared, 0)->layout)
                   : "");
    table_cell(table, "%s", prepared != NULL ? prepared_kernel(prepared) : "");
    const char *implementation = prepared != NULL ? prepared_implementation(prepared) : NULL;
    if (call->n_workers > 1)
        table_cell(table, "%s x %d / %d", implementation != NULL ? implementation : "",
                   call->n_slices, call->n_workers);
    else if (call->n_slices > 1)
        table_cell(table, "%s x %d", implementation != NULL ? implementation : "", call->n_slices);
    else if (call->n_bands > 1)
        table_cell(table, "%s, %d bands", implementation != NULL ? implementation : "",
                   call->n_bands);
    else
        table_cell(table, "%s", implementation != NULL ? implementation : "");
    table_cell(table, "%s", inputs);
    table_cell(table, "%s", outputs);
    put_weights(table, call);
    if (!explainer->has_reasons) return;
    join_reasons(prepared, reasons, sizeof reasons);
    table_cell(table, "%s", reasons);
}

static void put_row(explainer_t *explainer, const call_t *call)
{
    char inputs[FORMATS_MAX] = "", outputs[FORMATS_MAX] = "";
    for (int i = 0; call->prepared != NULL && i < call->n_in; i++)
        append_format(inputs, sizeof inputs, call->given[i], prepared_input(call->prepared, i));
    for (int i = 0; call->prepared != NULL && i < prepared_n_outputs(call->prepared); i++) {
        const tensor_info_t *prepared = prepared_output(call->prepared, i), *made = call->made[i];
        append_format(outputs, sizeof outputs, prepared, made != NULL ? made : prepared);
    }
    put_line(explainer, call, inputs, outputs);
}

/* ---- lines for benchdnn ---- */

static void put_reorder(text_t *text, const tensor_info_t *from, const tensor_info_t *to)
{
    if (from == NULL || to == NULL || !is_reordered(from, to)) return;
    convert_repro(from, to, text);
    text_append(text, "\n");
}

/* Appends a comment with the operator's name, then lines for reorders of inputs, the operator, and
 * reorders of outputs. */
static void put_repro(explainer_t *explainer, const call_t *call)
{
    text_t *text = &explainer->lines;
    text_append(text, "# %d %s%s%s\n", ++explainer->n, call->name,
                call->path[0] != '\0' ? " at " : "", call->path);
    if (call->prepared == NULL) {
        text_append(text,
                    "# part of the plan: its reorder is listed at the operator that reads it\n");
        return;
    }
    for (int i = 0; i < call->n_in; i++)
        put_reorder(text, call->given[i], prepared_input(call->prepared, i));
    prepared_repro(call->prepared, text);
    text_append(text, "\n");
    for (int i = 0; i < prepared_n_outputs(call->prepared); i++)
        put_reorder(text, prepared_output(call->prepared, i), call->made[i]);
}

static void put(explainer_t *explainer, const call_t *call)
{
    if (explainer->as_repro)
        put_repro(explainer, call);
    else
        put_row(explainer, call);
}

/* ---- eager modes ---- */

static operand_role_t role_of(const opdef_t *op, int index)
{
    if (index < op->n_operands) return op->operands[index].role;
    return op->n_operands > 0 ? op->operands[op->n_operands - 1].role : ROLE_ACTIVATION;
}

static status_t observe(context_t *ctx, void *user, const op_event_t *event)
{
    (void)ctx;
    explainer_t *explainer = user;
    call_t call = {.name = event->op->name,
                   .path = explainer->path.text,
                   .prepared = event->prepared,
                   .n_in = event->n_in};
    for (int i = 0; i < event->n_in; i++) {
        bool is_as_wanted = event->in[i] == NULL ||
                            (explainer->has_packed_weights && role_of(event->op, i) == ROLE_WEIGHT);
        call.given[i] = is_as_wanted ? NULL : tensor_info(event->in[i]);
    }
    for (int i = 0; i < event->n_out; i++) call.made[i] = tensor_info(event->out[i]);
    put(explainer, &call);
    return STATUS_OK;
}

static void enter(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_enter(&((explainer_t *)user)->path, path);
}

static void leave(context_t *ctx, void *user, const char *path)
{
    (void)ctx;
    path_leave(&((explainer_t *)user)->path, path);
}

/* ---- plans ---- */

static void explain_step(explainer_t *explainer, const plan_t *plan, int index)
{
    const graph_t *graph = plan_graph(plan);
    const plan_step_t *step = plan_step(plan, index);
    const opdef_t *op = step->node != NULL ? step->node->op : NULL;
    call_t call = {.name = step->name,
                   .path = step->path != NULL ? step->path : "",
                   .prepared = step->prepared,
                   .n_slices = step->n_slices,
                   .n_workers = step->n_workers,
                   .n_bands = step->n_bands,
                   .n_in = step->n_in};
    call.n_weights = plan_step_weights(plan, index, &call.n_mapped);
    for (int i = 0; i < step->n_in; i++) {
        bool is_packed = op != NULL && role_of(op, i) == ROLE_WEIGHT;
        if (step->inputs[i] == VALUE_NONE || is_packed) continue;
        const graph_type_t *type = graph_value_type(graph, step->inputs[i]);
        if (type->has_info) call.given[i] = &type->info;
    }
    put(explainer, &call);
}

static void explain_plan(explainer_t *explainer, const plan_t *plan)
{
    for (int i = 0; i < plan_n_steps(plan); i++) explain_step(explainer, plan, i);
}

/* ---- all modes ---- */

static status_t run_observed(runner_t *runner, explainer_t *explainer)
{
    observer_t observer = {
        .user = explainer, .op_end = observe, .module_enter = enter, .module_leave = leave};
    TRY(dispatch_add_observer(runner->ctx, &observer));
    status_t status = mode_run_once(runner);
    dispatch_remove_observer(runner->ctx, &observer);
    return status;
}

static void print_summary(const runner_t *runner, const counters_t *counters, const plan_t *plan)
{
    print("\nmode %s, one inference: %" PRIu64 " operators, %" PRIu64 " to_mkldnn, %" PRIu64
          " to_dense; reorders:",
          mode_name(runner->mode), counters->operators, counters->to_mkldnn, counters->to_dense);
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        print(" %s %" PRIu64, cause_name((reorder_cause_t)cause), counters->reorders[cause]);
    print("; copies %" PRIu64 "; %.3f MB moved in %.3f ms\n", counters_copies(counters),
          (double)counters->reorder_bytes / 1e6, (double)counters->reorder_ns / 1e6);
    if (plan != NULL)
        print("plan: %d steps, arena %.3f MB, weights %.3f MB\n", plan_n_steps(plan),
              (double)plan_arena_bytes(plan) / 1e6, (double)plan_weight_bytes(plan) / 1e6);
    if (plan_is_widened(runner->module, "forward"))
        print("bf16 is computed in f32: this processor has no instructions for bf16\n");
}

/* Prints the attributes of a frozen module that are not constants, with reasons. */
static status_t explain_attributes(const runner_t *runner)
{
    if (!freeze_is_frozen(runner->module)) return STATUS_OK;
    text_t text = text_begin(runner->ctx);
    status_t status = freeze_explain(runner->ctx, runner->module, &text);
    if (status == STATUS_OK && text.length > 0)
        print("attributes that are not constant:\n%s", text_string(&text));
    text_clear(&text);
    return status;
}

static status_t explain_all(runner_t *runner, explainer_t *explainer)
{
    const plan_t *plan = plan_of(runner->module, "forward");
    if (plan == NULL) return run_observed(runner, explainer);
    explain_plan(explainer, plan);
    return STATUS_OK;
}

static status_t explain_table(runner_t *runner, explainer_t *explainer)
{
    static const char *const columns[] = {">#",       "<operator",       "<path", "<layout",
                                          "<kernel",  "<implementation", "<in",   "<out",
                                          "<weights", "<reasons"};
    counters_t counters;
    counters_reset(runner->ctx);
    TRY(mode_run_once(runner));
    counters_read(runner->ctx, &counters);
    table_begin(runner->ctx, &explainer->table, explainer->has_reasons ? 10 : 9, columns);
    status_t status = explain_all(runner, explainer);
    if (status != STATUS_OK) {
        text_clear(&explainer->table.text);
        return status;
    }
    TRY(table_print(&explainer->table));
    print_summary(runner, &counters, plan_of(runner->module, "forward"));
    return explain_attributes(runner);
}

static status_t explain_lines(runner_t *runner, explainer_t *explainer)
{
    explainer->lines = text_begin(runner->ctx);
    status_t status = explain_all(runner, explainer);
    if (status == STATUS_OK) status = text_status(&explainer->lines);
    if (status == STATUS_OK) print("%s", text_string(&explainer->lines));
    text_clear(&explainer->lines);
    return status;
}

/* Prints how many packed weights of a plan are mapped, and how many this process has made. */
static void print_weights(const plan_t *plan)
{
    int n = 0, n_mapped = 0, n_weights = 0;
    for (int i = 0; i < plan_n_steps(plan); i++) {
        n_weights += plan_step_weights(plan, i, &n);
        n_mapped += n;
    }
    if (plan != NULL) print("weights      %d mapped, %d made\n", n_mapped, n_weights - n_mapped);
}

/* Prints the estimated cost of the chosen formats, by how much it exceeds the lower bound, and
 * where the weights come from. */
static status_t explain_certificate(runner_t *runner)
{
    layout_certificate_t found;
    TRY(mode_run_once(runner)); /* packs weights */
    const double begin = session_now_ms();
    TRY(graph_certificate(runner->ctx, runner->module, "forward", runner->n_in,
                          (const tensor_t *const *)runner->in, &found));
    print("formats chosen in %.0f ms; by estimate one inference costs\n", session_now_ms() - begin);
    print("chosen       %10.3f us\n", found.cost / 1e3);
    print("best uniform %10.3f us\n", found.best_uniform / 1e3);
    print("lower bound  %10.3f us\n", found.lower_bound / 1e3);
    print("gap          %10.2f %%\n",
          found.cost > 0 ? 100.0 * (found.cost - found.lower_bound) / found.cost : 0.0);
    print_weights(plan_of(runner->module, "forward"));
    return STATUS_OK;
}

static status_t explain(runner_t *runner, bool as_repro, bool has_reasons)
{
    explainer_t explainer = {.as_repro = as_repro,
                             .has_reasons = has_reasons,
                             .has_packed_weights = runner->mode != MODE_DENSE};
    TRY(mode_run_once(runner)); /* packs weights, builds primitives */
    TRY(mode_run_once(runner));
    return as_repro ? explain_lines(runner, &explainer) : explain_table(runner, &explainer);
}

int command_explain(int argc, char **argv)
{
    session_options_t options = {.n_threads = 0};
    const char *mode_text = NULL;
    bool as_repro = false, as_certificate = false, is_wide = false;
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        option_of(OPTION_MODE, &mode_text),
        {"--wide", ARGS_FLAG, &is_wide, NULL, "also print why other kernels declined", 0, 0},
        {"--repro", ARGS_FLAG, &as_repro, NULL, "print command lines for oneDNN's benchdnn", 0, 0},
        {"--certificate", ARGS_FLAG, &as_certificate, NULL,
         "print the formats' estimated cost, a lower bound, and mapped weights", 0, 0},
        SESSION_OPTIONS(options),
    };
    int n_options = (int)(sizeof table / sizeof *table);
    if (!args_parse(&command, table, n_options, argc, argv, &operands, &code)) return code;
    const char *spec = operands.items[0];
    run_mode_t mode;
    if (as_certificate && mode_text == NULL) mode_text = "frozen";
    if (!session_check_model(NAME, spec, &options) ||
        !session_find_mode(NAME, spec, mode_text, &mode))
        return EXIT_USAGE;
    if (as_certificate && mode != MODE_GRAPH && mode != MODE_FROZEN)
        return args_usage_error(NAME,
                                "--certificate needs mode graph or frozen: in mode %s each "
                                "operator chooses its own formats",
                                mode_name(mode));
    session_t session;
    if (!session_begin(NAME, spec, &options, &session)) return EXIT_FAILED;
    bool is_done = session_prepare(NAME, &session, mode) &&
                   session_check(NAME, session.ctx,
                                 as_certificate ? explain_certificate(&session.runner)
                                                : explain(&session.runner, as_repro, is_wide));
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
