#define _GNU_SOURCE

/* The store's table of known hashes: elements and weights that have not changed are not read again;
 * what has changed is. */
#include "tensor/file/file_block_impl.h"
#include "tensor/store/store_impl.h"

#include "tests/support/support.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/scratch.h"

enum { N = 20000 }; /* elements of a form */
static char folder[PATH_MAX], entry[PATH_MAX + 64];

static context_t *with_store(void **state)
{
    context_t *ctx = NULL;
    const fixture_t *fixture = *state;
    snprintf(folder, sizeof folder, "%.200s/store", scratch);
    assert_int_equal(context_create(&(context_options_t){.allocator = &fixture->memory.allocator,
                                                         .n_threads = 2,
                                                         .store = folder},
                                    &ctx),
                     STATUS_OK);
    return ctx;
}

static tensor_info_t form_info(void)
{
    const tensor_info_t dense = info_dense(DTYPE_F32, 1, (int64_t[]){N});
    const format_t format = format_owned(1, N, "test_memo", 1, 0, NULL);
    return info_mkldnn(&dense, &format);
}

static void name_form(context_t *ctx, store_key_t *out_key)
{
    static const float weight[N];
    const tensor_info_t from = info_dense(DTYPE_F32, 1, (int64_t[]){N}), want = form_info();
    assert_true(store_name(ctx, &from, weight, NULL, &want, out_key));
    snprintf(entry, sizeof entry, "%s/%s", folder, out_key->name);
}

/* Stores a form of ones. */
static void put(void **state)
{
    const tensor_info_t want = form_info();
    context_t *ctx = with_store(state);
    store_key_t key;
    tensor_t *form = NULL;
    void *bytes = NULL;
    name_form(ctx, &key);
    CHECK_OK(ctx, tensor_make_of(ctx, &want, info_bytes(&want), 0, &form, &bytes));
    for (int i = 0; i < N; i++) ((float *)bytes)[i] = 1;
    store_put(ctx, &key, form);
    tensor_drop(form);
    context_destroy(ctx);
}

/* Finds the form in a new context; returns the sum of its elements, or -1 if it is not found. */
static double find(void **state)
{
    const tensor_info_t want = form_info();
    context_t *ctx = with_store(state);
    store_key_t key;
    double sum = -1;
    name_form(ctx, &key);
    tensor_t *form = store_find(ctx, &key, &want);
    const float *elements = form != NULL ? tensor_bytes(form) : NULL;
    for (int i = 0; elements != NULL && i < N; i++) sum = (i > 0 ? sum : 0) + (double)elements[i];
    tensor_drop(form);
    context_destroy(ctx);
    return sum;
}

/* Sets the time of the last change; 0 is an hour ago. */
static void set_time(int64_t seconds)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = seconds}};
    if (seconds == 0) times[1].tv_sec = time(NULL) - 3600;
    assert_int_equal(utimensat(AT_FDCWD, entry, times, 0), 0);
}

/* Replaces an element of 1 by 3. */
static void damage(void)
{
    const float three = 3;
    const int file = open(entry, O_WRONLY);
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, &three, sizeof three, STORE_HEADER + 400), sizeof three);
    close(file);
}

/* A change that leaves the time of the last change as it was, which no program makes by accident,
 * shows that the elements were not read. */
static void known_elements_are_not_read(void **state)
{
    struct stat about;
    int n = 0;
    put(state);
    assert_true(find(state) == N);
    set_time(0);
    assert_true(find(state) == N); /* now the hash is known */
    assert_int_equal(stat(entry, &about), 0);
    damage();
    set_time(about.st_mtim.tv_sec);
    assert_true(find(state) == N + 2);
    context_t *ctx = with_store(state);
    CHECK_OK(ctx, store_verify(ctx, &n)); /* reads all bytes */
    assert_int_equal(n, 1);
    context_destroy(ctx);
}

static void changed_elements_are_read(void **state)
{
    for (int i = 0; i < 3; i++) {
        put(state);
        set_time(0);
        assert_true(find(state) == N);
        damage();
        if (i == 1) set_time(time(NULL) - 1000);
        if (i == 2) set_time(time(NULL) + 1000);
        assert_true(find(state) == -1);
        assert_int_not_equal(access(entry, F_OK), 0); /* it was removed */
    }
}

/* ---- ranges ---- */

static void young_files_have_no_range(void **state)
{
    context_t *ctx = with_store(state);
    char path[PATH_MAX + 16];
    file_mapping_t *mapping = NULL;
    file_range_t range;
    snprintf(path, sizeof path, "%.200s/young", scratch);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("a weight", file) >= 0);
    assert_int_equal(fclose(file), 0);
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    assert_false(file_range(mapping, file_bytes(mapping), 4, &range));
    file_release(mapping);
    /* An old time of change does not help: the metadata are young. */
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    assert_false(file_range(mapping, file_bytes(mapping), 4, &range));
    file_release(mapping);
    /* In a file of the store only the store changes the metadata. */
    const int open_file = open(path, O_RDONLY);
    CHECK_OK(ctx, file_map_open(ctx, path, open_file, &mapping));
    assert_true(file_range(mapping, file_bytes(mapping), 4, &range));
    assert_int_equal(range.changed, 0);
    file_release(mapping);
    close(open_file);
    context_destroy(ctx);
}

/* Maps this program, which is older than two seconds once it has slept. */
static file_mapping_t *map_program(context_t *ctx)
{
    file_mapping_t *mapping = NULL;
    file_range_t range;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(ctx, file_map(ctx, "/proc/self/exe", &mapping));
        if (file_range(mapping, file_bytes(mapping), 1, &range)) return mapping;
        file_release(mapping);
        sleep(1);
    }
    fail_msg("the program stays young");
    return NULL;
}

