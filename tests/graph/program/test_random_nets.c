/* Random nets of convolutions, pools, views, concats and writes in place, with channel counts that
 * are not a multiple of a block. Results must be the same dense and blocked, eager, planned, frozen
 * and loaded. The dense run is the reference; each of its operators is compared with the
 * specification.
 *
 * To run a single net: test_random_nets SEED. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/nets/mini.h"
#include "tests/support/seeded.h"

#define N_NETS 60
#define MAX_VALUES 64
#define TOLERANCE 2e-4F

/* ---- making nets: the text of a graph, and its parameters ---- */

typedef struct known {
    int name, rank;
    int64_t sizes[6];
    bool is_fixed; /* its elements share memory, so it must not be written */
} known_t;

typedef struct making {
    context_t *ctx;
    module_t *net;
    text_t text;
    known_t seen[MAX_VALUES];
    int n, n_names, n_params;
} making_t;

static int64_t channels(void)
{
    static const int64_t some[] = {1, 3, 7, 8, 16, 17, 31, 32};
    return some[seeded_below((int)(sizeof some / sizeof *some))];
}

static const known_t *pick(const making_t *making)
{
    int back = seeded_below(3) != 0 ? 4 : MAX_VALUES;
    return &making->seen[making->n - 1 - seeded_below(making->n < back ? making->n : back)];
}

/* Picks a value of this rank, or returns NULL if there is none. */
static const known_t *pick_rank(const making_t *making, int rank)
{
    for (int i = 0; i < 8; i++) {
        const known_t *known = pick(making);
        if (known->rank == rank) return known;
    }
    return NULL;
}

/* Begins a statement; its value has the sizes of `like` until they are changed. */
static known_t *begin(making_t *making, const known_t *like)
{
    known_t *made = &making->seen[making->n++];
    assert_true(making->n <= MAX_VALUES);
    *made = *like;
    made->name = making->n_names++;
    made->is_fixed = false;
    text_append(&making->text, "  %%v%d = ", made->name);
    return made;
}

/* Adds a parameter, and a getattr of it to the text. */
static void read_parameter(making_t *making, int rank, const int64_t *sizes, double scale,
                           double offset, char name[32])
{
    tensor_t *tensor = NULL;
    int64_t numel = 1;
    for (int d = 0; d < rank; d++) numel *= sizes[d];
    float *values = malloc((size_t)numel * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < numel; i++)
        values[i] = (float)(offset + scale * (seeded_below(2001) - 1000) / 1000.0);
    CHECK_OK(making->ctx, tensor_from(making->ctx, DTYPE_F32, rank, sizes, values, &tensor));
    free(values);
    snprintf(name, 32, "p%d", making->n_params++);
    CHECK_OK(making->ctx, module_set_parameter(making->ctx, making->net, name, tensor));
    tensor_release(tensor);
    text_append(&making->text, "  %%%s = getattr(%%self) name=\"%s\"\n", name, name);
}

/* ---- statements: each adds a value, or nothing if operands are missing ---- */

static int64_t window(int64_t size, int64_t kernel, int64_t stride, int64_t padding)
{
    return (size + 2 * padding - kernel) / stride + 1;
}

static void make_conv(making_t *making)
{
    const known_t *x = pick_rank(making, 4);
    if (x == NULL) return;
    int64_t c = x->sizes[1], k = channels(), r = seeded_below(2) != 0 ? 3 : 1,
            stride = 1 + seeded_below(2);
    int64_t padding = r / 2, groups = 1;
    bool has_bias = seeded_below(3) != 0;
    char weight[32], bias[32] = "none";
    if (seeded_below(4) == 0) groups = k = c;
    double scale = 1.5 / sqrt((double)(c / groups * r * r));
    read_parameter(making, 4, (const int64_t[]){k, c / groups, r, r}, scale, 0, weight);
    if (has_bias) read_parameter(making, 1, &k, 0.5, 0, bias);
    known_t like = *x;
    known_t *made = begin(making, &like);
    made->sizes[1] = k;
    for (int d = 2; d < 4; d++) made->sizes[d] = window(like.sizes[d], r, stride, padding);
    text_append(&making->text,
                "conv2d(%%v%d, %%%s, %s%s) stride=[%d,%d] padding=[%d,%d] groups=%d at \"m\"\n",
                like.name, weight, has_bias ? "%" : "", bias, (int)stride, (int)stride,
                (int)padding, (int)padding, (int)groups);
}

