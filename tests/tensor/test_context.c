#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <fcntl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tensor/context_impl.h"
#include "tensor/text/trace.h"
#include "tensor/threads/threads_impl.h"

/* ---- failures ---- */

static void the_error_is_empty_until_something_fails(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_string_equal(context_error(ctx), "");
    assert_int_equal(context_status(ctx), STATUS_OK);
    CHECK_FAILS(ctx, context_fail(ctx, STATUS_IO, "op: %d, rule", 7), STATUS_IO, "op: 7, rule");
    context_clear_error(ctx);
    assert_string_equal(context_error(ctx), "");
    assert_int_equal(context_status(ctx), STATUS_OK);
}

static void a_message_may_quote_the_one_before_it(void **state)
{
    context_t *ctx = fixture_context(state);
    context_fail(ctx, STATUS_IO, "inner");
    context_fail(ctx, STATUS_CORRUPT, "outer: %s", context_error(ctx));
    assert_string_equal(context_error(ctx), "outer: inner");
    assert_int_equal(context_status(ctx), STATUS_CORRUPT);
}

static void a_message_that_is_too_long_is_cut(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[2 * CONTEXT_ERROR_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    context_fail(ctx, STATUS_IO, "%s", text);
    assert_int_equal(strlen(context_error(ctx)), CONTEXT_ERROR_MAX - 1);
}

static void a_null_input_is_named_or_passes_on_what_left_it_so(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_FAILS(ctx, context_null(ctx, "relu", "input"), STATUS_INVALID_ARGUMENT,
                "relu: input is NULL");
    context_fail(ctx, STATUS_CORRUPT, "load: broken");
    CHECK_FAILS(ctx, context_null(ctx, "relu", "input"), STATUS_CORRUPT, "load: broken");
}

static void a_refused_allocation_is_told_without_memory(void **state)
{
    fixture_t *fixture = *state;
    void *block = NULL;
    counting_fail(&fixture->memory, 1, true);
    CHECK_FAILS(fixture->ctx, context_get(fixture->ctx, 123, "a plan", &block),
                STATUS_OUT_OF_MEMORY, "123 bytes for a plan");
    assert_null(block);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    CHECK_FAILS(NULL, context_create(&(context_options_t){.n_threads = -1}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: -1 threads, must be 0 to 1024");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.cache_entries = -1}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: a cache of -1 entries");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.plan_bytes = -1}, &ctx),
                STATUS_INVALID_ARGUMENT,
                "context_create: -1 bytes of plans, must be 0 (64 MB) or more");
    CHECK_FAILS(NULL, context_create(&(context_options_t){.trace = "dispatch,nonsense"}, &ctx),
                STATUS_INVALID_ARGUMENT, "context_create: trace \"dispatch,nonsense\"");
    assert_null(ctx);
    CHECK_FAILS(NULL, context_create(NULL, NULL), STATUS_INVALID_ARGUMENT, "out_ctx is NULL");
}

static void a_context_that_cannot_be_made_says_why_without_one(void **state)
{
    fixture_t *fixture = *state;
    const context_options_t options = {.allocator = &fixture->memory.allocator};
    context_t *ctx = fixture->ctx;
    counting_fail(&fixture->memory, 1, false);
    CHECK_FAILS(NULL, context_create(&options, &ctx), STATUS_OUT_OF_MEMORY, "for a context");
    assert_null(ctx);
    counting_fail(&fixture->memory, 2, false);
    CHECK_FAILS(NULL, context_create(&options, &ctx), STATUS_OUT_OF_MEMORY, "for a stream");
    assert_null(ctx);
    counting_fail(&fixture->memory, 0, false);
    CHECK_OK(NULL, context_create(&options, &ctx));
    assert_string_equal(context_error(NULL), "");
    context_destroy(ctx);
}

/* ---- memory ---- */

static void blocks_are_aligned_to_64_bytes_and_may_be_empty(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    for (size_t bytes = 0; bytes < 200; bytes += 33) {
        void *block = NULL;
        CHECK_OK(ctx, context_get(ctx, bytes, "a test", &block));
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        context_put(ctx, block);
    }
    void *block = NULL;
    CHECK_FAILS(ctx, context_get(ctx, SIZE_MAX, "a test", &block), STATUS_OUT_OF_MEMORY, "a test");
    context_destroy(ctx);
}

