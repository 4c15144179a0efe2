#include "module/state_dict.h"

#include "tests/support/support.h"

#include <string.h>

#include "module/layers/layers.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"

/* Makes Sequential(0: Conv2d, 1: BatchNorm2d). */
static status_t build(context_t *ctx, module_t **out_net)
{
    module_t *layer = NULL;
    TRY(layer_sequential(ctx, out_net));
    TRY(layer_conv2d(ctx, 2, 3, 1, NULL, true, &layer));
    TRY(layer_append_take(ctx, *out_net, layer));
    TRY(layer_batch_norm(ctx, 3, 1e-5, &layer));
    return layer_append_take(ctx, *out_net, layer);
}

static module_t *make(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, build(ctx, &net));
    return net;
}

static datum_t *dict_of(context_t *ctx, module_t *net)
{
    datum_t *dict = NULL;
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict));
    return dict;
}

static double first(context_t *ctx, const tensor_t *tensor)
{
    float elements[64];
    CHECK_OK(ctx, tensor_read(ctx, tensor, elements, sizeof elements));
    return (double)elements[0];
}

/* Adds a 1-D tensor of n nines to the dict. */
static void put(context_t *ctx, datum_t *dict, const char *key, int64_t n)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(n), 9, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &value));
    CHECK_OK(ctx, datum_put(ctx, dict, key, value));
    datum_release(value);
    tensor_release(tensor);
}

static void keys_are_paths_in_the_order_of_torch(void **state)
{
    static const char *const keys[] = {"0.weight",
                                       "0.bias",
                                       "1.weight",
                                       "1.bias",
                                       "1.running_mean",
                                       "1.running_var",
                                       "1.num_batches_tracked"};
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    datum_t *dict = dict_of(ctx, net);
    assert_int_equal(datum_length(dict), 7);
    for (int i = 0; i < 7; i++) assert_string_equal(datum_key(dict, i), keys[i]);
    tensor_t *weight = datum_as_tensor(datum_find(dict, "0.weight"));
    assert_ptr_equal(weight->storage, module_parameter(net, "0.weight")->storage);
    datum_release(dict);
    module_release(net);
}

static void absent_parameters_have_no_key(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    CHECK_OK(ctx, layer_linear(ctx, 3, 2, false, &net));
    datum_t *dict = dict_of(ctx, net);
    assert_int_equal(datum_length(dict), 1);
    assert_string_equal(datum_key(dict, 0), "weight");
    datum_release(dict);
    module_release(net);
}

static void mkldnn_tensors_come_out_plain(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    tensor_t *blocked = NULL;
    CHECK_OK(ctx, to_mkldnn(ctx, module_parameter(net, "0.weight"), &blocked));
    CHECK_OK(ctx, module_set_parameter(ctx, module_child(net, "0"), "weight", blocked));
    tensor_release(blocked);
    datum_t *dict = dict_of(ctx, net);
    assert_int_equal(tensor_layout(datum_as_tensor(datum_item(dict, 0))), LAYOUT_DENSE);
    datum_release(dict);
    module_release(net);
}

/* Files of PyTorch before 0.4.1 do not count batches. */
static void a_count_of_batches_may_be_absent(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *norm = NULL;
    tensor_t *seven = NULL;
    CHECK_OK(ctx, layer_batch_norm(ctx, 3, 1e-5, &norm));
    datum_t *whole = dict_of(ctx, norm), *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    for (int i = 0; i < datum_length(whole); i++)
        if (strcmp(datum_key(whole, i), "num_batches_tracked") != 0)
            CHECK_OK(ctx, datum_put(ctx, dict, datum_key(whole, i), datum_item(whole, i)));
    assert_int_equal(datum_length(dict), datum_length(whole) - 1);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_S64, 0, NULL, 7, &seven));
    CHECK_OK(ctx, tensor_copy(ctx, module_buffer(norm, "num_batches_tracked"), seven));
    CHECK_OK(ctx, module_load_state_dict(ctx, norm, dict));
    int64_t count = 0;
    CHECK_OK(ctx, tensor_item_integer(ctx, module_buffer(norm, "num_batches_tracked"), &count));
    assert_int_equal(count, 7);
    tensor_release(seven);
    datum_release(whole);
    datum_release(dict);
    module_release(norm);
}

static void loading_copies_values_in_place(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx), *other = make(ctx);
    tensor_t *weight = module_parameter(net, "0.weight");
    double difference = -1;
    CHECK_OK(ctx,
             tensor_max_rel_diff(ctx, weight, module_parameter(other, "0.weight"), &difference));
    assert_true(difference > 0);
    datum_t *dict = dict_of(ctx, other);
    CHECK_OK(ctx, module_load_state_dict(ctx, net, dict));
    assert_ptr_equal(module_parameter(net, "0.weight"), weight);
    CHECK_OK(ctx,
             tensor_max_rel_diff(ctx, weight, module_parameter(other, "0.weight"), &difference));
    assert_true(difference == 0);
    datum_release(dict);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(other, "0.weight"), 0));
    assert_true(first(ctx, weight) != 0);
    module_release(other);
    module_release(net);
}

