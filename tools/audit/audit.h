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
 * The log does not contain the cause of a reorder. It is determined from the two formats:
 *
 *   copy        both formats are the same; only the type may differ
 *   weight      only weights have one of the formats: blocked, with inner blocks in two dimensions
 *               or in dimension a, with a not outermost, or with inner blocks and dimensions out of
 *               order; Winograd and packed kinds; compensation; in 0.x, names with both o and i
 *   activation  otherwise, if one format is row-major: a tensor enters or leaves a chosen format
 *   mismatch    otherwise: two formats that were chosen differ
 *
 * Two reorders are classified wrongly, since the log shows no difference: a 4-D weight from
 * row-major to `acdb` counts as an activation, and a transposed 2-D activation (`ba`) counts as a
 * weight.
 *
 * These functions allocate no memory. Begin with an audit_t of zeros.
 *
 * The folder tools/audit contains tessera audit, and the reader of oneDNN's verbose output. */
#ifndef TESSERA_TOOLS_AUDIT_AUDIT_H
#define TESSERA_TOOLS_AUDIT_AUDIT_H

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
    uint64_t bytes; /* reorders only: elements times (source + destination element size) */
    double ms;
} audit_total_t;

/* Executions of one primitive kind. `reference` counts those by slow reference implementations. */
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
    char version[AUDIT_NAME_MAX]; /* first oneDNN version in the log, for example "2.6.3"; or "" */
    audit_execution_t last;       /* execution of the last line for which audit_line was true */
    uint64_t n_lines;             /* lines read */
    uint64_t n_malformed;         /* lines that begin like an execution but are damaged */
    audit_total_t total;          /* all executions */
    audit_total_t reorders[AUDIT_CAUSE_COUNT];
    int n_kinds;
    audit_kind_t kinds[AUDIT_MAX_KINDS]; /* the last kind, "other", counts the remaining kinds */
    int n_pairs;
    audit_pair_t pairs[AUDIT_MAX_PAIRS]; /* further pairs are counted in the totals only */
} audit_t;

/* Reads one line, with or without newline. Returns true if the line records an execution. */
bool audit_line(audit_t *audit, const char *line);

/* Returns the executions of a kind ("reorder"), or zeros if there are none. */
audit_total_t audit_of(const audit_t *audit, const char *kind);

/* Returns the total of the reorders of all causes. */
audit_total_t audit_reorders(const audit_t *audit);

/* Steady state of a log: from execution `first` on, a sequence of `length` executions is repeated
 * n_times. Earlier executions are set-up, such as packing weights or a first inference. */
typedef struct audit_steady {
    size_t first, length;
    int64_t n_times; /* at least 2 */
} audit_steady_t;

/* Finds the sequence that repeats at the end of a log. Ignores at most AUDIT_MAX_TAIL executions
 * after the last repetition. The repetitions must be at least a quarter of the log. Chooses the
 * sequence whose repetitions cover most of the log and, of several, the shortest. Returns false if
 * nothing repeats, for example after a single inference. scratch has n elements. */
#define AUDIT_MAX_TAIL 32
bool audit_find_steady(size_t n, const audit_execution_t *executions, size_t *scratch,
                       audit_steady_t *out_steady);

/* Returns true for formats that only weights have. kind is "blocked", "wino", ..., or "" for names
 * of 0.x. */
bool audit_is_weight_format(const char *kind, const char *tag);

#endif
