/* The command must not print control characters that are in a model's names. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "io/data/npy.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/scratch.h"

static char shown[1 << 20]; /* stdout and stderr of the last command */

/* Runs `tessera ARGUMENTS`. Returns the exit code. */
static int tessera(const char *arguments)
{
    char line[4096];
    snprintf(line, sizeof line,
             "cd %s && tessera() { " TESSERA_COMMAND " \"$@\"; }; tessera %s 2>&1", scratch,
             arguments);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    shown[fread(shown, 1, sizeof shown - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define EVIL_NAME "a\x1b[31m=b\x07" /* sets a colour and rings the bell; has a '=' */
static void make_evil_model(const char *type)
{
    static char name[181] = EVIL_NAME;
    char path[256];
    const float elements[] = {1, -2, 3, 4};
    tensor_t *x = NULL;
    context_t *ctx = NULL;
    size_t n_bytes = 0;
    memset(name + strlen(EVIL_NAME), 'n', sizeof name - 1 - strlen(EVIL_NAME));
    maker_begin(&maker, 13);
    maker_input(&maker, name, FLOAT, DIMS(4));
    maker_node(&maker, type, "node\x1b]0;title\x07\xff", name, "out\x1b[2J");
    maker_node(&maker, "Exp", "second\x1b[1m", "out\x1b[2J",
               "last\xc2\x9b"
               "1m");
    maker_output(&maker, "last\xc2\x9b"
                         "1m");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    snprintf(path, sizeof path, "%s/evil.onnx", scratch);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
    free(bytes);
    assert_int_equal(context_create(NULL, &ctx), STATUS_OK);
    assert_int_equal(tensor_from(ctx, DTYPE_F32, SHAPE(4), elements, &x), STATUS_OK);
    snprintf(path, sizeof path, "%s/x=1.npy", scratch);
    assert_int_equal(npy_save(ctx, path, x), STATUS_OK);
    tensor_release(x);
    context_destroy(ctx);
}

static void names_of_a_model_cannot_command_the_terminal(void **state)
{
    (void)state;
    char line[1024];
    static const char *const lines[] = {"run evil.onnx",
                                        "run evil.onnx --verify 4 --stats",
                                        "explain evil.onnx",
                                        "profile evil.onnx --iterations 2",
                                        "graph evil.onnx",
                                        "graph evil.onnx --dot",
                                        "run evil.onnx --shape z=1",
                                        "run evil.onnx --input z=z.npy",
                                        "freeze evil.onnx -o evil.tessera",
                                        "explain evil.tessera",
                                        "diff evil.onnx",
                                        "bench evil.onnx --iterations 1",
                                        "run nothing.onnx\x1b[1m.onnx"};
    make_evil_model("Relu");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tessera(lines[i]);
        for (int c = 1; c < 256; c++) {
            const char part[2] = {(char)c, '\0'};
            if (c != '\n' && c != '\t' && (c < 32 || c > 126) && strstr(shown, part) != NULL)
                fail_msg("tessera %s: byte 0x%02x is printed\n%s", lines[i], c, shown);
        }
    }
    snprintf(line, sizeof line, "run evil.onnx --input '%s=x=1.npy' --output-dir .",
             maker.input_list[0]->name);
    assert_int_equal(tessera(line), 0);
    make_evil_model("Nothing\x1b[31m");
    assert_int_equal(tessera("run evil.onnx"), 1);
    assert_non_null(strstr(shown, "Nothing\\x1b[31m"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_a_model_cannot_command_the_terminal),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
