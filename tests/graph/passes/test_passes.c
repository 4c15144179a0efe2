/* Tests passes on texts: every *.graph file in this folder is a test, with cases for one pass.
 *
 *   // test: a sentence                                begins a case
 *   // passes: fold_batch_norm dead_code               run in this order
 *   // blob $0 = f32[8,3,3,3] randn                    randn, positive, ones, zeros, 0.5
 *   // blob $1 = $0                                    the same tensor
 *   // parameter conv.weight = f32[8,3,3,3] randn      of the module self; also: buffer
 *   // attribute training = false                      a bool or an integer
 *   // method conv                                     of a module; without a name: of self
 *   //| graph f(...) { ... }                            its text
 *   // keep: conv.weight                               stays a getattr; for an operator: stays f32
 *   // range %x = -1 6                                 of numbers; the dtype is then s8
 *   // runs: no, or // tolerance: 0.02                 do not compare results, or with this one
 *   graph f(...) { ... }                               (the default tolerance is 1e-4)
 *   // expect: unchanged                               the same graph object; or
 *   // expect:                                         the following text */
#include "graph/passes/pass.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/scope.h"
#include "tests/support/support.h"

#define MAX_TESTS 100
#define TEXT_MAX 16384
#define LINE_MAX_BYTES 512
#define NAMES_MAX 16
#define TOLERANCE 1e-4

typedef struct test_case {
    const char *file;
    int line;
    char title[LINE_MAX_BYTES];
    char passes[LINE_MAX_BYTES];
    char keep[LINE_MAX_BYTES];
    char method_of[LINE_MAX_BYTES];
    char method[TEXT_MAX];
    char graph[TEXT_MAX];
    char expect[TEXT_MAX];
    bool is_unchanged, is_expecting, is_run;
    double tolerance;
    int n_ranges;
    pass_range_t ranges[NAMES_MAX];
    char range_names[NAMES_MAX][32];
    datum_t *pool;
    module_t *self;
} test_case_t;

/* ---- declarations of a case ---- */

/* Makes a tensor from a text such as "f32[8,3] randn". */
static tensor_t *make_tensor(context_t *ctx, const char *text)
{
    char dtype[16] = "", fill[32] = "";
    int64_t sizes[TENSOR_MAX_RANK];
    int rank = 0;
    size_t length = strcspn(text, "[");
    assert_true(length < sizeof dtype && text[length] == '[');
    memcpy(dtype, text, length);
    const char *at = text + length + 1;
    while (*at != ']') {
        char *end;
        sizes[rank++] = strtoll(at, &end, 10);
        assert_true(end != at);
        at = *end == ',' ? end + 1 : end;
    }
    assert_int_equal(sscanf(at + 1, "%31s", fill), 1);
    tensor_t *tensor = NULL;
    dtype_t type = dtype_parse(dtype);
    if (strcmp(fill, "randn") == 0) {
        CHECK_OK(ctx, tensor_randn(ctx, type, rank, sizes, &tensor));
    } else if (strcmp(fill, "positive") == 0) {
        CHECK_OK(ctx, tensor_rand(ctx, type, rank, sizes, &tensor));
        tensor_t *half = NULL, *sum = NULL;
        CHECK_OK(ctx, tensor_number(ctx, 0.5, &half));
        CHECK_OK(ctx, op_add(ctx, tensor, half, &sum));
        tensor_release(half);
        tensor_release(tensor);
        tensor = sum;
    } else {
        char *end = fill;
        double value = strcmp(fill, "ones") == 0 ? 1.0 : strtod(fill, &end);
        assert_true(value == 1.0 || *end == '\0' || strcmp(fill, "zeros") == 0);
        CHECK_OK(ctx, tensor_full(ctx, type, rank, sizes, value, &tensor));
    }
    return tensor;
}

static void declare_blob(context_t *ctx, test_case_t *test, const char *text)
{
    int number = 0, shared = 0, length = 0;
    assert_int_equal(sscanf(text, "$%d = %n", &number, &length), 1);
    assert_int_equal(number, datum_length(test->pool));
    if (sscanf(text + length, "$%d", &shared) == 1) {
        CHECK_OK(ctx, datum_append(ctx, test->pool, datum_item(test->pool, shared)));
        return;
    }
    tensor_t *tensor = make_tensor(ctx, text + length);
    datum_t *datum = NULL;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, &datum));
    CHECK_OK(ctx, datum_append(ctx, test->pool, datum));
    datum_release(datum);
    tensor_release(tensor);
}

