/* Random C methods that query sizes are traced at one set of sizes and run at others. Their graphs,
 * interpreted and frozen, must give the method's result or fail.
 *
 * For more or other seeds: test_traced_methods N_SEEDS FIRST_SEED. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>

#include "ops/ops.h"
#include "tests/support/seeded.h"

#define MAX_STEPS 9
#define MAX_VALUES (MAX_STEPS + 1)
#define MAX_PARAMS (2 * MAX_STEPS)
#define N_RUNS 5
#define TOLERANCE 1e-4

static uint64_t n_seeds = 60, first_seed = 1;

/* ---- methods: steps, each of which makes one value from earlier ones ---- */

typedef enum step_kind {
    STEP_RELU,
    STEP_ADD,
    STEP_ADD_FIRST_ROW,
    STEP_RESHAPE_ROWS,   /* {s0, -1} */
    STEP_RESHAPE_PAIRS,  /* {s0 * s1, -1} */
    STEP_RESHAPE_LAST,   /* {-1, last} */
    STEP_RESHAPE_HALVES, /* {2 * s0, -1} */
    STEP_RESHAPE_NUMBER, /* {s0, -1} with s0 as a number at the trace */
    STEP_FLATTEN,
    STEP_HALF,     /* x[s / 2:] */
    STEP_BUT_LAST, /* x[:s - a] */
    STEP_BY_OTHER, /* x[:(s of another dimension + 1) / 2] */
    STEP_WHOLE,    /* padded to a multiple of 3 + a */
    STEP_EVEN_CUT, /* x[:s - s % (2 + a)] */
    STEP_WINDOWS,  /* {s0 * (number of windows of 2 + a in the padded last dimension), 2 + a} */
    STEP_CONCAT,
    STEP_MEAN,          /* sum over a dimension, divided by its size */
    STEP_MEAN_PLANE,    /* x / (s0 * last) */
    STEP_SCALE,         /* x * (s / 2 + a) */
    STEP_XOR,           /* x * (s ^ a) */
    STEP_BRANCH,        /* s > a: relu, else sigmoid */
    STEP_BRANCH_ON_TWO, /* s0 > 3 and last > a: relu, else sigmoid */
    STEP_EVEN,          /* s even: -x, else x * x */
    STEP_EACH_ROW,      /* one operator per row */
    STEP_LINEAR,
    STEP_CONV,
    STEP_POOL,
    STEP_PERMUTE,
    STEP_ADAPTIVE_POOL, /* adaptive pool to {s2 / 2, s3} */
    N_STEP_KINDS
} step_kind_t;

typedef struct step {
    step_kind_t kind;
    int x, y, dim, amount;
    char weight[16];
} step_t;

/* The method that runs: a global, because a forward function gets no user data. */
static struct {
    int n_steps, n_params;
    int64_t batch; /* the batch with which it was traced */
    step_t steps[MAX_STEPS];
} method;

static status_t reshape_rows(context_t *ctx, const tensor_t *x, int64_t rows, tensor_t **out)
{
    return op_reshape(ctx, x, 2, (int64_t[]){rows, -1}, out);
}

static status_t multiply(context_t *ctx, const tensor_t *x, double by, tensor_t **out)
{
    tensor_t *number = NULL;
    TRY(tensor_number(ctx, by, &number));
    return op_mul(ctx, x, number, out);
}

static status_t mean_of_dim(context_t *ctx, const tensor_t *x, int dim, int64_t size,
                            tensor_t **out)
{
    tensor_t *sum = NULL, *number = NULL;
    TRY(op_sum(ctx, x, 1, (int64_t[]){dim}, true, &sum));
    TRY(tensor_number(ctx, (double)size, &number));
    return op_div(ctx, sum, number, out);
}

static status_t add_each_row(context_t *ctx, const tensor_t *x, int64_t n, tensor_t **out)
{
    tensor_t *sum = NULL;
    TRY(op_slice(ctx, x, 0, 0, 1, 1, &sum));
    for (int64_t i = 1; i < n; i++) {
        tensor_t *row = NULL, *next = NULL;
        TRY(op_slice(ctx, x, 0, i, i + 1, 1, &row));
        TRY(op_add(ctx, sum, row, &next));
        sum = next;
    }
    *out = sum;
    return STATUS_OK;
}

