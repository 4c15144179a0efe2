/* Moves threads of the pool between processors. If other programs occupy processors, a worker may
 * share one with its caller although another one has room, or may get none. The library does not
 * move threads of the host program. A change of a worker's affinity by another program is lost if
 * it happens while the worker is moved, which takes microseconds. Except on Linux, these functions
 * do nothing. */
#ifndef TESSERA_TENSOR_THREADS_PROCESSOR_IMPL_H
#define TESSERA_TENSOR_THREADS_PROCESSOR_IMPL_H

#include <stdbool.h>
#include <stdint.h>

/* A thread, as the system numbers it; id 0: none. */
typedef struct processor_thread {
    int id;
    int clock; /* measures the CPU time that the thread has used */
} processor_thread_t;

/* The calling thread. */
processor_thread_t processor_thread(void);

/* The processor of the calling thread; -1: unknown. */
int processor_current(void);

/* Moves a thread from this processor to another one that its affinity allows, if there is one. The
 * affinity is then as before. */
void processor_push(processor_thread_t thread, int processor);

/* Moves another thread to this processor, if its affinity allows it. The affinity is then as
 * before. */
void processor_pull(processor_thread_t thread, int processor);

/* The CPU time that a thread has used, in ns; 0: unknown. It does not grow while the thread waits
 * for a processor. */
uint64_t processor_time(processor_thread_t thread);

#endif
