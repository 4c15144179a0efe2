/* The inputs and outputs that a model reports for a graph method: traced, packed, frozen and
 * loaded. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "freeze/freeze.h"
#include "module/signature.h"
#include "module/zoo.h"
#include "tensor/scope.h"

/* Compares an input or output with a text such as "x f32[N,3,H=-1]". Open sizes have a name or "?",
 * followed by the size at which the graph was made. */
static void check_value(context_t *ctx, const module_t *module, bool is_output, int index,
                        const char *expected)
{
    char text[256];
    module_value_t value;
    if (is_output)
        CHECK_OK(ctx, module_output(ctx, module, "forward", index, &value));
    else
        CHECK_OK(ctx, module_input(ctx, module, "forward", index, &value));
    int n = snprintf(text, sizeof text, "%s %s", value.name != NULL ? value.name : "-",
                     value.kind == DATUM_TENSOR ? dtype_name(value.dtype)
                                                : datum_kind_name(value.kind));
    for (int d = 0; d < value.rank; d++) {
        if (value.sizes[d] >= 0)
            n += snprintf(text + n, sizeof text - (size_t)n, " %d", (int)value.sizes[d]);
        else
            n += snprintf(text + n, sizeof text - (size_t)n, " %s=%d",
                          value.dims[d] != NULL ? value.dims[d] : "?", (int)value.made[d]);
        if (value.sizes[d] >= 0) assert_int_equal(value.made[d], value.sizes[d]);
    }
    if (value.rank < 0) snprintf(text + n, sizeof text - (size_t)n, " ...");
    assert_string_equal(text, expected);
}

static module_t *define(context_t *ctx, const char *text)
{
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &module));
    CHECK_OK(ctx, graph_define(ctx, module, text));
    return module;
}

static const char pooled[] = "graph forward(%self : module, %image : f32[N=2,3,H=9,W=11], "
                             "%k : f32[N=2]) {\n"
                             "  %p = max_pool2d(%image) kernel=[2,2] stride=[2,2] : f32[2,3,4,5]\n"
                             "  %f = flatten(%p) start_dim=1 : f32[2,60]\n"
                             "  %m = mean(%f) dims=[0,1] : f32[]\n"
                             "  return %p, %f, %k, %m\n}\n";

static void check_pooled(context_t *ctx, const module_t *module)
{
    assert_int_equal(module_n_inputs(module, "forward"), 2);
    assert_int_equal(module_n_outputs(module, "forward"), 4);
    check_value(ctx, module, false, 0, "image f32 N=2 3 H=9 W=11");
    check_value(ctx, module, false, 1, "k f32 N=2");
    check_value(ctx, module, true, 0, "p f32 N=2 3 ?=4 ?=5");
    check_value(ctx, module, true, 1, "f f32 N=2 ?=60");
    check_value(ctx, module, true, 2, "k f32 N=2");
    check_value(ctx, module, true, 3, "m f32");
}

static void sizes_are_the_same_parsed_frozen_and_loaded(void **state)
{
    context_t *ctx = fixture_context(state);
    char path[64];
    module_t *net = define(ctx, pooled), *frozen = NULL, *loaded = NULL;
    snprintf(path, sizeof path, "/tmp/signature_%d.tessera", (int)getpid());
    check_pooled(ctx, net);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    check_pooled(ctx, frozen);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    unlink(path);
    check_pooled(ctx, loaded);
    assert_int_equal(context_status(ctx), STATUS_OK); /* attempts at other sizes leave no error */
    module_release(loaded);
    module_release(frozen);
    module_release(net);
}

static status_t rows(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                     int *n_out, tensor_t **out)
{
    (void)self, (void)n_in;
    *n_out = 1;
    return op_sum(ctx, in[0], 1, (const int64_t[]){1}, false, out);
}

static void a_traced_method_knows_what_tracing_found(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    CHECK_OK(ctx, module_set_forward(ctx, net, "forward", rows));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(3, 5), &x));
    CHECK_OK(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    module_value_t value;
    CHECK_OK(ctx, module_output(ctx, net, "forward", 0, &value));
    assert_int_equal(value.rank, 1);
    assert_int_equal(value.sizes[0], -1);
    assert_int_equal(value.made[0], 3);
    assert_string_equal(value.dims[0], "N");
    tensor_release(x);
    module_release(net);
}

