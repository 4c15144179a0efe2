/* Transformer layers compared with torch.nn: transformer_values.py writes
 * transformer_values.txt. */
#include "module/layers/transformer.h"

#include "tests/support/drawn.h"
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/dtype.h"

enum { N = 2, T = 3, S = 4, E = 8, MAX_LINE = 4096 };

/* Sets the parameters from the file, in the order of torch's state dict. */
static void set_parameters(context_t *ctx, module_t *module, const char *const *names)
{
    for (int k = 0; names[k] != NULL; k++) {
        tensor_t *parameter = module_parameter(module, names[k]);
        if (parameter == NULL) fail_msg("there is no %s", names[k]);
        tensor_t *value = drawn_ramp(ctx, k, tensor_rank(parameter), tensor_sizes(parameter));
        CHECK_OK(ctx, tensor_copy(ctx, parameter, value));
        tensor_release(value);
    }
}

/* Returns the rest of the line that begins with the name. */
static const char *find_line(const char *name, char *line)
{
    const size_t length = strlen(name);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/module/transformer_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, MAX_LINE, file) != NULL)
        if (strncmp(line, name, length) == 0 && line[length] == ' ') break;
    fclose(file);
    assert_memory_equal(line, name, length);
    return line + length;
}

/* Runs the module on n inputs, compares the result, and releases the module. */
static void check(context_t *ctx, const char *name, module_t *module, const char *const *names,
                  int n, const tensor_t *const *in)
{
    char line[MAX_LINE];
    tensor_t *out = NULL;
    float elements[256];
    int n_out = 0;
    set_parameters(ctx, module, names);
    CHECK_OK(ctx, module_call_tensors(ctx, module, "forward", n, in, &n_out, &out));
    CHECK_OK(ctx, tensor_read(ctx, out, elements, sizeof elements));
    char *at = line + (find_line(name, line) - line);
    for (int64_t i = 0; i < tensor_numel(out); i++) {
        const double wanted = strtod(at, &at);
        if (!(fabs((double)elements[i] - wanted) <= 2e-5 * (1 + fabs(wanted))))
            fail_msg("%s: element %d is %g, must be %g", name, (int)i, (double)elements[i], wanted);
    }
    assert_int_equal(*at, '\n');
    tensor_release(out);
    module_release(module);
}

#define ATTENTION(prefix)                                                                          \
    prefix "in_proj_weight", prefix "in_proj_bias", prefix "out_proj.weight", prefix "out_proj.bias"

static void attention_is_that_of_torch(void **state)
{
    static const char *const names[] = {ATTENTION(""), NULL};
    static const char *const without_bias[] = {"in_proj_weight", "out_proj.weight", NULL};
    static const bool seen[] = {true, false, false, true, true, false, true, true, true};
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *mask = NULL, *x = drawn_ramp(ctx, 100, SHAPE(N, T, E));
    tensor_t *key = drawn_ramp(ctx, 101, SHAPE(N, S, E)),
             *value = drawn_ramp(ctx, 102, SHAPE(N, S, E));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(T, T), seen, &mask));
    CHECK_OK(ctx, layer_multi_head_attention(ctx, E, 2, true, &module));
    check(ctx, "attention", module, names, 1, (const tensor_t *const[]){x});
    CHECK_OK(ctx, layer_multi_head_attention(ctx, E, 2, true, &module));
    check(ctx, "masked", module, names, 2, (const tensor_t *const[]){x, mask});
    CHECK_OK(ctx, layer_multi_head_attention(ctx, E, 2, true, &module));
    check(ctx, "masked", module, names, 4, (const tensor_t *const[]){x, x, x, mask});
    CHECK_OK(ctx, layer_multi_head_attention(ctx, E, 4, false, &module));
    check(ctx, "cross", module, without_bias, 3, (const tensor_t *const[]){x, key, value});
    tensor_t *all[] = {x, key, value, mask};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void an_encoder_layer_is_that_of_torch(void **state)
{
    static const char *const names[] = {
        ATTENTION("self_attn."), "linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
        "norm1.weight",          "norm1.bias",     "norm2.weight", "norm2.bias",     NULL};
    static const bool seen[] = {true, false, false, true, true, false, true, true, true};
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *mask = NULL, *x = drawn_ramp(ctx, 100, SHAPE(N, T, E));
    transformer_attrs_t attrs = {.d_model = E, .nhead = 2, .dim_feedforward = 12};
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_BOOL, SHAPE(T, T), seen, &mask));
    CHECK_OK(ctx, layer_transformer_encoder_layer(ctx, &attrs, &module));
    check(ctx, "encoder", module, names, 1, (const tensor_t *const[]){x});
    attrs.norm_first = true;
    attrs.activation = ELTWISE_GELU;
    CHECK_OK(ctx, layer_transformer_encoder_layer(ctx, &attrs, &module));
    check(ctx, "norm_first", module, names, 2, (const tensor_t *const[]){x, mask});
    tensor_release(x);
    tensor_release(mask);
}