static status_t permute(context_t *ctx, const tensor_t *x, int rank, int by, tensor_t **out)
{
    int64_t dims[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = (d + by) % rank;
    return op_permute(ctx, x, rank, dims, out);
}

/* Appends `more` elements at the end of dimension dim. */
static status_t pad_end(context_t *ctx, const tensor_t *x, int dim, int64_t more, tensor_t **out)
{
    const int64_t before[TENSOR_MAX_RANK] = {0};
    int64_t after[TENSOR_MAX_RANK] = {0};
    after[dim] = more;
    return op_pad(ctx, x, before, after, PAD_CONSTANT, 0.0, out);
}

static status_t make_windows(context_t *ctx, const tensor_t *x, int64_t window, tensor_t **out)
{
    tensor_t *padded = NULL;
    const int last = tensor_rank(x) - 1;
    const int64_t size = tensor_sizes(x)[last], n = (size + window - 1) / window;
    TRY(pad_end(ctx, x, last, n * window - size, &padded));
    if (last != 1) return op_reshape(ctx, padded, 2, (int64_t[]){-1, window}, out);
    return op_reshape(ctx, padded, 2, (int64_t[]){tensor_sizes(x)[0] * n, window}, out);
}

/* Runs a step that changes shapes. */
static status_t run_shape(context_t *ctx, const step_t *step, const tensor_t *x, const tensor_t *y,
                          tensor_t **out)
{
    const int64_t *sizes = tensor_sizes(x);
    int rank = tensor_rank(x), dim = step->dim % rank;
    int64_t size = sizes[dim], last = sizes[rank - 1];
    switch (step->kind) {
    case STEP_RESHAPE_ROWS: return reshape_rows(ctx, x, sizes[0], out);
    case STEP_RESHAPE_PAIRS: return reshape_rows(ctx, x, sizes[0] * sizes[rank > 1], out);
    case STEP_RESHAPE_LAST: return op_reshape(ctx, x, 2, (int64_t[]){-1, last}, out);
    case STEP_RESHAPE_HALVES: return reshape_rows(ctx, x, 2 * sizes[0], out);
    case STEP_RESHAPE_NUMBER: return reshape_rows(ctx, x, method.batch, out);
    case STEP_FLATTEN: return op_flatten(ctx, x, dim, -1, out);
    case STEP_HALF: return op_slice(ctx, x, dim, size / 2, size, 1, out);
    case STEP_BUT_LAST: return op_slice(ctx, x, dim, 0, size - step->amount, 1, out);
    case STEP_BY_OTHER: return op_slice(ctx, x, dim, 0, (sizes[(dim + 1) % rank] + 1) / 2, 1, out);
    case STEP_WHOLE: {
        const int64_t each = 3 + step->amount;
        return pad_end(ctx, x, dim, (each - size % each) % each, out);
    }
    case STEP_EVEN_CUT: return op_slice(ctx, x, dim, 0, size - size % (2 + step->amount), 1, out);
    case STEP_WINDOWS: return make_windows(ctx, x, 2 + step->amount, out);
    case STEP_CONCAT: return op_concat(ctx, 2, (const tensor_t *[]){x, y}, dim, out);
    case STEP_PERMUTE: return permute(ctx, x, rank, 1 + step->amount, out);
    default: return context_fail(ctx, STATUS_INVALID_ARGUMENT, "no step by shapes");
    }
}

/* Runs a step that computes with sizes or branches on them. */
static status_t run_number(context_t *ctx, const step_t *step, const tensor_t *x, tensor_t **out)
{
    const int64_t *sizes = tensor_sizes(x);
    int rank = tensor_rank(x), dim = step->dim % rank;
    int64_t size = sizes[dim];
    double plane = (double)(sizes[0] * sizes[rank - 1]);
    switch (step->kind) {
    case STEP_MEAN: return mean_of_dim(ctx, x, dim, size, out);
    case STEP_MEAN_PLANE: return mean_of_dim(ctx, x, 0, (int64_t)plane, out);
    case STEP_SCALE: return multiply(ctx, x, (double)size / 2 + step->amount, out);
    case STEP_XOR: return multiply(ctx, x, (double)(size ^ step->amount), out);
    case STEP_BRANCH:
        return size > 2 * step->amount ? op_relu(ctx, x, out) : op_sigmoid(ctx, x, out);
    case STEP_BRANCH_ON_TWO:
        return sizes[0] > 3 && sizes[rank - 1] > 3 + step->amount ? op_relu(ctx, x, out)
                                                                  : op_sigmoid(ctx, x, out);
    case STEP_EVEN: return size % 2 == 0 ? op_neg(ctx, x, out) : op_mul(ctx, x, x, out);
    case STEP_EACH_ROW: return add_each_row(ctx, x, sizes[0], out);
    default: return context_fail(ctx, STATUS_INVALID_ARGUMENT, "no step with numbers");
    }
}

static status_t run_step(context_t *ctx, const module_t *self, const step_t *step,
                         const tensor_t *x, const tensor_t *y, tensor_t **out)
{
    const pool_attrs_t pool = {.kernel = {2, 2}, .stride = {1 + step->amount % 2, 1}};
    const conv_attrs_t conv = {.padding = {1, 1}, .stride = {1 + step->amount % 2, 1}};
    const int64_t *sizes = tensor_sizes(x);
    tensor_t *row = NULL;
    switch (step->kind) {
    case STEP_RELU: return op_relu(ctx, x, out);
    case STEP_ADD: return op_add(ctx, x, y, out);
    case STEP_ADD_FIRST_ROW:
        TRY(op_slice(ctx, x, 0, 0, 1, 1, &row));
        return op_add(ctx, x, row, out);
    case STEP_LINEAR: return op_linear(ctx, x, module_parameter(self, step->weight), NULL, out);
    case STEP_CONV:
        return op_conv2d(ctx, x, module_parameter(self, step->weight), NULL, &conv, out);
    case STEP_POOL:
        return step->dim % 2 == 0 ? op_max_pool2d(ctx, x, &pool, out)
                                  : op_avg_pool2d(ctx, x, &pool, out);
    case STEP_ADAPTIVE_POOL:
        if (tensor_rank(x) != 4) return context_fail(ctx, STATUS_INVALID_ARGUMENT, "no images");
        return op_adaptive_avg_pool(ctx, x, 2, (int64_t[]){sizes[2] / 2, sizes[3]}, out);
    case STEP_MEAN:
    case STEP_MEAN_PLANE:
    case STEP_SCALE:
    case STEP_XOR:
    case STEP_BRANCH:
    case STEP_BRANCH_ON_TWO:
    case STEP_EVEN:
    case STEP_EACH_ROW: return run_number(ctx, step, x, out);
    default: return run_shape(ctx, step, x, y, out);
    }
}

static bool reads_second(step_kind_t kind)
{
    return kind == STEP_ADD || kind == STEP_CONCAT;
}

static bool is_read(int value)
{
    for (int i = 0; i < method.n_steps; i++) {
        const step_t *step = &method.steps[i];
        if (step->x == value || (reads_second(step->kind) && step->y == value)) return true;
    }
    return false;
}

/* Runs all steps. Returns the values that no step reads, newest first. If these were not results, a
 * frozen graph would not compute them, and could not fail where the method fails. */
static status_t run_method(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    tensor_t *made[MAX_VALUES] = {NULL};
    const tensor_t *values[MAX_VALUES] = {in[0]};
    int n = method.n_steps;
    (void)n_in;
    for (int i = 0; i < n; i++) {
        const step_t *step = &method.steps[i];
        TRY(run_step(ctx, self, step, values[step->x], values[step->y], &made[i]));
        values[i + 1] = made[i];
    }
    *n_out = 0;
    for (int i = n - 1; i >= 0; i--)
        if (!is_read(i + 1)) out[(*n_out)++] = made[i];
    return STATUS_OK;
}

/* ---- making methods: steps that fail at the trace's sizes are left out ---- */

typedef struct results {
    int n;
    tensor_t *out[METHOD_MAX_OUTPUTS];
} results_t;

static status_t call(context_t *ctx, module_t *module, const tensor_t *x, results_t *results)
{
    *results = (results_t){0};
    results->n = METHOD_MAX_OUTPUTS;
    status_t status = module_call_tensors(ctx, module, "forward", 1, &x, &results->n, results->out);
    if (status != STATUS_OK) results->n = 0;
    return status;
}

static void clear(results_t *results)
{
    for (int i = 0; i < results->n; i++) tensor_release(results->out[i]);
    results->n = 0;
}

/* Adds a weight to the module for a step on values with this number of channels or features. */
static void add_weight(context_t *ctx, module_t *module, step_t *step, int64_t features)
{
    tensor_t *weight = NULL;
    int rank = step->kind == STEP_CONV ? 4 : 2;
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, (int64_t[]){2 + step->amount, features, 3, 3},
                               &weight));
    snprintf(step->weight, sizeof step->weight, "w%d", method.n_params++);
    CHECK_OK(ctx, module_set_parameter(ctx, module, step->weight, weight));
    tensor_release(weight);
}

