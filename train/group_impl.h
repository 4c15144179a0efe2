/* The ranks of a training as a group: Open MPI, waiting, and how a rank sees that another has
 * ended.
 *
 * Every rank locks a file of its own, which the others on the machine hold open: the system gives
 * the lock back when the process ends, whatever ended it, and the others can take it then. The file
 * has no name any more once all have it open. Nobody waits in MPI itself, where the end of a rank
 * is not seen: operations are begun, and group_wait asks for their end and for the locks by turns.
 */
#ifndef TESSERA_TRAIN_GROUP_IMPL_H
#define TESSERA_TRAIN_GROUP_IMPL_H

#ifdef TESSERA_HAVE_MPI

#include <mpi.h>

#include "tensor/context_impl.h"

typedef struct group {
    MPI_Comm comm;
    int rank, n_ranks;
    bool has_comm;
    bool has_begun;     /* MPI: it is ended with the group */
    bool is_broken;     /* a rank has ended or left: nothing can be exchanged any more */
    int lock;           /* of this rank; -1: none */
    int *peers;         /* [n_ranks]: their files, -1 for this rank and those on other machines */
    uint64_t looked_ns; /* when peers were looked at last */
} group_t;

/* Joins all ranks. On failure there is nothing to be closed. */
status_t group_open(context_t *ctx, const char *op, group_t *out_group);
/* Waits for the other ranks to do the same, unless the group is broken. */
void group_close(context_t *ctx, group_t *group);
/* Lets the others see this rank as one that has ended. */
void group_leave(group_t *group);

/* Begins an operation that gives a request; MPI_Iallreduce(...) gives the result. */
status_t group_begin(context_t *ctx, const char *op, group_t *group, int result);
/* Until the request is done; IO where a rank ends first. `op` begins messages. */
status_t group_wait(context_t *ctx, const char *op, group_t *group, MPI_Request *request);
/* Refuses a group that is broken. */
status_t group_check(context_t *ctx, const char *op, const group_t *group);

/* Numbers become their sum over the ranks; words their largest. */
status_t group_sum(context_t *ctx, const char *op, group_t *group, int n, double *numbers);
status_t group_max(context_t *ctx, const char *op, group_t *group, int n, uint64_t *words);
/* Bytes become those of rank 0. */
status_t group_broadcast(context_t *ctx, const char *op, group_t *group, size_t n_bytes,
                         void *bytes);

#endif
#endif