static file_range_t range_at(const file_mapping_t *mapping, size_t at, size_t n_bytes)
{
    file_range_t range;
    assert_true(file_range(mapping, (const char *)file_bytes(mapping) + at, n_bytes, &range));
    return range;
}

static void ranges_are_told_apart(void **state)
{
    context_t *ctx = with_store(state);
    const store_t *store = store_of(ctx);
    file_mapping_t *mapping = map_program(ctx);
    file_range_t range = range_at(mapping, 64, 100), other;
    uint64_t hash[2], *members = (uint64_t *)(void *)&range;
    assert_non_null(store);
    store_note(store, &range, (uint64_t[]){17, 18});
    assert_true(store_recall(store, &range, hash));
    assert_true(hash[0] == 17 && hash[1] == 18);
    for (size_t i = 0; i < sizeof range / sizeof *members; i++) {
        members[i]++;
        assert_false(store_recall(store, &range, hash));
        members[i]--;
    }
    assert_false(file_range(mapping, file_bytes(mapping), file_size(mapping) + 1, &other));
    assert_false(file_range(mapping, (const char *)file_bytes(mapping) - 1, 1, &other));
    assert_false(file_range(NULL, NULL, 0, &other));
    assert_false(store_is_checked(ctx, mapping, 5));
    store_set_checked(ctx, mapping, 5);
    assert_true(store_is_checked(ctx, mapping, 5));
    assert_false(store_is_checked(ctx, mapping, 6));
    file_release(mapping);
    context_destroy(ctx);
}

/* ---- the table ---- */

static char *table(void)
{
    static char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/tessera-store-hashes", folder);
    return path;
}

/* Notes ranges 0 to n - 1; range i has hash (i, ~i). Returns the number that is found. */
static int count_known(const store_t *store, const file_range_t *first, int n, bool is_noted)
{
    int n_found = 0;
    for (int i = 0; i < n; i++) {
        file_range_t range = *first;
        uint64_t hash[2];
        range.offset = (uint64_t)i;
        if (is_noted) store_note(store, &range, (uint64_t[]){(uint64_t)i, ~(uint64_t)i});
        if (!store_recall(store, &range, hash)) continue;
        assert_true(hash[0] == (uint64_t)i && hash[1] == ~(uint64_t)i);
        n_found++;
    }
    return n_found;
}

static void the_table_is_bounded(void **state)
{
    context_t *ctx = with_store(state);
    file_mapping_t *mapping = map_program(ctx);
    const file_range_t first = range_at(mapping, 0, 1);
    struct stat about;
    assert_int_equal(count_known(store_of(ctx), &first, 2000, true), 2000);
    assert_true(count_known(store_of(ctx), &first, 2000, false) > 1950);
    assert_int_equal(count_known(store_of(ctx), &first, 30000, true), 30000);
    assert_true(count_known(store_of(ctx), &first, 30000, false) > 5000);
    assert_int_equal(stat(table(), &about), 0);
    assert_true(about.st_size < 1 << 20);
    file_release(mapping);
    context_destroy(ctx);
}

/* Damage of any kind loses hashes; count_known fails if it changes one. */
static void damaged_tables_lose_hashes(void **state)
{
    context_t *ctx = with_store(state);
    file_mapping_t *mapping = map_program(ctx);
    const file_range_t first = range_at(mapping, 0, 1);
    struct stat about;
    assert_int_equal(count_known(store_of(ctx), &first, 500, true), 500);
    const int file = open(table(), O_RDWR);
    assert_true(file >= 0 && fstat(file, &about) == 0);
    srand(1);
    for (int i = 0; i < 100000; i++) {
        const unsigned char byte = (unsigned char)rand();
        assert_int_equal(pwrite(file, &byte, 1, rand() % about.st_size), 1);
    }
    assert_true(count_known(store_of(ctx), &first, 500, false) < 450);
    assert_int_equal(ftruncate(file, 1000), 0);
    assert_true(count_known(store_of(ctx), &first, 500, false) < 10);
    assert_int_equal(count_known(store_of(ctx), &first, 500, true), 500);
    close(file);
    file_release(mapping);
    context_destroy(ctx);
}

/* A table that others may write, or that is no regular file, is not used, and forms still are. */
static void unfit_tables_are_not_used(void **state)
{
    file_range_t range = {0};
    uint64_t hash[2];
    put(state);
    set_time(0);
    for (int i = 0; i < 3; i++) {
        (void)unlink(table());
        if (i == 0) assert_int_equal(mkfifo(table(), 0600), 0);
        if (i == 1) assert_int_equal(symlink("/proc/self/exe", table()), 0);
        if (i == 2) {
            const int file = open(table(), O_WRONLY | O_CREAT, 0600);
            assert_true(file >= 0);
            assert_int_equal(fchmod(file, 0666), 0);
            close(file);
        }
        context_t *ctx = with_store(state);
        assert_non_null(store_path(ctx));
        store_note(store_of(ctx), &range, (uint64_t[]){1, 2});
        assert_false(store_recall(store_of(ctx), &range, hash));
        context_destroy(ctx);
        assert_true(find(state) == N);
    }
    assert_int_equal(unlink(table()), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_elements_are_not_read), TEST(changed_elements_are_read),
        TEST(young_files_have_no_range),   TEST(ranges_are_told_apart),
        TEST(the_table_is_bounded),        TEST(damaged_tables_lose_hashes),
        TEST(unfit_tables_are_not_used),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
