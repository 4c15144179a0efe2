#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/datum.h"

static datum_t *make_int(context_t *ctx, int64_t value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_int(ctx, value, &datum));
    return datum;
}

static datum_t *make_string(context_t *ctx, const char *value)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_string(ctx, value, &datum));
    return datum;
}

static datum_t *make_list(context_t *ctx)
{
    datum_t *list = NULL;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &list));
    return list;
}

static void append_int(context_t *ctx, datum_t *list, int64_t value)
{
    datum_t *item = make_int(ctx, value);
    CHECK_OK(ctx, datum_append(ctx, list, item));
    datum_release(item);
}

static void check_text(context_t *ctx, const datum_t *datum, const char *wanted)
{
    text_t text = text_begin(ctx);
    datum_print(datum, &text);
    CHECK_OK(ctx, text_status(&text));
    assert_string_equal(text_string(&text), wanted);
    text_clear(&text);
}

static void every_kind_gives_back_its_value(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *none = NULL, *number = NULL, *truth = NULL, *string = make_string(ctx, "text");
    datum_t *integer = make_int(ctx, INT64_MIN);
    CHECK_OK(ctx, datum_none(ctx, &none));
    CHECK_OK(ctx, datum_float(ctx, 2.5, &number));
    CHECK_OK(ctx, datum_bool(ctx, true, &truth));
    assert_int_equal(datum_kind(none), DATUM_NONE);
    assert_true(datum_as_int(integer) == INT64_MIN);
    assert_true(datum_as_float(number) == 2.5);
    assert_true(datum_as_bool(truth));
    assert_string_equal(datum_as_string(string), "text");
    assert_true(datum_as_float(integer) == -0x1p63);
    assert_true(datum_as_float(truth) == 1);
    assert_int_equal(datum_as_int(truth), 1);
    assert_null(datum_as_string(integer));
    assert_null(datum_as_tensor(string));
    assert_string_equal(datum_kind_name(datum_kind(truth)), "bool");
    assert_ptr_equal(datum_retain(none), none);
    datum_release(none);
    datum_release(none);
    datum_release(number);
    datum_release(truth);
    datum_release(string);
    datum_release(integer);
    datum_release(NULL);
}

static void lists_hold_their_items_and_can_be_changed(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *list = make_list(ctx), *other = make_int(ctx, 77);
    for (int i = 0; i < 20; i++) append_int(ctx, list, i);
    assert_int_equal(datum_length(list), 20);
    assert_int_equal(datum_as_int(datum_item(list, 13)), 13);
    CHECK_OK(ctx, datum_set(ctx, list, 13, other));
    CHECK_OK(ctx, datum_set(ctx, list, 13, datum_item(list, 13)));
    assert_int_equal(datum_as_int(datum_item(list, 13)), 77);
    assert_null(datum_item(list, 20));
    assert_null(datum_item(list, -1));
    assert_null(datum_key(list, 0));
    CHECK_FAILS(ctx, datum_set(ctx, list, 20, other), STATUS_INVALID_ARGUMENT,
                "datum_set: index 20 of a list of 20, out of range");
    CHECK_FAILS(ctx, datum_append(ctx, other, list), STATUS_INVALID_ARGUMENT,
                "datum_append: a int was given, needs a list");
    datum_release(list);
    datum_release(other);
}

static void tuples_cannot_be_changed(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *item = make_int(ctx, 1), *tuple = NULL;
    CHECK_OK(ctx, datum_tuple(ctx, 2, (datum_t *[]){item, item}, &tuple));
    CHECK_FAILS(ctx, datum_append(ctx, tuple, item), STATUS_INVALID_ARGUMENT, "needs a list");
    CHECK_FAILS(ctx, datum_set(ctx, tuple, 0, item), STATUS_INVALID_ARGUMENT, "needs a list");
    CHECK_FAILS(ctx, datum_put(ctx, tuple, "k", item), STATUS_INVALID_ARGUMENT, "needs a dict");
    assert_int_equal(datum_length(tuple), 2);
    datum_release(item);
    datum_release(tuple);
}

