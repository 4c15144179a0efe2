/* Every operator refuses NULL for an input, for its output and for the context, and sets its output
 * to NULL then. */
#include "tests/support/refusals.h"

#include "tessera.h"

static void the_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_relu(ctx, NULL, &out));
    REFUSES(op_relu(ctx, NULL, NULL));
    assert_int_not_equal(op_relu(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_relu6(ctx, NULL, &out));
    REFUSES(op_relu6(ctx, NULL, NULL));
    assert_int_not_equal(op_relu6(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_clamp(ctx, NULL, 0, 0, &out));
    REFUSES(op_clamp(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_clamp(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_leaky_relu(ctx, NULL, 0, &out));
    REFUSES(op_leaky_relu(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_leaky_relu(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_elu(ctx, NULL, 0, &out));
    REFUSES(op_elu(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_elu(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_selu(ctx, NULL, &out));
    REFUSES(op_selu(ctx, NULL, NULL));
    assert_int_not_equal(op_selu(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_gelu(ctx, NULL, 0, &out));
    REFUSES(op_gelu(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_gelu(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_erf(ctx, NULL, &out));
    REFUSES(op_erf(ctx, NULL, NULL));
    assert_int_not_equal(op_erf(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sigmoid(ctx, NULL, &out));
    REFUSES(op_sigmoid(ctx, NULL, NULL));
    assert_int_not_equal(op_sigmoid(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_tanh(ctx, NULL, &out));
    REFUSES(op_tanh(ctx, NULL, NULL));
    assert_int_not_equal(op_tanh(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_hardsigmoid(ctx, NULL, 0, 0, &out));
    REFUSES(op_hardsigmoid(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_hardsigmoid(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_hardswish(ctx, NULL, &out));
    REFUSES(op_hardswish(ctx, NULL, NULL));
    assert_int_not_equal(op_hardswish(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_silu(ctx, NULL, &out));
    REFUSES(op_silu(ctx, NULL, NULL));
}

static void the_second_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(op_silu(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_softplus(ctx, NULL, &out));
    REFUSES(op_softplus(ctx, NULL, NULL));
    assert_int_not_equal(op_softplus(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sqrt(ctx, NULL, &out));
    REFUSES(op_sqrt(ctx, NULL, NULL));
    assert_int_not_equal(op_sqrt(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_exp(ctx, NULL, &out));
    REFUSES(op_exp(ctx, NULL, NULL));
    assert_int_not_equal(op_exp(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_log(ctx, NULL, &out));
    REFUSES(op_log(ctx, NULL, NULL));
    assert_int_not_equal(op_log(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_abs(ctx, NULL, &out));
    REFUSES(op_abs(ctx, NULL, NULL));
    assert_int_not_equal(op_abs(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_neg(ctx, NULL, &out));
    REFUSES(op_neg(ctx, NULL, NULL));
    assert_int_not_equal(op_neg(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_reciprocal(ctx, NULL, &out));
    REFUSES(op_reciprocal(ctx, NULL, NULL));
    assert_int_not_equal(op_reciprocal(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_prelu(ctx, NULL, NULL, &out));
    REFUSES(op_prelu(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_prelu(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_floor(ctx, NULL, &out));
    REFUSES(op_floor(ctx, NULL, NULL));
    assert_int_not_equal(op_floor(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_ceil(ctx, NULL, &out));
    REFUSES(op_ceil(ctx, NULL, NULL));
    assert_int_not_equal(op_ceil(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_round(ctx, NULL, &out));
    REFUSES(op_round(ctx, NULL, NULL));
    assert_int_not_equal(op_round(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_trunc(ctx, NULL, &out));
    REFUSES(op_trunc(ctx, NULL, NULL));
    assert_int_not_equal(op_trunc(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sign(ctx, NULL, &out));
}

static void the_third_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    REFUSES(op_sign(ctx, NULL, NULL));
    assert_int_not_equal(op_sign(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logical_not(ctx, NULL, &out));
    REFUSES(op_logical_not(ctx, NULL, NULL));
    assert_int_not_equal(op_logical_not(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_isnan(ctx, NULL, &out));
    REFUSES(op_isnan(ctx, NULL, NULL));
    assert_int_not_equal(op_isnan(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_isinf(ctx, NULL, &out));
    REFUSES(op_isinf(ctx, NULL, NULL));
    assert_int_not_equal(op_isinf(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_not(ctx, NULL, &out));
    REFUSES(op_bitwise_not(ctx, NULL, NULL));
    assert_int_not_equal(op_bitwise_not(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sin(ctx, NULL, &out));
    REFUSES(op_sin(ctx, NULL, NULL));
    assert_int_not_equal(op_sin(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cos(ctx, NULL, &out));
    REFUSES(op_cos(ctx, NULL, NULL));
    assert_int_not_equal(op_cos(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_tan(ctx, NULL, &out));
    REFUSES(op_tan(ctx, NULL, NULL));
    assert_int_not_equal(op_tan(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_asin(ctx, NULL, &out));
    REFUSES(op_asin(ctx, NULL, NULL));
    assert_int_not_equal(op_asin(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_acos(ctx, NULL, &out));
    REFUSES(op_acos(ctx, NULL, NULL));
    assert_int_not_equal(op_acos(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_atan(ctx, NULL, &out));
    REFUSES(op_atan(ctx, NULL, NULL));
    assert_int_not_equal(op_atan(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sinh(ctx, NULL, &out));
    REFUSES(op_sinh(ctx, NULL, NULL));
    assert_int_not_equal(op_sinh(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cosh(ctx, NULL, &out));
    REFUSES(op_cosh(ctx, NULL, NULL));
    assert_int_not_equal(op_cosh(NULL, NULL, NULL), STATUS_OK);
}

static void the_fourth_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_asinh(ctx, NULL, &out));
    REFUSES(op_asinh(ctx, NULL, NULL));
    assert_int_not_equal(op_asinh(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_acosh(ctx, NULL, &out));
    REFUSES(op_acosh(ctx, NULL, NULL));
    assert_int_not_equal(op_acosh(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_atanh(ctx, NULL, &out));
    REFUSES(op_atanh(ctx, NULL, NULL));
    assert_int_not_equal(op_atanh(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_add(ctx, NULL, NULL, &out));
    REFUSES(op_add(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_add(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sub(ctx, NULL, NULL, &out));
    REFUSES(op_sub(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_sub(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_mul(ctx, NULL, NULL, &out));
    REFUSES(op_mul(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_mul(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_pow(ctx, NULL, NULL, &out));
    REFUSES(op_pow(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_pow(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_maximum(ctx, NULL, NULL, &out));
    REFUSES(op_maximum(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_maximum(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_minimum(ctx, NULL, NULL, &out));
    REFUSES(op_minimum(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_minimum(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_div(ctx, NULL, NULL, &out));
    REFUSES(op_div(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_div(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_div_trunc(ctx, NULL, NULL, &out));
    REFUSES(op_div_trunc(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_div_trunc(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_div_floor(ctx, NULL, NULL, &out));
    REFUSES(op_div_floor(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_div_floor(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_atan2(ctx, NULL, NULL, &out));
    REFUSES(op_atan2(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_atan2(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_hypot(ctx, NULL, NULL, &out));
    REFUSES(op_hypot(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_hypot(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_fmod(ctx, NULL, NULL, &out));
    REFUSES(op_fmod(ctx, NULL, NULL, NULL));
}

static void the_fifth_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(op_fmod(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_remainder(ctx, NULL, NULL, &out));
    REFUSES(op_remainder(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_remainder(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_eq(ctx, NULL, NULL, &out));
    REFUSES(op_eq(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_eq(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_ne(ctx, NULL, NULL, &out));
    REFUSES(op_ne(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_ne(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_lt(ctx, NULL, NULL, &out));
    REFUSES(op_lt(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_lt(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_le(ctx, NULL, NULL, &out));
    REFUSES(op_le(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_le(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_gt(ctx, NULL, NULL, &out));
    REFUSES(op_gt(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_gt(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_ge(ctx, NULL, NULL, &out));
    REFUSES(op_ge(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_ge(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logical_and(ctx, NULL, NULL, &out));
    REFUSES(op_logical_and(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_logical_and(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logical_or(ctx, NULL, NULL, &out));
    REFUSES(op_logical_or(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_logical_or(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logical_xor(ctx, NULL, NULL, &out));
    REFUSES(op_logical_xor(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_logical_xor(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_and(ctx, NULL, NULL, &out));
    REFUSES(op_bitwise_and(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_bitwise_and(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_or(ctx, NULL, NULL, &out));
    REFUSES(op_bitwise_or(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_bitwise_or(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_xor(ctx, NULL, NULL, &out));
}

static void the_sixth_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    REFUSES(op_bitwise_xor(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_bitwise_xor(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_left_shift(ctx, NULL, NULL, &out));
    REFUSES(op_bitwise_left_shift(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_bitwise_left_shift(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bitwise_right_shift(ctx, NULL, NULL, &out));
    REFUSES(op_bitwise_right_shift(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_bitwise_right_shift(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_where(ctx, NULL, NULL, NULL, &out));
    REFUSES(op_where(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_where(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cast(ctx, NULL, 0, &out));
    REFUSES(op_cast(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_cast(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_copy(ctx, NULL, NULL, &out));
    REFUSES(op_copy(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_copy(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_full_like(ctx, NULL, 0, 0, &out));
    REFUSES(op_full_like(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_full_like(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_identity(ctx, NULL, &out));
    REFUSES(op_identity(ctx, NULL, NULL));
    assert_int_not_equal(op_identity(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_layers_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_conv1d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv1d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv1d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv2d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv2d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv2d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv3d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv3d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv3d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv_transpose1d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv_transpose1d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv_transpose1d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv_transpose2d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv_transpose2d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv_transpose2d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv_transpose3d(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv_transpose3d(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv_transpose3d(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_linear(ctx, NULL, NULL, NULL, &out));
    REFUSES(op_linear(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_linear(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_matmul(ctx, NULL, NULL, &out));
    REFUSES(op_matmul(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_matmul(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_batch_norm(ctx, NULL, NULL, NULL, NULL, NULL, 0, &out));
    REFUSES(op_batch_norm(ctx, NULL, NULL, NULL, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_batch_norm(NULL, NULL, NULL, NULL, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_layer_norm(ctx, NULL, 0, NULL, NULL, 0, &out));
    REFUSES(op_layer_norm(ctx, NULL, 0, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_layer_norm(NULL, NULL, 0, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_lrn(ctx, NULL, 0, 0, 0, 0, &out));
    REFUSES(op_lrn(ctx, NULL, 0, 0, 0, 0, NULL));
    assert_int_not_equal(op_lrn(NULL, NULL, 0, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_softmax(ctx, NULL, 0, &out));
    REFUSES(op_softmax(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_softmax(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_log_softmax(ctx, NULL, 0, &out));
    REFUSES(op_log_softmax(ctx, NULL, 0, NULL));
}

static void the_second_functions_of_layers_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *other = NULL;
    assert_int_not_equal(op_log_softmax(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_dropout(ctx, NULL, 0, &out));
    REFUSES(op_dropout(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_dropout(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_feature_dropout(ctx, NULL, 0, &out));
    REFUSES(op_feature_dropout(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_feature_dropout(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_fold_weight(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_fold_weight(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_fold_weight(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_fold_bias(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_fold_bias(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_fold_bias(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool1d(ctx, NULL, NULL, &out));
    REFUSES(op_max_pool1d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool1d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool2d(ctx, NULL, NULL, &out));
    REFUSES(op_max_pool2d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool2d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool3d(ctx, NULL, NULL, &out));
    REFUSES(op_max_pool3d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool3d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool1d_with_indices(ctx, NULL, NULL, &other, &out));
    GIVES_NULL(tensor_t *, op_max_pool1d_with_indices(ctx, NULL, NULL, &out, &other));
    GIVES_NULL(tensor_t *, op_max_pool1d_with_indices(ctx, NULL, NULL, NULL, &out));
    GIVES_NULL(tensor_t *, op_max_pool1d_with_indices(ctx, NULL, NULL, &out, NULL));
    REFUSES(op_max_pool1d_with_indices(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool1d_with_indices(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool2d_with_indices(ctx, NULL, NULL, &other, &out));
    GIVES_NULL(tensor_t *, op_max_pool2d_with_indices(ctx, NULL, NULL, &out, &other));
    GIVES_NULL(tensor_t *, op_max_pool2d_with_indices(ctx, NULL, NULL, NULL, &out));
    GIVES_NULL(tensor_t *, op_max_pool2d_with_indices(ctx, NULL, NULL, &out, NULL));
    REFUSES(op_max_pool2d_with_indices(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool2d_with_indices(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_max_pool3d_with_indices(ctx, NULL, NULL, &other, &out));
    GIVES_NULL(tensor_t *, op_max_pool3d_with_indices(ctx, NULL, NULL, &out, &other));
    GIVES_NULL(tensor_t *, op_max_pool3d_with_indices(ctx, NULL, NULL, NULL, &out));
    GIVES_NULL(tensor_t *, op_max_pool3d_with_indices(ctx, NULL, NULL, &out, NULL));
    REFUSES(op_max_pool3d_with_indices(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_max_pool3d_with_indices(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_avg_pool1d(ctx, NULL, NULL, &out));
    REFUSES(op_avg_pool1d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_avg_pool1d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_avg_pool2d(ctx, NULL, NULL, &out));
    REFUSES(op_avg_pool2d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_avg_pool2d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_avg_pool3d(ctx, NULL, NULL, &out));
    REFUSES(op_avg_pool3d(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_avg_pool3d(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_adaptive_avg_pool(ctx, NULL, 0, NULL, &out));
    REFUSES(op_adaptive_avg_pool(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_adaptive_avg_pool(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_adaptive_max_pool(ctx, NULL, 0, NULL, &out));
    REFUSES(op_adaptive_max_pool(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_adaptive_max_pool(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_adaptive_max_pool_with_indices(ctx, NULL, 0, NULL, &other, &out));
    GIVES_NULL(tensor_t *, op_adaptive_max_pool_with_indices(ctx, NULL, 0, NULL, &out, &other));
    GIVES_NULL(tensor_t *, op_adaptive_max_pool_with_indices(ctx, NULL, 0, NULL, NULL, &out));
    GIVES_NULL(tensor_t *, op_adaptive_max_pool_with_indices(ctx, NULL, 0, NULL, &out, NULL));
    REFUSES(op_adaptive_max_pool_with_indices(ctx, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(op_adaptive_max_pool_with_indices(NULL, NULL, 0, NULL, NULL, NULL),
                         STATUS_OK);
}

static void the_functions_of_ops_take_null(void **state)
{
    (void)state;
    assert_null(ops_find(NULL));
    assert_null(ops_at(-1));
}

static void the_functions_of_order_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *other = NULL;
    GIVES_NULL(tensor_t *, op_argmax(ctx, NULL, NULL, 0, &out));
    REFUSES(op_argmax(ctx, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_argmax(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_argmin(ctx, NULL, NULL, 0, &out));
    REFUSES(op_argmin(ctx, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_argmin(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sort(ctx, NULL, 0, 0, &other, &out));
    GIVES_NULL(tensor_t *, op_sort(ctx, NULL, 0, 0, &out, &other));
    GIVES_NULL(tensor_t *, op_sort(ctx, NULL, 0, 0, NULL, &out));
    GIVES_NULL(tensor_t *, op_sort(ctx, NULL, 0, 0, &out, NULL));
    REFUSES(op_sort(ctx, NULL, 0, 0, NULL, NULL));
    assert_int_not_equal(op_sort(NULL, NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_topk(ctx, NULL, 1, 0, 0, &other, &out));
    GIVES_NULL(tensor_t *, op_topk(ctx, NULL, 1, 0, 0, &out, &other));
    GIVES_NULL(tensor_t *, op_topk(ctx, NULL, 1, 0, 0, NULL, &out));
    GIVES_NULL(tensor_t *, op_topk(ctx, NULL, 1, 0, 0, &out, NULL));
    REFUSES(op_topk(ctx, NULL, 1, 0, 0, NULL, NULL));
    assert_int_not_equal(op_topk(NULL, NULL, 1, 0, 0, NULL, NULL), STATUS_OK);
}

static void the_recurrent_functions_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *y = NULL, *c = NULL;
    GIVES_NULL(tensor_t *, op_lstm(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &y, &out, &c));
    GIVES_NULL(tensor_t *, op_lstm(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &y, &c, &out));
    GIVES_NULL(tensor_t *, op_lstm(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &out, NULL, NULL));
    REFUSES(op_lstm(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_lstm(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         STATUS_OK);
    GIVES_NULL(tensor_t *, op_gru(ctx, NULL, NULL, NULL, NULL, NULL, &y, &out));
    GIVES_NULL(tensor_t *, op_gru(ctx, NULL, NULL, NULL, NULL, NULL, &out, NULL));
    REFUSES(op_gru(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_gru(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_rnn(ctx, NULL, NULL, NULL, NULL, NULL, &y, &out));
    GIVES_NULL(tensor_t *, op_rnn(ctx, NULL, NULL, NULL, NULL, NULL, &out, NULL));
    REFUSES(op_rnn(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_rnn(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_shapes_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_mean(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_mean(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_mean(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_sum(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_sum(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_sum(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_prod(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_prod(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_prod(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_amax(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_amax(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_amax(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_amin(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_amin(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_amin(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_any(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_any(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_any(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_all(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_all(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_all(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logsumexp(ctx, NULL, 0, NULL, 0, &out));
    REFUSES(op_logsumexp(ctx, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(op_logsumexp(NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_norm(ctx, NULL, 2, 0, NULL, 0, &out));
    REFUSES(op_norm(ctx, NULL, 2, 0, NULL, 0, NULL));
    assert_int_not_equal(op_norm(NULL, NULL, 2, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_var(ctx, NULL, 0, NULL, 1, 0, &out));
    REFUSES(op_var(ctx, NULL, 0, NULL, 1, 0, NULL));
    assert_int_not_equal(op_var(NULL, NULL, 0, NULL, 1, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_std(ctx, NULL, 0, NULL, 1, 0, &out));
    REFUSES(op_std(ctx, NULL, 0, NULL, 1, 0, NULL));
    assert_int_not_equal(op_std(NULL, NULL, 0, NULL, 1, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cumsum(ctx, NULL, 0, &out));
    REFUSES(op_cumsum(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_cumsum(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cumsum_attrs(ctx, NULL, NULL, &out));
    REFUSES(op_cumsum_attrs(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_cumsum_attrs(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_reshape(ctx, NULL, 0, NULL, &out));
    REFUSES(op_reshape(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_reshape(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_flatten(ctx, NULL, 0, 0, &out));
    REFUSES(op_flatten(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_flatten(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_transpose(ctx, NULL, 0, 0, &out));
    REFUSES(op_transpose(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_transpose(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_permute(ctx, NULL, 0, NULL, &out));
    REFUSES(op_permute(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_permute(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_squeeze(ctx, NULL, 0, NULL, &out));
    REFUSES(op_squeeze(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_squeeze(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_unsqueeze(ctx, NULL, 0, NULL, &out));
    REFUSES(op_unsqueeze(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_unsqueeze(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_expand(ctx, NULL, 0, NULL, &out));
    REFUSES(op_expand(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_expand(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_slice(ctx, NULL, 0, 0, 0, 0, &out));
    REFUSES(op_slice(ctx, NULL, 0, 0, 0, 0, NULL));
    assert_int_not_equal(op_slice(NULL, NULL, 0, 0, 0, 0, NULL), STATUS_OK);
    REFUSES(op_split(ctx, NULL, 0, 0, NULL, NULL));
}

static void the_second_functions_of_shapes_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(op_split(NULL, NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_concat(ctx, 0, NULL, 0, &out));
    REFUSES(op_concat(ctx, 0, NULL, 0, NULL));
    assert_int_not_equal(op_concat(NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_gather(ctx, NULL, 0, NULL, &out));
    REFUSES(op_gather(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_gather(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_tril(ctx, NULL, 0, &out));
    REFUSES(op_tril(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_tril(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_triu(ctx, NULL, 0, &out));
    REFUSES(op_triu(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_triu(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_pad(ctx, NULL, NULL, NULL, 0, 0, &out));
    REFUSES(op_pad(ctx, NULL, NULL, NULL, 0, 0, NULL));
    assert_int_not_equal(op_pad(NULL, NULL, NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_resize(ctx, NULL, 0, NULL, 0, 0, &out));
    REFUSES(op_resize(ctx, NULL, 0, NULL, 0, 0, NULL));
    assert_int_not_equal(op_resize(NULL, NULL, 0, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_to_mkldnn(ctx, NULL, &out));
    REFUSES(op_to_mkldnn(ctx, NULL, NULL));
    assert_int_not_equal(op_to_mkldnn(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_to_dense(ctx, NULL, &out));
    REFUSES(op_to_dense(ctx, NULL, NULL));
    assert_int_not_equal(op_to_dense(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_reorder(ctx, NULL, NULL, &out));
    REFUSES(op_reorder(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_reorder(NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_indexing_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_gather_elements(ctx, NULL, 0, NULL, &out));
    REFUSES(op_gather_elements(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_gather_elements(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_gather_nd(ctx, NULL, NULL, 0, &out));
    REFUSES(op_gather_nd(ctx, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_gather_nd(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_scatter(ctx, NULL, 0, NULL, NULL, 0, &out));
    REFUSES(op_scatter(ctx, NULL, 0, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_scatter(NULL, NULL, 0, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_scatter_value(ctx, NULL, 0, NULL, 0, 0, &out));
    REFUSES(op_scatter_value(ctx, NULL, 0, NULL, 0, 0, NULL));
    assert_int_not_equal(op_scatter_value(NULL, NULL, 0, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_scatter_nd(ctx, NULL, NULL, NULL, 0, &out));
    REFUSES(op_scatter_nd(ctx, NULL, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_scatter_nd(NULL, NULL, NULL, NULL, 0, NULL), STATUS_OK);
}

static void the_functions_of_measured_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_nonzero(ctx, NULL, &out));
    REFUSES(op_nonzero(ctx, NULL, NULL));
    assert_int_not_equal(op_nonzero(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_reshape_by(ctx, NULL, NULL, false, &out));
    REFUSES(op_reshape_by(ctx, NULL, NULL, false, NULL));
    assert_int_not_equal(op_reshape_by(NULL, NULL, NULL, false, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_expand_by(ctx, NULL, NULL, &out));
    REFUSES(op_expand_by(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_expand_by(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_slice_by(ctx, NULL, NULL, NULL, 0, 1, &out));
    REFUSES(op_slice_by(ctx, NULL, NULL, NULL, 0, 1, NULL));
    assert_int_not_equal(op_slice_by(NULL, NULL, NULL, NULL, 0, 1, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_range(ctx, NULL, NULL, NULL, &out));
    REFUSES(op_range(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_range(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_quantized_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *scale = NULL, *zero = NULL;
    GIVES_NULL(tensor_t *, op_quantize(ctx, NULL, NULL, NULL, 0, 0, DTYPE_U8, &out));
    REFUSES(op_quantize(ctx, NULL, NULL, NULL, 0, 0, DTYPE_U8, NULL));
    assert_int_not_equal(op_quantize(NULL, NULL, NULL, NULL, 0, 0, DTYPE_U8, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_dequantize(ctx, NULL, NULL, NULL, 0, 0, &out));
    REFUSES(op_dequantize(ctx, NULL, NULL, NULL, 0, 0, NULL));
    assert_int_not_equal(op_dequantize(NULL, NULL, NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_requantize(ctx, NULL, NULL, NULL, NULL, 0, false, DTYPE_U8, &out));
    REFUSES(op_requantize(ctx, NULL, NULL, NULL, NULL, 0, false, DTYPE_U8, NULL));
    assert_int_not_equal(op_requantize(NULL, NULL, NULL, NULL, NULL, 0, false, DTYPE_U8, NULL),
                         STATUS_OK);
    GIVES_NULL(tensor_t *, op_dynamic_quantize(ctx, NULL, &out, &scale, &zero));
    REFUSES(op_dynamic_quantize(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_dynamic_quantize(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_seventh_functions_of_elementwise_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_softsign(ctx, NULL, &out));
    REFUSES(op_softsign(ctx, NULL, NULL));
    assert_int_not_equal(op_softsign(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_logsigmoid(ctx, NULL, &out));
    REFUSES(op_logsigmoid(ctx, NULL, NULL));
    assert_int_not_equal(op_logsigmoid(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_rsqrt(ctx, NULL, &out));
    REFUSES(op_rsqrt(ctx, NULL, NULL));
    assert_int_not_equal(op_rsqrt(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_square(ctx, NULL, &out));
    REFUSES(op_square(ctx, NULL, NULL));
    assert_int_not_equal(op_square(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_exp2(ctx, NULL, &out));
    REFUSES(op_exp2(ctx, NULL, NULL));
    assert_int_not_equal(op_exp2(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_expm1(ctx, NULL, &out));
    REFUSES(op_expm1(ctx, NULL, NULL));
    assert_int_not_equal(op_expm1(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_log2(ctx, NULL, &out));
    REFUSES(op_log2(ctx, NULL, NULL));
    assert_int_not_equal(op_log2(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_log10(ctx, NULL, &out));
    REFUSES(op_log10(ctx, NULL, NULL));
    assert_int_not_equal(op_log10(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_log1p(ctx, NULL, &out));
    REFUSES(op_log1p(ctx, NULL, NULL));
    assert_int_not_equal(op_log1p(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_mish(ctx, NULL, &out));
    REFUSES(op_mish(ctx, NULL, NULL));
    assert_int_not_equal(op_mish(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_celu(ctx, NULL, 0, &out));
    REFUSES(op_celu(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_celu(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_shrink(ctx, NULL, 0, 0, &out));
    REFUSES(op_shrink(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_shrink(NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_threshold(ctx, NULL, 0, 0, &out));
    REFUSES(op_threshold(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_threshold(NULL, NULL, 0, 0, NULL), STATUS_OK);
}

static void the_functions_of_moving_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_roi_align(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_roi_align(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_roi_align(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_multinomial(ctx, NULL, 1, false, 0, &out));
    REFUSES(op_multinomial(ctx, NULL, 1, false, 0, NULL));
    assert_int_not_equal(op_multinomial(NULL, NULL, 1, false, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_grid_sample(ctx, NULL, NULL, 0, 0, false, &out));
    REFUSES(op_grid_sample(ctx, NULL, NULL, 0, 0, false, NULL));
    assert_int_not_equal(op_grid_sample(NULL, NULL, NULL, 0, 0, false, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cumprod(ctx, NULL, 0, &out));
    REFUSES(op_cumprod(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_cumprod(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_cumprod_attrs(ctx, NULL, NULL, &out));
    REFUSES(op_cumprod_attrs(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_cumprod_attrs(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_flip(ctx, NULL, 0, NULL, &out));
    REFUSES(op_flip(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_flip(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_roll(ctx, NULL, 0, NULL, NULL, &out));
    REFUSES(op_roll(ctx, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(op_roll(NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_reverse_sequence(ctx, NULL, NULL, 0, 0, &out));
    REFUSES(op_reverse_sequence(ctx, NULL, NULL, 0, 0, NULL));
    assert_int_not_equal(op_reverse_sequence(NULL, NULL, NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_stack(ctx, 0, NULL, 0, &out));
    REFUSES(op_stack(ctx, 0, NULL, 0, NULL));
    assert_int_not_equal(op_stack(NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_tile(ctx, NULL, 0, NULL, &out));
    REFUSES(op_tile(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_tile(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_repeat_interleave(ctx, NULL, 0, NULL, &out));
    REFUSES(op_repeat_interleave(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(op_repeat_interleave(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_pixel_shuffle(ctx, NULL, 0, &out));
    REFUSES(op_pixel_shuffle(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_pixel_shuffle(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_pixel_unshuffle(ctx, NULL, 0, &out));
    REFUSES(op_pixel_unshuffle(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_pixel_unshuffle(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_masked_fill(ctx, NULL, NULL, 0, &out));
    REFUSES(op_masked_fill(ctx, NULL, NULL, 0, NULL));
    assert_int_not_equal(op_masked_fill(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_one_hot(ctx, NULL, 0, &out));
    REFUSES(op_one_hot(ctx, NULL, 0, NULL));
    assert_int_not_equal(op_one_hot(NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_embedding(ctx, NULL, NULL, &out));
    REFUSES(op_embedding(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_embedding(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_chunk(ctx, NULL, 0, 0, NULL, &out));
    REFUSES(op_chunk(ctx, NULL, 0, 0, NULL, NULL));
    assert_int_not_equal(op_chunk(NULL, NULL, 0, 0, NULL, NULL), STATUS_OK);
}

static void the_functions_of_random_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_rand_like(ctx, NULL, 0, 0, 0, 0, &out));
    REFUSES(op_rand_like(ctx, NULL, 0, 0, 0, 0, NULL));
    assert_int_not_equal(op_rand_like(NULL, NULL, 0, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_randn_like(ctx, NULL, 0, 0, 0, 0, &out));
    REFUSES(op_randn_like(ctx, NULL, 0, 0, 0, 0, NULL));
    assert_int_not_equal(op_randn_like(NULL, NULL, 0, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_bernoulli(ctx, NULL, 0, 0, &out));
    REFUSES(op_bernoulli(ctx, NULL, 0, 0, NULL));
    assert_int_not_equal(op_bernoulli(NULL, NULL, 0, 0, NULL), STATUS_OK);
}

static void the_functions_of_integers_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_conv1d_integer(ctx, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv1d_integer(ctx, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv1d_integer(NULL, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv2d_integer(ctx, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv2d_integer(ctx, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv2d_integer(NULL, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv3d_integer(ctx, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv3d_integer(ctx, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv3d_integer(NULL, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_matmul_integer(ctx, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_matmul_integer(ctx, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_matmul_integer(NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv1d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv1d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv1d_quantized(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv2d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv2d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv2d_quantized(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         STATUS_OK);
    GIVES_NULL(tensor_t *, op_conv3d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(op_conv3d_quantized(ctx, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_conv3d_quantized(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
                         STATUS_OK);
}

static void the_functions_of_picking_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, op_masked_select(ctx, NULL, NULL, &out));
    REFUSES(op_masked_select(ctx, NULL, NULL, NULL));
    assert_int_not_equal(op_masked_select(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_compress(ctx, NULL, NULL, NULL, &out));
    REFUSES(op_compress(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_compress(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_unique(ctx, NULL, NULL, true, &out, NULL, NULL, NULL));
    REFUSES(op_unique(ctx, NULL, NULL, true, NULL, NULL, NULL, NULL));
    assert_int_not_equal(op_unique(NULL, NULL, NULL, true, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, op_nms(ctx, NULL, NULL, 0, 0, 0, false, &out));
    REFUSES(op_nms(ctx, NULL, NULL, 0, 0, 0, false, NULL));
    assert_int_not_equal(op_nms(NULL, NULL, NULL, 0, 0, 0, false, NULL), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_functions_of_elementwise_take_null),
        TEST(the_second_functions_of_elementwise_take_null),
        TEST(the_third_functions_of_elementwise_take_null),
        TEST(the_fourth_functions_of_elementwise_take_null),
        TEST(the_fifth_functions_of_elementwise_take_null),
        TEST(the_sixth_functions_of_elementwise_take_null),
        TEST(the_seventh_functions_of_elementwise_take_null),
        TEST(the_functions_of_layers_take_null),
        TEST(the_second_functions_of_layers_take_null),
        TEST(the_functions_of_ops_take_null),
        TEST(the_functions_of_order_take_null),
        TEST(the_recurrent_functions_take_null),
        TEST(the_functions_of_shapes_take_null),
        TEST(the_second_functions_of_shapes_take_null),
        TEST(the_functions_of_indexing_take_null),
        TEST(the_functions_of_random_take_null),
        TEST(the_functions_of_moving_take_null),
        TEST(the_functions_of_picking_take_null),
        TEST(the_functions_of_measured_take_null),
        TEST(the_functions_of_quantized_take_null),
        TEST(the_functions_of_integers_take_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