static void a_growing_array_keeps_its_items(void **state)
{
    context_t *ctx = fixture_context(state);
    int *items = NULL;
    int capacity = 0;
    for (int i = 0; i < 1000; i++) {
        CHECK_OK(ctx, context_grow(ctx, &items, &capacity, i + 1, sizeof *items));
        assert_true(capacity > i);
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++) assert_int_equal(items[i], i);
    CHECK_FAILS(ctx, context_grow(ctx, &items, &capacity, INT32_MAX, SIZE_MAX / 2),
                STATUS_OUT_OF_MEMORY, "overflows");
    assert_int_equal(items[999], 999);
    context_put(ctx, items);
}

static void a_string_is_copied_and_null_stays_null(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[] = "abc", *copy = NULL, *nothing = text;
    CHECK_OK(ctx, context_string(ctx, text, &copy));
    text[0] = 'x';
    assert_string_equal(copy, "abc");
    CHECK_OK(ctx, context_string(ctx, NULL, &nothing));
    assert_null(nothing);
    context_put(ctx, copy);
}

static void scratch_grows_and_is_used_again(void **state)
{
    context_t *ctx = fixture_context(state);
    void *small = NULL, *large = NULL, *again = NULL;
    CHECK_OK(ctx, context_scratch(ctx, 100, &small));
    memset(small, 1, 100);
    CHECK_OK(ctx, context_scratch(ctx, 10000, &large));
    memset(large, 1, 10000);
    CHECK_OK(ctx, context_scratch(ctx, 50, &again));
    assert_ptr_equal(again, large);
}

/* ---- slots ---- */

typedef struct diary {
    int n_first, n_second;
    char ended[8];
} diary_t;
static diary_t diary;

typedef struct first {
    int mark;
    void *block;
} first_t;

static status_t begin_first(context_t *ctx, void *value)
{
    first_t *first = value;
    assert_int_equal(first->mark, 0);
    first->mark = 11;
    diary.n_first++;
    return context_get(ctx, 100, "the first slot", &first->block);
}

static void end_first(context_t *ctx, void *value)
{
    first_t *first = value;
    assert_int_equal(first->mark, 11);
    context_put(ctx, first->block);
    strcat(diary.ended, "1");
}

static const context_slot_t first_slot = {sizeof(first_t), begin_first, end_first};

static status_t begin_second(context_t *ctx, void *value)
{
    (void)value;
    void *first = NULL;
    diary.n_second++;
    return context_slot(ctx, &first_slot, &first);
}

static void end_second(context_t *ctx, void *value)
{
    void *first = NULL;
    assert_int_equal(context_slot(ctx, &first_slot, &first), STATUS_OK);
    assert_int_equal(((first_t *)first)->mark, 11);
    (void)value;
    strcat(diary.ended, "2");
}

static const context_slot_t second_slot = {sizeof(int), begin_second, end_second};

static void a_slot_is_made_once_and_ends_before_those_it_was_made_from(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    diary = (diary_t){0};
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    void *value = NULL, *again = NULL;
    CHECK_OK(ctx, context_slot(ctx, &second_slot, &value));
    CHECK_OK(ctx, context_slot(ctx, &second_slot, &again));
    assert_ptr_equal(value, again);
    CHECK_OK(ctx, context_slot(ctx, &first_slot, &again));
    assert_int_equal(diary.n_first, 1);
    assert_int_equal(diary.n_second, 1);
    context_destroy(ctx);
    assert_string_equal(diary.ended, "21");
}

static status_t refuse(context_t *ctx, void *value)
{
    (void)value;
    return context_fail(ctx, STATUS_IO, "slot: refused");
}

static void a_slot_that_cannot_begin_leaves_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    static const context_slot_t slot = {64, refuse, end_first};
    void *value = NULL;
    CHECK_FAILS(ctx, context_slot(ctx, &slot, &value), STATUS_IO, "refused");
    CHECK_FAILS(ctx, context_slot(ctx, &slot, &value), STATUS_IO, "refused");
    assert_null(value);
}

static status_t use_slots(context_t *ctx)
{
    void *value;
    diary = (diary_t){0};
    return context_slot(ctx, &second_slot, &value);
}

static void slots_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(use_slots);
}

/* ---- environment ---- */

static char told[4096];

static void tell(void *user, const char *line)
{
    (void)user;
    strcat(told, line);
    strcat(told, "\n");
}

static void the_environment_counts_where_options_are_silent(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    setenv("TESSERA_THREADS", "3", 1);
    setenv("TESSERA_CACHE", "77", 1);
    setenv("TESSERA_PLANS", "16M", 1);
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    assert_int_equal(context_threads(ctx), 3);
    assert_int_equal(context_cache_entries(ctx), 77);
    assert_int_equal(context_plan_bytes(ctx), 16 << 20);
    context_destroy(ctx);
    context_options_t options = {.n_threads = 2, .cache_entries = 5, .plan_bytes = 7};
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    assert_int_equal(context_threads(ctx), 2);
    assert_int_equal(context_cache_entries(ctx), 5);
    assert_int_equal(context_plan_bytes(ctx), 7);
    context_destroy(ctx);
    unsetenv("TESSERA_PLANS");
    unsetenv("TESSERA_THREADS");
    unsetenv("TESSERA_CACHE");
}

