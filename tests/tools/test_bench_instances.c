/* bench --instances runs several instances of a model at the same time, on separate cores and with
 * shared weights. Requests that are impossible fail. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT_MAX (1 << 16)

static char out[OUT_MAX];
static char folder[] = "/tmp/tessera-instances-XXXXXX";
static char model[64]; /* path of a model frozen for one thread */

/* Runs `tessera ARGUMENTS`. Reads stdout and stderr together. */
static int tessera(const char *arguments)
{
    char line[1024];
    snprintf(line, sizeof line, TESSERA_COMMAND " %s 2>&1", arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof out - 1, pipe);
    out[n] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check_refused(const char *arguments, const char *message)
{
    int code = tessera(arguments);
    if (code != 2 || strstr(out, message) == NULL)
        fail_msg("repeat: tessera %s\nexit %d, no \"%s\" in %s", arguments, code, message, out);
}

static void bench_model(const char *options)
{
    char line[512];
    snprintf(line, sizeof line, "bench %s --json --warm-up 1 --seconds 1 %s", model, options);
    int code = tessera(line);
    if (code != 0) fail_msg("repeat: tessera %s\nexit %d: %s", line, code, out);
}

/* Runs two instances of one thread each. All tests share one measurement. */
static void bench_two(void)
{
    static char kept[OUT_MAX];
    if (kept[0] == '\0') {
        bench_model("--instances 2 --threads 1");
        memcpy(kept, out, sizeof kept);
    }
    memcpy(out, kept, sizeof out);
}

/* Returns the number after a key, in the JSON object that starts with `begin`. */
static double value_of(const char *begin, const char *key)
{
    char wanted[64];
    double value = -1.0;
    snprintf(wanted, sizeof wanted, "\"%s\":", key);
    const char *at = strstr(out, begin);
    if (at != NULL) at = strstr(at, wanted);
    if (at == NULL || sscanf(at + strlen(wanted), "%lf", &value) != 1)
        fail_msg("no %s behind %s in %s", key, begin, out);
    return value;
}

/* Returns the number of cores, which is in the message about a number that is too large. */
static int count_cores(void)
{
    int n = 0;
    check_refused("bench zoo:resnet18 --instances 5000", "from 1 to ");
    assert_int_equal(sscanf(strstr(out, "from 1 to "), "from 1 to %d, the number of cores", &n), 1);
    return n;
}

static void two_instances_run_at_once_on_cores_of_their_own(void **state)
{
    static const char two[] = "{\"instances\":2,\"threads\":1,";
    char first[64], second[64];
    (void)state;
    if (count_cores() < 2) skip_without("two cores");
    bench_two();
    const char *cores = strstr(out, two);
    assert_non_null(cores);
    cores = strstr(cores, "\"cores\":[");
    if (cores == NULL ||
        sscanf(cores, "\"cores\":[\"%63[0-9,-]\",\"%63[0-9,-]\"]", first, second) != 2)
        fail_msg("no two sets of cores in %s", out);
    assert_string_not_equal(first, second);
    double n_runs = value_of(two, "runs"), median = value_of(two, "median_ms");
    assert_true(n_runs >= 2.0 && median > 0.0 && median <= value_of(two, "p99_ms"));
    /* Each instance runs for a second, or until the run that has begun then ends. */
    assert_true(value_of(two, "items_per_s") <= n_runs);
    assert_true(value_of(two, "cpu_ms") > 0.0);
    assert_true(value_of(two, "weight_reorders") == 0.0);
    assert_true(value_of(two, "activation_reorders") == 0.0 && value_of(two, "copies") == 0.0);
    /* Items per second are printed with three decimals, the speedup with four. If a machine is so
     * busy that it runs one item per second, this rounding matters. */
    double all = value_of(two, "items_per_s"), one = value_of("\"rows\":[", "items_per_s");
    double told = value_of(two, "speedup"), off = all - told * one;
    double rounding = 0.501e-3 * (1.0 + told) + 0.501e-4 * (one + 1e-3);
    if (fabs(off) > rounding) fail_msg("speedup %.4f, but %.3f items/s over %.3f", told, all, one);
}

/* A second instance needs memory for an arena and a stack, which is much less than the weights,
 * even those packed when the file was opened. Only anonymous pages are compared, because pss_mb
 * depends on other processes that map the same libraries. */
static void instances_share_their_weights(void **state)
{
    static const char one[] = "{\"instances\":1,\"threads\":1,",
                      two[] = "{\"instances\":2,\"threads\":1,";
    struct stat file;
    (void)state;
    if (count_cores() < 2) skip_without("two cores");
    assert_int_equal(stat(model, &file), 0);
    double weights = (double)file.st_size / 1e6;
    assert_true(weights > 40.0);
    bench_two();
    double both = value_of(two, "own_mb");
    assert_true(value_of(two, "pss_mb") >= value_of(two, "file_mb"));
    assert_true(value_of(two, "file_mb") <= weights + 0.2);
    bench_model("--instances 1 --threads 1");
    double alone = value_of(one, "own_mb");
    assert_true(value_of(one, "file_mb") <= weights + 0.2);
    if (alone <= 0.0 || both - alone > weights / 2.0)
        fail_msg("one instance has %.1f MB, two have %.1f, the file %.1f", alone, both, weights);
}

static void auto_tries_every_divisor_of_the_cores(void **state)
{
    int n_cores = count_cores();
    (void)state;
    bench_model("--instances auto");
    for (int n = 1; n <= n_cores; n++) {
        char row[64];
        snprintf(row, sizeof row, "{\"instances\":%d,\"threads\":%d,", n, n_cores / n);
        assert_int_equal(strstr(out, row) != NULL, n_cores % n == 0);
    }
    assert_true(value_of("\"best\":", "speedup") >= 1.0);
}

static void impossible_values_are_refused(void **state)
{
    (void)state;
    check_refused("bench zoo:resnet18 --instances 0",
                  "--instances 0, must be auto or a whole number");
    check_refused("bench zoo:resnet18 --instances 5000", "--instances 5000, must be auto or");
    check_refused("bench zoo:resnet18 --instances many", "--instances many, must be auto or");
    check_refused("bench zoo:resnet18 --instances 1.5", "--instances 1.5, must be auto or");
    check_refused("bench zoo:resnet18 --instances 1 --threads 1024",
                  "--instances 1 of --threads 1024 need 1024 cores, there are");
    check_refused("bench zoo:resnet18 --instances auto --threads 1",
                  "--threads 1, but --instances auto uses all cores");
    check_refused("bench zoo:resnet18 --instances 1 --train", "must not be combined with --train");
    check_refused("bench zoo:resnet18 --instances 1 --modes dense",
                  "--modes dense, must be frozen with --instances");
    check_refused("bench zoo:resnet18 --instances 1 --iterations 2",
                  "must not be combined with --instances");
    check_refused("bench zoo:resnet18 --seconds 2", "--seconds needs --instances");
    check_refused("bench zoo:resnet18 --instances 1 --seconds 0", "--seconds 0, must be a whole");
}

static void a_model_that_fails_is_told_of(void **state)
{
    (void)state;
    assert_int_equal(tessera("bench none.tessera --instances 1"), 1);
    assert_non_null(strstr(out, "none.tessera"));
}

/* A model that is not frozen is frozen first, in a temporary folder, which must disappear. */
static void tables_fit_a_terminal_and_nothing_stays(void **state)
{
    char line[512];
    (void)state;
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    int code = tessera("bench zoo:squeezenet1_1 --shape x=1x3x64x64 --instances 1 --seconds 1");
    unsetenv("TMPDIR");
    if (code != 0 || strstr(out, "\nmost items/s: ") == NULL) fail_msg("exit %d: %s", code, out);
    for (const char *at = out; *at != '\0'; at += strcspn(at, "\n") + 1)
        if (strcspn(at, "\n") > 100) fail_msg("wide: %.*s", (int)strcspn(at, "\n"), at);
    snprintf(line, sizeof line, "test \"$(ls %s)\" = model.tessera", folder);
    assert_int_equal(system(line), 0);
}

static int set_up(void **state)
{
    char line[256];
    const char *options = getenv("ASAN_OPTIONS");
    (void)state;
    /* The sanitizer keeps freed memory (its quarantine), more with each run. */
    snprintf(line, sizeof line, "%s:quarantine_size_mb=1", options != NULL ? options : "");
    if (setenv("ASAN_OPTIONS", line, 1) != 0 || mkdtemp(folder) == NULL) return 1;
    snprintf(model, sizeof model, "%s/model.tessera", folder);
    snprintf(line, sizeof line, "freeze zoo:resnet18 --shape x=1x3x64x64 --threads 1 -o %s", model);
    return tessera(line);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(model);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_instances_run_at_once_on_cores_of_their_own),
        cmocka_unit_test(instances_share_their_weights),
        cmocka_unit_test(auto_tries_every_divisor_of_the_cores),
        cmocka_unit_test(impossible_values_are_refused),
        cmocka_unit_test(a_model_that_fails_is_told_of),
        cmocka_unit_test(tables_fit_a_terminal_and_nothing_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