static void dicts_keep_insertion_order_and_replace_by_key(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *one = make_int(ctx, 1), *two = make_int(ctx, 2), *dict = NULL;
    const char *keys[] = {"b", "a", "b"};
    CHECK_OK(ctx, datum_dict(ctx, 3, keys, (datum_t *[]){one, one, two}, &dict));
    assert_int_equal(datum_length(dict), 2);
    assert_string_equal(datum_key(dict, 0), "b");
    assert_int_equal(datum_as_int(datum_find(dict, "b")), 2);
    CHECK_OK(ctx, datum_put(ctx, dict, "c", two));
    CHECK_OK(ctx, datum_put(ctx, dict, "a", two));
    assert_int_equal(datum_length(dict), 3);
    assert_int_equal(datum_as_int(datum_find(dict, "a")), 2);
    assert_null(datum_find(dict, "d"));
    assert_null(datum_find(one, "a"));
    check_text(ctx, dict, "{\"b\": 2, \"a\": 2, \"c\": 2}");
    datum_release(one);
    datum_release(two);
    datum_release(dict);
}

/* A dict with few keys compares each key; one with many uses hashes. Both must find the same. */
static void dicts_of_any_number_of_keys_find_them(void **state)
{
    enum { N = 100000 };
    context_t *ctx = fixture_context(state);
    datum_t *dict = NULL, *copy = NULL;
    char key[32];
    CHECK_OK(ctx, datum_dict(ctx, 0, NULL, NULL, &dict));
    for (int n = 0; n < N; n++) {
        datum_t *value = make_int(ctx, n);
        snprintf(key, sizeof key, "layer.%d.weight", n);
        assert_null(datum_find(dict, key));
        CHECK_OK(ctx, datum_put(ctx, dict, key, value));
        datum_release(value);
        snprintf(key, sizeof key, "layer.%d.weight", n / 2);
        assert_int_equal(datum_as_int(datum_find(dict, key)), n / 2);
    }
    datum_t *other = make_int(ctx, -1);
    CHECK_OK(ctx, datum_put(ctx, dict, "layer.77.weight", other));
    datum_release(other);
    CHECK_OK(ctx, datum_clone(ctx, dict, &copy));
    assert_int_equal(datum_length(copy), N);
    assert_int_equal(datum_as_int(datum_find(copy, "layer.77.weight")), -1);
    assert_string_equal(datum_key(copy, 99), "layer.99.weight");
    assert_true(datum_equal(ctx, dict, copy));
    datum_release(copy);
    datum_release(dict);
}

static void missing_items_and_keys_are_named(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *out = NULL, *list = make_list(ctx);
    CHECK_FAILS(ctx, datum_list(ctx, 1, (datum_t *[]){NULL}, &out), STATUS_INVALID_ARGUMENT,
                "datum_list: an item is NULL");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, datum_dict(ctx, 1, (const char *[]){NULL}, (datum_t *[]){list}, &out),
                STATUS_INVALID_ARGUMENT, "datum_dict: a key is NULL");
    assert_null(out);
    datum_release(list);
}

static void a_container_cannot_hold_itself(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *list = make_list(ctx), *tuple = NULL;
    CHECK_OK(ctx, datum_tuple(ctx, 1, (datum_t *[]){list}, &tuple));
    CHECK_FAILS(ctx, datum_append(ctx, list, list), STATUS_INVALID_ARGUMENT,
                "datum_append: the item contains the list, which cannot contain itself");
    CHECK_FAILS(ctx, datum_append(ctx, list, tuple), STATUS_INVALID_ARGUMENT,
                "contains the list, which cannot");
    datum_release(list);
    datum_release(tuple);
}

