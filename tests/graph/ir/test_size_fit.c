/* Expressions of sizes that are fitted to values at some sizes must give the right values at
 * others. */
#include "graph/ir/size_fit_impl.h"

#include <stdio.h>
#include <string.h>

#include "graph/ir/graph_impl.h"
#include "tensor/context_impl.h"
#include "tests/support/seeded.h"
#include "tests/support/support.h"

#define N_NAMES 2

static const size_variable_t names[N_NAMES] = {{.name = "H", .dim = 0}, {.name = "W", .dim = 1}};

typedef int64_t (*wanted_t)(int64_t h, int64_t w);

/* Samples: sizes H and W, and the value for them. */
typedef struct sampled {
    int n;
    int64_t sizes[N_NAMES][SIZE_MAX_SAMPLES];
    int64_t values[SIZE_MAX_SAMPLES];
} sampled_t;

static void add_sample(sampled_t *sampled, int64_t h, int64_t w)
{
    assert_true(sampled->n < SIZE_MAX_SAMPLES);
    sampled->sizes[0][sampled->n] = h;
    sampled->sizes[1][sampled->n++] = w;
}

/* Samples with one of H and W from 1 to `most` and the other fixed, and a few in which both
 * change. */
static void sample_to(sampled_t *sampled, int64_t most)
{
    sampled->n = 0;
    for (int64_t size = 1; size <= most; size++) {
        add_sample(sampled, size, 20);
        add_sample(sampled, 20, size);
    }
    for (int64_t i = 1; i < 8; i++) add_sample(sampled, 13 * i, 100 - 9 * i);
}

static void put_values(sampled_t *sampled, wanted_t wanted)
{
    for (int s = 0; s < sampled->n; s++)
        sampled->values[s] = wanted(sampled->sizes[0][s], sampled->sizes[1][s]);
}

static size_samples_t samples_of(const sampled_t *sampled, const int64_t **rows)
{
    for (int v = 0; v < N_NAMES; v++) rows[v] = sampled->sizes[v];
    return (size_samples_t){sampled->n, N_NAMES, rows, names};
}

static bool size_at(void *user, const size_variable_t *variable, int64_t *out_size)
{
    *out_size = ((const int64_t *)user)[variable->dim];
    return true;
}

static int64_t give(const size_expr_t *expr, int64_t h, int64_t w)
{
    int64_t sizes[N_NAMES] = {h, w}, value = 0;
    assert_true(size_calculate(expr, size_at, sizes, &value));
    return value;
}

static void check_everywhere(const size_expr_t *expr, wanted_t wanted)
{
    for (int64_t h = 1; h < 3000; h += h < 300 ? 1 : 37)
        for (int64_t w = 1; w < 300; w += 1 + h % 7)
            assert_int_equal(give(expr, h, w), wanted(h, w));
}

/* ---- found expressions ---- */

static int64_t windows(int64_t size)
{
    return (size + 6) / 7;
}

static int64_t lacking(int64_t h, int64_t w)
{
    (void)w;
    return (7 - h % 7) % 7;
}

static int64_t whole(int64_t h, int64_t w)
{
    (void)h;
    return 7 * windows(w) + 3;
}

static int64_t rest(int64_t h, int64_t w)
{
    (void)w;
    return h % 12;
}

static int64_t half_after_stride(int64_t h, int64_t w)
{
    (void)w;
    return ((h + 1) / 2 + 1) / 2;
}

static void one_size_padded_or_cut_is_found_without_a_pool(void **state)
{
    (void)state;
    static const wanted_t wanted[] = {lacking, whole, rest, half_after_stride};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        sampled_t sampled;
        const int64_t *rows[N_NAMES];
        size_expr_t expr;
        sample_to(&sampled, 40);
        put_values(&sampled, wanted[i]);
        const size_samples_t samples = samples_of(&sampled, rows);
        assert_true(size_fit(&samples, NULL, sampled.values, &expr));
        check_everywhere(&expr, wanted[i]);
    }
}

static int64_t windows_of_height(int64_t h, int64_t w)
{
    (void)w;
    return windows(h);
}

static int64_t windows_of_width(int64_t h, int64_t w)
{
    (void)h;
    return windows(w);
}

