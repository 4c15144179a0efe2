/* The solver of cost networks (cost_network_impl.h). On small random networks it must find the
 * optimum, which the test finds by trying all choices. On networks that are too dense, its bound
 * must hold. */
#include "graph/passes/layout/cost_network_impl.h"

#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES = 40, VALUES = 6, FORMS = 5, READERS = 12, FANS = 60 };

/* A network, and the arrays that it points to. */
typedef struct made {
    network_t network;
    int n_values[VARIABLES];
    const double *own[VARIABLES];
    double costs[VARIABLES][VALUES];
    network_fan_t fans[FANS];
    network_end_t readers[FANS][READERS];
    int forms[FANS][READERS + 1][VALUES];
    double moves[FANS][FORMS * FORMS];
} made_t;

static uint64_t seed;

static int draw(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static void begin(made_t *made, int n_variables)
{
    memset(made, 0, sizeof *made);
    for (int v = 0; v < n_variables; v++) {
        made->n_values[v] = 1 + draw(VALUES);
        made->own[v] = made->costs[v];
        for (int i = 0; i < VALUES; i++) made->costs[v][i] = 10.0 * draw(100);
    }
    made->network = (network_t){n_variables, 0, made->n_values, made->own, made->fans};
}

static network_end_t end_of(int variable, int *forms)
{
    for (int i = 0; i < VALUES; i++) forms[i] = draw(20) == 0 ? NETWORK_NO_FORM : draw(FORMS);
    return (network_end_t){variable, forms};
}

static void add_fan(made_t *made, int maker, int n_readers, const int *readers)
{
    const int f = made->network.n_fans++;
    for (int i = 0; i < FORMS * FORMS; i++)
        made->moves[f][i] = i / FORMS == i % FORMS ? 0.0 : 10.0 * draw(60);
    for (int r = 0; r < n_readers; r++)
        made->readers[f][r] = end_of(readers[r], made->forms[f][r + 1]);
    made->fans[f] = (network_fan_t){end_of(maker, made->forms[f][0]), n_readers, made->readers[f],
                                    FORMS, made->moves[f]};
}

/* Computes the cost by the formula in the header, one set of needed forms per fan. */
static double count_cost(const made_t *made, const int *chosen)
{
    double cost = 0.0;
    for (int v = 0; v < made->network.n_variables; v++) cost += made->costs[v][chosen[v]];
    for (int f = 0; f < made->network.n_fans; f++) {
        const network_fan_t *fan = &made->fans[f];
        const int from =
            fan->maker.forms[fan->maker.variable < 0 ? 0 : chosen[fan->maker.variable]];
        bool is_wanted[FORMS] = {false};
        for (int r = 0; r < fan->n_readers; r++) {
            const network_end_t *reader = &fan->readers[r];
            const int to = reader->forms[reader->variable < 0 ? 0 : chosen[reader->variable]];
            if (to >= 0) is_wanted[to] = true;
        }
        for (int to = 0; to < FORMS && from >= 0; to++)
            if (is_wanted[to] && to != from) cost += fan->costs[from * FORMS + to];
    }
    return cost;
}

static double least_of_all(const made_t *made)
{
    int chosen[VARIABLES] = {0};
    double least = INFINITY;
    for (bool is_more = true; is_more;) {
        const double cost = count_cost(made, chosen);
        least = cost < least ? cost : least;
        is_more = false;
        for (int v = 0; v < made->network.n_variables && !is_more; v++) {
            is_more = ++chosen[v] < made->n_values[v];
            if (!is_more) chosen[v] = 0;
        }
    }
    return least;
}

static void solve(context_t *ctx, const made_t *made, network_certificate_t *out)
{
    int start[VARIABLES] = {0}, chosen[VARIABLES];
    CHECK_OK(ctx, network_solve(ctx, &made->network, 1, (const int *[]){start}, chosen, out));
    for (int v = 0; v < made->network.n_variables; v++)
        assert_in_range(chosen[v], 0, made->n_values[v] - 1);
    assert_float_equal(out->cost, count_cost(made, chosen), 1e-6);
    assert_float_equal(network_cost(&made->network, chosen), out->cost, 1e-6);
    assert_float_equal(out->best_start, count_cost(made, start), 1e-6);
    assert_true(out->cost <= out->best_start);
    assert_true(out->lower_bound <= out->cost);
}

/* Networks of any structure: a maker may read its own data, a reader may occur twice in a fan, and
 * makers or readers may have a fixed form. */
static void small_networks_are_solved_to_the_optimum(void **state)
{
    context_t *ctx = fixture_context(state);
    made_t made;
    for (int round = 0; round < 300; round++) {
        seed = (uint64_t)round;
        begin(&made, 1 + draw(6));
        const int n_fans = draw(8);
        for (int f = 0; f < n_fans; f++) {
            int readers[4];
            for (int r = 0; r < 4; r++) readers[r] = draw(made.network.n_variables + 1) - 1;
            add_fan(&made, draw(made.network.n_variables + 1) - 1, 1 + draw(4), readers);
        }
        network_certificate_t certificate;
        solve(ctx, &made, &certificate);
        assert_float_equal(certificate.cost, least_of_all(&made), 1e-6);
        assert_float_equal(certificate.lower_bound, certificate.cost, 1e-6);
        assert_true(certificate.is_optimal);
    }
}

/* There are 40 variables. The next two variables read each, as in a residual network. */
static void long_chains_with_skips_are_exact(void **state)
{
    context_t *ctx = fixture_context(state);
    made_t made;
    network_certificate_t certificate;
    for (int round = 0; round < 20; round++) {
        seed = 1000 + (uint64_t)round;
        begin(&made, VARIABLES);
        for (int v = 0; v + 2 < VARIABLES; v++) add_fan(&made, v, 2, (const int[]){v + 1, v + 2});
        solve(ctx, &made, &certificate);
        assert_true(certificate.is_optimal);
    }
}

/* So many variables share fans that tables for eliminating them would be too large. */
static void too_dense_problems_have_a_lower_bound(void **state)
{
    context_t *ctx = fixture_context(state);
    made_t made;
    network_certificate_t certificate;
    int n_inexact = 0;
    for (int round = 0; round < 20; round++) {
        int readers[READERS];
        seed = 2000 + (uint64_t)round;
        begin(&made, VARIABLES);
        for (int f = 0; f < FANS; f++) {
            for (int r = 0; r < READERS; r++) readers[r] = draw(VARIABLES);
            add_fan(&made, draw(VARIABLES), 1 + draw(READERS), readers);
        }
        solve(ctx, &made, &certificate);
        assert_true(certificate.lower_bound > 0.0);
        n_inexact += !certificate.is_optimal;
    }
    assert_true(n_inexact > 0);
}

/* Three readers need a form that the maker can only convert to. The conversion costs 100, once. */
static void a_form_that_many_want_is_converted_to_once(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int n_values[] = {2, 1, 1, 1}, makes[] = {0, 1}, wants[] = {1};
    static const double maker[] = {0.0, 150.0}, none[] = {0.0};
    static const double moves[] = {0.0, 100.0, 100.0, 0.0};
    const double *const own[] = {maker, none, none, none};
    const network_end_t readers[] = {{1, wants}, {2, wants}, {3, wants}};
    const network_fan_t fan = {{0, makes}, 3, readers, 2, moves};
    const network_t network = {4, 1, n_values, own, &fan};
    int chosen[4];
    network_certificate_t certificate;
    CHECK_OK(ctx, network_solve(ctx, &network, 0, NULL, chosen, &certificate));
    assert_int_equal(chosen[0], 0); /* 100 for one conversion is less than 150 for the other form */
    assert_float_equal(certificate.cost, 100.0, 0);
    assert_float_equal(certificate.lower_bound, 100.0, 0);
}

static void a_problem_without_choices_costs_nothing(void **state)
{
    context_t *ctx = fixture_context(state);
    const network_t network = {0, 0, NULL, NULL, NULL};
    int chosen = 0;
    network_certificate_t certificate;
    CHECK_OK(ctx, network_solve(ctx, &network, 0, NULL, &chosen, &certificate));
    assert_float_equal(certificate.cost, 0.0, 0);
    assert_true(certificate.is_optimal);
}

/* ---- growth of the work ---- */

enum { LONG = 500, TIMES = 8, MAX_WAYS = 3 };

typedef enum pattern { CHAIN, RESIDUAL, TREE, HUB, N_PATTERNS } pattern_t;

/* Returns the variable whose data v reads. In RESIDUAL, v also reads that of v - 3. */
static int maker_of(pattern_t pattern, int v)
{
    if (pattern == TREE) return (v - 1) / 2;
    return pattern == HUB ? 0 : v - 1;
}

/* Returns the solver's work for a network of n variables. Each fan has one reader, but HUB is one
 * fan with all readers. */
static int64_t work_of(context_t *ctx, pattern_t pattern, int n)
{
    static const int forms[MAX_WAYS] = {0, 1, 2};
    static const double moves[9] = {0, 7, 9, 5, 0, 6, 8, 4, 0};
    int *n_values = calloc((size_t)n, sizeof *n_values), *chosen = calloc((size_t)n, sizeof(int));
    int *start = calloc((size_t)n, sizeof *start);
    double(*costs)[MAX_WAYS] = calloc((size_t)n, sizeof *costs);
    const double **own = calloc((size_t)n, sizeof *own);
    network_fan_t *fans = calloc(2 * (size_t)n, sizeof *fans);
    network_end_t *readers = calloc(2 * (size_t)n, sizeof *readers);
    int n_fans = 0;
    network_certificate_t certificate;
    for (int v = 0; v < n; v++) {
        n_values[v] = MAX_WAYS;
        own[v] = costs[v];
        for (int w = 0; w < MAX_WAYS; w++) costs[v][w] = draw(100);
    }
    for (int v = 1; v < n; v++) {
        readers[n_fans] = (network_end_t){v, forms};
        fans[n_fans] = (network_fan_t){
            {maker_of(pattern, v), forms}, 1, &readers[n_fans], 3, moves};
        n_fans++;
        if (pattern != RESIDUAL || v < 3) continue;
        readers[n_fans] = (network_end_t){v, forms};
        fans[n_fans] = (network_fan_t){{v - 3, forms}, 1, &readers[n_fans], 3, moves};
        n_fans++;
    }
    if (pattern == HUB) {
        fans[0].n_readers = n_fans;
        n_fans = 1;
    }
    const network_t network = {n, n_fans, n_values, own, fans};
    CHECK_OK(ctx, network_solve(ctx, &network, 1, (const int *[]){start}, chosen, &certificate));
    free(n_values);
    free(chosen);
    free(start);
    free(costs);
    free((void *)own);
    free(fans);
    free(readers);
    return certificate.work;
}

static void work_grows_with_the_network_and_not_with_its_square(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int p = 0; p < N_PATTERNS; p++) {
        const int64_t few = work_of(ctx, (pattern_t)p, LONG);
        const int64_t many = work_of(ctx, (pattern_t)p, TIMES * LONG);
        assert_true(few > LONG);
        assert_in_range(many, few, few * TIMES * 3 / 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(small_networks_are_solved_to_the_optimum),
        TEST(long_chains_with_skips_are_exact),
        TEST(too_dense_problems_have_a_lower_bound),
        TEST(a_form_that_many_want_is_converted_to_once),
        TEST(a_problem_without_choices_costs_nothing),
        TEST(work_grows_with_the_network_and_not_with_its_square),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