/* Finds or makes the module to which a dotted path leads. *path becomes the last name in the
 * path. */
static module_t *owner_of(context_t *ctx, module_t *module, const char **path)
{
    const char *dot;
    while ((dot = strchr(*path, '.')) != NULL) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)(dot - *path), *path);
        if (module_child(module, name) == NULL) {
            module_t *child = NULL;
            CHECK_OK(ctx, module_create(ctx, "Child", &child));
            CHECK_OK(ctx, module_set_child(ctx, module, name, child));
            module_release(child);
        }
        module = module_child(module, name);
        *path = dot + 1;
    }
    return module;
}

static void declare_member(context_t *ctx, test_case_t *test, const char *text, member_kind_t kind)
{
    char path[64];
    int length = 0;
    assert_int_equal(sscanf(text, "%63s = %n", path, &length), 1);
    const char *name = path, *value = text + length;
    module_t *owner = owner_of(ctx, test->self, &name);
    if (kind == MEMBER_ATTRIBUTE) {
        datum_t *datum = NULL;
        bool is_bool = value[0] == 't' || value[0] == 'f';
        CHECK_OK(ctx, is_bool ? datum_bool(ctx, value[0] == 't', &datum)
                              : datum_int(ctx, strtoll(value, NULL, 10), &datum));
        CHECK_OK(ctx, module_set_attribute(ctx, owner, name, datum));
        datum_release(datum);
        return;
    }
    tensor_t *tensor = strcmp(value, "none") == 0 ? NULL : make_tensor(ctx, value);
    CHECK_OK(ctx, kind == MEMBER_PARAMETER ? module_set_parameter(ctx, owner, name, tensor)
                                           : module_set_buffer(ctx, owner, name, tensor));
    tensor_release(tensor);
}

/* Defines the method after the last line of its text. */
static void declare_method(context_t *ctx, test_case_t *test)
{
    if (test->method[0] == '\0') return;
    char path[LINE_MAX_BYTES + 2];
    bool is_self = test->method_of[0] == '\0';
    snprintf(path, sizeof path, "%s%s", test->method_of, is_self ? "" : ".");
    const char *name = path;
    CHECK_OK(ctx, graph_define(ctx, owner_of(ctx, test->self, &name), test->method));
    test->method[0] = '\0';
}

static void add_line(char *text, const char *line)
{
    size_t length = strlen(text);
    assert_true(length + strlen(line) + 2 < TEXT_MAX);
    snprintf(text + length, TEXT_MAX - length, "%s\n", line);
}

static void declare_range(test_case_t *test, const char *text)
{
    assert_true(test->n_ranges < NAMES_MAX);
    pass_range_t *range = &test->ranges[test->n_ranges];
    char *name = test->range_names[test->n_ranges++];
    assert_int_equal(sscanf(text, "%%%31s = %lf %lf", name, &range->low, &range->high), 3);
    range->value = name;
}

/* ---- reading a file ---- */

static const char *after(const char *line, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(line, prefix, length) == 0 ? line + length : NULL;
}

