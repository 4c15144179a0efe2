#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

/* Tests must not fill the user's store, nor find in it what another run packed. Tests of the store
 * choose a folder. */
__attribute__((constructor)) static void turn_store_off(void)
{
    (void)setenv("TESSERA_STORE", "off", 0);
}

#define GARBAGE_BYTES 4096 /* filled part of a new block: large ones would take too long */

static void *get_counted(void *user, size_t bytes)
{
    counting_t *counting = user;
    long number = atomic_fetch_add(&counting->requests, 1) + 1;
    long fail_at = atomic_load(&counting->fail_at);
    bool is_refused = atomic_load(&counting->for_ever) ? number >= fail_at : number == fail_at;
    if (fail_at > 0 && is_refused) {
        atomic_fetch_add(&counting->refused, 1);
        return NULL;
    }
    if (bytes > PTRDIFF_MAX) return NULL;
    void *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (block == NULL) return NULL;
    memset(block, 0xa5, bytes < GARBAGE_BYTES ? bytes : GARBAGE_BYTES);
    atomic_fetch_add(&counting->live, 1);
    return block;
}

static void put_counted(void *user, void *block)
{
    counting_t *counting = user;
    if (block == NULL) return;
    atomic_fetch_sub(&counting->live, 1);
    free(block);
}

void counting_begin(counting_t *counting)
{
    memset(counting, 0, sizeof *counting);
    counting->allocator = (allocator_t){counting, get_counted, put_counted};
}

void counting_fail(counting_t *counting, long n, bool for_ever)
{
    atomic_store(&counting->requests, 0);
    atomic_store(&counting->refused, 0);
    atomic_store(&counting->for_ever, for_ever);
    atomic_store(&counting->fail_at, n);
}

/* n_threads 0 means this machine's default. */
static status_t create(counting_t *counting, int n_threads, context_t **out_ctx)
{
    context_options_t options = {.allocator = &counting->allocator, .n_threads = n_threads};
    return context_create(&options, out_ctx);
}

int fixture_setup(void **state)
{
    fixture_t *fixture = calloc(1, sizeof *fixture);
    if (fixture == NULL) return -1;
    counting_begin(&fixture->memory);
    if (create(&fixture->memory, 0, &fixture->ctx) != STATUS_OK) {
        free(fixture);
        return -1;
    }
    *state = fixture;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_t *fixture = *state;
    counting_fail(&fixture->memory, 0, false);
    context_destroy(fixture->ctx);
    long live = atomic_load(&fixture->memory.live);
    if (live != 0) print_error("%ld blocks are still alive at the end\n", live);
    free(fixture);
    return live == 0 ? 0 : -1;
}

/* Runs the scenario with failing allocations. Returns true if one failed. */
static bool run_refused(status_t (*scenario)(context_t *ctx), int n_threads, long n, bool for_ever)
{
    counting_t counting;
    counting_begin(&counting);
    counting_fail(&counting, n, for_ever);
    context_t *ctx = NULL;
    status_t status = create(&counting, n_threads, &ctx);
    if (status == STATUS_OK) {
        status = scenario(ctx);
        if (status != STATUS_OK) {
            if (status != STATUS_OUT_OF_MEMORY || atomic_load(&counting.refused) == 0)
                print_error("allocation %ld: %s\n", n, context_error(ctx));
            assert_string_not_equal(context_error(ctx), "");
            assert_int_equal(context_status(ctx), status);
        }
        context_destroy(ctx);
    }
    long refused = atomic_load(&counting.refused);
    assert_int_equal(status, refused > 0 ? STATUS_OUT_OF_MEMORY : STATUS_OK);
    if (atomic_load(&counting.live) != 0) print_error("allocation %ld refused: a leak\n", n);
    assert_int_equal(atomic_load(&counting.live), 0);
    return refused > 0;
}

/* With sanitizers every n up to 500 is tested, then fewer and fewer, because later failures make
 * longer runs. */
static void refuse_by_turns(status_t (*scenario)(context_t *ctx), int n_threads)
{
    long n = 1;
    for (int turn = 0; run_refused(scenario, n_threads, n, turn % 2 != 0); turn++)
        n += IS_SANITIZED ? 1 + n / 500 : 1;
    assert_true(n > 1);
}

void check_every_allocation(status_t (*scenario)(context_t *ctx))
{
    if (IS_SANITIZED) {
        refuse_by_turns(scenario, 0);
        return;
    }
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        long n = 1;
        while (run_refused(scenario, 0, n, for_ever != 0)) n++;
        assert_true(n > 1);
    }
}

void check_allocations_by_turns(status_t (*scenario)(context_t *ctx))
{
    refuse_by_turns(scenario, 1);
}

void skip_without(const char *what)
{
    /* CI builds presets one after another, so there is no other build when it tests the first. */
    static const char *const may_lack[] = {"a build of another preset"};
    bool is_allowed = getenv("CI") == NULL;
    for (size_t i = 0; i < sizeof may_lack / sizeof *may_lack; i++)
        is_allowed = is_allowed || strcmp(what, may_lack[i]) == 0;
    if (!is_allowed) fail_msg("this machine has no %s, and CI is to have it", what);
    print_message("skipped: this machine has no %s\n", what);
    skip();
}

void check_ok(const context_t *ctx, status_t status, const char *call, const char *file, int line)
{
    if (status == STATUS_OK) return;
    print_error("%s\n    gave %s: %s\n", call, status_name(status), context_error(ctx));
    _fail(file, line);
}

void check_fails(const context_t *ctx, status_t status, status_t wanted, const char *part,
                 const char *call, const char *file, int line)
{
    const char *message = context_error(ctx);
    if (status == wanted && context_status(ctx) == wanted && strstr(message, part) != NULL) return;
    print_error("%s\n    gave %s: %s\n    not  %s: ...%s...\n", call, status_name(status),
                status == STATUS_OK ? "" : message, status_name(wanted), part);
    _fail(file, line);
}
