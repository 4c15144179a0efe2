/* The run of tessera train: makes data, model and trainer, then takes a step for each batch. Files
 * are written only after successful steps, so the files of the last good step remain after a
 * failure. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"
#include "tools/train/train.h"
#include "tools/train/train_ranks.h"

#define NAME "train"

typedef struct run {
    context_t *ctx;
    const train_settings_t *settings;
    train_record_t *record;
    parallel_t *parallel; /* or NULL */
    model_t model;
    dataset_t *dataset;
    loader_t *loader;
    train_setup_t setup;
    const train_schedule_t *schedule;
    double lr;        /* learning rate with which the schedule begins */
    int64_t n_scores; /* number of scores that the model returns; 0: unknown, or not a classifier */
} run_t;

/* ---- setting up ---- */

static status_t open_data(run_t *run)
{
    const train_settings_t *settings = run->settings;
    const loader_options_t options = {.batch = settings->batch,
                                      .seed = (uint64_t)settings->seed,
                                      .part = parallel_rank(run->parallel),
                                      .n_parts = parallel_n_ranks(run->parallel),
                                      .shuffle = settings->shuffle,
                                      .flip = settings->flip,
                                      .crop_padding = settings->crop_padding};
    if (settings->labels != NULL)
        TRY(dataset_from_npy(run->ctx, settings->data, settings->labels, &run->dataset));
    else
        TRY(dataset_from_folder(run->ctx, settings->data, &run->dataset));
    TRY(loader_create(run->ctx, run->dataset, &options, &run->loader));
    run->record->n_items = dataset_n(run->dataset);
    run->record->n_classes = dataset_classes(run->dataset);
    run->record->n_batches = loader_batches(run->loader);
    return STATUS_OK;
}

/* The seed determines the initial weights of zoo models. Open sizes of a file are set to the sizes
 * of the data. */
static status_t load_model(run_t *run)
{
    const train_settings_t *settings = run->settings;
    const model_options_t options = {.batch = settings->batch};
    context_seed(run->ctx, (uint64_t)settings->seed);
    TRY(model_load(run->ctx, settings->spec, &options, &run->model));
    REQUIRE(run->ctx, run->model.n_inputs == 1, "%s has %d inputs, must have one", settings->spec,
            run->model.n_inputs);
    return module_mkldnn(run->ctx, run->model.module, NULL);
}

/* Runs the model on the first batch, so that sizes which do not fit are reported before the first
 * step. */
static status_t check_sizes(run_t *run)
{
    context_t *ctx = run->ctx;
    const train_criterion_t *criterion = train_find_criterion(run->settings->recipe.loss);
    const tensor_info_t *target = dataset_target(run->dataset);
    tensor_t *x = NULL, *y = NULL;
    tensor_info_t output;
    char text[INFO_TEXT_MAX];
    TRY(loader_next(ctx, run->loader, &x, &y, NULL));
    TRY(train_probe(ctx, run->model.module, x, &output));
    TRY(loader_seek(ctx, run->loader, 0, 0));
    bool is_integral = target->dtype == DTYPE_S64;
    REQUIRE(ctx, criterion->takes_classes == is_integral, "--loss %s: targets are %s, must be %s",
            criterion->name, info_text(target, text),
            criterion->takes_classes ? "integers, which are classes" : "floating numbers");
    if (!criterion->takes_classes || output.rank < 2 || target->rank != 0) return STATUS_OK;
    run->n_scores = output.sizes[1];
    run->record->has_accuracy = output.rank == 2;
    REQUIRE(ctx, dataset_classes(run->dataset) <= run->n_scores,
            "label %" PRId64 " is out of range, %s returns %" PRId64 " scores, for labels from 0",
            dataset_classes(run->dataset) - 1, run->settings->spec, run->n_scores);
    return STATUS_OK;
}

static status_t check_sizes_in_scope(run_t *run)
{
    TRY(scope_begin(run->ctx));
    status_t status = check_sizes(run), ended = scope_end(run->ctx);
    return status != STATUS_OK ? status : ended;
}

