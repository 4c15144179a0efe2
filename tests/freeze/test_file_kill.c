/* If a process is killed while it saves, the file is the complete old or the complete new one. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <dirent.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tensor/threads/progress.h"
#include "tests/support/frozen_file.h"
#include "tests/support/nets/nets.h"

#define FOLDER "test_file_kill"
#define PATH FOLDER "/net.tessera"
enum { ROUNDS = 200 };

static module_t *frozen_with_version(context_t *ctx, int64_t version)
{
    module_t *net = net_residual(ctx), *frozen = NULL;
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_int(ctx, version, &datum));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "version", datum));
    CHECK_OK(ctx,
             freeze(ctx, net, &(freeze_options_t){.preserved = (const char *[]){"version", NULL}},
                    &frozen));
    datum_release(datum);
    module_release(net);
    return frozen;
}

/* Removes files with temporary names, which remain if a process is killed before it renames
 * them. */
static void remove_temporaries(void)
{
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[512];
        if (strstr(entry->d_name, ".tmp") == NULL) continue;
        snprintf(path, sizeof path, FOLDER "/%s", entry->d_name);
        assert_int_equal(remove(path), 0);
    }
    closedir(folder);
}

/* State of the child, in shared memory. is_writing is true from the last constant to the end of a
 * save. */
typedef struct place {
    atomic_bool is_writing;
    atomic_int n_saved;
} place_t;

static void note_progress(void *user, const progress_t *progress)
{
    place_t *place = user;
    if (progress->done == progress->total) place->is_writing = true;
}

/* Saves one version after another until it is killed. */
static void save_for_ever(context_t *ctx, module_t *const *versions, place_t *place)
{
    progress_listen(ctx, note_progress, place);
    for (int i = 0;; i = 1 - i) {
        if (freeze_save(ctx, versions[i], PATH) != STATUS_OK) _exit(1);
        place->is_writing = false;
        place->n_saved++;
    }
}

static void a_killed_save_leaves_a_whole_file(void **state)
{
    context_t *ctx = fixture_context(state);
    CHECK_OK(ctx, context_set_threads(ctx, 1)); /* fork copies no other threads, so use none */
    module_t *const versions[] = {frozen_with_version(ctx, 0), frozen_with_version(ctx, 1)};
    char *whole[2];
    size_t n[2];
    place_t *place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                          -1, 0);
    int n_interrupted = 0, n_saved = 0, n_of[2] = {0};
    assert_true(place != MAP_FAILED);
    (void)system("rm -rf " FOLDER " && mkdir " FOLDER);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, freeze_save(ctx, versions[i], PATH));
        whole[i] = frozen_file_read(PATH, &n[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        *place = (place_t){0};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) save_for_ever(ctx, versions, place);
        struct timespec pause = {.tv_nsec = 1000000 + rand() % 9000000};
        nanosleep(&pause, NULL);
        int status = 0;
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));

        size_t n_found = 0;
        char *found = frozen_file_read(PATH, &n_found);
        int version = n_found == n[0] && memcmp(found, whole[0], n[0]) == 0 ? 0 : 1;
        assert_int_equal(n_found, n[version]);
        assert_memory_equal(found, whole[version], n[version]);
        n_of[version]++;
        free(found);
        n_interrupted += place->is_writing;
        n_saved += place->n_saved;
        remove_temporaries();
    }
    module_t *loaded = NULL;
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    module_release(loaded);
    print_message(
        "%d saves done, %d interrupted as they wrote; %d left the one file, %d the other\n",
        n_saved, n_interrupted, n_of[0], n_of[1]);
    assert_true(n_interrupted > 0 && n_saved > 0);
    for (int i = 0; i < 2; i++) {
        free(whole[i]);
        module_release(versions[i]);
    }
    munmap(place, sizeof *place);
    (void)system("rm -r " FOLDER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(a_killed_save_leaves_a_whole_file)};
    srand(11);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
