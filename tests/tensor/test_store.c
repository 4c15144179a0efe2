#define _GNU_SOURCE

/* The store of packed forms: what is put in is found, bit for bit, by later contexts and processes;
 * whatever happens to the files, a form is either right or not found. */
#include "tensor/store/store_impl.h"

#include "tests/support/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tensor/convert/form_impl.h"
#include "tensor/scope.h"
#include "tests/support/scratch.h"

enum { N = 40000 }; /* elements of a form: more than STORE_LEAST_BYTES */
static char folder[PATH_MAX];

/* A folder of its own for each test. */
static void new_folder(void)
{
    static int serial;
    snprintf(folder, sizeof folder, "%s/%d/store", scratch, serial++);
}

static context_t *with_store(const counting_t *memory, int64_t limit)
{
    context_t *ctx = NULL;
    assert_int_equal(context_create(&(context_options_t){.allocator = &memory->allocator,
                                                         .n_threads = 2,
                                                         .store = folder,
                                                         .store_bytes = limit},
                                    &ctx),
                     STATUS_OK);
    return ctx;
}

static const counting_t *memory_of(void **state)
{
    return &((fixture_t *)*state)->memory;
}

/* Weight and form number `seed`: the form is the weight plus 1. */
static void fill(int seed, int plus, float *out)
{
    for (int i = 0; i < N; i++) out[i] = (float)((i * 7 + seed * 31) % 1000 + plus);
}

static tensor_info_t info_of_form(void)
{
    const tensor_info_t dense = info_dense(DTYPE_F32, 1, (int64_t[]){N});
    const format_t format = format_owned(1, N, "test_store", 1, 0, NULL);
    return info_mkldnn(&dense, &format);
}

static bool name_form(context_t *ctx, int seed, store_key_t *out_key)
{
    static _Thread_local float weight[N];
    const tensor_info_t from = info_dense(DTYPE_F32, 1, (int64_t[]){N}), want = info_of_form();
    fill(seed, 0, weight);
    return store_name(ctx, &from, weight, NULL, &want, out_key);
}

static void put(context_t *ctx, int seed)
{
    const tensor_info_t want = info_of_form();
    store_key_t key;
    tensor_t *form = NULL;
    void *bytes = NULL;
    assert_true(name_form(ctx, seed, &key));
    CHECK_OK(ctx, tensor_make_of(ctx, &want, info_bytes(&want), 0, &form, &bytes));
    fill(seed, 1, bytes);
    store_put(ctx, &key, form);
    tensor_drop(form);
}

/* Returns true if the form is found; then it must be right. */
static bool find(context_t *ctx, int seed)
{
    static _Thread_local float right[N];
    const tensor_info_t want = info_of_form();
    store_key_t key;
    if (!name_form(ctx, seed, &key)) return false;
    tensor_t *form = store_find(ctx, &key, &want);
    if (form == NULL) return false;
    fill(seed, 1, right);
    assert_memory_equal(tensor_bytes(form), right, sizeof right);
    assert_true(info_equal(&form->info, &want));
    assert_true(storage_is_read_only(form->storage));
    tensor_drop(form);
    return true;
}

/* Puts forms [0, n) with a context of its own, which writes them when it ends. */
static void put_all(void **state, int n, int64_t limit)
{
    context_t *ctx = with_store(memory_of(state), limit);
    for (int i = 0; i < n; i++) put(ctx, i);
    context_destroy(ctx);
}

static int count_found(void **state, int n)
{
    context_t *ctx = with_store(memory_of(state), 0);
    int n_found = 0;
    for (int i = 0; i < n; i++) n_found += find(ctx, i);
    context_destroy(ctx);
    return n_found;
}

/* Counts files by the end of their names; sets out_path, if not NULL, to the last one. */
static int count_files(const char *end, char *out_path)
{
    int n = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        const size_t length = strlen(entry->d_name), of_end = strlen(end);
        if (length < of_end || strcmp(entry->d_name + length - of_end, end) != 0) continue;
        if (out_path != NULL) snprintf(out_path, PATH_MAX, "%.200s/%.200s", folder, entry->d_name);
        n++;
    }
    closedir(entries);
    return n;
}

