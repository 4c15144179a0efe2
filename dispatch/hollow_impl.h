/* Runs methods without computing: operators only infer their outputs and return placeholder
 * tensors, which have metadata but no elements. */
#ifndef TESSERA_DISPATCH_HOLLOW_IMPL_H
#define TESSERA_DISPATCH_HOLLOW_IMPL_H

#include <stdatomic.h>

#include "dispatch/dispatch.h"

typedef struct hollow_run {
    atomic_int looks; /* number of accesses to sizes of placeholder tensors */
    observer_t *observers;
} hollow_run_t;

/* Between begin and end, dispatch only infers dtype and sizes of results instead of running
 * operators, and nothing is counted or cached. Only observers that are added after hollow_begin are
 * called. */
status_t hollow_begin(context_t *ctx, hollow_run_t *run);
void hollow_end(context_t *ctx, hollow_run_t *run);

#endif
