/* Reads oneDNN's verbose output, that of any program, and counts what was executed.
 *
 * Lines of every version are understood, wherever in a line of output they begin:
 *
 *   mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c,num:1,1x3x8x8,0.01  (0.x)
 *   dnnl_verbose,exec,cpu,reorder,jit:uni,undef,src_f32::blocked:abcd:f0 dst_...,,,1x3x8x8,0.01
 *   onednn_verbose,exec,cpu,reorder,...                                                 (2.3 on)
 *   onednn_verbose,primitive,exec,cpu,reorder,...                                       (3.3 on)
 *   onednn_verbose,v1,primitive,exec,cpu,reorder,...,src:f32::blocked:abcd::f0 dst:...  (3.5 on)
 *
 * each possibly with a time stamp before `exec` or `primitive`. Lines about creation are skipped.
 *
 * The log does not say why a reorder ran, so its cause is judged from the two formats:
 *   copy        both sides have one format, whatever their types: nothing changes its place
 *   weight      either side is a form that only weights have: inner blocks in two dimensions or in
 *               dimension a, a not outermost, b blocked with the others out of order, winograd and
 *               packed kinds, compensation; in the names of 0.x, one with both o and i
 *   activation  else, if either side is row-major: a tensor enters or leaves a chosen format
 *   mismatch    else: two chosen formats meet
 * A weight that goes from row-major to a plain permutation that begins with a (4-D to `acdb`)
 * cannot be told from an activation, and counts as one; a 2-D activation that is transposed (`ba`)
 * counts as a weight.
 *
 * No memory is allocated: begin with a zeroed struct. */
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
    uint64_t bytes; /* reorders: elements times the sizes of both types, padding not counted */
    double ms;
} audit_total_t;

/* Executions of one primitive kind; those by a reference implementation once more. */
typedef struct audit_kind {
    char name[AUDIT_NAME_MAX];
    audit_total_t total;
    audit_total_t reference;
} audit_kind_t;

/* Reorders from one format to another: "f32 abcd", "bf16 aBcd16b". */
typedef struct audit_pair {
    char src[AUDIT_FORMAT_MAX];
    char dst[AUDIT_FORMAT_MAX];
    audit_cause_t cause;
    audit_total_t total;
} audit_pair_t;

/* One execution. Those of equal lines, times left out, have equal signatures. */
typedef struct audit_execution {
    uint64_t signature;
    bool is_reorder;
    audit_cause_t cause; /* of a reorder */
    uint64_t bytes;
    double ms;
} audit_execution_t;

typedef struct audit {
    char
        version[AUDIT_NAME_MAX]; /* of oneDNN, as the log names it first: "2.6.3"; "": not at all */
    audit_execution_t last;      /* what audit_line has read, where it gave true */
    uint64_t n_lines;            /* read */
    uint64_t n_malformed;        /* begin like an execution, and do not go on like one */
    audit_total_t total;         /* executions */
    audit_total_t reorders[AUDIT_CAUSE_COUNT];
    int n_kinds;
    audit_kind_t kinds[AUDIT_MAX_KINDS]; /* the last one takes what has no room: "other" */
    int n_pairs;
    audit_pair_t pairs[AUDIT_MAX_PAIRS]; /* those that find no room are in the sums only */
} audit_t;

/* Takes one line, with or without newline; true if it told of an execution. */
bool audit_line(audit_t *audit, const char *line);

/* Executions of a kind ("reorder"); zeros if there were none. */
audit_total_t audit_of(const audit_t *audit, const char *kind);

/* All causes together. */
audit_total_t audit_reorders(const audit_t *audit);

/* The steady state of a log: a sequence of `length` executions that stands n_times behind itself,
 * from execution `first` on. What stands before it is set-up: weights packed, a first inference. */
typedef struct audit_steady {
    size_t first, length;
    int64_t n_times; /* at least 2 */
} audit_steady_t;

/* The sequence that a log ends in, but for AUDIT_MAX_TAIL executions at the most, if its
 * repetitions are a quarter of the log or more; of several the one that covers most, then the
 * shortest. False if there is none: an inference that runs once repeats nothing. scratch: n
 * numbers. */
#define AUDIT_MAX_TAIL 32
bool audit_find_steady(size_t n, const audit_execution_t *executions, size_t *scratch,
                       audit_steady_t *out_steady);

/* The rule on one format; kind is "blocked", "wino", ..., or "" for the names of 0.x. */
bool audit_is_weight_format(const char *kind, const char *tag);

#endif