static int64_t pooled_once(int64_t h, int64_t w)
{
    (void)w;
    return h / 2;
}

static int64_t pooled_twice(int64_t h, int64_t w)
{
    (void)w;
    return h / 4;
}

static int64_t all_windows(int64_t h, int64_t w)
{
    return 3 * windows(h) * windows(w);
}

static int64_t windows_in_rows(int64_t h, int64_t w)
{
    return windows(h) * w + 5;
}

/* Half of the size minus twice a quarter of it, both rounded down. */
static int64_t lost_by_pooling(int64_t h, int64_t w)
{
    (void)w;
    return h / 2 - 2 * (h / 4);
}

static void products_and_sums_are_found_of_sizes_inside(void **state)
{
    context_t *ctx = fixture_context(state);
    static const wanted_t inside[] = {windows_of_height, windows_of_width, pooled_once,
                                      pooled_twice};
    static const wanted_t wanted[] = {all_windows, windows_in_rows, lost_by_pooling};
    sampled_t sampled;
    const int64_t *rows[N_NAMES];
    size_pool_t *pool = NULL;
    size_expr_t expr;
    CHECK_OK(ctx, context_get_zeroed(ctx, sizeof *pool, "sizes inside", &pool));
    sample_to(&sampled, 40);
    const size_samples_t samples = samples_of(&sampled, rows);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 4; i++) {
            put_values(&sampled, inside[i]);
            size_pool_add(pool, &samples, sampled.values);
        }
    assert_int_equal(pool->n, 4);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        put_values(&sampled, wanted[i]);
        assert_false(size_fit(&samples, NULL, sampled.values, &expr));
        assert_true(size_fit(&samples, pool, sampled.values, &expr));
        check_everywhere(&expr, wanted[i]);
    }
    context_put(ctx, pool);
}

/* ---- rejected samples ---- */

static int64_t flipped(int64_t h, int64_t w)
{
    (void)w;
    return h ^ 5;
}

static int64_t thirtieth(int64_t h, int64_t w)
{
    (void)w;
    return (h + 29) / 30;
}

static void values_that_no_expression_fits_give_none(void **state)
{
    (void)state;
    sampled_t sampled;
    const int64_t *rows[N_NAMES];
    size_expr_t expr;
    sample_to(&sampled, 40);
    put_values(&sampled, flipped);
    const size_samples_t samples = samples_of(&sampled, rows);
    assert_false(size_fit(&samples, NULL, sampled.values, &expr));
    assert_false(size_fit_any(&samples, sampled.values, &expr));
}

/* With H up to 20, several quotients such as (H+29)/30 fit, so none is chosen. With H up to 200
 * only one fits. */
static void one_of_several_quotients_is_not_taken(void **state)
{
    (void)state;
    sampled_t sampled;
    const int64_t *rows[N_NAMES];
    size_expr_t expr;
    sample_to(&sampled, 20);
    put_values(&sampled, thirtieth);
    size_samples_t samples = samples_of(&sampled, rows);
    assert_false(size_fit(&samples, NULL, sampled.values, &expr));
    for (int64_t h = 21; h <= 200; h++) add_sample(&sampled, h, 20);
    put_values(&sampled, thirtieth);
    samples = samples_of(&sampled, rows);
    assert_true(size_fit(&samples, NULL, sampled.values, &expr));
    check_everywhere(&expr, thirtieth);
}

/* ---- random expressions ---- */

static int64_t random_factor, random_base, random_offset, random_divisor, random_slope;

static int64_t random_stairs(int64_t h, int64_t w)
{
    (void)w;
    return random_factor * ((h + random_offset) / random_divisor) + random_slope * h + random_base;
}

static void stairs_at_random_are_found_or_refused(void **state)
{
    (void)state;
    int n_found = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        sampled_t sampled;
        const int64_t *rows[N_NAMES];
        size_expr_t expr;
        seeded_begin(seed);
        random_factor = seeded_below(19) - 9;
        random_offset = seeded_below(40);
        random_divisor = 1 + seeded_below(33);
        random_slope = seeded_below(3) - 1;
        random_base = seeded_below(41) - 20;
        sample_to(&sampled, 20 + seeded_below(60));
        put_values(&sampled, random_stairs);
        const size_samples_t samples = samples_of(&sampled, rows);
        if (!size_fit(&samples, NULL, sampled.values, &expr)) continue;
        n_found++;
        check_everywhere(&expr, random_stairs);
    }
    assert_true(n_found > 250);
}

