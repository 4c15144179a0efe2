/* Data that a program passes with a model: initializers, which are used without a copy, and guards
 * (conditions) of sizes. */
#include "tests/support/support.h"

#include <string.h>

#include "freeze/freeze.h"
#include "io/onnx/onnx.h"
#include "tensor/convert/convert.h"
#include "tests/support/onnx/onnx_model.h"

static const float zeros[64];
static int n_released;

static void note_release(void *user, void *data)
{
    (void)user, (void)data;
    n_released++;
}

/* Makes the model y = x w^T + b. The file has zeros as elements; "w" may have none. */
static void make_model(bool has_elements)
{
    begin_model(13, DIMS(2, 3));
    Onnx__TensorProto *w = maker_initializer(&maker, "w", FLOAT, DIMS(4, 3), zeros, 48);
    maker_initializer(&maker, "b", FLOAT, DIMS(4), zeros, 16);
    w->has_raw_data = has_elements;
    if (!has_elements) w->raw_data.len = 0;
    maker_node_t *node = maker_node(&maker, "Gemm", "fc", "x w b", "y");
    maker_int(node, "transB", 1);
}

static tensor_t *borrow(context_t *ctx, int rank, const int64_t *sizes, const int64_t *strides,
                        const float *data)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, rank, sizes, strides, (void *)(uintptr_t)data,
                                note_release, NULL, &tensor));
    return tensor;
}

static status_t load_given(context_t *ctx, int n, const onnx_tensor_t *given, module_t **out)
{
    const onnx_options_t options = {.n_tensors = n, .tensors = given};
    return load_model_with(ctx, &options, out);
}

/* Rows {1, 2, 3} and {4, 5, 6} of x times rows {1, 2, 3}, {4, 5, 6}, ... of w, plus b. */
static const float by_w[] = {
    1 + 4 + 9 + 1,   4 + 10 + 18 + 2,  7 + 16 + 27 + 3,  10 + 22 + 36 + 4,
    4 + 10 + 18 + 1, 16 + 25 + 36 + 2, 28 + 40 + 54 + 3, 40 + 55 + 72 + 4,
};

static void given_tensors_are_read_where_they_lie(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int has_elements = 0; has_elements < 2; has_elements++) {
        module_t *model = NULL, *frozen = NULL;
        const void *bytes = NULL;
        float owned[12];
        memcpy(owned, model_ramp, sizeof owned);
        n_released = 0;
        make_model(has_elements);
        tensor_t *w = borrow(ctx, 2, (int64_t[]){4, 3}, NULL, owned);
        tensor_t *b = borrow(ctx, 1, (int64_t[]){4}, NULL, model_ramp);
        CHECK_OK(ctx, load_given(ctx, 2, (onnx_tensor_t[]){{"b", b}, {"w", w}}, &model));
        assert_ptr_equal(module_parameter(model, "w"), w);
        CHECK_OK(ctx, tensor_data(ctx, module_parameter(model, "b"), &bytes));
        assert_ptr_equal(bytes, model_ramp);
        tensor_release(w);
        tensor_release(b);
        assert_int_equal(n_released, 0);
        check_model_result(ctx, model, 8, by_w);
        CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
        owned[0] = 100.0F;
        check_model_result(ctx, frozen, 8, by_w);
        module_release(frozen);
        assert_int_equal(n_released, 2);
    }
}

static void a_given_tensor_with_other_strides_is_copied(void **state)
{
    context_t *ctx = fixture_context(state);
    static const float turned[] = {1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12};
    module_t *model = NULL;
    make_model(true);
    tensor_t *w = borrow(ctx, 2, (int64_t[]){4, 3}, (int64_t[]){1, 4}, turned);
    tensor_t *b = borrow(ctx, 1, (int64_t[]){4}, NULL, model_ramp);
    CHECK_OK(ctx, load_given(ctx, 2, (onnx_tensor_t[]){{"w", w}, {"b", b}}, &model));
    check_model_result(ctx, model, 8, by_w);
    module_release(model);
    tensor_release(w);
    tensor_release(b);
}