static void norms_and_embedding_are_those_of_torch(void **state)
{
    static const char *const both[] = {"weight", "bias", NULL}, *const weight[] = {"weight", NULL};
    static const int64_t ids[] = {4, 0, 2, 1, 1, 3};
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *index = NULL, *x = drawn_ramp(ctx, 100, SHAPE(N, T, E));
    const tensor_t *const in[] = {x};
    CHECK_OK(ctx, layer_layer_norm(ctx, SHAPE(T, E), 0.01, true, true, &module));
    check(ctx, "layer_norm", module, both, 1, in);
    CHECK_OK(ctx, layer_rms_norm(ctx, SHAPE(E), 0.01, true, &module));
    check(ctx, "rms_norm", module, weight, 1, in);
    CHECK_OK(ctx, layer_group_norm(ctx, 3, T, 0.01, true, &module));
    check(ctx, "group_norm", module, both, 1, in);
    CHECK_OK(ctx, layer_instance_norm(ctx, T, 0.01, true, &module));
    check(ctx, "instance_norm", module, both, 1, in);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, SHAPE(N, T), ids, &index));
    CHECK_OK(ctx, layer_embedding(ctx, 5, E, &module));
    check(ctx, "embedding", module, weight, 1, (const tensor_t *const[]){index});
    tensor_release(index);
    tensor_release(x);
}

static void constructors_refuse_what_makes_no_sense(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_FAILS(ctx, layer_layer_norm(ctx, 0, NULL, 1e-5, true, true, &module),
                STATUS_INVALID_ARGUMENT, "layer_layer_norm: 0 dimensions, must be 1 to");
    CHECK_FAILS(ctx, layer_rms_norm(ctx, SHAPE(8), -1, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_rms_norm: epsilon -1, must not be negative");
    CHECK_FAILS(ctx, layer_layer_norm(ctx, SHAPE(8, 0), 1e-5, true, true, &module),
                STATUS_INVALID_ARGUMENT, "layer_layer_norm: a size of 0, must be positive");
    CHECK_FAILS(ctx, layer_group_norm(ctx, 3, 8, 1e-5, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_group_norm: 8 channels in 3 groups, must be positive, and groups must "
                "divide channels");
    CHECK_FAILS(ctx, layer_instance_norm(ctx, 8, -1, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_instance_norm: epsilon -1, must not be negative");
    CHECK_FAILS(ctx, layer_embedding(ctx, 0, 8, &module), STATUS_INVALID_ARGUMENT,
                "layer_embedding: 0 rows of 8, must be positive");
    CHECK_FAILS(ctx, layer_multi_head_attention(ctx, 8, 3, true, &module), STATUS_INVALID_ARGUMENT,
                "layer_multi_head_attention: embed_dim 8 with 3 heads, must be a positive multiple "
                "of the heads");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, layer_transformer_encoder_layer(ctx, NULL, &module), STATUS_INVALID_ARGUMENT,
                "attrs");
    assert_null(module);
}

static void forwards_refuse_other_inputs(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *attention = NULL, *encoder = NULL;
    tensor_t *x = drawn_ramp(ctx, 100, SHAPE(T, E)), *out = NULL;
    const tensor_t *const in[] = {x, x, x, x, x};
    int n_out = 0;
    CHECK_OK(ctx, layer_multi_head_attention(ctx, E, 2, true, &attention));
    CHECK_OK(ctx, layer_transformer_encoder_layer(
                      ctx, &(transformer_attrs_t){.d_model = E, .nhead = 2}, &encoder));
    CHECK_FAILS(ctx, module_call_tensors(ctx, attention, "forward", 1, in, &n_out, &out),
                STATUS_INVALID_ARGUMENT,
                "forward of MultiheadAttention with f32[3,8], must be [N][T][E]");
    CHECK_FAILS(ctx, module_call_tensors(ctx, attention, "forward", 5, in, &n_out, &out),
                STATUS_INVALID_ARGUMENT,
                "with 5 inputs, takes x, x and a mask, or query, key, value and an optional mask");
    CHECK_FAILS(ctx, module_call_tensors(ctx, encoder, "forward", 3, in, &n_out, &out),
                STATUS_INVALID_ARGUMENT, "with 3 inputs, takes x or x and a mask");
    module_release(attention);
    module_release(encoder);
    tensor_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attention_is_that_of_torch),
        TEST(an_encoder_layer_is_that_of_torch),
        TEST(norms_and_embedding_are_those_of_torch),
        TEST(constructors_refuse_what_makes_no_sense),
        TEST(forwards_refuse_other_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
