/* tessera graph: prints a model's graph as text or as an SVG image, before, between or after
 * passes. */
#include <stdio.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/command/svg.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"

#define NAME "graph"

typedef struct options {
    session_options_t session;
    bool is_frozen, as_dot, as_table;
    const char *svg;
    const char *after;
    bool has_dumped;
    args_list_t skip; /* NULL-terminated */
} options_t;

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera graph zoo:squeezenet1_1 --frozen --svg squeezenet.svg",
    .about = "Prints the graph of a model as it was traced or imported. With --frozen, prints the\n"
             "graph that runs when the model is frozen, with layouts chosen. With --after, also\n"
             "prints the results of passes."};

static void dump(void *user, const char *pass, const char *text)
{
    ((options_t *)user)->has_dumped = true;
    print("// after %s\n%s\n", pass, text);
}

static pass_options_t pass_options(options_t *options, module_t *self)
{
    return (pass_options_t){.skip = options->skip.items,
                            .after = options->after,
                            .dump = dump,
                            .dump_user = options,
                            .self = self};
}

/* Runs the passes of the mode: those that make its graph, then those that specialise it. */
static status_t optimise(session_t *session, options_t *options, graph_t **out_graph)
{
    context_t *ctx = session->ctx;
    module_t *frozen = NULL;
    graph_t *general = NULL;
    pass_options_t how = pass_options(options, session->model.module);
    if (options->is_frozen && session->model.kind != MODEL_FROZEN) {
        freeze_options_t freezing = {.skip = options->skip.items,
                                     .after = options->after,
                                     .dump = dump,
                                     .dump_user = options};
        TRY(mode_freeze(ctx, &session->model, &freezing, &frozen));
        how.self = frozen;
    }
    const graph_t *graph = graph_of(how.self, "forward");
    status_t status = STATUS_OK;
    if (frozen == NULL && session->model.kind != MODEL_FROZEN) {
        status = pass_run(ctx, graph, pass_pipeline_graph(), &how, &general);
        graph = general;
    }
    if (status == STATUS_OK) status = pass_run(ctx, graph, pass_pipeline_plan(), &how, out_graph);
    graph_release(general);
    module_release(frozen);
    return status;
}

/* Prints the graph. Tensors are printed as $0, $1, ... */
static status_t print_text(context_t *ctx, const graph_t *graph, text_t *text)
{
    datum_t *pool = NULL;
    TRY(datum_list(ctx, 0, NULL, &pool));
    status_t status = graph_print(ctx, graph, pool, text);
    datum_release(pool);
    return status;
}

static status_t print_graph(context_t *ctx, const graph_t *graph, const options_t *options)
{
    text_t text = text_begin(ctx);
    status_t status = options->as_table ? graph_alias(ctx, graph, &text)
                      : options->as_dot ? graph_dot(ctx, graph, &text)
                                        : print_text(ctx, graph, &text);
    if (status == STATUS_OK) status = text_status(&text);
    if (status == STATUS_OK && options->svg != NULL)
        status = svg_write(ctx, text_string(&text), options->svg);
    else if (status == STATUS_OK)
        print("%s", text_string(&text));
    text_clear(&text);
    return status;
}

/* Prints the graph as it was imported, traced or loaded. If a file has several graphs, text shows
 * all of them, a picture only the first. */
static status_t print_graphs(context_t *ctx, const module_t *module, const options_t *options)
{
    const int n = options->as_dot ? 1 : plan_n_graphs(module, "forward");
    TRY(print_graph(ctx, graph_of(module, "forward"), options));
    for (int i = 1; i < n; i++) TRY(print_graph(ctx, plan_graph_at(module, "forward", i), options));
    return STATUS_OK;
}

static status_t show(session_t *session, options_t *options)
{
    context_t *ctx = session->ctx;
    graph_t *optimised = NULL;
    bool has_passes = options->is_frozen || options->after != NULL || options->skip.n > 0;
    if (session->model.kind != MODEL_FROZEN) TRY(mode_trace(ctx, &session->model));
    if (!has_passes) return print_graphs(ctx, session->model.module, options);
    TRY(optimise(session, options, &optimised));
    status_t status = STATUS_OK;
    if (options->after == NULL) status = print_graph(ctx, optimised, options);
    graph_release(optimised);
    if (options->after != NULL && !options->has_dumped)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT,
                              "--after %s: that pass is skipped, or not in mode %s", options->after,
                              options->is_frozen ? "frozen" : "graph");
    return status;
}