static void make_pool(making_t *making)
{
    const known_t *x = pick_rank(making, 4);
    if (x == NULL || x->sizes[2] < 2 || x->sizes[3] < 2) return;
    known_t like = *x;
    int64_t stride = 1 + seeded_below(2);
    known_t *made = begin(making, &like);
    for (int d = 2; d < 4; d++) made->sizes[d] = window(like.sizes[d], 2, stride, 0);
    text_append(&making->text, "%s(%%v%d) kernel=[2,2] stride=[%d,%d]\n",
                seeded_below(2) != 0 ? "max_pool2d" : "avg_pool2d", like.name, (int)stride,
                (int)stride);
}

static void make_norm(making_t *making)
{
    const known_t *x = pick_rank(making, 4);
    if (x == NULL) return;
    known_t like = *x;
    char names[4][32];
    for (int i = 0; i < 4; i++)
        read_parameter(making, 1, &like.sizes[1], 0.3, i == 0 || i == 3 ? 1 : 0, names[i]);
    begin(making, &like);
    text_append(&making->text, "batch_norm(%%v%d, %%%s, %%%s, %%%s, %%%s)\n", like.name, names[0],
                names[1], names[2], names[3]);
}

static void make_unary(making_t *making)
{
    static const char *const names[] = {"relu", "tanh", "sigmoid", "hardswish", "neg", "identity"};
    known_t like = *pick(making);
    begin(making, &like);
    text_append(&making->text, "%s(%%v%d)\n", names[seeded_below(6)], like.name);
}

static const known_t *pick_alike(const making_t *making, const known_t *like)
{
    for (int i = 0; i < 16; i++) {
        const known_t *known = pick(making);
        bool is_alike = known->rank == like->rank;
        for (int d = 0; d < like->rank && is_alike; d++)
            is_alike = known->sizes[d] == like->sizes[d];
        if (is_alike) return known;
    }
    return like;
}

static void make_binary(making_t *making)
{
    static const char *const names[] = {"add", "sub", "maximum"};
    known_t a = *pick(making), b = *pick_alike(making, &a);
    begin(making, &a);
    text_append(&making->text, "%s(%%v%d, %%v%d)\n", names[seeded_below(3)], a.name, b.name);
}

static void make_concat(making_t *making)
{
    known_t a = *pick(making);
    const known_t *b = pick_alike(making, &a);
    if (a.rank < 2) return;
    int other = b->name, dim = seeded_below(a.rank);
    known_t *made = begin(making, &a);
    made->sizes[dim] *= 2;
    text_append(&making->text, "concat(%%v%d, %%v%d) dim=%d\n", a.name, other, dim);
}

static void make_linear(making_t *making)
{
    const known_t *x = pick_rank(making, 2);
    if (x == NULL || x->sizes[1] > 4000) return;
    known_t like = *x;
    int64_t k = channels();
    char weight[32], bias[32];
    read_parameter(making, 2, (const int64_t[]){k, like.sizes[1]},
                   1.5 / sqrt((double)like.sizes[1]), 0, weight);
    read_parameter(making, 1, &k, 0.5, 0, bias);
    known_t *made = begin(making, &like);
    made->sizes[1] = k;
    text_append(&making->text, "linear(%%v%d, %%%s, %%%s) at \"fc\"\n", like.name, weight, bias);
}

/* ---- views ---- */

static void make_permute(making_t *making)
{
    known_t x = *pick(making);
    int dims[6];
    known_t *made = begin(making, &x);
    for (int d = 0; d < x.rank; d++) dims[d] = d;
    for (int d = x.rank - 1; d > 0; d--) {
        int other = seeded_below(d + 1), held = dims[d];
        dims[d] = dims[other];
        dims[other] = held;
    }
    made->is_fixed = x.is_fixed;
    text_append(&making->text, "permute(%%v%d) dims=[", x.name);
    for (int d = 0; d < x.rank; d++) {
        made->sizes[d] = x.sizes[dims[d]];
        text_append(&making->text, "%s%d", d > 0 ? "," : "", dims[d]);
    }
    text_append(&making->text, "]\n");
}

