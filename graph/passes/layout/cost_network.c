/* Solves a cost network (cost_network_impl.h): bucket elimination finds a choice and a lower bound
 * of the cost; then the choice is improved one variable at a time.
 *
 * All costs are in tables over a few variables. Eliminating a variable adds up the tables that
 * contain it and takes the minimum over its values, which leaves a table over its neighbours. After
 * the last variable, the minimum is the least total cost. Walking back, the variables get their
 * values in reverse order. The variable to eliminate next is the one whose sum has the fewest
 * elements; a heap finds it.
 *
 * If a sum of tables would have more than TABLE_MAX elements or SCOPE_MAX variables, the tables are
 * divided into groups (mini-buckets), and the minimum of each group's sum is taken separately. The
 * sum of these minima is a lower bound of the cost of any choice. To raise this bound, costs are
 * first moved between the groups until their minima are equal, for each value of the variable. */
#include <math.h>
#include <string.h>

#include "graph/passes/layout/cost_network_impl.h"
#include "tensor/base/try_impl.h"
#include "tensor/context_impl.h"
#include "tensor/threads/interrupt_impl.h"

#define SCOPE_MAX 16       /* most variables of a table */
#define TABLE_MAX 32768    /* most elements of a table */
#define FAN_TABLE_MAX 4096 /* most elements of a table for one fan */

/* ---- cost of a choice ---- */

static int form_of(const network_end_t *end, const int *chosen)
{
    return end->forms[end->variable == NETWORK_GIVEN ? 0 : chosen[end->variable]];
}

/* If a fan has at most this many forms, the usual case, a bit set marks those already counted. */
#define BIT_FORMS 64

