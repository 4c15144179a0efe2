/* tessera bench: measures time, reorders and memory of a model in each mode. */
#include "tools/bench/bench.h"
#include "tools/bench/budget.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/bar.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"

#define NAME "bench"
#define MAX_ITERATIONS 100000
#define MAX_WARM_UP 1000

/* Without --iterations, rounds of all modes are measured until this time has passed. */
#define MIN_ROUNDS 5
#define MAX_ROUNDS 50
#define ROUNDS_MS 10000.0

/* Default of --seconds: how long a round of instances lasts. */
#define SECONDS 2

typedef struct bench_options {
    session_options_t session;
    const char *modes, *budget, *first_run, *optimizer, *instances;
    int64_t n_iterations, n_warm_up, n_seconds, memory_limit, n_prompt, n_decode, n_sequences;
    double tolerance; /* negative: any difference is allowed */
    bool as_json, trains;
    int n_modes;
    run_mode_t mode[MODE_COUNT];
} bench_options_t;

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera bench zoo:resnet50 --modes dense,mkldnn,frozen",
    .about =
        "Measures a model in several modes, which run alternately. Prints percentiles and the\n"
        "minimum of the time of an inference, items per second, and the reorders and copies of\n"
        "an inference after the warm-up. A separate process for each mode measures the time\n"
        "from opening the file to the end of the first run.",
    .more =
        "modes:\n"
        "  dense    row-major between operators; conv and linear reorder inside each call\n"
        "  nhwc     weights packed once, activations channels_last\n"
        "  mkldnn   weights packed once, activations blocked\n"
        "  graph    traced, layouts chosen for the whole graph, run as a plan\n"
        "  frozen   constants folded, operators fused, weights packed; the only mode of\n"
        "           file.tessera\n"
        "first run: load creates the context and opens the file (in mode frozen the frozen\n"
        "  file) or makes the zoo's network; prepare traces the model and packs weights; then\n"
        "  one inference runs\n"
        "max rel diff is max |a-b| / max |b| of the outputs; b are the outputs of mode dense\n"
        "--train: modes dense, mkldnn (operator by operator, weights blocked) and planned (a\n"
        "  step is one plan) each run in a separate process; the loss is cross-entropy with\n"
        "  random classes, the optimizer sgd with momentum 0.9\n"
        "--instances: N independent instances of one frozen file share its weights. Each has\n"
        "  its own context and threads, bound to neighbouring cores. auto tries every divisor\n"
        "  of the number of cores. speedup is compared with one instance on all cores\n"
        "file.gguf: measures a prompt of --prompt tokens, then --decode tokens one by one, and\n"
        "  prints the best of three rounds. --threads and --json are the only other options\n"
        "each line of a budget file is MODEL BATCH MODE WEIGHT ACTIVATION COPIES; the last\n"
        "  three are the allowed reorders and copies of an inference"};

/* ---- measuring ---- */

/* A mode that is measured, and the times of its runs. */
typedef struct lane {
    session_t session;
    bench_row_t *row;
    double *times;         /* [n_runs] */
    double *reorder_times; /* [n_runs] time in reorders */
    double *cpu_times;     /* [n_runs] CPU time */
} lane_t;

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

void bench_sort_times(double *times, int64_t n)
{
    qsort(times, (size_t)n, sizeof times[0], compare_times);
}

double bench_percentile(const double *times, int64_t n, double part)
{
    double at = part * (double)(n - 1);
    int64_t below = (int64_t)at, above = below + 1 < n ? below + 1 : below;
    return times[below] + (at - (double)below) * (times[above] - times[below]);
}

static void summarize(lane_t *lane, int64_t batch)
{
    bench_row_t *row = lane->row;
    double sum = 0.0;
    bench_sort_times(lane->times, row->n_runs);
    bench_sort_times(lane->reorder_times, row->n_runs);
    bench_sort_times(lane->cpu_times, row->n_runs);
    for (int64_t i = 0; i < row->n_runs; i++) sum += lane->times[i];
    row->median_ms = bench_percentile(lane->times, row->n_runs, 0.5);
    row->p90_ms = bench_percentile(lane->times, row->n_runs, 0.9);
    row->p99_ms = bench_percentile(lane->times, row->n_runs, 0.99);
    row->min_ms = lane->times[0];
    row->items_per_s = sum > 0.0 ? 1e3 * (double)(batch * row->n_runs) / sum : 0.0;
    row->reorder_ms = bench_percentile(lane->reorder_times, row->n_runs, 0.5);
    row->cpu_ms = bench_percentile(lane->cpu_times, row->n_runs, 0.5);
}

