/* Random programs with writes in place, views, lists, branches and loops. Passes must not change
 * the results, nor the writes to inputs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/passes/pass.h"
#include "tests/support/support.h"

#define N_PROGRAMS 60
#define N_ELEMENTS 4
#define MAX_VALUES 48

/* the context of the running test */
static context_t *ctx;

static int setup(void **state)
{
    int failed = fixture_setup(state);
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

/* ---- programs ---- */

typedef struct program {
    char text[8192];
    size_t length;
    uint32_t seed;
    int n_made;
    int tensors[MAX_VALUES], n_tensors; /* visible to the next statement */
    int lists[MAX_VALUES], n_lists;
} program_t;

static unsigned draw(program_t *program, unsigned n)
{
    program->seed = program->seed * 1664525u + 1013904223u;
    return (program->seed >> 16) % n;
}

/* Picks the newest tensor half of the time. */
static int any_tensor(program_t *program)
{
    unsigned n = (unsigned)program->n_tensors;
    return program->tensors[draw(program, 2) == 0 ? n - 1 : draw(program, n)];
}

static void put(program_t *program, const char *text)
{
    size_t length = strlen(text);
    assert_true(program->length + length < sizeof program->text);
    memcpy(program->text + program->length, text, length + 1);
    program->length += length;
}

#define PUT(program, ...) (snprintf(line, sizeof line, __VA_ARGS__), put((program), line))

static void add_tensor(program_t *program, int value)
{
    program->tensors[program->n_tensors++] = value;
}

static void add_statements(program_t *program, int n, int depth);

static void add_branch(program_t *program, int depth)
{
    char line[128];
    int n_tensors = program->n_tensors, n_lists = program->n_lists;
    int condition = program->n_made++, result = program->n_made++;
    PUT(program, "%%v%d = mean(%%v%d) dims=[0]\n", condition, any_tensor(program));
    PUT(program, "%%v%d = if(%%v%d) {\n", result, condition);
    for (int b = 0; b < 2; b++) {
        add_statements(program, 3, depth + 1);
        PUT(program, "yield %%v%d\n}%s\n", any_tensor(program), b == 0 ? " else {" : "");
        program->n_tensors = n_tensors;
        program->n_lists = n_lists;
    }
    add_tensor(program, result);
}

static void add_loop(program_t *program, int depth)
{
    char line[128];
    int n_tensors = program->n_tensors, n_lists = program->n_lists;
    int result = program->n_made++, index = program->n_made++, carried = program->n_made++;
    PUT(program, "%%v%d = loop(2, true, %%v%d) do (%%v%d, %%v%d) {\n", result, any_tensor(program),
        index, carried);
    add_tensor(program, carried);
    add_statements(program, 3, depth + 1);
    PUT(program, "yield true, %%v%d\n}\n", any_tensor(program));
    program->n_tensors = n_tensors;
    program->n_lists = n_lists;
    add_tensor(program, result);
}

static void add_list_statement(program_t *program)
{
    char line[128];
    int made = program->n_made++;
    if (program->n_lists == 0 || draw(program, 3) == 0) {
        PUT(program, "%%v%d = list(%%v%d, %%v%d) : list<tensor>\n", made, any_tensor(program),
            any_tensor(program));
        program->lists[program->n_lists++] = made;
        return;
    }
    int list = program->lists[draw(program, (unsigned)program->n_lists)];
    if (draw(program, 3) == 0) PUT(program, "append(%%v%d, %%v%d)\n", list, any_tensor(program));
    PUT(program, "%%v%d = index(%%v%d, %d)\n", made, list, (int)draw(program, 2) - 1);
    add_tensor(program, made);
}

static void add_operator(program_t *program)
{
    static const char *const forms[][2] = {
        {"relu_(", ")"}, {"add_(", ", 1.5)"}, {"mul_(", ", -0.5)"},        {"neg_(", ")"},
        {"neg(", ")"},   {"tanh(", ")"},      {"reshape(", ") sizes=[4]"}, {"identity(", ")"},
        {"neg(", ")"},   {"mul(", ", 2.0)"},
    };
    char line[128];
    int made = program->n_made++;
    unsigned kind = draw(program, 12);
    if (kind >= 10)
        PUT(program, "%%v%d = add%s(%%v%d, %%v%d)\n", made, kind == 10 ? "_" : "",
            any_tensor(program), any_tensor(program));
    else
        PUT(program, "%%v%d = %s%%v%d%s\n", made, forms[kind][0], any_tensor(program),
            forms[kind][1]);
    add_tensor(program, made);
}

static void add_statements(program_t *program, int n, int depth)
{
    for (int i = 0; i < n; i++) {
        unsigned kind = draw(program, 10);
        if (kind == 0 && depth < 2)
            add_branch(program, depth);
        else if (kind == 1 && depth < 2)
            add_loop(program, depth);
        else if (kind <= 3)
            add_list_statement(program);
        else
            add_operator(program);
    }
}

static graph_t *make_program(uint32_t seed)
{
    char line[128];
    program_t program = {.seed = seed, .n_made = 2, .tensors = {0, 1}, .n_tensors = 2};
    PUT(&program, "graph f(%%v0 : f32[%d], %%v1 : f32[%d]) {\n", N_ELEMENTS, N_ELEMENTS);
    add_statements(&program, 12, 0);
    PUT(&program, "return %%v%d, %%v%d, %%v%d\n}\n", any_tensor(&program), any_tensor(&program),
        any_tensor(&program));
    graph_t *graph = NULL;
    CHECK_OK(ctx, graph_parse(ctx, program.text, NULL, &graph));
    CHECK_OK(ctx, graph_verify(ctx, graph));
    return graph;
}

/* ---- comparison ---- */

#define N_VALUES (5 * N_ELEMENTS)

/* Returns the three results, then the inputs after the run. */
static void run_program(const graph_t *graph, float *out_values)
{
    datum_t *in[2] = {NULL}, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = METHOD_MAX_OUTPUTS;
    for (int i = 0; i < 2; i++) {
        float elements[N_ELEMENTS];
        tensor_t *tensor = NULL;
        for (int k = 0; k < N_ELEMENTS; k++) elements[k] = (float)((i * 5 + k * 3) % 7) - 3.0f;
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 1, (int64_t[]){N_ELEMENTS}, elements, &tensor));
        CHECK_OK(ctx, datum_tensor(ctx, tensor, &in[i]));
        tensor_release(tensor);
    }
    CHECK_OK(ctx, graph_run(ctx, graph, NULL, 2, in, &n_out, out));
    datum_t *const all[] = {out[0], out[1], out[2], in[0], in[1]};
    for (int i = 0; i < 5; i++) {
        const void *data = NULL;
        CHECK_OK(ctx, tensor_data(ctx, datum_as_tensor(all[i]), &data));
        memcpy(out_values + (size_t)i * N_ELEMENTS, data, N_ELEMENTS * sizeof(float));
        datum_release(all[i]);
    }
}