/* ---- sums and products ---- */

static void sums_that_are_too_long_leave_the_expression_as_it_is(void **state)
{
    (void)state;
    size_expr_t sum = {.divisor = 1}, before, one = {.n_terms = 1, .divisor = 1};
    one.terms[0] = (size_term_t){.factor = 2, .n = 1, .parts = {{names[0], 0, 1}}};
    for (int i = 0; i < SIZE_MAX_TERMS; i++) {
        one.terms[0].parts[0].divisor = i + 1;
        assert_true(size_add(&sum, 3, &one));
    }
    assert_int_equal(give(&sum, 60, 0), 6 * (60 + 30 + 20 + 15 + 12 + 10));
    before = sum;
    one.terms[0].parts[0].divisor = 99;
    assert_false(size_add(&sum, 1, &one));
    assert_false(size_multiply(&sum, &sum));
    assert_int_equal(memcmp(&before, &sum, sizeof sum), 0);
    one.terms[0].parts[0].divisor = 1;
    assert_true(size_add(&sum, -3, &one));
    assert_int_equal(sum.n_terms, SIZE_MAX_TERMS - 1);
    assert_false(size_add(&sum, INT64_MAX, &before));
}

/* ---- text ---- */

static void check_text(context_t *ctx, const char *expr, const char *printed, int64_t n)
{
    char text[512], wanted[512];
    graph_t *graph = NULL, *again = NULL;
    text_t first = text_begin(ctx), second = text_begin(ctx);
    snprintf(text, sizeof text,
             "graph f(%%x : f32[N=8,H=12]) {\n  %%y = reshape(%%x) sizes=[%lld,-1] where "
             "sizes[0]=%s\n  return %%y\n}\n",
             (long long)n, expr);
    snprintf(wanted, sizeof wanted, "where sizes[0]=%s", printed);
    CHECK_OK(ctx, graph_parse(ctx, text, NULL, &graph));
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &first));
    if (strstr(text_string(&first), wanted) == NULL) print_message("%s\n", text_string(&first));
    assert_non_null(strstr(text_string(&first), wanted));
    CHECK_OK(ctx, graph_parse(ctx, text_string(&first), NULL, &again));
    CHECK_OK(ctx, graph_print(ctx, again, NULL, &second));
    assert_string_equal(text_string(&first), text_string(&second));
    const graph_node_t *a = graph_body(graph)->nodes[0], *b = graph_body(again)->nodes[0];
    assert_true(size_equal(a, b));
    text_clear(&first);
    text_clear(&second);
    graph_release(again);
    graph_release(graph);
}

static void expressions_read_back(void **state)
{
    context_t *ctx = fixture_context(state);
    check_text(ctx, "N", "N", 8);
    check_text(ctx, "3*N*#1-4", "3*N*#1-4", 1);
    check_text(ctx, "(N+5)/16", "(N+5)/16", 1);
    check_text(ctx, "(2*N+5)/3", "(2*N+5)/3", 1);
    check_text(ctx, "(N*H+5)/3", "(H*N+5)/3", 1);
    check_text(ctx, "4*((#1+3)/4)-#1", "4*((#1+3)/4)-#1", 1);
    check_text(ctx, "-N+4*((N+3)/4)", "4*((N+3)/4)-N", 1);
    check_text(ctx, "(N)/2-2*((N)/4)", "N/2-2*(N/4)", 1);
    check_text(ctx, "N*((N+6)/7)*((H+6)/7)", "(H+6)/7*((N+6)/7)*N", 1);
    check_text(ctx, "((N)/2-2*((N)/4)+7)/2", "(N+2)/4-N/4+3", 1);
    check_text(ctx, "N-3*H", "N-3*H", 1);
    check_text(ctx, "N+N", "2*N", 1);
    check_text(ctx, "N-N+3", "3", 1);
    check_text(ctx, "2-N", "2-N", 1);
    check_text(ctx, "5", "5", 1);
    check_text(ctx, "-4611686018427387000", "-4611686018427387000", 1);
    check_text(ctx, "max(N-2, 1) + ( H%3 )", "H%3+max(1,N-2)", 1);
    check_text(ctx, "select(N<H,min(N,H,#0),(N==4)*2)", "select((N<H),min(H,N,#0),2*(N==4))", 1);
    check_text(ctx, "ceil(f32(H)*f32(1.3)-f32(0.5))", "ceil(f32(H)*f32(1.3)-f32(0.5))", 1);
    check_text(ctx, "(2*N+3)/-2", "-N-2", 1);
}