/* ---- what works ---- */

static void forms_are_found_by_other_contexts(void **state)
{
    new_folder();
    context_t *ctx = with_store(memory_of(state), 0);
    assert_string_equal(store_path(ctx), folder);
    assert_false(find(ctx, 0));
    put(ctx, 0);
    CHECK_OK(ctx, store_flush(ctx));
    assert_true(find(ctx, 0));
    assert_false(find(ctx, 1)); /* the same form of another weight */
    assert_string_equal(context_error(ctx), "");
    context_destroy(ctx);
    put_all(state, 3, 0);
    assert_int_equal(count_found(state, 3), 3);
    assert_int_equal(count_files(".form", NULL), 3);
    assert_int_equal(count_files(".tmp", NULL), 0);
}

static void small_forms_and_strided_weights_are_not_stored(void **state)
{
    new_folder();
    static const float weight[N];
    const tensor_info_t from = info_dense(DTYPE_F32, 1, (int64_t[]){N});
    const tensor_info_t small = info_dense(DTYPE_F32, 1, (int64_t[]){100});
    const tensor_info_t rows = info_strided(DTYPE_F32, 2, (int64_t[]){N / 2, 2},
                                            (int64_t[]){1, N / 2});
    store_key_t key;
    context_t *ctx = with_store(memory_of(state), 0);
    assert_true(store_name(ctx, &from, weight, NULL, &from, &key));
    assert_false(store_name(ctx, &small, weight, NULL, &small, &key));
    assert_false(store_name(ctx, &rows, weight, NULL, &from, &key));
    context_destroy(ctx);
}

static status_t expect_entry(void *user, const store_entry_t *entry)
{
    int *n = user;
    struct stat about;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.200s/%.200s", folder, entry->name);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(entry->n_bytes, about.st_size);
    assert_true(llabs((long long)entry->used - (long long)time(NULL)) < 100);
    *n += entry->is_whole && strstr(entry->text, "f32[40000] -> mkldnn f32[40000]") != NULL;
    return STATUS_OK;
}

static status_t stop_at_once(void *user, const store_entry_t *entry)
{
    (void)entry;
    ++*(int *)user;
    return STATUS_LIMIT;
}

static void files_are_listed_and_trimmed(void **state)
{
    new_folder();
    put_all(state, 3, 0);
    context_t *ctx = with_store(memory_of(state), 0);
    int n = 0;
    CHECK_OK(ctx, store_list(ctx, true, expect_entry, &n));
    assert_int_equal(n, 3);
    n = 0;
    assert_int_equal(store_list(ctx, false, stop_at_once, &n), STATUS_LIMIT);
    assert_int_equal(n, 1);
    CHECK_FAILS(ctx, store_list(ctx, false, NULL, NULL), STATUS_INVALID_ARGUMENT, "visit");
    CHECK_OK(ctx, store_trim(ctx, 2 * (N * 4 + STORE_HEADER), &n));
    assert_int_equal(n, 1);
    CHECK_OK(ctx, store_verify(ctx, &n));
    assert_int_equal(n, 0);
    CHECK_OK(ctx, store_trim(ctx, 0, &n));
    assert_int_equal(n, 2);
    CHECK_FAILS(ctx, store_trim(ctx, -1, NULL), STATUS_INVALID_ARGUMENT, "-1 bytes");
    context_destroy(ctx);
}

/* The least recently used forms go; one that is larger than the limit is not written. */
static void the_limit_holds(void **state)
{
    new_folder();
    char path[PATH_MAX];
    put_all(state, 1, 0);
    assert_int_equal(count_files(".form", path), 1);
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    put_all(state, 3, 2 * (N * 4 + STORE_HEADER));
    assert_int_equal(count_files(".form", NULL), 2);
    assert_int_not_equal(access(path, F_OK), 0);
    new_folder();
    put_all(state, 3, 1000);
    assert_int_equal(count_files(".form", NULL), 0);
}

