/* Quantised operators of ONNX and com.microsoft, in every mode, against what ONNX Runtime gives:
 * quantized_models.py writes quantized_models.bin, and says there what its records are. Integers
 * are equal, numbers close. */
#include "tests/support/support.h"

#include "tests/support/onnx_data.h"

#ifdef TESSERA_HAVE_ONNX

#include <string.h>

#include "io/onnx.h"
#include "tensor/file.h"

enum { MAX_TENSORS = 12 };

typedef struct record {
    char letter;
    size_t n_bytes;
    const uint8_t *bytes;
} record_t;

/* False at the end of the file. */
static bool read_record(const uint8_t **at, const uint8_t *end, record_t *out_record)
{
    if (*at == end) return false;
    const uint8_t *bytes = *at;
    assert_true(end - bytes > 5);
    size_t n = (size_t)bytes[1] | (size_t)bytes[2] << 8 | (size_t)bytes[3] << 16;
    assert_true((size_t)(end - bytes) >= 5 + n);
    *out_record = (record_t){(char)bytes[0], n, bytes + 5};
    *at = bytes + 5 + n;
    return true;
}

static tensor_t *read_tensor(context_t *ctx, const record_t *record)
{
    tensor_t *tensor = NULL;
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, record->n_bytes, record->bytes);
    assert_non_null(proto);
    CHECK_OK(ctx, onnx_data_tensor(ctx, proto, &tensor));
    onnx__tensor_proto__free_unpacked(proto, NULL);
    return tensor;
}

typedef struct sample {
    model_t model;
    char name[64];
    int n_out;
    tensor_t *out[MAX_TENSORS];
} sample_t;

static void load(context_t *ctx, const record_t *record, sample_t *sample)
{
    Onnx__ModelProto *proto = onnx__model_proto__unpack(NULL, record->n_bytes, record->bytes);
    assert_non_null(proto);
    *sample = (sample_t){.model = {.spec = sample->name, .kind = MODEL_ONNX}};
    snprintf(sample->name, sizeof sample->name, "%s", proto->graph->name);
    onnx__model_proto__free_unpacked(proto, NULL);
    if (onnx_load_bytes(ctx, record->bytes, record->n_bytes, NULL, &sample->model.module) !=
        STATUS_OK)
        fail_msg("%s: %s", sample->name, context_error(ctx));
}

static void check(context_t *ctx, sample_t *sample, run_mode_t mode)
{
    runner_t runner;
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    if (mode_prepare(ctx, &sample->model, mode, &runner) != STATUS_OK)
        fail_msg("%s, mode %s: %s", sample->name, mode_name(mode), context_error(ctx));
    if (mode_run(&runner, &n_out, out) != STATUS_OK)
        fail_msg("%s, mode %s: %s", sample->name, mode_name(mode), context_error(ctx));
    assert_int_equal(n_out, sample->n_out);
    for (int i = 0; i < n_out; i++) {
        double rtol = dtype_is_floating(tensor_dtype(out[i])) ? 1e-5 : 0.0;
        if (!onnx_data_is_same(ctx, out[i], sample->out[i], rtol, rtol))
            fail_msg("%s, mode %s: output %d is wrong", sample->name, mode_name(mode), i);
    }
    mode_release_outputs(n_out, out);
    mode_clear(&runner);
}

static void finish(context_t *ctx, sample_t *sample)
{
    for (int i = 0; i < MODE_COUNT; i++) check(ctx, sample, onnx_data_modes[i]);
    for (int i = 0; i < sample->n_out; i++) tensor_release(sample->out[i]);
    model_clear(&sample->model);
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

static void quantised_models_give_the_integers_of_onnx_runtime_in_every_mode(void **state)
{
    context_t *ctx = fixture_context(state);
    file_mapping_t *mapping = NULL;
    record_t record;
    sample_t sample = {.n_out = 0};
    int n_models = 0;
    CHECK_OK(ctx, file_map(ctx, TESSERA_SOURCE_DIR "/tests/io/quantized_models.bin", &mapping));
    const uint8_t *at = file_bytes(mapping), *end = at + file_size(mapping);
    while (read_record(&at, end, &record)) {
        if (record.letter == 'M') {
            if (n_models++ > 0) finish(ctx, &sample);
            load(ctx, &record, &sample);
        } else if (record.letter == 'I') {
            model_input_t *input = &sample.model.inputs[sample.model.n_inputs++];
            input->tensor = read_tensor(ctx, &record);
            input->info = *tensor_info(input->tensor);
        } else {
            assert_int_equal(record.letter, 'O');
            assert_in_range(sample.n_out, 0, MAX_TENSORS - 1);
            sample.out[sample.n_out++] = read_tensor(ctx, &record);
        }
    }
    assert_true(n_models > 0);
    finish(ctx, &sample);
    file_release(mapping);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(quantised_models_give_the_integers_of_onnx_runtime_in_every_mode),
    };
    return cmocka_run_group_tests_name("onnx_quantized", tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
