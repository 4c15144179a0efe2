/* Elimination of variables, and improvement one variable at a time.
 *
 * All costs are tables over few variables. Eliminating a variable adds the tables that it is in,
 * and takes the least over its values: what is left is a table over its neighbours. The last
 * variable's least is the least cost of all, and walking back gives the choice. The order takes the
 * variable next that leaves the smallest table. Where the sum would be larger than TABLE_MAX the
 * tables are added in several groups, of which each takes its own least: the sum of these is at
 * most what any choice costs, so the end is a lower bound. Before, groups share what they say of
 * the variable's values equally, which lifts the bound. */
#include <math.h>
#include <string.h>

#include "graph/passes/cost_network_impl.h"
#include "tensor/context_impl.h"
#include "tensor/interrupt_impl.h"
#include "tensor/try_impl.h"

#define SCOPE_MAX 16       /* variables of a table */
#define TABLE_MAX 32768    /* elements of a table */
#define FAN_TABLE_MAX 4096 /* of one that a fan becomes */

/* ---- what a choice costs ---- */

static int form_of(const network_end_t *end, const int *chosen)
{
    return end->forms[end->variable == NETWORK_GIVEN ? 0 : chosen[end->variable]];
}

/* Of the readers from `first` on, n of them: a form that several of these want costs once. */
static double readers_cost(const network_fan_t *fan, int first, int n, const int *chosen)
{
    const int made = form_of(&fan->maker, chosen);
    double cost = 0.0;
    if (made == NETWORK_NO_FORM) return 0.0;
    for (int r = first; r < first + n; r++) {
        const int wanted = form_of(&fan->readers[r], chosen);
        bool is_first = wanted != NETWORK_NO_FORM;
        for (int q = first; q < r && is_first; q++)
            is_first = form_of(&fan->readers[q], chosen) != wanted;
        if (is_first) cost += fan->costs[made * fan->n_forms + wanted];
    }
    return cost;
}

double network_cost(const network_t *network, const int *chosen)
{
    double cost = 0.0;
    for (int v = 0; v < network->n_variables; v++) cost += network->own[v][chosen[v]];
    for (int f = 0; f < network->n_fans; f++)
        cost += readers_cost(&network->fans[f], 0, network->fans[f].n_readers, chosen);
    return cost;
}

/* ---- tables ---- */

/* Costs of all combinations of the values of its variables; the last runs fastest. */
typedef struct cost_table {
    int n, variables[SCOPE_MAX];
    int bucket, group; /* the variable that it was eliminated with, or -1: not yet; and where */
    double *costs;
} cost_table_t;

typedef struct solver {
    context_t *ctx;
    const network_t *network;
    int n_tables, capacity;
    cost_table_t *tables;
    int *order; /* variables as they were eliminated */
    bool *is_eliminated;
    double lower_bound;
} solver_t;

static bool has_variable(const cost_table_t *table, int variable)
{
    bool has = false;
    for (int i = 0; i < table->n && !has; i++) has = table->variables[i] == variable;
    return has;
}

/* Adds the variables of one table to those of another; false: they would be too many. */
static bool join_scope(cost_table_t *to, const cost_table_t *from)
{
    for (int i = 0; i < from->n; i++) {
        if (has_variable(to, from->variables[i])) continue;
        if (to->n == SCOPE_MAX) return false;
        to->variables[to->n++] = from->variables[i];
    }
    return true;
}

/* Elements of a table over these variables; more than any limit where they would be too many. */
static int table_size(const network_t *network, const cost_table_t *table)
{
    int64_t size = 1;
    for (int i = 0; i < table->n && size <= TABLE_MAX; i++)
        size *= network->n_values[table->variables[i]];
    return size > TABLE_MAX ? TABLE_MAX + 1 : (int)size;
}

/* A table of zeros over the variables of `scope`, added to those of the solver. */
static status_t add_table(solver_t *solver, const cost_table_t *scope, double **out_costs)
{
    const size_t size = (size_t)table_size(solver->network, scope);
    double *costs = NULL;
    TRY(context_grow(solver->ctx, &solver->tables, &solver->capacity, solver->n_tables + 1,
                     sizeof *solver->tables));
    TRY(context_get_zeroed(solver->ctx, size * sizeof *costs, "costs of layouts", &costs));
    cost_table_t *table = &solver->tables[solver->n_tables++];
    *table = *scope;
    table->bucket = -1;
    table->costs = *out_costs = costs;
    return STATUS_OK;
}

