/* The process's pool of worker threads, which run parts of callers' loops. A caller never waits for
 * a worker that gets no processor from the system, unless this worker has already begun a range. */
#ifndef TESSERA_TENSOR_THREADS_POOL_IMPL_H
#define TESSERA_TENSOR_THREADS_POOL_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* Runs the iterations first to last - 1 of a loop. No two calls with the same member run at the
 * same time. */
typedef void (*pool_body_t)(void *user, int64_t first, int64_t last, int member);

/* Calls body for ranges that cover [0, n), each index once; n > 0. The calling thread is member 0;
 * free workers are members 1 to n_members - 1. Each member begins with its own part of [0, n),
 * which is the same in each loop with these numbers, and then takes ranges that no other member has
 * begun. So the caller waits only for ranges that a worker has begun. If a body calls pool_run,
 * that call runs all of [0, n) as member 0. Workers use the caller's floating-point mode. */
void pool_run(int n_members, int64_t n, pool_body_t body, void *user);

/* True if the calling thread is inside of a body. */
bool pool_is_inside(void);

/* Makes idle workers sleep at once instead of spinning. Call it when other threads will soon need
 * the cores. The next loop wakes the workers. */
void pool_rest(void);

/* The number of workers; for tests. */
int pool_workers(void);

/* Sets how many processors the pool may use, including callers; 0: those of the process. For
 * tests. */
void pool_set_processors(int n);

/* Called around fork. The child has no workers; its first loop starts new ones. */
void pool_before_fork(void);
void pool_after_fork(bool is_child);

#endif
