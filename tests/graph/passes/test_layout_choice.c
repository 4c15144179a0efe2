/* The layout pass can print its choices. If it gets the text back, it uses them without a
 * search. */
#include "graph/passes/pass.h"

#include "tests/support/nets/nets.h"
#include "tests/support/support.h"

#include <string.h>

static const char *const layout_only[] = {"layout", NULL};

static graph_t *parsed(context_t *ctx)
{
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%x : f32[1,32,14,14], %w : f32[32,32,3,3]) {\n"
                              "  %1 = conv2d(%x, %w, none) padding=[1,1] : f32[1,32,14,14]\n"
                              "  %2 = max_pool2d(%1) kernel=[2,2] stride=[2,2] : f32[1,32,7,7]\n"
                              "  %3 = cumsum(%2) dim=1 : f32[1,32,7,7]\n"
                              "  return %3\n}\n",
                              NULL, &graph));
    return graph;
}

/* Runs the pass with these choices (NULL: none). Returns the choices that it made, and the graph;
 * the caller clears both texts. */
static void run(context_t *ctx, const char *layout, text_t *out_chosen, text_t *out_text)
{
    graph_t *graph = parsed(ctx), *result = NULL;
    *out_chosen = text_begin(ctx);
    *out_text = text_begin(ctx);
    pass_options_t options = {.layout = layout, .out_layout = out_chosen};
    CHECK_OK(ctx, pass_run(ctx, graph, layout_only, &options, &result));
    CHECK_OK(ctx, graph_print(ctx, result, NULL, out_text));
    graph_release(graph);
    graph_release(result);
}

static void given_choices_are_used(void **state)
{
    context_t *ctx = fixture_context(state);
    text_t chosen, text;
    int n_others = 0;
    run(ctx, NULL, &chosen, &text);
    assert_non_null(strstr(text_string(&chosen), " d "));
    /* The pass must use each candidate that a node has, even if it is not the best one. */
    for (char candidate = '0'; candidate <= '4'; candidate++) {
        char wish[] = {candidate, ' ', candidate, ' ', 'd', ' ', '\0'};
        text_t again, other;
        run(ctx, wish, &again, &other);
        bool is_best = strcmp(text_string(&other), text_string(&text)) == 0;
        bool is_chosen = strcmp(text_string(&again), text_string(&chosen)) == 0;
        bool is_taken = strcmp(text_string(&again), wish) == 0;
        assert_true(is_taken || is_chosen);
        assert_int_equal(is_best, is_chosen);
        n_others += is_taken && !is_chosen;
        text_clear(&again);
        text_clear(&other);
    }
    assert_true(n_others > 0); /* a search would have found the best one */
    text_clear(&chosen);
    text_clear(&text);
}

static void stored_choices_that_do_not_fit_are_searched_again(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const others[] = {"",           "d",       "0 0 ",     "0 0 d d ", "9 0 d ",
                                         "0 0 0 ",     "- ",      "x",        "0  0 d ",  "0 0 d",
                                         "00000 0 d ", "d0 0 d ", "0 0 d \n", "-1 0 d "};
    text_t chosen, text;
    run(ctx, NULL, &chosen, &text);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        text_t again, other;
        run(ctx, others[i], &again, &other);
        assert_string_equal(text_string(&again), text_string(&chosen));
        assert_string_equal(text_string(&other), text_string(&text));
        text_clear(&again);
        text_clear(&other);
    }
    text_clear(&chosen);
    text_clear(&text);
}

/* In a network for channels last, a permute after a convolution reads what the convolution makes,
 * and the permute after the linear layer makes what the next convolution reads. */
static void a_permute_reads_channels_last(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL, *made = NULL;
    text_t chosen = text_begin(ctx), again = text_begin(ctx), text = text_begin(ctx);
    CHECK_OK(ctx,
             graph_parse(ctx,
                         "graph f(%x : f32[1,32,28,28], %k : f32[32,1,7,7], %w : f32[32,32]) {\n"
                         "  %1 = conv2d(%x, %k, none) padding=[3,3] groups=32\n"
                         "  %2 = permute(%1) dims=[0,2,3,1]\n"
                         "  %3 = linear(%2, %w, none)\n"
                         "  %4 = permute(%3) dims=[0,3,1,2]\n"
                         "  %5 = conv2d(%4, %k, none) padding=[3,3] groups=32\n"
                         "  %6 = permute(%5) dims=[0,2,3,1]\n"
                         "  %7 = linear(%6, %w, none)\n"
                         "  return %7\n}\n",
                         NULL, &graph));
    CHECK_OK(ctx,
             pass_run(ctx, graph, layout_only, &(pass_options_t){.out_layout = &chosen}, &made));
    CHECK_OK(ctx, graph_print(ctx, made, NULL, &text));
    int n_reorders = 0;
    for (const char *at = text_string(&text); (at = strstr(at, "format=\"a")) != NULL; at++)
        n_reorders++;
    assert_true(n_reorders <= 2); /* one of them of %x; those of weights have other formats */
    int n_last = 0;
    for (const char *at = text_string(&chosen); (at = strchr(at, 'y')) != NULL; at++) n_last++;
    assert_true(n_last > 0);
    graph_release(made);
    CHECK_OK(ctx, pass_run(ctx, graph, layout_only,
                           &(pass_options_t){.layout = text_string(&chosen), .out_layout = &again},
                           &made));
    assert_string_equal(text_string(&again), text_string(&chosen));
    text_clear(&again);
    text_clear(&chosen);
    text_clear(&text);
    graph_release(made);
    graph_release(graph);
}

/* graph_certificate needs no plan, so it works for two sizes of a method that has none. */
static void a_certificate_bounds_what_was_chosen(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = net_residual(ctx);
    layout_certificate_t small, large;
    tensor_t *x = NULL, *wide = NULL;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1, 3, 32, 32), &x));
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(4, 3, 32, 32), &wide));
    CHECK_OK(ctx, graph_certificate(ctx, net, "forward", 1, (const tensor_t *[]){x}, &small));
    CHECK_OK(ctx, graph_certificate(ctx, net, "forward", 1, (const tensor_t *[]){wide}, &large));
    const layout_certificate_t *both[] = {&small, &large};
    for (int i = 0; i < 2; i++) {
        assert_true(both[i]->lower_bound > 0.0);
        assert_true(both[i]->lower_bound <= both[i]->cost);
        assert_true(both[i]->cost <= both[i]->best_uniform);
        assert_true(both[i]->cost - both[i]->lower_bound <= 0.03 * both[i]->cost);
    }
    assert_true(large.cost > small.cost);
    CHECK_FAILS(ctx, graph_certificate(ctx, net, "backward", 1, (const tensor_t *[]){x}, &small),
                STATUS_INVALID_ARGUMENT, "graph_certificate: Residual has no graph of method");
    tensor_release(x);
    tensor_release(wide);
    module_release(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(given_choices_are_used),
        TEST(stored_choices_that_do_not_fit_are_searched_again),
        TEST(a_permute_reads_channels_last),
        TEST(a_certificate_bounds_what_was_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