/* Moves to the next combination of values; false after the last. */
static bool next_values(const network_t *network, const cost_table_t *scope, int *values)
{
    for (int i = scope->n - 1; i >= 0; i--) {
        const int variable = scope->variables[i];
        if (++values[variable] < network->n_values[variable]) return true;
        values[variable] = 0;
    }
    return false;
}

static int place_of(const network_t *network, const cost_table_t *table, const int *values)
{
    int place = 0;
    for (int i = 0; i < table->n; i++)
        place = place * network->n_values[table->variables[i]] + values[table->variables[i]];
    return place;
}

/* ---- fans become tables ---- */

static void scope_of_end(cost_table_t *scope, const network_end_t *end)
{
    const cost_table_t one = {.n = end->variable == NETWORK_GIVEN ? 0 : 1,
                              .variables = {end->variable}};
    if (scope->n < SCOPE_MAX) (void)join_scope(scope, &one);
}

/* How many readers from `first` on fit into one table with the maker; at least one. */
static int count_readers(const network_t *network, const network_fan_t *fan, int first,
                         cost_table_t *out_scope)
{
    int n = 0;
    *out_scope = (cost_table_t){0};
    scope_of_end(out_scope, &fan->maker);
    for (; first + n < fan->n_readers; n++) {
        cost_table_t larger = *out_scope;
        scope_of_end(&larger, &fan->readers[first + n]);
        if (n > 0 && (larger.n == SCOPE_MAX || table_size(network, &larger) > FAN_TABLE_MAX)) break;
        *out_scope = larger;
    }
    return n;
}

/* Where its readers are too many for one table, each part of them says an equal share of what it
 * wants: together at most what the fan costs. `values` has room for all variables. */
static status_t add_fan(solver_t *solver, const network_fan_t *fan, int *values)
{
    cost_table_t scope;
    int n_parts = 0;
    for (int first = 0; first < fan->n_readers; n_parts++)
        first += count_readers(solver->network, fan, first, &scope);
    for (int first = 0, n = 0; first < fan->n_readers; first += n) {
        double *costs = NULL;
        n = count_readers(solver->network, fan, first, &scope);
        TRY(add_table(solver, &scope, &costs));
        for (int i = 0; i < scope.n; i++) values[scope.variables[i]] = 0;
        do {
            *costs++ = readers_cost(fan, first, n, values) / n_parts;
        } while (next_values(solver->network, &scope, values));
    }
    return STATUS_OK;
}

static status_t add_own(solver_t *solver, int variable)
{
    const cost_table_t scope = {.n = 1, .variables = {variable}};
    double *costs = NULL;
    TRY(add_table(solver, &scope, &costs));
    memcpy(costs, solver->network->own[variable],
           (size_t)solver->network->n_values[variable] * sizeof *costs);
    return STATUS_OK;
}

/* ---- elimination ---- */

/* Elements of the table that is left when the variable goes. */
static int size_left(const solver_t *solver, int variable)
{
    cost_table_t scope = {.n = 1, .variables = {variable}};
    for (int t = 0; t < solver->n_tables; t++) {
        const cost_table_t *table = &solver->tables[t];
        if (table->bucket < 0 && has_variable(table, variable) && !join_scope(&scope, table))
            return TABLE_MAX + 1;
    }
    return table_size(solver->network, &scope);
}

static int choose_next(const solver_t *solver)
{
    int best = -1, best_size = 0;
    for (int v = 0; v < solver->network->n_variables; v++) {
        if (solver->is_eliminated[v]) continue;
        const int size = size_left(solver, v);
        if (best >= 0 && size >= best_size) continue;
        best = v;
        best_size = size;
    }
    return best;
}

/* Tables that are added up before the least is taken. The variable that goes is the scope's first:
 * it runs slowest. */
typedef struct group {
    cost_table_t scope; /* with the sum as its costs */
    int n_left;         /* elements for one value of the variable */
} group_t;

typedef struct groups {
    int n, capacity, variable;
    group_t *items;
} groups_t;

