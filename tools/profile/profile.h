/* Parts of tessera profile: measurements, sums over nodes, and the four output formats.
 *
 * The folder tools/profile contains tessera profile, its HTML page included. */
#ifndef TESSERA_TOOLS_PROFILE_PROFILE_H
#define TESSERA_TOOLS_PROFILE_PROFILE_H

#include "tools/support/session.h"

/* ---- limits of this machine ---- */

#define PROFILE_N_SIZES 8

/* Measured limits: the rate of f32 multiply-adds in registers, and the read rate for several sizes
 * of the data. A smaller size gets at least the rate of the next larger one, because a short loop
 * on all threads mostly measures their start. */
typedef struct profile_limits {
    double gflops;
    double bytes[PROFILE_N_SIZES], gbs[PROFILE_N_SIZES];
} profile_limits_t;

/* Measures, and raises the limits to the results if these are higher. Begin with zeros. Returns
 * false if out of memory. */
bool profile_measure_limits(int n_threads, profile_limits_t *limits);

/* Returns the least possible time of a node: for its operations or for its bytes, whichever takes
 * longer. */
double profile_limit_ns(const profile_limits_t *limits, const profile_node_t *node);

/* ---- one mode ---- */

typedef struct profile_mode {
    run_mode_t mode;
    session_t session;
    profile_t *profile;
    double run_ms;       /* median of runs without profiling */
    double nodes_ms;     /* sum over nodes of their median times */
    counters_t counters; /* counts in one inference */
} profile_mode_t;

typedef struct profiling {
    const char *spec;
    int64_t batch;
    int n_threads;
    profile_limits_t limits;
    int n_modes; /* number of modes; if 2, the second is compared with the first */
    profile_mode_t modes[2];
} profiling_t;

/* Returns the operator's name, such as "conv2d"; for a conversion outside of operators, "reorder"
 * or "copy". */
const char *profile_name(const profile_node_t *node);
/* Returns ns divided by the time of all nodes; 0 if that time is 0. */
double profile_share(const profile_mode_t *mode, double ns);
/* Returns the time of all reorders and copies, inside and outside operators. */
double profile_reorder_ns(const profile_node_t *node);
/* Returns the index of the slowest node, or -1. */
int profile_slowest(const profile_mode_t *mode);
/* Writes "aBcd8b", "abcd", "scalar" or "none" into FORMAT_TEXT_MAX bytes; returns out_text. */
const char *profile_format(const tensor_info_t *info, char *out_text);

/* ---- sums ---- */

/* The nodes of one operator, or all nodes inside one module. */
typedef struct profile_sum {
    char *name; /* operator, or path of the module; "" for the top module */
    int depth;  /* depth of a module; 0 for the top module */
    int n_nodes, n_reorders;
    double ns, reorder_ns, flops;
} profile_sum_t;

typedef struct profile_sums {
    int n, capacity;
    profile_sum_t *items;
} profile_sums_t;

/* Sums by operator, slowest first; or by module, each module followed by its children. They return
 * false if out of memory; call profile_sums_clear even then. */
bool profile_sum_kinds(const profile_t *profile, profile_sums_t *out_sums);
bool profile_sum_modules(const profile_t *profile, profile_sums_t *out_sums);
void profile_sums_clear(profile_sums_t *sums);

/* ---- output ---- */

status_t profile_print_tables(context_t *ctx, const profiling_t *profiling);
/* Appends a JSON string in quotes that is safe in an HTML script element too. */
void profile_put_string(text_t *text, const char *string);
/* Appends one JSON object on one line; its member "against" is the second mode. Characters that are
 * special in HTML are escaped. */
void profile_put_json(const profiling_t *profiling, text_t *text);
/* Appends trace events in the format of chrome://tracing and Perfetto. */
void profile_put_trace(const profiling_t *profiling, text_t *text);
/* Appends a self-contained HTML page. */
void profile_put_html(const profiling_t *profiling, text_t *text);

#endif
