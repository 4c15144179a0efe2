/* The process's own worker threads: they help callers with shared loops, and nobody waits for one
 * that does not run. */
#ifndef TESSERA_TENSOR_POOL_IMPL_H
#define TESSERA_TENSOR_POOL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* A part of a loop; no two calls with the same member run at the same time. */
typedef void (*pool_body_t)(void *user, int64_t first, int64_t last, int member);

/* Calls body for ranges that together are [0, n), each index once. The calling thread is member 0;
 * n is not 0. Workers that are free and awake in time take ranges, as members below n_members; the
 * caller takes all others, and waits at the end only for ranges that a worker has begun. Each
 * member begins with its own part of [0, n), the same one in each run, and then takes what others
 * have not begun. A call from inside of a body runs all of it as member 0. Workers have the
 * caller's floating-point mode while they help it. */
void pool_run(int n_members, int64_t n, pool_body_t body, void *user);

/* Whether the calling thread is inside of a body. */
bool pool_is_inside(void);

/* Has idle workers sleep at once, rather than spin for the next loop: other threads are about to
 * need the cores. The next loop wakes them. */
void pool_rest(void);

/* How many workers there are; for tests. */
int pool_workers(void);

/* How many processors the pool may use, callers included; 0: those of the process. For tests. */
void pool_set_processors(int n);

/* Around fork: the child has no workers, and makes its own with its first loop. */
void pool_before_fork(void);
void pool_after_fork(bool is_child);

#endif