static void a_variable_without_sense_is_told_and_passed_over(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    told[0] = '\0';
    setenv("TESSERA_THREADS", "many", 1);
    setenv("TESSERA_CACHE", "-4", 1);
    setenv("TESSERA_TRACE", "pass,nonsense", 1);
    setenv("TESSERA_LIMIT_MEMORY", "64X", 1);
    setenv("TESSERA_PLANS", "much", 1);
    assert_int_equal(context_create(&(context_options_t){.trace_sink = tell}, &ctx), STATUS_OK);
    assert_int_equal(context_threads(ctx), threads_available());
    assert_int_equal(context_cache_entries(ctx), 1024);
    assert_int_equal(context_plan_bytes(ctx), 64 << 20);
    assert_true(trace_wanted(ctx, TRACE_PASS));
    context_destroy(ctx);
    assert_non_null(strstr(told, "TESSERA_THREADS"));
    assert_non_null(strstr(told, "TESSERA_CACHE"));
    assert_non_null(strstr(told, "TESSERA_TRACE "));
    assert_non_null(strstr(told, "TESSERA_LIMIT_MEMORY is not a number of bytes"));
    assert_non_null(strstr(told, "TESSERA_PLANS is not a number of bytes"));
    unsetenv("TESSERA_PLANS");
    unsetenv("TESSERA_THREADS");
    unsetenv("TESSERA_CACHE");
    unsetenv("TESSERA_TRACE");
    unsetenv("TESSERA_LIMIT_MEMORY");
}

static bool can_have(const context_t *ctx, size_t bytes)
{
    void *block = allocator_get(context_allocator(ctx), bytes);
    if (block != NULL) allocator_put(context_allocator(ctx), block);
    return block != NULL;
}

static void the_limit_of_memory_is_that_of_options_or_the_environment(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    setenv("TESSERA_LIMIT_MEMORY", "4M", 1);
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    assert_true(can_have(ctx, 1 << 20));
    assert_false(can_have(ctx, 8 << 20));
    context_destroy(ctx);
    assert_int_equal(context_create(&(context_options_t){.limit_bytes = 16 << 20}, &ctx),
                     STATUS_OK);
    assert_true(can_have(ctx, 8 << 20));
    assert_false(can_have(ctx, 32 << 20));
    context_destroy(ctx);
    unsetenv("TESSERA_LIMIT_MEMORY");
}

static void every_variable_has_a_name_and_a_help(void **state)
{
    (void)state;
    int n = 0;
    const environment_variable_t *variables = context_environment(&n);
    assert_int_equal(n, 11);
    for (int i = 0; i < n; i++) {
        assert_memory_equal(variables[i].name, "TESSERA_", 8);
        assert_true(strlen(variables[i].help) > 10);
    }
}

/* ---- trace ---- */

static void a_category_begins_with_its_template(void **state)
{
    (void)state;
    context_t *ctx = NULL;
    told[0] = '\0';
    context_options_t options = {.trace = "dispatch,pass", .trace_sink = tell};
    assert_int_equal(context_create(&options, &ctx), STATUS_OK);
    trace_event(ctx, TRACE_PASS, "fold,%d,%d,1", 9, 8);
    trace_event(ctx, TRACE_CONVERT, "not wanted");
    trace_event(ctx, TRACE_PASS, "dce,8,7,1");
    trace_event(ctx, TRACE_DISPATCH, "relu");
    context_destroy(ctx);
    assert_string_equal(told, "tessera,pass,name,nodes_before,nodes_after,us\n"
                              "tessera,pass,fold,9,8,1\n"
                              "tessera,pass,dce,8,7,1\n"
                              "tessera,dispatch,operator,kernel,implementation,inputs,outputs,us\n"
                              "tessera,dispatch,relu\n");
}

static void the_category_all_is_all(void **state)
{
    context_t *ctx = NULL;
    assert_false(trace_wanted(fixture_context(state), TRACE_CONVERT));
    assert_int_equal(context_create(&(context_options_t){.trace = "all"}, &ctx), STATUS_OK);
    assert_true(trace_wanted(ctx, TRACE_DISPATCH));
    assert_true(trace_wanted(ctx, TRACE_CONVERT));
    assert_true(trace_wanted(ctx, TRACE_PASS));
    context_destroy(ctx);
}