static status_t look(void *user, const store_entry_t *entry)
{
    (void)user;
    return entry->is_whole ? STATUS_OK : STATUS_CORRUPT;
}

/* A use makes a file young; so does a use of a file from the future, if the clock was set back. A
 * listing is no use. */
static void uses_are_noted(void **state)
{
    new_folder();
    char path[PATH_MAX];
    struct stat about;
    put_all(state, 1, 0);
    assert_int_equal(count_files(".form", path), 1);
    for (int i = 0; i < 2; i++) {
        const time_t when = time(NULL) + (i == 0 ? -100000 : 100000);
        const struct timespec times[2] = {{.tv_sec = when}, {.tv_sec = when}};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        context_t *ctx = with_store(memory_of(state), 0);
        CHECK_OK(ctx, store_list(ctx, true, look, NULL));
        context_destroy(ctx);
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_atime, when);
        assert_int_equal(count_found(state, 1), 1);
        assert_int_equal(stat(path, &about), 0);
        assert_true(llabs((long long)about.st_atime - (long long)time(NULL)) < 100);
    }
}

/* ---- damage ---- */

static void flip(const char *path, long at, int bit)
{
    const int file = open(path, O_RDWR);
    unsigned char byte;
    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= (unsigned char)(1 << bit);
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

/* Each byte of the header, and random bits of the elements. */
static void damage_is_found(void **state)
{
    new_folder();
    char path[PATH_MAX];
    put_all(state, 1, 0);
    assert_int_equal(count_files(".form", path), 1);
    context_t *ctx = with_store(memory_of(state), 0);
    srand(1);
    for (int i = 0; i < STORE_HEADER + 1000; i++) {
        const long at = i < STORE_HEADER ? i : STORE_HEADER + rand() % (N * 4);
        flip(path, at, rand() % 8);
        assert_false(find(ctx, 0));
        assert_int_not_equal(access(path, F_OK), 0); /* it was removed */
        put(ctx, 0);
        CHECK_OK(ctx, store_flush(ctx));
    }
    assert_true(find(ctx, 0));
    context_destroy(ctx);
}

static void other_lengths_are_found(void **state)
{
    new_folder();
    char path[PATH_MAX];
    static const long lengths[] = {0,
                                   1,
                                   100,
                                   STORE_HEADER - 1,
                                   STORE_HEADER,
                                   STORE_HEADER + 1,
                                   STORE_HEADER + N * 4 - 1,
                                   STORE_HEADER + N * 4 + 1,
                                   1 << 20};
    int n = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_all(state, 2, 0);
        assert_int_equal(count_files(".form", path), 2);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_int_equal(count_found(state, 2), 1);
    }
    put_all(state, 2, 0);
    assert_int_equal(truncate(path, 5000), 0);
    context_t *ctx = with_store(memory_of(state), 0);
    CHECK_OK(ctx, store_verify(ctx, &n));
    assert_int_equal(n, 1);
    context_destroy(ctx);
}

/* An entry under another entry's name: its header is right, but the text is another's. */
static void exchanged_files_are_found(void **state)
{
    new_folder();
    char path[PATH_MAX], other[PATH_MAX + 16];
    put_all(state, 1, 0);
    assert_int_equal(count_files(".form", path), 1);
    snprintf(other, sizeof other, "%s/kept", folder);
    assert_int_equal(rename(path, other), 0);
    context_t *ctx = with_store(memory_of(state), 0);
    put(ctx, 1);
    context_destroy(ctx);
    assert_int_equal(count_files(".form", path), 1);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(count_found(state, 2), 0);
}