/* Cost of n readers from `first` on. A form that several of these readers need is counted once. */
static double readers_cost(const network_fan_t *fan, int first, int n, const int *chosen)
{
    const int made = form_of(&fan->maker, chosen);
    uint64_t seen = 0;
    double cost = 0.0;
    if (made == NETWORK_NO_FORM) return 0.0;
    for (int r = first; r < first + n; r++) {
        const int wanted = form_of(&fan->readers[r], chosen);
        if (wanted == NETWORK_NO_FORM) continue;
        bool is_first = wanted >= BIT_FORMS || (seen >> wanted & 1) == 0;
        if (wanted < BIT_FORMS) seen |= (uint64_t)1 << wanted;
        for (int q = first; wanted >= BIT_FORMS && q < r && is_first; q++)
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

/* The costs of all combinations of its variables' values; the last variable varies fastest. */
typedef struct cost_table {
    int n, variables[SCOPE_MAX];
    int bucket, group; /* variable whose elimination used the table, or -1; group in it */
    double *costs;
} cost_table_t;

/* An entry in a variable's list of tables. */
typedef struct link {
    int table, next; /* next: index of a link, or -1 */
} link_t;

typedef struct solver {
    context_t *ctx;
    const network_t *network;
    int n_tables, capacity;
    cost_table_t *tables; /* tables[v] is the table of variable v alone */
    int n_links, link_capacity;
    link_t *links;
    int *first, *last; /* ends of each variable's list of links; -1: empty */
    int *order;        /* variables in order of elimination */
    bool *is_eliminated;
    int n_waiting;
    int *heap, *place; /* heap of the n_waiting remaining variables; their positions */
    int *size;         /* number of elements of the sum that eliminating the variable needs */
    int *stamp;        /* number of the last elimination that updated `size` */
    double lower_bound;
    int64_t work; /* tables visited, and elements computed */
} solver_t;

static bool has_variable(const cost_table_t *table, int variable)
{
    bool has = false;
    for (int i = 0; i < table->n && !has; i++) has = table->variables[i] == variable;
    return has;
}

/* Adds one table's variables to the scope of another; false if there would be too many. */
static bool join_scope(cost_table_t *to, const cost_table_t *from)
{
    for (int i = 0; i < from->n; i++) {
        if (has_variable(to, from->variables[i])) continue;
        if (to->n == SCOPE_MAX) return false;
        to->variables[to->n++] = from->variables[i];
    }
    return true;
}

/* Number of elements of a table; TABLE_MAX + 1 if it would have more than TABLE_MAX. */
static int table_size(const network_t *network, const cost_table_t *table)
{
    int64_t size = 1;
    for (int i = 0; i < table->n && size <= TABLE_MAX; i++)
        size *= network->n_values[table->variables[i]];
    return size > TABLE_MAX ? TABLE_MAX + 1 : (int)size;
}

/* Appends the newest table to the list of a variable. */
static status_t add_link(solver_t *solver, int variable)
{
    TRY(context_grow(solver->ctx, &solver->links, &solver->link_capacity, solver->n_links + 1,
                     sizeof *solver->links));
    const int number = solver->n_links++;
    int *from = solver->last[variable] < 0 ? &solver->first[variable]
                                           : &solver->links[solver->last[variable]].next;
    solver->links[number] = (link_t){solver->n_tables - 1, -1};
    *from = solver->last[variable] = number;
    return STATUS_OK;
}

/* Adds a table of zeros over the variables of `scope`. */
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
    solver->work += (int64_t)size;
    for (int i = 0; i < scope->n; i++) TRY(add_link(solver, scope->variables[i]));
    return STATUS_OK;
}

/* Advances to the next combination of values; false after the last. */
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

/* ---- tables of fans ---- */

static void scope_of_end(cost_table_t *scope, const network_end_t *end)
{
    const cost_table_t one = {.n = end->variable == NETWORK_GIVEN ? 0 : 1,
                              .variables = {end->variable}};
    if (scope->n < SCOPE_MAX) (void)join_scope(scope, &one);
}

/* Number of readers, from `first` on, that fit in a table with the maker; at least one. */
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

/* Adds the tables of a fan. If the fan has too many readers for one table, each of n tables counts
 * the conversions for some of the readers. Readers of several tables may share a conversion, so all
 * costs are divided by n. Then the sum of the tables is at most the fan's cost. `values` has an
 * element for each variable. */
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

/* Removes tables that an elimination has used from the variable's list. */
static void drop_gone(solver_t *solver, int variable)
{
    int *at = &solver->first[variable];
    solver->last[variable] = -1;
    while (*at >= 0) {
        link_t *link = &solver->links[*at];
        solver->work++;
        if (solver->tables[link->table].bucket >= 0) {
            *at = link->next;
            continue;
        }
        solver->last[variable] = *at;
        at = &link->next;
    }
}

/* Number of elements of the sum that eliminating the variable needs: over the variable and its
 * neighbours. */
static int size_left(solver_t *solver, int variable)
{
    cost_table_t scope = {.n = 1, .variables = {variable}};
    for (int l = solver->first[variable]; l >= 0; l = solver->links[l].next) {
        const cost_table_t *table = &solver->tables[solver->links[l].table];
        solver->work++;
        if (table->bucket < 0 && !join_scope(&scope, table)) return TABLE_MAX + 1;
    }
    return table_size(solver->network, &scope);
}

/* ---- elimination order: a heap ordered by size, then by number ---- */

static bool goes_before(const solver_t *solver, int a, int b)
{
    return solver->size[a] != solver->size[b] ? solver->size[a] < solver->size[b] : a < b;
}

static void put_at(solver_t *solver, int place, int variable)
{
    solver->heap[place] = variable;
    solver->place[variable] = place;
}

static void move_up(solver_t *solver, int place)
{
    const int variable = solver->heap[place];
    for (; place > 0 && goes_before(solver, variable, solver->heap[(place - 1) / 2]);
         place = (place - 1) / 2)
        put_at(solver, place, solver->heap[(place - 1) / 2]);
    put_at(solver, place, variable);
}

static void move_down(solver_t *solver, int place)
{
    const int variable = solver->heap[place];
    for (int child = 2 * place + 1; child < solver->n_waiting; child = 2 * place + 1) {
        if (child + 1 < solver->n_waiting &&
            goes_before(solver, solver->heap[child + 1], solver->heap[child]))
            child++;
        if (!goes_before(solver, solver->heap[child], variable)) break;
        put_at(solver, place, solver->heap[child]);
        place = child;
    }
    put_at(solver, place, variable);
}

static void fill_heap(solver_t *solver)
{
    solver->n_waiting = solver->network->n_variables;
    for (int v = 0; v < solver->n_waiting; v++) {
        solver->size[v] = size_left(solver, v);
        put_at(solver, v, v);
    }
    for (int place = solver->n_waiting / 2; place-- > 0;) move_down(solver, place);
}

static int take_next(solver_t *solver)
{
    const int next = solver->heap[0];
    put_at(solver, 0, solver->heap[--solver->n_waiting]);
    if (solver->n_waiting > 0) move_down(solver, 0);
    return next;
}

/* Updates the sizes of variables that were in a table with the eliminated variable. */
static void update_neighbours(solver_t *solver, int variable, int step)
{
    for (int l = solver->first[variable]; l >= 0; l = solver->links[l].next) {
        const cost_table_t *table = &solver->tables[solver->links[l].table];
        for (int i = 0; i < table->n; i++) {
            const int other = table->variables[i];
            if (solver->is_eliminated[other] || solver->stamp[other] == step) continue;
            solver->stamp[other] = step;
            drop_gone(solver, other);
            solver->size[other] = size_left(solver, other);
            move_up(solver, solver->place[other]);
            move_down(solver, solver->place[other]);
        }
    }
}

/* ---- eliminating one variable ---- */

/* Tables that are added up before the minimum is taken. The eliminated variable comes first in the
 * scope, so its value varies slowest. */
typedef struct group {
    cost_table_t scope; /* its costs are the sum */
    int n_left;         /* number of elements for each value of the variable */
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
    for (int l = solver->first[groups->variable]; l >= 0; l = solver->links[l].next)
        if (solver->tables[solver->links[l].table].bucket < 0)
            TRY(put_in_group(solver, groups, &solver->tables[solver->links[l].table]));
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
    for (int l = solver->first[groups->variable]; l >= 0; l = solver->links[l].next) {
        const cost_table_t *table = &solver->tables[solver->links[l].table];
        if (table->bucket != groups->variable || table->group != number) continue;
        double *sum = scope->costs;
        solver->work += size;
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

/* Moves costs between groups: for each value, the minima of all groups become their mean. The sum
 * of the groups does not change. */
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

/* The minimum over the variable's values, for one combination of the other variables' values. */
static double least_at(const group_t *group, int n_values, int combination)
{
    double least = group->scope.costs[combination];
    for (int value = 1; value < n_values; value++) {
        const double cost = group->scope.costs[(int64_t)value * group->n_left + combination];
        if (cost < least) least = cost;
    }
    return least;
}

/* Adds a table of these minima over the remaining variables. If no variable remains, adds the
 * minimum to the bound; if one remains, adds the minima to its own table. */
static status_t take_least(solver_t *solver, const group_t *group, int n_values)
{
    cost_table_t left = {.n = group->scope.n - 1};
    double *least = NULL;
    if (left.n == 0) {
        solver->lower_bound += least_at(group, n_values, 0);
        return STATUS_OK;
    }
    for (int i = 0; i < left.n; i++) left.variables[i] = group->scope.variables[i + 1];
    if (left.n == 1)
        least = solver->tables[left.variables[0]].costs;
    else
        TRY(add_table(solver, &left, &least));
    for (int i = 0; i < group->n_left; i++) least[i] += least_at(group, n_values, i);
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

/* In reverse order of elimination, chooses each variable's value that costs least in its tables. */
static void walk_back(const solver_t *solver, int *chosen)
{
    for (int i = solver->network->n_variables - 1; i >= 0; i--) {
        const int variable = solver->order[i];
        int best = 0;
        double least = 0.0;
        for (int value = 0; value < solver->network->n_values[variable]; value++) {
            double cost = 0.0;
            chosen[variable] = value;
            for (int l = solver->first[variable]; l >= 0; l = solver->links[l].next) {
                const cost_table_t *table = &solver->tables[solver->links[l].table];
                if (table->bucket == variable)
                    cost += table->costs[place_of(solver->network, table, chosen)];
            }
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
    for (int t = 0; t < solver->n_tables; t++) /* fans without variables */
        if (solver->tables[t].n == 0) solver->lower_bound += solver->tables[t].costs[0];
    fill_heap(solver);
    for (int i = 0; i < network->n_variables; i++) {
        TRY(interrupt_check(solver->ctx, "the search for layouts"));
        solver->order[i] = take_next(solver);
        solver->is_eliminated[solver->order[i]] = true;
        TRY(eliminate(solver, solver->order[i], values));
        update_neighbours(solver, solver->order[i], i + 1);
    }
    walk_back(solver, out_chosen);
    return STATUS_OK;
}

static status_t get_variables(solver_t *solver)
{
    const int n = solver->network->n_variables;
    int **const rows[] = {&solver->first, &solver->last, &solver->order, &solver->heap,
                          &solver->place, &solver->size, &solver->stamp};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        TRY(context_get_zeroed(solver->ctx, (size_t)n * sizeof **rows[i], "a choice of layouts",
                               rows[i]));
    for (int v = 0; v < n; v++) solver->first[v] = solver->last[v] = -1;
    return context_get_zeroed(solver->ctx, (size_t)n * sizeof *solver->is_eliminated,
                              "a choice of layouts", &solver->is_eliminated);
}

static status_t solve_by_elimination(context_t *ctx, const network_t *network, int *out_chosen,
                                     network_certificate_t *certificate)
{
    solver_t solver = {.ctx = ctx, .network = network};
    int *values = NULL;
    status_t status = context_get(ctx, (size_t)network->n_variables * sizeof *values,
                                  "a choice of layouts", &values);
    if (status == STATUS_OK) status = get_variables(&solver);
    if (status == STATUS_OK) status = run_elimination(&solver, values, out_chosen);
    certificate->lower_bound = solver.lower_bound;
    certificate->work += solver.work;
    for (int t = 0; t < solver.n_tables; t++) context_put(ctx, solver.tables[t].costs);
    int *const rows[] = {solver.first, solver.last, solver.order, solver.heap,
                         solver.place, solver.size, solver.stamp, values};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) context_put(ctx, rows[i]);
    CONTEXT_PUT(ctx, solver.tables, solver.links, solver.is_eliminated);
    return status;
}

/* ---- improvement ---- */

/* One end of a fan: a reader, or the maker if reader is -1. */
typedef struct touch {
    int fan, reader;
} touch_t;

/* A choice that is being improved. The ends of variable v are touches[i], sorted by fan, with i
 * from first[v] to first[v + 1] - 1. n_wanting[of_fan[f] + form] readers of fan f need a form. */
typedef struct improver {
    context_t *ctx;
    const network_t *network;
    int *first, *of_fan, *n_wanting;
    touch_t *touches;
    int *chosen;
    int64_t work; /* number of forms looked at */
} improver_t;

/* If touches is NULL, counts each variable's ends; else stores them. */
static void list_touches(const network_t *network, int *next, touch_t *touches)
{
    for (int f = 0; f < network->n_fans; f++) {
        const network_fan_t *fan = &network->fans[f];
        for (int r = -1; r < fan->n_readers; r++) {
            const int variable = r < 0 ? fan->maker.variable : fan->readers[r].variable;
            if (variable == NETWORK_GIVEN) continue;
            if (touches != NULL) touches[next[variable]] = (touch_t){f, r};
            next[variable]++;
        }
    }
}

static status_t find_touches(improver_t *improver)
{
    context_t *ctx = improver->ctx;
    const network_t *network = improver->network;
    static const char purpose[] = "a choice of layouts";
    int n = 0, n_forms = 0;
    TRY(context_get_zeroed(ctx, (size_t)(network->n_variables + 1) * sizeof *improver->first,
                           purpose, &improver->first));
    list_touches(network, improver->first, NULL);
    for (int v = 0; v <= network->n_variables; v++) {
        const int count = improver->first[v];
        improver->first[v] = n;
        n += v < network->n_variables ? count : 0;
    }
    TRY(context_get(ctx, (size_t)n * sizeof *improver->touches, purpose, &improver->touches));
    list_touches(network, improver->first, improver->touches);
    for (int v = network->n_variables; v > 0; v--) improver->first[v] = improver->first[v - 1];
    improver->first[0] = 0;
    TRY(context_get(ctx, (size_t)(network->n_fans + 1) * sizeof *improver->of_fan, purpose,
                    &improver->of_fan));
    for (int f = 0; f <= network->n_fans; f++) {
        improver->of_fan[f] = n_forms;
        n_forms += f < network->n_fans ? network->fans[f].n_forms : 0;
    }
    return context_get(ctx, (size_t)n_forms * sizeof *improver->n_wanting, purpose,
                       &improver->n_wanting);
}

/* Adds `more` to the count of readers for the form that this reader needs. */
static void count_reader(improver_t *improver, int f, int reader, int more)
{
    const int wanted = form_of(&improver->network->fans[f].readers[reader], improver->chosen);
    if (wanted != NETWORK_NO_FORM) improver->n_wanting[improver->of_fan[f] + wanted] += more;
}

static void count_readers_of_all(improver_t *improver)
{
    const network_t *network = improver->network;
    memset(improver->n_wanting, 0,
           (size_t)improver->of_fan[network->n_fans] * sizeof *improver->n_wanting);
    for (int f = 0; f < network->n_fans; f++)
        for (int r = 0; r < network->fans[f].n_readers; r++) count_reader(improver, f, r, 1);
}

static void set_value(improver_t *improver, int variable, int value)
{
    const int begin = improver->first[variable], end = improver->first[variable + 1];
    for (int i = begin; i < end; i++)
        if (improver->touches[i].reader >= 0)
            count_reader(improver, improver->touches[i].fan, improver->touches[i].reader, -1);
    improver->chosen[variable] = value;
    for (int i = begin; i < end; i++)
        if (improver->touches[i].reader >= 0)
            count_reader(improver, improver->touches[i].fan, improver->touches[i].reader, 1);
}

static double fan_cost(improver_t *improver, int f)
{
    const network_fan_t *fan = &improver->network->fans[f];
    const int made = form_of(&fan->maker, improver->chosen);
    const int *n_wanting = improver->n_wanting + improver->of_fan[f];
    double cost = 0.0;
    improver->work += fan->n_forms;
    if (made == NETWORK_NO_FORM) return 0.0;
    for (int form = 0; form < fan->n_forms; form++)
        if (n_wanting[form] > 0) cost += fan->costs[made * fan->n_forms + form];
    return cost;
}

/* The part of the cost that depends on the variable's value. */
static double cost_near(improver_t *improver, int variable)
{
    const int begin = improver->first[variable];
    double cost = improver->network->own[variable][improver->chosen[variable]];
    for (int i = begin; i < improver->first[variable + 1]; i++)
        if (i == begin || improver->touches[i - 1].fan != improver->touches[i].fan)
            cost += fan_cost(improver, improver->touches[i].fan);
    return cost;
}

/* A new value must reduce the cost by this amount, so that ties do not change the choice. */
#define LEAST_GAIN 1.0

static bool improve_one(improver_t *improver, int variable)
{
    const int before = improver->chosen[variable];
    int best = before;
    double least = cost_near(improver, variable);
    for (int value = 0; value < improver->network->n_values[variable]; value++) {
        set_value(improver, variable, value);
        const double cost = cost_near(improver, variable);
        if (cost >= least - LEAST_GAIN) continue;
        best = value;
        least = cost;
    }
    set_value(improver, variable, best);
    return best != before;
}

static void improve(improver_t *improver)
{
    const int n = improver->network->n_variables;
    bool is_better = true;
    count_readers_of_all(improver);
    for (int round = 0; is_better && round < 8; round++) {
        is_better = false;
        for (int v = 0; v < n; v++) is_better |= improve_one(improver, v);
        for (int v = n - 1; v >= 0; v--) is_better |= improve_one(improver, v);
    }
}

/* Improves the choice; if it costs clearly less than the best so far, it becomes the best. */
static void try_choice(improver_t *improver, int *best, double *best_cost)
{
    improve(improver);
    const double cost = network_cost(improver->network, improver->chosen);
    if (cost >= *best_cost - LEAST_GAIN) return;
    *best_cost = cost;
    memcpy(best, improver->chosen, (size_t)improver->network->n_variables * sizeof *best);
}

/* Tries the given starts first: of equally good choices, the first one is kept, and a start uses
 * one format wherever possible. */
static status_t solve(improver_t *improver, int n_starts, const int *const *starts, int *out_chosen,
                      network_certificate_t *certificate)
{
    const network_t *network = improver->network;
    const size_t bytes = (size_t)network->n_variables * sizeof *improver->chosen;
    TRY(context_get(improver->ctx, bytes, "a choice of layouts", &improver->chosen));
    TRY(find_touches(improver));
    *certificate = (network_certificate_t){.cost = INFINITY, .best_start = INFINITY};
    for (int s = 0; s < n_starts; s++) {
        const double cost = network_cost(network, starts[s]);
        if (cost < certificate->best_start) certificate->best_start = cost;
        memcpy(improver->chosen, starts[s], bytes);
        try_choice(improver, out_chosen, &certificate->cost);
    }
    TRY(solve_by_elimination(improver->ctx, network, improver->chosen, certificate));
    try_choice(improver, out_chosen, &certificate->cost);
    certificate->work += improver->work;
    certificate->is_optimal = certificate->cost <= certificate->lower_bound + LEAST_GAIN;
    if (certificate->is_optimal) certificate->lower_bound = certificate->cost;
    if (n_starts == 0) certificate->best_start = certificate->cost;
    return STATUS_OK;
}

status_t network_solve(context_t *ctx, const network_t *network, int n_starts,
                       const int *const *starts, int *out_chosen,
                       network_certificate_t *out_certificate)
{
    improver_t improver = {.ctx = ctx, .network = network};
    FINISH(solve(&improver, n_starts, starts, out_chosen, out_certificate),
           CONTEXT_PUT(ctx, improver.first, improver.of_fan, improver.n_wanting, improver.touches,
                       improver.chosen));
}
