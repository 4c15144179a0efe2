/* Calls that are given NULL: they are refused in words, and their output is NULL then. The tests
 * that use these have a context `ctx`. */
#ifndef TESSERA_TESTS_REFUSALS_H
#define TESSERA_TESTS_REFUSALS_H

#include "tests/support/support.h"

/* Where an output pointer points before a call. */
extern int refusals_garbage;

/* Fails unless the status is a failure that the context knows and the output is NULL. */
void check_refused(const context_t *ctx, status_t status, const void *out, const char *call);

/* A call that gives nothing but a status. */
#define REFUSES(call)                                                                              \
    do {                                                                                           \
        context_clear_error(ctx);                                                                  \
        check_refused(ctx, call, NULL, #call);                                                     \
    } while (0)

/* One that gives an object in `out`. */
#define GIVES_NULL(type, call)                                                                     \
    do {                                                                                           \
        type out = (type)(void *)&refusals_garbage;                                                \
        context_clear_error(ctx);                                                                  \
        status_t status = call;                                                                    \
        check_refused(ctx, status, out, #call);                                                    \
    } while (0)

#endif
