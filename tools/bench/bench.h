/* Parts of tessera bench: result rows, measuring in separate processes, printing.
 *
 * The folder tools/bench contains tessera bench. */
#ifndef TESSERA_TOOLS_BENCH_BENCH_H
#define TESSERA_TOOLS_BENCH_BENCH_H

#include "tools/support/session.h"

/* Results of one mode. Counts are totals of `n_runs` steady inferences; times are per inference. */
typedef struct bench_row {
    run_mode_t mode;
    double median_ms, min_ms, p90_ms, p99_ms;
    double cpu_ms;      /* median CPU time of all threads */
    double items_per_s; /* batch * n_runs / total time */
    int64_t n_runs;
    uint64_t weight_reorders, activation_reorders, copies;
    uint64_t reorder_bytes;
    double reorder_ms; /* median */
    /* In a separate process: loading context and model, preparing the mode, one inference. */
    double load_ms, prepare_ms, inference_ms;
    double peak_rss_mb;
    double max_rel_diff; /* largest difference from mode dense; NaN: dense was not available */
} bench_row_t;

typedef struct bench {
    const char *spec;
    int64_t batch;
    int n_threads;
    int64_t n_warm_up; /* warm-up runs of each mode before measuring */
    int n_rows;
    bench_row_t rows[MODE_COUNT];
} bench_t;

/* ---- separate processes ---- */

/* Runs `tessera bench` in a separate process, with additional arguments. Passes each line of its
 * stdout to `take`, which returns true for the result. Returns false if the process failed or
 * printed no result; the reason has then been printed. */
typedef bool (*bench_take_t)(const char *line, void *user);
bool bench_run_apart(const char *spec, const session_options_t *options, int n_more,
                     const char *const *more, bench_take_t take, void *user);

/* A frozen file of the model: the operand itself if it is one, else a temporary file that a
 * separate process makes. Call bench_remove_frozen also after a failure. */
typedef struct bench_frozen {
    const char *path;
    char dir[2048]; /* temporary folder, or "" */
    char made[2112];
} bench_frozen_t;
bool bench_freeze_apart(const char *spec, const session_options_t *options,
                        bench_frozen_t *out_frozen);
void bench_remove_frozen(bench_frozen_t *frozen);

/* ---- one process per mode: first run and peak memory ---- */

/* Returns the peak memory of this process. */
double bench_peak_mb(void);

/* Measures the model in one mode in a separate process; mode frozen loads a frozen file. Returns
 * false after a failure, which that process has reported. Call it while this process is small,
 * because the peak memory of the other process includes the size of this process at that time. */
bool bench_measure_apart(const char *spec, run_mode_t mode, const session_options_t *options,
                         bench_row_t *row);

/* Called in that process: runs the first inference of a prepared session, and prints the times on
 * stdout. */
bool bench_report_first_run(const char *command, session_t *session);

/* ---- results ---- */

/* bench_percentile interpolates in times that bench_sort_times has sorted. part 0.5: the median. */
void bench_sort_times(double *times, int64_t n);
double bench_percentile(const double *times, int64_t n, double part);

/* Prints three tables of at most 100 columns: times, reorders, first runs. */
status_t bench_print_tables(context_t *ctx, const bench_t *bench);

/* Prints one JSON object on one line. */
status_t bench_print_json(context_t *ctx, const bench_t *bench);

/* Formats a total of the row's runs as a count per inference: "54", or "1.5" if runs differ. */
const char *bench_per_run(const bench_row_t *row, uint64_t sum, char *out_text, size_t capacity);

/* ---- training ---- */

typedef struct bench_train_options {
    session_options_t session;
    const char *modes, *optimizer;   /* modes NULL: all */
    const char *apart;               /* the mode that this process measures, or NULL */
    int64_t n_iterations, n_warm_up; /* n_iterations 0: 10 */
    int64_t memory_limit;            /* memory limit for mode planned; 0: none */
    bool as_json;
} bench_train_options_t;

/* Measures a training step in each mode, each in a separate process. Returns the exit code. */
int bench_train(const char *spec, const bench_train_options_t *options);

/* ---- language models ---- */

typedef struct bench_generate_options {
    int64_t n_prompt, n_decode; /* tokens of each sequence */
    int64_t n_sequences;        /* at once */
    int64_t n_threads;          /* 0: the default */
    bool as_json;
} bench_generate_options_t;

/* Measures a GGUF file: a prompt, then single tokens. Returns the exit code. */
int bench_generate(const char *spec, const bench_generate_options_t *options);

/* ---- instances ---- */

typedef struct bench_instances_options {
    session_options_t session; /* n_threads per instance; 0: cores divided evenly */
    const char *instances;     /* "N" or "auto" */
    int64_t n_seconds;         /* duration of a round */
    int64_t n_warm_up;
    bool as_json;
} bench_instances_options_t;

/* Measures one instance on all cores and the requested numbers of instances, each choice in a
 * separate process. Returns the exit code. */
int bench_instances(const char *spec, const bench_instances_options_t *options);

/* Called in such a process: measures the instances of one choice, and prints the result. */
int bench_instances_here(const char *spec, const bench_instances_options_t *options);

#endif