static void read_line(context_t *ctx, test_case_t *test, const char *line)
{
    const char *rest;
    if ((rest = after(line, "//| ")) != NULL) {
        add_line(test->method, rest);
        return;
    }
    declare_method(ctx, test);
    if ((rest = after(line, "// method")) != NULL) {
        snprintf(test->method_of, sizeof test->method_of, "%s", rest + (*rest == ' '));
    } else if ((rest = after(line, "// passes: ")) != NULL) {
        snprintf(test->passes, sizeof test->passes, "%s", rest);
    } else if ((rest = after(line, "// blob ")) != NULL) {
        declare_blob(ctx, test, rest);
    } else if ((rest = after(line, "// parameter ")) != NULL) {
        declare_member(ctx, test, rest, MEMBER_PARAMETER);
    } else if ((rest = after(line, "// buffer ")) != NULL) {
        declare_member(ctx, test, rest, MEMBER_BUFFER);
    } else if ((rest = after(line, "// attribute ")) != NULL) {
        declare_member(ctx, test, rest, MEMBER_ATTRIBUTE);
    } else if ((rest = after(line, "// keep: ")) != NULL) {
        snprintf(test->keep, sizeof test->keep, "%s", rest);
    } else if ((rest = after(line, "// range ")) != NULL) {
        declare_range(test, rest);
    } else if ((rest = after(line, "// tolerance: ")) != NULL) {
        test->tolerance = strtod(rest, NULL);
    } else if (after(line, "// runs: no") != NULL) {
        test->is_run = false;
    } else if ((rest = after(line, "// expect:")) != NULL) {
        test->is_expecting = true;
        test->is_unchanged = strcmp(rest, " unchanged") == 0;
    } else if (line[0] != '\0') {
        add_line(test->is_expecting ? test->expect : test->graph, line);
    }
}

/* ---- running a case ---- */

static int split(char *text, const char **out_names)
{
    int n = 0;
    for (char *name = strtok(text, " "); name != NULL; name = strtok(NULL, " ")) {
        assert_true(n + 1 < NAMES_MAX);
        out_names[n++] = name;
    }
    out_names[n] = NULL;
    return n;
}

static int make_inputs(context_t *ctx, const graph_t *graph, datum_t **out)
{
    const graph_block_t *body = graph_body(graph);
    int n = 0;
    for (int i = 0; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        if (type->kind == TYPE_MODULE) continue;
        if (type->kind == TYPE_BOOL) {
            CHECK_OK(ctx, datum_bool(ctx, true, &out[n++]));
        } else if (type->kind == TYPE_INT) {
            CHECK_OK(ctx, datum_int(ctx, 3, &out[n++]));
        } else {
            tensor_t *tensor = NULL;
            assert_true(type->kind == TYPE_TENSOR && type->has_info);
            CHECK_OK(ctx, tensor_randn(ctx, type->info.dtype, type->info.rank, type->info.sizes,
                                       &tensor));
            CHECK_OK(ctx, datum_tensor(ctx, tensor, &out[n++]));
            tensor_release(tensor);
        }
    }
    return n;
}

static int run_graph(context_t *ctx, const graph_t *graph, module_t *self, datum_t **out)
{
    datum_t *in[NAMES_MAX];
    int n_out = METHOD_MAX_OUTPUTS;
    context_seed(ctx, 7);
    int n = make_inputs(ctx, graph, in);
    CHECK_OK(ctx, graph_run(ctx, graph, self, n, in, &n_out, out));
    for (int i = 0; i < n; i++) datum_release(in[i]);
    return n_out;
}

/* Checks that the pass does not change the graph's results. */
static void compare_results(context_t *ctx, test_case_t *test, const graph_t *a, const graph_t *b)
{
    datum_t *before[METHOD_MAX_OUTPUTS], *behind[METHOD_MAX_OUTPUTS];
    int n = run_graph(ctx, a, test->self, before);
    assert_int_equal(run_graph(ctx, b, test->self, behind), n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(datum_kind(before[i]), datum_kind(behind[i]));
        if (datum_kind(before[i]) == DATUM_TENSOR) {
            double difference;
            CHECK_OK(ctx, tensor_max_rel_diff(ctx, datum_as_tensor(behind[i]),
                                              datum_as_tensor(before[i]), &difference));
            if (!(difference < test->tolerance)) {
                print_error("%s:%d: %s: result %d differs by %g\n", test->file, test->line,
                            test->title, i, difference);
                fail();
            }
        } else {
            assert_true(datum_equal(ctx, before[i], behind[i]));
        }
        datum_release(before[i]);
        datum_release(behind[i]);
    }
}

static void compare_text(context_t *ctx, const test_case_t *test, const graph_t *graph)
{
    datum_t *pool = NULL;
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &pool));
    CHECK_OK(ctx, graph_print(ctx, graph, pool, &text));
    if (strcmp(text_string(&text), test->expect) != 0) {
        print_error("%s:%d: %s\n---- expected\n%s---- got\n%s", test->file, test->line, test->title,
                    test->expect, text_string(&text));
        fail();
    }
    text_clear(&text);
    datum_release(pool);
}

