/* Parts of tessera profile: what is measured, sums over nodes, and the four ways to show it. */
#ifndef TESSERA_TOOLS_PROFILE_H
#define TESSERA_TOOLS_PROFILE_H

#include "tools/session.h"

/* ---- limits of this machine ---- */

#define PROFILE_N_SIZES 8

/* Measured: multiplications and additions in registers, f32; and how fast so many bytes are read
 * over and over, from caches where they fit into them. Fewer bytes are never slower than more:
 * small loops on all threads measure how threads begin. */
typedef struct profile_limits {
    double gflops;
    double bytes[PROFILE_N_SIZES], gbs[PROFILE_N_SIZES];
} profile_limits_t;

/* Raises limits, zeroed at first, to what is measured now. False if there is no memory for it. */
bool profile_measure_limits(int n_threads, profile_limits_t *limits);

/* The least time that a node can take: that of its products or of its bytes, whichever is more. */
double profile_limit_ns(const profile_limits_t *limits, const profile_node_t *node);

/* ---- one mode ---- */

typedef struct profile_mode {
    run_mode_t mode;
    session_t session;
    profile_t *profile;
    double run_ms;       /* median of runs that nobody watches */
    double nodes_ms;     /* sum over nodes of their medians */
    counters_t counters; /* of one inference */
} profile_mode_t;

typedef struct profiling {
    const char *spec;
    int64_t batch;
    int n_threads;
    profile_limits_t limits;
    int n_modes; /* the second is what the first is held against */
    profile_mode_t modes[2];
} profiling_t;

/* "conv2d"; "reorder" or "copy" for one that stands alone. */
const char *profile_name(const profile_node_t *node);
/* Of all nodes' time; 0 where that is 0. */
double profile_share(const profile_mode_t *mode, double ns);
/* Of all reorders and copies, inside of operators or alone. */
double profile_reorder_ns(const profile_node_t *node);
/* The index of the node that takes longest, or -1. */
int profile_slowest(const profile_mode_t *mode);
/* "aBcd8b", "abcd", "scalar", "none"; FORMAT_TEXT_MAX bytes. Gives out_text. */
const char *profile_format(const tensor_info_t *info, char *out_text);

/* ---- sums ---- */

/* Nodes of one operator, or below one module. */
typedef struct profile_sum {
    char *name; /* operator; or path of the module, "" for the root */
    int depth;  /* of a module: 0 for the root */
    int n_nodes, n_reorders;
    double ns, reorder_ns, flops;
} profile_sum_t;

typedef struct profile_sums {
    int n, capacity;
    profile_sum_t *items;
} profile_sums_t;

/* By operator, the most time first; by module, each followed by those below it. False for want of
 * memory; either is to be cleared. */
bool profile_sum_kinds(const profile_t *profile, profile_sums_t *out_sums);
bool profile_sum_modules(const profile_t *profile, profile_sums_t *out_sums);
void profile_sums_clear(profile_sums_t *sums);

/* ---- showing ---- */

status_t profile_print_tables(context_t *ctx, const profiling_t *profiling);
/* Quoted as JSON has it. */
void profile_put_string(text_t *text, const char *string);
/* One object, on one line; "against" in it is the second mode. Letters that mean something in HTML
 * are escaped. */
void profile_put_json(const profiling_t *profiling, text_t *text);
/* Trace events as chrome://tracing and Perfetto read them. */
void profile_put_trace(const profiling_t *profiling, text_t *text);
/* A page that needs nothing else. */
void profile_put_html(const profiling_t *profiling, text_t *text);

#endif
