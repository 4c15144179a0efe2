/* tessera run: runs an inference; shows, saves, compares and verifies its outputs. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tensor/base/try_impl.h"
#include "tools/command/run.h"
#include "tools/command/verify.h"
#include "tools/support/bar.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/table.h"

#define NAME "run"

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera run zoo:squeezenet1_1 --output-dir out --stats",
    .about =
        "Runs a model once. Missing inputs are filled with random values: floating-point ones are\n"
        "standard normal, integers uniform in the range that the model accepts. MODEL is "
        "file.onnx,\n"
        "file.tessera or zoo:NAME.",
    .more =
        "modes: dense, nhwc, mkldnn (the default), graph, frozen (the default of file.tessera)"};

/* ---- outputs ---- */

typedef struct outputs {
    int n;
    tensor_t *tensors[METHOD_MAX_OUTPUTS];
    char names[METHOD_MAX_OUTPUTS][MODEL_NAME_MAX];
} outputs_t;

static void file_path(const char *dir, const char *name, char *out_path, size_t capacity)
{
    int length = snprintf(out_path, capacity, "%s/%s.npy", dir, name);
    size_t begin = strlen(dir) + 1;
    for (size_t i = begin; length > 0 && i < (size_t)length && i < capacity - 1; i++)
        if (!isalnum((unsigned char)out_path[i]) && strchr("._-", out_path[i]) == NULL)
            out_path[i] = '_';
}

/* Removes the sign of a NaN, because printf would print it. */
static double without_sign_of_nan(double number)
{
    return isnan(number) ? fabs(number) : number;
}

/* Prints range, mean and the index of the largest element, so that a user can compare two runs. */
static status_t show(context_t *ctx, const char *name, const tensor_t *tensor)
{
    char text[INFO_TEXT_MAX];
    tensor_t *wide = NULL, *plain = NULL;
    const void *data = NULL;
    status_t status = tensor_cast(ctx, tensor, DTYPE_F64, &wide);
    if (status == STATUS_OK) status = tensor_contiguous(ctx, wide, &plain);
    if (status == STATUS_OK) status = tensor_data(ctx, plain, &data);
    if (status == STATUS_OK) {
        const double *values = data;
        int64_t n = tensor_numel(plain), at = 0;
        double sum = 0.0, smallest = INFINITY;
        for (int64_t i = 0; i < n; i++) {
            sum += values[i];
            if (values[i] < smallest) smallest = values[i];
            if (values[i] > values[at] || isnan(values[i])) at = i;
        }
        print("%s %s", name, info_text(tensor_info(tensor), text));
        if (n > 0)
            print(" min %.6g max %.6g at %" PRId64 " mean %.6g", smallest,
                  without_sign_of_nan(values[at]), at, without_sign_of_nan(sum / (double)n));
        print("\n");
    }
    tensor_release(plain);
    tensor_release(wide);
    return status;
}

static status_t save(context_t *ctx, const char *dir, const outputs_t *outputs)
{
    char path[4096], other[4096];
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        FAIL(ctx, STATUS_IO, "%s: cannot be created: %s", dir, strerror(errno));
    for (int i = 0; i < outputs->n; i++) {
        file_path(dir, outputs->names[i], path, sizeof path);
        for (int j = 0; j < i; j++) {
            file_path(dir, outputs->names[j], other, sizeof other);
            REQUIRE(ctx, strcmp(path, other) != 0, "outputs \"%s\" and \"%s\" are both %s",
                    outputs->names[j], outputs->names[i], path);
        }
        TRY(npy_save(ctx, path, outputs->tensors[i]));
    }
    return STATUS_OK;
}

