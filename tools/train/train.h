/* Parts of tessera train: options, training, output.
 *
 * The folder tools/train contains tessera train; bench measures its steps, too. */
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_H
#define TESSERA_TOOLS_TRAIN_TRAIN_H

#include "tools/support/model.h"
#include "tools/train/train_step.h"

/* The command line. */
typedef struct train_settings {
    const char *spec;
    const char *data, *labels; /* labels NULL: data is a folder of classes */
    train_recipe_t recipe;
    const char *schedule;
    int64_t batch, n_steps, n_epochs; /* one of n_steps and n_epochs is 0 */
    bool shuffle, flip, bf16_gradients;
    int64_t crop_padding, seed, n_threads, save_every;
    const char *resume, *output, *curve; /* files, or NULL */
    bool as_json;
} train_settings_t;

/* State of a run. */
typedef struct train_record {
    int64_t first_step; /* first step of this run; above 0 after --resume */
    int64_t n_steps;    /* total number of steps */
    int64_t n_batches;  /* per epoch */
    int64_t n_done;     /* steps done in this run */
    double *losses;     /* one per step done */
    double *times_ms;
    bool has_accuracy;
    int64_t n_right, n_seen;    /* in the current epoch */
    double accuracy;            /* in the last complete epoch; during the first epoch, so far */
    int64_t n_items, n_classes; /* size of the data */
    double begin_ms, end_ms;
} train_record_t;

/* Trains, and writes checkpoints. Returns false after printing an error on stderr. The caller
 * clears the record in either case. */
bool train_run(const train_settings_t *settings, train_record_t *out_record);
void train_record_clear(train_record_t *record);

/* ---- output ---- */

/* Shows the progress bar with loss and accuracy. */
void train_show_progress(const train_record_t *record);

/* Prints files, losses and times on stdout, as text or as one JSON object on one line. */
void train_print(const train_settings_t *settings, const train_record_t *record);
status_t train_print_json(context_t *ctx, const train_settings_t *settings,
                          const train_record_t *record);

/* Writes the losses as a curve, in an SVG file. */
status_t train_write_curve(context_t *ctx, const train_record_t *record, const char *path);

#endif
