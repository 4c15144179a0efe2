/* The group of ranks that train together: wrappers for Open MPI that detect when a rank has ended.
 *
 * Blocking MPI calls would not notice that a rank has ended. So operations are started without
 * blocking, and group_wait alternately tests for completion and tests locks. Every rank locks a
 * file of its own, which the other ranks on the same machine hold open. When a rank's process ends,
 * for any reason, the system releases its lock; another rank that can take the lock knows that the
 * first has ended. The file is unlinked once all ranks have opened it. */
#ifndef TESSERA_TRAIN_GROUP_IMPL_H
#define TESSERA_TRAIN_GROUP_IMPL_H

#ifdef TESSERA_HAVE_MPI

#include <mpi.h>

#include "tensor/context_impl.h"

typedef struct group {
    MPI_Comm comm;
    int rank, n_ranks;
    bool has_comm;
    bool has_begun;     /* group_open called MPI_Init, so group_close calls MPI_Finalize */
    bool is_broken;     /* a rank has ended or left; no further exchange is possible */
    int lock;           /* this rank's file, which it has locked; -1: none */
    int *peers;         /* [n_ranks] files of other ranks; -1: this rank or another machine */
    uint64_t looked_ns; /* when the locks were last tested */
} group_t;

/* Joins all ranks. After a failure, group_close is not needed. */
status_t group_open(context_t *ctx, const char *op, group_t *out_group);
/* Waits until all other ranks call it, too, unless the group is broken. */
void group_close(context_t *ctx, group_t *group);
/* Releases this rank's lock, so that the other ranks treat it as ended. */
void group_leave(group_t *group);

/* Fails if `result` is an MPI error. Callers write the call that starts an operation as this
 * argument: group_begin(ctx, op, group, MPI_Iallreduce(...)). */
status_t group_begin(context_t *ctx, const char *op, group_t *group, int result);
/* Waits until the request is done. Fails with STATUS_IO if a rank ends first. In this file, error
 * messages begin with `op`. */
status_t group_wait(context_t *ctx, const char *op, group_t *group, MPI_Request *request);
/* Fails if a rank has ended or left. */
status_t group_check(context_t *ctx, const char *op, const group_t *group);

/* group_sum replaces each number by its sum over the ranks, group_max each word by its maximum. */
status_t group_sum(context_t *ctx, const char *op, group_t *group, int n, double *numbers);
status_t group_max(context_t *ctx, const char *op, group_t *group, int n, uint64_t *words);
/* Copies rank 0's bytes to all ranks. */
status_t group_broadcast(context_t *ctx, const char *op, group_t *group, size_t n_bytes,
                         void *bytes);

#endif
#endif
