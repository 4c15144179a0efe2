/* Every public function refuses or lets pass NULL where an object is meant, and sets its output to
 * NULL when it fails. Functions on plain data (shapes, formats, infos, element types, attributes,
 * specifications) need what their arguments point to. */
#include "tests/support/refusals.h"

#include "tessera.h"

static void the_functions_of_context_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_true(context_status(NULL) == 0);
    context_clear_error(NULL);
    assert_true(context_threads(NULL) == 0);
    REFUSES(context_set_threads(ctx, 0));
    assert_int_not_equal(context_set_threads(NULL, 0), STATUS_OK);
    context_seed(NULL, 0);
    progress_listen(NULL, NULL, NULL);
    progress_tell(NULL, NULL, 0, 0);
    assert_non_null(context_environment(NULL));
}

static void the_functions_of_convert_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, to_mkldnn(ctx, NULL, &out));
    REFUSES(to_mkldnn(ctx, NULL, NULL));
    assert_int_not_equal(to_mkldnn(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, to_dense(ctx, NULL, &out));
    REFUSES(to_dense(ctx, NULL, NULL));
    assert_int_not_equal(to_dense(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, convert_reorder(ctx, NULL, NULL, &out));
    REFUSES(convert_reorder(ctx, NULL, NULL, NULL));
    assert_int_not_equal(convert_reorder(NULL, NULL, NULL, NULL), STATUS_OK);
    assert_null(convert_format(NULL, NULL));
    convert_repro(NULL, NULL, NULL);
}

static void the_functions_of_counters_take_null(void **state)
{
    (void)state;
    (void)cause_name(0);
    counters_read(NULL, NULL);
    counters_reset(NULL);
    assert_true(counters_weight_reorders(NULL) == 0);
    assert_true(counters_activation_reorders(NULL) == 0);
    assert_true(counters_gradient_reorders(NULL) == 0);
    assert_true(counters_copies(NULL) == 0);
}

static void the_functions_of_datum_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    (void)datum_kind_name(0);
    REFUSES(datum_none(ctx, NULL));
    assert_int_not_equal(datum_none(NULL, NULL), STATUS_OK);
    GIVES_NULL(datum_t *, datum_tensor(ctx, NULL, &out));
    REFUSES(datum_tensor(ctx, NULL, NULL));
    assert_int_not_equal(datum_tensor(NULL, NULL, NULL), STATUS_OK);
    REFUSES(datum_int(ctx, 0, NULL));
    assert_int_not_equal(datum_int(NULL, 0, NULL), STATUS_OK);
    REFUSES(datum_float(ctx, 0, NULL));
    assert_int_not_equal(datum_float(NULL, 0, NULL), STATUS_OK);
    REFUSES(datum_bool(ctx, 0, NULL));
    assert_int_not_equal(datum_bool(NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(datum_t *, datum_string(ctx, NULL, &out));
    REFUSES(datum_string(ctx, NULL, NULL));
    assert_int_not_equal(datum_string(NULL, NULL, NULL), STATUS_OK);
    REFUSES(datum_list(ctx, 0, NULL, NULL));
    assert_int_not_equal(datum_list(NULL, 0, NULL, NULL), STATUS_OK);
    REFUSES(datum_tuple(ctx, 0, NULL, NULL));
    assert_int_not_equal(datum_tuple(NULL, 0, NULL, NULL), STATUS_OK);
    REFUSES(datum_dict(ctx, 0, NULL, NULL, NULL));
    assert_int_not_equal(datum_dict(NULL, 0, NULL, NULL, NULL), STATUS_OK);
    assert_null(datum_retain(NULL));
    datum_release(NULL);
    assert_true(datum_kind(NULL) == 0);
    assert_null(datum_as_tensor(NULL));
    assert_true(datum_as_int(NULL) == 0);
    assert_true(datum_as_float(NULL) == 0);
    assert_false(datum_as_bool(NULL));
    assert_null(datum_as_string(NULL));
    assert_true(datum_length(NULL) == 0);
    assert_null(datum_item(NULL, 0));
    assert_null(datum_key(NULL, 0));
    assert_null(datum_find(NULL, NULL));
    REFUSES(datum_append(ctx, NULL, NULL));
    assert_int_not_equal(datum_append(NULL, NULL, NULL), STATUS_OK);
    REFUSES(datum_set(ctx, NULL, 0, NULL));
    assert_int_not_equal(datum_set(NULL, NULL, 0, NULL), STATUS_OK);
    REFUSES(datum_put(ctx, NULL, NULL, NULL));
}

static void the_second_functions_of_datum_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(datum_put(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(datum_t *, datum_clone(ctx, NULL, &out));
    REFUSES(datum_clone(ctx, NULL, NULL));
    assert_int_not_equal(datum_clone(NULL, NULL, NULL), STATUS_OK);
    assert_true(datum_equal(NULL, NULL, NULL));
    datum_print(NULL, NULL);
}

static void the_functions_of_file_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(file_mapping_t *, file_map(ctx, NULL, &out));
    REFUSES(file_map(ctx, NULL, NULL));
    assert_int_not_equal(file_map(NULL, NULL, NULL), STATUS_OK);
    assert_null(file_bytes(NULL));
    assert_true(file_size(NULL) == 0);
    assert_null(file_retain(NULL));
    file_release(NULL);
    GIVES_NULL(tensor_t *, file_tensor(ctx, NULL, 0, NULL, &out));
    REFUSES(file_tensor(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(file_tensor(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(file_writer_t *, file_write_begin(ctx, NULL, &out));
    REFUSES(file_write_begin(ctx, NULL, NULL));
    assert_int_not_equal(file_write_begin(NULL, NULL, NULL), STATUS_OK);
    assert_int_not_equal(file_write(NULL, NULL, 0), STATUS_OK);
    assert_true(file_write_offset(NULL) == 0);
    assert_int_not_equal(file_write_end(NULL, 0), STATUS_OK);
    (void)file_checksum(NULL, 0, 0);
}

static void the_functions_of_format_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    REFUSES(format_parse(ctx, NULL, NULL));
    assert_int_not_equal(format_parse(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_info_take_null(void **state)
{
    (void)state;
    (void)layout_name(0);
}

static void the_functions_of_scope_take_null(void **state)
{
    (void)state;
    assert_int_not_equal(scope_begin(NULL), STATUS_OK);
    scope_keep(NULL, NULL);
    assert_int_not_equal(scope_end(NULL), STATUS_OK);
}

static void the_functions_of_status_take_null(void **state)
{
    (void)state;
    (void)status_name(0);
}

static void the_functions_of_tensor_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, tensor_empty(ctx, 0, 0, NULL, &out));
    REFUSES(tensor_empty(ctx, 0, 0, NULL, NULL));
    assert_int_not_equal(tensor_empty(NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_zeros(ctx, 0, 0, NULL, &out));
    REFUSES(tensor_zeros(ctx, 0, 0, NULL, NULL));
    assert_int_not_equal(tensor_zeros(NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_full(ctx, 0, 0, NULL, 0, &out));
    REFUSES(tensor_full(ctx, 0, 0, NULL, 0, NULL));
    assert_int_not_equal(tensor_full(NULL, 0, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_rand(ctx, 0, 0, NULL, &out));
    REFUSES(tensor_rand(ctx, 0, 0, NULL, NULL));
    assert_int_not_equal(tensor_rand(NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_randn(ctx, 0, 0, NULL, &out));
    REFUSES(tensor_randn(ctx, 0, 0, NULL, NULL));
    assert_int_not_equal(tensor_randn(NULL, 0, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_arange(ctx, 0, 0, 0, &out));
    REFUSES(tensor_arange(ctx, 0, 0, 0, NULL));
    assert_int_not_equal(tensor_arange(NULL, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_from(ctx, 0, 0, NULL, NULL, &out));
    REFUSES(tensor_from(ctx, 0, 0, NULL, NULL, NULL));
    assert_int_not_equal(tensor_from(NULL, 0, 0, NULL, NULL, NULL), STATUS_OK);
    REFUSES(tensor_number(ctx, 0, NULL));
    assert_int_not_equal(tensor_number(NULL, 0, NULL), STATUS_OK);
    REFUSES(tensor_integer(ctx, 0, NULL));
    assert_int_not_equal(tensor_integer(NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_borrow(ctx, 0, 0, NULL, NULL, NULL, NULL, NULL, &out));
    REFUSES(tensor_borrow(ctx, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL));
    assert_int_not_equal(tensor_borrow(NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    assert_null(tensor_retain(NULL));
    tensor_release(NULL);
    assert_true(tensor_dtype(NULL) == 0);
    assert_true(tensor_layout(NULL) == 0);
    assert_true(tensor_rank(NULL) == 0);
    assert_null(tensor_sizes(NULL));
    assert_true(tensor_numel(NULL) == 0);
    assert_null(tensor_info(NULL));
    GIVES_NULL(const int64_t *, tensor_strides(ctx, NULL, &out));
    REFUSES(tensor_strides(ctx, NULL, NULL));
}

static void the_second_functions_of_tensor_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(tensor_strides(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(const void *, tensor_data(ctx, NULL, &out));
    REFUSES(tensor_data(ctx, NULL, NULL));
    assert_int_not_equal(tensor_data(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(void *, tensor_data_mutable(ctx, NULL, &out));
    REFUSES(tensor_data_mutable(ctx, NULL, NULL));
    assert_int_not_equal(tensor_data_mutable(NULL, NULL, NULL), STATUS_OK);
    REFUSES(tensor_item(ctx, NULL, NULL));
    assert_int_not_equal(tensor_item(NULL, NULL, NULL), STATUS_OK);
    REFUSES(tensor_item_integer(ctx, NULL, NULL));
    assert_int_not_equal(tensor_item_integer(NULL, NULL, NULL), STATUS_OK);
    REFUSES(tensor_read(ctx, NULL, NULL, 0));
    assert_int_not_equal(tensor_read(NULL, NULL, NULL, 0), STATUS_OK);
    REFUSES(tensor_max_rel_diff(ctx, NULL, NULL, NULL));
    assert_int_not_equal(tensor_max_rel_diff(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_as_strided(ctx, NULL, 0, NULL, NULL, 0, &out));
    REFUSES(tensor_as_strided(ctx, NULL, 0, NULL, NULL, 0, NULL));
    assert_int_not_equal(tensor_as_strided(NULL, NULL, 0, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_view(ctx, NULL, 0, NULL, &out));
    REFUSES(tensor_view(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(tensor_view(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_permute(ctx, NULL, 0, NULL, &out));
    REFUSES(tensor_permute(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(tensor_permute(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_narrow(ctx, NULL, 0, 0, 0, &out));
    REFUSES(tensor_narrow(ctx, NULL, 0, 0, 0, NULL));
    assert_int_not_equal(tensor_narrow(NULL, NULL, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_clone(ctx, NULL, &out));
    REFUSES(tensor_clone(ctx, NULL, NULL));
    assert_int_not_equal(tensor_clone(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_contiguous(ctx, NULL, &out));
    REFUSES(tensor_contiguous(ctx, NULL, NULL));
    assert_int_not_equal(tensor_contiguous(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_channels_last(ctx, NULL, &out));
    REFUSES(tensor_channels_last(ctx, NULL, NULL));
    assert_int_not_equal(tensor_channels_last(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, tensor_cast(ctx, NULL, 0, &out));
    REFUSES(tensor_cast(ctx, NULL, 0, NULL));
}

static void the_third_functions_of_tensor_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(tensor_cast(NULL, NULL, 0, NULL), STATUS_OK);
    REFUSES(tensor_copy(ctx, NULL, NULL));
    assert_int_not_equal(tensor_copy(NULL, NULL, NULL), STATUS_OK);
    REFUSES(tensor_fill(ctx, NULL, 0));
    assert_int_not_equal(tensor_fill(NULL, NULL, 0), STATUS_OK);
}

static void the_functions_of_text_take_null(void **state)
{
    (void)state;
    text_append_quoted(NULL, NULL);
    text_append_float(NULL, 0);
    assert_string_equal(text_string(NULL), "");
    assert_int_not_equal(text_status(NULL), STATUS_OK);
    text_clear(NULL);
}

static void the_functions_of_trace_take_null(void **state)
{
    (void)state;
    assert_false(trace_wanted(NULL, 0));
}

static void the_functions_of_dispatch_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    (void)policy_name(0);
    assert_int_not_equal(dispatch_set_policy(NULL, 0), STATUS_OK);
    assert_true(dispatch_policy(NULL) == 0);
    REFUSES(dispatch_run(ctx, NULL, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(dispatch_run(NULL, NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(prepared_t *, dispatch_select(ctx, NULL, NULL, 0, NULL, 0, &out));
    REFUSES(dispatch_select(ctx, NULL, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(dispatch_select(NULL, NULL, NULL, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(prepared_t *, dispatch_select_fixed(ctx, NULL, NULL, 0, NULL, 0, NULL, &out));
    REFUSES(dispatch_select_fixed(ctx, NULL, NULL, 0, NULL, 0, NULL, NULL));
    assert_int_not_equal(dispatch_select_fixed(NULL, NULL, NULL, 0, NULL, 0, NULL, NULL),
                         STATUS_OK);
    assert_null(prepared_retain(NULL));
    prepared_release(NULL);
    assert_null(prepared_kernel(NULL));
    assert_null(prepared_implementation(NULL));
    assert_null(prepared_reasons(NULL));
    assert_null(prepared_input(NULL, 0));
    assert_null(prepared_output(NULL, 0));
    assert_true(prepared_n_outputs(NULL) == 0);
    assert_true(prepared_cost(NULL) == 0);
    prepared_repro(NULL, NULL);
    REFUSES(dispatch_infer(ctx, NULL, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(dispatch_infer(NULL, NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    REFUSES(dispatch_verify(ctx, NULL, NULL, 0, NULL, 0, NULL, 0, NULL));
    assert_int_not_equal(dispatch_verify(NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL), STATUS_OK);
    REFUSES(dispatch_add_observer(ctx, NULL));
    assert_int_not_equal(dispatch_add_observer(NULL, NULL), STATUS_OK);
    dispatch_remove_observer(NULL, NULL);
    dispatch_enter_module(NULL, NULL);
    dispatch_leave_module(NULL, NULL);
    dispatch_clear_cache(NULL);
}

static void the_functions_of_layers_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(module_t *, layer_conv(ctx, 0, 0, 0, NULL, NULL, 0, &out));
    REFUSES(layer_conv(ctx, 0, 0, 0, NULL, NULL, 0, NULL));
    assert_int_not_equal(layer_conv(NULL, 0, 0, 0, NULL, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_conv2d(ctx, 0, 0, 0, NULL, 0, &out));
    REFUSES(layer_conv2d(ctx, 0, 0, 0, NULL, 0, NULL));
    assert_int_not_equal(layer_conv2d(NULL, 0, 0, 0, NULL, 0, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_linear(ctx, 0, 0, 0, &out));
    REFUSES(layer_linear(ctx, 0, 0, 0, NULL));
    assert_int_not_equal(layer_linear(NULL, 0, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_batch_norm(ctx, 0, 0, &out));
    REFUSES(layer_batch_norm(ctx, 0, 0, NULL));
    assert_int_not_equal(layer_batch_norm(NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_max_pool2d(ctx, NULL, &out));
    REFUSES(layer_max_pool2d(ctx, NULL, NULL));
    assert_int_not_equal(layer_max_pool2d(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_avg_pool2d(ctx, NULL, &out));
    REFUSES(layer_avg_pool2d(ctx, NULL, NULL));
    assert_int_not_equal(layer_avg_pool2d(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_adaptive_avg_pool2d(ctx, 0, 0, &out));
    REFUSES(layer_adaptive_avg_pool2d(ctx, 0, 0, NULL));
    assert_int_not_equal(layer_adaptive_avg_pool2d(NULL, 0, 0, NULL), STATUS_OK);
    GIVES_NULL(module_t *, layer_activation(ctx, 0, 0, 0, &out));
    REFUSES(layer_activation(ctx, 0, 0, 0, NULL));
    assert_int_not_equal(layer_activation(NULL, 0, 0, 0, NULL), STATUS_OK);
    REFUSES(layer_flatten(ctx, 0, 0, NULL));
    assert_int_not_equal(layer_flatten(NULL, 0, 0, NULL), STATUS_OK);
    REFUSES(layer_dropout(ctx, 0, NULL));
    assert_int_not_equal(layer_dropout(NULL, 0, NULL), STATUS_OK);
    REFUSES(layer_dense_to_mkldnn(ctx, NULL));
    assert_int_not_equal(layer_dense_to_mkldnn(NULL, NULL), STATUS_OK);
    REFUSES(layer_mkldnn_to_dense(ctx, NULL));
    assert_int_not_equal(layer_mkldnn_to_dense(NULL, NULL), STATUS_OK);
    REFUSES(layer_sequential(ctx, NULL));
    assert_int_not_equal(layer_sequential(NULL, NULL), STATUS_OK);
    REFUSES(layer_append_take(ctx, NULL, NULL));
    assert_int_not_equal(layer_append_take(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_mkldnn_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    REFUSES(module_mkldnn(ctx, NULL, NULL));
    assert_int_not_equal(module_mkldnn(NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_dense(ctx, NULL));
    assert_int_not_equal(module_dense(NULL, NULL), STATUS_OK);
}

static void the_functions_of_module_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(module_t *, module_create(ctx, NULL, &out));
    REFUSES(module_create(ctx, NULL, NULL));
    assert_int_not_equal(module_create(NULL, NULL, NULL), STATUS_OK);
    assert_null(module_retain(NULL));
    module_release(NULL);
    REFUSES(module_set_parameter(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_set_parameter(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_set_buffer(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_set_buffer(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_set_attribute(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_set_attribute(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_set_child(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_set_child(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_set_forward(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_set_forward(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_set_method_take(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(module_set_method_take(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    assert_null(module_type(NULL));
    assert_null(module_parameter(NULL, NULL));
    assert_null(module_buffer(NULL, NULL));
    assert_null(module_attribute(NULL, NULL));
    assert_null(module_child(NULL, NULL));
    assert_null(module_method(NULL, NULL, NULL));
    assert_true(module_n_members(NULL) == 0);
    assert_null(module_member(NULL, 0, NULL));
    REFUSES(module_remove(ctx, NULL, NULL));
    assert_int_not_equal(module_remove(NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_train(ctx, NULL, 0));
    assert_int_not_equal(module_train(NULL, NULL, 0), STATUS_OK);
    assert_false(module_is_training(NULL));
    GIVES_NULL(tensor_t *, module_forward(ctx, NULL, NULL, &out));
    REFUSES(module_forward(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_forward(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_call(ctx, NULL, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(module_call(NULL, NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_call_tensors(ctx, NULL, NULL, 0, NULL, NULL, NULL));
}

static void the_second_functions_of_module_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_int_not_equal(module_call_tensors(NULL, NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(tensor_t *, module_run_child(ctx, NULL, NULL, NULL, &out));
    REFUSES(module_run_child(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(module_run_child(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, module_clone(ctx, NULL, &out));
    REFUSES(module_clone(ctx, NULL, NULL));
    assert_int_not_equal(module_clone(NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_walk(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_walk(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_print(ctx, NULL, NULL));
    assert_int_not_equal(module_print(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_state_dict_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(datum_t *, module_state_dict(ctx, NULL, &out));
    REFUSES(module_state_dict(ctx, NULL, NULL));
    assert_int_not_equal(module_state_dict(NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_load_state_dict(ctx, NULL, NULL));
    assert_int_not_equal(module_load_state_dict(NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_assign_state_dict(ctx, NULL, NULL, true));
    assert_int_not_equal(module_assign_state_dict(NULL, NULL, NULL, true), STATUS_OK);
}

static void the_functions_of_zoo_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(module_t *, zoo_create(ctx, NULL, NULL, &out, NULL));
    REFUSES(zoo_create(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(zoo_create(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(zoo_resnet50(ctx, NULL));
    assert_int_not_equal(zoo_resnet50(NULL, NULL), STATUS_OK);
    REFUSES(zoo_alexnet(ctx, NULL));
    assert_int_not_equal(zoo_alexnet(NULL, NULL), STATUS_OK);
}

static void the_functions_of_graph_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    (void)graph_name(NULL);
    assert_null(graph_body(NULL));
    assert_true(graph_n_values(NULL) == 0);
    (void)graph_value_name(NULL, 0);
    (void)graph_value_type(NULL, 0);
    assert_null(graph_producer(NULL, 0));
    assert_true(graph_n_uses(NULL, 0) == 0);
    assert_null(graph_constant(NULL, 0));
    assert_true(graph_n_nodes(NULL) == 0);
    assert_null(graph_retain(NULL));
    graph_release(NULL);
    GIVES_NULL(graph_builder_t *, graph_builder_create(ctx, NULL, &out));
    REFUSES(graph_builder_create(ctx, NULL, NULL));
    assert_int_not_equal(graph_builder_create(NULL, NULL, NULL), STATUS_OK);
    graph_builder_destroy(NULL);
    assert_int_equal(graph_add_param(NULL, NULL, NULL), VALUE_NONE);
    assert_int_equal(graph_add_constant(NULL, NULL, NULL), VALUE_NONE);
    assert_int_equal(graph_add_literal(NULL, NULL), VALUE_NONE);
    assert_int_equal(graph_add_getattr(NULL, 0, NULL, NULL), VALUE_NONE);
    assert_int_equal(graph_add_op(NULL, NULL, NULL, 0, NULL, NULL), VALUE_NONE);
    graph_add_op_n(NULL, NULL, NULL, 0, NULL, NULL, 0, NULL);
    graph_add_node(NULL, NULL, NULL, NULL, NULL, NULL);
    graph_block_begin(NULL);
    graph_block_end(NULL, 0, NULL);
    graph_set_type(NULL, 0, NULL);
    (void)graph_builder_type(NULL, 0);
    assert_null(graph_builder_constant(NULL, 0));
    graph_builder_fail(NULL, 0);
    graph_t *graph = (graph_t *)(void *)&refusals_garbage;
    assert_int_not_equal(graph_finish(NULL, 0, NULL, &graph), STATUS_OK);
    assert_null(graph);
    assert_int_not_equal(graph_finish(NULL, 0, NULL, NULL), STATUS_OK);
    REFUSES(graph_print(ctx, NULL, NULL, NULL));
    assert_int_not_equal(graph_print(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(graph_t *, graph_parse(ctx, NULL, NULL, &out));
    REFUSES(graph_parse(ctx, NULL, NULL, NULL));
    assert_int_not_equal(graph_parse(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(graph_t *, graph_parse_next(ctx, NULL, NULL, &out));
    REFUSES(graph_parse_next(ctx, NULL, NULL, NULL));
    assert_int_not_equal(graph_parse_next(NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_second_functions_of_graph_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    REFUSES(graph_verify(ctx, NULL));
    assert_int_not_equal(graph_verify(NULL, NULL), STATUS_OK);
    REFUSES(graph_define(ctx, NULL, NULL));
    assert_int_not_equal(graph_define(NULL, NULL, NULL), STATUS_OK);
    REFUSES(graph_trace(ctx, NULL, NULL, 0, NULL));
    assert_int_not_equal(graph_trace(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    REFUSES(graph_set_method(ctx, NULL, NULL, NULL));
    assert_int_not_equal(graph_set_method(NULL, NULL, NULL, NULL), STATUS_OK);
    assert_null(graph_of(NULL, NULL));
    REFUSES(graph_run(ctx, NULL, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(graph_run(NULL, NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    REFUSES(graph_alias(ctx, NULL, NULL));
    assert_int_not_equal(graph_alias(NULL, NULL, NULL), STATUS_OK);
    REFUSES(graph_dot(ctx, NULL, NULL));
    assert_int_not_equal(graph_dot(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_pass_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    assert_null(pass_at(-1));
    assert_null(pass_find(NULL));
    GIVES_NULL(graph_t *, pass_run(ctx, NULL, NULL, NULL, &out));
    REFUSES(pass_run(ctx, NULL, NULL, NULL, NULL));
    assert_int_not_equal(pass_run(NULL, NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_plan_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(plan_t *, plan_create(ctx, NULL, NULL, &out));
    REFUSES(plan_create(ctx, NULL, NULL, NULL));
    assert_int_not_equal(plan_create(NULL, NULL, NULL, NULL), STATUS_OK);
    assert_null(plan_retain(NULL));
    plan_release(NULL);
    REFUSES(plan_run(ctx, NULL, 0, NULL, NULL, NULL));
    assert_int_not_equal(plan_run(NULL, NULL, 0, NULL, NULL, NULL), STATUS_OK);
    assert_true(plan_n_steps(NULL) == 0);
    assert_null(plan_step(NULL, 0));
    assert_true(plan_arena_bytes(NULL) == 0);
    assert_true(plan_weight_bytes(NULL) == 0);
    REFUSES(plan_set_method(ctx, NULL, NULL, NULL, 0));
    assert_int_not_equal(plan_set_method(NULL, NULL, NULL, NULL, 0), STATUS_OK);
    REFUSES(plan_warm(ctx, NULL, NULL));
    assert_int_not_equal(plan_warm(NULL, NULL, NULL), STATUS_OK);
    assert_false(plan_is_method(NULL, NULL));
    assert_null(plan_of(NULL, NULL));
    GIVES_NULL(graph_t *, graph_for(ctx, NULL, NULL, 0, NULL, &out));
    REFUSES(graph_for(ctx, NULL, NULL, 0, NULL, NULL));
    assert_int_not_equal(graph_for(NULL, NULL, NULL, 0, NULL, NULL), STATUS_OK);
    assert_null(plan_graph(NULL));
}

static void the_functions_of_freeze_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(module_t *, freeze(ctx, NULL, NULL, &out));
    REFUSES(freeze(ctx, NULL, NULL, NULL));
    assert_int_not_equal(freeze(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, freeze_take(ctx, NULL, NULL, &out));
    REFUSES(freeze_take(ctx, NULL, NULL, NULL));
    assert_int_not_equal(freeze_take(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(freeze_optimize(ctx, NULL, NULL));
    assert_int_not_equal(freeze_optimize(NULL, NULL, NULL), STATUS_OK);
    REFUSES(freeze_explain(ctx, NULL, NULL));
    assert_int_not_equal(freeze_explain(NULL, NULL, NULL), STATUS_OK);
    assert_false(freeze_is_frozen(NULL));
    REFUSES(freeze_params(ctx, NULL, NULL, NULL));
    assert_int_not_equal(freeze_params(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(freeze_flags(ctx, NULL, NULL, NULL, 0));
    assert_int_not_equal(freeze_flags(NULL, NULL, NULL, NULL, 0), STATUS_OK);
    REFUSES(freeze_save(ctx, NULL, NULL));
    assert_int_not_equal(freeze_save(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, freeze_load(ctx, NULL, &out));
    REFUSES(freeze_load(ctx, NULL, NULL));
    assert_int_not_equal(freeze_load(NULL, NULL, NULL), STATUS_OK);
    REFUSES(freeze_tune(ctx, NULL, 0, NULL, 1.0, NULL));
    assert_int_not_equal(freeze_tune(NULL, NULL, 0, NULL, 1.0, NULL), STATUS_OK);
    REFUSES(freeze_append(ctx, NULL));
    assert_int_not_equal(freeze_append(NULL, NULL), STATUS_OK);
}

static void the_functions_of_safetensors_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(safetensors_t *, safetensors_open(ctx, NULL, &out));
    REFUSES(safetensors_open(ctx, NULL, NULL));
    assert_int_not_equal(safetensors_open(NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(safetensors_t *, safetensors_open_bytes(ctx, NULL, 0, &out));
    REFUSES(safetensors_open_bytes(ctx, NULL, 0, NULL));
    assert_int_not_equal(safetensors_open_bytes(NULL, NULL, 0, NULL), STATUS_OK);
    safetensors_close(NULL);
    assert_int_equal(safetensors_count(NULL), 0);
    assert_null(safetensors_info(NULL, 0));
    assert_null(safetensors_find(NULL, NULL));
    assert_int_equal(safetensors_n_metadata(NULL), 0);
    assert_null(safetensors_metadata_key(NULL, 0));
    assert_null(safetensors_metadata(NULL, NULL));
    GIVES_NULL(tensor_t *, safetensors_tensor(ctx, NULL, NULL, &out));
    REFUSES(safetensors_tensor(ctx, NULL, NULL, NULL));
    assert_int_not_equal(safetensors_tensor(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(datum_t *, safetensors_load(ctx, NULL, &out));
    REFUSES(safetensors_load(ctx, NULL, NULL));
    assert_int_not_equal(safetensors_load(NULL, NULL, NULL), STATUS_OK);
    REFUSES(safetensors_save(ctx, NULL, NULL, NULL));
    assert_int_not_equal(safetensors_save(NULL, NULL, NULL, NULL), STATUS_OK);
    REFUSES(module_load_safetensors(ctx, NULL, NULL, true));
    assert_int_not_equal(module_load_safetensors(NULL, NULL, NULL, true), STATUS_OK);
    REFUSES(module_save_safetensors(ctx, NULL, NULL, NULL));
    assert_int_not_equal(module_save_safetensors(NULL, NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_npy_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(tensor_t *, npy_load(ctx, NULL, &out));
    REFUSES(npy_load(ctx, NULL, NULL));
    assert_int_not_equal(npy_load(NULL, NULL, NULL), STATUS_OK);
    REFUSES(npy_save(ctx, NULL, NULL));
    assert_int_not_equal(npy_save(NULL, NULL, NULL), STATUS_OK);
}

static void the_functions_of_onnx_take_null(void **state)
{
    context_t *ctx = fixture_context(state);
    GIVES_NULL(module_t *, onnx_load(ctx, NULL, NULL, &out));
    REFUSES(onnx_load(ctx, NULL, NULL, NULL));
    assert_int_not_equal(onnx_load(NULL, NULL, NULL, NULL), STATUS_OK);
    GIVES_NULL(module_t *, onnx_load_bytes(ctx, NULL, 0, NULL, &out));
    REFUSES(onnx_load_bytes(ctx, NULL, 0, NULL, NULL));
    assert_int_not_equal(onnx_load_bytes(NULL, NULL, 0, NULL, NULL), STATUS_OK);
    REFUSES(module_input(ctx, NULL, "forward", 0, NULL));
    REFUSES(module_output(ctx, NULL, "forward", 0, NULL));
    assert_int_not_equal(module_input(NULL, NULL, NULL, 0, NULL), STATUS_OK);
    REFUSES(module_check_inputs(ctx, NULL, "forward", 0, NULL));
    assert_int_not_equal(module_check_inputs(NULL, NULL, NULL, 0, NULL), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_functions_of_context_take_null),
        TEST(the_functions_of_convert_take_null),
        TEST(the_functions_of_counters_take_null),
        TEST(the_functions_of_datum_take_null),
        TEST(the_second_functions_of_datum_take_null),
        TEST(the_functions_of_file_take_null),
        TEST(the_functions_of_format_take_null),
        TEST(the_functions_of_info_take_null),
        TEST(the_functions_of_scope_take_null),
        TEST(the_functions_of_status_take_null),
        TEST(the_functions_of_tensor_take_null),
        TEST(the_second_functions_of_tensor_take_null),
        TEST(the_third_functions_of_tensor_take_null),
        TEST(the_functions_of_text_take_null),
        TEST(the_functions_of_trace_take_null),
        TEST(the_functions_of_dispatch_take_null),
        TEST(the_functions_of_layers_take_null),
        TEST(the_functions_of_mkldnn_take_null),
        TEST(the_functions_of_module_take_null),
        TEST(the_second_functions_of_module_take_null),
        TEST(the_functions_of_state_dict_take_null),
        TEST(the_functions_of_zoo_take_null),
        TEST(the_functions_of_graph_take_null),
        TEST(the_second_functions_of_graph_take_null),
        TEST(the_functions_of_pass_take_null),
        TEST(the_functions_of_plan_take_null),
        TEST(the_functions_of_freeze_take_null),
        TEST(the_functions_of_npy_take_null),
        TEST(the_functions_of_safetensors_take_null),
        TEST(the_functions_of_onnx_take_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
