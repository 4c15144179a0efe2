/* Models that are unsupported or invalid, and their messages. refused.py writes the folder
 * `refused`. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "io/onnx/onnx.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/refused/"
#define STORED TESSERA_SOURCE_DIR "/tests/io/stored/"

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
    {"a_flag_of_two", STATUS_INVALID_ARGUMENT, "keepdims is 2, 0 or 1 is needed"},
    {"a_flag_of_minus_one", STATUS_INVALID_ARGUMENT, "ceil_mode is -1, 0 or 1 is needed"},
    {"cache_of_other_sizes", STATUS_INVALID_ARGUMENT,
     "cache f32[2,6,2], update f32[2,3,3], axis 1: other sizes are equal, axis is not 0"},
    {"convolution_of_groups", STATUS_INVALID_ARGUMENT,
     "x f32[1,4,6], weight f32[4,2,3]: [N,C,T] and [C,1,k] are needed"},
    {"bits_of_other_size", STATUS_INVALID_ARGUMENT, "f32[2] as s64, as many bits are needed"},
    {"bits_of_data", STATUS_UNSUPPORTED,
     "the bits of f32[2] as s32, where they depend on the data"},
    {"linear_attention", STATUS_UNSUPPORTED, "1 operator is not supported: LinearAttention"},
    {"function_of_itself", STATUS_UNSUPPORTED, "function \"f\" of the model calls itself"},
    {"function_of_itself_in_a_block", STATUS_UNSUPPORTED,
     "function \"f\" of the model calls itself"},
    {"function_of_unknown_operators", STATUS_UNSUPPORTED,
     "2 operators are not supported: Frobnicate (node \"h\", opset 17), local.missing"},
    {"function_of_few_inputs", STATUS_INVALID_ARGUMENT,
     "2 inputs and 1 outputs, the function has 1 and 1"},
    {"function_of_outer_names", STATUS_CORRUPT, "input \"h\" is made by no node before it"},
    {"function_without_a_result", STATUS_CORRUPT, "result \"y\" is made by no node"},
    {"function_of_a_missing_input", STATUS_CORRUPT, "input \"other\" is made by no node before it"},
    {"function_that_needs_its_input", STATUS_INVALID_ARGUMENT, "input 1 is missing"},
    {"function_of_opset_99", STATUS_UNSUPPORTED, "opset 99, 1 to 27 are supported"},
    {"function_of_a_block", STATUS_UNSUPPORTED,
     "function \"f\" of the model is given a block of nodes"},
    {"functions_that_double", STATUS_UNSUPPORTED,
     "functions make more than 131072 nodes when they are inlined"},
    {"functions_40_deep", STATUS_UNSUPPORTED,
     "function \"f8\" of the model is called by 32 others, one in the other"},
    {"functions_and_blocks_100_deep", STATUS_UNSUPPORTED,
     "functions and blocks nest more than 96 deep"},
    {"function_with_a_broken_default", STATUS_CORRUPT, "no protobuf message"},
    {"input_of_four_bits", STATUS_UNSUPPORTED, "elements of type INT4 (22)"},
    {"cast_to_a_scale", STATUS_UNSUPPORTED, "numbers as FLOAT8E8M0"},
    {"cast_to_six_bits", STATUS_UNSUPPORTED, "elements of type FLOAT6E2M3 (27)"},
    {"scales_that_do_not_fit", STATUS_INVALID_ARGUMENT,
     "scale f32[4], x f32[2,3], axis 1: one for each of a dimension or of its blocks"},
    {"four_bits_of_few_bytes", STATUS_CORRUPT, "s8[5] has more elements than the file"},
    {"four_bits_of_many_bytes", STATUS_CORRUPT, "raw_data of 4 bytes, UINT4 of these sizes has 3"},
    {"eight_bits_of_a_few_items", STATUS_CORRUPT, "f32[3] has more elements than the file"},
    {"tree_of_few_values", STATUS_CORRUPT,
     "lists of nodes have different lengths, nodes_nodeids 3"},
    {"tree_of_no_nodes", STATUS_CORRUPT, "lists of nodes have different lengths, nodes_nodeids 0"},
    {"tree_of_few_weights", STATUS_CORRUPT, "lists of weights have different lengths, ids 2"},
    {"tree_of_an_unknown_mode", STATUS_UNSUPPORTED, "nodes_modes \"BRANCH_MEMBER\""},
    {"tree_of_a_cycle", STATUS_CORRUPT, "node 0 of tree 0 is reached twice, trees have no cycles"},
    {"tree_of_a_diamond", STATUS_CORRUPT,
     "node 2 of tree 0 is reached twice, trees have no cycles"},
    {"tree_that_leads_out", STATUS_CORRUPT, "node 0 of tree 0 leads to node 9, which is not there"},
    {"tree_of_the_same_node", STATUS_CORRUPT, "node 1 of tree 0 is there twice"},
    {"tree_of_a_far_feature", STATUS_INVALID_ARGUMENT, "feature 3 is compared, x is f32[2,3]"},
    {"tree_of_a_negative_feature", STATUS_CORRUPT, "nodes_featureids has -1"},
    {"tree_of_a_far_target", STATUS_CORRUPT,
     "a weight of node 2 of tree 0 for target 1 of 1, a leaf is needed"},
    {"tree_of_weights_of_a_branch", STATUS_CORRUPT,
     "a weight of node 0 of tree 0 for target 0 of 1, a leaf is needed"},
    {"tree_of_many_targets", STATUS_INVALID_ARGUMENT, "n_targets 1099511627776, base_values 0"},
    {"tree_of_much_memory", STATUS_UNSUPPORTED, "2 leaves of 2147483647 targets"},
    {"tree_of_other_bases", STATUS_INVALID_ARGUMENT, "n_targets 1, base_values 2"},
    {"tree_of_probits", STATUS_UNSUPPORTED, "post_transform \"PROBIT\""},
    {"tree_of_floats_for_ids", STATUS_CORRUPT, "attribute nodes_nodeids is no list of integers"},
    {"tree_of_missing_minima", STATUS_UNSUPPORTED,
     "the least or largest of leaves that have no weight for target 1"},
    {"tree_of_one_class", STATUS_UNSUPPORTED, "1 classes, base_values 0"},
    {"tree_of_two_classes_at_times", STATUS_UNSUPPORTED,
     "two classes and leaves that have no weight for one of them"},
    {"tree_of_texts_alone", STATUS_UNSUPPORTED,
     "output \"y\" is made of texts, tensors of texts are not supported"},
    {"scaler_of_other_features", STATUS_INVALID_ARGUMENT, "scale has 2 numbers, x is f32[2,3]"},
    {"imputer_of_nothing", STATUS_INVALID_ARGUMENT, "no values to put into x f32[2,3]"},
    {"columns_of_a_number", STATUS_INVALID_ARGUMENT,
     "the list of features is f32[2,3], integers are needed"},
    {"features_that_lie", STATUS_INVALID_ARGUMENT,
     "input 0 is f32[2,3], inputdimensions says otherwise"},
    {"features_of_other_inputs", STATUS_INVALID_ARGUMENT,
     "inputdimensions has 2 numbers for 1 inputs"},
    {"categories_of_texts", STATUS_UNSUPPORTED, "categories that are texts"},
    {"categories_of_nothing", STATUS_INVALID_ARGUMENT, "cats_int64s has 0 numbers"},
    {"labels_of_texts", STATUS_UNSUPPORTED, "values that are texts"},
    {"labels_of_few_values", STATUS_INVALID_ARGUMENT, "2 keys and 1 values"},
    {"line_of_few_coefficients", STATUS_INVALID_ARGUMENT,
     "2 coefficients and 0 intercepts, of 1 targets and 3 features"},
    {"line_of_many_features", STATUS_INVALID_ARGUMENT,
     "x is f32[2,3,4], rows of features are needed"},
    {"classes_of_few_intercepts", STATUS_INVALID_ARGUMENT, "3 class labels and 2 intercepts"},
    {"classes_of_support_vectors", STATUS_UNSUPPORTED,
     "1 operator is not supported: ai.onnx.ml.SVMClassifier"},
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

/* Each model of the folder must be in the table; otherwise it would not be tested. */
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