static void run_case(context_t *ctx, test_case_t *test)
{
    const char *names[NAMES_MAX], *kept[NAMES_MAX];
    graph_t *graph = NULL, *result = NULL;
    assert_true(split(test->passes, names) > 0);
    split(test->keep, kept);
    CHECK_OK(ctx, graph_parse(ctx, test->graph, test->pool, &graph));
    CHECK_OK(ctx, graph_verify(ctx, graph));
    const pass_options_t options = {.self = test->self,
                                    .keep = kept,
                                    .dtype = test->n_ranges > 0 ? DTYPE_S8 : DTYPE_BF16,
                                    .keep_f32 = kept,
                                    .n_ranges = test->n_ranges,
                                    .ranges = test->ranges};
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    if ((result == graph) != test->is_unchanged) {
        print_error("%s:%d: %s: the graph is %s\n", test->file, test->line, test->title,
                    result == graph ? "unchanged" : "another");
        fail();
    }
    if (!test->is_unchanged) compare_text(ctx, test, result);
    if (test->is_run) compare_results(ctx, test, graph, result);
    graph_release(result);
    graph_release(graph);
}

static void begin_case(context_t *ctx, test_case_t *test, const char *file, int line,
                       const char *title)
{
    *test = (test_case_t){.file = file, .line = line, .is_run = true, .tolerance = TOLERANCE};
    snprintf(test->title, sizeof test->title, "%s", title);
    context_seed(ctx, 1);
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, &test->pool));
    CHECK_OK(ctx, module_create(ctx, "Root", &test->self));
}

static void end_case(context_t *ctx, test_case_t *test)
{
    if (test->pool == NULL) return;
    run_case(ctx, test);
    datum_release(test->pool);
    module_release(test->self);
    test->pool = NULL;
}

static void run_file(void **state, const char *path)
{
    context_t *ctx = fixture_context(state);
    char line[LINE_MAX_BYTES];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    test_case_t *test = calloc(1, sizeof *test);
    assert_non_null(test);
    int n_cases = 0;
    for (int number = 1; fgets(line, sizeof line, file) != NULL; number++) {
        line[strcspn(line, "\n")] = '\0';
        const char *title = after(line, "// test: ");
        if (title != NULL) {
            end_case(ctx, test);
            begin_case(ctx, test, path, number, title);
            n_cases++;
        } else if (test->pool != NULL) {
            read_line(ctx, test, line);
        }
    }
    end_case(ctx, test);
    free(test);
    fclose(file);
    assert_true(n_cases > 0);
}

static const char *current; /* the file of the running test */

static int begin_file(void **state)
{
    current = *state;
    return fixture_setup(state);
}

static void file_of_cases(void **state)
{
    run_file(state, current);
}

/* ---- attributes that other methods change ---- */

static const char *const reads_all = "graph forward(%self : module, %x : f32[2]) {\n"
                                     "  %a = getattr(%self) name=\"a\"\n"
                                     "  %b = getattr(%self) name=\"b\"\n"
                                     "  %c = getattr(%self) name=\"sub.c\"\n"
                                     "  %d = getattr(%self) name=\"d\"\n"
                                     "  %n = getattr(%self) name=\"n\"\n"
                                     "  %l = list(%a, %b, %c, %d, %n)\n"
                                     "  return %l\n"
                                     "}\n";

/* Makes a module: `step` writes a, and b shares a's bytes; c is set in the child; d and n never
 * change. */
