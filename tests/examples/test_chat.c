/* The example chat: answers of SmolLM2, and wrong files. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define CHAT TESSERA_BINARY_DIR "/examples/chat"
#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

static char out[1 << 16];

static int chat(const char *lines, const char *file)
{
    char command[1024];
    snprintf(command, sizeof command, "printf '%s' | " CHAT " %s 2>&1", lines, file);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[fread(out, 1, sizeof out - 1, pipe)] = '\0';
    const int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void smollm2_remembers_the_conversation(void **state)
{
    (void)state;
    FILE *file = fopen(SMOLLM2, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    assert_int_equal(chat("What is the capital of France?\nAnd of which country is it?\n", SMOLLM2),
                     0);
    assert_non_null(strstr(out, "Paris"));
    assert_non_null(strstr(strchr(out, '\n'), "France"));
}

static void wrong_calls_fail(void **state)
{
    (void)state;
    assert_int_equal(chat("a\n", "no-such-file.gguf"), 1);
    assert_non_null(strstr(out, "no-such-file.gguf"));
    assert_int_equal(chat("a\n", TESSERA_SOURCE_DIR "/tests/io/decoder_llama.gguf"), 1);
    assert_int_equal(chat("a\n", ""), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_remembers_the_conversation),
        cmocka_unit_test(wrong_calls_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
