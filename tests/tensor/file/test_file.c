#define _GNU_SOURCE /* for flock */

#include "tests/support/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/convert/form_impl.h"
#include "tensor/file/file.h"

static char directory[64];
static char path[128];

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/tessera_file_XXXXXX");
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(path, sizeof path, "%s/data", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(directory);
}

/* Counts the files in the directory, including temporary ones. */
static int n_files(void)
{
    DIR *opened = opendir(directory);
    assert_non_null(opened);
    int n = 0;
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (entry->d_name[0] != '.') n++;
    closedir(opened);
    return n;
}

static void put_text(const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void check_content(const char *text)
{
    char bytes[256] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes - 1, file);
    fclose(file);
    assert_int_equal(n, strlen(text));
    assert_string_equal(bytes, text);
}

static void a_file_appears_whole_at_the_commit(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    put_text("old");
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    CHECK_OK(ctx, file_write(writer, "hello, ", 7));
    CHECK_OK(ctx, file_write(writer, NULL, 0));
    CHECK_OK(ctx, file_write(writer, "world", 5));
    assert_int_equal(file_write_offset(writer), 12);
    check_content("old");
    CHECK_OK(ctx, file_write_end(writer, true));
    check_content("hello, world");
    assert_int_equal(n_files(), 1);
}

static void a_file_that_is_given_up_leaves_the_old_one(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    put_text("old");
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    CHECK_FAILS(ctx, file_write(writer, "new", SIZE_MAX), STATUS_INVALID_ARGUMENT,
                "bytes, too many for a buffer");
    CHECK_OK(ctx, file_write(writer, "new", 3));
    CHECK_OK(ctx, file_write_end(writer, false));
    check_content("old");
    assert_int_equal(n_files(), 1);
}

static void large_and_small_pieces_come_out_in_order(void **state)
{
    context_t *ctx = fixture_context(state);
    enum { LARGE = 200000 };
    unsigned char *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (int i = 0; i < LARGE; i++) bytes[i] = (unsigned char)(i * 31 >> 3);
    file_writer_t *writer = NULL;
    file_mapping_t *mapping = NULL;
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    const size_t pieces[] = {1, 7, 65535, 2, 70000, 65536, 3};
    size_t at = 0;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++, at = file_write_offset(writer))
        CHECK_OK(ctx, file_write(writer, bytes + at, at + pieces[i] > LARGE ? 0 : pieces[i]));
    for (; at < LARGE; at = file_write_offset(writer))
        CHECK_OK(ctx, file_write(writer, bytes + at, LARGE - at < 1000 ? LARGE - at : 1000));
    CHECK_OK(ctx, file_write_end(writer, true));
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    assert_int_equal(file_size(mapping), LARGE);
    assert_memory_equal(file_bytes(mapping), bytes, LARGE);
    file_release(mapping);
    free(bytes);
}

static void a_writer_that_failed_does_not_commit(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    struct rlimit before, small;
    static const char zeros[100000];
    put_text("old");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 70000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    status_t status = file_write(writer, zeros, sizeof zeros);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    CHECK_FAILS(ctx, status, STATUS_IO, "too large");
    CHECK_FAILS(ctx, file_write(writer, "x", 1), STATUS_IO, "too large");
    CHECK_FAILS(ctx, file_write_end(writer, true), STATUS_IO, "too large");
    check_content("old");
    assert_int_equal(n_files(), 1);
}

static void a_writer_without_a_place_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    CHECK_FAILS(ctx, file_write_begin(ctx, "/nonexistent/directory/data", &writer), STATUS_IO,
                "file: /nonexistent/directory/data");
    assert_null(writer);
}

static void a_target_that_cannot_be_replaced_is_told(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    unlink(path);
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    CHECK_OK(ctx, file_write(writer, "new", 3));
    assert_int_equal(mkdir(path, 0777), 0);
    CHECK_FAILS(ctx, file_write_end(writer, true), STATUS_IO, "file: ");
    assert_int_equal(n_files(), 1);
    assert_int_equal(rmdir(path), 0);
}