static void literals_print_as_the_graph_language_has_them(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *items[6] = {make_int(ctx, 3), NULL, NULL, make_string(ctx, "a\"b"), NULL, NULL};
    tensor_t *x = NULL;
    datum_t *list = NULL, *tuple = NULL, *empty = make_list(ctx);
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(8, 64), &x));
    CHECK_OK(ctx, datum_float(ctx, 2.5, &items[1]));
    CHECK_OK(ctx, datum_bool(ctx, true, &items[2]));
    CHECK_OK(ctx, datum_none(ctx, &items[4]));
    CHECK_OK(ctx, datum_tensor(ctx, x, &items[5]));
    CHECK_OK(ctx, datum_list(ctx, 6, items, &list));
    CHECK_OK(ctx, datum_tuple(ctx, 2, (datum_t *[]){empty, items[0]}, &tuple));
    check_text(ctx, list, "[3, 2.5, true, \"a\\\"b\", none, f32[8,64]]");
    check_text(ctx, tuple, "([], 3)");
    check_text(ctx, NULL, "none");
    for (int i = 0; i < 6; i++) datum_release(items[i]);
    datum_release(list);
    datum_release(tuple);
    datum_release(empty);
    tensor_release(x);
}

static void a_clone_shares_nothing_that_can_change(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *list = make_list(ctx), *held = NULL, *tuple = NULL, *copy = NULL;
    tensor_t *x = NULL;
    append_int(ctx, list, 1);
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 1, &x));
    CHECK_OK(ctx, datum_tensor(ctx, x, &held));
    CHECK_OK(ctx, datum_tuple(ctx, 2, (datum_t *[]){list, held}, &tuple));
    CHECK_OK(ctx, datum_clone(ctx, tuple, &copy));
    assert_true(datum_equal(ctx, tuple, copy));
    append_int(ctx, list, 2);
    assert_int_equal(datum_length(datum_item(copy, 0)), 1);
    CHECK_OK(ctx, tensor_fill(ctx, x, 9));
    assert_true(((const float *)tensor_bytes(datum_as_tensor(datum_item(copy, 1))))[0] == 1);
    assert_false(datum_equal(ctx, tuple, copy));
    datum_release(list);
    datum_release(held);
    datum_release(tuple);
    datum_release(copy);
    tensor_release(x);
}

static void a_cloned_tensor_survives_the_scope_it_was_cloned_in(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *held = NULL, *copy = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, scope_begin(ctx));
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_F32, SHAPE(2), 3, &x));
    CHECK_OK(ctx, datum_tensor(ctx, x, &held));
    CHECK_OK(ctx, datum_clone(ctx, held, &copy));
    datum_release(held);
    CHECK_OK(ctx, scope_end(ctx));
    assert_true(((const float *)tensor_bytes(datum_as_tensor(copy)))[1] == 3);
    datum_release(copy);
}

static datum_t *hold(context_t *ctx, tensor_t *tensor)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    return datum;
}

static void tensors_are_equal_by_elements_in_any_layout(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *x = NULL, *last = NULL, *blocked = NULL, *other = NULL, *flat = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 2, 2), &x));
    CHECK_OK(ctx, tensor_channels_last(ctx, x, &last));
    CHECK_OK(ctx, convert_reorder(ctx, x, "aBcd8b", &blocked));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 2, 2), &other));
    CHECK_OK(ctx, tensor_view(ctx, x, SHAPE(12), &flat));
    datum_t *datums[] = {hold(ctx, x), hold(ctx, last), hold(ctx, blocked), hold(ctx, other),
                         hold(ctx, flat)};
    assert_true(datum_equal(ctx, datums[0], datums[1]));
    assert_true(datum_equal(ctx, datums[0], datums[2]));
    assert_true(datum_equal(ctx, datums[2], datums[1]));
    assert_false(datum_equal(ctx, datums[0], datums[3]));
    assert_false(datum_equal(ctx, datums[2], datums[3]));
    assert_false(datum_equal(ctx, datums[0], datums[4]));
    for (int i = 0; i < 5; i++) datum_release(datums[i]);
    tensor_release(x);
    tensor_release(last);
    tensor_release(blocked);
    tensor_release(other);
    tensor_release(flat);
}

