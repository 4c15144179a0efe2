/* Parts of tessera bench: what a row is, measuring in a process of its own, printing. */
#ifndef TESSERA_TOOLS_BENCH_H
#define TESSERA_TOOLS_BENCH_H

#include "tools/session.h"

/* One mode. Counts are sums over `n_runs` inferences in steady state; times are of one. */
typedef struct bench_row {
    run_mode_t mode;
    double median_ms, min_ms;
    int64_t n_runs;
    uint64_t weight_reorders, activation_reorders, copies;
    uint64_t reorder_bytes;
    double reorder_ms; /* median */
    double first_run_ms, peak_rss_mb;
    double max_rel_diff; /* NaN: there is no mode dense to compare with */
} bench_row_t;

typedef struct bench {
    const char *spec;
    int64_t batch;
    int n_threads;
    int n_rows;
    bench_row_t rows[MODE_COUNT];
} bench_t;

/* ---- a process per mode: first run and peak memory ---- */

/* Runs this program again on the model in one mode, from a frozen file for mode frozen. False when
 * that failed; the process has told why. Call before this process has grown: what a process is at
 * exec counts as its peak. */
bool bench_measure_apart(const char *spec, run_mode_t mode, const session_options_t *options,
                         bench_row_t *row);

/* The other side: one run of a session that is prepared, written to stdout. */
bool bench_report_first_run(const char *command, session_t *session);

/* ---- results ---- */

status_t bench_print_table(context_t *ctx, const bench_t *bench);

/* The object of the CLI contract, on one line. */
status_t bench_print_json(context_t *ctx, const bench_t *bench);

/* A sum over the row's runs, for one inference: "54", or "1.5" where runs differ. */
const char *bench_per_run(const bench_row_t *row, uint64_t sum, char *out_text, size_t capacity);

#endif
