/* Random graphs with every kind of node. They must verify, parse back from their text, and give the
 * same results after the passes, in two runs that change the module.
 *
 * To run a single graph: test_random_graphs SEED. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <string.h>

#include "tests/support/nets/mini.h"
#include "tests/support/rounds.h"
#include "tests/support/seeded.h"

#define N_GRAPHS 250
#define MAX_VALUES 512

/* ---- making graphs: values in scope, each of one kind ---- */

typedef enum kind {
    KIND_TENSOR, /* f32[2,3] */
    KIND_INT,    /* an index from 0 to 96, or a count */
    KIND_FLOAT,
    KIND_BOOL,
    KIND_STRING,
    KIND_LIST, /* one or more tensors */
    KIND_DICT, /* tensors "a" and "b" */
    N_KINDS
} kind_t;

typedef struct making {
    context_t *ctx;
    graph_builder_t *to;
    value_t self, inner;
    int n, depth;
    struct {
        value_t value;
        kind_t kind;
    } seen[MAX_VALUES]; /* visible values: those of this block and of enclosing ones */
} making_t;

static value_t add(making_t *making, kind_t kind, value_t value)
{
    assert_true(making->n < MAX_VALUES);
    making->seen[making->n].value = value;
    making->seen[making->n++].kind = kind;
    return value;
}

static value_t put_datum(making_t *making, datum_t *datum, bool is_literal)
{
    value_t value = is_literal ? graph_add_literal(making->to, datum)
                               : graph_add_constant(making->to, datum, "c");
    datum_release(datum);
    return value;
}

/* Makes f32[2,3] that counts up from `first` in steps of 0.25. */
static datum_t *make_tensor(context_t *ctx, double first)
{
    float values[6];
    tensor_t *tensor = NULL;
    for (int i = 0; i < 6; i++) values[i] = (float)(first + 0.25 * i);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, (const int64_t[]){2, 3}, values, &tensor));
    datum_t *datum = mini_wrap(ctx, tensor);
    tensor_release(tensor);
    return datum;
}

static value_t builtin(making_t *making, const char *name, int n_out, int n, const value_t *in)
{
    value_t out = VALUE_NONE;
    const graph_node_t node = {
        .kind = NODE_BUILTIN, .name = name, .n_inputs = n, .n_outputs = n_out};
    graph_add_node(making->to, &node, in, NULL, NULL, &out);
    return out;
}
#define BUILTIN(making, name, ...)                                                                 \
    builtin((making), (name), 1, (int)(sizeof((value_t[]){__VA_ARGS__}) / sizeof(value_t)),        \
            (value_t[]){__VA_ARGS__})

static value_t pick(making_t *making, kind_t kind);

static value_t literal_int(making_t *making, int64_t value)
{
    return put_datum(making, mini_number(making->ctx, value), true);
}

static value_t literal_text(making_t *making, const char *value)
{
    return put_datum(making, mini_text(making->ctx, value), true);
}

static value_t make_dict(making_t *making)
{
    value_t a = pick(making, KIND_TENSOR), b = pick(making, KIND_TENSOR);
    return BUILTIN(making, "dict", literal_text(making, "a"), a, literal_text(making, "b"), b);
}

/* Adds a value that is made from no other one. */
static value_t fresh(making_t *making, kind_t kind)
{
    context_t *ctx = making->ctx;
    datum_t *datum = NULL;
    switch (kind) {
    case KIND_TENSOR: return put_datum(making, make_tensor(ctx, seeded_below(9) - 4), false);
    case KIND_INT: return literal_int(making, seeded_below(9));
    case KIND_FLOAT: CHECK_OK(ctx, datum_float(ctx, seeded_below(9) * 0.25 - 1, &datum)); break;
    case KIND_BOOL: CHECK_OK(ctx, datum_bool(ctx, seeded_below(2) != 0, &datum)); break;
    case KIND_STRING: return literal_text(making, seeded_below(2) != 0 ? "a" : "b\n\"");
    case KIND_LIST: return BUILTIN(making, "list", pick(making, KIND_TENSOR));
    default: return make_dict(making);
    }
    return put_datum(making, datum, seeded_below(2) != 0);
}