/* With another secret all names change, so old files are not found, and new ones are made. */
static void a_damaged_secret_makes_stored_files_unusable(void **state)
{
    new_folder();
    char path[PATH_MAX + 16];
    put_all(state, 2, 0);
    snprintf(path, sizeof path, "%.200s/tessera-store-key", folder);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(count_found(state, 2), 0);
    put_all(state, 2, 0);
    assert_int_equal(count_found(state, 2), 2);
    assert_int_equal(count_files(".form", NULL), 4);
    context_t *ctx = with_store(memory_of(state), 0);
    int n = 0;
    CHECK_OK(ctx, store_verify(ctx, &n));
    assert_int_equal(n, 2);
    context_destroy(ctx);
}

/* Another program could change a weight of a mapped file while it is packed. The store must not
 * get the form of other bytes than those that its name is made of. */
static float shared_weight[N];

static status_t pack_while_it_changes(context_t *ctx, const tensor_info_t *from, const void *bytes,
                                      const tensor_info_t *want, void *out)
{
    (void)ctx, (void)from;
    fill(99, 0, shared_weight);
    for (int i = 0; i < N; i++) ((float *)out)[i] = ((const float *)bytes)[i] + 1.0f;
    assert_int_equal(info_bytes(want), N * sizeof(float));
    return STATUS_OK;
}

static void a_weight_that_changes_is_not_stored_wrong(void **state)
{
    new_folder();
    const tensor_info_t dense = info_dense(DTYPE_F32, 1, (int64_t[]){N}), want = info_of_form();
    context_t *ctx = with_store(memory_of(state), 0);
    storage_t *storage = NULL;
    tensor_t *weight = NULL, *form = NULL;
    bool is_made = false;
    fill(0, 0, shared_weight);
    CHECK_OK(ctx,
             storage_borrow(ctx, shared_weight, sizeof shared_weight, true, NULL, NULL, &storage));
    storage_set_constant(storage, true);
    CHECK_OK(ctx, tensor_over(ctx, &dense, storage, 0, &weight));
    storage_release(storage);
    CHECK_OK(ctx,
             form_get(ctx, weight, &want, pack_while_it_changes, CAUSE_WEIGHT, &is_made, &form));
    assert_true(is_made);
    tensor_drop(form), tensor_drop(weight);
    context_destroy(ctx);
    assert_int_equal(count_files(".form", NULL), 1);
    assert_int_equal(count_found(state, 1), 1);
}

/* ---- folders and files that must not be used ---- */