/* Compares the outputs with those that another run has saved. */
static status_t compare(context_t *ctx, const run_options_t *options, const outputs_t *outputs,
                        bool *out_differs)
{
    char path[4096];
    for (int i = 0; i < outputs->n; i++) {
        tensor_t *wanted = NULL;
        double difference = 0.0;
        file_path(options->compare, outputs->names[i], path, sizeof path);
        TRY(npy_load(ctx, path, &wanted));
        status_t status = tensor_max_rel_diff(ctx, outputs->tensors[i], wanted, &difference);
        tensor_release(wanted);
        TRY(status);
        print("%s differs from %s by %.3g of the largest element\n", outputs->names[i], path,
              difference);
        if (difference <= options->tolerance) continue;
        print_error("tessera " NAME
                    ": output %s differs from %s by %.3g of the largest element, %.3g "
                    "is allowed\n",
                    outputs->names[i], path, difference, options->tolerance);
        *out_differs = true;
    }
    return STATUS_OK;
}

/* ---- statistics ---- */

/* Phases that are counted separately. The second run shows the work that remains when weights have
 * been packed and primitives built. */
enum { PHASE_PREPARING, PHASE_FIRST, PHASE_SECOND, PHASE_COUNT };

static void stats_row(table_t *table, const char *name, const counters_t *phases, size_t offset)
{
    table_cell(table, "%s", name);
    for (int i = 0; i < PHASE_COUNT; i++) {
        uint64_t value = 0;
        memcpy(&value, (const char *)&phases[i] + offset, sizeof value);
        table_cell(table, "%" PRIu64, value);
    }
}

static void causes_rows(table_t *table, const char *what, const counters_t *phases, size_t offset)
{
    for (size_t cause = 0; cause < CAUSE_COUNT; cause++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %s", what, cause_name((reorder_cause_t)cause));
        stats_row(table, name, phases, offset + cause * sizeof(uint64_t));
    }
}

static status_t print_stats(context_t *ctx, const counters_t *phases)
{
    static const char *const columns[] = {"<counter", ">preparing", ">first run", ">second run"};
    static const struct {
        const char *name;
        size_t offset;
    } rows[] = {{"reorder bytes", offsetof(counters_t, reorder_bytes)},
                {"reorder ns", offsetof(counters_t, reorder_ns)},
                {"weights packed", offsetof(counters_t, weights_packed)},
                {"weights mapped", offsetof(counters_t, weights_mapped)},
                {"models imported", offsetof(counters_t, models_imported)},
                {"models mapped", offsetof(counters_t, models_mapped)},
                {"primitives built", offsetof(counters_t, primitives_built)},
                {"cache hits", offsetof(counters_t, cache_hits)},
                {"cache misses", offsetof(counters_t, cache_misses)},
                {"cache entries", offsetof(counters_t, cache_entries)},
                {"cache bytes", offsetof(counters_t, cache_bytes)},
                {"tensor bytes", offsetof(counters_t, tensor_bytes)}};
    table_t table;
    table_begin(ctx, &table, 1 + PHASE_COUNT, columns);
    stats_row(&table, "operators", phases, offsetof(counters_t, operators));
    stats_row(&table, "to_mkldnn", phases, offsetof(counters_t, to_mkldnn));
    stats_row(&table, "to_dense", phases, offsetof(counters_t, to_dense));
    causes_rows(&table, "reorders", phases, offsetof(counters_t, reorders));
    causes_rows(&table, "copies", phases, offsetof(counters_t, copies));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        stats_row(&table, rows[i].name, phases, rows[i].offset);
    return table_print(&table);
}

static status_t stats(runner_t *runner, counters_t *phases)
{
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    counters_reset(runner->ctx);
    TRY(mode_run(runner, &n_out, out));
    counters_read(runner->ctx, &phases[PHASE_SECOND]);
    mode_release_outputs(n_out, out);
    return print_stats(runner->ctx, phases);
}

static status_t verify(runner_t *runner, const run_options_t *options, bool *out_differs)
{
    verify_result_t result = {.n_operators = 0};
    TRY(verify_run(runner, options->n_verify, (uint64_t)options->session.model.seed, &result));
    print("verified %d operators at %" PRId64
          " elements: largest error %.3g of its bound (%s), %d failed\n",
          result.n_operators, options->n_verify, result.largest, result.where, result.n_failed);
    if (result.n_values > 0)
        print("checked %d values of the plan where they are read, %d overwritten\n",
              result.n_values, result.n_overwritten);
    if (result.n_failed > 0)
        print_error("tessera " NAME
                    ": %d results do not agree with their operator's specification\n",
                    result.n_failed);
    if (result.n_overwritten > 0)
        print_error("tessera " NAME ": %d values of the plan are not what was computed\n",
                    result.n_overwritten);
    *out_differs |= result.n_failed > 0 || result.n_overwritten > 0;
    return STATUS_OK;
}

