/* tessera info with files: weights, and language models. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/support/scratch.h"

/* Runs the command; stdout and stderr together must have `part`. */
static void check(const char *arguments, int code, const char *part)
{
    static char text[65536];
    char line[1024];
    snprintf(line, sizeof line, "cd %s && %s %s 2>&1", scratch, TESSERA_COMMAND, arguments);
    FILE *output = popen(line, "r");
    assert_non_null(output);
    const size_t n = fread(text, 1, sizeof text - 1, output);
    text[n] = '\0';
    const int status = pclose(output);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != code || strstr(text, part) == NULL)
        fail_msg("tessera %s: exit code %d, wanted %d and \"%s\" in: %s", arguments,
                 WEXITSTATUS(status), code, part, text);
}

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void info_lists_what_is_in_a_file_of_weights(void **state)
{
    (void)state;
#ifdef TESSERA_HAVE_SAFETENSORS
    static const char types[] = "info " TESSERA_SOURCE_DIR "/tests/io/types.safetensors";
    check(types, 0, "types.safetensors: 16 tensors, 99 bytes\n");
    check(types, 0, "\n\"format\" = \"pt\"\n");
    check(types, 0, "\nBF16  [1,2]      4  \"bfloat16\"\n");
    check(types, 0, "\nF32   []         4  \"number\"\n");
    check(types, 0, "\nI16   [0,4]      0  \"nothing\"\n");
    check(types, 0, "\"\\\"\\\\\\n\\u001f\xc3\xbc\"\n"); /* a name takes one line */
    check("info " TESSERA_SOURCE_DIR "/tests/io/foreign.safetensors", 0,
          "\n\"F8_E4M3\" (not read)  [3]        3  \"float8\"\n");
    write_file("broken.safetensors", "12345678{");
    check("info broken.safetensors", 1, "broken.safetensors");
#endif
    check("info missing.safetensors", 1, "missing.safetensors");
    check("info file.onnx", 2, "\"file.onnx\" is not FILE.safetensors or FILE.gguf");
    check("info .safetensors", 2, "\".safetensors\" is not FILE.safetensors");
    check("info .gguf", 2, "\".gguf\" is not FILE.safetensors or FILE.gguf");
    check("info --ops a.safetensors", 2, "--ops must not be combined with a file, a.safetensors");
}

static void info_lists_gguf_files(void **state)
{
    (void)state;
    static const char blocks[] = "info " TESSERA_SOURCE_DIR "/tests/io/blocks.gguf";
    check(blocks, 0, "blocks.gguf: 25 tensors, 29268 bytes\n");
    check(blocks, 0, "\n\"general.architecture\" = \"test\"\n");
    check(blocks, 0, "\n\"test.uint64\" = 9223372036854775808\n");
    check(blocks, 0, "\n\"test.float64\" = 0.1\n");
    check(blocks, 0, "\n\"test.strings\" = string[3] \"a\", \"\", \"\xc3\xbc\\n\"\n");
    check(blocks, 0, "\n\"test.numbers\" = s32[3] 1, -2, 3\n");
    check(blocks, 0, "\nQ2_K (not read)  ");
    write_file("broken.gguf", "GGUF");
    check("info broken.gguf", 1, "gguf: broken.gguf, the version needs 4 bytes");
    check("info missing.gguf", 1, "missing.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_lists_what_is_in_a_file_of_weights),
        cmocka_unit_test(info_lists_gguf_files),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
