/* The group of ranks that train together: wrappers for Open MPI that detect when a rank has ended.
 *
 * Blocking MPI calls would not notice that a rank has ended. So operations are started without
 * blocking, and group_wait alternates between testing for completion and testing locks: every rank
 * locks its own file, which the other ranks of the machine hold open. When the process ends, for
 * any reason, the system releases the lock, and another rank can take it. The file is unlinked once
 * all ranks have opened it. */
#ifndef TESSERA_TRAIN_GROUP_IMPL_H
#define TESSERA_TRAIN_GROUP_IMPL_H

#ifdef TESSERA_HAVE_MPI

#include <mpi.h>

#include "tensor/context_impl.h"

typedef struct group {
    MPI_Comm comm;
    int rank, n_ranks;
    bool has_comm;
    bool has_begun;     /* this group called MPI_Init, so it has to call MPI_Finalize */
    bool is_broken;     /* a rank has ended or left; no further exchange is possible */
    int lock;           /* file of this rank; -1: none */
    int *peers;         /* [n_ranks] their files; -1 for this rank and other machines */
    uint64_t looked_ns; /* when the locks were last tested */
} group_t;

/* Joins all ranks. After a failure, group_close is not needed. */
status_t group_open(context_t *ctx, const char *op, group_t *out_group);
/* Waits until all other ranks call it, too, unless the group is broken. */
void group_close(context_t *ctx, group_t *group);
/* Makes this rank appear to have ended. */
void group_leave(group_t *group);

/* `result` is a call of a non-blocking MPI function, written as this argument: MPI_Iallreduce(...).
 * Fails if the function returned an error. */
status_t group_begin(context_t *ctx, const char *op, group_t *group, int result);
/* Waits until the request is done. STATUS_IO if a rank ends first. Messages begin with `op`. */
status_t group_wait(context_t *ctx, const char *op, group_t *group, MPI_Request *request);
/* Fails if the group is broken. */
status_t group_check(context_t *ctx, const char *op, const group_t *group);

/* Replace each number by its sum over the ranks; each word by its maximum over the ranks. */
status_t group_sum(context_t *ctx, const char *op, group_t *group, int n, double *numbers);
status_t group_max(context_t *ctx, const char *op, group_t *group, int n, uint64_t *words);
/* Copies rank 0's bytes to all ranks. */
status_t group_broadcast(context_t *ctx, const char *op, group_t *group, size_t n_bytes,
                         void *bytes);

#endif
#endif
