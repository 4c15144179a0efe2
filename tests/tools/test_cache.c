/* tessera cache, and --no-cache: a second run of a file maps what the first one packed. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/scratch.h"

/* Runs the command with the store in the scratch directory. Returns the exit code; out_text gets
 * stdout and stderr. */
static int run(const char *arguments, char *out_text, size_t capacity)
{
    char line[1024];
    snprintf(line, sizeof line, "cd %s && TESSERA_STORE=%s/store %s %s 2>&1", scratch, scratch,
             TESSERA_COMMAND, arguments);
    FILE *output = popen(line, "r");
    assert_non_null(output);
    const size_t n = fread(out_text, 1, capacity - 1, output);
    out_text[n] = '\0';
    const int status = pclose(output);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check(const char *arguments, int code, const char *part)
{
    static char text[65536];
    const int is = run(arguments, text, sizeof text);
    if (is != code || strstr(text, part) == NULL)
        fail_msg("tessera %s: exit code %d, wanted %d and \"%s\" in: %s", arguments, is, code, part,
                 text);
}

/* Returns a number that the statistics of a run print in the column of the first run. */
static int count(const char *arguments, const char *name)
{
    static char text[65536];
    int number = -1;
    assert_int_equal(run(arguments, text, sizeof text), 0);
    const char *at = strstr(text, name);
    assert_non_null(at);
    assert_int_equal(sscanf(at + strlen(name), "%d", &number), 1);
    return number;
}

/* Counts the lines of the output that have both parts. */
static int count_lines(const char *arguments, const char *part, const char *other)
{
    static char text[65536];
    int n = 0;
    assert_int_equal(run(arguments, text, sizeof text), 0);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        n += strstr(line, part) != NULL && strstr(line, other) != NULL;
    return n;
}

#define RUN "run net.tessera --stats"

static void runs_share_packed_weights(void **state)
{
    (void)state;
    check("freeze zoo:resnet18 --no-cache -o net.tessera", 0, "net.tessera");
    check("cache", 0, "0 files");
    const int n_packed = count(RUN " --no-cache", "weights packed");
    assert_true(n_packed >= 10);
    check("cache", 0, "0 files");
    assert_int_equal(count(RUN, "weights packed"), n_packed);
    assert_int_equal(count(RUN, "weights packed"), 0);
    assert_int_equal(count(RUN, "weights mapped"), n_packed);
    check("run net.tessera --verify 100", 0, "");
    const int n_made = count_lines("explain net.tessera", " packed ", " made");
    assert_int_equal(count_lines("explain net.tessera --no-cache", " packed ", " made"),
                     n_made + n_packed);
    check("cache list", 0, "f32[64,64,3,3] -> mkldnn f32[64,64,3,3]");
}

#ifdef TESSERA_HAVE_ONNX
#define STORED_ONNX TESSERA_SOURCE_DIR "/tests/io/exported/convnext.script.onnx"
#define RUN_ONNX "run " STORED_ONNX " --shape x=1x3x64x64 --mode frozen --stats"

static void runs_share_an_onnx_model(void **state)
{
    static char first[65536], again[65536];
    (void)state;
    assert_int_equal(count(RUN_ONNX " --no-cache", "models imported"), 1);
    assert_int_equal(run(RUN_ONNX, first, sizeof first), 0);
    first[strcspn(first, "\n")] = '\0'; /* the line of the first output */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count(RUN_ONNX, "models imported"), 0);
        assert_int_equal(count(RUN_ONNX, "models mapped"), 1);
        assert_int_equal(count(RUN_ONNX, "reorders, weight"), 0);
        assert_int_equal(count(RUN_ONNX, "weights packed"), 0);
        assert_int_equal(run(RUN_ONNX, again, sizeof again), 0);
        again[strcspn(again, "\n")] = '\0';
        assert_string_equal(again, first);
    }
    assert_int_equal(count(RUN_ONNX " --threads 1", "models imported"), 1);
    check("run " STORED_ONNX " --shape x=1x3x64x64 --mode frozen --verify 100", 0, "0 failed");
    check("cache list", 0, "ONNX model");
    check("profile " STORED_ONNX " --shape x=1x3x64x64 --mode frozen --iterations 1", 0, "");
}
#endif

static void files_are_checked_and_removed(void **state)
{
    char line[256];
    (void)state;
    check("cache verify", 0, "0 damaged files removed");
    snprintf(line, sizeof line,
             "cd %s/store && f=$(ls *.form | head -n 1) && printf x | dd of=$f bs=1 seek=9999 "
             "conv=notrunc 2>/dev/null",
             scratch);
    assert_int_equal(system(line), 0);
    check("cache verify", 0, "1 damaged files removed");
    assert_int_equal(count(RUN, "weights packed"), 1);
    check("cache --limit 20M", 0, "files removed");
    assert_true(count(RUN, "weights packed") > 1);
    check("cache clear", 0, ": 0 files, 0.0 MB");
    assert_int_equal(count(RUN, "weights mapped"), 0);
}

static void wrong_usage_is_refused(void **state)
{
    (void)state;
    check("cache empty", 2, "\"empty\", must be list, verify or clear");
    check("cache list more", 2, "more");
    check("cache --limit 1X", 2, "--limit");
    check("cache --no-cache", 0, "there is no store");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_share_packed_weights),
#ifdef TESSERA_HAVE_ONNX
        cmocka_unit_test(runs_share_an_onnx_model),
#endif
        cmocka_unit_test(files_are_checked_and_removed),
        cmocka_unit_test(wrong_usage_is_refused),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
