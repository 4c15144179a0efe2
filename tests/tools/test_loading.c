/* The options of run, bench and profile that say how to load a frozen file. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"

#define MODEL "zoo:squeezenet1_1 --shape x=1x3x64x64"

/* Runs `tessera ARGUMENTS` in the scratch directory. Checks the exit code and a part of stdout and
 * stderr. */
static void check(const char *arguments, int code, const char *part)
{
    static char said[1 << 20];
    char line[1024];
    snprintf(line, sizeof line, "cd %s && { " TESSERA_COMMAND " %s; } 2>&1", scratch, arguments);
    FILE *stream = popen(line, "r");
    assert_non_null(stream);
    said[fread(said, 1, sizeof said - 1, stream)] = '\0';
    const int status = pclose(stream);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code || strstr(said, part) == NULL)
        fail_msg("repeat: tessera %s\nstatus %d, wanted exit %d with %s\n%.2000s", arguments,
                 status, code, part, said);
}

static void damage(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -2048, SEEK_END), 0);
    fputs("damage", file);
    fclose(file);
}

static void a_frozen_file_is_loaded_as_is_asked_for(void **state)
{
    (void)state;
    check("freeze " MODEL " -o model.tessera", 0, "model.tessera: ");
    check("run model.tessera --output-dir saved", 0, "");
    check("run model.tessera --load copied --compare saved --tolerance 0", 0, "");
    check("run model.tessera --load mapped --unchecked --compare saved --tolerance 0", 0, "");
    check("bench model.tessera --iterations 1 --load copied --unchecked --json", 0,
          "\"mode\":\"frozen\"");
    check("profile model.tessera --iterations 1 --load copied", 0, "conv2d");
    damage("model.tessera");
    check("run model.tessera", 1, "is damaged");
    check("run model.tessera --load copied", 1, "is damaged");
    check("run model.tessera --unchecked", 0, "");
    check("bench model.tessera --iterations 1 --load copied", 1, "is damaged");
    /* another process loads it for the first run */
    check("bench model.tessera --iterations 1 --load copied --unchecked", 0, "frozen");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_frozen_file_is_loaded_as_is_asked_for),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