static void make_flatten(making_t *making)
{
    known_t x = *pick(making);
    if (x.rank < 2) return;
    int start = seeded_below(4) == 0 ? 0 : 1;
    known_t *made = begin(making, &x);
    made->rank = start + 1;
    made->is_fixed = x.is_fixed;
    for (int d = start + 1; d < x.rank; d++) made->sizes[start] *= x.sizes[d];
    text_append(&making->text, "flatten(%%v%d) start_dim=%d\n", x.name, start);
}

/* Splits one dimension in two, or joins two adjacent ones into one. */
static void make_reshape(making_t *making)
{
    known_t x = *pick(making);
    int dim = seeded_below(x.rank), n = 0;
    int64_t factor = 1;
    for (int64_t f = 2; f <= 4 && x.rank < 5; f++)
        if (x.sizes[dim] % f == 0) factor = f;
    if (factor == 1 && dim + 1 >= x.rank) return;
    known_t *made = begin(making, &x);
    made->is_fixed = x.is_fixed;
    for (int d = 0; d < x.rank; d++) {
        if (d == dim && factor > 1) {
            made->sizes[n++] = factor;
            made->sizes[n++] = x.sizes[d] / factor;
        } else if (d == dim) {
            made->sizes[n++] = x.sizes[d] * x.sizes[d + 1];
            d++;
        } else {
            made->sizes[n++] = x.sizes[d];
        }
    }
    made->rank = n;
    text_append(&making->text, "reshape(%%v%d) sizes=[", x.name);
    for (int d = 0; d < n; d++)
        text_append(&making->text, "%s%d", d > 0 ? "," : "", (int)made->sizes[d]);
    text_append(&making->text, "]\n");
}

static void make_slice(making_t *making)
{
    known_t x = *pick(making);
    int dim = seeded_below(x.rank), size = (int)x.sizes[dim];
    int start = size > 16 && seeded_below(2) != 0 ? 16 : seeded_below(size),
        step = seeded_below(4) == 0 ? 2 : 1;
    int end = start + 1 + seeded_below(size - start);
    known_t *made = begin(making, &x);
    made->is_fixed = x.is_fixed;
    made->sizes[dim] = (end - start - 1) / step + 1;
    text_append(&making->text, "slice(%%v%d) dim=%d start=%d end=%d step=%d\n", x.name, dim, start,
                end, step);
}

static void make_write(making_t *making)
{
    known_t x = *pick(making);
    if (x.is_fixed) return;
    known_t y = *pick_alike(making, &x);
    begin(making, &x);
    switch (seeded_below(4)) {
    case 0: text_append(&making->text, "relu_(%%v%d)\n", x.name); return;
    case 1: text_append(&making->text, "add_(%%v%d, 1.0)\n", x.name); return;
    case 2: text_append(&making->text, "mul_(%%v%d, 0.5)\n", x.name); return;
    default: text_append(&making->text, "sub_(%%v%d, %%v%d)\n", x.name, y.name);
    }
}

typedef void (*make_t)(making_t *making);

static void make_statements(making_t *making, int n, bool has_writes)
{
    static const make_t all[] = {make_conv,    make_conv,   make_conv,    make_pool,
                                 make_norm,    make_unary,  make_unary,   make_binary,
                                 make_concat,  make_linear, make_permute, make_flatten,
                                 make_reshape, make_slice,  make_write,   make_write};
    const int n_all = (int)(sizeof all / sizeof *all);
    for (int i = 0; i < n; i++) all[seeded_below(has_writes ? n_all : n_all - 2)](making);
}