/* ---- broken models ---- */

static const char *const stored[] = {"functions_in_functions",  "functions_in_blocks",
                                     "functions_that_overload", "to_four_bits",
                                     "ml_trees_classify",       "ml_pipeline_of_texts"};
enum { N_STORED = sizeof stored / sizeof *stored, N_SMALL = 4 };

static char *read_stored(const char *name, size_t *out_n)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s.onnx", STORED, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *out_n = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void load(context_t *ctx, const char *bytes, size_t n)
{
    module_t *model = NULL;
    (void)onnx_load_bytes(ctx, bytes, n, NULL, &model);
    module_release(model);
}

/* Truncates each model at many bytes, and changes these bytes in three ways. */
static void broken_models_are_refused_or_read(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int changes[] = {1, 0x80, 0xff};
    for (int m = 0; m < N_STORED; m++) {
        size_t n = 0;
        char *bytes = read_stored(stored[m], &n);
        const size_t step = 1 + n / (IS_SANITIZED ? 100 : 400);
        for (size_t i = 0; i < n; i += step) {
            char *cut = malloc(i + 1);
            memcpy(cut, bytes, i);
            load(ctx, cut, i);
            free(cut);
            for (int c = 0; c < 3; c++) {
                bytes[i] = (char)(bytes[i] ^ changes[c]);
                load(ctx, bytes, n);
                bytes[i] = (char)(bytes[i] ^ changes[c]);
            }
        }
        free(bytes);
    }
}

static const char *loaded; /* the model that load_stored loads */

static status_t load_stored(context_t *ctx)
{
    char path[512];
    module_t *model = NULL;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    snprintf(path, sizeof path, "%s%s.onnx", STORED, loaded);
    status_t status = onnx_load(ctx, path, NULL, &model);
    module_release(model);
    return status;
}

static void a_refused_allocation_leaves_nothing_behind(void **state)
{
    (void)state;
    for (int m = 0; m < N_SMALL; m++) {
        loaded = stored[m];
        check_every_allocation(load_stored);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refusals_say_why),
        TEST(every_model_has_its_message),
        TEST(broken_models_are_refused_or_read),
        TEST(a_refused_allocation_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("onnx_refused", tests, NULL, NULL);
}