/* Writes the names "passes: inline, ...", in lines as wide as the help text. */
#define PASSES_MAX 1024
static const char *list_passes(char *out_text)
{
    size_t length = (size_t)snprintf(out_text, PASSES_MAX, "passes:"), width = length;
    for (int i = 0; i < pass_count() && length < PASSES_MAX; i++) {
        const char *name = pass_at(i)->name, *comma = i + 1 < pass_count() ? "," : "";
        bool is_full = width + strlen(name) > 85;
        if (is_full) width = 0;
        int n = snprintf(out_text + length, PASSES_MAX - length, "%s%s%s", is_full ? "\n  " : " ",
                         name, comma);
        length += (size_t)n;
        width += (size_t)n;
    }
    return out_text;
}

/* A wrong name of a pass is a usage error. */
static bool check_pass(const char *option, const char *name)
{
    if (pass_find(name) != NULL) return true;
    char passes[PASSES_MAX];
    args_usage_error(NAME, "%s %s is not a pass, there are:%s", option, name,
                     strchr(list_passes(passes), ' '));
    return false;
}

static bool check_forms(const options_t *options)
{
    size_t length = options->svg != NULL ? strlen(options->svg) : 0;
    if (options->as_table && (options->as_dot || options->after != NULL)) {
        args_usage_error(NAME,
                         "--alias prints a table; it must not be combined with --dot or --after");
        return false;
    }
    if (options->as_dot && options->after != NULL) {
        args_usage_error(NAME, "--after prints text; it must not be combined with --dot or --svg");
        return false;
    }
    if (length > 0 && (length < 5 || strcmp(options->svg + length - 4, ".svg") != 0)) {
        args_usage_error(NAME, "--svg %s, must be FILE.svg", options->svg);
        return false;
    }
    return true;
}

static bool check_options(options_t *options, const char *spec)
{
    if (!session_check_model(NAME, spec, &options->session)) return false;
    options->as_dot |= options->svg != NULL;
    for (int i = 0; i < options->skip.n; i++)
        if (!check_pass("--skip", options->skip.items[i])) return false;
    if (options->skip.n == ARGS_MAX) {
        args_usage_error(NAME, "--skip is given more than %d times", ARGS_MAX - 1);
        return false;
    }
    options->skip.items[options->skip.n] = NULL;
    if (!check_forms(options)) return false;
    if (options->after == NULL || strcmp(options->after, "each") == 0) return true;
    return check_pass("--after", options->after);
}

int command_graph(int argc, char **argv)
{
    options_t options = {.after = NULL};
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        {"--frozen", ARGS_FLAG, &options.is_frozen, NULL, "freeze the model first", 0, 0},
        {"--after", ARGS_TEXT, &options.after, "PASS",
         "print the result of this pass, or \"each\" pass", 0, 0},
        {"--skip", ARGS_REPEATED, &options.skip, "PASS", "skip this pass; may be repeated", 0, 0},
        {"--dot", ARGS_FLAG, &options.as_dot, NULL, "print the graph for Graphviz", 0, 0},
        {"--svg", ARGS_TEXT, &options.svg, "FILE.svg", "draw the graph with Graphviz's dot", 0, 0},
        {"--alias", ARGS_FLAG, &options.as_table, NULL,
         "print which values may share memory, and which nodes write it", 0, 0},
        SESSION_OPTIONS(options.session),
    };
    int n_options = (int)(sizeof table / sizeof *table);
    char passes[PASSES_MAX];
    args_command_t described = command;
    described.more = list_passes(passes);
    if (!args_parse(&described, table, n_options, argc, argv, &operands, &code)) return code;
    if (!check_options(&options, operands.items[0])) return EXIT_USAGE;
    session_t session;
    if (!session_begin(NAME, operands.items[0], &options.session, &session)) return EXIT_FAILED;
    bool is_done = session_check(NAME, session.ctx, show(&session, &options));
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