static void add_step(context_t *ctx, module_t *module, const tensor_t *x, const tensor_t *newest)
{
    int n = method.n_steps;
    step_t *step = &method.steps[n];
    results_t results;
    *step = (step_t){.kind = (step_kind_t)seeded_below(N_STEP_KINDS),
                     .x = seeded_below(4) != 0 ? n : seeded_below(n + 1),
                     .y = seeded_below(n + 1),
                     .dim = seeded_below(12),
                     .amount = seeded_below(4)};
    if (step->kind == STEP_LINEAR || step->kind == STEP_CONV) {
        int rank = tensor_rank(newest);
        step->x = n;
        if (rank < (step->kind == STEP_CONV ? 4 : 2)) return;
        add_weight(ctx, module, step, tensor_sizes(newest)[step->kind == STEP_CONV ? 1 : rank - 1]);
    }
    method.n_steps++;
    bool is_kept = call(ctx, module, x, &results) == STATUS_OK;
    for (int i = 0; i < results.n; i++) is_kept = is_kept && tensor_numel(results.out[i]) > 0;
    if (!is_kept) method.n_steps--;
    clear(&results);
}

static module_t *make(context_t *ctx, const tensor_t *x)
{
    module_t *module = NULL;
    int n_wanted = 2 + seeded_below(MAX_STEPS - 2);
    CHECK_OK(ctx, module_create(ctx, "Random", &module));
    CHECK_OK(ctx, module_set_forward(ctx, module, "forward", run_method));
    method.n_steps = method.n_params = 0;
    method.batch = tensor_sizes(x)[0];
    for (int tries = 0; tries < 100 && method.n_steps < n_wanted; tries++) {
        results_t results = {0};
        if (method.n_steps > 0) CHECK_OK(ctx, call(ctx, module, x, &results));
        add_step(ctx, module, x, method.n_steps > 0 ? results.out[0] : x);
        clear(&results);
    }
    return module;
}