static module_t *make_changing(context_t *ctx)
{
    module_t *root = NULL, *sub = NULL;
    tensor_t *a = NULL, *b = NULL, *c = NULL;
    datum_t *n = NULL;
    CHECK_OK(ctx, module_create(ctx, "Root", &root));
    CHECK_OK(ctx, module_create(ctx, "Sub", &sub));
    CHECK_OK(ctx, module_set_child(ctx, root, "sub", sub));
    CHECK_OK(ctx, module_set_child(ctx, root, "same", sub));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2), &a));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2), &c));
    CHECK_OK(ctx, tensor_view(ctx, a, SHAPE(2, 1), &b));
    CHECK_OK(ctx, module_set_buffer(ctx, root, "a", a));
    CHECK_OK(ctx, module_set_buffer(ctx, root, "b", b));
    CHECK_OK(ctx, module_set_parameter(ctx, sub, "c", c));
    CHECK_OK(ctx, module_set_parameter(ctx, root, "d", c));
    CHECK_OK(ctx, datum_int(ctx, 3, &n));
    CHECK_OK(ctx, module_set_attribute(ctx, root, "n", n));
    CHECK_OK(ctx, graph_define(ctx, root,
                               "graph step(%self : module) {\n"
                               "  %a = getattr(%self) name=\"a\"\n"
                               "  %b = add_(%a, 1.0)\n"
                               "  %s = getattr(%self) name=\"same\"\n"
                               "  %n = neg(%b)\n"
                               "  setattr(%s, %n) name=\"c\"\n"
                               "  return %b\n"
                               "}\n"));
    datum_release(n);
    tensor_release(a);
    tensor_release(b);
    tensor_release(c);
    module_release(sub);
    return root;
}

static bool reads_attribute(const graph_t *graph, const char *name)
{
    const graph_block_t *body = graph_body(graph);
    bool reads = false;
    for (int i = 0; i < body->n_nodes; i++)
        reads |= body->nodes[i]->kind == NODE_GETATTR && strcmp(body->nodes[i]->name, name) == 0;
    return reads;
}

static void attributes_that_another_method_changes_stay(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_changing(ctx);
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, graph_parse(ctx, reads_all, NULL, &graph));
    const char *const names[] = {"attributes", NULL};
    pass_options_t options = {.self = root};
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    assert_true(reads_attribute(result, "a"));
    assert_true(reads_attribute(result, "b"));
    assert_true(reads_attribute(result, "sub.c"));
    assert_false(reads_attribute(result, "d"));
    assert_false(reads_attribute(result, "n"));
    graph_release(result);
    graph_release(graph);
    module_release(root);
}

static status_t do_nothing(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                           int *n_out, tensor_t **out)
{
    (void)ctx;
    (void)self;
    (void)n_in;
    (void)in;
    (void)out;
    *n_out = 0;
    return STATUS_OK;
}

static void a_method_in_c_may_change_all_of_its_module(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *root = make_changing(ctx);
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, module_remove(ctx, root, "step"));
    CHECK_OK(ctx, module_set_forward(ctx, module_child(root, "sub"), "touch", do_nothing));
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph forward(%self : module) {\n"
                              "  %s = getattr(%self) name=\"sub\"\n"
                              "  call(%s) method=\"touch\"\n"
                              "  %a = getattr(%self) name=\"a\"\n"
                              "  %c = getattr(%self) name=\"same.c\"\n"
                              "  return %a, %c\n"
                              "}\n",
                              NULL, &graph));
    const char *const names[] = {"attributes", NULL};
    pass_options_t options = {.self = root};
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    assert_false(reads_attribute(result, "a"));
    assert_true(reads_attribute(result, "same.c"));
    graph_release(result);
    graph_release(graph);
    module_release(root);
}

/* ---- the driver ---- */

static const char *const two_relus = "graph f(%x : f32[2,3]) {\n"
                                     "  %a = dropout(%x) p=0.25\n"
                                     "  %b = relu(%a)\n"
                                     "  return %b\n"
                                     "}\n";

static void an_unknown_pass_is_named(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, graph_parse(ctx, two_relus, NULL, &graph));
    const char *const names[] = {"dead_code", "fold_everything", NULL};
    CHECK_FAILS(ctx, pass_run(ctx, graph, names, NULL, &result), STATUS_INVALID_ARGUMENT,
                "\"fold_everything\" to run is not a pass");
    pass_options_t options = {.skip = names};
    CHECK_FAILS(ctx, pass_run(ctx, graph, pass_pipeline_graph(), &options, &result),
                STATUS_INVALID_ARGUMENT, "\"fold_everything\" to skip is not a pass");
    options = (pass_options_t){.after = "nothing"};
    CHECK_FAILS(ctx, pass_run(ctx, graph, pass_pipeline_graph(), &options, &result),
                STATUS_INVALID_ARGUMENT, "\"nothing\" to dump after is not a pass");
    assert_null(result);
    graph_release(graph);
}

