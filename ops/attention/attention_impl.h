/* Declarations shared by attention, its kernels and its gradient. */
#ifndef TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H
#define TESSERA_OPS_ATTENTION_ATTENTION_IMPL_H

#include "dispatch/prepared_impl.h"
#include "ops/attention/attention.h"
#include "ops/gradient_impl.h"

/* Operand index of query; key, value, the mask, lengths and slots follow. */
#define ATTENTION_QUERY 0
#define ATTENTION_OPERANDS 6
#define ATTENTION_TENSORS 4 /* query, key, value, mask */

/* The attribute `scale`, or its default 1 / sqrt(n) for queries and keys of n elements. */
double attention_scale(const attention_attrs_t *attrs, int64_t n);

extern const gradient_t attention_gradient;

/* Operands and result of one head: query [L][E], key [S][E], value [S][V], mask [L][S] and out
 * [L][V]. */
typedef struct attention_head {
    const char *in[ATTENTION_TENSORS]; /* NULL: no mask */
    char *out;
    int64_t row[ATTENTION_TENSORS], out_row; /* strides of rows, in elements */
    int64_t mask_step;                       /* stride between elements of a mask row */
    int64_t n_keys;                          /* valid keys */
    int64_t first; /* with is_causal, the first query attends to keys 0 to `first` */
} attention_head_t;

typedef struct attention_problem {
    const prepared_t *prepared;
    void *const *in;
    void *const *out;
    int64_t n_heads; /* product of all batch dimensions */
    int64_t n_queries, n_keys, length, out_length;
    double scale;
} attention_problem_t;

/* Sets the formats of operands and result: rows are contiguous, heads and rows may have any
 * strides. */
status_t attention_accept(const op_call_t *call, prepared_t *prepared);

/* Describes a run; INVALID_ARGUMENT if a length is out of range. */
status_t attention_describe(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, attention_problem_t *out_problem);
attention_head_t attention_find_head(const attention_problem_t *problem, int64_t number);

/* Sets the range of keys that query l of a head attends to, without the mask. */
void attention_seen(const attention_problem_t *problem, const attention_head_t *head, int64_t l,
                    int64_t *out_begin, int64_t *out_end);

extern const kernel_t attention_stream, attention_rows;

#endif
