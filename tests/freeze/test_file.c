#include "freeze/freeze.h"

#include "tests/support/support.h"

#include "tests/support/nets/mini.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/graph.h"
#include "ops/ops.h"
#include "tests/support/frozen_file.h"
#include "tests/support/nets/nets.h"

#define PATH "test_file.tessera"
#define OTHER "test_file_other.tessera"

static void save(context_t *ctx, module_t *(*make)(context_t *), module_t **out_frozen)
{
    module_t *net = make(ctx);
    datum_t *version = NULL;
    const char *const preserved[] = {"version", NULL};
    CHECK_OK(ctx, datum_int(ctx, 7, &version));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "version", version));
    CHECK_OK(ctx, freeze(ctx, net, &(freeze_options_t){.preserved = preserved}, out_frozen));
    CHECK_OK(ctx, freeze_save(ctx, *out_frozen, PATH));
    datum_release(version);
    module_release(net);
}

static void check_same(context_t *ctx, module_t *a, module_t *b, int64_t batch)
{
    tensor_t *x = net_input(ctx, batch), *expected = NULL, *actual = NULL;
    double difference = 1.0;
    CHECK_OK(ctx, module_forward(ctx, a, x, &expected));
    CHECK_OK(ctx, module_forward(ctx, b, x, &actual));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, actual, expected, &difference));
    assert_true(difference < 1e-6);
    tensor_release(x);
    tensor_release(expected);
    tensor_release(actual);
}

static void a_loaded_module_gives_the_same_and_reorders_no_weight(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *(*const nets[])(context_t *) = {net_grouped, net_residual};
    for (int i = 0; i < 2; i++) {
        module_t *frozen = NULL, *loaded = NULL;
        counters_t counters;
        save(ctx, nets[i], &frozen);
        counters_reset(ctx);
        CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
        check_same(ctx, frozen, loaded, 1);
        counters_read(ctx, &counters);
        assert_int_equal(counters_weight_reorders(&counters), 0);
        check_same(ctx, frozen, loaded, 3);
        assert_true(freeze_is_frozen(loaded));
        assert_int_equal(datum_as_int(module_attribute(loaded, "version")), 7);
        module_release(frozen);
        module_release(loaded);
    }
    remove(PATH);
}

static void another_number_of_threads_still_gives_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *loaded = NULL;
    save(ctx, net_grouped, &frozen);
    CHECK_OK(ctx, context_set_threads(ctx, 1));
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    check_same(ctx, frozen, loaded, 1);
    module_release(frozen);
    module_release(loaded);
    remove(PATH);
}

static void saving_over_the_file_that_is_mapped_is_safe(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *loaded = NULL, *again = NULL;
    save(ctx, net_residual, &frozen);
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    CHECK_OK(ctx, freeze_save(ctx, loaded, PATH));
    check_same(ctx, frozen, loaded, 1);
    CHECK_OK(ctx, freeze_load(ctx, PATH, &again));
    check_same(ctx, frozen, again, 1);
    module_release(frozen);
    module_release(loaded);
    module_release(again);
    remove(PATH);
}

/* ---- content of the file ---- */

static void check_same_bytes(const char *path_a, const char *path_b)
{
    size_t n_a = 0, n_b = 0;
    char *a = frozen_file_read(path_a, &n_a), *b = frozen_file_read(path_b, &n_b);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(a, b, n_a);
    free(a);
    free(b);
}

static void saving_what_was_loaded_gives_the_same_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *(*const nets[])(context_t *) = {net_grouped, net_residual};
    for (int i = 0; i < 2; i++) {
        module_t *frozen = NULL, *loaded = NULL;
        save(ctx, nets[i], &frozen);
        CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
        CHECK_OK(ctx, freeze_save(ctx, loaded, OTHER));
        check_same_bytes(PATH, OTHER);
        check_same(ctx, frozen, loaded, 1);
        check_same(ctx, frozen, loaded, 2); /* plans for batch 2, whose weights are saved, too */
        CHECK_OK(ctx, freeze_save(ctx, loaded, PATH));
        module_release(loaded);
        CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
        CHECK_OK(ctx, freeze_save(ctx, loaded, OTHER));
        check_same_bytes(PATH, OTHER);
        module_release(frozen);
        module_release(loaded);
    }
    remove(PATH);
    remove(OTHER);
}

/* Two weights of net_grouped may be stored with another rank: that of the grouped convolution, and
 * that of the linear layer after flatten. With AVX2 one of them keeps the model's rank. */
