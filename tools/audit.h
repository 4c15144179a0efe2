/* Reads oneDNN's verbose output of any program and counts the executions in it.
 *
 * A record may begin anywhere in a line of output. Formats of all versions are recognised:
 *
 *   mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,num:1,1x3x8x8,0.01  (0.x)
 *   dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_...,,,1x3x8x8,0.01
 *   onednn_verbose,exec,cpu,reorder,...                                                 (2.3 on)
 *   onednn_verbose,primitive,exec,cpu,reorder,...                                       (3.3 on)
 *   onednn_verbose,v1,primitive,exec,cpu,reorder,...,src:f32::blocked:abcd::f0 dst:...  (3.5 on)
 *
 * A time stamp may precede `exec` or `primitive`. Lines about creation are skipped.
 *
 * The log does not say why a reorder ran, so the two formats determine its cause:
 *   copy        both sides have the same format; only the type may differ
 *   weight      a side has a format that only weights use: inner blocks in two dimensions or in
 *               dimension a, a not outermost, b blocked and the others out of order, winograd and
 *               packed kinds, compensation; for names of 0.x, both o and i
 *   activation  otherwise, if a side is row-major: a tensor enters or leaves a chosen format
 *   mismatch    otherwise: two chosen formats meet
 * Two limits: a 4-D weight that goes from row-major to `acdb` counts as an activation, since the
 * log shows no difference; a transposed 2-D activation (`ba`) counts as a weight.
 *
 * No memory is allocated: start with a zeroed struct. */
#ifndef TESSERA_TOOLS_AUDIT_H
#define TESSERA_TOOLS_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUDIT_MAX_KINDS 64
#define AUDIT_MAX_PAIRS 256
#define AUDIT_NAME_MAX 48
#define AUDIT_FORMAT_MAX 96

typedef enum audit_cause {
    AUDIT_COPY,
    AUDIT_WEIGHT,
    AUDIT_ACTIVATION,
    AUDIT_MISMATCH,
    AUDIT_CAUSE_COUNT
} audit_cause_t;

const char *audit_cause_name(audit_cause_t cause);

typedef struct audit_total {
    uint64_t n;
    uint64_t bytes; /* reorders only: elements times the sizes of both types, without padding */
    double ms;
} audit_total_t;

/* Executions of one primitive kind; `reference` counts those of reference implementations. */
typedef struct audit_kind {
    char name[AUDIT_NAME_MAX];
    audit_total_t total;
    audit_total_t reference;
} audit_kind_t;

/* Reorders between two formats, e.g. "f32 abcd" and "bf16 aBcd16b". */
typedef struct audit_pair {
    char src[AUDIT_FORMAT_MAX];
    char dst[AUDIT_FORMAT_MAX];
    audit_cause_t cause;
    audit_total_t total;
} audit_pair_t;

/* One execution. Two lines that differ only in their times have the same signature. */
typedef struct audit_execution {
    uint64_t signature;
    bool is_reorder;
    audit_cause_t cause; /* reorders only */
    uint64_t bytes;
    double ms;
} audit_execution_t;

typedef struct audit {
    char version[AUDIT_NAME_MAX]; /* first oneDNN version in the log, "2.6.3", or "" */
    audit_execution_t last;       /* execution read by the last audit_line that returned true */
    uint64_t n_lines;             /* lines read */
    uint64_t n_malformed;         /* lines that begin like an execution but are cut or garbled */
    audit_total_t total;          /* all executions */
    audit_total_t reorders[AUDIT_CAUSE_COUNT];
    int n_kinds;
    audit_kind_t kinds[AUDIT_MAX_KINDS]; /* the last kind, "other", counts all further ones */
    int n_pairs;
    audit_pair_t pairs[AUDIT_MAX_PAIRS]; /* further pairs count in the sums only */
} audit_t;

/* Reads one line, with or without newline. Returns true if it records an execution. */
bool audit_line(audit_t *audit, const char *line);

/* Returns the executions of a kind ("reorder"), or zeros if there are none. */
audit_total_t audit_of(const audit_t *audit, const char *kind);

/* Returns the sum over all causes. */
audit_total_t audit_reorders(const audit_t *audit);

/* Steady state of a log: from execution `first` on, the same `length` executions run n_times in a
 * row. Earlier executions are set-up, such as packing weights or a first inference. */
typedef struct audit_steady {
    size_t first, length;
    int64_t n_times; /* at least 2 */
} audit_steady_t;

/* Finds the repeated sequence at the end of a log. At most AUDIT_MAX_TAIL executions after the last
 * repetition are ignored, and the repetitions must cover a quarter of the log. The sequence that
 * covers most wins, then the shortest. Returns false if nothing repeats, e.g. after a single
 * inference. scratch holds n numbers. */
#define AUDIT_MAX_TAIL 32
bool audit_find_steady(size_t n, const audit_execution_t *executions, size_t *scratch,
                       audit_steady_t *out_steady);

/* Returns true for formats that only weights use. kind is "blocked", "wino", ..., or "" for names
 * of 0.x. */
bool audit_is_weight_format(const char *kind, const char *tag);

#endif
