#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>

#include "tensor/storage_impl.h"

static int n_deleted;

static void count_deletion(void *user, void *data)
{
    assert_ptr_equal(user, &n_deleted);
    assert_non_null(data);
    n_deleted++;
}

static void *write_to(context_t *ctx, storage_t *storage)
{
    void *data = NULL;
    CHECK_OK(ctx, storage_writable(ctx, storage, &data));
    return data;
}

static void owned_bytes_are_aligned_and_counted(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL;
    counters_t counters;
    CHECK_OK(ctx, storage_create(ctx, 1000, &storage));
    assert_int_equal((uintptr_t)storage_data(storage) % 64, 0);
    assert_int_equal(storage_bytes(storage), 1000);
    memset(write_to(ctx, storage), 7, 1000);
    counters_read(ctx, &counters);
    assert_int_equal(counters.tensor_bytes, 1000);
    storage_release(storage);
    storage_release(NULL);
}

static void bytes_that_overflow_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL;
    CHECK_FAILS(ctx, storage_create(ctx, SIZE_MAX, &storage), STATUS_OUT_OF_MEMORY,
                "out of memory");
    assert_null(storage);
}

static void a_write_stays_in_place_where_nobody_shares(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL;
    CHECK_OK(ctx, storage_create(ctx, 16, &storage));
    const void *before = storage_data(storage);
    assert_ptr_equal(write_to(ctx, storage), before);
    storage_t *second = storage_retain(storage);
    assert_ptr_equal(write_to(ctx, second), before);
    storage_release(second);
    assert_int_equal(storage_version(storage), 2);
    storage_release(storage);
}

static void a_snapshot_does_not_see_later_writes_nor_show_its_own(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *source = NULL, *snapshot = NULL;
    CHECK_OK(ctx, storage_create(ctx, 4, &source));
    memcpy(write_to(ctx, source), "old", 4);
    CHECK_OK(ctx, storage_snapshot(ctx, source, &snapshot));
    assert_ptr_equal(storage_data(source), storage_data(snapshot));

    memcpy(write_to(ctx, source), "new", 4);
    assert_string_equal(storage_data(snapshot), "old");
    assert_string_equal(storage_data(source), "new");

    const void *alone = storage_data(snapshot);
    memcpy(write_to(ctx, snapshot), "own", 4);
    assert_ptr_equal(storage_data(snapshot), alone);
    assert_string_equal(storage_data(source), "new");
    storage_release(source);
    storage_release(snapshot);
}

/* A small tensor's bytes are in one block with its handle. A write after a snapshot moves the
 * bytes, but the block must stay, because the handle is in it. */
static void a_handle_in_one_block_with_its_bytes_outlives_their_use(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    storage_t *storage = NULL, *snapshot = NULL;
    void *handle = NULL;
    long live = atomic_load(&fixture->memory.live);
    CHECK_OK(ctx, storage_create_for(ctx, 24, 8, &handle, &storage));
    assert_int_equal(atomic_load(&fixture->memory.live) - live, 1);
    memset(handle, 3, 24);
    memcpy(write_to(ctx, storage), "old....", 8);
    CHECK_OK(ctx, storage_snapshot(ctx, storage, &snapshot));
    memcpy(write_to(ctx, storage), "new....", 8);
    assert_string_equal(storage_data(snapshot), "old....");
    storage_release(snapshot);
    assert_int_equal(*((char *)handle + 23), 3);
    assert_string_equal(storage_data(storage), "new....");
    storage_release(storage);
    assert_int_equal(atomic_load(&fixture->memory.live), live);
}

/* Large bytes have a block of their own, so that they can be freed before the handle. */
static void many_bytes_have_a_block_of_their_own(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    storage_t *storage = NULL;
    void *handle = NULL;
    long live = atomic_load(&fixture->memory.live);
    CHECK_FAILS(ctx, storage_create_for(ctx, 24, SIZE_MAX, &handle, &storage), STATUS_OUT_OF_MEMORY,
                "too many");
    CHECK_OK(ctx, storage_create_for(ctx, 24, (128 << 10) + 1, &handle, &storage));
    assert_int_equal(atomic_load(&fixture->memory.live) - live, 2);
    assert_int_equal((uintptr_t)storage_data(storage) % 64, 0);
    memset(handle, 3, 24);
    storage_release(storage);
    assert_int_equal(atomic_load(&fixture->memory.live), live);
}

static void a_read_only_buffer_is_copied_before_a_write(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char constant[] = "constant";
    storage_t *storage = NULL;
    n_deleted = 0;
    CHECK_OK(ctx, storage_borrow(ctx, (void *)(uintptr_t)constant, sizeof constant, true,
                                 count_deletion, &n_deleted, &storage));
    assert_true(storage_is_read_only(storage));
    assert_ptr_equal(storage_data(storage), constant);
    char *bytes = write_to(ctx, storage);
    assert_int_equal(n_deleted, 1);
    assert_false(storage_is_read_only(storage));
    assert_string_equal(bytes, "constant");
    bytes[0] = 'X';
    assert_string_equal(constant, "constant");
    storage_release(storage);
    assert_int_equal(n_deleted, 1);
}