static void each_constant_is_stored_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL;
    size_t n = 0;
    file_header_t header;
    save(ctx, net_grouped, &frozen);
    char *bytes = frozen_file_read(PATH, &n);
    memcpy(&header, bytes, sizeof header);
    size_t n_blobs = header.blobs.bytes / sizeof(file_blob_t);
    int n_regrouped = 0;
    assert_true(n_blobs > 0);
    for (size_t i = 0; i < n_blobs; i++) {
        file_blob_t blob;
        memcpy(&blob, bytes + header.blobs.offset + i * sizeof blob, sizeof blob);
        assert_int_equal(blob.constant, i);
        n_regrouped += blob.rank != blob.constant_rank;
    }
    /* also the weight of the grouped convolution, if it is blocked */
    assert_in_range(n_regrouped, 1, 2);
    free(bytes);
    module_release(frozen);
    remove(PATH);
}

static void attributes_of_all_kinds_and_nested_modules_come_back(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL, *child = NULL, *frozen = NULL, *loaded = NULL;
    tensor_t *tensor = NULL;
    datum_t *parts[6] = {NULL}, *dict = NULL, *list = NULL;
    const char *const keys[] = {"int", "float", "bool", "string", "none", "tensor"};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(3, 2), &tensor));
    CHECK_OK(ctx, datum_int(ctx, INT64_MIN, &parts[0]));
    CHECK_OK(ctx, datum_float(ctx, 0.1, &parts[1]));
    CHECK_OK(ctx, datum_bool(ctx, true, &parts[2]));
    CHECK_OK(ctx, datum_string(ctx, "a \"b\"\n", &parts[3]));
    CHECK_OK(ctx, datum_none(ctx, &parts[4]));
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &parts[5]));
    CHECK_OK(ctx, datum_dict(ctx, 6, keys, parts, &dict));
    CHECK_OK(ctx, datum_list(ctx, 2, (datum_t *[]){dict, dict}, &list));
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_create(ctx, "Child", &child));
    CHECK_OK(ctx, graph_define(ctx, net,
                               "graph forward(%self : module, %x : f32[2]) {\n  %1 = relu(%x)\n"
                               "  return %1\n}\n"));
    CHECK_OK(ctx, module_set_attribute(ctx, child, "things", list));
    CHECK_OK(ctx, module_set_parameter(ctx, child, "weight", tensor));
    CHECK_OK(ctx, module_set_child(ctx, net, "child", child));
    CHECK_OK(ctx,
             freeze(ctx, net, &(freeze_options_t){.preserved = (const char *[]){"child", NULL}},
                    &frozen));
    CHECK_OK(ctx, freeze_save(ctx, frozen, PATH));
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    module_t *again = module_child(loaded, "child");
    assert_non_null(again);
    assert_string_equal(module_type(again), "Child");
    assert_true(datum_equal(ctx, module_attribute(again, "things"), list));
    assert_non_null(module_parameter(again, "weight"));
    for (int i = 0; i < 6; i++) datum_release(parts[i]);
    datum_release(dict);
    datum_release(list);
    tensor_release(tensor);
    module_release(net);
    module_release(child);
    module_release(frozen);
    module_release(loaded);
    remove(PATH);
}

static status_t nothing(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return op_relu(ctx, in[0], &out[0]);
}

static void a_method_in_c_cannot_be_stored_and_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *child = NULL;
    save(ctx, net_residual, &frozen);
    CHECK_OK(ctx, module_create(ctx, "Child", &child));
    CHECK_OK(ctx, module_set_forward(ctx, child, "forward", nothing));
    CHECK_OK(ctx, module_set_child(ctx, frozen, "child", child));
    CHECK_FAILS(ctx, freeze_save(ctx, frozen, PATH), STATUS_UNSUPPORTED,
                "method \"child.forward\" is C code");
    module_release(child);
    module_release(frozen);
    remove(PATH);
}

static void files_of_other_formats_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_grouped(ctx), *loaded = NULL;
    const char garbage[400] = "this is no model";
    CHECK_FAILS(ctx, freeze_save(ctx, net, PATH), STATUS_INVALID_ARGUMENT, "is not frozen");
    CHECK_FAILS(ctx, freeze_load(ctx, "no_such_file.tessera", &loaded), STATUS_IO,
                "no_such_file.tessera");
    frozen_file_write(PATH, garbage, sizeof garbage);
    CHECK_FAILS(ctx, freeze_load(ctx, PATH, &loaded), STATUS_CORRUPT, "is not a .tessera file");
    CHECK_FAILS(ctx, freeze_append(ctx, PATH), STATUS_CORRUPT, "is not a .tessera file");
    module_release(net);
    remove(PATH);
}

/* ---- machines ---- */