static void loading_converts_dtype_and_strides(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    CHECK_OK(ctx, layer_linear(ctx, 2, 3, false, &net));
    static const double elements[] = {1, 2, 3, 4, 5, 6};
    tensor_t *tensor = NULL, *transposed = NULL;
    datum_t *value = NULL, *dict = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F64, SHAPE(2, 3), elements, &tensor));
    CHECK_OK(ctx, tensor_permute(ctx, tensor, 2, (int64_t[]){1, 0}, &transposed));
    CHECK_OK(ctx, datum_tensor(ctx, transposed, &value));
    CHECK_OK(ctx, datum_dict(ctx, 1, (const char *const[]){"weight"}, &value, &dict));
    CHECK_OK(ctx, module_load_state_dict(ctx, net, dict));
    float loaded[6];
    CHECK_OK(ctx, tensor_read(ctx, module_parameter(net, "weight"), loaded, sizeof loaded));
    static const float wanted[] = {1, 4, 2, 5, 3, 6};
    assert_memory_equal(loaded, wanted, sizeof wanted);
    datum_release(dict);
    datum_release(value);
    tensor_release(transposed);
    tensor_release(tensor);
    module_release(net);
}

static void a_wrong_dict_is_told_and_changes_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    datum_t *other = dict_of(ctx, net), *dict = NULL;
    double before = first(ctx, module_parameter(net, "1.bias"));
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    for (int i = 0; i < 5; i++)
        CHECK_OK(ctx, datum_put(ctx, dict, datum_key(other, i), datum_item(other, i)));
    put(ctx, dict, "1.bias", 3);
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, dict), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"1.running_var\" is missing, Sequential needs it");
    for (int i = 5; i < 7; i++)
        CHECK_OK(ctx, datum_put(ctx, dict, datum_key(other, i), datum_item(other, i)));
    put(ctx, dict, "2.bias", 3);
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, dict), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"2.bias\" is unknown, Sequential has no such");
    put(ctx, dict, "1.running_var", 4);
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, dict), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"1.running_var\" is [4], Sequential has [3]");
    CHECK_OK(ctx, datum_put(ctx, dict, "0.bias", other));
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, dict), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"0.bias\" is dict, must be a tensor");
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, datum_item(other, 0)),
                STATUS_INVALID_ARGUMENT, "load_state_dict: a tensor, must be a dict");
    assert_true(first(ctx, module_parameter(net, "1.bias")) == before);
    datum_release(dict);
    datum_release(other);
    module_release(net);
}

static void all_that_is_wrong_is_told_at_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    datum_t *other = dict_of(ctx, net), *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    for (int i = 0; i < 4; i++)
        CHECK_OK(ctx, datum_put(ctx, dict, datum_key(other, i), datum_item(other, i)));
    CHECK_OK(ctx, datum_put(ctx, dict, "0.weight", other));
    put(ctx, dict, "0.bias", 4);
    put(ctx, dict, "2.bias", 3);
    put(ctx, dict, "2.weight", 3);
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, dict), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"0.weight\" is dict, must be a tensor; \"0.bias\" is [4], "
                "Sequential has [3]; \"1.running_mean\", \"1.running_var\" are missing, "
                "Sequential needs them; \"2.bias\", \"2.weight\" are unknown, Sequential has no "
                "such parameter or buffer");
    datum_release(dict);
    datum_release(other);
    module_release(net);
}

static void assigned_tensors_become_the_modules(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx), *other = make(ctx);
    datum_t *dict = dict_of(ctx, other);
    CHECK_OK(ctx, module_assign_state_dict(ctx, net, dict, true));
    assert_int_equal(datum_length(dict), 7);
    for (int i = 0; i < 7; i++) {
        const char *key = datum_key(dict, i);
        const tensor_t *tensor = module_parameter(net, key);
        if (tensor == NULL) tensor = module_buffer(net, key);
        assert_ptr_equal(tensor, datum_as_tensor(datum_item(dict, i)));
    }
    module_release(other);
    datum_release(dict);
    assert_int_equal(tensor_rank(module_parameter(net, "0.weight")), 4);
    module_release(net);
}