static void count_dump(void *user, const char *pass, const char *text)
{
    int *n = user;
    assert_non_null(pass_find(pass));
    assert_non_null(strstr(text, "graph f("));
    ++*n;
}

static void each_pass_can_be_dumped_and_skipped(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL, *result = NULL;
    int n = 0;
    CHECK_OK(ctx, graph_parse(ctx, two_relus, NULL, &graph));
    const char *const names[] = {"remove_identity", "dead_code", NULL};
    pass_options_t options = {.after = "each", .dump = count_dump, .dump_user = &n};
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    assert_int_equal(n, 2);
    assert_int_equal(graph_n_nodes(result), 1);
    graph_release(result);

    options.skip = (const char *const[]){"remove_identity", NULL};
    options.after = "dead_code";
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    assert_int_equal(n, 3);
    assert_ptr_equal(result, graph);
    graph_release(result);
    graph_release(graph);
}

static void passes_that_change_numerics_can_be_left_out(void **state)
{
    context_t *ctx = fixture_context(state);
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, graph_parse(ctx,
                              "graph f(%x : f32[1,2,4,4], %w : f32[2,2,1,1]) {\n"
                              "  %a = conv2d(%x, %w, none)\n"
                              "  %b = relu(%a)\n"
                              "  return %b\n"
                              "}\n",
                              NULL, &graph));
    const char *const names[] = {"fuse_post_ops", NULL};
    pass_options_t options = {.keep_numerics = true};
    CHECK_OK(ctx, pass_run(ctx, graph, names, &options, &result));
    assert_ptr_equal(result, graph);
    graph_release(result);
    CHECK_OK(ctx, pass_run(ctx, graph, names, NULL, &result));
    assert_int_equal(graph_n_nodes(result), 1);
    graph_release(result);
    graph_release(graph);
}

static void groups_are_repeated_until_nothing_changes(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const chain[] = {"[", "dead_code", "]", NULL};
    static const char *const open[] = {"[", "dead_code", NULL};
    static const char *const closed[] = {"dead_code", "]", NULL};
    static const char *const nested[] = {"[", "[", "dead_code", "]", "]", NULL};
    graph_t *graph = NULL, *result = NULL;
    CHECK_OK(ctx, graph_parse(ctx, "graph f(%x) { \n%a = relu(%x)\n%b = relu(%a)\nreturn %x\n}\n",
                              NULL, &graph));
    CHECK_OK(ctx, pass_run(ctx, graph, chain, NULL, &result));
    assert_int_equal(graph_n_nodes(result), 0);
    graph_release(result);
    CHECK_FAILS(ctx, pass_run(ctx, graph, open, NULL, &result), STATUS_INVALID_ARGUMENT,
                "pass_run: \"[\" has no matching bracket");
    CHECK_FAILS(ctx, pass_run(ctx, graph, closed, NULL, &result), STATUS_INVALID_ARGUMENT,
                "pass_run: \"]\" has no matching bracket");
    CHECK_FAILS(ctx, pass_run(ctx, graph, nested, NULL, &result), STATUS_INVALID_ARGUMENT,
                "pass_run: \"[\" has no matching bracket");
    graph_release(graph);
}

static void the_table_and_the_pipelines_agree(void **state)
{
    (void)state;
    for (int i = 0; i < pass_count(); i++) {
        assert_ptr_equal(pass_find(pass_at(i)->name), pass_at(i));
        assert_true(strlen(pass_at(i)->contract) > 0);
    }
    const char *const *const pipelines[] = {pass_pipeline_graph(), pass_pipeline_plan(),
                                            pass_pipeline_freeze(), pass_pipeline_optimize(),
                                            pass_pipeline_calibrate()};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++)
        for (const char *const *name = pipelines[i]; *name != NULL; name++)
            assert_true(strcmp(*name, "[") == 0 || strcmp(*name, "]") == 0 ||
                        pass_find(*name) != NULL);
    assert_null(pass_find("nothing"));
    assert_null(pass_at(-1));
    assert_null(pass_at(pass_count()));
}

/* ---- allocation ---- */

/* Makes the pool of a graph: a list of a weight, a statistic, and a tensor as large as the
 * result. */
