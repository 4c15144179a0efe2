/* explain --repro on the zoo: each step must have a line for benchdnn or a comment. The problem in
 * a line must be one that oneDNN logs when the network runs. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/nets/networks.h"

#define OUT_MAX (4 << 20)

static char out[OUT_MAX];

static void explain(const char *model, const char *mode)
{
    char line[512];
    snprintf(line, sizeof line,
             "ONEDNN_VERBOSE=1 " TESSERA_COMMAND " explain zoo:%s --mode %s --repro", model, mode);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(out, 1, sizeof out - 1, pipe);
    out[n] = '\0';
    int status = pclose(pipe);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("repeat: %s", line);
}

/* The last word of a line is the problem. oneDNN must have logged it for such a primitive. */
static void check_logged(const char *line, const char *primitive)
{
    char wanted[256];
    size_t length = strcspn(line, "\n"), last = length;
    while (line[last - 1] != ' ') last--;
    snprintf(wanted, sizeof wanted, ",%.*s,", (int)(length - last), line + last);
    for (const char *at = out; (at = strstr(at, wanted)) != NULL; at++) {
        const char *begin = at;
        while (begin > out && begin[-1] != '\n') begin--;
        const char *found = strstr(begin, primitive);
        if (found != NULL && found < at) return;
    }
    fail_msg("oneDNN logged no %s of this: %.*s", primitive, (int)length, line);
}

/* Checks the lines below each heading, such as "# 1 conv2d at features.0". Returns the number of
 * headings. */
static int check_steps(const char *model)
{
    static const char *const drivers[][2] = {
        {"--conv ", "convolution"}, {"--pool ", "pooling"}, {"--ip ", "inner_product"}};
    int n_steps = 0, n_lines = 1;
    for (char *at = out; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n') {
        char head[32];
        snprintf(head, sizeof head, "# %d ", n_steps + 1);
        if (strncmp(at, head, strlen(head)) == 0) {
            if (n_lines == 0) fail_msg("%s: nothing on step %d", model, n_steps);
            n_steps++;
            n_lines = 0;
            continue;
        }
        n_lines += strncmp(at, "# ", 2) == 0;
        if (strncmp(at, "./benchdnn --", 13) != 0) continue;
        n_lines++;
        for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
            if (strncmp(at + 11, drivers[i][0], strlen(drivers[i][0])) == 0)
                check_logged(at, drivers[i][1]);
    }
    return n_steps;
}

static void every_step_of_the_zoo_has_a_line_and_oneDNN_s_problem(void **state)
{
    (void)state;
#define NAME(name) #name,
    static const char *const models[] = {NETWORKS(NAME)};
    const size_t step = IS_SANITIZED ? 5 : 1;
    for (size_t i = step / 2; i < sizeof models / sizeof *models; i += step) {
        explain(models[i], "graph");
        assert_true(check_steps(models[i]) > 10);
    }
}

static void has_line(const char *pattern_begin, const char *pattern_end)
{
    for (char *at = out; (at = strstr(at, pattern_begin)) != NULL; at++) {
        const char *end = at + strcspn(at, "\n");
        size_t n = strlen(pattern_end);
        if ((size_t)(end - at) >= n && memcmp(end - n, pattern_end, n) == 0) return;
    }
    fail_msg("no line %s...%s in %s", pattern_begin, pattern_end, out);
}

static void known_nodes_have_known_lines(void **state)
{
    (void)state;
    explain("squeezenet1_1", "dense"); /* in other modes, our own kernels run these layers */
    has_line("./benchdnn --conv --allow-enum-tags-only=0 --dir=FWD_B --cfg=f32 --stag=",
             " mb1_ic3oc64_ih224oh111kh3sh2dh0ph0_iw224ow111kw3sw2dw0pw0");
    explain("resnet50", "dense");
    has_line("./benchdnn --conv ", " mb1_ic64oc256_ih56oh56kh1sh1dh0ph0_iw56ow56kw1sw1dw0pw0");
    explain("resnet18", "dense");
    has_line("./benchdnn --conv ", " mb1_ic3oc64_ih224oh112kh7sh2dh0ph3_iw224ow112kw7sw2dw0pw3");
    has_line(
        "./benchdnn --reorder --allow-enum-tags-only=0 --sdt=f32 --ddt=f32 --stag=abcd --dtag=",
        " 64x3x7x7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_of_the_zoo_has_a_line_and_oneDNN_s_problem),
        cmocka_unit_test(known_nodes_have_known_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