static void check_bad(context_t *ctx, const char *expr, const char *message)
{
    char text[512];
    graph_t *graph = NULL;
    snprintf(text, sizeof text,
             "graph f(%%x : f32[N=8,H=12]) {\n  %%y = reshape(%%x) sizes=[8,-1] where "
             "sizes[0]=%s\n  return %%y\n}\n",
             expr);
    CHECK_FAILS(ctx, graph_parse(ctx, text, NULL, &graph), STATUS_INVALID_ARGUMENT, message);
}

static void text_that_is_no_expression_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    check_bad(ctx, "9223372036854775807*N", "this size is too large");
    check_bad(ctx, "-9223372036854775807", "this size is too large");
    check_bad(ctx, "(N+3)/0", "a division by 0");
    check_bad(ctx, "(N+3", "a \")\" is needed");
    check_bad(ctx, "f32(N)", "a floating number instead of a size");
    check_bad(ctx, "floor(f32(N)+f64(2))",
              "floating numbers mixed with other types in one operation");
    check_bad(ctx, "floor(N)", "not a function of these operands");
    check_bad(ctx, "#12", "a tensor has at most 12 dimensions");
    check_bad(ctx, "N+", "a size: a name, \"#\" or an integer");
    check_bad(ctx, "2*", "a size: a name, \"#\" or an integer");
    check_bad(ctx, "99999999999999999999", "an integer of 64 bits");
    check_bad(ctx, "99999999999999999999-N", "an integer of 64 bits");
    check_bad(ctx, "999999999999999999999999-N", "an integer of 64 bits");
}

/* ---- execution ---- */

/* The graph pads to a multiple of 4, splits into windows of 4, joins them, and cuts to the old
 * size. */
static void a_graph_with_quotients_runs_at_other_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *module = NULL;
    CHECK_OK(ctx, module_create(ctx, "Windows", &module));
    CHECK_OK(ctx, graph_define(ctx, module,
                               "graph forward(%self : module, %x : f32[N=2,H=8]) {\n"
                               "  %1 = pad(%x) before=[0,0] after=[0,0] where "
                               "after[1]=4*((#1+3)/4)-#1\n"
                               "  %2 = reshape(%1) sizes=[4,4] where sizes[0]=N*((H+3)/4)\n"
                               "  %3 = reshape(%2) sizes=[2,8] where sizes[0]=N, "
                               "sizes[1]=4*((H+3)/4)\n"
                               "  %4 = slice(%3) dim=1 start=0 end=8 where end=H\n"
                               "  return %4\n}\n"));
    for (int64_t h = 1; h < 14; h++) {
        tensor_t *x = NULL, *y = NULL;
        double difference = 1;
        CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(1 + h % 3, h), &x));
        CHECK_OK(ctx, module_forward(ctx, module, x, &y));
        assert_int_equal(tensor_sizes(y)[1], h);
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, y, x, &difference));
        assert_true(difference == 0);
        tensor_release(x);
        tensor_release(y);
    }
    module_release(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_size_padded_or_cut_is_found_without_a_pool),
        TEST(products_and_sums_are_found_of_sizes_inside),
        TEST(values_that_no_expression_fits_give_none),
        TEST(one_of_several_quotients_is_not_taken),
        TEST(stairs_at_random_are_found_or_refused),
        TEST(sums_that_are_too_long_leave_the_expression_as_it_is),
        TEST(expressions_read_back),
        TEST(text_that_is_no_expression_is_refused),
        TEST(a_graph_with_quotients_runs_at_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