static void print_graphs(const graph_t *a, const graph_t *b)
{
    const graph_t *const both[] = {a, b};
    for (int i = 0; i < 2; i++) {
        text_t text = text_begin(ctx);
        CHECK_OK(ctx, graph_print(ctx, both[i], NULL, &text));
        print_error("%s\n", text_string(&text));
        text_clear(&text);
    }
}

static int count_in_place(const graph_block_t *block)
{
    int n = 0;
    for (int i = 0; i < block->n_nodes; i++) {
        n += block->nodes[i]->is_in_place;
        for (int b = 0; b < block->nodes[i]->n_blocks; b++)
            n += count_in_place(block->nodes[i]->blocks[b]);
    }
    return n;
}

static void check_programs(const char *const *passes, int *out_before, int *out_behind)
{
    *out_before = *out_behind = 0;
    for (uint32_t seed = 1; seed <= N_PROGRAMS; seed++) {
        graph_t *graph = make_program(seed), *result = NULL;
        float before[N_VALUES], behind[N_VALUES];
        CHECK_OK(ctx, pass_run(ctx, graph, passes, NULL, &result));
        run_program(graph, before);
        run_program(result, behind);
        if (memcmp(before, behind, sizeof before) != 0) {
            print_error("program %u changed its meaning\n", seed);
            print_graphs(graph, result);
            fail();
        }
        *out_before += count_in_place(graph_body(graph));
        *out_behind += count_in_place(graph_body(result));
        graph_release(result);
        graph_release(graph);
    }
}

static void out_of_place_forms_compute_the_same(void **state)
{
    (void)state;
    static const char *const passes[] = {"functionalize", NULL};
    int before, behind;
    check_programs(passes, &before, &behind);
    assert_in_range(behind, before / 4, before - before / 16);
}

static void so_do_the_pipelines(void **state)
{
    (void)state;
    int before, behind;
    check_programs(pass_pipeline_graph(), &before, &behind);
    check_programs(pass_pipeline_freeze(), &before, &behind);
    check_programs(pass_pipeline_optimize(), &before, &behind);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(out_of_place_forms_compute_the_same, setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(so_do_the_pipelines, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