static void take_counters(const counters_t *counters, bench_row_t *row)
{
    row->weight_reorders += counters_weight_reorders(counters);
    row->activation_reorders += counters_activation_reorders(counters);
    row->copies += counters_copies(counters);
    row->reorder_bytes += counters->reorder_bytes;
}

static status_t measure_once(lane_t *lane)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    counters_t counters;
    runner_t *runner = &lane->session.runner;
    counters_reset(runner->ctx);
    double begin = session_now_ms(), cpu_begin = session_cpu_ms();
    TRY(mode_run(runner, &n_out, out));
    lane->cpu_times[lane->row->n_runs] = session_cpu_ms() - cpu_begin;
    lane->times[lane->row->n_runs] = session_now_ms() - begin;
    counters_read(runner->ctx, &counters);
    lane->reorder_times[lane->row->n_runs++] = (double)counters.reorder_ns / 1e6;
    take_counters(&counters, lane->row);
    mode_release_outputs(n_out, out);
    return STATUS_OK;
}

/* Shows the number of rounds done or, if time limits them, the time passed. */
static void show_round(const bench_options_t *options, int64_t round, double ms)
{
    if (options->n_iterations > 0)
        bar_show("measure, rounds", round, options->n_iterations, NULL);
    else if (ms < ROUNDS_MS)
        bar_show("measure, seconds", (int64_t)(ms / 1e3), (int64_t)(ROUNDS_MS / 1e3), NULL);
    else
        bar_show("measure, rounds", round, MIN_ROUNDS, NULL);
}

static bool run_rounds(const bench_options_t *options, int64_t batch, int n_lanes, lane_t *lanes)
{
    double begin = session_now_ms();
    int64_t wanted = options->n_iterations > 0 ? options->n_iterations : MAX_ROUNDS;
    for (int64_t round = 0; round < wanted; round++) {
        bool is_late = session_now_ms() - begin >= ROUNDS_MS;
        if (options->n_iterations == 0 && round >= MIN_ROUNDS && is_late) break;
        show_round(options, round, session_now_ms() - begin);
        for (int i = 0; i < n_lanes; i++) {
            status_t status = measure_once(&lanes[i]);
            if (!session_check(NAME, lanes[i].session.ctx, status)) return false;
        }
    }
    for (int i = 0; i < n_lanes; i++) summarize(&lanes[i], batch);
    return true;
}

/* Computes the difference of each output, and returns the largest. */
static status_t diff_outputs(context_t *ctx, int n, tensor_t *const *outputs, int n_wanted,
                             tensor_t *const *wanted, double *out_difference)
{
    REQUIRE(ctx, n == n_wanted, "%d outputs, mode dense has %d", n, n_wanted);
    *out_difference = 0.0;
    for (int i = 0; i < n; i++) {
        double difference = 0.0;
        TRY(tensor_max_rel_diff(ctx, outputs[i], wanted[i], &difference));
        if (!(difference <= *out_difference)) *out_difference = difference;
    }
    return STATUS_OK;
}

/* Does the first runs, which pack weights and build primitives. Compares the outputs with those of
 * mode dense. */
static status_t warm_up(lane_t *lane, int64_t n_runs, int n_wanted, tensor_t *const *wanted)
{
    for (int64_t i = 0; i < n_runs; i++) {
        tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n_out = 0;
        status_t status = STATUS_OK;
        TRY(mode_run(&lane->session.runner, &n_out, out));
        if (n_wanted > 0)
            status = diff_outputs(lane->session.ctx, n_out, out, n_wanted, wanted,
                                  &lane->row->max_rel_diff);
        mode_release_outputs(n_out, out);
        TRY(status);
    }
    return STATUS_OK;
}

/* Runs mode dense, whose outputs are the reference for all modes. A frozen file cannot run in it;
 * *out_n is then 0. */
static bool run_dense(const session_t *base, int *out_n, tensor_t **out)
{
    if (base->model.kind == MODEL_FROZEN) return true;
    session_t session;
    if (!session_clone(NAME, base, &session)) return false;
    bool is_done = session_prepare(NAME, &session, MODE_DENSE) &&
                   session_check(NAME, session.ctx, mode_run(&session.runner, out_n, out));
    session_end(&session);
    return is_done;
}