static value_t pick(making_t *making, kind_t kind)
{
    int n = 0;
    for (int i = 0; i < making->n; i++) n += making->seen[i].kind == kind;
    if (n == 0 || seeded_below(8) == 0) return add(making, kind, fresh(making, kind));
    int chosen = seeded_below(n);
    for (int i = 0;; i++)
        if (making->seen[i].kind == kind && chosen-- == 0) return making->seen[i].value;
}

/* ---- nodes ---- */

/* Adds an operator. Results stay small, and small changes of operands change them little. */
static void make_op(making_t *making)
{
    static const char *const unary[] = {"relu", "tanh", "sigmoid", "neg", "hardswish", "gelu"};
    static const char *const binary[] = {"add", "mul", "maximum", "minimum", "sub"};
    static const kind_t operands[] = {KIND_TENSOR, KIND_TENSOR, KIND_FLOAT, KIND_BOOL};
    value_t in[2] = {pick(making, KIND_TENSOR), VALUE_NONE}, out;
    if (seeded_below(2) != 0) {
        out = graph_add_op(making->to, ops_find(unary[seeded_below(6)]), NULL, 1, in, "m");
    } else {
        kind_t kind = operands[seeded_below(4)];
        int n_binary = kind == KIND_BOOL ? 4 : 5; /* subtraction, the fifth, is not for bools */
        in[1] = pick(making, kind);
        out = graph_add_op(making->to, ops_find(binary[seeded_below(n_binary)]), NULL, 2, in, NULL);
        out = graph_add_op(making->to, ops_find("tanh"), NULL, 1, &out, NULL);
    }
    add(making, KIND_TENSOR, out);
}

static void make_linear(making_t *making)
{
    value_t in[] = {pick(making, KIND_TENSOR), VALUE_NONE, VALUE_NONE};
    tensor_t *weight = NULL;
    CHECK_OK(making->ctx, tensor_full(making->ctx, DTYPE_F32, SHAPE(3, 3), 0.25, &weight));
    in[1] = put_datum(making, mini_wrap(making->ctx, weight), false);
    tensor_release(weight);
    add(making, KIND_TENSOR, graph_add_op(making->to, ops_find("linear"), NULL, 3, in, "fc"));
}

static void make_in_place(making_t *making)
{
    static const char *const names[] = {"relu", "tanh", "add"};
    const char *name = names[seeded_below(3)];
    value_t in[2] = {pick(making, KIND_TENSOR), VALUE_NONE}, out = VALUE_NONE;
    graph_node_t node = {.kind = NODE_OP,
                         .op = ops_find(name),
                         .is_in_place = true,
                         .n_inputs = strcmp(name, "add") == 0 ? 2 : 1,
                         .n_outputs = 1};
    if (node.n_inputs == 2) in[1] = pick(making, KIND_FLOAT);
    graph_add_node(making->to, &node, in, NULL, NULL, &out);
    add(making, KIND_TENSOR, out);
}