static unsigned long long reorders_of_loading(context_t *ctx, int n_threads, module_t *frozen)
{
    module_t *loaded = NULL;
    counters_t counters;
    CHECK_OK(ctx, context_set_threads(ctx, n_threads));
    counters_reset(ctx);
    CHECK_OK(ctx, freeze_load(ctx, PATH, &loaded));
    check_same(ctx, frozen, loaded, 1);
    counters_read(ctx, &counters);
    module_release(loaded);
    return counters_weight_reorders(&counters);
}

static int count_machines(const char *path)
{
    size_t n = 0;
    file_header_t header;
    char *bytes = frozen_file_read(path, &n);
    memcpy(&header, bytes, sizeof header);
    free(bytes);
    return (int)(header.machines.bytes / sizeof(file_machine_t));
}

static void a_machine_is_added_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL, *reference = NULL;
    CHECK_OK(ctx, context_set_threads(ctx, 2));
    save(ctx, net_residual, &frozen);
    save(ctx, net_residual, &reference); /* another module with 2 threads */
    module_release(frozen);
    (void)reorders_of_loading(ctx, 1, reference);
    assert_int_equal(count_machines(PATH), 1);
    CHECK_OK(ctx, freeze_append(ctx, PATH));
    assert_int_equal(count_machines(PATH), 2);
    assert_int_equal(reorders_of_loading(ctx, 1, reference), 0);
    assert_int_equal(reorders_of_loading(ctx, 2, reference), 0);
    size_t n = 0, n_again = 0;
    free(frozen_file_read(PATH, &n));
    CHECK_OK(ctx, freeze_append(ctx, PATH));
    free(frozen_file_read(PATH, &n_again));
    assert_int_equal(count_machines(PATH), 2);
    assert_int_equal(n, n_again);
    module_release(reference);
    remove(PATH);
}

/* ---- memory ---- */

static status_t scenario(context_t *ctx)
{
    module_t *frozen = NULL, *loaded = NULL;
    status_t status = freeze_load(ctx, PATH, &loaded);
    if (status == STATUS_OK) status = freeze_save(ctx, loaded, OTHER);
    if (status == STATUS_OK) status = freeze_append(ctx, OTHER);
    module_release(loaded);
    module_release(frozen);
    return status;
}

static void every_failing_allocation_is_a_status(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *frozen = NULL;
    save(ctx, net_residual, &frozen);
    module_release(frozen);
    check_every_allocation(scenario);
    remove(PATH);
    remove(OTHER);
}

/* One child has two names, and one buffer has two: writes through one name change the other. */
static void tensors_that_a_module_shares_are_stored_once(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = mini_module(ctx, "Net"), *a = mini_child(ctx, net, "a", "Inner");
    CHECK_OK(ctx, module_set_child(ctx, net, "b", a));
    tensor_t *w = mini_tensor(ctx, net, "w", 1.0);
    CHECK_OK(ctx, module_set_parameter(ctx, net, "tied", w));
    mini_tensor(ctx, a, "v", 2.0);
    mini_define(ctx, net,
                MINI_METHOD("forward", MINI_GET("w", "w") MINI_GET("t", "tied")
                                           MINI_GET("v", "b.v") "%y = add(%w, %x)\n"
                                                                "%z = add(%y, %t)\n"
                                                                "%u = add(%z, %v)\n"
                                                                "return %u\n"));
    module_t *frozen = mini_freeze(ctx, net, MINI_PATHS("w", "tied", "a", "b"));
    module_t *loaded = mini_reload(ctx, frozen);
    assert_non_null(module_child(loaded, "a"));
    assert_ptr_equal(module_child(loaded, "a"), module_child(loaded, "b"));
    assert_true(mini_run(ctx, loaded, "forward", 0.0) == 4.0);
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(loaded, "tied"), 10.0));
    CHECK_OK(ctx, tensor_fill(ctx, module_parameter(loaded, "a.v"), 0.5));
    assert_true(mini_run(ctx, loaded, "forward", 0.0) == 20.5);
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_loaded_module_gives_the_same_and_reorders_no_weight),
        TEST(another_number_of_threads_still_gives_the_same),
        TEST(saving_over_the_file_that_is_mapped_is_safe),
        TEST(saving_what_was_loaded_gives_the_same_bytes),
        TEST(each_constant_is_stored_once),
        TEST(attributes_of_all_kinds_and_nested_modules_come_back),
        TEST(a_method_in_c_cannot_be_stored_and_is_named),
        TEST(files_of_other_formats_are_refused_by_name),
        TEST(a_machine_is_added_once),
        TEST(every_failing_allocation_is_a_status),
        TEST(tensors_that_a_module_shares_are_stored_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