static bool begin_lane(const session_t *base, bench_row_t *row, int64_t n_iterations, lane_t *lane)
{
    lane->row = row;
    lane->times = calloc((size_t)n_iterations, sizeof *lane->times);
    lane->reorder_times = calloc((size_t)n_iterations, sizeof *lane->reorder_times);
    lane->cpu_times = calloc((size_t)n_iterations, sizeof *lane->cpu_times);
    if (lane->times == NULL || lane->reorder_times == NULL || lane->cpu_times == NULL)
        return session_check(NAME, NULL, STATUS_OUT_OF_MEMORY);
    return session_clone(NAME, base, &lane->session) &&
           session_prepare(NAME, &lane->session, row->mode);
}

static bool measure(const bench_options_t *options, const session_t *base, bench_t *bench)
{
    lane_t lanes[MODE_COUNT] = {{.row = NULL}};
    tensor_t *wanted[METHOD_MAX_OUTPUTS] = {NULL};
    int n_wanted = 0;
    int64_t n_times = options->n_iterations > 0 ? options->n_iterations : MAX_ROUNDS;
    bool is_done = run_dense(base, &n_wanted, wanted);
    for (int i = 0; i < bench->n_rows && is_done; i++) {
        char what[64];
        snprintf(what, sizeof what, "prepare mode %s", mode_name(bench->rows[i].mode));
        bar_show(what, i, bench->n_rows, NULL);
        is_done = begin_lane(base, &bench->rows[i], n_times, &lanes[i]) &&
                  session_check(NAME, lanes[i].session.ctx,
                                warm_up(&lanes[i], options->n_warm_up, n_wanted, wanted));
    }
    is_done = is_done && run_rounds(options, bench->batch, bench->n_rows, lanes);
    bar_end();
    mode_release_outputs(n_wanted, wanted);
    for (int i = 0; i < bench->n_rows; i++) {
        session_end(&lanes[i].session);
        free(lanes[i].times);
        free(lanes[i].reorder_times);
        free(lanes[i].cpu_times);
    }
    return is_done;
}

static bool measure_apart(const bench_options_t *options, bench_t *bench)
{
    for (int i = 0; i < options->n_modes; i++) {
        bench_row_t *row = &bench->rows[bench->n_rows++];
        *row = (bench_row_t){.mode = options->mode[i], .max_rel_diff = (double)NAN};
        char what[64];
        snprintf(what, sizeof what, "first run of mode %s", mode_name(row->mode));
        bar_show(what, i, options->n_modes, NULL);
        if (!bench_measure_apart(bench->spec, row->mode, &options->session, row)) return false;
    }
    return true;
}

/* Prints the modes that differ from dense by more than the tolerance. Returns true if any do. */
static bool differs(const bench_t *bench, double tolerance)
{
    bool is_any = false;
    for (int i = 0; i < bench->n_rows; i++) {
        const bench_row_t *row = &bench->rows[i];
        if (tolerance < 0.0 || row->max_rel_diff <= tolerance) continue;
        print_error("tessera " NAME
                    ": mode %s differs from dense by %.3g of the largest element, %.3g "
                    "is allowed\n",
                    mode_name(row->mode), row->max_rel_diff, tolerance);
        is_any = true;
    }
    return is_any;
}

/* Measures all modes and returns the exit code. budget may be NULL. */
static int measure_all(const char *spec, const bench_options_t *options, const budget_t *budget)
{
    bench_t result = {.spec = spec, .n_warm_up = options->n_warm_up};
    session_t base;
    if (!measure_apart(options, &result)) return EXIT_FAILED;
    if (!session_begin(NAME, spec, &options->session, &base)) return EXIT_FAILED;
    result.batch = model_batch(&base.model);
    result.n_threads = context_threads(base.ctx);
    bool is_done = measure(options, &base, &result);
    if (is_done)
        is_done = session_check(NAME, base.ctx,
                                options->as_json ? bench_print_json(base.ctx, &result)
                                                 : bench_print_tables(base.ctx, &result));
    if (is_done && options->budget != NULL)
        is_done = session_check(NAME, base.ctx, budget_check(base.ctx, &result, budget));
    session_end(&base);
    if (!is_done) return EXIT_FAILED;
    return differs(&result, options->tolerance) ? EXIT_DIFFERS : EXIT_DONE;
}

