/* tessera bench --train: measures a training step in each mode, each in a separate process, which
 * prints its row as one line. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/bench/bench.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"
#include "tools/support/table.h"
#include "tools/train/train_step.h"

/* Learning rate, so small that no network diverges on random labels. It does not affect the
 * time. */
#define BENCH_RATE 1e-6

#define NAME "bench"
#define MARK "tessera-train-run"
#define ITERATIONS 10 /* equal in all modes, so that their losses are of the same step */

enum { DENSE, MKLDNN, PLANNED, N_MODES };
static const char *const modes[N_MODES] = {"dense", "mkldnn", "planned"};

/* Results of a mode: medians, and the counts of one step in steady state. */
typedef struct row {
    int mode;
    double step_ms, forward_ms, backward_ms, update_ms;
    double weight_reorders, activation_reorders, gradient_reorders, copies;
    double peak_mb, loss;
} row_t;

#define ROW_FORMAT " %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf"

static int find_mode(const char *name)
{
    for (int mode = 0; mode < N_MODES; mode++)
        if (strcmp(modes[mode], name) == 0) return mode;
    return -1;
}

static int64_t count_iterations(const bench_train_options_t *options)
{
    return options->n_iterations > 0 ? options->n_iterations : ITERATIONS;
}

/* ---- measuring, in the process of a mode ---- */

typedef struct lane {
    context_t *ctx;
    train_setup_t setup;
    const tensor_t *x;
    tensor_t *target;
    int64_t n; /* steps measured */
    double *step_ms, *forward_ms, *backward_ms, *update_ms;
} lane_t;

/* Makes random classes from 0 to n_classes - 1, as labels. n_classes is the number of scores. */
static status_t draw_target(context_t *ctx, int64_t batch, int64_t n_classes, uint64_t seed,
                            tensor_t **out_target)
{
    tensor_t *uniform = NULL, *target = NULL;
    const void *numbers = NULL;
    void *labels = NULL;
    context_seed(ctx, seed);
    TRY(tensor_rand(ctx, DTYPE_F64, SHAPE(batch), &uniform));
    status_t status = tensor_empty(ctx, DTYPE_S64, SHAPE(batch), &target);
    if (status == STATUS_OK) status = tensor_data(ctx, uniform, &numbers);
    if (status == STATUS_OK) status = tensor_data_mutable(ctx, target, &labels);
    for (int64_t i = 0; status == STATUS_OK && i < batch; i++)
        ((int64_t *)labels)[i] = (int64_t)(((const double *)numbers)[i] * (double)n_classes);
    tensor_release(uniform);
    if (status == STATUS_OK)
        *out_target = target;
    else
        tensor_release(target);
    return status;
}

static status_t prepare(const bench_train_options_t *options, session_t *session, int mode,
                        lane_t *lane)
{
    context_t *ctx = session->ctx;
    const train_recipe_t recipe = {.loss = "cross_entropy",
                                   .optimizer = options->optimizer,
                                   .lr = BENCH_RATE,
                                   .momentum = strcmp(options->optimizer, "sgd") == 0 ? 0.9 : -1,
                                   .weight_decay = -1,
                                   .mode = mode == PLANNED ? TRAIN_PLANNED : TRAIN_EAGER,
                                   .memory_limit = mode == PLANNED ? options->memory_limit : 0};
    tensor_info_t output;
    REQUIRE(ctx, session->model.n_inputs == 1, "%s has %d inputs, --train needs one",
            session->model.spec, session->model.n_inputs);
    lane->x = session->model.inputs[0].tensor;
    TRY(train_probe(ctx, session->model.module, lane->x, &output));
    REQUIRE(ctx, output.rank == 2, "%s returns rank %d, must be scores [batch][classes]",
            session->model.spec, output.rank);
    TRY(draw_target(ctx, output.sizes[0], output.sizes[1], (uint64_t)options->session.model.seed,
                    &lane->target));
    if (mode != DENSE) TRY(module_mkldnn(ctx, session->model.module, NULL));
    TRY(dispatch_set_policy(ctx, mode == DENSE ? POLICY_PER_OP : POLICY_AUTO));
    return train_set_up(ctx, session->model.module, &recipe, &lane->setup);
}

static status_t step(lane_t *lane, double *out_loss)
{
    const tensor_t *in[] = {lane->x};
    return trainer_step(lane->ctx, lane->setup.trainer, 1, in, lane->target, NULL, out_loss);
}

