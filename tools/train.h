/* Parts of tessera train: what is asked for, the run, what is told of it. */
#ifndef TESSERA_TOOLS_TRAIN_H
#define TESSERA_TOOLS_TRAIN_H

#include "tools/model.h"
#include "tools/train_step.h"

/* The command line. */
typedef struct train_settings {
    const char *spec;
    const char *data, *labels; /* labels NULL: data is a folder of classes */
    train_recipe_t recipe;
    const char *schedule;
    int64_t batch, n_steps, n_epochs; /* of steps and epochs one is 0 */
    bool shuffle, flip, bf16_gradients;
    int64_t crop_padding, seed, n_threads, save_every;
    const char *resume, *output, *curve; /* files, or NULL */
    bool as_json;
} train_settings_t;

/* What has happened so far. */
typedef struct train_record {
    int64_t first_step; /* of this run; above 0 after --resume */
    int64_t n_steps;    /* at the end */
    int64_t n_batches;  /* of an epoch */
    int64_t n_done;     /* of this run */
    double *losses;     /* of each step that is done */
    double *times_ms;
    bool has_accuracy;
    int64_t n_right, n_seen;    /* in this epoch */
    double accuracy;            /* of the last whole epoch, else of the steps so far */
    int64_t n_items, n_classes; /* of the data */
    double begin_ms, end_ms;
} train_record_t;

/* Trains, and writes checkpoints. What fails is told on stderr, and false given; the record is
 * cleared by the caller either way. */
bool train_run(const train_settings_t *settings, train_record_t *out_record);
void train_record_clear(train_record_t *record);

/* ---- telling ---- */

/* The bar, with loss and accuracy. */
void train_show_progress(const train_record_t *record);

/* Files, losses and times on stdout; or one JSON object, on one line. */
void train_print(const train_settings_t *settings, const train_record_t *record);
status_t train_print_json(context_t *ctx, const train_settings_t *settings,
                          const train_record_t *record);

/* The losses as a curve, an SVG file. */
status_t train_write_curve(context_t *ctx, const train_record_t *record, const char *path);

#endif
