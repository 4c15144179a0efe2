#include "tests/support/nets/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/program/plan.h"

/* ---- nets ---- */

/* Parses "w=8,3,3,3 v=8" and adds random parameters; those whose names begin with v are between 0.5
 * and 1.5, for variances and divisors. */
static void add_parameters(context_t *ctx, module_t *net, const char *parameters)
{
    char name[16], sizes_text[64];
    int length = 0;
    for (; sscanf(parameters, " %15[^=]=%63s%n", name, sizes_text, &length) == 2;
         parameters += length) {
        int64_t sizes[TENSOR_MAX_RANK];
        int rank = 0;
        for (char *at = sizes_text; *at != '\0'; at += *at == ',')
            sizes[rank++] = strtoll(at, &at, 10);
        tensor_t *tensor = NULL;
        if (name[0] == 'v') {
            CHECK_OK(ctx, tensor_rand(ctx, DTYPE_F32, rank, sizes, &tensor));
            float *values = NULL;
            CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, (void **)&values));
            for (int64_t i = 0; i < tensor_numel(tensor); i++) values[i] += 0.5f;
        } else {
            CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, rank, sizes, &tensor));
        }
        CHECK_OK(ctx, module_set_parameter(ctx, net, name, tensor));
        tensor_release(tensor);
    }
}

static void append_getattrs(const module_t *net, const char *parameters, char *text, size_t size)
{
    char name[16];
    int length = 0;
    for (; sscanf(parameters, " %15[^=]=%*s%n", name, &length) == 1; parameters += length) {
        char type[INFO_TEXT_MAX];
        info_text(tensor_info(module_parameter(net, name)), type);
        size_t used = strlen(text);
        snprintf(text + used, size - used, "  %%%s = getattr(%%self) name=\"%s\" : %s\n", name,
                 name, type);
    }
}

/* Defines a method. Before the body, a getattr reads each parameter. */
void subject_method(context_t *ctx, module_t *net, const char *method, const char *parameters,
                    const char *inputs, const char *body)
{
    char text[8192];
    snprintf(text, sizeof text, "graph %s(%%self : module, %s) {\n", method, inputs);
    append_getattrs(net, parameters, text, sizeof text);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s}\n", body);
    CHECK_OK(ctx, graph_define(ctx, net, text));
}

module_t *subject_net(context_t *ctx, const char *parameters, const char *inputs, const char *body)
{
    module_t *net = NULL;
    CHECK_OK(ctx, module_create(ctx, "Net", &net));
    add_parameters(ctx, net, parameters);
    subject_method(ctx, net, "forward", parameters, inputs, body);
    return net;
}

/* ---- runs ---- */

static void fill_inputs(subject_t *s)
{
    const graph_t *graph = graph_of(s->net, "forward");
    const graph_block_t *body = graph_body(graph);
    for (int i = 1; i < body->n_params; i++) {
        const graph_type_t *type = graph_value_type(graph, body->params[i]);
        assert_true(type->kind == TYPE_TENSOR && type->has_info && s->n_in < SUBJECT_MAX_INPUTS);
        bool is_float = dtype_is_floating(type->info.dtype);
        tensor_t **in = &s->in[s->n_in++];
        if (is_float)
            CHECK_OK(s->ctx,
                     tensor_randn(s->ctx, type->info.dtype, type->info.rank, type->info.sizes, in));
        else
            CHECK_OK(s->ctx, tensor_full(s->ctx, type->info.dtype, type->info.rank,
                                         type->info.sizes, 1, in));
    }
}

static const tensor_t *const *inputs(const subject_t *s)
{
    return (const tensor_t *const *)s->in;
}

subject_t subject_begin(context_t *ctx, const char *parameters, const char *inputs_text,
                        const char *body)
{
    subject_t s = {.ctx = ctx};
    graph_t *graph = NULL;
    s.net = subject_net(ctx, parameters, inputs_text, body);
    fill_inputs(&s);
    CHECK_OK(ctx, freeze(ctx, s.net, NULL, &s.frozen));
    CHECK_OK(ctx, graph_for(ctx, s.frozen, "forward", s.n_in, inputs(&s), &graph));
    s.text = text_begin(ctx);
    CHECK_OK(ctx, graph_print(ctx, graph, NULL, &s.text));
    graph_release(graph);
    return s;
}

void subject_end(subject_t *s)
{
    for (int i = 0; i < s->n_in; i++) tensor_release(s->in[i]);
    text_clear(&s->text);
    module_release(s->frozen);
    module_release(s->net);
}

static void run(const subject_t *s, module_t *module, int *n_out, tensor_t **out)
{
    *n_out = OP_MAX_OUTPUTS;
    CHECK_OK(s->ctx,
             module_call_tensors(s->ctx, module, "forward", s->n_in, inputs(s), n_out, out));
}

static void compare(const subject_t *s, module_t *a, module_t *b, double tolerance)
{
    tensor_t *x[OP_MAX_OUTPUTS], *y[OP_MAX_OUTPUTS];
    int n_x = 0, n_y = 0;
    run(s, a, &n_x, x);
    run(s, b, &n_y, y);
    assert_int_equal(n_x, n_y);
    for (int i = 0; i < n_x; i++) {
        double difference = 1.0;
        CHECK_OK(s->ctx, tensor_max_rel_diff(s->ctx, x[i], y[i], &difference));
        if (!(difference <= tolerance))
            fail_msg("result %d differs by %g in\n%s", i, difference, text_string(&s->text));
        tensor_release(x[i]);
        tensor_release(y[i]);
    }
}

void subject_check_values(const subject_t *s)
{
    static const char *const skip[] = {"fuse_post_ops", "merge_shared_inputs", NULL};
    module_t *unfused = NULL;
    CHECK_OK(s->ctx, freeze(s->ctx, s->net, &(freeze_options_t){.skip = skip}, &unfused));
    compare(s, s->frozen, unfused, 1e-5);
    compare(s, s->frozen, s->net, 1e-4);
    module_release(unfused);
}

int subject_count(const subject_t *s, const char *part)
{
    int n = 0;
    for (const char *at = text_string(&s->text); (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

void subject_check_count(const subject_t *s, const char *part, int wanted)
{
    if (subject_count(s, part) != wanted)
        fail_msg("\"%s\" stands %d times, not %d, in\n%s", part, subject_count(s, part), wanted,
                 text_string(&s->text));
}

static uint64_t moves(const counters_t *counters, reorder_cause_t cause)
{
    return counters->reorders[cause] + counters->copies[cause];
}

/* A tensor may leave blocked formats before the end if dense tensors are cheaper for the rest, e.g.
 * for few channels. */
void subject_check_borders(const subject_t *s, uint64_t n_out)
{
    tensor_t *out[OP_MAX_OUTPUTS];
    counters_t counters;
    int n = 0;
    run(s, s->frozen, &n, out);
    for (int i = 0; i < n; i++) tensor_release(out[i]);
    counters_reset(s->ctx);
    run(s, s->frozen, &n, out);
    counters_read(s->ctx, &counters);
    for (int i = 0; i < n; i++) tensor_release(out[i]);
    assert_int_equal(moves(&counters, CAUSE_WEIGHT), 0);
    assert_true(moves(&counters, CAUSE_INPUT) <= 1);
    assert_true(moves(&counters, CAUSE_OUTPUT) + moves(&counters, CAUSE_MISMATCH) <= n_out);
}
