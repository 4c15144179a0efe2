/* A frozen module keeps its ONNX model, and imports it again for sizes that its guards refuse.
 * Results are compared with ones computed here in double. */
#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "freeze/freeze.h"
#include "graph/method/method_impl.h"
#include "io/onnx/onnx.h"

#ifdef TESSERA_HAVE_ONNX

#include "tests/support/onnx/onnx_model.h"
#include "tests/support/onnx/onnx_sizes.h"

#define COLUMNS 320

static const int64_t sizes_of[] = {2, 3};

/* Makes y = (x + w) v, with x[N,3], w[2,3] and v[3,640]. N is 2, or 1 and broadcast. */
static uint8_t *make_model(size_t *out_n_bytes)
{
    begin_model(13, DIMS(-1, 3));
    sizes_weight("w", 2, sizes_of);
    sizes_weight("v", 2, (const int64_t[]){3, COLUMNS});
    maker_node(&maker, "Add", "add", "x w", "sum");
    maker_node(&maker, "MatMul", "mm", "sum v", "y");
    return maker_pack(&maker, out_n_bytes);
}

static double wanted_at(int64_t n, int64_t row, int64_t column)
{
    double sum = 0;
    for (int64_t k = 0; k < 3; k++) {
        const int64_t in = (n == 1 ? 0 : row) * 3 + k;
        sum += (sizes_element(in) + sizes_element(row * 3 + k)) *
               sizes_element(k * COLUMNS + column);
    }
    return sum;
}

static void check_run(context_t *ctx, module_t *module, int64_t n)
{
    tensor_t *y = NULL;
    float got[2 * COLUMNS];
    const int64_t sizes[] = {n, 3};
    CHECK_OK(ctx, sizes_run_at(ctx, module, 2, sizes, &y));
    assert_true(tensor_rank(y) == 2 && tensor_sizes(y)[0] == 2 && tensor_sizes(y)[1] == COLUMNS);
    CHECK_OK(ctx, tensor_read(ctx, y, got, sizeof got));
    for (int64_t i = 0; i < 2 * COLUMNS; i++) {
        const double wanted = wanted_at(n, i / COLUMNS, i % COLUMNS);
        assert_true(got[i] - wanted < 1e-3 && wanted - got[i] < 1e-3);
    }
    tensor_release(y);
}

static void check_refused(context_t *ctx, module_t *module, int64_t n)
{
    tensor_t *y = NULL;
    const int64_t sizes[] = {n, 3};
    CHECK_FAILS(ctx, sizes_run_at(ctx, module, 2, sizes, &y), STATUS_INVALID_ARGUMENT,
                "the graph holds where N == 2");
    assert_null(y);
}

static module_t *freeze_at_two(context_t *ctx, const uint8_t *bytes, size_t n_bytes)
{
    module_t *model = NULL, *frozen = NULL;
    const onnx_options_t options = {.batch = 2};
    CHECK_OK(ctx, onnx_load_bytes(ctx, bytes, n_bytes, &options, &model));
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    return frozen;
}

static void sizes_that_a_guard_refuses_are_imported(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    uint8_t *bytes = make_model(&n_bytes);
    module_t *frozen = freeze_at_two(ctx, bytes, n_bytes);
    check_run(ctx, frozen, 2);
    check_refused(ctx, frozen, 1);
    CHECK_OK(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, NULL, NULL));
    for (int i = 0; i < 3; i++) {
        check_run(ctx, frozen, 1);
        check_run(ctx, frozen, 2);
        check_refused(ctx, frozen, 3);
    }
    assert_int_equal(plan_n_graphs(frozen, "forward"), 1);
    module_release(frozen);
    free(bytes);
}

/* Also checks that the file has the weight v, of 3.8 kB, once: transposed, as the graph reads it.
 */
