/* One file is used by several machines, which differ in instruction set, number of threads and
 * version of oneDNN. The tests run the command, because each process has one of each. */
#include "tests/support/support.h"

#include "tests/support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define OURS TESSERA_COMMAND

static char output[1 << 18];

/* Runs `ENVIRONMENT TESSERA ARGUMENTS` in the scratch directory. Returns the exit code; `output`
 * has stdout and stderr. */
static int run(const char *environment, const char *tessera, const char *arguments)
{
    char line[4096];
    snprintf(line, sizeof line, "cd %s && %s %s %s 2>&1", scratch, environment, tessera, arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_run(const char *environment, const char *tessera, const char *arguments)
{
    int code = run(environment, tessera, arguments);
    if (code != 0)
        fail_msg("repeat: %s %s %s\nexit %d: %s", environment, tessera, arguments, code, output);
}

/* Reads the row "reorders, weight" of the table: the number up to the end of the first run, and
 * that of the second run. */
static void read_reorders(long *out_preparing, long *out_second)
{
    long first = -1;
    const char *row = strstr(output, "\nreorders, weight");
    assert_non_null(row);
    assert_int_equal(
        sscanf(row, "\nreorders, weight %ld %ld %ld", out_preparing, &first, out_second), 3);
    *out_preparing += first;
}

static const char *const models[] = {"squeezenet1_1", "mobilenet_v2"};
enum { N_MODELS = IS_SANITIZED ? 1 : sizeof models / sizeof *models };

static void freeze_and_keep_outputs(const char *environment, const char *tessera, const char *model)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "freeze zoo:%s -o model.tessera --threads 2", model);
    check_run(environment, tessera, arguments);
    check_run(environment, tessera, "run model.tessera --threads 2 --output-dir right");
}

/* Runs the file and compares its outputs. Returns the weight reorders up to the first result. */
static long reorders_of(const char *environment, const char *tessera, int n_threads)
{
    long preparing = 0, second = 0;
    char arguments[256];
    snprintf(arguments, sizeof arguments, "run model.tessera --threads %d --compare right --stats",
             n_threads);
    check_run(environment, tessera, arguments);
    read_reorders(&preparing, &second);
    assert_int_equal(second, 0);
    if ((preparing > 0) != (strstr(output, "tessera append model.tessera keeps them") != NULL))
        fail_msg("%ld reorders, and stderr says: %s", preparing, output);
    return preparing;
}

static void check_no_reference(const char *environment)
{
    check_run(environment, OURS, "explain model.tessera");
    assert_null(strstr(output, "  ref:"));
    assert_null(strstr(output, "  ref  "));
}

static void older_instruction_sets_get_right_answers_and_no_reference(void **state)
{
    (void)state;
    static const char *const isas[] = {"AVX2", "SSE41"};
    for (int m = 0; m < N_MODELS; m++) {
        freeze_and_keep_outputs("", OURS, models[m]);
        assert_int_equal(reorders_of("", OURS, 2), 0);
        for (int i = 0; i < 2; i++) {
            char environment[64], arguments[128];
            snprintf(environment, sizeof environment, "ONEDNN_MAX_CPU_ISA=%s", isas[i]);
            (void)reorders_of(environment, OURS, 2);
            check_no_reference(environment);
            snprintf(arguments, sizeof arguments, "append model.tessera --isa %s --threads 2",
                     isas[i]);
            check_run("", OURS, arguments);
            assert_int_equal(reorders_of(environment, OURS, 2), 0);
        }
        assert_int_equal(reorders_of("ONEDNN_MAX_CPU_ISA=AVX2", OURS, 2), 0);
        assert_int_equal(reorders_of("", OURS, 2), 0);
    }
}

static void another_number_of_threads_gets_right_answers(void **state)
{
    (void)state;
    freeze_and_keep_outputs("", OURS, models[N_MODELS - 1]);
    (void)reorders_of("", OURS, 1);
    check_run("", OURS, "append model.tessera --threads 1");
    assert_int_equal(reorders_of("", OURS, 1), 0);
    assert_int_equal(reorders_of("", OURS, 2), 0);
}

/* Returns false if the command is so old that it cannot read our files. */
static bool reads_our_files(const char *tessera)
{
    check_run("", OURS, "freeze zoo:squeezenet1_1 -o model.tessera");
    return run("", tessera, "run model.tessera") == 0 ||
           strstr(output, "this library reads") == NULL;
}

/* Uses the commands of other presets, if they are built. */
static void another_version_of_onednn_gets_right_answers(void **state)
{
    (void)state;
    static const char *const others[] = {TESSERA_SOURCE_DIR "/build/release/tessera",
                                         TESSERA_SOURCE_DIR "/build/onednn3/tessera"};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        struct stat file;
        if (stat(others[i], &file) != 0 || strcmp(others[i], TESSERA_BINARY_DIR "/tessera") == 0)
            continue;
        if (!reads_our_files(others[i])) continue;
        for (int m = 0; m < N_MODELS; m++) {
            freeze_and_keep_outputs("", OURS, models[m]);
            (void)reorders_of("", others[i], 2);
            check_run("", others[i], "append model.tessera --isa default --threads 2");
            assert_int_equal(reorders_of("", others[i], 2), 0);
            assert_int_equal(reorders_of("", OURS, 2), 0);
            freeze_and_keep_outputs("", others[i], models[m]);
            (void)reorders_of("", OURS, 2);
        }
        n++;
    }
    if (n == 0) skip_without("a build of another preset");
}

#ifdef TESSERA_HAVE_ONNX

/* If 8-bit convolutions run in f32, each start converts their weights, which no file stores. So the
 * command must not advise to append. */
static void conversions_that_no_file_stores_are_not_reported(void **state)
{
    (void)state;
    check_run("", OURS,
              "freeze " TESSERA_SOURCE_DIR "/tests/io/stored/qdq_of_bytes.onnx -o model.tessera "
              "--shape x=2x3x12x12 --threads 2");
    check_run("", OURS, "append model.tessera --isa AVX2 --threads 2");
    check_run("ONEDNN_MAX_CPU_ISA=AVX2", OURS, "run model.tessera --threads 2");
    assert_null(strstr(output, "keeps them"));
}

#endif

static void append_reports_what_it_cannot_add(void **state)
{
    (void)state;
    assert_int_equal(run("", OURS, "append zoo:resnet18 --isa AVX2"), 2);
    assert_non_null(strstr(output, "zoo:resnet18, must be FILE.tessera"));
    assert_int_equal(run("", OURS, "append model.tessera --isa AVX3"), 2);
    assert_non_null(strstr(output, "--isa AVX3, oneDNN has no such ISA"));
    assert_int_equal(run("", OURS, "append model.tessera -o b.tessera"), 2);
    assert_int_equal(run("", OURS, "append none.tessera --isa AVX2"), 1);
    assert_non_null(strstr(output, "tessera append: "));
    assert_non_null(strstr(output, "none.tessera"));
    assert_int_equal(run("", OURS, "freeze model.tessera --add-isa AVX2"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_instruction_sets_get_right_answers_and_no_reference),
        cmocka_unit_test(another_number_of_threads_gets_right_answers),
        cmocka_unit_test(another_version_of_onednn_gets_right_answers),
        cmocka_unit_test(append_reports_what_it_cannot_add),
#ifdef TESSERA_HAVE_ONNX
        cmocka_unit_test(conversions_that_no_file_stores_are_not_reported),
#endif
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
