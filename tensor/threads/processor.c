#ifdef __linux__
#define _GNU_SOURCE /* sched_getcpu, processor sets */
#endif

#include "tensor/threads/processor_impl.h"

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

processor_thread_t processor_thread(void)
{
    clockid_t clock = 0;
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return (processor_thread_t){0};
    return (processor_thread_t){(int)syscall(SYS_gettid), clock};
}

int processor_current(void)
{
    return sched_getcpu();
}

/* Returns the number of processors that the thread's affinity allows; 0: unknown, or this one is
 * not allowed. A machine with more than CPU_SETSIZE processors is not supported. */
static int read_allowed(processor_thread_t thread, int processor, cpu_set_t *out_allowed)
{
    if (thread.id == 0 || processor < 0 || processor >= CPU_SETSIZE) return 0;
    if (sched_getaffinity(thread.id, sizeof *out_allowed, out_allowed) != 0) return 0;
    return CPU_ISSET((size_t)processor, out_allowed) ? CPU_COUNT(out_allowed) : 0;
}

/* Moves a thread to the processors of a set, at once. Then it may run on all allowed ones again. */
static void move(processor_thread_t thread, const cpu_set_t *where, const cpu_set_t *allowed)
{
    if (sched_setaffinity(thread.id, sizeof *where, where) == 0)
        (void)sched_setaffinity(thread.id, sizeof *allowed, allowed);
}

void processor_push(processor_thread_t thread, int processor)
{
    cpu_set_t allowed;
    if (read_allowed(thread, processor, &allowed) < 2) return;
    cpu_set_t others = allowed;
    CPU_CLR((size_t)processor, &others);
    move(thread, &others, &allowed);
}

void processor_pull(processor_thread_t thread, int processor)
{
    cpu_set_t allowed, one;
    if (read_allowed(thread, processor, &allowed) < 2) return;
    CPU_ZERO(&one);
    CPU_SET((size_t)processor, &one);
    move(thread, &one, &allowed);
}

uint64_t processor_time(processor_thread_t thread)
{
    struct timespec time;
    if (thread.id == 0 || clock_gettime(thread.clock, &time) != 0) return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
#else
processor_thread_t processor_thread(void)
{
    return (processor_thread_t){0};
}

int processor_current(void)
{
    return -1;
}

void processor_push(processor_thread_t thread, int processor)
{
    (void)thread;
    (void)processor;
}

void processor_pull(processor_thread_t thread, int processor)
{
    (void)thread;
    (void)processor;
}

uint64_t processor_time(processor_thread_t thread)
{
    (void)thread;
    return 0;
}
#endif
