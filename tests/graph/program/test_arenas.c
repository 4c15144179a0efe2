/* Arenas: memory that runs of plans share. */
#include "graph/program/arenas_impl.h"

#include <string.h>

#include "tests/support/support.h"

static void a_block_that_came_back_is_leased_again(void **state)
{
    context_t *ctx = fixture_context(state);
    arenas_t *arenas = NULL;
    CHECK_OK(ctx, arenas_create(ctx, &arenas));
    char *first = arenas_lease(arenas, 1000), *second = arenas_lease(arenas, 1000);
    assert_true(first != second);
    assert_int_equal((uintptr_t)first % 64, 0);
    arenas_return(arenas, first);
    arenas_return(arenas, second);
    assert_ptr_equal(arenas_lease(arenas, 10), second);
    assert_ptr_equal(arenas_lease(arenas, 1000), first);
    arenas_return(arenas, first);
    arenas_return(arenas, second);
    arenas_release(arenas);
}

static void an_idle_block_that_is_too_small_gives_way(void **state)
{
    context_t *ctx = fixture_context(state);
    arenas_t *arenas = NULL;
    CHECK_OK(ctx, arenas_create(ctx, &arenas));
    for (size_t bytes = 64; bytes < 1 << 20; bytes += bytes / 16 + 1) {
        char *block = arenas_lease(arenas, bytes);
        memset(block, 1, bytes);
        arenas_return(arenas, block);
        assert_in_range(arenas_bytes(arenas), bytes, bytes + bytes / 4 + 64);
    }
    arenas_release(arenas);
}

static void blocks_far_larger_than_any_plan_needs_are_freed(void **state)
{
    context_t *ctx = fixture_context(state);
    arenas_t *arenas = NULL;
    CHECK_OK(ctx, arenas_create(ctx, &arenas));
    char *large = arenas_lease(arenas, 1000), *small = arenas_lease(arenas, 100);
    arenas_trim(arenas, 10); /* blocks that are in use stay */
    memset(large, 1, 1000);
    arenas_return(arenas, small);
    arenas_return(arenas, large);
    arenas_trim(arenas, 500);
    assert_in_range(arenas_bytes(arenas), 1100, 1300);
    arenas_trim(arenas, 100);
    assert_in_range(arenas_bytes(arenas), 100, 200);
    arenas_trim(arenas, 10);
    assert_int_equal(arenas_bytes(arenas), 0);
    arenas_release(arenas);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_block_that_came_back_is_leased_again),
        TEST(an_idle_block_that_is_too_small_gives_way),
        TEST(blocks_far_larger_than_any_plan_needs_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
