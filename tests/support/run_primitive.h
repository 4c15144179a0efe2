/* Running one primitive of oneDNN on numbers that lie row-major, in whatever formats it wants. */
#ifndef TESSERA_TESTS_RUN_PRIMITIVE_H
#define TESSERA_TESTS_RUN_PRIMITIVE_H

#include "tensor/onednn/onednn.h"

/* A primitive with memory for each of its arguments. Memory of formats with padding is zero there;
 * all of it is garbage before it is put. */
typedef struct run_primitive {
    context_t *ctx;
    onednn_primitive_t *primitive;
    void *bytes[ONEDNN_MAX_ARGUMENTS];
} run_primitive_t;

void run_primitive_begin(context_t *ctx, const onednn_problem_t *problem, run_primitive_t *out_run);
void run_primitive_end(run_primitive_t *run);

/* Elements in row-major order, into the argument and out of it. */
void run_primitive_put(run_primitive_t *run, int argument, const double *values);
void run_primitive_get(const run_primitive_t *run, int argument, double *out_values);

/* The same of an argument whose format may be none of ours, by way of `plain`. */
void run_primitive_pack(run_primitive_t *run, int argument, const tensor_info_t *plain,
                        const double *values);

/* The bytes of an argument as another primitive left them: a workspace. */
void run_primitive_copy(run_primitive_t *run, int argument, const run_primitive_t *from);

void run_primitive_go(run_primitive_t *run);

/* Compares an argument with what is expected, to tolerance times (1 + |expected|). */
void run_primitive_check(const run_primitive_t *run, int argument, const double *expected,
                         double tolerance);

/* Numbers of either sign below 1, others for each seed: multiples of 1/64 that repeat seldom. */
void run_primitive_draw(uint64_t seed, int64_t n, double *out_values);

#endif
