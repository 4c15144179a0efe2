/* Commands that repeat runs make OpenMP's threads spin for a shorter time, unless the user set
 * it. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

/* Runs the command and checks libgomp's settings, which libgomp prints when it is loaded. */
static void check(const char *environment, const char *command, const char *wanted)
{
    static char out[1 << 16];
    char line[512];
    snprintf(line, sizeof line,
             "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY OMP_DISPLAY_ENV=verbose %s " TESSERA_COMMAND
             " %s 2>&1",
             environment, command);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
    if (strstr(out, wanted) == NULL) fail_msg("no %s in the output of: %s\n%s", wanted, line, out);
}

static void repeated_runs_shorten_the_spin(void **state)
{
    (void)state;
    static const char *const commands[] = {"bench --help", "profile --help", "train --help"};
    for (int i = 0; i < 3; i++) check("", commands[i], "GOMP_SPINCOUNT = '2000'");
}

static void the_users_choice_stays(void **state)
{
    (void)state;
    check("GOMP_SPINCOUNT=77", "bench --help", "GOMP_SPINCOUNT = '77'");
    check("OMP_WAIT_POLICY=active", "bench --help", "OMP_WAIT_POLICY = 'ACTIVE'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(repeated_runs_shorten_the_spin),
                                       cmocka_unit_test(the_users_choice_stays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