static void the_deleter_runs_when_the_last_user_lets_go(void **state)
{
    context_t *ctx = fixture_context(state);
    char bytes[8] = {0};
    storage_t *storage = NULL, *snapshot = NULL;
    n_deleted = 0;
    CHECK_OK(ctx,
             storage_borrow(ctx, bytes, sizeof bytes, true, count_deletion, &n_deleted, &storage));
    CHECK_OK(ctx, storage_snapshot(ctx, storage, &snapshot));
    assert_ptr_equal(storage_data(snapshot), bytes);
    storage_release(storage);
    assert_int_equal(n_deleted, 0);
    storage_release(snapshot);
    assert_int_equal(n_deleted, 1);
}

static void a_snapshot_of_borrowed_bytes_that_may_be_written_is_a_copy(void **state)
{
    context_t *ctx = fixture_context(state);
    char bytes[8] = "lent";
    storage_t *storage = NULL, *snapshot = NULL;
    n_deleted = 0;
    CHECK_OK(ctx,
             storage_borrow(ctx, bytes, sizeof bytes, false, count_deletion, &n_deleted, &storage));
    CHECK_OK(ctx, storage_snapshot(ctx, storage, &snapshot));
    assert_ptr_equal(write_to(ctx, storage), bytes);
    strcpy(bytes, "new");
    assert_string_equal(storage_data(snapshot), "lent");
    storage_release(storage);
    assert_int_equal(n_deleted, 1);
    storage_release(snapshot);
    assert_int_equal(n_deleted, 1);
}

static void a_refused_borrow_leaves_the_memory_to_the_caller(void **state)
{
    fixture_t *fixture = *state;
    char bytes[8] = {0};
    n_deleted = 0;
    for (long n = 1; n <= 2; n++) {
        storage_t *storage = NULL;
        counting_fail(&fixture->memory, n, false);
        CHECK_FAILS(fixture->ctx,
                    storage_borrow(fixture->ctx, bytes, sizeof bytes, false, count_deletion,
                                   &n_deleted, &storage),
                    STATUS_OUT_OF_MEMORY, "out of memory");
        assert_null(storage);
    }
    assert_int_equal(n_deleted, 0);
}

static void a_refused_copy_leaves_bytes_and_version(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    storage_t *storage = NULL, *snapshot = NULL;
    void *data = NULL;
    CHECK_OK(ctx, storage_create(ctx, 16, &storage));
    CHECK_OK(ctx, storage_snapshot(ctx, storage, &snapshot));
    counting_fail(&fixture->memory, 1, false);
    CHECK_FAILS(ctx, storage_writable(ctx, storage, &data), STATUS_OUT_OF_MEMORY, "a tensor");
    assert_null(data);
    assert_ptr_equal(storage_data(storage), storage_data(snapshot));
    assert_int_equal(storage_version(storage), 0);
    storage_release(storage);
    storage_release(snapshot);
}

static void packable_is_of_the_storage_and_not_of_its_snapshot(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL, *snapshot = NULL;
    CHECK_OK(ctx, storage_create(ctx, 16, &storage));
    assert_false(storage_is_packable(storage));
    storage_set_packable(storage, true);
    assert_true(storage_is_packable(storage));
    CHECK_OK(ctx, storage_snapshot(ctx, storage, &snapshot));
    assert_false(storage_is_packable(snapshot));
    storage_release(storage);
    storage_release(snapshot);
}

/* Each thread has its own context. All make snapshots of one storage and write to them. */
static void *write_to_snapshots(void *shared)
{
    storage_t *source = shared;
    context_t *ctx = NULL;
    bool is_right = context_create(NULL, &ctx) == STATUS_OK;
    for (int i = 0; is_right && i < 200; i++) {
        storage_t *snapshot = NULL;
        void *data = NULL;
        is_right = storage_snapshot(ctx, storage_retain(source), &snapshot) == STATUS_OK &&
                   storage_writable(ctx, snapshot, &data) == STATUS_OK &&
                   strcmp(data, "shared") == 0;
        if (is_right) memset(data, i, storage_bytes(snapshot));
        storage_release(snapshot);
        storage_release(source);
    }
    context_destroy(ctx);
    return is_right ? shared : NULL;
}

static void threads_may_share_a_storage(void **state)
{
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL;
    pthread_t threads[4];
    CHECK_OK(ctx, storage_create(ctx, 8, &storage));
    memcpy(write_to(ctx, storage), "shared", 7);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_to_snapshots, storage), 0);
    for (int i = 0; i < 4; i++) {
        void *result = NULL;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, storage);
    }
    assert_string_equal(storage_data(storage), "shared");
    storage_release(storage);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(owned_bytes_are_aligned_and_counted),
        TEST(bytes_that_overflow_are_refused),
        TEST(a_write_stays_in_place_where_nobody_shares),
        TEST(a_snapshot_does_not_see_later_writes_nor_show_its_own),
        TEST(a_handle_in_one_block_with_its_bytes_outlives_their_use),
        TEST(many_bytes_have_a_block_of_their_own),
        TEST(a_read_only_buffer_is_copied_before_a_write),
        TEST(the_deleter_runs_when_the_last_user_lets_go),
        TEST(a_snapshot_of_borrowed_bytes_that_may_be_written_is_a_copy),
        TEST(a_refused_borrow_leaves_the_memory_to_the_caller),
        TEST(a_refused_copy_leaves_bytes_and_version),
        TEST(threads_may_share_a_storage),
        TEST(packable_is_of_the_storage_and_not_of_its_snapshot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
