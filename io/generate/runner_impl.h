/* A frozen decoder with its plans, and the slots of its caches. Generators over one model share it;
 * each uses a slot. */
#ifndef TESSERA_IO_GENERATE_RUNNER_IMPL_H
#define TESSERA_IO_GENERATE_RUNNER_IMPL_H

#include "io/generate/decoder.h"
#include "io/generate/sampler_impl.h"
#include "io/text/tokenizer.h"

#define RUNNER_PROMPT 256 /* most rows of a run of `forward` */
#define RUNNER_STEP 16    /* most rows of a run of `step` */

typedef struct runner {
    allocator_t allocator;
    module_t *model;
    tokenizer_t *tokenizer;  /* NULL: the file has none */
    candidate_t *candidates; /* [n_vocabulary] scratch of the sampler */
    int64_t capacity, n_vocabulary, step_bytes;
    int n_slots, n_users; /* slots, and those in use */
    bool *is_used;        /* [n_slots] */
} runner_t;

/* One token of a sequence in a slot. */
typedef struct runner_row {
    int64_t slot, start, token;
} runner_row_t;

/* Opens a file, freezes its model, and builds all plans. Slot 0 is in use. */
status_t runner_create(context_t *ctx, const char *path, const decoder_options_t *options,
                       runner_t **out_runner);

/* Returns a slot that was free, or -1 if none is. runner_leave frees it; the runner ends with its
 * last slot in use. */
int runner_join(runner_t *runner);
void runner_leave(runner_t *runner, int slot);

/* Runs n tokens of the sequence in `slot`, of which `start` have been run. out_logits [1][V] are
 * those of the last one; the caller drops them. */
status_t runner_feed(context_t *ctx, const runner_t *runner, int64_t slot, int64_t n,
                     const int64_t *tokens, int64_t start, tensor_t **out_logits);

/* Runs up to RUNNER_STEP rows in different slots. out_logits [n or more][V]: the caller drops
 * them. */
status_t runner_step(context_t *ctx, const runner_t *runner, int n, const runner_row_t *rows,
                     tensor_t **out_logits);

#endif
