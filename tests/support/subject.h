/* A module with a graph made from a few lines, frozen, and what it is run on: for tests of what
 * freezing does to it. */
#ifndef TESSERA_TESTS_SUBJECT_H
#define TESSERA_TESTS_SUBJECT_H

#include "tests/support/support.h"

#include "freeze/freeze.h"

#define SUBJECT_MAX_INPUTS 4

typedef struct subject {
    context_t *ctx;
    module_t *net, *frozen;
    int n_in;
    tensor_t *in[SUBJECT_MAX_INPUTS]; /* random, as the parameters of `forward` say; ones for
                                         integers and bools */
    text_t text;                      /* of the frozen graph that runs on them, formats in it */
} subject_t;

/* Parameters "w=8,3,3,3 v=8" are random; those whose name begins with v are between 0.5 and 1.5, as
 * variances and divisors are. inputs: "%x : f32[1,3,9,9]". In the body each parameter is a value of
 * its name. */
module_t *subject_net(context_t *ctx, const char *parameters, const char *inputs, const char *body);
void subject_method(context_t *ctx, module_t *net, const char *method, const char *parameters,
                    const char *inputs, const char *body);

subject_t subject_begin(context_t *ctx, const char *parameters, const char *inputs,
                        const char *body);
void subject_end(subject_t *subject);

/* Fused and merged, the results are within 1e-5 of those without, and near what the module itself
 * gives. */
void subject_check_values(const subject_t *subject);

/* A part stands that often in the text. */
int subject_count(const subject_t *subject, const char *part);
void subject_check_count(const subject_t *subject, const char *part, int wanted);

/* At most one tensor is reordered into blocks, at most n_out out of them, and none on the way; no
 * weight is. Our own copies count. */
void subject_check_borders(const subject_t *subject, uint64_t n_out);

#endif