static void make_number(making_t *making)
{
    static const char *const ints[] = {"scalar_add", "scalar_sub", "scalar_mul"};
    static const char *const compared[] = {"scalar_lt", "scalar_le", "scalar_gt",
                                           "scalar_ge", "scalar_eq", "scalar_ne"};
    value_t a = pick(making, KIND_INT), b = pick(making, KIND_INT), f = pick(making, KIND_FLOAT);
    switch (seeded_below(6)) {
    case 0:
        a = BUILTIN(making, ints[seeded_below(3)], a, b);
        add(making, KIND_INT, BUILTIN(making, "scalar_mod", a, literal_int(making, 97)));
        return;
    case 1:
        add(making, KIND_INT, BUILTIN(making, "scalar_floordiv", a, literal_int(making, 3)));
        return;
    case 2: add(making, KIND_BOOL, BUILTIN(making, compared[seeded_below(6)], a, b)); return;
    case 3:
        f = BUILTIN(making, "scalar_neg", f);
        add(making, KIND_FLOAT, BUILTIN(making, "scalar_div", f, literal_int(making, 2)));
        return;
    case 4:
        add(making, KIND_BOOL,
            BUILTIN(making, "scalar_eq", pick(making, KIND_STRING),
                    seeded_below(2) != 0 ? VALUE_NONE : pick(making, KIND_STRING)));
        return;
    default: {
        value_t c = pick(making, KIND_BOOL), d = pick(making, KIND_BOOL);
        c = BUILTIN(making, seeded_below(2) != 0 ? "scalar_and" : "scalar_or", c, d);
        add(making, KIND_BOOL, BUILTIN(making, "scalar_not", c));
    }
    }
}

static void make_items(making_t *making, const char *container)
{
    value_t in[] = {pick(making, KIND_TENSOR), pick(making, KIND_INT)}, out[2];
    if (strcmp(container, "list") == 0) in[1] = pick(making, KIND_TENSOR);
    value_t made = builtin(making, container, 1, 2, in);
    const graph_node_t node = {
        .kind = NODE_BUILTIN, .name = "unpack", .n_inputs = 1, .n_outputs = 2};
    graph_add_node(making->to, &node, &made, NULL, NULL, out);
    add(making, KIND_TENSOR, out[0]);
    add(making, strcmp(container, "list") == 0 ? KIND_TENSOR : KIND_INT, out[1]);
}

static void make_container(making_t *making)
{
    value_t list;
    switch (seeded_below(7)) {
    case 0: add(making, KIND_LIST, fresh(making, KIND_LIST)); return;
    case 1: add(making, KIND_DICT, make_dict(making)); return;
    case 2:
        list = pick(making, KIND_LIST);
        (void)builtin(making, "append", 0, 2, (value_t[]){list, pick(making, KIND_TENSOR)});
        return;
    case 3:
        list = pick(making, KIND_LIST);
        add(making, KIND_TENSOR,
            BUILTIN(making, "index", list, literal_int(making, -seeded_below(2))));
        return;
    case 4: add(making, KIND_INT, BUILTIN(making, "len", pick(making, KIND_LIST))); return;
    case 5: make_items(making, seeded_below(2) != 0 ? "tuple" : "list"); return;
    default:
        list = pick(making, KIND_DICT);
        add(making, KIND_TENSOR,
            seeded_below(2) != 0 ? BUILTIN(making, "index", list, literal_text(making, "b"))
                                 : graph_add_getattr(making->to, list, "a", NULL));
    }
}

static const struct {
    const char *path;
    kind_t kind;
    bool can_set;
} attributes[] = {
    {"w", KIND_TENSOR, true},    {"inner.w", KIND_TENSOR, true}, {"n", KIND_INT, true},
    {"inner.n", KIND_INT, true}, {"s", KIND_STRING, true},       {"l", KIND_LIST, true},
    {"c", KIND_TENSOR, false},   {"d", KIND_DICT, false},
};

static void make_state(making_t *making)
{
    int chosen = seeded_below((int)(sizeof attributes / sizeof *attributes));
    const char *path = attributes[chosen].path;
    kind_t kind = attributes[chosen].kind;
    bool is_inner = strncmp(path, "inner.", 6) == 0 && seeded_below(2) != 0;
    value_t object = is_inner ? making->inner : making->self;
    if (is_inner) path += 6;
    if (seeded_below(3) != 0 || !attributes[chosen].can_set) {
        add(making, kind, graph_add_getattr(making->to, object, path, NULL));
        return;
    }
    const value_t in[] = {object, pick(making, kind)};
    const graph_node_t node = {.kind = NODE_SETATTR, .name = path, .n_inputs = 2};
    graph_add_node(making->to, &node, in, NULL, NULL, NULL);
}

