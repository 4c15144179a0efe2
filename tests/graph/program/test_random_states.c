/* Random methods that write in place and set attributes, in loops and branches, on a module with
 * members that share bytes. Running them as programs must give the same bits, in results and state,
 * as running the nodes one by one, before and after the passes.
 *
 * To run a single method: test_random_states SEED. */
#include "graph/method/method_impl.h"

#include <string.h>

#include "graph/program/plan_impl.h"
#include "ops/ops.h"
#include "tests/support/seeded.h"
#include "tests/support/support.h"

#define N_METHODS 300
#define N_RUNS 3
#define MAX_VALUES 256
#define N_INPUTS 3

/* ---- methods ---- */

typedef enum kind {
    KIND_WHOLE,  /* f32[2,3] */
    KIND_TURNED, /* f32[3,2]: transposed views of f32[2,3] */
    KIND_FLAT,   /* f32[6] */
    KIND_ROW,    /* f32[1,3] */
    N_KINDS
} kind_t;

static const char *const types[] = {"f32[2,3]", "f32[3,2]", "f32[6]", "f32[1,3]"};

typedef struct making {
    text_t *text;
    int n, n_made, depth;
    struct {
        int name;
        kind_t kind;
    } seen[MAX_VALUES]; /* values "%v<name>" that the next node may read */
} making_t;

static int put(making_t *making, kind_t kind)
{
    assert_true(making->n < MAX_VALUES);
    making->seen[making->n].name = making->n_made;
    making->seen[making->n++].kind = kind;
    return making->n_made++;
}

/* Picks a value of this kind. There is always one of KIND_WHOLE; for other kinds it may return
 * false. */
static bool pick(const making_t *making, kind_t kind, int *out_name)
{
    int n = 0;
    for (int i = 0; i < making->n; i++) n += making->seen[i].kind == kind;
    if (n == 0) return false;
    int chosen = seeded_below(n);
    for (int i = 0; i < making->n; i++)
        if (making->seen[i].kind == kind && chosen-- == 0) *out_name = making->seen[i].name;
    return true;
}

static void make_op(making_t *making)
{
    static const char *const binary[] = {"add", "sub", "maximum", "minimum"};
    kind_t kind = (kind_t)seeded_below(N_KINDS), other = kind;
    if (kind == KIND_WHOLE && seeded_below(3) == 0) other = KIND_ROW;
    const char *in_place = seeded_below(2) != 0 ? "_" : "";
    int a = 0, b = 0;
    if (!pick(making, kind, &a) || !pick(making, other, &b)) return;
    int made = put(making, kind);
    switch (seeded_below(4)) {
    case 0: text_append(making->text, "%%v%d = relu%s(%%v%d)\n", made, in_place, a); return;
    case 1: text_append(making->text, "%%v%d = mul%s(%%v%d, 0.5)\n", made, in_place, a); return;
    default:
        text_append(making->text, "%%v%d = %s%s(%%v%d, %%v%d)\n", made, binary[seeded_below(4)],
                    in_place, a, b);
    }
}

static void make_view(making_t *making)
{
    int a = 0;
    bool is_turned = seeded_below(4) == 0;
    if (!pick(making, is_turned ? KIND_TURNED : KIND_WHOLE, &a)) return;
    switch (is_turned ? 3 : seeded_below(3)) {
    case 0:
        text_append(making->text, "%%v%d = reshape(%%v%d) sizes=[6]\n", put(making, KIND_FLAT), a);
        return;
    case 1: {
        int row = seeded_below(2);
        text_append(making->text, "%%v%d = slice(%%v%d) dim=0 start=%d end=%d\n",
                    put(making, KIND_ROW), a, row, row + 1);
        return;
    }
    default:
        text_append(making->text, "%%v%d = transpose(%%v%d) dim0=0 dim1=1\n",
                    put(making, is_turned ? KIND_WHOLE : KIND_TURNED), a);
    }
}