static status_t make_pool(context_t *ctx, datum_t *pool)
{
    static const int64_t sizes[3][4] = {{4, 3, 3, 3}, {4, 0, 0, 0}, {4, 1, 1, 0}};
    static const int ranks[3] = {4, 1, 3};
    for (int i = 0; i < 3; i++) {
        tensor_t *tensor = NULL;
        datum_t *datum = NULL;
        TRY(tensor_full(ctx, DTYPE_F32, ranks[i], sizes[i], 0.5, &tensor));
        status_t status = datum_tensor(ctx, tensor, &datum);
        tensor_release(tensor);
        if (status == STATUS_OK) status = datum_append(ctx, pool, datum);
        datum_release(datum);
        TRY(status);
    }
    return STATUS_OK;
}

static status_t optimize(context_t *ctx)
{
    static const char *const text = "graph f(%x : f32[1,3,5,5], %r : f32[1,4,3,3]) {\n"
                                    "  %w = constant() value=$0\n"
                                    "  %s = constant() value=$1\n"
                                    "  %c = constant() value=$2\n"
                                    "  %d = add(%c, %c)\n"
                                    "  %y1 = conv2d(%x, %w, none) at \"conv\"\n"
                                    "  %y2 = batch_norm(%y1, %s, %s, %s, %s)\n"
                                    "  %y3 = mul(%y2, %d)\n"
                                    "  %y4 = dropout(%y3)\n"
                                    "  %y5 = add(%y4, %r)\n"
                                    "  %y6 = relu(%y5)\n"
                                    "  %k = loop(2, true, 1) do (%i, %p) {\n"
                                    "    %q = scalar_add(%p, %i)\n"
                                    "    yield true, %q\n"
                                    "  }\n"
                                    "  %y7 = mul(%y6, %k)\n"
                                    "  return %y7\n"
                                    "}\n";
    datum_t *pool = NULL;
    graph_t *graph = NULL, *constant = NULL, *result = NULL;
    TRY(dispatch_set_policy(ctx, POLICY_AUTO)); /* otherwise it hides a failed allocation */
    TRY(datum_list(ctx, 0, NULL, &pool));
    status_t status = make_pool(ctx, pool);
    if (status == STATUS_OK) status = graph_parse(ctx, text, pool, &graph);
    if (status == STATUS_OK) status = pass_run(ctx, graph, pass_pipeline_freeze(), NULL, &constant);
    if (status == STATUS_OK)
        status = pass_run(ctx, constant, pass_pipeline_optimize(), NULL, &result);
    graph_release(result);
    graph_release(constant);
    graph_release(graph);
    datum_release(pool);
    return status;
}

static void every_allocation_of_the_pipeline_may_fail(void **state)
{
    (void)state;
    check_every_allocation(optimize);
}

int main(void)
{
    static struct CMUnitTest tests[MAX_TESTS] = {
        TEST(attributes_that_another_method_changes_stay),
        TEST(a_method_in_c_may_change_all_of_its_module),
        TEST(an_unknown_pass_is_named),
        TEST(each_pass_can_be_dumped_and_skipped),
        TEST(passes_that_change_numerics_can_be_left_out),
        TEST(groups_are_repeated_until_nothing_changes),
        TEST(the_table_and_the_pipelines_agree),
        TEST(every_allocation_of_the_pipeline_may_fail),
    };
    glob_t files;
    size_t n = 0;
    while (tests[n].test_func != NULL) n++;
    if (glob(TESSERA_SOURCE_DIR "/tests/graph/passes/*.graph", 0, NULL, &files) != 0) return 1;
    for (size_t i = 0; i < files.gl_pathc && n < MAX_TESTS; i++)
        tests[n++] = (struct CMUnitTest){.name = strrchr(files.gl_pathv[i], '/') + 1,
                                         .test_func = file_of_cases,
                                         .setup_func = begin_file,
                                         .teardown_func = fixture_teardown,
                                         .initial_state = files.gl_pathv[i]};
    const int n_failed = n < MAX_TESTS ? _cmocka_run_group_tests("passes", tests, n, NULL, NULL)
                                       : 1;
    globfree(&files);
    return n_failed;
}