static void tensors_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    make_model(true);
    tensor_t *w = borrow(ctx, 2, (int64_t[]){3, 4}, NULL, model_ramp), *blocked = NULL;
    CHECK_FAILS(ctx, load_given(ctx, 1, &(onnx_tensor_t){"w", w}, &model), STATUS_INVALID_ARGUMENT,
                "initializer \"w\": the tensor given is f32[3,4], the file has f32[4,3]");
    CHECK_FAILS(ctx, load_given(ctx, 1, &(onnx_tensor_t){"v", w}, &model), STATUS_INVALID_ARGUMENT,
                "onnx: a tensor is given for \"v\", the file has no such initializer");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, load_given(ctx, 1, &(onnx_tensor_t){NULL, w}, &model), STATUS_INVALID_ARGUMENT,
                "onnx_load: an initializer is NULL");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, load_given(ctx, 1, &(onnx_tensor_t){"w", NULL}, &model),
                STATUS_INVALID_ARGUMENT, "onnx_load: a tensor is NULL");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, load_given(ctx, 1, NULL, &model), STATUS_INVALID_ARGUMENT,
                "onnx_load: tensors is NULL");
    context_clear_error(ctx);
    CHECK_OK(ctx, to_mkldnn(ctx, w, &blocked));
    CHECK_FAILS(ctx, load_given(ctx, 1, &(onnx_tensor_t){"w", blocked}, &model),
                STATUS_INVALID_ARGUMENT, "the tensor given is mkldnn f32[3,4]@ab, the file has");
    tensor_release(blocked);
    tensor_release(w);
}

static status_t load_and_release(context_t *ctx)
{
    tensor_t *w = NULL;
    module_t *model = NULL;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    TRY(tensor_zeros(ctx, DTYPE_F32, 2, (int64_t[]){4, 3}, &w));
    status_t status = load_given(ctx, 1, &(onnx_tensor_t){"w", w}, &model);
    module_release(model);
    tensor_release(w);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    make_model(true);
    check_every_allocation(load_and_release);
}

static status_t load_guarded(context_t *ctx, int n, const char *const *guards, module_t **out)
{
    const onnx_shape_t shape = {"x", 2, (int64_t[]){8, 5}};
    const onnx_options_t options = {
        .n_shapes = 1, .shapes = &shape, .n_guards = n, .guards = guards};
    begin_model(13, DIMS(-1, -1));
    maker_open(&maker, 0, "rows");
    maker_open(&maker, 1, "columns");
    maker_node(&maker, "Relu", "", "x", "y");
    return load_model_with(ctx, &options, out);
}

static status_t run_at(context_t *ctx, module_t *model, int64_t rows, int64_t columns)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(rows, columns), &x));
    status_t status = module_forward(ctx, model, x, &y);
    tensor_release(x);
    tensor_release(y);
    return status;
}

static void guards_that_are_given_are_kept(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const guards[] = {"rows % 4 == 0", "(max((rows<columns),(9<rows+2))) == 1"};
    module_t *model = NULL, *frozen = NULL;
    CHECK_OK(ctx, load_guarded(ctx, 2, guards, &model));
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    CHECK_OK(ctx, run_at(ctx, frozen, 8, 5));
    CHECK_OK(ctx, run_at(ctx, frozen, 4, 7));
    CHECK_FAILS(ctx, run_at(ctx, frozen, 6, 7), STATUS_INVALID_ARGUMENT,
                "rows is 6, the graph holds where rows % 4 == 0 (the model's exporter)");
    CHECK_FAILS(ctx, run_at(ctx, frozen, 4, 3), STATUS_INVALID_ARGUMENT, "rows is 4, columns is 3");
    module_release(frozen);
}

static void guards_that_do_not_fit_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_guarded(ctx, 1, (const char *const[]){"rows >= 9"}, &model),
                STATUS_INVALID_ARGUMENT, "onnx: the sizes of the import do not satisfy rows >= 9");
    CHECK_FAILS(ctx, load_guarded(ctx, 1, (const char *const[]){"lines >= 1"}, &model),
                STATUS_INVALID_ARGUMENT, "do not satisfy lines >= 1");
    CHECK_FAILS(ctx, load_guarded(ctx, 1, (const char *const[]){"rows"}, &model),
                STATUS_INVALID_ARGUMENT, "a comparison is needed");
    CHECK_FAILS(ctx, load_guarded(ctx, 1, (const char *const[]){"rows >= 1 or so"}, &model),
                STATUS_INVALID_ARGUMENT, "guard \"rows >= 1 or so\", \"or so\" is left over");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, load_guarded(ctx, 1, (const char *const[]){NULL}, &model),
                STATUS_INVALID_ARGUMENT, "onnx_load: a guard is NULL");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, load_guarded(ctx, 1, NULL, &model), STATUS_INVALID_ARGUMENT,
                "onnx_load: guards is NULL");
    context_clear_error(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(guards_that_are_given_are_kept),
        TEST(guards_that_do_not_fit_are_refused),
        TEST(given_tensors_are_read_where_they_lie),
        TEST(a_given_tensor_with_other_strides_is_copied),
        TEST(tensors_that_do_not_fit_are_refused),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