/* Members of the module. a, b and the parameter q are one tensor; d is c transposed. */
static const struct {
    const char *name;
    kind_t kind;
} members[] = {{"a", KIND_WHOLE},  {"b", KIND_WHOLE}, {"q", KIND_WHOLE}, {"c", KIND_WHOLE},
               {"d", KIND_TURNED}, {"e", KIND_WHOLE}, {"p", KIND_WHOLE}};
#define N_MEMBERS (int)(sizeof members / sizeof *members)

static void make_getattr(making_t *making)
{
    int m = seeded_below(N_MEMBERS);
    text_append(making->text, "%%v%d = getattr(%%self) name=\"%s\" : %s\n",
                put(making, members[m].kind), members[m].name, types[members[m].kind]);
}

static void make_setattr(making_t *making)
{
    static const char *const set[] = {"e", "e", "c", "b"};
    int a = 0;
    if (pick(making, KIND_WHOLE, &a))
        text_append(making->text, "setattr(%%self, %%v%d) name=\"%s\"\n", a, set[seeded_below(4)]);
}

static void make_nodes(making_t *making, int n);

static void end_branch(making_t *making, int n_before)
{
    int a = 0;
    (void)pick(making, KIND_WHOLE, &a);
    text_append(making->text, "yield %%v%d\n", a);
    making->n = n_before;
}

static void make_if(making_t *making)
{
    int n = making->n, made = making->n_made++;
    text_append(making->text, "%%v%d = if(%%k) {\n", made);
    make_nodes(making, 1 + seeded_below(5));
    end_branch(making, n);
    text_append(making->text, "} else {\n");
    make_nodes(making, seeded_below(5));
    end_branch(making, n);
    text_append(making->text, "}\n");
    making->seen[making->n].name = made;
    making->seen[making->n++].kind = KIND_WHOLE;
}

static void make_loop(making_t *making)
{
    int n = making->n, made = making->n_made++, a = 0, b = 0;
    (void)pick(making, KIND_WHOLE, &a);
    text_append(making->text, "%%v%d = loop(%d, true, %%v%d) do (%%i%d, ", made,
                1 + seeded_below(3), a, made);
    text_append(making->text, "%%v%d) {\n", put(making, KIND_WHOLE));
    make_nodes(making, 1 + seeded_below(6));
    (void)pick(making, KIND_WHOLE, &b);
    text_append(making->text, "yield true, %%v%d\n}\n", b);
    making->n = n;
    making->seen[making->n].name = made;
    making->seen[making->n++].kind = KIND_WHOLE;
}

static void make_nodes(making_t *making, int n)
{
    making->depth++;
    for (int i = 0; i < n; i++) {
        int chosen = seeded_below(16);
        if (chosen < 8)
            make_op(making);
        else if (chosen < 10)
            make_view(making);
        else if (chosen < 12)
            make_getattr(making);
        else if (chosen < 14)
            make_setattr(making);
        else if (making->depth < 3)
            (chosen == 14 ? make_if : make_loop)(making);
    }
    making->depth--;
}

static graph_t *make_method(context_t *ctx)
{
    graph_t *graph = NULL;
    text_t text = text_begin(ctx);
    making_t making = {.text = &text};
    text_append(&text, "graph forward(%%self : module, %%v%d : f32[2,3], ",
                put(&making, KIND_WHOLE));
    text_append(&text, "%%v%d : f32[2,3], %%k : bool[]) {\n", put(&making, KIND_WHOLE));
    make_getattr(&making);
    make_nodes(&making, 4 + seeded_below(20));
    int n = 1 + seeded_below(3);
    text_append(&text, "return ");
    for (int i = 0; i < n; i++) {
        int result = making.seen[seeded_below(making.n)].name;
        text_append(&text, "%s%%v%d", i > 0 ? ", " : "", result);
    }
    text_append(&text, "\n}\n");
    CHECK_OK(ctx, graph_parse(ctx, text_string(&text), NULL, &graph));
    text_clear(&text);
    return graph;
}

/* ---- modules ---- */