static void make_call(making_t *making)
{
    value_t in[] = {making->inner, pick(making, KIND_TENSOR), VALUE_NONE}, out = VALUE_NONE;
    if (seeded_below(2) != 0) in[2] = pick(making, KIND_TENSOR);
    const graph_node_t node = {.kind = NODE_CALL, .name = "step", .n_inputs = 3, .n_outputs = 1};
    graph_add_node(making->to, &node, in, NULL, NULL, &out);
    add(making, KIND_TENSOR, out);
}

/* ---- blocks ---- */

static void make_nodes(making_t *making, int n);

static void make_block(making_t *making, int n_results, const kind_t *kinds, value_t first)
{
    value_t results[4];
    int base = making->n, n_first = first != VALUE_NONE;
    making->depth++;
    make_nodes(making, 1 + seeded_below(4));
    if (n_first != 0) results[0] = first;
    for (int i = 0; i < n_results; i++) results[i + n_first] = pick(making, kinds[i]);
    graph_block_end(making->to, n_results + n_first, results);
    making->depth--;
    making->n = base;
}

static void make_if(making_t *making)
{
    kind_t kinds[2];
    value_t condition = pick(making, KIND_BOOL), out[2];
    int n = 1 + seeded_below(2);
    for (int i = 0; i < n; i++) kinds[i] = (kind_t)seeded_below(N_KINDS);
    const graph_node_t node = {.kind = NODE_IF, .n_inputs = 1, .n_outputs = n};
    graph_add_node(making->to, &node, &condition, NULL, NULL, out);
    for (int b = 0; b < 2; b++) {
        graph_block_begin(making->to);
        make_block(making, n, kinds, VALUE_NONE);
    }
    for (int i = 0; i < n; i++) add(making, kinds[i], out[i]);
}

/* Adds a loop of at most three iterations, ended by its count or by its condition. */
static void make_loop(making_t *making)
{
    kind_t kinds[3];
    value_t in[5], out[3], go = VALUE_NONE;
    int n = 1 + seeded_below(3), base = making->n;
    bool is_counted = seeded_below(3) != 0;
    in[0] = is_counted
                ? BUILTIN(making, "scalar_mod", pick(making, KIND_INT), literal_int(making, 4))
                : VALUE_NONE;
    in[1] = seeded_below(2) != 0 ? pick(making, KIND_BOOL) : VALUE_NONE;
    for (int i = 0; i < n; i++) {
        kinds[i] = (kind_t)seeded_below(N_KINDS);
        in[i + 2] = pick(making, kinds[i]);
    }
    const graph_node_t node = {.kind = NODE_LOOP, .n_inputs = n + 2, .n_outputs = n};
    base = making->n;
    graph_add_node(making->to, &node, in, NULL, NULL, out);
    graph_block_begin(making->to);
    value_t round = graph_add_param(making->to, "i", NULL);
    add(making, KIND_INT, round);
    for (int i = 0; i < n; i++) add(making, kinds[i], graph_add_param(making->to, "p", NULL));
    go = BUILTIN(making, "scalar_lt", round, literal_int(making, 2));
    make_block(making, n, kinds, go);
    making->n = base;
    for (int i = 0; i < n; i++) add(making, kinds[i], out[i]);
}

static void make_nodes(making_t *making, int n)
{
    for (int i = 0; i < n; i++) {
        int chosen = seeded_below(making->depth < 3 ? 16 : 13);
        if (chosen < 4) make_op(making);
        if (chosen == 4) make_linear(making);
        if (chosen == 5) make_in_place(making);
        if (chosen == 6 || chosen == 7) make_number(making);
        if (chosen == 8 || chosen == 9) make_container(making);
        if (chosen == 10 || chosen == 11) make_state(making);
        if (chosen == 12) make_call(making);
        if (chosen == 13) make_if(making);
        if (chosen > 13) make_loop(making);
    }
}

