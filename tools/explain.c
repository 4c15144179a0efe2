/* tessera explain: for each operator what runs, in which formats, and why. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/command.h"
#include "tools/path.h"
#include "tools/session.h"
#include "tools/table.h"

#define NAME "explain"
#define FORMATS_MAX 512

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera explain zoo:squeezenet1_1 --mode mkldnn",
    .about =
        "Says for each operator, in the order they run once weights are packed: module path,\n"
        "layout, kernel, oneDNN implementation, formats in and out, and why other kernels were\n"
        "declined; and what transitions and reorders one inference has; for a frozen model\n"
        "which attributes are not constant, and the node that changes each.",
    .more =
        "formats are oneDNN's: abcd row-major, acdb channels last, aBcd16b blocked; x>y: given\n"
        "as x, reordered to y\n"
        "modes: dense, nhwc, mkldnn (the default), graph, frozen (the default of file.tessera)"};

typedef struct explainer {
    table_t table;
    bool has_packed_weights;
    path_t path;
    int n;
} explainer_t;

/* ---- cells ---- */

static const char *format_of(const tensor_info_t *info, char *out_text)
{
    format_t format = info->format;
    if (info->layout == LAYOUT_DENSE && format.kind == FORMAT_STRIDED)
        format = format_of_strides(info->rank, info->sizes, format.strides);
    if (info->rank == 0) return "scalar";
    return format_text(&format, out_text);
}

/* "acdb", or "abcd>acdb" where what is given has other bytes than what is wanted. */
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
    bool is_other = given != NULL && given->format.kind != FORMAT_ANY &&
                    !format_same(&given->format, &want->format, want->sizes);
    snprintf(text + length, capacity - length, "%s%s%s%s", separator,
             is_other ? format_of(given, a) : "", is_other ? ">" : "", format_of(want, b));
}

static void put_line(explainer_t *explainer, const char *operator_name, const char *path,
                     const prepared_t *prepared, const char *inputs, const char *outputs)
{
    char reasons[FORMATS_MAX] = "";
    table_t *table = &explainer->table;
    if (prepared != NULL && prepared_reasons(prepared) != NULL)
        snprintf(reasons, sizeof reasons, "%s", prepared_reasons(prepared));
    for (char *at = reasons; *at != '\0'; at++)
        if (*at == '\n') *at = at[1] != '\0' ? ';' : '\0';
    table_cell(table, "%d", ++explainer->n);
    table_cell(table, "%s", operator_name);
    table_cell(table, "%s", path);
    table_cell(table, "%s",
               prepared != NULL && prepared_n_outputs(prepared) > 0
                   ? layout_name(prepared_output(prepared, 0)->layout)
                   : "");
    table_cell(table, "%s", prepared != NULL ? prepared_kernel(prepared) : "");
    const char *implementation = prepared != NULL ? prepared_implementation(prepared) : NULL;
    table_cell(table, "%s", implementation != NULL ? implementation : "");
    table_cell(table, "%s", inputs);
    table_cell(table, "%s", outputs);
    table_cell(table, "%s", reasons);
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
    char inputs[FORMATS_MAX] = "", outputs[FORMATS_MAX] = "";
    for (int i = 0; i < event->n_in; i++) {
        bool is_as_wanted = event->in[i] == NULL ||
                            (explainer->has_packed_weights && role_of(event->op, i) == ROLE_WEIGHT);
        append_format(inputs, sizeof inputs, is_as_wanted ? NULL : tensor_info(event->in[i]),
                      prepared_input(event->prepared, i));
    }
    for (int i = 0; i < event->n_out; i++)
        append_format(outputs, sizeof outputs, prepared_output(event->prepared, i),
                      tensor_info(event->out[i]));
    put_line(explainer, event->op->name, explainer->path.text, event->prepared, inputs, outputs);
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

static void explain_step(explainer_t *explainer, const graph_t *graph, const plan_step_t *step)
{
    char inputs[FORMATS_MAX] = "", outputs[FORMATS_MAX] = "";
    const opdef_t *op = step->node != NULL ? step->node->op : NULL;
    for (int i = 0; step->prepared != NULL && i < step->n_in; i++) {
        bool is_packed = op != NULL && role_of(op, i) == ROLE_WEIGHT;
        const graph_type_t *type = step->inputs[i] != GRAPH_NONE && !is_packed
                                       ? graph_value_type(graph, step->inputs[i])
                                       : NULL;
        append_format(inputs, sizeof inputs, type != NULL && type->has_info ? &type->info : NULL,
                      prepared_input(step->prepared, i));
    }
    for (int i = 0; step->prepared != NULL && i < prepared_n_outputs(step->prepared); i++)
        append_format(outputs, sizeof outputs, NULL, prepared_output(step->prepared, i));
    put_line(explainer, step->name, step->path != NULL ? step->path : "", step->prepared, inputs,
             outputs);
}

static void explain_plan(explainer_t *explainer, const plan_t *plan)
{
    for (int i = 0; i < plan_n_steps(plan); i++)
        explain_step(explainer, plan_graph(plan), plan_step(plan, i));
}

/* ---- the whole ---- */

static status_t run_once(runner_t *runner)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    TRY(mode_run(runner, &n_out, out));
    mode_release_outputs(n_out, out);
    return STATUS_OK;
}