/* Makes a net with parameters and a graph method `forward`, and its input's sizes. */
static module_t *make_net(context_t *ctx, uint64_t seed, int64_t out_sizes[4])
{
    making_t making = {.ctx = ctx, .net = mini_module(ctx, "Net"), .text = text_begin(ctx)};
    seeded_begin(seed);
    known_t x = {
        .rank = 4,
        .sizes = {1 + seeded_below(2), channels(), 3 + seeded_below(6), 3 + seeded_below(6)}};
    memcpy(out_sizes, x.sizes, 4 * sizeof *out_sizes);
    making.seen[making.n++] = x;
    making.n_names = 1;
    text_append(&making.text, "graph forward(%%self : module, %%v0 : f32[%d,%d,%d,%d]) {\n",
                (int)x.sizes[0], (int)x.sizes[1], (int)x.sizes[2], (int)x.sizes[3]);
    make_statements(&making, 3 + seeded_below(12), seeded_below(2) != 0);
    text_append(&making.text, "  return %%v%d", making.seen[making.n - 1].name);
    for (int i = 0; i < 2; i++) text_append(&making.text, ", %%v%d", pick(&making)->name);
    text_append(&making.text, "\n}\n");
    mini_define(ctx, making.net, text_string(&making.text));
    text_clear(&making.text);
    return making.net;
}

/* ---- running ---- */

typedef struct way {
    const char *name;
    policy_t policy;
    bool is_blocked; /* weights are packed and the input is mkldnn */
    bool is_planned, is_frozen, is_loaded;
} way_t;

static const way_t ways[] = {
    {.name = "dense", .policy = POLICY_PER_OP},
    {.name = "auto", .policy = POLICY_AUTO},
    {.name = "mkldnn", .policy = POLICY_AUTO, .is_blocked = true},
    {.name = "planned", .policy = POLICY_AUTO, .is_planned = true},
    {.name = "frozen", .policy = POLICY_AUTO, .is_frozen = true},
    {.name = "loaded", .policy = POLICY_AUTO, .is_frozen = true, .is_loaded = true},
};

/* Returns the net in the form that this variant (a way_t) runs. The caller releases it. */
static module_t *prepare(context_t *ctx, const way_t *way, module_t *net)
{
    module_t *made = NULL;
    if (way->is_frozen) {
        CHECK_OK(ctx, freeze(ctx, net, NULL, &made));
        if (!way->is_loaded) return made;
        module_t *loaded = mini_reload(ctx, made);
        module_release(made);
        return loaded;
    }
    CHECK_OK(ctx, module_clone(ctx, net, &made));
    if (way->is_planned) {
        graph_t *graph = NULL;
        CHECK_OK(ctx, pass_run(ctx, graph_of(made, "forward"), pass_pipeline_graph(),
                               &(pass_options_t){.self = made}, &graph));
        CHECK_OK(ctx, plan_set_method(ctx, made, "forward", graph, 0));
        graph_release(graph);
    }
    if (way->is_planned || way->is_blocked) CHECK_OK(ctx, module_mkldnn(ctx, made, NULL));
    return made;
}

static datum_t *make_input(context_t *ctx, const way_t *way, const int64_t sizes[4], int run)
{
    tensor_t *x = NULL, *blocked = NULL;
    int64_t numel = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    float *values = malloc((size_t)numel * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < numel; i++) values[i] = (float)sin((double)(i * 7 + run) * 0.37) * 2;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 4, sizes, values, &x));
    free(values);
    if (way->is_blocked) {
        CHECK_OK(ctx, to_mkldnn(ctx, x, &blocked));
        tensor_release(x);
        x = blocked;
    }
    datum_t *datum = mini_wrap(ctx, x);
    tensor_release(x);
    return datum;
}

/* Appends a dense copy of the datum to the list. */
static void keep(context_t *ctx, datum_t *all, const datum_t *datum)
{
    tensor_t *dense = NULL;
    datum_t *copy = NULL;
    CHECK_OK(ctx, to_dense(ctx, datum_as_tensor(datum), &dense));
    datum_t *wrapped = mini_wrap(ctx, dense);
    CHECK_OK(ctx, datum_clone(ctx, wrapped, &copy));
    CHECK_OK(ctx, datum_append(ctx, all, copy));
    datum_release(copy);
    datum_release(wrapped);
    tensor_release(dense);
}

/* Returns a list of the results of two runs and of their inputs afterwards, or NULL if a run
 * failed. */