static void only_regular_files_are_replaced(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    struct stat about;
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    CHECK_FAILS(ctx, file_write_begin(ctx, path, &writer), STATUS_IO,
                "is a FIFO, only regular files are replaced");
    assert_int_equal(stat(path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    unlink(path);
    CHECK_FAILS(ctx, file_write_begin(ctx, directory, &writer), STATUS_IO, "is a directory");
    CHECK_FAILS(ctx, file_write_begin(ctx, "/dev/null", &writer), STATUS_IO,
                "file: /dev/null is a character device");
    assert_int_equal(stat("/dev/null", &about), 0);
    assert_true(S_ISCHR(about.st_mode));
    assert_int_equal(symlink("nowhere", path), 0);
    CHECK_FAILS(ctx, file_write_begin(ctx, path, &writer), STATUS_IO,
                "is a symbolic link to nothing");
    assert_null(writer);
    assert_int_equal(n_files(), 1);
    unlink(path);
}

static void a_write_through_a_link_replaces_the_file_behind_it_and_keeps_its_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    file_writer_t *writer = NULL;
    struct stat about;
    char link[160];
    snprintf(link, sizeof link, "%s/link", directory);
    put_text("old");
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink("data", link), 0);
    CHECK_OK(ctx, file_write_begin(ctx, link, &writer));
    CHECK_OK(ctx, file_write(writer, "new", 3));
    CHECK_OK(ctx, file_write_end(writer, true));
    check_content("new");
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    unlink(link);
}

static void make_file(const char *suffix, char *out_name)
{
    sprintf(out_name, "%s%s", path, suffix);
    FILE *file = fopen(out_name, "wb");
    assert_non_null(file);
    fclose(file);
}

/* Temporary files remain if a process is killed, here or on another machine, and are then removed.
 * Locked ones are being written, and files with other names are not Tessera's. */
static void temporaries_that_nobody_writes_are_removed(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const stay[] = {".77-1.tmp", ".tmp", ".77.tmp", ".77-1.tmp.old",
                                       "s.77-1.tmp"};
    enum { N = sizeof stay / sizeof *stay };
    char stale[2][256], others[N][256];
    file_writer_t *writer = NULL;
    make_file(".1234567-0.tmp", stale[0]);
    make_file(".1-99.tmp", stale[1]);
    for (int i = 0; i < N; i++) make_file(stay[i], others[i]);
    const int locked = open(others[0], O_RDONLY);
    assert_int_equal(flock(locked, LOCK_EX), 0);
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    CHECK_OK(ctx, file_write_end(writer, true));
    for (int i = 0; i < 2; i++) assert_int_equal(access(stale[i], F_OK), -1);
    for (int i = 0; i < N; i++) assert_int_equal(unlink(others[i]), 0);
    close(locked);
    assert_int_equal(n_files(), 1);
}

static void failures_to_map_give_the_reason(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    unlink(path);
    CHECK_FAILS(ctx, file_map(ctx, path, &mapping), STATUS_IO, "No such file");
    put_text("");
    CHECK_FAILS(ctx, file_map(ctx, path, &mapping), STATUS_CORRUPT, "the file is empty");
    CHECK_FAILS(ctx, file_map(ctx, directory, &mapping), STATUS_IO, "not a regular file");
    assert_null(mapping);
}

static void a_mapped_tensor_holds_the_file_and_a_write_copies(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    tensor_t *t = NULL;
    put_text("0123456789abcdef");
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    tensor_info_t info = info_dense(DTYPE_U8, SHAPE(2, 4));
    CHECK_OK(ctx, file_tensor(ctx, mapping, 8, &info, &t));
    assert_ptr_equal(tensor_bytes(t), (const char *)file_bytes(mapping) + 8);
    file_release(mapping);
    assert_memory_equal(tensor_bytes(t), "89abcdef", 8);
    assert_true(storage_is_read_only(t->storage));
    CHECK_OK(ctx, tensor_fill(ctx, t, 'x'));
    assert_memory_equal(tensor_bytes(t), "xxxxxxxx", 8);
    check_content("0123456789abcdef");
    tensor_release(t);
}

/* Returns how many pages of this process's memory are from files. */
static long n_file_pages(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d %*d %ld", &pages), 1);
    fclose(file);
    return pages;
}

enum { CHANNELS = 1024, CHANNELS_BYTES = CHANNELS * CHANNELS * 4 };

/* Writes a file of four other bytes and then f32[1024,1024,1,1] with 0, 1, 2, ... */
static void put_numbers(context_t *ctx)
{
    file_writer_t *writer = NULL;
    CHECK_OK(ctx, file_write_begin(ctx, path, &writer));
    CHECK_OK(ctx, file_write(writer, "data", 4));
    for (int i = 0; i < CHANNELS * CHANNELS; i++) {
        const float number = (float)i;
        CHECK_OK(ctx, file_write(writer, &number, sizeof number));
    }
    CHECK_OK(ctx, file_write_end(writer, true));
}

static bool has_numbers(const float *numbers)
{
    bool is_right = true;
    for (int i = 0; i < CHANNELS * CHANNELS; i++) is_right = is_right && numbers[i] == (float)i;
    return is_right;
}

