#include "module/signature.h"

#include "tests/support/support.h"

#include <string.h>

#include "module/zoo.h"

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return tensor_clone(ctx, in[0], out);
}

static module_t *make_net(context_t *ctx)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", forward));
    return net;
}

static void a_method_in_c_says_nothing_of_itself(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    module_value_t value = {.rank = 7};
    assert_int_equal(module_n_inputs(net, "forward"), -1);
    assert_int_equal(module_n_outputs(net, "forward"), -1);
    assert_int_equal(module_n_inputs(net, "backward"), -1);
    assert_int_equal(module_n_inputs(NULL, "forward"), -1);
    assert_int_equal(module_n_inputs(net, NULL), -1);
    CHECK_FAILS(ctx, module_input(ctx, net, "forward", 0, &value), STATUS_UNSUPPORTED,
                "module_input: forward of Net is C code whose arguments");
    CHECK_FAILS(ctx, module_output(ctx, net, "forward", 0, &value), STATUS_UNSUPPORTED,
                "module_output: forward of Net is C code whose results");
    assert_int_equal(value.rank, 7);
    module_release(net);
}

static void descriptions_are_copied_and_cloned(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx), *copy = NULL, *parent = NULL;
    char name[] = "image", dim[] = "N";
    module_value_t in = {.name = name,
                         .kind = DATUM_TENSOR,
                         .dtype = DTYPE_U8,
                         .rank = 2,
                         .sizes = {-1, 5},
                         .dims = {dim},
                         .made = {2, 5}};
    const module_value_t out[2] = {{.name = NULL, .rank = -1}, {.kind = DATUM_INT, .rank = -1}};
    CHECK_OK(ctx, module_describe(ctx, net, "forward", 0, NULL, 0, NULL));
    assert_int_equal(module_n_inputs(net, "forward"), 0);
    CHECK_OK(ctx, module_describe(ctx, net, "forward", 1, &in, 2, out));
    memset(name, 'z', sizeof name - 1);
    memset(dim, 'z', sizeof dim - 1);
    CHECK_OK(ctx, module_clone(ctx, net, &copy));
    module_release(net);
    CHECK_OK(ctx, module_create(ctx, "Parent", &parent));
    CHECK_OK(ctx, module_set_child(ctx, parent, "net", copy));
    module_release(copy);
    assert_int_equal(module_n_inputs(parent, "net.forward"), 1);
    assert_int_equal(module_n_outputs(parent, "net.forward"), 2);
    CHECK_OK(ctx, module_input(ctx, parent, "net.forward", 0, &in));
    assert_string_equal(in.name, "image");
    assert_int_equal(in.dtype, DTYPE_U8);
    assert_int_equal(in.sizes[0], -1);
    assert_string_equal(in.dims[0], "N");
    assert_null(in.dims[1]);
    assert_int_equal(in.made[0], 2);
    CHECK_OK(ctx, module_output(ctx, parent, "net.forward", 1, &in));
    assert_int_equal(in.kind, DATUM_INT);
    assert_null(in.name);
    module_release(parent);
}

static void impossible_values_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx);
    module_value_t value = {.rank = 13}, sized = {.rank = 1, .sizes = {-2}};
    CHECK_FAILS(ctx, module_describe(ctx, net, "backward", 0, NULL, 0, NULL),
                STATUS_INVALID_ARGUMENT, "\"backward\" is no method of Net");
    CHECK_FAILS(ctx, module_describe(ctx, net, "forward", 1, &value, 0, NULL),
                STATUS_INVALID_ARGUMENT, "module_describe: value 0 of rank 13, must be -1 to 12");
    CHECK_FAILS(ctx, module_describe(ctx, net, "forward", 0, NULL, 1, &sized),
                STATUS_INVALID_ARGUMENT,
                "module_describe: size -2 of value 0, must be at least -1");
    CHECK_FAILS(ctx, module_describe(ctx, net, "forward", -1, NULL, 0, NULL),
                STATUS_INVALID_ARGUMENT, "module_describe: -1 values, must be 0 to 64");
    context_clear_error(ctx);
    CHECK_FAILS(ctx, module_describe(ctx, net, "forward", 1, NULL, 0, NULL),
                STATUS_INVALID_ARGUMENT, "module_describe: values is NULL");
    assert_int_equal(module_n_inputs(net, "forward"), -1);
    value.rank = 0;
    CHECK_OK(ctx, module_describe(ctx, net, "forward", 1, &value, 0, NULL));
    for (int i = -1; i < 2; i += 2) {
        CHECK_FAILS(ctx, module_input(ctx, net, "forward", i, &value), STATUS_INVALID_ARGUMENT,
                    "forward of Net has 1 arguments");
    }
    CHECK_FAILS(ctx, module_output(ctx, net, "forward", 0, &value), STATUS_INVALID_ARGUMENT,
                "module_output: index 0, forward of Net has 0 results");
    CHECK_FAILS(ctx, module_input(ctx, net, "backward", 0, &value), STATUS_INVALID_ARGUMENT,
                "\"backward\" is no method of Net");
    module_release(net);
}

static void the_zoo_says_what_its_networks_are_made_for(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    module_value_t value;
    const zoo_options_t options = {.divide = 8, .n_classes = 10};
    CHECK_OK(ctx, zoo_create(ctx, "squeezenet1_1", &options, &net, NULL));
    assert_int_equal(module_n_inputs(net, "forward"), 1);
    CHECK_OK(ctx, module_input(ctx, net, "forward", 0, &value));
    assert_string_equal(value.name, "x");
    assert_int_equal(value.dtype, DTYPE_F32);
    assert_int_equal(value.rank, 4);
    assert_int_equal(value.sizes[0], -1);
    assert_int_equal(value.sizes[1], 3);
    assert_int_equal(value.sizes[3], -1);
    assert_string_equal(value.dims[3], "W");
    assert_int_equal(value.made[3], 224);
    CHECK_OK(ctx, module_output(ctx, net, "forward", 0, &value));
    assert_int_equal(value.rank, 2);
    assert_int_equal(value.sizes[1], 10);
    module_release(net);
}

static status_t describe_and_clone(context_t *ctx)
{
    module_t *net = NULL, *copy = NULL;
    const module_value_t value = {.name = "x", .rank = 1, .dims = {"N"}};
    status_t status = module_create(ctx, "Net", &net);
    if (status == STATUS_OK) status = module_set_forward(ctx, net, "forward", forward);
    if (status == STATUS_OK) status = module_describe(ctx, net, "forward", 1, &value, 0, NULL);
    if (status == STATUS_OK) status = module_clone(ctx, net, &copy);
    module_release(copy);
    module_release(net);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    check_every_allocation(describe_and_clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_method_in_c_says_nothing_of_itself),
        TEST(descriptions_are_copied_and_cloned),
        TEST(impossible_values_are_refused),
        TEST(the_zoo_says_what_its_networks_are_made_for),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