static void trace_lines_are_appended_to_the_file_that_is_named(void **state)
{
    (void)state;
    char path[] = "/tmp/tessera_trace_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, "old\n", 4), 4);
    setenv("TESSERA_TRACE", "pass", 1);
    setenv("TESSERA_TRACE_FILE", path, 1);
    context_t *ctx = NULL;
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    trace_event(ctx, TRACE_PASS, "fold,9,8,1");
    context_destroy(ctx);
    unsetenv("TESSERA_TRACE");
    unsetenv("TESSERA_TRACE_FILE");
    char text[512] = {0};
    assert_true(pread(file, text, sizeof text - 1, 0) > 0);
    close(file);
    unlink(path);
    assert_string_equal(text, "old\n"
                              "tessera,pass,name,nodes_before,nodes_after,us\n"
                              "tessera,pass,fold,9,8,1\n");
}

/* ---- counters ---- */

static void a_reset_keeps_what_tells_the_present(void **state)
{
    context_t *ctx = fixture_context(state);
    counters_t *inside = context_counters(ctx);
    inside->reorders[CAUSE_WEIGHT] = 3;
    inside->reorders[CAUSE_INPUT] = 5;
    inside->reorders[CAUSE_USER] = 7;
    inside->copies[CAUSE_WEIGHT] = 11;
    inside->reorders[CAUSE_GRADIENT] = 29;
    inside->copies[CAUSE_USER] = 13;
    inside->cache_entries = 17;
    inside->cache_bytes = 19;
    inside->cache_hits = 23;
    counters_t counters;
    counters_read(ctx, &counters);
    assert_int_equal(counters_weight_reorders(&counters), 3);
    assert_int_equal(counters_activation_reorders(&counters), 12);
    assert_int_equal(counters_gradient_reorders(&counters), 29);
    assert_int_equal(counters_copies(&counters), 24);
    counters_reset(ctx);
    counters_read(ctx, &counters);
    counters_t wanted = {.cache_entries = 17, .cache_bytes = 19};
    assert_memory_equal(&counters, &wanted, sizeof wanted);
    assert_string_equal(cause_name(CAUSE_MISMATCH), "mismatch");
    assert_string_equal(cause_name(CAUSE_GRADIENT), "gradient");
}

/* ---- threads and random numbers ---- */

static void threads_are_at_least_one_and_can_be_set(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_true(threads_available() >= 1);
    assert_true(context_threads(ctx) >= 1);
    CHECK_OK(ctx, context_set_threads(ctx, 5));
    assert_int_equal(context_threads(ctx), 5);
    CHECK_FAILS(ctx, context_set_threads(ctx, 0), STATUS_INVALID_ARGUMENT,
                "context_set_threads: 0 threads, must be 1");
    assert_int_equal(context_threads(ctx), 5);
}

static void a_call_borrows_openmp_and_puts_it_back(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, context_set_threads(ctx, 3));
    omp_set_num_threads(7);
    threads_guard_t outer = threads_enter(ctx);
    assert_int_equal(omp_get_max_threads(), 3);
    threads_guard_t inner = threads_enter(ctx);
    assert_int_equal(omp_get_max_threads(), 3);
    threads_leave(ctx, inner);
    assert_int_equal(omp_get_max_threads(), 3);
    threads_leave(ctx, outer);
    assert_int_equal(omp_get_max_threads(), 7);
}

#ifdef __SSE__
/* Returns how many of the caller's three OpenMP threads keep denormals: there, half of the smallest
 * normal number is not 0. */
static int n_denormals(void)
{
    static volatile float smallest = 0x1p-126f, half = 0.5f;
    int n = 0;
#pragma omp parallel num_threads(3) reduction(+ : n)
    n += smallest * half > 0;
    return n;
}

static void denormals_stay_unless_the_context_flushes_them(void **state)
{
    context_t *ctx = fixture_context(state);
    threads_guard_t guard = threads_enter(ctx);
    assert_int_equal(n_denormals(), 3);
    threads_leave(ctx, guard);
}

/* Runs in a new thread, so that OpenMP's threads start only inside of the call. */
static void *flush_in_new_threads(void *unused)
{
    static const context_options_t options = {.n_threads = 3, .flush_denormals = true};
    context_t *ctx = NULL, *other = NULL;
    bool is_right = context_create(&options, &ctx) == STATUS_OK &&
                    context_create(&options, &other) == STATUS_OK;
    threads_guard_t guard = threads_enter(ctx);
    is_right = is_right && n_denormals() == 0;
    threads_guard_t inner = threads_enter(other);
    is_right = is_right && n_denormals() == 0;
    threads_leave(other, inner);
    is_right = is_right && n_denormals() == 0;
    threads_leave(ctx, guard);
    is_right = is_right && n_denormals() == 3;
    context_destroy(ctx);
    context_destroy(other);
    return is_right ? (void *)(uintptr_t)&options : unused;
}