static datum_t *run_twice(context_t *ctx, const way_t *way, module_t *net, const int64_t sizes[4])
{
    datum_t *all = NULL;
    bool has_run = true;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &all));
    CHECK_OK(ctx, dispatch_set_policy(ctx, way->policy));
    for (int run = 0; run < 2 && has_run; run++) {
        datum_t *x = make_input(ctx, way, sizes, run), *out[METHOD_MAX_OUTPUTS] = {NULL};
        int n = METHOD_MAX_OUTPUTS;
        has_run = module_call(ctx, net, "forward", 1, &x, &n, out) == STATUS_OK;
        for (int i = 0; has_run && i < n; i++) keep(ctx, all, out[i]);
        for (int i = 0; has_run && i < n; i++) datum_release(out[i]);
        keep(ctx, all, x);
        datum_release(x);
    }
    if (has_run) return all;
    datum_release(all);
    return NULL;
}

/* ---- checks ---- */

static status_t check_op(context_t *ctx, void *user, const op_event_t *event)
{
    const tensor_t *out[OP_MAX_OUTPUTS];
    double error = 0.0;
    (void)user;
    if (event->op->spec == NULL) return STATUS_OK;
    for (int i = 0; i < event->n_out; i++) out[i] = event->out[i];
    CHECK_OK(ctx, dispatch_verify(ctx, event->op, event->attrs, event->n_in, event->in,
                                  event->n_out, out, 20, &error));
    if (error > 1.0) print_message("%s is off by %g bounds\n", event->op->name, error);
    assert_true(error <= 1.0);
    return STATUS_OK;
}

/* Returns false, and prints the first difference, if the results differ by too much. */
static bool is_near(context_t *ctx, int index, const datum_t *given, const datum_t *wanted)
{
    const tensor_t *a = datum_as_tensor(given), *b = datum_as_tensor(wanted);
    int64_t numel = tensor_numel(b), at = 0;
    if (tensor_numel(a) != numel) return false;
    size_t bytes = (size_t)numel * sizeof(float);
    char text[INFO_TEXT_MAX];
    float *x = malloc(bytes), *y = malloc(bytes);
    assert_true(x != NULL && y != NULL);
    CHECK_OK(ctx, tensor_read(ctx, a, x, bytes));
    CHECK_OK(ctx, tensor_read(ctx, b, y, bytes));
    while (at < numel && fabsf(x[at] - y[at]) <= TOLERANCE * (1.0F + fabsf(y[at]))) at++;
    if (at < numel)
        print_message("result %d, element %d of %s is %g and not %g\n", index, (int)at,
                      info_text(tensor_info(b), text), (double)x[at], (double)y[at]);
    free(x);
    free(y);
    return at == numel;
}

static bool are_near(context_t *ctx, const datum_t *given, const datum_t *wanted)
{
    if (given == NULL) return false;
    for (int i = 0; i < datum_length(wanted); i++)
        if (!is_near(ctx, i, datum_item(given, i), datum_item(wanted, i))) return false;
    return true;
}

static void check_seed(context_t *ctx, uint64_t seed)
{
    int64_t sizes[4];
    module_t *net = make_net(ctx, seed, sizes);
    observer_t observer = {.op_end = check_op};
    CHECK_OK(ctx, dispatch_add_observer(ctx, &observer));
    datum_t *wanted = run_twice(ctx, &ways[0], net, sizes);
    dispatch_remove_observer(ctx, &observer);
    if (wanted == NULL) seeded_fail(ctx, seed, graph_of(net, "forward"), ways[0].name);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        module_t *other = prepare(ctx, &ways[i], net);
        datum_t *given = run_twice(ctx, &ways[i], other, sizes);
        if (!are_near(ctx, given, wanted))
            seeded_fail(ctx, seed, graph_of(net, "forward"), ways[i].name);
        datum_release(given);
        module_release(other);
    }
    datum_release(wanted);
    module_release(net);
}

static void every_way_to_run_a_net_gives_the_same(void **state)
{
    context_t *ctx = fixture_context(state);
    seeded_check(ctx, N_NETS, check_seed);
}

int main(int argc, char **argv)
{
    seeded_arguments(argc, argv);
    const struct CMUnitTest tests[] = {TEST(every_way_to_run_a_net_gives_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
