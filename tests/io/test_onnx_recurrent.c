/* LSTM of ONNX: errors of a node, and packing of constant weights. test_onnx_stored.c and
 * test_onnx_data.c test results. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "freeze/freeze.h"
#include "io/onnx/onnx.h"
#include "module/mkldnn.h"
#include "tensor/counters.h"
#include "tests/support/onnx/onnx_data.h"

#define MODEL TESSERA_SOURCE_DIR "/tests/io/stored/lstm_bidirectional.onnx"

/* Sizes for the model's open dimensions. */
static const onnx_shape_t shape = {"x", SHAPE(4, 2, 2)};
static const onnx_options_t options = {.n_shapes = 1, .shapes = &shape};

static Onnx__AttributeProto *attribute(const Onnx__ModelProto *model, const char *name)
{
    const Onnx__NodeProto *node = model->graph->node[0];
    for (size_t i = 0; i < node->n_attribute; i++)
        if (strcmp(node->attribute[i]->name, name) == 0) return node->attribute[i];
    fail_msg("no attribute %s", name);
    return NULL;
}

static status_t load(context_t *ctx, const Onnx__ModelProto *model, module_t **out_module)
{
    size_t n = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    onnx__model_proto__pack(model, bytes);
    status_t status = onnx_load_bytes(ctx, bytes, n, &options, out_module);
    free(bytes);
    return status;
}

static void attributes_that_do_not_fit_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    Onnx__ModelProto *model = onnx_data_read(ctx, &onnx__model_proto__descriptor, MODEL);
    module_t *module = NULL;
    assert_non_null(model);
    Onnx__AttributeProto *hidden = attribute(model, "hidden_size");
    Onnx__AttributeProto *direction = attribute(model, "direction");
    hidden->i = 4;
    CHECK_FAILS(ctx, load(ctx, model, &module), STATUS_INVALID_ARGUMENT, "hidden_size 4, R has 3");
    hidden->i = 3;
    Onnx__AttributeProto saved = *direction;
    direction->s = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)(uintptr_t) "reverse"};
    CHECK_FAILS(ctx, load(ctx, model, &module), STATUS_INVALID_ARGUMENT,
                "W is f32[2,12,2], rank 3 with 1 directions in dimension 0 is needed");
    *direction = saved;
    /* The node needs no hidden_size, so its place is used for another attribute. */
    saved = *hidden;
    ProtobufCBinaryData names[6];
    for (int i = 0; i < 6; i++)
        names[i] = (ProtobufCBinaryData){.len = 4, .data = (uint8_t *)(uintptr_t) "Tanh"};
    names[5] = (ProtobufCBinaryData){.len = 4, .data = (uint8_t *)(uintptr_t) "Sine"};
    hidden->name = (char *)(uintptr_t) "activations";
    hidden->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    hidden->strings = names;
    hidden->n_strings = 5;
    CHECK_FAILS(ctx, load(ctx, model, &module), STATUS_INVALID_ARGUMENT,
                "5 activations, a list of 6 is needed");
    hidden->n_strings = 6;
    CHECK_FAILS(ctx, load(ctx, model, &module), STATUS_UNSUPPORTED, "an activation \"Sine\"");
    *hidden = saved;
    CHECK_OK(ctx, load(ctx, model, &module));
    module_release(module);
    onnx__model_proto__free_unpacked(model, NULL);
}

/* Runs the model twice. Returns how many weights the second run packs or reorders. */
static uint64_t count_packing(context_t *ctx, module_t *module)
{
    tensor_t *x = NULL;
    counters_t counters;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(4, 2, 2), &x));
    for (int run = 0; run < 2; run++) {
        tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n_out = 0;
        counters_reset(ctx);
        CHECK_OK(ctx, module_call_tensors(ctx, module, "forward", 1, (const tensor_t *const[]){x},
                                          &n_out, out));
        counters_read(ctx, &counters);
        assert_int_equal(n_out, 3);
        for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    }
    tensor_release(x);
    return counters.reorders[CAUSE_WEIGHT] + counters.copies[CAUSE_WEIGHT];
}

static void constant_weights_become_parameters_that_are_packed_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL;
    CHECK_OK(ctx, onnx_load(ctx, MODEL, &options, &module));
    assert_int_not_equal(count_packing(ctx, module), 0);
    CHECK_OK(ctx, module_mkldnn(ctx, module, NULL));
    assert_int_equal(count_packing(ctx, module), 0);
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    assert_int_equal(count_packing(ctx, frozen), 0);
    module_release(frozen);
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(attributes_that_do_not_fit_are_named),
        TEST(constant_weights_become_parameters_that_are_packed_once),
    };
    return cmocka_run_group_tests_name("onnx_recurrent", tests, NULL, NULL);
}