static void a_file_serves_sizes_other_than_those_it_was_made_at(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    uint8_t *bytes = make_model(&n_bytes);
    module_t *frozen = freeze_at_two(ctx, bytes, n_bytes), *loaded = NULL;
    struct stat plain, kept;
    CHECK_OK(ctx, freeze_save(ctx, frozen, sizes_file));
    assert_int_equal(stat(sizes_file, &plain), 0);
    CHECK_OK(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, NULL, NULL));
    CHECK_OK(ctx, freeze_save(ctx, frozen, sizes_file));
    assert_int_equal(stat(sizes_file, &kept), 0);
    assert_true(kept.st_size - plain.st_size < 3072);
    module_release(frozen);
    for (int round = 0; round < 2; round++) {
        CHECK_OK(ctx, freeze_load(ctx, sizes_file, &loaded));
        check_run(ctx, loaded, 2);
        check_refused(ctx, loaded, 1);
        CHECK_OK(ctx, onnx_reopen(ctx, loaded));
        check_run(ctx, loaded, 1);
        check_run(ctx, loaded, 2);
        check_refused(ctx, loaded, 3);
        CHECK_OK(ctx, freeze_save(ctx, loaded, sizes_file)); /* round 1 loads what round 0 saved */
        module_release(loaded);
    }
    CHECK_OK(ctx, freeze_append(ctx, sizes_file));
    CHECK_OK(ctx, freeze_load(ctx, sizes_file, &loaded));
    CHECK_OK(ctx, onnx_reopen(ctx, loaded));
    check_run(ctx, loaded, 1);
    module_release(loaded);
    free(bytes);
}

static void a_model_is_kept_only_where_it_is_needed_and_possible(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    module_t *model = NULL, *frozen = NULL;
    begin_model(13, DIMS(-1, 3));
    maker_node(&maker, "Relu", "", "x", "y");
    CHECK_OK(ctx, load_model_batch(ctx, 2, &model));
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    CHECK_FAILS(ctx, onnx_keep_bytes(ctx, model, bytes, n_bytes, NULL, NULL),
                STATUS_INVALID_ARGUMENT, "is not frozen, freeze it first");
    CHECK_FAILS(ctx, onnx_keep(ctx, model, "missing.onnx", NULL, NULL), STATUS_INVALID_ARGUMENT,
                "is not frozen");
    CHECK_FAILS(ctx, onnx_reopen(ctx, model), STATUS_INVALID_ARGUMENT, "is not frozen");
    CHECK_OK(ctx, freeze_take(ctx, &model, NULL, &frozen));
    CHECK_OK(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, NULL, NULL));
    assert_null(module_attribute(frozen, "frozen_source")); /* there is no guard */
    CHECK_OK(ctx, onnx_reopen(ctx, frozen));
    const freeze_options_t narrow = {.dtype = DTYPE_S8};
    CHECK_FAILS(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, NULL, &narrow),
                STATUS_UNSUPPORTED, "dtype s8 and max_error need examples");
    const freeze_options_t preserving = {.preserved = (const char *const[]){"w", NULL}};
    CHECK_FAILS(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, NULL, &preserving),
                STATUS_UNSUPPORTED, "would not hold for other sizes");
    datum_t *none = NULL;
    CHECK_OK(ctx, datum_none(ctx, &none));
    CHECK_OK(ctx, module_set_attribute(ctx, frozen, "frozen_source", none));
    CHECK_FAILS(ctx, onnx_reopen(ctx, frozen), STATUS_CORRUPT,
                "the model in the file is malformed");
    datum_release(none);
    module_release(frozen);
    free(bytes);
}

static void options_hold_for_graphs_that_are_made_later(void **state)
{
    context_t *ctx = fixture_context(state);
    size_t n_bytes = 0;
    uint8_t *bytes = make_model(&n_bytes);
    module_t *model = NULL, *frozen = NULL;
    const char *const guards[] = {"N <= 2"};
    const onnx_options_t options = {.batch = 2, .n_guards = 1, .guards = guards};
    const freeze_options_t how = {.keep_numerics = true, .has_rounding_error = true};
    CHECK_OK(ctx, onnx_load_bytes(ctx, bytes, n_bytes, &options, &model));
    CHECK_OK(ctx, freeze_take(ctx, &model, &how, &frozen));
    CHECK_OK(ctx, onnx_keep_bytes(ctx, frozen, bytes, n_bytes, &options, &how));
    check_run(ctx, frozen, 1);
    tensor_t *x = NULL;
    text_t text = text_begin(ctx);
    graph_t *graph = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1, 3), &x));
    CHECK_OK(ctx, graph_for(ctx, frozen, "forward", 1, (const tensor_t *const[]){x}, &graph));
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &text));
    assert_non_null(strstr(text_string(&text), "%x : f32[1,3]"));
    text_clear(&text);
    graph_release(graph);
    tensor_release(x);
    module_release(frozen);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes_that_a_guard_refuses_are_imported),
        TEST(a_file_serves_sizes_other_than_those_it_was_made_at),
        TEST(a_model_is_kept_only_where_it_is_needed_and_possible),
        TEST(options_hold_for_graphs_that_are_made_later),
    };
    sizes_file = "test_onnx_keep.tessera";
    return cmocka_run_group_tests(tests, NULL, sizes_remove_file);
}

#else
int main(void)
{
    return 0;
}
#endif
