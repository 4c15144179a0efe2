/* onnx_describe_bytes returns a model's inputs and outputs without importing it, so its sizes may
 * be open. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "module/signature.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/onnx/onnx_sizes.h"

/* Makes a model that reshapes an input with open sizes to rows of 4. */
static uint8_t *make_rows(size_t *out_n_bytes)
{
    begin_model(13, DIMS(-1, -1));
    maker_open(&maker, 1, "2*T");
    sizes_vector("sizes", DIMS(-1, 4));
    maker_node(&maker, "Reshape", "rows", "x sizes", "y");
    return maker_pack(&maker, out_n_bytes);
}

static void open_sizes_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    module_value_t value;
    size_t n_bytes = 0;
    uint8_t *bytes = make_rows(&n_bytes);
    CHECK_OK(ctx, onnx_describe_bytes(ctx, bytes, n_bytes, &module));
    assert_int_equal(module_n_inputs(module, "forward"), 1);
    assert_int_equal(module_n_outputs(module, "forward"), 1);
    CHECK_OK(ctx, module_input(ctx, module, "forward", 0, &value));
    assert_string_equal(value.name, "x");
    assert_int_equal(value.dtype, DTYPE_F32);
    assert_int_equal(value.rank, 2);
    for (int d = 0; d < 2; d++) {
        assert_int_equal(value.sizes[d], -1);
        assert_int_equal(value.made[d], -1);
    }
    assert_string_equal(value.dims[0], "N");
    assert_string_equal(value.dims[1], "N2_T");
    CHECK_OK(ctx, module_output(ctx, module, "forward", 0, &value));
    assert_string_equal(value.name, "y");
    module_release(module);
    free(bytes);
}

static void a_described_model_does_not_run(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    tensor_t *x = NULL, *y = NULL;
    size_t n_bytes = 0;
    uint8_t *bytes = make_rows(&n_bytes);
    CHECK_OK(ctx, onnx_describe_bytes(ctx, bytes, n_bytes, &module));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 4), &x));
    assert_int_equal(module_forward(ctx, module, x, &y), STATUS_UNSUPPORTED);
    assert_non_null(strstr(context_error(ctx), "onnx_load imports it"));
    tensor_release(x);
    module_release(module);
    free(bytes);
}

static void operators_that_are_unknown_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    size_t n_bytes = 0;
    begin_model(13, DIMS(-1, 4));
    maker_node(&maker, "Nowhere", "rows", "x", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    assert_int_equal(onnx_describe_bytes(ctx, bytes, n_bytes, &module), STATUS_UNSUPPORTED);
    assert_null(module);
    assert_int_equal(onnx_describe_bytes(ctx, bytes, n_bytes / 2, &module), STATUS_CORRUPT);
    assert_int_equal(onnx_describe(ctx, "no such file.onnx", &module), STATUS_IO);
    free(bytes);
}

/* A shape sets a named size for all inputs. The batch applies only to sizes that no shape sets. */
static void the_option_shape_overrides_the_batch(void **state)
{
    static const int64_t sizes[] = {-1, 3};
    context_t *ctx = fixture_context(state);
    const onnx_shape_t shape = {"z", 2, (int64_t[]){5, 3}};
    onnx_options_t options = {.n_shapes = 1, .shapes = &shape};
    module_t *module = NULL;
    module_value_t value;
    size_t n_bytes = 0;
    begin_model(13, DIMS(-1, 3));
    maker_open(&maker, 0, "rows");
    maker_input(&maker, "z", FLOAT, 2, sizes);
    maker_open(&maker, 0, "rows");
    maker_node(&maker, "Add", "sum", "x z", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    CHECK_OK(ctx, onnx_load_bytes(ctx, bytes, n_bytes, &options, &module));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, module_input(ctx, module, "forward", i, &value));
        assert_int_equal(value.made[0], 5);
    }
    module_release(module);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(open_sizes_are_named),
        TEST(a_described_model_does_not_run),
        TEST(operators_that_are_unknown_are_refused),
        TEST(the_option_shape_overrides_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