static graph_t *make_graph(context_t *ctx, uint64_t seed)
{
    static const graph_type_t module = {.kind = TYPE_MODULE}, integer = {.kind = TYPE_INT};
    graph_type_t tensor = {.kind = TYPE_TENSOR, .has_info = true};
    making_t making = {.ctx = ctx};
    value_t results[3];
    graph_t *graph = NULL;
    seeded_begin(seed);
    tensor.info = info_dense(DTYPE_F32, 2, (const int64_t[]){2, 3});
    CHECK_OK(ctx, graph_builder_create(ctx, "forward", &making.to));
    making.self = graph_add_param(making.to, "self", &module);
    add(&making, KIND_TENSOR, graph_add_param(making.to, "x", &tensor));
    add(&making, KIND_TENSOR, graph_add_param(making.to, "y", NULL));
    add(&making, KIND_INT, graph_add_param(making.to, "n", &integer));
    making.inner = graph_add_getattr(making.to, making.self, "inner", &module);
    make_nodes(&making, 4 + seeded_below(12));
    results[0] = pick(&making, KIND_TENSOR);
    for (int i = 1; i < 3; i++) results[i] = pick(&making, (kind_t)seeded_below(N_KINDS));
    CHECK_OK(ctx, graph_finish(making.to, 3, results, &graph));
    graph_builder_destroy(making.to);
    return graph;
}

/* ---- running ---- */

static void put_tensor(context_t *ctx, module_t *module, const char *name, double first)
{
    datum_t *datum = make_tensor(ctx, first);
    CHECK_OK(ctx, module_set_parameter(ctx, module, name, datum_as_tensor(datum)));
    datum_release(datum);
}

/* Makes a module in its initial state, with the graph as its `forward`. */
static module_t *make_world(context_t *ctx, graph_t *graph)
{
    module_t *net = mini_module(ctx, "Net"), *inner = mini_child(ctx, net, "inner", "Inner");
    put_tensor(ctx, net, "w", -1);
    put_tensor(ctx, net, "c", 0.5);
    put_tensor(ctx, inner, "w", -0.5);
    mini_int(ctx, net, "n", 2);
    mini_int(ctx, inner, "n", 5);
    mini_put(ctx, net, "s", mini_text(ctx, "a"));
    mini_put(ctx, net, "l", MINI_LIST(ctx, 1, make_tensor(ctx, -0.25)));
    datum_t *items[] = {make_tensor(ctx, 0.75), make_tensor(ctx, -2)}, *dict = NULL;
    CHECK_OK(ctx, datum_dict(ctx, 2, (const char *const[]){"a", "b"}, items, &dict));
    for (int i = 0; i < 2; i++) datum_release(items[i]);
    mini_put(ctx, net, "d", dict);
    mini_define(ctx, inner,
                "graph step(%self : module, %x : tensor, %by : tensor?) {\n"
                "  %w = getattr(%self) name=\"w\"\n"
                "  %n = getattr(%self) name=\"n\"\n"
                "  %m = scalar_add(%n, 1)\n"
                "  setattr(%self, %m) name=\"n\"\n"
                "  %is = scalar_eq(%by, none)\n"
                "  %y = if(%is) {\n"
                "    %a = sub(%x, %w)\n"
                "    yield %a\n"
                "  } else {\n"
                "    %b = mul(%x, %by)\n"
                "    yield %b\n"
                "  }\n"
                "  %z = tanh(%y)\n"
                "  return %z\n"
                "}\n");
    CHECK_OK(ctx, graph_set_method(ctx, net, "forward", graph));
    return net;
}