/* The folder may be the user's for other things, too. */
static void files_of_others_stay(void **state)
{
    static const char *const names[] = {"secret",
                                        "a.form",
                                        "b.form.tmp",
                                        "c.tmp",
                                        "0123456789abcdef.form",
                                        "0123456789abcdef0123456789abcdef0.form"};
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    char path[PATH_MAX];
    int n = 0;
    new_folder();
    put_all(state, 1, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%.200s/%s", folder, names[i]);
        const int file = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(file >= 0);
        close(file);
        assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    context_t *ctx = with_store(memory_of(state), 0);
    CHECK_OK(ctx, store_verify(ctx, &n));
    assert_int_equal(n, 0);
    CHECK_OK(ctx, store_trim(ctx, 0, &n));
    assert_int_equal(n, 1);
    context_destroy(ctx);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%.200s/%s", folder, names[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void check_no_store(void **state, const char *path)
{
    context_t *ctx = NULL;
    const counting_t *memory = memory_of(state);
    int n = 1;
    snprintf(folder, sizeof folder, "%s", path);
    ctx = with_store(memory, 0);
    assert_null(store_path(ctx));
    assert_false(find(ctx, 0));
    CHECK_OK(ctx, store_list(ctx, true, stop_at_once, &n));
    CHECK_OK(ctx, store_trim(ctx, 0, &n));
    assert_int_equal(n, 0);
    CHECK_OK(ctx, store_verify(ctx, NULL));
    CHECK_OK(ctx, store_flush(ctx));
    context_destroy(ctx);
}

static void unfit_folders_are_not_used(void **state)
{
    char path[PATH_MAX];
    check_no_store(state, "");
    check_no_store(state, "off");
    check_no_store(state, "/dev/null/store");
    check_no_store(state, "/proc/store");
    new_folder();
    put_all(state, 1, 0);
    snprintf(path, sizeof path, "%s", folder);
    assert_int_equal(chmod(path, 0770), 0); /* the group may write */
    check_no_store(state, path);
    assert_int_equal(chmod(path, 0707), 0);
    check_no_store(state, path);
    assert_int_equal(chmod(path, 0755), 0); /* others may read */
    assert_int_equal(count_found(state, 1), 1);
    if (geteuid() != 0) {
        check_no_store(state, "/usr");
        return;
    }
    assert_int_equal(chown(path, 12345, 12345), 0); /* root could read it, but it is not root's */
    check_no_store(state, path);
}

static void unfit_files_are_not_used(void **state)
{
    new_folder();
    char path[PATH_MAX], other[PATH_MAX + 16];
    put_all(state, 1, 0);
    assert_int_equal(count_files(".form", path), 1);
    assert_int_equal(chmod(path, 0620), 0);
    assert_int_equal(count_found(state, 1), 0);
    context_t *ctx = with_store(memory_of(state), 0);
    int n = 1;
    CHECK_OK(ctx, store_verify(ctx, &n)); /* it cannot be used, but is not damaged */
    assert_int_equal(n, 0);
    context_destroy(ctx);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(count_found(state, 1), 1);
    snprintf(other, sizeof other, "%s/elsewhere", folder);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_int_equal(count_found(state, 1), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(count_found(state, 1), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(other, path), 0);
    if (geteuid() != 0) return;
    assert_int_equal(chown(path, 12345, 12345), 0);
    assert_int_equal(count_found(state, 1), 0);
}

/* The user's environment decides if the option does not. */
static void the_environment_chooses_the_folder(void **state)
{
    static const char *const names[] = {"TESSERA_STORE", "XDG_CACHE_HOME", "HOME"};
    static const char *const ends[] = {"", "/tessera", "/.cache/tessera"};
    char *before[3], path[PATH_MAX], wanted[PATH_MAX];
    (void)state;
    new_folder();
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        before[i] = value != NULL ? strdup(value) : NULL;
        snprintf(path, sizeof path, "%.200s/%d", folder, i);
        assert_int_equal(setenv(names[i], path, 1), 0);
    }
    for (int i = 0; i <= 4; i++) {
        context_t *ctx = NULL;
        assert_int_equal(context_create(&(context_options_t){.n_threads = 1}, &ctx), STATUS_OK);
        if (i < 3) {
            snprintf(wanted, sizeof wanted, "%.200s/%d%s", folder, i, ends[i]);
            assert_string_equal(store_path(ctx), wanted);
            unsetenv(names[i]);
        } else {
            assert_null(store_path(ctx));
            setenv("HOME", "relative", 1);
        }
        context_destroy(ctx);
    }
    for (int i = 0; i < 3; i++) {
        if (before[i] == NULL)
            unsetenv(names[i]);
        else
            setenv(names[i], before[i], 1);
        free(before[i]);
    }
}

/* ---- processes ---- */

static pid_t start(void (*body)(void **state, int index), void **state, int index)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0) return child;
    body(state, index);
    _exit(0);
}

static void wait_for(pid_t child, int signal_number)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (signal_number == 0 || !WIFSIGNALED(status)) {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    } else {
        assert_int_equal(WTERMSIG(status), signal_number);
    }
}

enum { AT_ONCE = 8, FORMS = 6 };

static void put_and_find(void **state, int index)
{
    for (int round = 0; round < 3; round++) {
        context_t *ctx = with_store(memory_of(state), 0);
        for (int i = 0; i < FORMS; i++)
            if (!find(ctx, (i + index) % FORMS)) put(ctx, (i + index) % FORMS);
        context_destroy(ctx);
    }
}