static void a_file_leaves_memory_once_a_form_of_all_is_there(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    tensor_t *all = NULL, *half = NULL, *form = NULL;
    const format_t format = format_channel_blocks(4, 16);
    const tensor_info_t info = info_dense(DTYPE_F32, SHAPE(CHANNELS, CHANNELS, 1, 1));
    const tensor_info_t part = info_dense(DTYPE_F32, SHAPE(CHANNELS / 2, CHANNELS, 1, 1));
    const tensor_info_t want = info_mkldnn(&info, &format);
    const tensor_info_t want_part = info_mkldnn(&part, &format);
    put_numbers(ctx);
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    CHECK_OK(ctx, file_tensor(ctx, mapping, 4, &info, &all));
    file_release(mapping);
    assert_true(has_numbers(tensor_bytes(all)));

    /* The first reorder adds pages, because it loads code of oneDNN. */
    const long most = CHANNELS_BYTES / sysconf(_SC_PAGESIZE), before = n_file_pages();
    CHECK_OK(ctx, tensor_over(ctx, &part, all->storage, 0, &half));
    CHECK_OK(ctx, form_get(ctx, half, &want_part, NULL, CAUSE_WEIGHT, NULL, &form));
    const long with_half = n_file_pages();
    assert_true(before - with_half < most / 4);
    tensor_release(form);
    CHECK_OK(ctx, form_get(ctx, all, &want, NULL, CAUSE_WEIGHT, NULL, &form));
    assert_true(with_half - n_file_pages() > most - most / 4);
    assert_true(has_numbers(tensor_bytes(all)));
    tensor_release(form);
    tensor_release(half);
    tensor_release(all);
}

static void a_tensor_behind_the_end_of_a_file_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    tensor_t *t = NULL;
    put_text("0123456789abcdef");
    CHECK_OK(ctx, file_map(ctx, path, &mapping));
    tensor_info_t info = info_dense(DTYPE_F32, SHAPE(4));
    CHECK_FAILS(ctx, file_tensor(ctx, mapping, 4, &info, &t), STATUS_INVALID_ARGUMENT,
                "file_tensor: f32[4] at offset 4 exceeds the file of 16 bytes");
    CHECK_FAILS(ctx, file_tensor(ctx, mapping, SIZE_MAX - 3, &info, &t), STATUS_INVALID_ARGUMENT,
                "exceeds the file");
    info = info_dense(DTYPE_F32, SHAPE(2));
    CHECK_FAILS(ctx, file_tensor(ctx, mapping, 3, &info, &t), STATUS_INVALID_ARGUMENT,
                "must be a multiple of 4");
    assert_null(t);
    assert_ptr_equal(file_retain(mapping), mapping);
    file_release(mapping);
    file_release(mapping);
}

static status_t write_and_map(context_t *ctx)
{
    file_writer_t *writer = NULL;
    file_mapping_t *mapping = NULL;
    tensor_t *t = NULL;
    int64_t size = 4;
    TRY(file_write_begin(ctx, path, &writer));
    status_t status = file_write(writer, "data", 4);
    status_t ended = file_write_end(writer, status == STATUS_OK);
    if (status == STATUS_OK) status = ended;
    if (status == STATUS_OK) status = file_map(ctx, path, &mapping);
    tensor_info_t info = info_dense(DTYPE_U8, 1, &size);
    if (status == STATUS_OK) status = file_tensor(ctx, mapping, 0, &info, &t);
    if (status == STATUS_OK) status = tensor_fill(ctx, t, 1);
    file_release(mapping);
    tensor_release(t);
    return status;
}

static void files_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(write_and_map);
    assert_int_equal(n_files(), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_appears_whole_at_the_commit),
        TEST(a_file_that_is_given_up_leaves_the_old_one),
        TEST(large_and_small_pieces_come_out_in_order),
        TEST(a_writer_that_failed_does_not_commit),
        TEST(a_writer_without_a_place_is_refused),
        TEST(a_target_that_cannot_be_replaced_is_told),
        TEST(only_regular_files_are_replaced),
        TEST(a_write_through_a_link_replaces_the_file_behind_it_and_keeps_its_mode),
        TEST(temporaries_that_nobody_writes_are_removed),
        TEST(failures_to_map_give_the_reason),
        TEST(a_mapped_tensor_holds_the_file_and_a_write_copies),
        TEST(a_file_leaves_memory_once_a_form_of_all_is_there),
        TEST(a_tensor_behind_the_end_of_a_file_is_refused),
        TEST(files_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