/* Returns copies of the results of two runs in a list; NULL if one fails. Releases the module. */
static datum_t *run_twice(context_t *ctx, module_t *net)
{
    datum_t *all = NULL;
    bool has_run = true;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &all));
    for (int run = 0; run < 2 && has_run; run++) {
        datum_t *in[] = {make_tensor(ctx, run - 0.6), make_tensor(ctx, 0.4),
                         mini_number(ctx, 3 + run)};
        datum_t *out[METHOD_MAX_OUTPUTS] = {NULL}, *copy = NULL;
        int n = METHOD_MAX_OUTPUTS;
        has_run = module_call(ctx, net, "forward", 3, in, &n, out) == STATUS_OK;
        for (int i = 0; has_run && i < n; i++) {
            CHECK_OK(ctx, datum_clone(ctx, out[i], &copy));
            CHECK_OK(ctx, datum_append(ctx, all, copy));
            datum_release(copy);
            datum_release(out[i]);
        }
        for (int i = 0; i < 3; i++) datum_release(in[i]);
    }
    module_release(net);
    if (has_run) return all;
    datum_release(all);
    return NULL;
}

/* ---- checks ---- */

/* Compares the module's results with `wanted`, and releases the module. */
static void check_same(context_t *ctx, uint64_t seed, const graph_t *graph, const datum_t *wanted,
                       module_t *net, const char *what)
{
    datum_t *given = run_twice(ctx, net);
    if (given == NULL) seeded_fail(ctx, seed, graph, what);
    if (!rounds_near(ctx, given, wanted, 1e-5)) {
        text_t text = text_begin(ctx);
        rounds_show(ctx, given, &text);
        text_append(&text, "\n is not ");
        rounds_show(ctx, wanted, &text);
        print_message("%s\n", text_string(&text));
        text_clear(&text);
        seeded_fail(ctx, seed, graph, what);
    }
    datum_release(given);
}

static void check_pipelines(context_t *ctx, uint64_t seed, graph_t *graph, const datum_t *wanted)
{
    const char *const *const pipelines[] = {pass_pipeline_graph(), pass_pipeline_freeze(),
                                            pass_pipeline_optimize()};
    static const char *const names[] = {"pipeline graph", "pipeline freeze", "pipeline optimize"};
    for (int i = 0; i < 3; i++) {
        module_t *self = make_world(ctx, graph);
        graph_t *result = NULL;
        if (pass_run(ctx, graph, pipelines[i], &(pass_options_t){.self = self}, &result) !=
            STATUS_OK)
            seeded_fail(ctx, seed, graph, names[i]);
        module_release(self);
        check_same(ctx, seed, graph, wanted, make_world(ctx, result), names[i]);
        graph_release(result);
    }
    module_t *net = make_world(ctx, graph), *frozen = NULL;
    if (freeze(ctx, net, NULL, &frozen) != STATUS_OK) seeded_fail(ctx, seed, graph, "freeze");
    module_release(net);
    check_same(ctx, seed, graph, wanted, frozen, "what is frozen");
}

static void check_seed(context_t *ctx, uint64_t seed)
{
    graph_t *graph = make_graph(ctx, seed);
    if (graph_verify(ctx, graph) != STATUS_OK) seeded_fail(ctx, seed, graph, "verify");
    graph_t *again = rounds_of_text(ctx, graph);
    if (again == NULL) seeded_fail(ctx, seed, graph, "text");
    datum_t *wanted = run_twice(ctx, make_world(ctx, graph));
    if (wanted == NULL) seeded_fail(ctx, seed, graph, "run");
    check_same(ctx, seed, graph, wanted, make_world(ctx, again), "what was read from its text");
    check_pipelines(ctx, seed, graph, wanted);
    datum_release(wanted);
    graph_release(again);
    graph_release(graph);
}

static void text_and_passes_change_no_result(void **state)
{
    context_t *ctx = fixture_context(state);
    seeded_check(ctx, N_GRAPHS, check_seed);
}

int main(int argc, char **argv)
{
    seeded_arguments(argc, argv);
    const struct CMUnitTest tests[] = {TEST(text_and_passes_change_no_result)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