/* ---- checks ---- */

typedef struct tally {
    int n_taken, n_refused;
} tally_t;

static void fail_with(context_t *ctx, uint64_t seed, const module_t *graph, const tensor_t *x,
                      const char *what)
{
    text_t text = text_begin(ctx);
    char info[INFO_TEXT_MAX];
    print_message("%s, input %s: %s\n", what, info_text(tensor_info(x), info), context_error(ctx));
    CHECK_OK(ctx, graph_print(ctx, graph_of(graph, "forward"), NULL, &text));
    print_message("%s\nagain: test_traced_methods 1 %llu\n", text_string(&text),
                  (unsigned long long)seed);
    text_clear(&text);
    fail();
}

static bool are_near(context_t *ctx, const results_t *given, const results_t *wanted)
{
    if (given->n != wanted->n) return false;
    for (int i = 0; i < wanted->n; i++) {
        const tensor_t *a = given->out[i], *b = wanted->out[i];
        double difference = 1;
        if (tensor_rank(a) != tensor_rank(b)) return false;
        for (int d = 0; d < tensor_rank(b); d++)
            if (tensor_sizes(a)[d] != tensor_sizes(b)[d]) return false;
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, a, b, &difference));
        if (!(difference <= TOLERANCE)) return false;
    }
    return true;
}

