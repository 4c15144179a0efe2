/* tessera profile: measures the time of each node of an inference. */
#include "tools/profile/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/command.h"
#include "tools/support/print.h"

#define NAME "profile"
#define MAX_RUNS 1000
#define ENOUGH_RUNS 50
#define ENOUGH_MS 2000.0 /* without --iterations: time for each mode; 5 to ENOUGH_RUNS runs */

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera profile zoo:resnet50 --mode dense --html resnet50.html",
    .about =
        "Prints for each node of an inference, after weights are packed, its median time, share\n"
        "of the total, GFLOP/s and GB/s, part of this machine's peak (which is measured first),\n"
        "formats, implementation, and its reorders in red; then sums by operator and by module.\n"
        "The time of an operator includes the reorders in its call.",
    .more =
        "limit: the least time that a node's products (f32, from the formula) or bytes (read\n"
        "  once, at the speed for a buffer of that size) can take, divided by the node's time\n"
        "--trace writes a file for chrome://tracing and ui.perfetto.dev; --html writes a page\n"
        "  that needs no network: graph, timeline, table, tree; --against shows both modes side\n"
        "  by side\n"
        "modes: dense, nhwc, mkldnn (the default), graph, frozen (the default of file.tessera)"};

typedef struct options {
    session_options_t session;
    const char *mode, *against, *trace, *html;
    bool as_json;
    int64_t n_iterations;
} options_t;

/* ---- names of nodes ---- */

const char *profile_name(const profile_node_t *node)
{
    if (node->op != NULL) return node->op->name;
    return node->n_reorders > 0 && node->reorders[0].is_copy ? "copy" : "reorder";
}

double profile_share(const profile_mode_t *mode, double ns)
{
    return mode->nodes_ms > 0 ? ns / 1e6 / mode->nodes_ms : 0;
}

double profile_reorder_ns(const profile_node_t *node)
{
    double ns = 0;
    for (int i = 0; i < node->n_reorders; i++) ns += node->reorders[i].ns;
    return ns;
}

int profile_slowest(const profile_mode_t *mode)
{
    int slowest = -1;
    double most = -1;
    for (int i = 0; i < profile_n_nodes(mode->profile); i++) {
        const double ns = profile_node(mode->profile, i)->ns;
        if (ns <= most) continue;
        most = ns;
        slowest = i;
    }
    return slowest;
}

const char *profile_format(const tensor_info_t *info, char *out_text)
{
    format_t format = info->format;
    if (info->dtype == DTYPE_NONE) return "none";
    if (info->rank == 0) return "scalar";
    if (format.kind == FORMAT_OPAQUE) return "packed";
    if (info->layout == LAYOUT_DENSE && format.kind == FORMAT_STRIDED)
        format = format_of_strides(info->rank, info->sizes, format.strides);
    return format_text(&format, out_text);
}

/* ---- measuring ---- */

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static status_t run_watched(profile_mode_t *mode)
{
    TRY(profile_begin_run(mode->profile));
    counters_reset(mode->session.ctx);
    const status_t status = mode_run_once(&mode->session.runner);
    counters_read(mode->session.ctx, &mode->counters);
    const status_t end = profile_end_run(mode->profile);
    return status != STATUS_OK ? status : end;
}

static bool is_enough(int64_t n, int64_t n_iterations, double begin, int n_modes)
{
    if (n_iterations > 0) return n >= n_iterations;
    return n >= ENOUGH_RUNS || (n >= 5 && session_now_ms() - begin > ENOUGH_MS * n_modes);
}

/* Alternates runs with and without profiling, so that other programs slow both equally. */
static bool run_by_turns(profiling_t *profiling, int64_t n_iterations)
{
    static double times[2][MAX_RUNS];
    const double begin = session_now_ms();
    int n = 0;
    for (; !is_enough(n, n_iterations, begin, profiling->n_modes); n++) {
        for (int m = 0; m < profiling->n_modes; m++) {
            profile_mode_t *mode = &profiling->modes[m];
            const double from = session_now_ms();
            if (!session_check(NAME, mode->session.ctx, mode_run_once(&mode->session.runner)))
                return false;
            times[m][n] = session_now_ms() - from;
            if (!session_check(NAME, mode->session.ctx, run_watched(mode))) return false;
        }
    }
    for (int m = 0; m < profiling->n_modes; m++) {
        qsort(times[m], (size_t)n, sizeof times[m][0], compare_numbers);
        profiling->modes[m].run_ms = (times[m][(n - 1) / 2] + times[m][n / 2]) / 2;
    }
    return true;
}

/* Does the first runs, which pack weights and build primitives. Then starts the profile. */
static status_t warm_up(profile_mode_t *mode)
{
    TRY(mode_run_once(&mode->session.runner));
    TRY(mode_run_once(&mode->session.runner));
    return profile_create(mode->session.ctx, &mode->profile);
}

static bool finish(profile_mode_t *mode)
{
    if (!session_check(NAME, mode->session.ctx, profile_finish(mode->profile))) return false;
    for (int i = 0; i < profile_n_nodes(mode->profile); i++)
        mode->nodes_ms += profile_node(mode->profile, i)->ns / 1e6;
    const int n_left_out = profile_n_left_out(mode->profile);
    if (n_left_out > 0)
        print_error("mode %s: %d runs are ignored, because they ran other nodes\n",
                    mode_name(mode->mode), n_left_out);
    return true;
}