static void processes_may_store_at_once(void **state)
{
    pid_t children[AT_ONCE];
    new_folder();
    for (int i = 0; i < AT_ONCE; i++) children[i] = start(put_and_find, state, i);
    for (int i = 0; i < AT_ONCE; i++) wait_for(children[i], 0);
    assert_int_equal(count_found(state, FORMS), FORMS);
    assert_int_equal(count_files(".form", NULL), FORMS);
    assert_int_equal(count_files(".tmp", NULL), 0);
}

static void store_for_ever(void **state, int index)
{
    for (int i = index;; i = (i + 1) % 100) {
        context_t *ctx = with_store(memory_of(state), 10 * (N * 4 + STORE_HEADER));
        if (!find(ctx, i)) put(ctx, i);
        context_destroy(ctx);
    }
}

static void make_temporaries_old(void)
{
    const struct timespec old[2] = {{.tv_sec = 1000000}, {.tv_sec = 1000000}};
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strstr(entry->d_name, ".tmp") != NULL)
            assert_int_equal(utimensat(dirfd(entries), entry->d_name, old, 0), 0);
    closedir(entries);
}

static void kills_leave_no_wrong_file(void **state)
{
    const int n_rounds = IS_SLOW ? 40 : 200;
    int n = 0;
    new_folder();
    srand(2);
    for (int round = 0; round < n_rounds; round++) {
        const pid_t child = start(store_for_ever, state, round % 100);
        const struct timespec pause = {.tv_nsec = rand() % (IS_SLOW ? 60000000 : 20000000)};
        nanosleep(&pause, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        wait_for(child, SIGKILL);
    }
    (void)count_found(state, 100); /* what is found is right */
    context_t *ctx = with_store(memory_of(state), 0);
    CHECK_OK(ctx, store_verify(ctx, &n));
    assert_int_equal(n, 0);
    make_temporaries_old();
    CHECK_OK(ctx, store_trim(ctx, 10 * (N * 4 + STORE_HEADER), NULL));
    assert_int_equal(count_files(".tmp", NULL), 0); /* left files are removed */
    context_destroy(ctx);
}

/* The disk is full: a limit on the size of files fails the writes. */
static void store_on_a_full_disk(void **state, int index)
{
    (void)index;
    const struct rlimit limit = {100000, 100000};
    (void)signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
    put_all(state, 3, 0);
    if (count_found(state, 3) != 0) _exit(1);
}

static void a_full_disk_does_no_harm(void **state)
{
    new_folder();
    wait_for(start(store_on_a_full_disk, state, 0), 0);
    assert_int_equal(count_files(".form", NULL), 0);
    assert_int_equal(count_files(".tmp", NULL), 0);
    put_all(state, 3, 0);
    assert_int_equal(count_found(state, 3), 3);
}

/* Only the folder can be opened: the process has no other descriptor left. */
static void store_without_descriptors(void **state, int index)
{
    (void)index;
    const int next = dup(0);
    close(next);
    const struct rlimit limit = {(rlim_t)next + 1, (rlim_t)next + 1};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(1);
    context_t *ctx = with_store(memory_of(state), 0);
    if (store_path(ctx) != NULL) _exit(1);
    context_destroy(ctx);
}

static void a_lack_of_descriptors_does_no_harm(void **state)
{
    new_folder();
    put_all(state, 2, 0);
    wait_for(start(store_without_descriptors, state, 0), 0);
    assert_int_equal(count_found(state, 2), 2);
}

static void use_the_parents_context(void **state, int index)
{
    context_t *ctx = (context_t *)(uintptr_t)*state;
    (void)index;
    (void)alarm(20); /* a child that waits for the thread of its parent would wait forever */
    put(ctx, 1);
    if (store_flush(ctx) != STATUS_OK || !find(ctx, 1)) _exit(1);
    context_destroy(ctx);
}

/* A child has no writing thread: it starts its own. */
static void a_forked_child_stores(void **state)
{
    new_folder();
    context_t *ctx = with_store(memory_of(state), 0);
    for (int i = 0; i < 5; i++) {
        /* The thread writes during the fork. */
        for (int k = 0; k < 40; k++) put(ctx, 100 + 40 * i + k);
#ifdef __SANITIZE_ADDRESS__
        store_flush(ctx); /* this sanitizer's locks stay locked in a child if a thread held them */
#endif
        void *shared = ctx;
        wait_for(start(use_the_parents_context, &shared, 0), 0);
    }
    context_destroy(ctx);
    assert_int_equal(count_files(".form", NULL), 201);
}

/* ---- memory and threads ---- */

/* Packs a weight of a mapped file, each time with another allocation refused. Returns how often
 * that failed. */
static int count_failures(const char *store)
{
    const tensor_info_t dense = info_dense(DTYPE_F32, 1, (int64_t[]){N}), want = info_of_form();
    int n_failures = 0;
    long n_refused = 1;
    for (long n = 1; n_refused > 0; n++) {
        counting_t memory;
        context_t *ctx = NULL;
        storage_t *storage = NULL;
        tensor_t *weight = NULL, *form = NULL;
        counting_begin(&memory);
        assert_int_equal(context_create(&(context_options_t){.allocator = &memory.allocator,
                                                             .n_threads = 1,
                                                             .store = store},
                                        &ctx),
                         STATUS_OK);
        CHECK_OK(ctx, storage_borrow(ctx, shared_weight, sizeof shared_weight, true, NULL, NULL,
                                     &storage));
        storage_set_constant(storage, true);
        CHECK_OK(ctx, tensor_over(ctx, &dense, storage, 0, &weight));
        storage_release(storage);
        counting_fail(&memory, n, false);
        n_failures += form_get(ctx, weight, &want, pack_while_it_changes, CAUSE_WEIGHT, NULL,
                               &form) != STATUS_OK;
        n_refused = atomic_load(&memory.refused);
        counting_fail(&memory, 0, false);
        tensor_drop(form);
        tensor_drop(weight);
        context_destroy(ctx);
        assert_int_equal(atomic_load(&memory.live), 0);
    }
    return n_failures;
}

static void the_store_adds_no_failure(void **state)
{
    (void)state;
    new_folder();
    const int n_without = count_failures("off");
    assert_true(n_without > 0);
    for (int i = 0; i < 3; i++) assert_true(count_failures(folder) <= n_without);
}

typedef struct worker {
    void **state;
    int index;
} worker_t;

static void *work(void *user)
{
    const worker_t *worker = user;
    put_and_find(worker->state, worker->index);
    return NULL;
}

static void threads_may_store_at_once(void **state)
{
    pthread_t threads[4];
    worker_t workers[4];
    new_folder();
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker_t){state, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(count_found(state, FORMS), FORMS);
    assert_int_equal(count_files(".form", NULL), FORMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_are_found_by_other_contexts),
        TEST(small_forms_and_strided_weights_are_not_stored),
        TEST(files_are_listed_and_trimmed),
        TEST(the_limit_holds),
        TEST(uses_are_noted),
        TEST(damage_is_found),
        TEST(other_lengths_are_found),
        TEST(exchanged_files_are_found),
        TEST(a_damaged_secret_makes_stored_files_unusable),
        TEST(a_weight_that_changes_is_not_stored_wrong),
        TEST(files_of_others_stay),
        TEST(unfit_folders_are_not_used),
        TEST(unfit_files_are_not_used),
        TEST(the_environment_chooses_the_folder),
        TEST(processes_may_store_at_once),
        TEST(kills_leave_no_wrong_file),
        TEST(a_full_disk_does_no_harm),
        TEST(a_lack_of_descriptors_does_no_harm),
        TEST(a_forked_child_stores),
        TEST(the_store_adds_no_failure),
        TEST(threads_may_store_at_once),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
