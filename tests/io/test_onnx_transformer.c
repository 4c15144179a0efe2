/* Operators of com.microsoft: forms that are not supported are refused in words. */
#include "tests/support/support.h"

#include "io/onnx.h"
#include "tests/support/onnx_model.h"

#ifdef TESSERA_HAVE_ONNX

static char microsoft[] = "com.microsoft";
static const float zeros[64];

/* x [1,2,8], a matrix m [8,8], a vector v [8] and ids [1]. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(forms_of_attention_are_refused_by_name),
        TEST(forms_of_products_and_norms_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int main(void)
{
    return 0;
}

#endif
