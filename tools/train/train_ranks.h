/* tessera train in several processes: mpirun -n 2 tessera train ... */
#ifndef TESSERA_TOOLS_TRAIN_TRAIN_RANKS_H
#define TESSERA_TOOLS_TRAIN_TRAIN_RANKS_H

#include <tessera.h>

/* When one rank ends, mpirun ends the others with SIGTERM. After this call, a process of mpirun
 * then prints a message and exits with EXIT_FAILED. */
void train_expect_end(void);

/* Joins the ranks of mpirun. The caller destroys *out_parallel, which is NULL without mpirun. */
status_t train_join(context_t *ctx, bool bf16_gradients, parallel_t **out_parallel);

#endif