static status_t put_in_group(solver_t *solver, groups_t *groups, cost_table_t *table)
{
    table->bucket = groups->variable;
    for (int g = 0; g < groups->n; g++) {
        cost_table_t larger = groups->items[g].scope;
        if (!join_scope(&larger, table) || table_size(solver->network, &larger) > TABLE_MAX)
            continue;
        groups->items[g].scope = larger;
        table->group = g;
        return STATUS_OK;
    }
    TRY(context_grow(solver->ctx, &groups->items, &groups->capacity, groups->n + 1,
                     sizeof *groups->items));
    group_t *group = &groups->items[groups->n];
    *group = (group_t){.scope = {.n = 1, .variables = {groups->variable}}};
    (void)join_scope(&group->scope, table);
    table->group = groups->n++;
    return STATUS_OK;
}

static status_t make_groups(solver_t *solver, groups_t *groups)
{
    for (int t = 0; t < solver->n_tables; t++)
        if (solver->tables[t].bucket < 0 && has_variable(&solver->tables[t], groups->variable))
            TRY(put_in_group(solver, groups, &solver->tables[t]));
    return STATUS_OK;
}

static status_t add_up(solver_t *solver, groups_t *groups, int number, int *values)
{
    group_t *group = &groups->items[number];
    cost_table_t *scope = &group->scope;
    const int size = table_size(solver->network, scope);
    TRY(context_get_zeroed(solver->ctx, (size_t)size * sizeof(double), "costs of layouts",
                           &scope->costs));
    group->n_left = size / solver->network->n_values[groups->variable];
    for (int t = 0; t < solver->n_tables; t++) {
        const cost_table_t *table = &solver->tables[t];
        if (table->bucket != groups->variable || table->group != number) continue;
        double *sum = scope->costs;
        for (int i = 0; i < scope->n; i++) values[scope->variables[i]] = 0;
        do {
            *sum++ += table->costs[place_of(solver->network, table, values)];
        } while (next_values(solver->network, scope, values));
    }
    return STATUS_OK;
}

static double least_of(const group_t *group, int value)
{
    const double *costs = group->scope.costs + (int64_t)value * group->n_left;
    double least = costs[0];
    for (int i = 1; i < group->n_left; i++) least = costs[i] < least ? costs[i] : least;
    return least;
}

/* Every group's least for a value becomes the mean of all groups' leasts: their sum stays. */
static void share(const solver_t *solver, const groups_t *groups)
{
    for (int value = 0; value < solver->network->n_values[groups->variable]; value++) {
        double mean = 0.0;
        for (int g = 0; g < groups->n; g++) mean += least_of(&groups->items[g], value) / groups->n;
        for (int g = 0; g < groups->n; g++) {
            const group_t *group = &groups->items[g];
            double *costs = group->scope.costs + (int64_t)value * group->n_left;
            const double difference = mean - least_of(group, value);
            for (int i = 0; i < group->n_left; i++) costs[i] += difference;
        }
    }
}

/* The least over the values of the variable, for one combination of those of the others. */
static double least_at(const group_t *group, int n_values, int combination)
{
    double least = group->scope.costs[combination];
    for (int value = 1; value < n_values; value++) {
        const double cost = group->scope.costs[(int64_t)value * group->n_left + combination];
        if (cost < least) least = cost;
    }
    return least;
}

/* A table of these for all that is left in the scope; a number where nothing is. */
static status_t take_least(solver_t *solver, const group_t *group, int n_values)
{
    cost_table_t left = {.n = group->scope.n - 1};
    double *least = NULL;
    if (left.n == 0) {
        solver->lower_bound += least_at(group, n_values, 0);
        return STATUS_OK;
    }
    for (int i = 0; i < left.n; i++) left.variables[i] = group->scope.variables[i + 1];
    TRY(add_table(solver, &left, &least));
    for (int i = 0; i < group->n_left; i++) least[i] = least_at(group, n_values, i);
    return STATUS_OK;
}

