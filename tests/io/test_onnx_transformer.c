/* Operators of com.microsoft. Unsupported nodes fail with a message. */
#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/support.h"

static char microsoft[] = "com.microsoft";
static const float zeros[64];

/* Begins a model with x [1,2,8], a matrix m [8,8], a vector v [8], ids [1], and this node. */
static maker_node_t *begin(const char *type, const char *inputs)
{
    begin_model(17, DIMS(1, 2, 8));
    maker_initializer(&maker, "v", FLOAT, DIMS(8), zeros, 8 * sizeof *zeros);
    maker_initializer(&maker, "m", FLOAT, DIMS(8, 8), zeros, 64 * sizeof *zeros);
    maker_initializer(&maker, "ids", INT64, DIMS(1), &(int64_t){0}, sizeof(int64_t));
    maker_node_t *node = maker_node(&maker, type, "", inputs, "y");
    node->node.domain = microsoft;
    return node;
}

static void check(context_t *ctx, const char *message, bool is_supported)
{
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model),
                is_supported ? STATUS_INVALID_ARGUMENT : STATUS_UNSUPPORTED, message);
}

static void forms_of_attention_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_int(begin("Attention", "x m v"), "num_heads", 2);
    check(ctx, "weights f32[8,8], [E,Q+K+V] is needed", true);
    maker_int(begin("Attention", "x m v - x"), "num_heads", 2);
    check(ctx, "keys and values of the past, input 4", false);
    maker_int(begin("MultiHeadAttention", "x"), "num_heads", 2);
    check(ctx, "query, key and value in one tensor", false);
    maker_int(begin("MultiHeadAttention", "x x m"), "num_heads", 2);
    check(ctx, "input 2 is f32[8,8], rank 3 is supported", false);
    maker_int(begin("MultiHeadAttention", "x x x"), "num_heads", 3);
    check(ctx, "num_heads 3 of f32[1,2,8], it must be of rank 3 and divide", false);
    maker_int(begin("MultiHeadAttention", "x x x - v"), "num_heads", 2);
    check(ctx, "a mask f32[8], rank 2 or 3 is supported", false);
}

static void forms_of_products_and_norms_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_int(begin("FusedMatMul", "x m"), "transBatchA", 1);
    check(ctx, "transposed batch dimensions", false);
    begin("EmbedLayerNormalization", "ids - m m - v v");
    check(ctx, "input_ids is s64[1], rank 2 is needed", true);
    begin("EmbedLayerNormalization", "ids - m");
    check(ctx, "input 3 is missing", true);
}

static maker_node_t *grouped(const char *inputs, int64_t n_heads, int64_t n_kv_heads)
{
    maker_node_t *node = begin("GroupQueryAttention", inputs);
    static const int64_t four = 4;
    maker_initializer(&maker, "past", FLOAT, DIMS(1, 2, 3, 4), zeros, 24 * sizeof *zeros);
    maker_initializer(&maker, "total", INT64, 0, NULL, &four, sizeof four);
    maker_int(node, "num_heads", n_heads);
    maker_int(node, "kv_num_heads", n_kv_heads);
    return node;
}

static void forms_of_attention_in_groups_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_int(grouped("x x x - - ids", 2, 2), "local_window_size", 3);
    check(ctx, "local_window_size 3, smooth_softmax 0, softcap 0, causal 1", false);
    grouped("x x x - - ids - - - ids", 2, 2);
    check(ctx, "input 9 is not supported", false);
    grouped("x x x - - ids", 2, 3);
    check(ctx, "2 heads do not divide into 3 groups", true);
    grouped("x x x", 2, 2);
    check(ctx, "seqlens_k, or cos and sin are missing", true);
    grouped("m m m - - ids", 2, 2);
    check(ctx, "query is f32[8,8], it does not divide into 6 heads", true);
    grouped("x x x - - v", 2, 2);
    check(ctx, "seqlens_k is f32[8], one for each query is needed", true);
    grouped("x x x past - ids", 2, 2);
    check(ctx, "past_key without past_value or total_sequence_length, or its rank", true);
    grouped("x x x past past ids v", 2, 2);
    check(ctx, "total_sequence_length is f32[8], one is needed", true);
    grouped("x x x past past ids total", 2, 2);
    check(ctx, "total_sequence_length 4, for a past of 3 and 2 new ones", true);
}

