#include "tensor/hash_impl.h"
#include "tests/support/support.h"

#define N_ITEMS 1000

typedef struct item {
    int number;
    uint64_t hash;
} item_t;

static bool is_number(const void *item, const void *key)
{
    const item_t *of = item;
    const int *number = key;
    return of->number == *number;
}

/* A bad hash function: many numbers have equal hashes, and different hashes share a slot. */
static uint64_t crowded(int number)
{
    return (uint64_t)(number % 7) * 1024;
}

static uint64_t spread(int number)
{
    return hash_mix(0, (uint64_t)number);
}

static void check_all(const hash_table_t *table, const item_t *items, const bool *is_in)
{
    for (int i = 0; i < N_ITEMS; i++)
        assert_ptr_equal(hash_find(table, items[i].hash, is_number, &i),
                         is_in[i] ? &items[i] : NULL);
}

static void fill_and_empty(context_t *ctx, uint64_t (*hash)(int number))
{
    static item_t items[N_ITEMS];
    static bool is_in[N_ITEMS];
    hash_table_t table = {0};
    for (int i = 0; i < N_ITEMS; i++) {
        items[i] = (item_t){i, hash(i)};
        is_in[i] = true;
        CHECK_OK(ctx, hash_put(ctx, &table, items[i].hash, &items[i]));
    }
    check_all(&table, items, is_in);
    for (int i = 0; i < N_ITEMS; i += 3) {
        hash_remove(&table, items[i].hash, &items[i]);
        hash_remove(&table, items[i].hash, &items[i]);
        is_in[i] = false;
    }
    check_all(&table, items, is_in);
    assert_int_equal(table.n, N_ITEMS - (N_ITEMS + 2) / 3);
    for (int i = 0; i < N_ITEMS; i += 3) {
        CHECK_OK(ctx, hash_put(ctx, &table, items[i].hash, &items[i]));
        is_in[i] = true;
    }
    check_all(&table, items, is_in);
    for (int i = N_ITEMS - 1; i >= 0; i--) {
        hash_remove(&table, items[i].hash, &items[i]);
        is_in[i] = false;
    }
    assert_int_equal(table.n, 0);
    check_all(&table, items, is_in);
    hash_clear(ctx, &table);
}

static void entries_are_found_until_they_are_removed(void **state)
{
    context_t *ctx = fixture_context(state);
    fill_and_empty(ctx, spread);
}

static void items_of_one_hash_are_told_apart_by_their_keys(void **state)
{
    context_t *ctx = fixture_context(state);
    fill_and_empty(ctx, crowded);
}

static void an_empty_table_has_nothing_and_removes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    hash_table_t table = {0};
    int key = 1;
    assert_null(hash_find(&table, 1, NULL, &key));
    hash_remove(&table, 1, &key);
    hash_clear(ctx, &table);
}

static void without_a_comparison_equal_hashes_are_equal_keys(void **state)
{
    context_t *ctx = fixture_context(state);
    hash_table_t table = {0};
    int a = 1, b = 2;
    CHECK_OK(ctx, hash_put(ctx, &table, hash_mix(0, 10), &a));
    CHECK_OK(ctx, hash_put(ctx, &table, hash_mix(0, 11), &b));
    assert_ptr_equal(hash_find(&table, hash_mix(0, 10), NULL, NULL), &a);
    assert_ptr_equal(hash_find(&table, hash_mix(0, 11), NULL, NULL), &b);
    assert_null(hash_find(&table, hash_mix(0, 12), NULL, NULL));
    hash_clear(ctx, &table);
}

/* The finaliser of SplitMix64, whose first results for seed 0 are published. */
static void words_are_mixed_as_splitmix64_does(void **state)
{
    (void)state;
    assert_true(hash_mix(0, 0) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(hash_mix(0, UINT64_C(0x9e3779b97f4a7c15)) == UINT64_C(0x6e789e6aa1b965f4));
}

static status_t put_many(context_t *ctx)
{
    static int items[200];
    hash_table_t table = {0};
    status_t status = STATUS_OK;
    for (int i = 0; i < 200 && status == STATUS_OK; i++)
        status = hash_put(ctx, &table, hash_mix(0, (uint64_t)i), &items[i]);
    hash_clear(ctx, &table);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    (void)state;
    check_every_allocation(put_many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_are_found_until_they_are_removed),
        TEST(items_of_one_hash_are_told_apart_by_their_keys),
        TEST(an_empty_table_has_nothing_and_removes_nothing),
        TEST(without_a_comparison_equal_hashes_are_equal_keys),
        cmocka_unit_test(words_are_mixed_as_splitmix64_does),
        cmocka_unit_test(every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