static status_t eliminate(solver_t *solver, int variable, int *values)
{
    groups_t groups = {.variable = variable};
    status_t status = make_groups(solver, &groups);
    for (int g = 0; g < groups.n && status == STATUS_OK; g++)
        status = add_up(solver, &groups, g, values);
    if (groups.n > 1 && status == STATUS_OK) share(solver, &groups);
    for (int g = 0; g < groups.n && status == STATUS_OK; g++)
        status = take_least(solver, &groups.items[g], solver->network->n_values[variable]);
    for (int g = 0; g < groups.n; g++) context_put(solver->ctx, groups.items[g].scope.costs);
    context_put(solver->ctx, groups.items);
    return status;
}

/* Each variable takes what is best for the tables that it was eliminated with, the last first. */
static void walk_back(const solver_t *solver, int *chosen)
{
    for (int i = solver->network->n_variables - 1; i >= 0; i--) {
        const int variable = solver->order[i];
        int best = 0;
        double least = 0.0;
        for (int value = 0; value < solver->network->n_values[variable]; value++) {
            double cost = 0.0;
            chosen[variable] = value;
            for (int t = 0; t < solver->n_tables; t++)
                if (solver->tables[t].bucket == variable)
                    cost += solver->tables[t]
                                .costs[place_of(solver->network, &solver->tables[t], chosen)];
            if (value > 0 && cost >= least) continue;
            best = value;
            least = cost;
        }
        chosen[variable] = best;
    }
}

static status_t run_elimination(solver_t *solver, int *values, int *out_chosen)
{
    const network_t *network = solver->network;
    for (int v = 0; v < network->n_variables; v++) TRY(add_own(solver, v));
    for (int f = 0; f < network->n_fans; f++) TRY(add_fan(solver, &network->fans[f], values));
    for (int t = 0; t < solver->n_tables; t++) /* of fans without a variable */
        if (solver->tables[t].n == 0) solver->lower_bound += solver->tables[t].costs[0];
    for (int i = 0; i < network->n_variables; i++) {
        TRY(interrupt_check(solver->ctx, "the search for layouts"));
        solver->order[i] = choose_next(solver);
        solver->is_eliminated[solver->order[i]] = true;
        TRY(eliminate(solver, solver->order[i], values));
    }
    walk_back(solver, out_chosen);
    return STATUS_OK;
}

static status_t solve_by_elimination(context_t *ctx, const network_t *network, int *out_chosen,
                                     double *out_lower_bound)
{
    solver_t solver = {.ctx = ctx, .network = network};
    const size_t n = (size_t)network->n_variables;
    int *values = NULL;
    status_t status = context_get(ctx, n * sizeof *values, "a choice of layouts", &values);
    if (status == STATUS_OK)
        status = context_get(ctx, n * sizeof *solver.order, "a choice of layouts", &solver.order);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, n * sizeof *solver.is_eliminated, "a choice of layouts",
                                    &solver.is_eliminated);
    if (status == STATUS_OK) status = run_elimination(&solver, values, out_chosen);
    *out_lower_bound = solver.lower_bound;
    for (int t = 0; t < solver.n_tables; t++) context_put(ctx, solver.tables[t].costs);
    context_put(ctx, solver.tables);
    context_put(ctx, solver.order);
    context_put(ctx, solver.is_eliminated);
    context_put(ctx, values);
    return status;
}

/* ---- improvement ---- */

/* The fans that each variable is in: those of `v` are fans[first[v]] to fans[first[v + 1] - 1]. */
typedef struct touching {
    int *first, *fans;
} touching_t;

/* Counts, or with `fans` lists; a fan comes once for each end that the variable is. */
static void list_touching(const network_t *network, int *next, int *fans)
{
    for (int f = 0; f < network->n_fans; f++) {
        const network_fan_t *fan = &network->fans[f];
        for (int r = -1; r < fan->n_readers; r++) {
            const int variable = r < 0 ? fan->maker.variable : fan->readers[r].variable;
            if (variable == NETWORK_GIVEN) continue;
            if (fans != NULL) fans[next[variable]] = f;
            next[variable]++;
        }
    }
}

static status_t find_touching(context_t *ctx, const network_t *network, touching_t *out)
{
    int n = 0;
    TRY(context_get_zeroed(ctx, (size_t)(network->n_variables + 1) * sizeof *out->first,
                           "a choice of layouts", &out->first));
    list_touching(network, out->first, NULL);
    for (int v = 0; v <= network->n_variables; v++) {
        const int count = out->first[v];
        out->first[v] = n;
        n += v < network->n_variables ? count : 0;
    }
    TRY(context_get(ctx, (size_t)n * sizeof *out->fans, "a choice of layouts", &out->fans));
    list_touching(network, out->first, out->fans);
    for (int v = network->n_variables; v > 0; v--) out->first[v] = out->first[v - 1];
    out->first[0] = 0;
    return STATUS_OK;
}