static bool read_budget(const bench_options_t *options, budget_t *out_budget)
{
    context_t *ctx = NULL;
    if (stop_create(NULL, &ctx) != STATUS_OK) {
        print_error(NAME ": %s\n", context_error(NULL));
        return false;
    }
    bool is_read = session_check(NAME, ctx, budget_read(ctx, options->budget, out_budget));
    stop_destroy(ctx);
    return is_read;
}

static int bench(const char *spec, const bench_options_t *options)
{
    budget_t budget = {0};
    if (options->budget != NULL && !read_budget(options, &budget)) return EXIT_FAILED;
    int code = measure_all(spec, options, &budget);
    budget_clear(&budget);
    return code;
}

/* ---- command line ---- */

/* Reads --modes; without it, all modes. A frozen file has only mode frozen. */
static bool parse_modes(const char *spec, bench_options_t *options)
{
    bool is_frozen = model_kind(spec) == MODEL_FROZEN;
    if (options->modes == NULL) {
        for (int mode = 0; mode < MODE_COUNT; mode++)
            if (!is_frozen || mode == MODE_FROZEN)
                options->mode[options->n_modes++] = (run_mode_t)mode;
        return true;
    }
    char text[256], hint[ARGS_HINT_MAX];
    args_list_t names;
    snprintf(text, sizeof text, "%s", options->modes);
    bool is_right = strlen(options->modes) < sizeof text && args_split(text, &names) &&
                    names.n <= MODE_COUNT;
    const char *nearest = NULL;
    for (int i = 0; is_right && i < names.n; i++) {
        run_mode_t mode;
        is_right = mode_parse(names.items[i], &mode);
        if (!is_right) nearest = session_nearest_mode(names.items[i]);
        for (int j = 0; is_right && j < options->n_modes; j++) is_right = options->mode[j] != mode;
        if (is_right) options->mode[options->n_modes++] = mode;
    }
    if (!is_right)
        args_usage_error(NAME, "--modes %s, must be some of dense,nhwc,mkldnn,graph,frozen%s",
                         options->modes, args_hint(nearest, hint));
    return is_right;
}

/* Reports options that cannot be used with --train. bench_train checks the others. */
static bool check_training(const bench_options_t *options)
{
    if (options->budget == NULL && options->tolerance < 0.0) return true;
    args_usage_error(NAME, "--budget and --tolerance must not be combined with --train");
    return false;
}

/* Reports options that cannot be used with --instances. bench_instances checks the number of
 * instances. */
static bool check_instances(const char *spec, bench_options_t *options)
{
    if (options->trains) {
        args_usage_error(NAME, "--instances must not be combined with --train");
        return false;
    }
    if (options->budget != NULL || options->tolerance >= 0.0 || options->n_iterations > 0) {
        args_usage_error(
            NAME, "--iterations, --budget and --tolerance must not be combined with --instances, "
                  "which run for --seconds N");
        return false;
    }
    if (options->modes == NULL) return true;
    if (!parse_modes(spec, options)) return false;
    if (options->n_modes == 1 && options->mode[0] == MODE_FROZEN) return true;
    args_usage_error(NAME, "--modes %s, must be frozen with --instances", options->modes);
    return false;
}

static bool is_gguf(const char *spec)
{
    const size_t n = strlen(spec);
    return n > 5 && strcmp(spec + n - 5, ".gguf") == 0;
}

static int generate(const char *spec, const bench_options_t *options)
{
    const bench_generate_options_t generating = {
        .n_prompt = options->n_prompt > 0 ? options->n_prompt : 256,
        .n_decode = options->n_decode > 0 ? options->n_decode : 64,
        .n_sequences = options->n_sequences > 0 ? options->n_sequences : 1,
        .n_threads = options->session.n_threads,
        .as_json = options->as_json};
    return bench_generate(spec, &generating);
}

static bool check_options(const char *spec, bench_options_t *options)
{
    if (is_gguf(spec)) return true;
    if (options->n_prompt > 0 || options->n_decode > 0 || options->n_sequences > 0) {
        args_usage_error(NAME, "--prompt, --decode and --sequences need a file.gguf");
        return false;
    }
    if (options->tolerance >= 0.0 && model_kind(spec) == MODEL_FROZEN) {
        args_usage_error(NAME, "--tolerance compares with mode dense, which %s does not have",
                         spec);
        return false;
    }
    if (!session_check_model(NAME, spec, &options->session)) return false;
    if (options->memory_limit > 0 && !options->trains) {
        args_usage_error(NAME, "--memory-limit needs --train");
        return false;
    }
    if (options->instances != NULL) return check_instances(spec, options);
    if (options->n_seconds > 0) {
        args_usage_error(NAME, "--seconds needs --instances");
        return false;
    }
    return options->trains ? check_training(options) : parse_modes(spec, options);
}