/* A module, its inputs, and the results of all its runs. */
typedef struct subject {
    module_t *net;
    datum_t *in[N_INPUTS];
    int n_out;
    datum_t *out[N_RUNS * METHOD_MAX_OUTPUTS];
} subject_t;

static tensor_t *make_tensor(context_t *ctx, double first)
{
    float values[6];
    tensor_t *tensor = NULL;
    for (int i = 0; i < 6; i++) values[i] = (float)(first + 0.25 * i);
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, (const int64_t[]){2, 3}, values, &tensor));
    return tensor;
}

static datum_t *wrap_take(context_t *ctx, tensor_t *tensor)
{
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    tensor_release(tensor);
    return datum;
}

typedef enum given {
    GIVEN_APART,
    GIVEN_TWICE, /* both inputs are one tensor */
    GIVEN_STATE, /* an input is a member of the module */
    N_GIVEN
} given_t;

static subject_t make_subject(context_t *ctx, given_t given)
{
    subject_t s = {.net = NULL};
    tensor_t *a = make_tensor(ctx, -1), *c = make_tensor(ctx, 2), *d = NULL;
    tensor_t *e = make_tensor(ctx, -3), *p = make_tensor(ctx, 0.5), *x = make_tensor(ctx, -0.5);
    datum_t *attribute = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &s.net));
    CHECK_OK(ctx, op_transpose(ctx, c, 0, 1, &d));
    CHECK_OK(ctx, module_set_buffer(ctx, s.net, "a", a));
    CHECK_OK(ctx, module_set_buffer(ctx, s.net, "b", a));
    CHECK_OK(ctx, module_set_parameter(ctx, s.net, "q", a));
    CHECK_OK(ctx, module_set_buffer(ctx, s.net, "c", c));
    CHECK_OK(ctx, module_set_buffer(ctx, s.net, "d", d));
    CHECK_OK(ctx, datum_tensor(ctx, e, &attribute));
    CHECK_OK(ctx, module_set_attribute(ctx, s.net, "e", attribute));
    CHECK_OK(ctx, module_set_parameter(ctx, s.net, "p", p));
    datum_release(attribute);
    tensor_t *second = given == GIVEN_TWICE   ? tensor_retain(x)
                       : given == GIVEN_STATE ? tensor_retain(seeded_below(2) != 0 ? a : c)
                                              : make_tensor(ctx, 1);
    s.in[0] = wrap_take(ctx, x);
    s.in[1] = wrap_take(ctx, second);
    tensor_t *owned[] = {a, c, d, e, p};
    for (int i = 0; i < 5; i++) tensor_release(owned[i]);
    return s;
}

static void set_condition(context_t *ctx, subject_t *s, bool condition)
{
    tensor_t *tensor = NULL;
    CHECK_OK(ctx, tensor_full(ctx, DTYPE_BOOL, 0, NULL, condition, &tensor));
    datum_release(s->in[2]);
    s->in[2] = wrap_take(ctx, tensor);
}

static void clear(subject_t *s)
{
    for (int i = 0; i < s->n_out; i++) datum_release(s->out[i]);
    for (int i = 0; i < N_INPUTS; i++) datum_release(s->in[i]);
    module_release(s->net);
}

/* ---- comparison ---- */

static bool same_tensor(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    float x[6], y[6];
    bool is_one = a == NULL || b == NULL || tensor_rank(a) != tensor_rank(b);
    if (is_one) return a == b;
    for (int d = 0; d < tensor_rank(a); d++)
        if (tensor_sizes(a)[d] != tensor_sizes(b)[d]) return false;
    CHECK_OK(ctx, tensor_read(ctx, a, x, sizeof x));
    CHECK_OK(ctx, tensor_read(ctx, b, y, sizeof y));
    return memcmp(x, y, (size_t)tensor_numel(a) * sizeof *x) == 0;
}

static const tensor_t *member(const module_t *net, const char *name)
{
    if (strcmp(name, "e") == 0) return datum_as_tensor(module_attribute(net, name));
    const tensor_t *buffer = module_buffer(net, name);
    return buffer != NULL ? buffer : module_parameter(net, name);
}