static void names_of_a_models_file_come_before_those_of_the_graph(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = define(ctx, pooled);
    datum_t *name = NULL, *names = NULL;
    CHECK_OK(ctx, datum_string(ctx, "pixel/values:0", &name));
    CHECK_OK(ctx, datum_list(ctx, 1, &name, &names));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "input_names", names));
    CHECK_OK(ctx, module_set_attribute(ctx, net, "output_names", names));
    check_value(ctx, net, false, 0, "pixel/values:0 f32 N=2 3 H=9 W=11");
    check_value(ctx, net, false, 1, "k f32 N=2");
    check_value(ctx, net, true, 0, "pixel/values:0 f32 N=2 3 ?=4 ?=5");
    datum_release(names);
    datum_release(name);
    module_release(net);
}

static void unknown_ranks_and_types_stay_unknown(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = define(ctx, "graph forward(%self : module, %x : tensor, %n : int, "
                                "%l : list<tensor>, %u) {\n"
                                "  %y = relu(%x) : tensor\n"
                                "  return %y, %n, none\n}\n");
    check_value(ctx, net, false, 0, "x none ...");
    check_value(ctx, net, false, 1, "n int ...");
    check_value(ctx, net, false, 2, "l list ...");
    check_value(ctx, net, false, 3, "u none ...");
    check_value(ctx, net, true, 0, "y none ...");
    check_value(ctx, net, true, 1, "n int ...");
    module_release(net);
}

static void check_taken(context_t *ctx, const module_t *net, const char *refusal,
                        const int64_t *image, int64_t k)
{
    const tensor_info_t infos[] = {info_dense(DTYPE_F32, 4, image), info_dense(DTYPE_F32, 1, &k)};
    const tensor_info_t *in[] = {&infos[0], &infos[1]};
    if (refusal == NULL)
        CHECK_OK(ctx, module_check_inputs(ctx, net, "forward", 2, in));
    else
        CHECK_FAILS(ctx, module_check_inputs(ctx, net, "forward", 2, in), STATUS_INVALID_ARGUMENT,
                    refusal);
}

static void check_asked(context_t *ctx, const module_t *net)
{
    tensor_t *after = NULL;
    const tensor_info_t wrong = info_dense(DTYPE_S64, 1, (int64_t[]){5});
    const tensor_info_t *in[] = {NULL, &wrong};
    check_taken(ctx, net, NULL, (int64_t[]){2, 3, 9, 11}, 2);
    check_taken(ctx, net, NULL, (int64_t[]){5, 3, 90, 4}, 5);
    CHECK_OK(ctx, scope_begin(ctx));
    check_taken(ctx, net, "forward: input image is f32[5,4,9,4], the graph was made for f32[N=2,3",
                (int64_t[]){5, 4, 9, 4}, 5);
    check_taken(ctx, net, "size N is 5 in input image and 6 in input k, one name is one size",
                (int64_t[]){5, 3, 9, 4}, 6);
    CHECK_FAILS(ctx, module_check_inputs(ctx, net, "forward", 1, in), STATUS_INVALID_ARGUMENT,
                "forward: 1 inputs are given, the graph takes 2");
    CHECK_FAILS(ctx, module_check_inputs(ctx, net, "forward", 2, in), STATUS_INVALID_ARGUMENT,
                "forward: input k is s64[5], the graph was made for f32[N=2]");
    in[1] = NULL;
    CHECK_OK(ctx, module_check_inputs(ctx, net, "forward", 2, in));
    /* module_check_inputs may return false without failing the scope. */
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 0, NULL, &after));
    CHECK_OK(ctx, scope_end(ctx));
}

static void a_method_says_before_a_call_what_it_refuses(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = define(ctx, pooled), *frozen = NULL, *layer = NULL;
    check_asked(ctx, net);
    CHECK_OK(ctx, freeze(ctx, net, NULL, &frozen));
    check_asked(ctx, frozen);
    CHECK_FAILS(ctx, module_check_inputs(ctx, net, "backward", 0, NULL), STATUS_INVALID_ARGUMENT,
                "\"backward\" is no method of Net");
    context_clear_error(ctx);
    CHECK_OK(ctx, zoo_create(ctx, "squeezenet1_1", &(zoo_options_t){.divide = 8}, &layer, NULL));
    CHECK_FAILS(ctx, module_check_inputs(ctx, layer, "forward", 0, NULL), STATUS_UNSUPPORTED,
                "is C code, which checks its arguments when it runs");
    module_release(layer);
    module_release(frozen);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sizes_are_the_same_parsed_frozen_and_loaded),
        TEST(a_traced_method_knows_what_tracing_found),
        TEST(names_of_a_models_file_come_before_those_of_the_graph),
        TEST(unknown_ranks_and_types_stay_unknown),
        TEST(a_method_says_before_a_call_what_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
