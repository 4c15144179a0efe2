/* Runs one oneDNN primitive on row-major numbers. The primitive may choose its memory formats. */
#ifndef TESSERA_TESTS_RUN_PRIMITIVE_H
#define TESSERA_TESTS_RUN_PRIMITIVE_H

#include "tensor/onednn/onednn.h"

/* A primitive with memory for each argument. Padding of formats is zero; other bytes are garbage
 * until run_primitive_put. */
typedef struct run_primitive {
    context_t *ctx;
    onednn_primitive_t *primitive;
    void *bytes[ONEDNN_MAX_ARGUMENTS];
} run_primitive_t;

void run_primitive_begin(context_t *ctx, const onednn_problem_t *problem, run_primitive_t *out_run);
void run_primitive_end(run_primitive_t *run);

/* Copy elements in row-major order to and from an argument. */
void run_primitive_put(run_primitive_t *run, int argument, const double *values);
void run_primitive_get(const run_primitive_t *run, int argument, double *out_values);

/* Do the same if Tessera cannot describe the argument's format. `plain` describes the row-major
 * elements. */
void run_primitive_pack(run_primitive_t *run, int argument, const tensor_info_t *plain,
                        const double *values);

/* Copies the bytes of an argument from another primitive, for workspaces. */
void run_primitive_copy(run_primitive_t *run, int argument, const run_primitive_t *from);

void run_primitive_go(run_primitive_t *run);

/* Compares an argument with the expected values; tolerance is relative to 1 + |expected|. */
void run_primitive_check(const run_primitive_t *run, int argument, const double *expected,
                         double tolerance);

/* Fills with numbers between -1 and 1 that depend on the seed: multiples of 1/64 that seldom
 * repeat. */
void run_primitive_draw(uint64_t seed, int64_t n, double *out_values);

#endif
