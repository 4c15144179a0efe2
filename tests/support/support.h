/* Shared parts of the tests: an allocator that counts and fails on request, a fixture with a
 * context that uses it, and checks that print the context's message.
 *
 * Every test gets a fresh fixture in *state. Its teardown destroys the context and fails the test
 * if memory is still allocated. Only the allocator is thread-safe. */
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

/* Counts allocations. New blocks are filled with garbage, so that tests detect code that relies on
 * zeros. */
typedef struct counting {
    allocator_t allocator;
    atomic_long live;     /* blocks not freed */
    atomic_long requests; /* since the last counting_fail */
    atomic_long fail_at;  /* index of the request that fails; 0: none */
    atomic_bool for_ever; /* all later requests fail as well */
    atomic_long refused;
} counting_t;

void counting_begin(counting_t *counting);

/* Makes the n-th allocation from now fail, alone or with all later ones; n = 0: none fails. */
void counting_fail(counting_t *counting, long n, bool for_ever);

typedef struct fixture {
    counting_t memory;
    context_t *ctx;
} fixture_t;

int fixture_setup(void **state);
int fixture_teardown(void **state);

/* A test with the fixture, for cmocka_run_group_tests. */
#define TEST(function) cmocka_unit_test_setup_teardown(function, fixture_setup, fixture_teardown)

/* Returns the context of a running test. */
static inline context_t *fixture_context(void **state)
{
    return ((fixture_t *)*state)->ctx;
}

/* Tests take ten times as long with the address or thread sanitizer. Such builds run only some of
 * many similar cases; other builds run all. */
#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

/* Tests of kernels for other CPUs, in an emulator, are as slow. */
#ifdef TESSERA_EMULATED
#define IS_SLOW true
#else
#define IS_SLOW IS_SANITIZED
#endif

/* Runs the scenario in a fresh context once for every n, with the n-th allocation failing,
 * including those of the context, until a run has no failed allocation. For each n there are two
 * runs: in the second, all allocations after the n-th fail, too. With sanitizers the two kinds of
 * run alternate, and many n above 500 are skipped. Nothing may leak, and each run that fails must
 * return OUT_OF_MEMORY with a message. */
void check_every_allocation(status_t (*scenario)(context_t *ctx));

/* Like check_every_allocation, in less than half the time, for scenarios with thousands of
 * allocations: uses one thread, and the two kinds of run alternate. */
void check_allocations_by_turns(status_t (*scenario)(context_t *ctx));

/* Ends the running test as skipped because this machine lacks `what`, e.g. "dot". If CI is set, the
 * test fails instead, except for the few items that support.c allows to be missing. */
void skip_without(const char *what);

/* Checks that the call succeeds; otherwise prints the message and fails the test. */
#define CHECK_OK(ctx, expr) check_ok((ctx), (expr), #expr, __FILE__, __LINE__)

/* Checks that the call fails with this status and a message that contains `part`. */
#define CHECK_FAILS(ctx, expr, status, part)                                                       \
    check_fails((ctx), (expr), (status), (part), #expr, __FILE__, __LINE__)

void check_ok(const context_t *ctx, status_t status, const char *call, const char *file, int line);
void check_fails(const context_t *ctx, status_t status, status_t wanted, const char *part,
                 const char *call, const char *file, int line);

#endif
