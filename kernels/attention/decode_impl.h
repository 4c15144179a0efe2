/* Attention of a few queries that share keys and values, which are read once and in place: the step
 * of a decoder. Keys are divided into parts, so that threads share a head; decode_join adds the
 * parts. */
#ifndef TESSERA_KERNELS_ATTENTION_DECODE_IMPL_H
#define TESSERA_KERNELS_ATTENTION_DECODE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

#define DECODE_PART 128   /* keys in a part */
#define DECODE_LENGTHS 16 /* lengths of keys and values are multiples of this */
#define DECODE_ROWS 64    /* largest number of queries */

/* Range of keys that a query attends to. */
typedef struct decode_range {
    int64_t begin, end;
} decode_range_t;

/* Part of an attention: queries [n_rows][length], which are scaled, and up to DECODE_PART keys and
 * values. */
typedef struct decode_part {
    int64_t n_rows, n_keys, length, out_length;
    const float *queries;
    bool keys_are_bf16, values_are_bf16;
    const void *keys, *values;
    int64_t key_stride, value_stride; /* in elements */
    const decode_range_t *ranges;     /* [n_rows] relative to the part, within [0, n_keys] */
    float softcap;                    /* 0: none */
    float *scores;                    /* [n_rows][DECODE_PART] scratch */
    float *sums;                      /* [n_rows][out_length] sum of exp(score - largest) * value */
    float *largest, *all; /* [n_rows] largest score, or -inf; sum of exp(score - largest) */
} decode_part_t;

void decode_run(const decode_part_t *part, isa_t isa);

/* Joins the parts of one query: out = sum of all parts / sum of all weights, or 0 if no part has a
 * key. Part i has sums + i * stride, largest[i * step] and all[i * step]. */
typedef struct decode_join {
    int64_t n_parts, n; /* n elements */
    const float *sums, *largest, *all;
    int64_t stride, step;
    float *out;
} decode_join_t;

void decode_join(const decode_join_t *join);

/* row[i] = cap * tanh(row[i] / cap) */
void decode_cap(isa_t isa, int64_t n, float cap, float *row);

typedef struct decode_loops {
    void (*run)(const decode_part_t *part);
    void (*cap)(int64_t n, float cap, float *row);
} decode_loops_t;
ISA_EXTERN(const decode_loops_t, decode);

#endif