static status_t get_record(run_t *run)
{
    train_record_t *record = run->record;
    const train_settings_t *settings = run->settings;
    record->n_steps = settings->n_steps;
    if (record->n_steps == 0 &&
        !shape_multiply(settings->n_epochs, record->n_batches, &record->n_steps))
        record->n_steps = INT64_MAX;
    int64_t n_bytes = 0, n_left = record->n_steps - record->first_step;
    REQUIRE(run->ctx, n_left > 0,
            "%s has done %" PRId64 " steps, --steps or --epochs set a total of %" PRId64,
            settings->resume, record->first_step, record->n_steps);
    if (shape_multiply(n_left, (int64_t)sizeof *record->losses, &n_bytes)) {
        record->losses = malloc((size_t)n_bytes);
        record->times_ms = malloc((size_t)n_bytes);
    }
    if (record->losses == NULL || record->times_ms == NULL)
        FAIL(run->ctx, STATUS_OUT_OF_MEMORY, "no memory for the losses of %" PRId64 " steps",
             n_left);
    return STATUS_OK;
}

/* True in the process that prints and writes files: the first one, or the only one. */
static bool is_first(const run_t *run)
{
    return parallel_rank(run->parallel) == 0;
}

/* Loads a checkpoint, which contains its number of steps. The data continues from there. */
static status_t resume(run_t *run)
{
    train_record_t *record = run->record;
    optimizer_t *optimizer = run->setup.optimizer;
    if (run->settings->resume == NULL) return STATUS_OK;
    if (is_first(run))
        TRY(checkpoint_load(run->ctx, run->model.module, optimizer, run->settings->resume, NULL));
    if (run->parallel != NULL)
        TRY(parallel_broadcast(run->ctx, run->parallel, run->model.module, optimizer));
    record->first_step = optimizer_n_steps(optimizer);
    return loader_seek(run->ctx, run->loader, record->first_step / record->n_batches,
                       record->first_step % record->n_batches);
}

static status_t prepare(run_t *run)
{
    train_recipe_t recipe = run->settings->recipe;
    TRY(train_join(run->ctx, run->settings->bf16_gradients, &run->parallel));
    recipe.parallel = run->parallel;
    TRY(open_data(run));
    TRY(load_model(run));
    TRY(check_sizes_in_scope(run));
    TRY(train_set_up(run->ctx, run->model.module, &recipe, &run->setup));
    run->schedule = train_find_schedule(run->settings->schedule);
    run->lr = optimizer_lr(run->setup.optimizer);
    TRY(resume(run));
    return get_record(run);
}

/* ---- stepping ---- */

/* Counts the items of a batch whose largest score has the right class. */
static status_t count_right(run_t *run, const tensor_t *output, const tensor_t *y)
{
    int64_t n = tensor_sizes(output)[0], n_scores = tensor_sizes(output)[1];
    tensor_t *scores = NULL;
    const void *labels = NULL, *numbers = NULL;
    double counts[] = {0.0, (double)n}; /* right items, all items */
    TRY(tensor_cast(run->ctx, output, DTYPE_F32, &scores));
    TRY(to_dense(run->ctx, scores, &scores));
    TRY(tensor_contiguous(run->ctx, scores, &scores));
    TRY(tensor_data(run->ctx, scores, &numbers));
    TRY(tensor_data(run->ctx, y, &labels));
    for (int64_t i = 0; i < n; i++) {
        const float *row = (const float *)numbers + i * n_scores;
        int64_t best = 0;
        for (int64_t c = 1; c < n_scores; c++)
            if (row[c] > row[best]) best = c;
        counts[0] += best == ((const int64_t *)labels)[i];
    }
    if (run->parallel != NULL) TRY(parallel_sum(run->ctx, run->parallel, 2, counts));
    run->record->n_right += (int64_t)counts[0];
    run->record->n_seen += (int64_t)counts[1];
    return STATUS_OK;
}

/* Updates the accuracy at the end of an epoch, and at each step of the first epoch. */
static void settle_accuracy(train_record_t *record, bool is_end, bool is_first_epoch)
{
    if (record->n_seen > 0 && (is_end || is_first_epoch))
        record->accuracy = (double)record->n_right / (double)record->n_seen;
    if (is_end) record->n_right = record->n_seen = 0;
}

