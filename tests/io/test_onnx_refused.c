/* Models that are refused, and the messages that say why: refused.py writes the folder `refused`.
 */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include "io/onnx.h"

#ifdef TESSERA_HAVE_ONNX

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/refused/"

static const struct {
    const char *name;
    status_t status;
    const char *message;
} cases[] = {
    {"lengths_with_past", STATUS_INVALID_ARGUMENT,
     "nonpad_kv_seqlen with past or present keys, it counts keys of a cache outside"},
    {"lengths_of_others", STATUS_INVALID_ARGUMENT,
     "nonpad_kv_seqlen is s64[2], one number for each batch"},
    {"lengths_too_early", STATUS_INVALID_ARGUMENT, "7 inputs, 6 are the most"},
    {"window_of_minus_two", STATUS_INVALID_ARGUMENT, "a window of -2 keys"},
    {"cache_of_other_sizes", STATUS_INVALID_ARGUMENT,
     "cache f32[2,6,2], update f32[2,3,3], axis 1: other sizes are equal, axis is not 0"},
    {"convolution_of_groups", STATUS_INVALID_ARGUMENT,
     "x f32[1,4,6], weight f32[4,2,3]: [N,C,T] and [C,1,k] are needed"},
    {"bits_of_other_size", STATUS_INVALID_ARGUMENT, "f32[2] as s64, as many bits are needed"},
    {"bits_of_data", STATUS_UNSUPPORTED,
     "the bits of f32[2] as s32, where they depend on the data"},
    {"linear_attention", STATUS_UNSUPPORTED, "1 operator is not supported: LinearAttention"},
};

static void refusals_say_why(void **state)
{
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        module_t *model = NULL;
        print_message("%s\n", cases[i].name);
        snprintf(path, sizeof path, "%s%s.onnx", FOLDER, cases[i].name);
        CHECK_FAILS(ctx, onnx_load(ctx, path, NULL, &model), cases[i].status, cases[i].message);
        assert_null(model);
    }
}

/* A model without a line here would be no test. */
static void every_model_has_its_message(void **state)
{
    (void)state;
    DIR *folder = opendir(FOLDER);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        const char *dot = strstr(entry->d_name, ".onnx");
        bool is_there = dot == NULL;
        for (size_t i = 0; i < sizeof cases / sizeof *cases && !is_there; i++)
            is_there = strlen(cases[i].name) == (size_t)(dot - entry->d_name) &&
                       memcmp(cases[i].name, entry->d_name, strlen(cases[i].name)) == 0;
        if (!is_there) fail_msg("%s has no message", entry->d_name);
    }
    closedir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refusals_say_why),
        TEST(every_model_has_its_message),
    };
    return cmocka_run_group_tests_name("onnx_refused", tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
