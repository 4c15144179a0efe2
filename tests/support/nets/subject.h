/* A module with a graph made from a few lines, its frozen form, and inputs: for tests of
 * freezing. */
#ifndef TESSERA_TESTS_SUBJECT_H
#define TESSERA_TESTS_SUBJECT_H

#include "tests/support/support.h"

#include "freeze/freeze.h"

#define SUBJECT_MAX_INPUTS 4

typedef struct subject {
    context_t *ctx;
    module_t *net, *frozen;
    int n_in;
    tensor_t *in[SUBJECT_MAX_INPUTS]; /* random, typed like the parameters of `forward`; integers
                                         and bools are ones */
    text_t text;                      /* the frozen graph for these inputs, with formats */
} subject_t;

/* Makes a module with a method `forward`. Parameters "w=8,3,3,3 v=8" are random; those whose names
 * begin with v are between 0.5 and 1.5, for variances and divisors. inputs: "%x : f32[1,3,9,9]".
 * The body refers to each parameter by its name. */
module_t *subject_net(context_t *ctx, const char *parameters, const char *inputs, const char *body);
void subject_method(context_t *ctx, module_t *net, const char *method, const char *parameters,
                    const char *inputs, const char *body);

subject_t subject_begin(context_t *ctx, const char *parameters, const char *inputs,
                        const char *body);
void subject_end(subject_t *subject);

/* Checks the results of the frozen module: within 1e-5 of one that was frozen without fusing
 * operators or merging shared inputs, and within 1e-4 of the module's. */
void subject_check_values(const subject_t *subject);

/* Counts the occurrences of a part in the text. */
int subject_count(const subject_t *subject, const char *part);
void subject_check_count(const subject_t *subject, const char *part, int wanted);

/* Runs the frozen module. Checks that at most one tensor is reordered to a blocked format, at most
 * n_out are reordered from one, and no weight is. Copies count as reorders. */
void subject_check_borders(const subject_t *subject, uint64_t n_out);

#endif
