#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/onnx/onnx_model.h"

const float model_ramp[64] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                              17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

maker_t maker;

status_t load_model_with(context_t *ctx, const onnx_options_t *options, module_t **out)
{
    size_t n_bytes = 0;
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    status_t status = onnx_load_bytes(ctx, bytes, n_bytes, options, out);
    free(bytes);
    return status;
}

status_t load_model_batch(context_t *ctx, int64_t batch, module_t **out)
{
    return load_model_with(ctx, &(onnx_options_t){.batch = batch}, out);
}

module_t *load_model(context_t *ctx)
{
    module_t *model = NULL;
    CHECK_OK(ctx, load_model_batch(ctx, 0, &model));
    return model;
}

void check_model_line(context_t *ctx, const module_t *model, const char *line)
{
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph_of(model, "forward"), NULL, &text));
    if (strstr(text_string(&text), line) == NULL) {
        print_error("no line\n%s\nin\n%s", line, text_string(&text));
        fail();
    }
    text_clear(&text);
}

void check_model_result(context_t *ctx, module_t *model, int64_t n, const float *wanted)
{
    module_value_t input;
    tensor_t *x = NULL, *y = NULL;
    float got[64];
    CHECK_OK(ctx, module_input(ctx, model, "forward", 0, &input));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, input.rank, input.made, model_ramp, &x));
    CHECK_OK(ctx, module_forward(ctx, model, x, &y));
    assert_int_equal(tensor_numel(y), n);
    CHECK_OK(ctx, tensor_read(ctx, y, got, sizeof got));
    for (int64_t i = 0; i < n; i++)
        if (fabsf(got[i] - wanted[i]) > 1e-4F * (1 + fabsf(wanted[i]))) {
            print_error("element %lld is %g, wanted %g\n", (long long)i, (double)got[i],
                        (double)wanted[i]);
            fail();
        }
    tensor_release(x);
    tensor_release(y);
}

void begin_model(int64_t opset, int rank, const int64_t *sizes)
{
    maker_begin(&maker, opset);
    maker_input(&maker, "x", FLOAT, rank, sizes);
    maker_output(&maker, "y");
}
