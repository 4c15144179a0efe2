/* Checks that calls with NULL arguments fail with a message and set their output to NULL. Tests
 * that use these macros have a context `ctx`. */
#ifndef TESSERA_TESTS_REFUSALS_H
#define TESSERA_TESTS_REFUSALS_H

#include "tests/support/support.h"

/* An output pointer points here before a call, so that a call that does not set it is detected. */
extern int refusals_garbage;

/* Fails unless the status is a failure with a message in the context, and the output is NULL. */
void check_refused(const context_t *ctx, status_t status, const void *out, const char *call);

/* Checks a call that returns only a status. */
#define REFUSES(call)                                                                              \
    do {                                                                                           \
        context_clear_error(ctx);                                                                  \
        check_refused(ctx, call, NULL, #call);                                                     \
    } while (0)

/* Checks a call that sets `out` to an object. */
#define GIVES_NULL(type, call)                                                                     \
    do {                                                                                           \
        type out = (type)(void *)&refusals_garbage;                                                \
        context_clear_error(ctx);                                                                  \
        status_t status = call;                                                                    \
        check_refused(ctx, status, out, #call);                                                    \
    } while (0)

#endif