static status_t run_observed(runner_t *runner, explainer_t *explainer)
{
    observer_t observer = {
        .user = explainer, .op_end = observe, .module_enter = enter, .module_leave = leave};
    TRY(dispatch_add_observer(runner->ctx, &observer));
    status_t status = run_once(runner);
    dispatch_remove_observer(runner->ctx, &observer);
    return status;
}

static void print_summary(const runner_t *runner, const counters_t *counters, const plan_t *plan)
{
    printf("\nmode %s, one inference: %" PRIu64 " operators, %" PRIu64 " to_mkldnn, %" PRIu64
           " to_dense; reorders:",
           mode_name(runner->mode), counters->operators, counters->to_mkldnn, counters->to_dense);
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        printf(" %s %" PRIu64, cause_name((reorder_cause_t)cause), counters->reorders[cause]);
    printf("; copies %" PRIu64 "; %.3f MB moved in %.3f ms\n", counters_copies(counters),
           (double)counters->reorder_bytes / 1e6, (double)counters->reorder_ns / 1e6);
    if (plan != NULL)
        printf("plan: %d steps, arena %.3f MB, weights %.3f MB\n", plan_n_steps(plan),
               (double)plan_arena_bytes(plan) / 1e6, (double)plan_weight_bytes(plan) / 1e6);
}

/* Of a frozen module: what is left of its attributes, and why. */
static status_t explain_attributes(const runner_t *runner)
{
    if (!freeze_is_frozen(runner->module)) return STATUS_OK;
    text_t text = text_begin(runner->ctx);
    status_t status = freeze_explain(runner->ctx, runner->module, &text);
    if (status == STATUS_OK && text.length > 0)
        printf("attributes that are not constant:\n%s", text_string(&text));
    text_clear(&text);
    return status;
}

static status_t explain(runner_t *runner)
{
    static const char *const columns[] = {">#",      "<operator", "<path",
                                          "<layout", "<kernel",   "<implementation",
                                          "<in",     "<out",      "<reasons"};
    explainer_t explainer = {.has_packed_weights = runner->mode != MODE_DENSE};
    counters_t counters;
    TRY(run_once(runner));
    TRY(run_once(runner));
    counters_reset(runner->ctx);
    TRY(run_once(runner));
    counters_read(runner->ctx, &counters);
    table_begin(runner->ctx, &explainer.table, 9, columns);
    const plan_t *plan = plan_of(runner->module, "forward");
    status_t status = STATUS_OK;
    if (plan != NULL)
        explain_plan(&explainer, plan);
    else
        status = run_observed(runner, &explainer);
    if (status != STATUS_OK) {
        text_clear(&explainer.table.text);
        return status;
    }
    TRY(table_print(&explainer.table));
    print_summary(runner, &counters, plan);
    return explain_attributes(runner);
}

int command_explain(int argc, char **argv)
{
    session_options_t options = {.n_threads = 0};
    const char *mode_text = NULL;
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        {"--mode", ARGS_TEXT, &mode_text, "MODE", "how to run it, see below", 0, 0},
        session_option_batch(&options),
        session_option_threads(&options),
        session_option_input(&options),
    };
    if (!args_parse(&command, table, 4, argc, argv, &operands, &code)) return code;
    if (!session_check_spec(NAME, operands.items[0])) return EXIT_USAGE;
    run_mode_t mode = mode_default(operands.items[0]);
    if (mode_text != NULL && !mode_parse(mode_text, &mode))
        return args_usage_error(NAME, "--mode %s, must be dense, nhwc, mkldnn, graph or frozen",
                                mode_text);
    session_t session;
    if (!session_begin(NAME, operands.items[0], &options, &session)) return EXIT_FAILED;
    bool is_done = session_prepare(NAME, &session, mode) &&
                   session_check(NAME, session.ctx, explain(&session.runner));
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