static void an_assigned_tensor_of_another_dtype_is_converted(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *tensor = NULL;
    datum_t *value = NULL, *dict = NULL;
    CHECK_OK(ctx, layer_linear(ctx, 2, 1, false, &net));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F64, SHAPE(1, 2), (double[]){3, 4}, &tensor));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &value));
    CHECK_OK(ctx, datum_dict(ctx, 1, (const char *const[]){"weight"}, &value, &dict));
    CHECK_OK(ctx, module_assign_state_dict(ctx, net, dict, true));
    assert_int_equal(tensor_dtype(module_parameter(net, "weight")), DTYPE_F32);
    assert_true(first(ctx, module_parameter(net, "weight")) == 3);
    datum_release(dict);
    datum_release(value);
    tensor_release(tensor);
    module_release(net);
}

static void names_may_differ_where_that_is_allowed_but_shapes_may_not(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    datum_t *dict = NULL;
    double before = first(ctx, module_parameter(net, "1.weight"));
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    put(ctx, dict, "1.bias", 3);
    put(ctx, dict, "elsewhere", 3);
    CHECK_FAILS(ctx, module_assign_state_dict(ctx, net, dict, true), STATUS_INVALID_ARGUMENT,
                "\"elsewhere\" is unknown");
    assert_true(first(ctx, module_parameter(net, "1.bias")) != 9);
    CHECK_OK(ctx, module_assign_state_dict(ctx, net, dict, false));
    assert_true(first(ctx, module_parameter(net, "1.bias")) == 9);
    assert_true(first(ctx, module_parameter(net, "1.weight")) == before);
    put(ctx, dict, "1.weight", 4);
    CHECK_FAILS(ctx, module_assign_state_dict(ctx, net, dict, false), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"1.weight\" is [4], Sequential has [3]");
    datum_release(dict);
    module_release(net);
}

static void a_tensor_with_two_keys_needs_one_of_them(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make(ctx);
    datum_t *dict = dict_of(ctx, net);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "1.twin", module_parameter(net, "1.bias")));
    put(ctx, dict, "1.bias", 3);
    CHECK_OK(ctx, module_load_state_dict(ctx, net, dict));
    assert_true(first(ctx, module_parameter(net, "1.twin")) == 9);
    CHECK_OK(ctx, module_assign_state_dict(ctx, net, dict, true));
    assert_ptr_equal(module_parameter(net, "1.twin"), module_parameter(net, "1.bias"));
    assert_ptr_equal(module_parameter(net, "1.twin"), datum_as_tensor(datum_find(dict, "1.bias")));
    datum_release(dict);
    module_release(net);
}

static void values_are_written_into_mkldnn_parameters(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *mkldnn = NULL, *weight = NULL;
    datum_t *dict = NULL;
    CHECK_OK(ctx, layer_linear(ctx, 2, 2, false, &net));
    dict = dict_of(ctx, net);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, SHAPE(2, 2), (float[]){1, 2, 3, 4}, &weight));
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &mkldnn));
    CHECK_OK(ctx, module_set_parameter(ctx, net, "weight", mkldnn));
    double wanted = first(ctx, datum_as_tensor(datum_find(dict, "weight")));
    CHECK_OK(ctx, module_assign_state_dict(ctx, net, dict, true));
    assert_ptr_equal(module_parameter(net, "weight"), mkldnn);
    assert_true(first(ctx, mkldnn) == wanted);
    datum_release(dict);
    tensor_release(weight);
    tensor_release(mkldnn);
    module_release(net);
}

static status_t save_and_load(context_t *ctx)
{
    module_t *net = NULL, *other = NULL;
    datum_t *dict = NULL;
    status_t status = build(ctx, &net);
    if (status == STATUS_OK) status = build(ctx, &other);
    if (status == STATUS_OK) status = module_state_dict(ctx, net, &dict);
    if (status == STATUS_OK) status = module_load_state_dict(ctx, other, dict);
    if (status == STATUS_OK) status = module_assign_state_dict(ctx, other, dict, true);
    datum_release(dict);
    module_release(other);
    module_release(net);
    return status;
}

static void it_survives_every_failed_allocation(void **state)
{
    (void)state;
    check_every_allocation(save_and_load);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_are_paths_in_the_order_of_torch),
        TEST(absent_parameters_have_no_key),
        TEST(mkldnn_tensors_come_out_plain),
        TEST(a_count_of_batches_may_be_absent),
        TEST(loading_copies_values_in_place),
        TEST(loading_converts_dtype_and_strides),
        TEST(a_wrong_dict_is_told_and_changes_nothing),
        TEST(all_that_is_wrong_is_told_at_once),
        TEST(assigned_tensors_become_the_modules),
        TEST(an_assigned_tensor_of_another_dtype_is_converted),
        TEST(names_may_differ_where_that_is_allowed_but_shapes_may_not),
        TEST(a_tensor_with_two_keys_needs_one_of_them),
        TEST(values_are_written_into_mkldnn_parameters),
        TEST(it_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("state_dict", tests, NULL, NULL);
}