static void values_are_equal_only_within_a_kind(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *one = make_int(ctx, 1), *number = NULL, *nan = NULL, *nan_too = NULL;
    datum_t *zero = NULL, *minus = NULL, *a = NULL, *b = NULL, *two = make_int(ctx, 2);
    CHECK_OK(ctx, datum_float(ctx, 1, &number));
    CHECK_OK(ctx, datum_float(ctx, NAN, &nan));
    CHECK_OK(ctx, datum_float(ctx, NAN, &nan_too));
    CHECK_OK(ctx, datum_float(ctx, 0.0, &zero));
    CHECK_OK(ctx, datum_float(ctx, -0.0, &minus));
    assert_false(datum_equal(ctx, one, number));
    assert_false(datum_equal(ctx, one, two));
    assert_true(datum_equal(ctx, nan, nan_too));
    assert_false(datum_equal(ctx, zero, minus));
    assert_false(datum_equal(ctx, one, NULL));
    CHECK_OK(ctx, datum_dict(ctx, 2, (const char *[]){"x", "y"}, (datum_t *[]){one, two}, &a));
    CHECK_OK(ctx, datum_dict(ctx, 2, (const char *[]){"y", "x"}, (datum_t *[]){two, one}, &b));
    assert_true(datum_equal(ctx, a, b));
    CHECK_OK(ctx, datum_put(ctx, b, "x", two));
    assert_false(datum_equal(ctx, a, b));
    datum_t *all[] = {one, two, number, nan, nan_too, zero, minus, a, b};
    for (int i = 0; i < 9; i++) datum_release(all[i]);
}

static status_t build_and_clone(context_t *ctx)
{
    tensor_t *x = NULL, *turned = NULL;
    datum_t *held = NULL, *string = NULL, *list = NULL, *dict = NULL, *copy = NULL;
    text_t text = text_begin(ctx);
    status_t status = tensor_randn(ctx, DTYPE_F32, SHAPE(3, 4), &x);
    if (status == STATUS_OK) status = tensor_permute(ctx, x, SHAPE(1, 0), &turned);
    if (status == STATUS_OK) status = datum_tensor(ctx, turned, &held);
    if (status == STATUS_OK) status = datum_string(ctx, "text", &string);
    if (status == STATUS_OK) status = datum_list(ctx, 2, (datum_t *[]){held, string}, &list);
    for (int i = 0; i < 10 && status == STATUS_OK; i++) status = datum_append(ctx, list, string);
    if (status == STATUS_OK)
        status = datum_dict(ctx, 1, (const char *[]){"k"}, (datum_t *[]){list}, &dict);
    if (status == STATUS_OK) status = datum_put(ctx, dict, "other", string);
    if (status == STATUS_OK) status = datum_clone(ctx, dict, &copy);
    if (status == STATUS_OK && !datum_equal(ctx, dict, copy)) status = context_status(ctx);
    if (status == STATUS_OK) {
        datum_print(copy, &text);
        status = text_status(&text);
    }
    text_clear(&text);
    datum_t *all[] = {held, string, list, dict, copy};
    for (int i = 0; i < 5; i++) datum_release(all[i]);
    tensor_release(x);
    tensor_release(turned);
    return status;
}

static void datums_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(build_and_clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_gives_back_its_value),
        TEST(lists_hold_their_items_and_can_be_changed),
        TEST(tuples_cannot_be_changed),
        TEST(dicts_keep_insertion_order_and_replace_by_key),
        TEST(dicts_of_any_number_of_keys_find_them),
        TEST(missing_items_and_keys_are_named),
        TEST(a_container_cannot_hold_itself),
        TEST(literals_print_as_the_graph_language_has_them),
        TEST(a_clone_shares_nothing_that_can_change),
        TEST(a_cloned_tensor_survives_the_scope_it_was_cloned_in),
        TEST(tensors_are_equal_by_elements_in_any_layout),
        TEST(values_are_equal_only_within_a_kind),
        TEST(datums_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