static bool measure(const session_t *base, int64_t n_iterations, profiling_t *profiling)
{
    for (int m = 0; m < profiling->n_modes; m++) {
        profile_mode_t *mode = &profiling->modes[m];
        print_error("preparing mode %s\n", mode_name(mode->mode));
        if (!session_clone(NAME, base, &mode->session) ||
            !session_prepare(NAME, &mode->session, mode->mode) ||
            !session_check(NAME, mode->session.ctx, warm_up(mode)))
            return false;
    }
    print_error("measuring\n");
    if (!profile_measure_limits(profiling->n_threads, &profiling->limits))
        return session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    if (!run_by_turns(profiling, n_iterations)) return false;
    if (!profile_measure_limits(profiling->n_threads, &profiling->limits))
        return session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    for (int m = 0; m < profiling->n_modes; m++)
        if (!finish(&profiling->modes[m])) return false;
    return true;
}

/* ---- results ---- */

static status_t write_file(context_t *ctx, const char *path, const text_t *text)
{
    file_writer_t *writer = NULL;
    TRY(text_status(text));
    TRY(file_write_begin(ctx, path, &writer));
    const status_t status = file_write(writer, text_string(text), text->length);
    const status_t end = file_write_end(writer, status == STATUS_OK);
    return status != STATUS_OK ? status : end;
}

/* Writes a file. Prints the file's size if is_told. */
static status_t show_file(const profiling_t *profiling, const char *path, bool is_told,
                          void (*put)(const profiling_t *profiling, text_t *text))
{
    context_t *ctx = profiling->modes[0].session.ctx;
    if (path == NULL) return STATUS_OK;
    text_t text = text_begin(ctx);
    put(profiling, &text);
    const status_t status = write_file(ctx, path, &text);
    text_clear(&text);
    if (status == STATUS_OK && is_told) session_print_size(path);
    return status;
}

static status_t show(const profiling_t *profiling, const options_t *options)
{
    context_t *ctx = profiling->modes[0].session.ctx;
    if (!options->as_json && options->trace == NULL && options->html == NULL)
        return profile_print_tables(ctx, profiling);
    TRY(show_file(profiling, options->trace, !options->as_json, profile_put_trace));
    TRY(show_file(profiling, options->html, !options->as_json, profile_put_html));
    if (!options->as_json) return STATUS_OK;
    text_t text = text_begin(ctx);
    profile_put_json(profiling, &text);
    const status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}

static bool run(const char *spec, const options_t *options, profiling_t *profiling)
{
    session_t base;
    session_options_t session = options->session;
    if (profiling->n_modes == 1) session_only_mode(&session, profiling->modes[0].mode);
    if (!session_begin(NAME, spec, &session, &base)) return false;
    const model_input_t *first = &base.model.inputs[0];
    const bool has_batch = base.model.n_inputs > 0 && tensor_rank(first->tensor) > 0;
    profiling->batch = has_batch ? tensor_sizes(first->tensor)[0] : 1;
    profiling->n_threads = context_threads(base.ctx);
    const bool is_done = measure(&base, options->n_iterations, profiling) &&
                         session_check(NAME, profiling->modes[0].session.ctx,
                                       show(profiling, options));
    for (int m = 0; m < profiling->n_modes; m++) {
        profile_destroy(profiling->modes[m].profile);
        session_end(&profiling->modes[m].session);
    }
    session_end(&base);
    return is_done;
}

/* ---- command line ---- */

/* Checks --against. If it is not a mode or equals --mode, prints a message and returns false. */
static bool find_against(const options_t *options, profiling_t *profiling)
{
    char hint[ARGS_HINT_MAX];
    if (options->against == NULL) return true;
    if (!mode_parse(options->against, &profiling->modes[1].mode)) {
        args_usage_error(NAME, "--against %s, must be dense, nhwc, mkldnn, graph or frozen%s",
                         options->against, args_hint(session_nearest_mode(options->against), hint));
        return false;
    }
    if (profiling->modes[1].mode == profiling->modes[0].mode) {
        args_usage_error(NAME, "--against %s, must differ from --mode", options->against);
        return false;
    }
    profiling->n_modes = 2;
    return true;
}

int command_profile(int argc, char **argv)
{
    options_t options = {.as_json = false};
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        option_of(OPTION_MODE, &options.mode),
        {"--against", ARGS_TEXT, &options.against, "MODE", "another mode to compare it with", 0, 0},
        {"--iterations", ARGS_INTEGER, &options.n_iterations, "N",
         "number of measured runs (2 s of runs, at most 50)", 1, MAX_RUNS},
        option_of(OPTION_JSON, &options.as_json),
        {"--html", ARGS_TEXT, &options.html, "FILE.html", "write a page instead of the table", 0,
         0},
        {"--trace", ARGS_TEXT, &options.trace, "FILE.json", "write a timeline instead of the table",
         0, 0},
        SESSION_OPTIONS(options.session),
        LOADING_OPTIONS(options.session),
    };
    const int n_options = (int)(sizeof table / sizeof *table);
    if (!args_parse(&command, table, n_options, argc, argv, &operands, &code)) return code;
    const char *spec = operands.items[0];
    profiling_t profiling = {.spec = spec, .n_modes = 1};
    if (!session_check_model(NAME, spec, &options.session) ||
        !session_find_mode(NAME, spec, options.mode, &profiling.modes[0].mode) ||
        !find_against(&options, &profiling))
        return EXIT_USAGE;
    return run(spec, &options, &profiling) ? EXIT_DONE : EXIT_FAILED;
}