static void every_thread_of_a_call_flushes_and_none_after_it(void **state)
{
    (void)state;
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, flush_in_new_threads, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
}
#endif

/* The generator's reference code returns these numbers first, if splitmix64 seeds it from 0. */
static void random_numbers_are_those_of_xoshiro(void **state)
{
    context_t *ctx = fixture_context(state);
    const uint64_t wanted[4] = {UINT64_C(0x99ec5f36cb75f2b4), UINT64_C(0xbf6e1f784956452a),
                                UINT64_C(0x1a5f849d4933e6e0), UINT64_C(0x6aa594f1262d2d2c)};
    for (int i = 0; i < 4; i++) assert_true(context_random(ctx) == wanted[i]);
    context_seed(ctx, 0);
    assert_true(context_random(ctx) == wanted[0]);
    context_seed(ctx, 1);
    assert_true(context_random(ctx) != wanted[0]);
}

static void the_clock_does_not_go_back(void **state)
{
    (void)state;
    uint64_t before = context_now();
    assert_true(context_now() >= before);
}

/* Reads Linux's flags of the mapping at an address, such as "... hg ..." if huge pages were
 * requested. Returns false if the flags cannot be read. */
static bool read_flags(uintptr_t address, char *out_flags, int capacity)
{
    char line[512];
    bool is_there = false, is_read = false;
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (maps != NULL && !is_read && fgets(line, sizeof line, maps) != NULL) {
        unsigned long first = 0, last = 0;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            is_there = first <= address && address < last;
        is_read = is_there && strncmp(line, "VmFlags:", 8) == 0;
    }
    if (maps != NULL) fclose(maps);
    if (is_read) snprintf(out_flags, (size_t)capacity, "%s", line);
    return is_read;
}

static void large_blocks_are_asked_to_lie_in_huge_pages(void **state)
{
    const allocator_t *allocator = allocator_default();
    const size_t bytes = (size_t)64 << 20;
    char flags[512] = "";
    (void)state;
    char *block = allocator_get(allocator, bytes);
    assert_non_null(block);
    assert_int_equal((uintptr_t)block % 64, 0);
    memset(block, 1, bytes);
    if (read_flags((uintptr_t)block + bytes / 2, flags, sizeof flags) &&
        access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) == 0)
        assert_non_null(strstr(flags, " hg"));
    allocator_put(allocator, block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_error_is_empty_until_something_fails),
        TEST(a_message_may_quote_the_one_before_it),
        TEST(a_message_that_is_too_long_is_cut),
        TEST(a_null_input_is_named_or_passes_on_what_left_it_so),
        TEST(a_refused_allocation_is_told_without_memory),
        TEST(options_out_of_range_are_refused),
        TEST(a_context_that_cannot_be_made_says_why_without_one),
        TEST(blocks_are_aligned_to_64_bytes_and_may_be_empty),
        TEST(a_growing_array_keeps_its_items),
        TEST(a_string_is_copied_and_null_stays_null),
        TEST(scratch_grows_and_is_used_again),
        TEST(a_slot_is_made_once_and_ends_before_those_it_was_made_from),
        TEST(a_slot_that_cannot_begin_leaves_nothing),
        TEST(slots_survive_every_refused_allocation),
        TEST(the_environment_counts_where_options_are_silent),
        TEST(the_limit_of_memory_is_that_of_options_or_the_environment),
        TEST(a_variable_without_sense_is_told_and_passed_over),
        TEST(every_variable_has_a_name_and_a_help),
        TEST(a_category_begins_with_its_template),
        TEST(the_category_all_is_all),
        TEST(trace_lines_are_appended_to_the_file_that_is_named),
        TEST(a_reset_keeps_what_tells_the_present),
        TEST(threads_are_at_least_one_and_can_be_set),
        TEST(a_call_borrows_openmp_and_puts_it_back),
#ifdef __SSE__
        TEST(denormals_stay_unless_the_context_flushes_them),
        TEST(every_thread_of_a_call_flushes_and_none_after_it),
#endif
        TEST(large_blocks_are_asked_to_lie_in_huge_pages),
        TEST(random_numbers_are_those_of_xoshiro),
        TEST(the_clock_does_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
