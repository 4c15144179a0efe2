/* tessera train in several processes: mpirun -n 2 tessera train ... */
#ifndef TESSERA_TOOLS_TRAIN_RANKS_H
#define TESSERA_TOOLS_TRAIN_RANKS_H

#include <tessera.h>

/* In a process that mpirun has started SIGTERM, by which it ends the ranks where one has ended,
 * ends it with a message and EXIT_FAILED. */
void train_expect_end(void);

/* The ranks that mpirun has started, to be destroyed by the caller; NULL where it has not. */
status_t train_join(context_t *ctx, bool bf16_gradients, parallel_t **out_parallel);

#endif