static status_t measure(const bench_train_options_t *options, lane_t *lane, row_t *row)
{
    counters_t counters;
    for (int64_t i = 0; i < options->n_warm_up; i++) TRY(step(lane, &row->loss));
    counters_reset(lane->ctx);
    for (int64_t i = 0; i < lane->n; i++) {
        double begin = session_now_ms();
        TRY(step(lane, &row->loss));
        train_times_t times = trainer_times(lane->setup.trainer);
        lane->step_ms[i] = session_now_ms() - begin;
        lane->forward_ms[i] = (double)times.forward_ns / 1e6;
        lane->backward_ms[i] = (double)times.backward_ns / 1e6;
        lane->update_ms[i] = (double)times.update_ns / 1e6;
    }
    double n = (double)lane->n;
    counters_read(lane->ctx, &counters);
    row->step_ms = train_median(lane->step_ms, lane->n);
    row->forward_ms = train_median(lane->forward_ms, lane->n);
    row->backward_ms = train_median(lane->backward_ms, lane->n);
    row->update_ms = train_median(lane->update_ms, lane->n);
    row->weight_reorders = (double)counters_weight_reorders(&counters) / n;
    row->activation_reorders = (double)counters_activation_reorders(&counters) / n;
    row->gradient_reorders = (double)counters_gradient_reorders(&counters) / n;
    row->copies = (double)counters_copies(&counters) / n;
    row->peak_mb = bench_peak_mb();
    return STATUS_OK;
}

static status_t run_lane(const bench_train_options_t *options, session_t *session, int mode,
                         row_t *row)
{
    int64_t n = count_iterations(options);
    double *times = calloc((size_t)n * 4, sizeof *times);
    lane_t lane = {.ctx = session->ctx, .n = n};
    if (times == NULL) FAIL(session->ctx, STATUS_OUT_OF_MEMORY, "no memory for times");
    lane.step_ms = times;
    lane.forward_ms = times + n;
    lane.backward_ms = times + 2 * n;
    lane.update_ms = times + 3 * n;
    status_t status = prepare(options, session, mode, &lane);
    if (status == STATUS_OK) status = measure(options, &lane, row);
    train_take_down(&lane.setup);
    tensor_release(lane.target);
    free(times);
    return status;
}

static int measure_here(const char *spec, const bench_train_options_t *options)
{
    session_t session;
    row_t row = {.mode = find_mode(options->apart)};
    if (row.mode < 0 || !session_begin(NAME, spec, &options->session, &session)) return EXIT_FAILED;
    bool is_done = session_check(NAME, session.ctx, run_lane(options, &session, row.mode, &row));
    if (is_done)
        print(MARK " %.6f %.6f %.6f %.6f %.6f %.6f %.6f %.6f %.3f %.17g\n", row.step_ms,
              row.forward_ms, row.backward_ms, row.update_ms, row.weight_reorders,
              row.activation_reorders, row.gradient_reorders, row.copies, row.peak_mb, row.loss);
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}

/* ---- all modes ---- */

typedef struct rows {
    int n;
    row_t items[N_MODES];
} rows_t;

static bool take_row(const char *line, void *user)
{
    row_t *row = user;
    return sscanf(line, MARK ROW_FORMAT, &row->step_ms, &row->forward_ms, &row->backward_ms,
                  &row->update_ms, &row->weight_reorders, &row->activation_reorders,
                  &row->gradient_reorders, &row->copies, &row->peak_mb, &row->loss) == 10;
}

static bool measure_apart(const char *spec, const bench_train_options_t *options, row_t *row)
{
    char iterations[24], warm_up[24], limit[24];
    snprintf(iterations, sizeof iterations, "%" PRId64, count_iterations(options));
    snprintf(warm_up, sizeof warm_up, "%" PRId64, options->n_warm_up);
    snprintf(limit, sizeof limit, "%" PRId64, options->memory_limit);
    const char *const more[] = {
        "--train",      "--first-run", modes[row->mode], "--optimizer", options->optimizer,
        "--iterations", iterations,    "--warm-up",      warm_up,       "--memory-limit",
        limit};
    char what[64];
    snprintf(what, sizeof what, "mode %s", modes[row->mode]);
    bar_show(what, 0, 0, NULL);
    return bench_run_apart(spec, &options->session, (int)(sizeof more / sizeof more[0]), more,
                           take_row, row);
}

/* Reads --modes; without it, all modes. */
static bool parse_modes(const bench_train_options_t *options, rows_t *rows)
{
    char text[64] = "dense,mkldnn,planned";
    const char *given = options->modes != NULL ? options->modes : text;
    args_list_t names;
    bool is_right = strlen(given) < sizeof text;
    if (is_right && given != text) memcpy(text, given, strlen(given) + 1);
    is_right = is_right && args_split(text, &names) && names.n <= N_MODES;
    for (int i = 0; is_right && i < names.n; i++) {
        int mode = find_mode(names.items[i]);
        is_right = mode >= 0;
        for (int j = 0; j < rows->n; j++) is_right = is_right && rows->items[j].mode != mode;
        if (is_right) rows->items[rows->n++].mode = mode;
    }
    if (!is_right)
        args_usage_error(NAME, "--modes %s, must be some of dense,mkldnn,planned with --train",
                         given);
    return is_right;
}

