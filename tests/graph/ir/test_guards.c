/* Guards: conditions on sizes that a graph needs. They are printed, parsed, kept by passes and
 * files, and checked before a run. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "freeze/freeze.h"
#include "graph/ir/graph.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/size_impl.h"
#include "graph/passes/pass.h"
#include "module/module.h"
#include "tests/support/scratch.h"

static const char text[] = "graph forward(%self : module, %x : f32[N=3,H=16,W=128])\n"
                           "  guard H % 8 == 0 from reshape \"r\"\n"
                           "  guard W >= 100 from conv2d \"layer1.conv\"\n"
                           "  guard N != 1\n"
                           "{\n"
                           "  %1 = relu(%x) : f32[3,16,128]\n"
                           "  %y = reshape(%1) sizes=[3,2,-1] where sizes[0]=N, sizes[1]=H/8"
                           " : f32[3,2,1024]\n"
                           "  return %y\n}\n";

static void check_print(context_t *ctx, const graph_t *graph, const char *wanted)
{
    text_t printed = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &printed));
    assert_string_equal(text_string(&printed), wanted);
    text_clear(&printed);
}

static graph_t *read_graph(context_t *ctx, const char *given)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, given, NULL, &graph));
    return graph;
}

static void guards_print_and_parse(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = read_graph(ctx, text);
    check_print(ctx, graph, text);
    graph_release(graph);
    /* a guard that follows from another one is left out; other spellings parse */
    graph = read_graph(ctx, "graph f(%x : f32[H=16]) fixed \"why\" guard H>4 from a \"b\"\n"
                            "guard H>=2 guard 2*H%16==0\n {\n  return %x\n}\n");
    check_print(ctx, graph,
                "graph f(%x : f32[H=16]) fixed \"why\"\n  guard H >= 5 from a \"b\"\n"
                "  guard H % 8 == 0\n{\n  return %x\n}\n");
    graph_release(graph);
    static const char *const wrong[][2] = {
        {"guard H == from a", "expected \"{\""},
        {"guard H\n", "a comparison is needed"},
        {"guard 1 > 2\n", "never holds"},
        {"guard H < 2 guard H > 7", "never holds"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char given[256];
        snprintf(given, sizeof given, "graph f(%%x : f32[H=16]) %s {\n  return %%x\n}\n",
                 wrong[i][0]);
        CHECK_FAILS(ctx, graph_parse(ctx, given, NULL, &graph), STATUS_INVALID_ARGUMENT,
                    wrong[i][1]);
    }
}

/* Runs the module's method on zeros of these sizes. */
static status_t run(context_t *ctx, module_t *module, int64_t n, int64_t h, int64_t w)
{
    tensor_t *x = NULL, *y = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(n, h, w), &x));
    status_t status = module_forward(ctx, module, x, &y);
    if (status == STATUS_OK) {
        assert_int_equal(tensor_sizes(y)[1], h / 8);
        assert_int_equal(tensor_sizes(y)[2], 8 * w);
    }
    tensor_release(x);
    tensor_release(y);
    return status;
}

static void check_runs(context_t *ctx, module_t *module)
{
    static const int64_t right[][3] = {{3, 16, 128}, {2, 8, 100}, {5, 64, 101}};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        CHECK_OK(ctx, run(ctx, module, right[i][0], right[i][1], right[i][2]));
    CHECK_FAILS(ctx, run(ctx, module, 3, 12, 128), STATUS_INVALID_ARGUMENT,
                "forward: H is 12, the graph holds where H % 8 == 0 (reshape \"r\")");
    CHECK_FAILS(ctx, run(ctx, module, 3, 16, 99), STATUS_INVALID_ARGUMENT,
                "forward: W is 99, the graph holds where W >= 100 (conv2d \"layer1.conv\")");
    CHECK_FAILS(ctx, run(ctx, module, 1, 16, 128), STATUS_INVALID_ARGUMENT,
                "forward: N is 1, the graph holds where N != 1");
}

static void other_sizes_are_refused_by_name(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Guarded", &module));
    CHECK_OK(ctx, graph_define(ctx, module, text));
    check_runs(ctx, module);
    module_release(module);
}

static void passes_keep_guards(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = read_graph(
        ctx, "graph f(%x : f32[H=16])\n  guard H % 8 == 0 from r\n  guard H >= 9\n{\n"
             "  %1 = relu(%x) : f32[16]\n  %2 = relu(%x) : f32[16]\n"
             "  %3 = add(%1, %2) : f32[16]\n"
             "  %y = reshape(%3) sizes=[2,-1] where sizes[0]=H/8 : f32[2,8]\n  return %y\n}\n");
    static const char *const names[] = {"common_subexpressions", NULL};
    graph_t *changed = NULL;
    CHECK_OK(ctx, pass_run(ctx, graph, names, NULL, &changed));
    assert_ptr_not_equal(changed, graph);
    check_print(ctx, changed,
                "graph f(%x : f32[H=16])\n  guard H % 8 == 0 from r\n  guard H >= 9\n{\n"
                "  %1 = relu(%x) : f32[16]\n  %2 = add(%1, %1) : f32[16]\n"
                "  %y = reshape(%2) sizes=[2,-1] where sizes[0]=H/8 : f32[2,8]\n  return %y\n}\n");
    /* with given sizes a guard is true or false, so it disappears */
    graph_t *resized = NULL;
    const tensor_info_t small = info_dense(DTYPE_F32, SHAPE(24));
    CHECK_OK(ctx, graph_resize(ctx, graph, &small, true, &resized));
    assert_int_equal(sym_n_guards(resized->space), 2);
    graph_release(resized);
    CHECK_OK(ctx, graph_resize(ctx, graph, &small, false, &resized));
    assert_int_equal(sym_n_guards(resized->space), 0);
    graph_release(resized);
    const tensor_info_t wrong = info_dense(DTYPE_F32, SHAPE(20));
    CHECK_FAILS(ctx, graph_resize(ctx, graph, &wrong, false, &resized), STATUS_INVALID_ARGUMENT,
                "f: H is 20, the graph holds where H % 8 == 0 (r)");
    graph_release(changed);
    graph_release(graph);
}

static void files_keep_guards(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL, *frozen = NULL, *loaded = NULL;
    char path[256];
    snprintf(path, sizeof path, "%s/guards.tessera", scratch);
    CHECK_OK(ctx, module_create(ctx, "Guarded", &module));
    CHECK_OK(ctx, graph_define(ctx, module, text));
    CHECK_OK(ctx, freeze(ctx, module, NULL, &frozen));
    check_runs(ctx, frozen);
    CHECK_OK(ctx, freeze_save(ctx, frozen, path));
    CHECK_OK(ctx, freeze_load(ctx, path, &loaded));
    check_runs(ctx, loaded);
    assert_int_equal(sym_n_guards(graph_of(loaded, "forward")->space), 3);
    module_release(loaded);
    module_release(frozen);
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(guards_print_and_parse),
        TEST(other_sizes_are_refused_by_name),
        TEST(passes_keep_guards),
        TEST(files_keep_guards),
    };
    return cmocka_run_group_tests_name("graph/guards", tests, scratch_begin, scratch_end);
}