/* What depends on the variable; a fan that it is in twice counts twice for each of its values. */
static double cost_near(const network_t *network, const touching_t *touching, int variable,
                        const int *chosen)
{
    double cost = network->own[variable][chosen[variable]];
    for (int i = touching->first[variable]; i < touching->first[variable + 1]; i++) {
        const network_fan_t *fan = &network->fans[touching->fans[i]];
        const bool is_again = i > touching->first[variable] &&
                              touching->fans[i - 1] == touching->fans[i];
        if (!is_again) cost += readers_cost(fan, 0, fan->n_readers, chosen);
    }
    return cost;
}

/* Takes another value only where that is clearly better, so that ties keep what is there. */
#define LEAST_GAIN 1.0

static bool improve_one(const network_t *network, const touching_t *touching, int variable,
                        int *chosen)
{
    const int before = chosen[variable];
    int best = before;
    double least = cost_near(network, touching, variable, chosen);
    for (int value = 0; value < network->n_values[variable]; value++) {
        chosen[variable] = value;
        const double cost = cost_near(network, touching, variable, chosen);
        if (cost >= least - LEAST_GAIN) continue;
        best = value;
        least = cost;
    }
    chosen[variable] = best;
    return best != before;
}

static void improve(const network_t *network, const touching_t *touching, int *chosen)
{
    bool is_better = true;
    for (int round = 0; is_better && round < 8; round++) {
        is_better = false;
        for (int v = 0; v < network->n_variables; v++)
            is_better |= improve_one(network, touching, v, chosen);
        for (int v = network->n_variables - 1; v >= 0; v--)
            is_better |= improve_one(network, touching, v, chosen);
    }
}

/* Improves one choice, and keeps it if it is clearly better than the best so far. */
static void try_choice(const network_t *network, const touching_t *touching, int *choice, int *best,
                       double *best_cost)
{
    improve(network, touching, choice);
    const double cost = network_cost(network, choice);
    if (cost >= *best_cost - LEAST_GAIN) return;
    *best_cost = cost;
    memcpy(best, choice, (size_t)network->n_variables * sizeof *best);
}

/* The starts come first, so that of choices that cost the same the most uniform is taken. */
static status_t solve(context_t *ctx, const network_t *network, int n_starts,
                      const int *const *starts, touching_t *touching, int *choice, int *out_chosen,
                      network_certificate_t *certificate)
{
    const size_t bytes = (size_t)network->n_variables * sizeof *choice;
    TRY(find_touching(ctx, network, touching));
    certificate->cost = certificate->best_start = INFINITY;
    for (int s = 0; s < n_starts; s++) {
        const double cost = network_cost(network, starts[s]);
        if (cost < certificate->best_start) certificate->best_start = cost;
        memcpy(choice, starts[s], bytes);
        try_choice(network, touching, choice, out_chosen, &certificate->cost);
    }
    TRY(solve_by_elimination(ctx, network, choice, &certificate->lower_bound));
    try_choice(network, touching, choice, out_chosen, &certificate->cost);
    certificate->is_optimal = certificate->cost <= certificate->lower_bound + LEAST_GAIN;
    if (certificate->is_optimal) certificate->lower_bound = certificate->cost;
    if (n_starts == 0) certificate->best_start = certificate->cost;
    return STATUS_OK;
}

status_t network_solve(context_t *ctx, const network_t *network, int n_starts,
                       const int *const *starts, int *out_chosen,
                       network_certificate_t *out_certificate)
{
    touching_t touching = {NULL, NULL};
    int *choice = NULL;
    TRY(context_get(ctx, (size_t)network->n_variables * sizeof *choice, "a choice of layouts",
                    &choice));
    status_t status = solve(ctx, network, n_starts, starts, &touching, choice, out_chosen,
                            out_certificate);
    context_put(ctx, touching.first);
    context_put(ctx, touching.fans);
    context_put(ctx, choice);
    return status;
}
