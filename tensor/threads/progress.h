/* Progress: reports the steps of long calls while they run.
 *
 * Importing a model, optimising and compiling a graph, measuring kernels and saving report each of
 * their steps to a listener, which is called in the context's thread. Without a listener a report
 * costs only a test for NULL. */
#ifndef TESSERA_TENSOR_THREADS_PROGRESS_H
#define TESSERA_TENSOR_THREADS_PROGRESS_H

#include "tensor/context.h"

typedef struct progress {
    const char *what; /* "import", "pass fold_batch_norm"; valid during the call */
    int64_t done;     /* finished steps */
    int64_t total;    /* 0: unknown */
} progress_t;

typedef void (*progress_sink_t)(void *user, const progress_t *progress);

/* Sets the context's only listener; NULL removes it. */
void progress_listen(context_t *ctx, progress_sink_t sink, void *user) TESSERA_API(progress_listen);

/* Reports a step; used by library code and C methods of modules. Does nothing without a
 * listener. */
void progress_tell(context_t *ctx, const char *what, int64_t done, int64_t total)
    TESSERA_API(progress_tell);

#endif
