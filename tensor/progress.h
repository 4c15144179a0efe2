/* Progress: what a long call is doing, told while it runs.
 *
 * Importing, passes, plans, measuring and saving tell each step; who listens gets it, in the thread
 * of the context. Without a listener telling costs a look. */
#ifndef TESSERA_TENSOR_PROGRESS_H
#define TESSERA_TENSOR_PROGRESS_H

#include "tensor/context.h"

TESSERA_BEGIN

typedef struct progress {
    const char *what; /* "import", "pass fold_bn"; lives for the call */
    int64_t done;     /* of `total` steps */
    int64_t total;    /* 0: not known */
} progress_t;

typedef void (*progress_sink_t)(void *user, const progress_t *progress);

/* The context tells this sink from now on, and no other; NULL: nobody. */
void progress_listen(context_t *ctx, progress_sink_t sink, void *user) TESSERA_API(progress_listen);

/* How library code, and C methods of modules, tell. Nothing happens where nobody listens. */
void progress_tell(context_t *ctx, const char *what, int64_t done, int64_t total)
    TESSERA_API(progress_tell);

TESSERA_END

#endif