/* Returns a name of the first difference in members, inputs or results, or NULL. */
static const char *find_difference(context_t *ctx, const subject_t *a, const subject_t *b)
{
    for (int i = 0; i < N_MEMBERS; i++)
        if (!same_tensor(ctx, member(a->net, members[i].name), member(b->net, members[i].name)))
            return members[i].name;
    for (int i = 0; i < 2; i++)
        if (!same_tensor(ctx, datum_as_tensor(a->in[i]), datum_as_tensor(b->in[i])))
            return i == 0 ? "input 0" : "input 1";
    if (a->n_out != b->n_out) return "the number of results";
    for (int i = 0; i < a->n_out; i++)
        if (!same_tensor(ctx, datum_as_tensor(a->out[i]), datum_as_tensor(b->out[i])))
            return "a result";
    return NULL;
}

/* ---- test runs ---- */

/* Number of steps that ran in plans and wrote to a tensor or an attribute, over all methods. */
static int n_writes;

static void count_writes(const program_t *program)
{
    for (int i = 0; i < program->n_regions; i++) {
        const plan_t *plan = program->regions[i].plan;
        for (int k = 0; k < plan->n_steps && plan->idle != NULL; k++)
            n_writes += plan->steps[k].is_in_place || plan->steps[k].attribute != NULL;
    }
}

static void run_once(context_t *ctx, const graph_t *graph, subject_t *programmed, subject_t *passed,
                     subject_t *plain)
{
    int n = METHOD_MAX_OUTPUTS;
    CHECK_OK(ctx, module_call(ctx, programmed->net, "forward", N_INPUTS, programmed->in, &n,
                              programmed->out + programmed->n_out));
    programmed->n_out += n;
    program_t *program = program_of(programmed->net, "forward");
    CHECK_OK(ctx, graph_run(ctx, program->graph, passed->net, N_INPUTS, passed->in, &n,
                            passed->out + passed->n_out));
    passed->n_out += n;
    CHECK_OK(ctx,
             graph_run(ctx, graph, plain->net, N_INPUTS, plain->in, &n, plain->out + plain->n_out));
    plain->n_out += n;
    count_writes(program);
    program_release(program);
}

static void check(context_t *ctx, uint64_t seed)
{
    seeded_begin(seed);
    graph_t *graph = make_method(ctx);
    given_t given = (given_t)seeded_below(N_GIVEN);
    subject_t subjects[3];
    for (int i = 0; i < 3; i++) {
        seeded_begin(seed + 1000);
        subjects[i] = make_subject(ctx, given);
    }
    CHECK_OK(ctx, plan_set_method(ctx, subjects[0].net, "forward", graph, 0));
    for (int run = 0; run < N_RUNS; run++) {
        bool condition = seeded_below(2) != 0;
        for (int i = 0; i < 3; i++) set_condition(ctx, &subjects[i], condition);
        run_once(ctx, graph, &subjects[0], &subjects[1], &subjects[2]);
        /* If an input is also a member, the program runs the graph as it was before the passes. */
        const char *difference = given == GIVEN_STATE
                                     ? NULL
                                     : find_difference(ctx, &subjects[0], &subjects[1]);
        if (difference != NULL) {
            print_error("run %d: %s is not what the nodes give\n", run, difference);
            seeded_fail(ctx, seed, graph, "program and nodes");
        }
        difference = find_difference(ctx, &subjects[0], &subjects[2]);
        if (difference != NULL) {
            print_error("run %d: %s is not what the nodes give before the passes\n", run,
                        difference);
            seeded_fail(ctx, seed, graph, "program and graph");
        }
    }
    for (int i = 0; i < 3; i++) clear(&subjects[i]);
    graph_release(graph);
}

static void programs_leave_what_their_nodes_leave(void **state)
{
    seeded_check(fixture_context(state), N_METHODS, check);
    /* This method writes to a view of an input that is also a member. */
    check(fixture_context(state), 1180);
    assert_true(n_writes > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(programs_leave_what_their_nodes_leave)};
    seeded_arguments(argc, argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
