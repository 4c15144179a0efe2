/* tessera generate, and tessera bench of a GGUF file. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/scratch.h"
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define SMALL TESSERA_SOURCE_DIR "/tests/io/decoder_llama.gguf"
#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

static char out[1 << 16], err[1 << 12];

static size_t read_file(FILE *file, char *text, size_t capacity)
{
    const size_t length = fread(text, 1, capacity - 1, file);
    text[length] = '\0';
    return length;
}

static int tessera(const char *arguments)
{
    char line[2048], path[256];
    snprintf(path, sizeof path, "%s/stderr", scratch);
    snprintf(line, sizeof line, TESSERA_COMMAND " %s 2>%s", arguments, path);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    read_file(pipe, out, sizeof out);
    const int status = pclose(pipe);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    read_file(file, err, sizeof err);
    fclose(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check(const char *arguments, int code, const char *in_err, const char *in_out)
{
    const int given = tessera(arguments);
    if (given != code || strstr(err, in_err) == NULL || strstr(out, in_out) == NULL)
        fail_msg("repeat: tessera %s\nexit %d, wanted %d\nstderr: %s\nstdout: %s", arguments, given,
                 code, err, out);
}

static void wrong_calls_are_reported(void **state)
{
    (void)state;
    check("generate " SMALL, 2, "tessera generate: --prompt or --chat is needed", "");
    check("generate " SMALL " --prompt a", 1, "the file has no tokenizer", "");
    check("generate no-such-file.gguf --prompt a", 1, "no-such-file.gguf", "");
    check("generate " SMALL " --prompt a --top-p 2", 1, "top_p is 2, 0 to 1 is possible", "");
    check("bench zoo:alexnet --prompt 3", 2, "--prompt, --decode and --sequences need a file.gguf",
          "");
}

static void bench_measures_prompts_and_tokens(void **state)
{
    static const char *const keys[] = {
        "\"prompt_tokens_s\":", "\"decode_tokens_s\":", "\"bytes_per_token\":",
        "\"bandwidth_share\":", "\"first_token_ms\":",  "\"peak_rss_mb\":"};
    (void)state;
    check("bench " SMALL " --prompt 20 --decode 5 --json", 0, "", "{\"model\":");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) assert_non_null(strstr(out, keys[i]));
    check("bench " SMALL " --prompt 20 --decode 5", 0, "", "peak memory");
    check("bench " SMALL " --prompt 20 --decode 5 --sequences 3", 0, "", "peak memory");
}

/* The continuation that llama.cpp gives, and an answer in the form of the file's template. */
static void smollm2_continues_and_answers(void **state)
{
    (void)state;
    FILE *file = fopen(SMOLLM2, "rb");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    check("generate " SMOLLM2 " --prompt 'The capital of France is' --tokens 8 --stats", 0,
          "prompt: 5 tokens", "The capital of France is Paris");
    check("generate " SMOLLM2 " --prompt 'What is the capital of France?' --chat --json", 0, "",
          "Paris");
    assert_non_null(strstr(out, "\"decode_tokens_s\":"));
    check("generate " SMOLLM2 " --prompt 'Water is' --prompt 'The capital of France is' --tokens 4",
          0, "", "Water is a");
    assert_non_null(strstr(out, "\nThe capital of France is Paris"));
    check("generate " SMOLLM2 " --prompt ''", 1, "generator_prompt: the text is empty", "");
    check("generate " SMOLLM2 " --prompt 'a b c d e f' --context 4", 1,
          "generator_feed: 6 tokens after 0, the capacity is 4", "");
    check("generate " SMOLLM2 " --prompt \"$(printf 'abc\\377')\"", 1,
          "the text is not UTF-8 at byte 3", "");
    check("generate " SMOLLM2 " --prompt Hi --tokens 9 --context 6", 0, "", "Hi");
    check("generate " SMOLLM2 " --prompt Hi --tokens 3 --top-k 1000000 --temperature 1", 0, "",
          "Hi");
    check("generate " SMOLLM2 " --prompts no-such-file", 1, "no-such-file: No such file", "");
    check("generate " SMOLLM2 " --prompt 'One, two,' --tokens 9 --temperature 0.8 --top-k 40 "
          "--seed 3",
          0, "", "One, two,");
    char first[sizeof out];
    memcpy(first, out, sizeof out);
    check("generate " SMOLLM2 " --prompt 'One, two,' --tokens 9 --temperature 0.8 --top-k 40 "
          "--seed 3",
          0, "", first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_calls_are_reported),
        cmocka_unit_test(bench_measures_prompts_and_tokens),
        cmocka_unit_test(smollm2_continues_and_answers),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