/* ---- running ---- */

static status_t run(runner_t *runner, const run_options_t *options, bool *out_differs)
{
    context_t *ctx = runner->ctx;
    outputs_t outputs = {.n = 0};
    counters_t phases[PHASE_COUNT];
    counters_read(ctx, &phases[PHASE_PREPARING]);
    counters_reset(ctx);
    TRY(mode_run(runner, &outputs.n, outputs.tensors));
    counters_read(ctx, &phases[PHASE_FIRST]);
    bar_end();
    status_t status = STATUS_OK;
    for (int i = 0; i < outputs.n; i++) {
        model_output_name(runner->module, i, outputs.n, outputs.names[i]);
        if (status == STATUS_OK) status = show(ctx, outputs.names[i], outputs.tensors[i]);
    }
    if (status == STATUS_OK && options->output_dir != NULL)
        status = save(ctx, options->output_dir, &outputs);
    if (status == STATUS_OK && options->has_stats) status = stats(runner, phases);
    if (status == STATUS_OK && options->n_verify > 0) status = verify(runner, options, out_differs);
    if (status == STATUS_OK && options->compare != NULL)
        status = compare(ctx, options, &outputs, out_differs);
    mode_release_outputs(outputs.n, outputs.tensors);
    return status;
}

int run_session(session_t *session, const run_options_t *options)
{
    bool differs = false;
    status_t status = run(&session->runner, options, &differs);
    if (!session_check(NAME, session->ctx, status)) return EXIT_FAILED;
    return differs ? EXIT_DIFFERS : EXIT_DONE;
}

static bool parse(int argc, char **argv, run_options_t *options, args_list_t *operands,
                  run_mode_t *out_mode, int *out_code)
{
    const args_option_t table[] = {
        {"--output-dir", ARGS_TEXT, &options->output_dir, "DIR", "save outputs as DIR/NAME.npy", 0,
         0},
        option_of(OPTION_MODE, &options->mode),
        {"--stats", ARGS_FLAG, &options->has_stats, NULL,
         "print counters of the preparation, the first and the second run", 0, 0},
        {"--verify", ARGS_INTEGER, &options->n_verify, "N",
         "recompute N elements of each operator in double; exit with 3 if wrong", 1, INT32_MAX},
        {"--compare", ARGS_TEXT, &options->compare, "DIR",
         "compare outputs with those in DIR; --tolerance is 1e-4 unless given", 0, 0},
        option_of(OPTION_TOLERANCE, &options->tolerance),
        SESSION_OPTIONS(options->session),
        LOADING_OPTIONS(options->session),
    };
    if (!args_parse(&command, table, (int)(sizeof table / sizeof table[0]), argc, argv, operands,
                    out_code))
        return false;
    *out_code = EXIT_USAGE;
    const char *spec = operands->items[0];
    if (options->tolerance >= 0.0 && options->compare == NULL) {
        args_usage_error(NAME, "--tolerance needs --compare DIR");
        return false;
    }
    if (options->tolerance < 0.0) options->tolerance = 1e-4;
    return session_check_model(NAME, spec, &options->session) &&
           session_find_mode(NAME, spec, options->mode, out_mode);
}

int command_run(int argc, char **argv)
{
    run_options_t options = {.tolerance = -1.0};
    args_list_t operands;
    run_mode_t mode;
    int code;
    if (!parse(argc, argv, &options, &operands, &mode, &code)) return code;
    session_t session;
    session_only_mode(&options.session, mode);
    if (!session_begin(NAME, operands.items[0], &options.session, &session)) return EXIT_FAILED;
    code = session_prepare(NAME, &session, mode) ? run_session(&session, &options) : EXIT_FAILED;
    session_end(&session);
    return code;
}