static void forms_of_rotation_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_int(begin("RotaryEmbedding", "x ids m m"), "is_packed_batching", 1);
    check(ctx, "is_packed_batching 1, scale 1", false);
    begin("RotaryEmbedding", "x ids v v");
    check(ctx, "cos is f32[8], half of 0 angles are needed", true);
    begin("RotaryEmbedding", "m ids m m");
    check(ctx, "x is f32[8,8], rank 3 or 4 is needed", true);
    maker_int(begin("RotaryEmbedding", "x ids m m"), "num_heads", 2);
    check(ctx, "8 angles for heads of 4 elements", true);
}

static void few_bits(const char *inputs, int64_t bits, int64_t n_in)
{
    maker_node_t *node = begin("MatMulNBits", inputs);
    maker_initializer(&maker, "bytes", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, DIMS(8, 1, 8), zeros,
                      64);
    maker_int(node, "bits", bits);
    maker_int(node, "block_size", 16);
    maker_int(node, "K", n_in);
    maker_int(node, "N", 8);
}

static void forms_of_weights_of_few_bits_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    few_bits("x bytes v", 3, 8);
    check(ctx, "bits 3, 2, 4 and 8 are supported", false);
    few_bits("x bytes v - ids", 4, 8);
    check(ctx, "g_idx that is not a constant with 8 integers", false);
    few_bits("x bytes v - order", 4, 8);
    static const int64_t order[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    maker_initializer(&maker, "order", INT64, DIMS(8), order, sizeof order);
    check(ctx, "g_idx with 4 inputs in block 0 of 16", false);
    few_bits("x bytes v", 4, 17);
    check(ctx, "the weight is u8[8,1,8], for 8 rows of 17 in blocks of 16", true);
}

static void few_rows(const char *attribute, int64_t value)
{
    maker_node_t *node = begin("GatherBlockQuantized", "bytes ids m");
    maker_initializer(&maker, "bytes", ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, DIMS(8, 8), zeros, 64);
    maker_int(node, attribute, value);
}

static void forms_of_rows_of_few_bits_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    few_rows("gather_axis", 1);
    check(ctx, "data u8[8,8] with 4 bits, gather_axis 1 and quantize_axis 1: rows of a matrix",
          false);
    few_rows("block_size", 16);
    check(ctx, "scales are f32[8,8], for data u8[8,8] in blocks of 16", true);
}

static void forms_of_fused_and_quantised_nodes_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    maker_string(begin("FusedGemm", "m m v"), "activation", "LeakyRelu");
    check(ctx, "0 numbers of activation LeakyRelu, it has 1", true);
    maker_int(begin("QAttention", "x m v v v - - - past"), "num_heads", 2);
    static const int64_t four = 4;
    maker_initializer(&maker, "past", FLOAT, DIMS(1, 2, 3, 4), zeros, 24 * sizeof *zeros);
    maker_initializer(&maker, "total", INT64, 0, NULL, &four, sizeof four);
    check(ctx, "keys and values of the past, input 8", false);
    maker_int(begin("QAttention", "x m - v v"), "num_heads", 2);
    check(ctx, "input 2 is missing", true);
    maker_int(begin("QAttention", "x m v v v"), "num_heads", 2);
    check(ctx, "weights f32[8,8], [E,3 E] is needed", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_of_attention_are_refused_by_name),
        TEST(forms_of_products_and_norms_are_refused_by_name),
        TEST(forms_of_attention_in_groups_are_refused_by_name),
        TEST(forms_of_rotation_are_refused_by_name),
        TEST(forms_of_weights_of_few_bits_are_refused_by_name),
        TEST(forms_of_rows_of_few_bits_are_refused_by_name),
        TEST(forms_of_fused_and_quantised_nodes_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
