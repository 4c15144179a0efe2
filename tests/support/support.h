/* What tests share: an allocator that counts and refuses, a fixture that owns a context on it, and
 * checks that print the context's message.
 *
 * Every test gets a fresh fixture as *state; its teardown destroys the context and fails the test
 * if anything is still alive. Not for use from several threads at once, but for the allocator. */
#ifndef TESSERA_TESTS_SUPPORT_H
#define TESSERA_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tensor/context.h"
#include "tensor/status_impl.h"

/* Fresh blocks are filled with garbage, so that nobody relies on zeros. */
typedef struct counting {
    allocator_t allocator;
    atomic_long live;     /* blocks not put back */
    atomic_long requests; /* since the last counting_fail */
    atomic_long fail_at;  /* number of the request that is refused; 0: none */
    atomic_bool for_ever; /* and all after it */
    atomic_long refused;
} counting_t;

void counting_begin(counting_t *counting);

/* Refuses the n-th allocation from now, once or it and all after it; n = 0 ends that. */
void counting_fail(counting_t *counting, long n, bool for_ever);

typedef struct fixture {
    counting_t memory;
    context_t *ctx;
} fixture_t;

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A test in the fixture, for the array given to cmocka_run_group_tests. */
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

/* The context of a running test. */
static inline context_t *fixture_context(void **state)
{
    return ((fixture_t *)*state)->ctx;
}

/* With the address or the thread sanitizer tests take ten times as long. Such a build runs a share
 * of the cases that are many of one kind; others run them all. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

/* So do tests of another machine's kernels in an emulator. */
#ifdef TESSERA_EMULATED
#define IS_SLOW true
#else
#define IS_SLOW IS_SANITIZED
#endif

/* Runs the scenario in a fresh context for every n with the n-th allocation refused, once and for
 * ever, that of the context included, until a run is refused nothing. With sanitizers each n is
 * refused in one of the two ways, by turns, and of n above 500 a share. Nothing may be left alive,
 * and a failure has to be OUT_OF_MEMORY with a message. */
void check_every_allocation(status_t (*scenario)(context_t *ctx));

/* As check_every_allocation, in less than half the time, for scenarios of thousands of allocations:
 * on one thread, and each n is refused in one of the two ways, by turns. */
void check_allocations_by_turns(status_t (*scenario)(context_t *ctx));

/* Ends the running test as skipped, since this machine lacks something: "dot". Where the
 * environment has CI it fails instead, but for the few things that support.c says may be lacking
 * there. */
void skip_without(const char *what);

/* The call succeeds; else prints the message and fails the test. */
#define CHECK_OK(ctx, expr) check_ok((ctx), (expr), #expr, __FILE__, __LINE__)

/* The call fails with this status, and a message that has `part` in it. */
#define CHECK_FAILS(ctx, expr, status, part)                                                       \
    check_fails((ctx), (expr), (status), (part), #expr, __FILE__, __LINE__)

void check_ok(const context_t *ctx, status_t status, const char *call, const char *file, int line);
void check_fails(const context_t *ctx, status_t status, status_t wanted, const char *part,
                 const char *call, const char *file, int line);

#endif