static status_t step(run_t *run)
{
    context_t *ctx = run->ctx;
    train_record_t *record = run->record;
    int64_t number = record->first_step + record->n_done;
    tensor_t *x = NULL, *y = NULL, *output = NULL;
    bool is_end = false;
    double loss = 0.0, begin = session_now_ms();
    TRY(optimizer_set_lr(ctx, run->setup.optimizer,
                         run->schedule->rate(run->lr, number, record->n_steps)));
    TRY(loader_next(ctx, run->loader, &x, &y, &is_end));
    const tensor_t *in[] = {x};
    TRY(trainer_step(ctx, run->setup.trainer, 1, in, y, record->has_accuracy ? &output : NULL,
                     &loss));
    record->times_ms[record->n_done] = session_now_ms() - begin;
    record->losses[record->n_done++] = loss;
    if (record->has_accuracy) TRY(count_right(run, output, y));
    settle_accuracy(record, is_end, record->n_done <= record->n_batches);
    return STATUS_OK;
}

static status_t step_in_scope(run_t *run)
{
    TRY(scope_begin(run->ctx));
    status_t status = step(run), ended = scope_end(run->ctx);
    return status != STATUS_OK ? status : ended;
}

/* Warns of parameters that get no gradients. Call it after the first step, which finds them. */
static void warn_of_idle(const run_t *run)
{
    const optimizer_t *optimizer = run->setup.optimizer;
    if (optimizer_unstepped(optimizer, 0) != NULL) bar_end();
    for (int i = 0; optimizer_unstepped(optimizer, i) != NULL; i++)
        print_error("tessera " NAME ": warning: parameter %s has no gradient, it is not trained\n",
                    optimizer_unstepped(optimizer, i));
}

static status_t save(run_t *run)
{
    if (run->settings->output == NULL || !is_first(run)) return STATUS_OK;
    return checkpoint_save(run->ctx, run->model.module, run->setup.optimizer, run->settings->output,
                           NULL);
}

static status_t tell_step(const run_t *run, status_t status)
{
    char why[2048];
    if (status == STATUS_OK) return STATUS_OK;
    snprintf(why, sizeof why, "%s", context_error(run->ctx));
    return context_fail(run->ctx, status, "step %" PRId64 ": %s",
                        run->record->first_step + run->record->n_done, why);
}

static status_t take_steps(run_t *run)
{
    train_record_t *record = run->record;
    int64_t n_left = record->n_steps - record->first_step, every = run->settings->save_every;
    record->begin_ms = session_now_ms();
    while (record->n_done < n_left) {
        TRY(tell_step(run, step_in_scope(run)));
        record->end_ms = session_now_ms();
        if (record->n_done == 1 && is_first(run)) warn_of_idle(run);
        if (is_first(run)) train_show_progress(record);
        bool is_last = record->n_done == n_left;
        if (is_last || (every > 0 && (record->first_step + record->n_done) % every == 0))
            TRY(save(run));
    }
    return STATUS_OK;
}

/* ---- the run ---- */

static status_t tell(run_t *run)
{
    const train_settings_t *settings = run->settings;
    if (!is_first(run)) return STATUS_OK;
    if (settings->curve != NULL) TRY(train_write_curve(run->ctx, run->record, settings->curve));
    if (settings->as_json) return train_print_json(run->ctx, settings, run->record);
    train_print(settings, run->record);
    return STATUS_OK;
}

static void end(run_t *run)
{
    loader_destroy(run->loader);
    dataset_release(run->dataset);
    train_take_down(&run->setup);
    parallel_destroy(run->parallel);
    model_clear(&run->model);
    stop_destroy(run->ctx);
}

bool train_run(const train_settings_t *settings, train_record_t *out_record)
{
    run_t run = {.settings = settings, .record = out_record};
    const context_options_t options = {.n_threads = (int)settings->n_threads};
    train_expect_end();
    if (!session_check(NAME, NULL, stop_create(&options, &run.ctx))) return false;
    status_t status = prepare(&run);
    if (status == STATUS_OK) status = take_steps(&run);
    bar_end();
    if (status == STATUS_OK) status = tell(&run);
    bool is_done = session_check(NAME, run.ctx, status);
    if (!is_done) parallel_leave(run.parallel);
    end(&run);
    return is_done;
}

void train_record_clear(train_record_t *record)
{
    free(record->losses);
    free(record->times_ms);
    *record = (train_record_t){0};
}
