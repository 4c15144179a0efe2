/* Running methods without computing: operators infer what they give, and give hollow tensors. */
#ifndef TESSERA_DISPATCH_HOLLOW_IMPL_H
#define TESSERA_DISPATCH_HOLLOW_IMPL_H

#include <stdatomic.h>

#include "dispatch/dispatch.h"

typedef struct hollow_run {
    atomic_int looks; /* at sizes of hollow tensors */
    observer_t *observers;
} hollow_run_t;

/* From begin to end the context's operators are not run but inferred, and nothing is counted or
 * kept. Observers of before do not see them, those added between do. */
status_t hollow_begin(context_t *ctx, hollow_run_t *run);
void hollow_end(context_t *ctx, hollow_run_t *run);

#endif