static bool parse(int argc, char **argv, bench_options_t *options, args_list_t *operands,
                  int *out_code)
{
    const args_option_t table[] = {
        option_of(OPTION_MODES, &options->modes),
        {"--iterations", ARGS_INTEGER, &options->n_iterations, "N",
         "measured runs of each mode (5 to 50, about 10 s in all)", 1, MAX_ITERATIONS},
        {"--warm-up", ARGS_INTEGER, &options->n_warm_up, "N",
         "runs of each mode before the measured ones (3)", 1, MAX_WARM_UP},
        option_of(OPTION_JSON, &options->as_json),
        {"--budget", ARGS_TEXT, &options->budget, "FILE",
         "fail if reorder counts exceed those in FILE", 0, 0},
        option_of(OPTION_TOLERANCE, &options->tolerance),
        {"--train", ARGS_FLAG, &options->trains, NULL, "measure a training step, see below", 0, 0},
        {"--optimizer", ARGS_TEXT, &options->optimizer, "O",
         "sgd, adam or adamw, for --train (sgd)", 0, 0},
        option_of(OPTION_MEMORY, &options->memory_limit),
        {"--instances", ARGS_TEXT, &options->instances, "N|auto",
         "measure N instances at once, see below", 0, 0},
        {"--seconds", ARGS_INTEGER, &options->n_seconds, "N",
         "duration of a round of --instances (2)", 1, 3600},
        {"--prompt", ARGS_INTEGER, &options->n_prompt, "N",
         "tokens of the prompt of a file.gguf (256)", 1, 1 << 20},
        {"--decode", ARGS_INTEGER, &options->n_decode, "N",
         "tokens after the prompt of a file.gguf (64)", 1, 1 << 20},
        {"--sequences", ARGS_INTEGER, &options->n_sequences, "N",
         "sequences of a file.gguf that are generated at once (1)", 1, 256},
        SESSION_OPTIONS(options->session),
        LOADING_OPTIONS(options->session),
        {"--first-run", ARGS_TEXT, &options->first_run, "MODE", NULL, 0, 0},
    };
    if (!args_parse(&command, table, (int)(sizeof table / sizeof table[0]), argc, argv, operands,
                    out_code))
        return false;
    *out_code = EXIT_USAGE;
    return check_options(operands->items[0], options);
}

/* Runs in the process that bench_measure_apart starts. */
static int first_run(const char *spec, const bench_options_t *options)
{
    session_t session;
    run_mode_t mode;
    if (!mode_parse(options->first_run, &mode) ||
        !session_begin(NAME, spec, &options->session, &session))
        return EXIT_FAILED;
    bool is_done = session_prepare(NAME, &session, mode) && bench_report_first_run(NAME, &session);
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

static int train(const char *spec, const bench_options_t *options)
{
    const bench_train_options_t training = {.session = options->session,
                                            .modes = options->modes,
                                            .optimizer = options->optimizer,
                                            .apart = options->first_run,
                                            .n_iterations = options->n_iterations,
                                            .n_warm_up = options->n_warm_up,
                                            .memory_limit = options->memory_limit,
                                            .as_json = options->as_json};
    return bench_train(spec, &training);
}

static int run_instances(const char *spec, const bench_options_t *options)
{
    const bench_instances_options_t instances = {
        .session = options->session,
        .instances = options->instances,
        .n_seconds = options->n_seconds > 0 ? options->n_seconds : SECONDS,
        .n_warm_up = options->n_warm_up,
        .as_json = options->as_json};
    return options->first_run != NULL ? bench_instances_here(spec, &instances)
                                      : bench_instances(spec, &instances);
}

int command_bench(int argc, char **argv)
{
    bench_options_t options = {
        .n_iterations = 0, .n_warm_up = 3, .tolerance = -1.0, .optimizer = "sgd"};
    args_list_t operands;
    int code;
    if (!parse(argc, argv, &options, &operands, &code)) return code;
    const char *spec = operands.items[0];
    if (is_gguf(spec)) return generate(spec, &options);
    if (options.trains) return train(spec, &options);
    if (options.instances != NULL) return run_instances(spec, &options);
    return options.first_run != NULL ? first_run(spec, &options) : bench(spec, &options);
}