/* ---- printing ---- */

static status_t print_table(context_t *ctx, const rows_t *rows)
{
    static const char *const columns[] = {"<mode",   ">step ms", ">forward",    ">backward",
                                          ">update", ">weight",  ">activation", ">gradient",
                                          ">copies", ">peak MB", ">loss"};
    table_t table;
    table_begin(ctx, &table, (int)(sizeof columns / sizeof columns[0]), columns);
    for (int i = 0; i < rows->n; i++) {
        const row_t *row = &rows->items[i];
        table_cell(&table, "%s", modes[row->mode]);
        table_cell(&table, "%.2f", row->step_ms);
        table_cell(&table, "%.2f", row->forward_ms);
        table_cell(&table, "%.2f", row->backward_ms);
        table_cell(&table, "%.2f", row->update_ms);
        table_cell(&table, "%g", row->weight_reorders);
        table_cell(&table, "%g", row->activation_reorders);
        table_cell(&table, "%g", row->gradient_reorders);
        table_cell(&table, "%g", row->copies);
        table_cell(&table, "%.1f", row->peak_mb);
        table_cell(&table, "%.6g", row->loss);
    }
    return table_print(&table);
}

static status_t print_json(context_t *ctx, const char *spec, const bench_train_options_t *options,
                           const rows_t *rows)
{
    text_t text = text_begin(ctx);
    text_append(&text, "{\"model\":");
    text_append_quoted(&text, spec);
    text_append(&text, ",\"batch\":%" PRId64 ",\"threads\":%d,\"optimizer\":\"%s\",\"rows\":[",
                options->session.model.batch > 0 ? options->session.model.batch : 1,
                context_threads(ctx), options->optimizer);
    for (int i = 0; i < rows->n; i++) {
        const row_t *row = &rows->items[i];
        text_append(&text,
                    "%s{\"mode\":\"%s\",\"step_ms\":%.4f,\"forward_ms\":%.4f,\"backward_ms\":%.4f,"
                    "\"update_ms\":%.4f",
                    i > 0 ? "," : "", modes[row->mode], row->step_ms, row->forward_ms,
                    row->backward_ms, row->update_ms);
        text_append(&text,
                    ",\"weight_reorders\":%g,\"activation_reorders\":%g,\"gradient_reorders\":%g,"
                    "\"copies\":%g,\"peak_rss_mb\":%.1f,\"loss\":%.9g}",
                    row->weight_reorders, row->activation_reorders, row->gradient_reorders,
                    row->copies, row->peak_mb, row->loss);
    }
    text_append(&text, "]}");
    status_t status = text_status(&text);
    if (status == STATUS_OK) print("%s\n", text_string(&text));
    text_clear(&text);
    return status;
}

static bool tell(const char *spec, const bench_train_options_t *options, const rows_t *rows)
{
    const context_options_t context = {.n_threads = (int)options->session.n_threads};
    context_t *ctx = NULL;
    if (!session_check(NAME, NULL, stop_create(&context, &ctx))) return false;
    status_t status = STATUS_OK;
    if (options->as_json) {
        status = print_json(ctx, spec, options, rows);
    } else {
        print("%s\na step of training, batch %" PRId64 ", %s, %d threads; %" PRId64
              " steps after %" PRId64 " of warm-up; times in ms, reorders of a step by cause\n\n",
              spec, options->session.model.batch > 0 ? options->session.model.batch : 1,
              options->optimizer, context_threads(ctx), count_iterations(options),
              options->n_warm_up);
        status = print_table(ctx, rows);
    }
    bool is_done = session_check(NAME, ctx, status);
    stop_destroy(ctx);
    return is_done;
}

int bench_train(const char *spec, const bench_train_options_t *options)
{
    rows_t rows = {0};
    if (options->apart != NULL) return measure_here(spec, options);
    if (!train_is_optimizer(options->optimizer))
        return args_usage_error(NAME, "--optimizer %s, must be " TRAIN_OPTIMIZERS,
                                options->optimizer);
    if (model_kind(spec) == MODEL_FROZEN)
        return args_usage_error(NAME, "%s is frozen, --train needs zoo:NAME or file.onnx", spec);
    if (!parse_modes(options, &rows)) return EXIT_USAGE;
    for (int i = 0; i < rows.n; i++)
        if (!measure_apart(spec, options, &rows.items[i])) return EXIT_FAILED;
    return tell(spec, options, &rows) ? EXIT_DONE : EXIT_FAILED;
}
