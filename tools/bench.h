/* Parts of tessera bench: what a row is, measuring in a process of its own, printing. */
#ifndef TESSERA_TOOLS_BENCH_H
#define TESSERA_TOOLS_BENCH_H

#include "tools/session.h"

/* One mode. Counts are sums over `n_runs` inferences in steady state; times are of one. */
typedef struct bench_row {
    run_mode_t mode;
    double median_ms, min_ms, p90_ms, p99_ms;
    double cpu_ms;      /* median of what all threads had of the processors */
    double items_per_s; /* batch of all runs over their time */
    int64_t n_runs;
    uint64_t weight_reorders, activation_reorders, copies;
    uint64_t reorder_bytes;
    double reorder_ms; /* median */
    /* Of a process of its own: context and model, mode, one inference; from the file on. */
    double load_ms, prepare_ms, inference_ms;
    double peak_rss_mb;
    double max_rel_diff; /* NaN: there is no mode dense to compare with */
} bench_row_t;

typedef struct bench {
    const char *spec;
    int64_t batch;
    int n_threads;
    int64_t n_warm_up; /* runs of each mode before those that are measured */
    int n_rows;
    bench_row_t rows[MODE_COUNT];
} bench_t;

/* ---- processes of their own ---- */

/* Runs this program's bench again, with more words, and hands its lines of stdout to take, which
 * gives true for the result. False when there was none, or it failed, of which it has told why. */
typedef bool (*bench_take_t)(const char *line, void *user);
bool bench_run_apart(const char *spec, const session_options_t *options, int n_more,
                     const char *const *more, bench_take_t take, void *user);

/* A frozen file of the model: the model itself, or one that a process makes in a folder for
 * temporary files. Remove it, also when false was given. */
typedef struct bench_frozen {
    const char *path;
    char dir[2048]; /* "": none was made */
    char made[2112];
} bench_frozen_t;
bool bench_freeze_apart(const char *spec, const session_options_t *options,
                        bench_frozen_t *out_frozen);
void bench_remove_frozen(bench_frozen_t *frozen);

/* ---- a process per mode: first run and peak memory ---- */

/* The most memory that this process has had. */
double bench_peak_mb(void);

/* Runs this program again on the model in one mode, from a frozen file for mode frozen. False when
 * that failed; the process has told why. Call before this process has grown: what a process is at
 * exec counts as its peak. */
bool bench_measure_apart(const char *spec, run_mode_t mode, const session_options_t *options,
                         bench_row_t *row);

/* The other side: the first run of a session that is prepared, written to stdout with what came
 * before it. */
bool bench_report_first_run(const char *command, session_t *session);

/* ---- results ---- */

/* Of sorted times: between the two nearest in proportion, so that 0.5 gives the median. */
void bench_sort_times(double *times, int64_t n);
double bench_percentile(const double *times, int64_t n, double part);

/* Three tables, at most 100 columns wide: times, reorders, first runs. */
status_t bench_print_tables(context_t *ctx, const bench_t *bench);

/* One JSON object, on one line. */
status_t bench_print_json(context_t *ctx, const bench_t *bench);

/* A sum over the row's runs, for one inference: "54", or "1.5" where runs differ. */
const char *bench_per_run(const bench_row_t *row, uint64_t sum, char *out_text, size_t capacity);

/* ---- training ---- */

typedef struct bench_train_options {
    session_options_t session;
    const char *modes, *optimizer;   /* modes NULL: all */
    const char *apart;               /* the one mode to measure in this process, or NULL */
    int64_t n_iterations, n_warm_up; /* n_iterations 0: 10 */
    int64_t memory_limit;            /* of mode planned; 0: none */
    bool as_json;
} bench_train_options_t;

/* Measures a training step in each mode, each in a process of its own. Gives the exit code. */
int bench_train(const char *spec, const bench_train_options_t *options);

/* ---- instances ---- */

typedef struct bench_instances_options {
    session_options_t session; /* n_threads: of each instance; 0: cores shared out */
    const char *instances;     /* "N" or "auto" */
    int64_t n_seconds;         /* of a round */
    int64_t n_warm_up;
    bool as_json;
} bench_instances_options_t;

/* Measures one wide instance and those that are asked for, each choice in a process of its own.
 * Gives the exit code. */
int bench_instances(const char *spec, const bench_instances_options_t *options);

/* The other side: runs all instances of a choice, and tells what they did on stdout. */
int bench_instances_here(const char *spec, const bench_instances_options_t *options);

#endif