/* Runs the method, its graph, and the frozen graph on x, and compares. Returns true if the frozen
 * graph accepted x. */
static bool check_input(context_t *ctx, uint64_t seed, module_t *const modules[3],
                        const tensor_t *x)
{
    static const char *const names[] = {"eager", "interpreted", "frozen"};
    results_t wanted, given;
    bool has_run = call(ctx, modules[0], x, &wanted) == STATUS_OK, is_taken = false;
    for (int m = 1; m < 3; m++) {
        status_t status = call(ctx, modules[m], x, &given);
        is_taken = status == STATUS_OK;
        bool is_refused = status == STATUS_INVALID_ARGUMENT && context_error(ctx)[0] != '\0';
        bool is_right = is_taken ? has_run && are_near(ctx, &given, &wanted) : is_refused;
        if (!is_right) fail_with(ctx, seed, modules[1], x, names[m]);
        clear(&given);
    }
    clear(&wanted);
    return is_taken;
}

/* Makes an input for a run; run 0 is the trace. It is a batch of images, a matrix, or rows of
 * vectors. */
static tensor_t *input(context_t *ctx, int run, int rank)
{
    static const int64_t batches[N_RUNS] = {2, 1, 3, 5, 4}, heights[N_RUNS] = {6, 6, 6, 6, 9};
    tensor_t *x = NULL;
    int64_t batch = batches[run];
    const int64_t shapes[3][4] = {{batch, 6}, {batch, 5, 4}, {batch, 3, heights[run], 6 + run / 4}};
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, shapes[rank - 2], &x));
    return x;
}

static void check_seed(context_t *ctx, uint64_t seed, tally_t *tally)
{
    module_t *modules[3] = {NULL};
    seeded_begin(seed);
    for (int i = 0; i < 8; i++) (void)seeded_below(2);
    context_seed(ctx, seed);
    int rank = 2 + seeded_below(3), traced = seeded_below(N_RUNS - 1);
    tensor_t *x = input(ctx, traced, rank);
    modules[1] = make(ctx, x);
    CHECK_OK(ctx, module_clone(ctx, modules[1], &modules[0]));
    CHECK_OK(ctx, graph_trace(ctx, modules[1], "forward", 1, (const tensor_t *[]){x}));
    CHECK_OK(ctx, freeze(ctx, modules[1], NULL, &modules[2]));
    if (!check_input(ctx, seed, modules, x))
        fail_with(ctx, seed, modules[1], x, "refused at the sizes of the trace");
    for (int run = 0; run < N_RUNS; run++) {
        tensor_t *other = input(ctx, run, rank);
        bool is_taken = run != traced && check_input(ctx, seed, modules, other);
        tally->n_taken += is_taken;
        tally->n_refused += run != traced && !is_taken;
        tensor_release(other);
    }
    tensor_release(x);
    for (int m = 0; m < 3; m++) module_release(modules[m]);
}

static void graphs_of_random_methods_give_what_these_give_or_refuse(void **state)
{
    context_t *ctx = fixture_context(state);
    tally_t tally = {0, 0};
    for (uint64_t i = 0; i < n_seeds; i++) check_seed(ctx, first_seed + i, &tally);
    print_message("%d runs at other sizes were taken, %d refused\n", tally.n_taken,
                  tally.n_refused);
    if (n_seeds < 30) return;
    assert_true(tally.n_taken > 0);
    assert_true(tally.n_refused > 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) n_seeds = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        TEST(graphs_of_random_methods_give_what_these_give_or_refuse)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
