/* Operators on tensors with gaps, with stride 0, or with elements that overlap, as expand, slice
 * with a step, and as_strided make them. oneDNN supports only some of these. */
#include "tests/support/support.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "graph/program/plan.h"
#include "module/mkldnn.h"
#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/case.h"
#include "tests/support/nets/subject.h"

typedef enum source {
    SOURCE_EXPANDED, /* stride 0 in dimension 1 (of a vector: 0) */
    SOURCE_REPEATED, /* stride 0 in the last dimension */
    SOURCE_STEPPED,  /* every third element of a row */
    SOURCE_OVERLAPPED,
    SOURCE_PERMUTED, /* permuted, and every second element */
    SOURCE_COUNT
} source_t;

static const char *const source_names[SOURCE_COUNT] = {"expanded", "repeated", "stepped",
                                                       "overlapped", "permuted"};

static void choose_strides(source_t source, int rank, const int64_t *sizes, int64_t *strides)
{
    int64_t step = source == SOURCE_STEPPED ? 3 : source == SOURCE_PERMUTED ? 2 : 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= sizes[d];
    }
    if (source == SOURCE_OVERLAPPED)
        for (int d = 0; d < rank; d++) strides[d] = rank - d;
    if (source == SOURCE_REPEATED) strides[rank - 1] = 0;
    if (source == SOURCE_EXPANDED) strides[rank > 1 ? 1 : 0] = 0;
    if (source == SOURCE_PERMUTED && rank > 1) {
        strides[rank - 1] = 2 * sizes[rank - 2];
        strides[rank - 2] = 2;
    }
}

/* Makes a tensor with these strides and random elements, which are positive if the case says so. */
static tensor_t *make_source(context_t *ctx, source_t source, const case_operand_t *operand)
{
    int64_t strides[TENSOR_MAX_RANK], last = 0;
    choose_strides(source, operand->rank, operand->sizes, strides);
    for (int d = 0; d < operand->rank; d++) last += (operand->sizes[d] - 1) * strides[d];
    case_operand_t base = *operand;
    base.rank = 1;
    base.sizes[0] = last + 1;
    tensor_t *bytes = NULL, *view = NULL;
    CHECK_OK(ctx, case_fill(ctx, &base, &bytes));
    CHECK_OK(ctx, tensor_as_strided(ctx, bytes, operand->rank, operand->sizes, strides, 0, &view));
    tensor_release(bytes);
    return view;
}

typedef struct trial {
    context_t *ctx;
    const opdef_t *op;
    const char *text;
    case_call_t call;
    tensor_t *in[CASE_MAX_INPUTS];
} trial_t;

static void check_run(const trial_t *t, const tensor_t *const *in, policy_t policy)
{
    context_t *ctx = t->ctx;
    tensor_t *out = NULL;
    double error = 1;
    CHECK_OK(ctx, dispatch_set_policy(ctx, policy));
    CHECK_OK(ctx, dispatch_run(ctx, t->op, t->call.attrs, t->call.n_in, in, NULL, &out));
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
    const tensor_t *result = out;
    CHECK_OK(ctx, dispatch_verify(ctx, t->op, t->call.attrs, t->call.n_in,
                                  (const tensor_t *const *)t->in, 1, &result, 64, &error));
    if (!(error <= 1.0)) fail_msg("%s %s: off by %g times its bound", t->op->name, t->text, error);
    tensor_release(out);
}

/* Runs the call with each policy, and if operand 0 is the strided one, with an mkldnn copy of
 * it. */
static void check_policies(const trial_t *t, int strided)
{
    tensor_t *snapshot = NULL;
    const tensor_t *in[CASE_MAX_INPUTS];
    memcpy(in, t->in, sizeof in);
    check_run(t, in, POLICY_AUTO);
    check_run(t, in, POLICY_PER_OP);
    check_run(t, in, POLICY_STRICT);
    if (strided != 0) return;
    CHECK_OK(t->ctx, to_mkldnn(t->ctx, t->in[0], &snapshot));
    in[0] = snapshot;
    check_run(t, in, POLICY_AUTO);
    check_run(t, in, POLICY_PER_OP);
    tensor_release(snapshot);
}

/* Runs the call for each operand and each kind of strides. */
static void check_call(context_t *ctx, const char *name, const char *text)
{
    trial_t t = {.ctx = ctx, .op = ops_find(name), .text = text};
    CHECK_OK(ctx, case_parse(ctx, t.op, text, &t.call));
    for (int k = 0; k < t.call.n_in * SOURCE_COUNT; k++) {
        int strided = k / SOURCE_COUNT;
        if (t.call.in[strided].dtype == DTYPE_NONE) continue;
        for (int i = 0; i < t.call.n_in; i++) {
            if (i == strided)
                t.in[i] = make_source(ctx, (source_t)(k % SOURCE_COUNT), &t.call.in[i]);
            else
                CHECK_OK(ctx, case_fill(ctx, &t.call.in[i], &t.in[i]));
        }
        check_policies(&t, strided);
        for (int i = 0; i < t.call.n_in; i++) tensor_release(t.in[i]);
    }
}

static void every_operand_may_have_gaps_and_overlaps(void **state)
{
    static const char *const calls[][2] = {
        {"conv1d", "(f32[2,16,9], f32[16,16,3], f32[16])"},
        {"conv2d", "(f32[2,16,5,5], f32[16,16,3,3], f32[16]) padding=[1,1]"},
        {"conv2d", "(f32[2,16,5,5], f32[16,1,3,3], none) groups=16"},
        {"conv2d", "(f32[1,3,7,7], f32[8,3,3,3], none) stride=[2,2]"},
        {"conv3d", "(f32[1,4,3,4,3], f32[8,4,2,2,2], none)"},
        {"conv_transpose2d", "(f32[2,16,5,5], f32[16,8,3,3], f32[8]) stride=[2,2]"},
        {"linear", "(f32[4,16], f32[8,16], f32[8])"},
        {"linear", "(f32[2,3,16], f32[8,16], none)"},
        {"linear", "(f32[2,16,3,3], f32[10,144], f32[10]) flatten=true"},
        {"matmul", "(f32[2,5,7], f32[7,6])"},
        {"max_pool2d", "(f32[2,16,6,6]) kernel=[2,2] stride=[2,2]"},
        {"avg_pool2d", "(f32[2,16,6,6]) kernel=[3,3] stride=[1,1]"},
        {"adaptive_avg_pool", "(f32[2,16,6,6]) output_size=[1,1]"},
        {"resize", "(f32[2,16,4,5]) sizes=[8,10]"},
        {"resize", "(f32[2,16,4,5]) sizes=[8,10] mode=\"linear\" coordinates=\"half_pixel\""},
        {"batch_norm", "(f32[2,16,5,5], f32[16], f32[16], f32[16], f32[16]+)"},
        {"layer_norm", "(f32[2,5,16], f32[16], f32[16])"},
        {"lrn", "(f32[2,16,5,5]) size=5"},
        {"softmax", "(f32[2,16,5,5]) dim=1"},
        {"relu", "(f32[2,16,5,5])"},
        {"prelu", "(f32[2,16,5,5], f32[16])"},
        {"add", "(f32[2,16,5,5], f32[2,16,5,5])"},
        {"concat", "(f32[2,16,5,5], f32[2,16,5,5]) dim=1"},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        check_call(fixture_context(state), calls[i][0], calls[i][1]);
}

/* Converts to a blocked format, and copies from it to a tensor with gaps. */
static void tensors_with_gaps_or_overlaps_can_be_blocked(void **state)
{
    context_t *ctx = fixture_context(state);
    const case_operand_t operand = {.dtype = DTYPE_F32, .rank = 4, .sizes = {2, 17, 5, 5}};
    static const char *const formats[] = {"aBcd16b", "aBcd8b", "acdb", "abcd"};
    for (int k = 0; k < SOURCE_COUNT * 4; k++) {
        tensor_t *x = make_source(ctx, (source_t)(k / 4), &operand), *blocked = NULL;
        double difference = 1;
        CHECK_OK(ctx, convert_reorder(ctx, x, formats[k % 4], &blocked));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, blocked, x, &difference));
        if (difference != 0)
            fail_msg("%s into %s: off by %g", source_names[k / 4], formats[k % 4], difference);
        tensor_t *clone = NULL, *view = NULL;
        CHECK_OK(ctx, tensor_clone(ctx, x, &clone));
        int64_t strides[4] = {17 * 75, 75, 15, 3};
        tensor_t *base = NULL;
        CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, 1, &(int64_t){2 * 17 * 75}, &base));
        CHECK_OK(ctx, tensor_as_strided(ctx, base, 4, operand.sizes, strides, 0, &view));
        CHECK_OK(ctx, tensor_copy(ctx, view, blocked));
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, view, clone, &difference));
        assert_true(difference == 0);
        tensor_release(base);
        tensor_release(view);
        tensor_release(clone);
        tensor_release(blocked);
        tensor_release(x);
    }
}

/* ---- networks ---- */

static void run_net(context_t *ctx, const subject_t *s, module_t *net, policy_t policy,
                    tensor_t **out)
{
    int n = 1;
    CHECK_OK(ctx, dispatch_set_policy(ctx, policy));
    CHECK_OK(ctx, module_call_tensors(ctx, net, "forward", s->n_in, (const tensor_t *const *)s->in,
                                      &n, out));
    CHECK_OK(ctx, dispatch_set_policy(ctx, POLICY_AUTO));
}

/* Runs a graph in five ways: row-major between operators, blocked, with packed weights, as plans,
 * and frozen. */
static void check_net(context_t *ctx, const char *parameters, const char *input, const char *body)
{
    subject_t s = subject_begin(ctx, parameters, input, body);
    tensor_t *plain = NULL, *out[4] = {NULL};
    run_net(ctx, &s, s.net, POLICY_PER_OP, &plain);
    run_net(ctx, &s, s.net, POLICY_AUTO, &out[0]);
    CHECK_OK(ctx, module_mkldnn(ctx, s.net, NULL));
    run_net(ctx, &s, s.net, POLICY_AUTO, &out[1]);
    graph_t *graph = graph_retain(graph_of(s.net, "forward"));
    CHECK_OK(ctx, plan_set_method(ctx, s.net, "forward", graph, 0));
    graph_release(graph);
    run_net(ctx, &s, s.net, POLICY_AUTO, &out[2]);
    run_net(ctx, &s, s.frozen, POLICY_AUTO, &out[3]);
    for (int i = 0; i < 4; i++) {
        double difference = 1;
        CHECK_OK(ctx, tensor_max_rel_diff(ctx, out[i], plain, &difference));
        if (!(difference <= 1e-5)) fail_msg("run %d of %s: off by %g", i, body, difference);
        tensor_release(out[i]);
    }
    tensor_release(plain);
    subject_end(&s);
}

/* The first operators of a graph, which make the input of 16 channels. */
static const char *const openings[] = {
    "%t = expand(%x) sizes=[2,16,6,6]\n",
    "%u = concat(%x, %x, %x) dim=3\n"
    "%e = expand(%u) sizes=[2,16,6,18]\n"
    "%t = slice(%e) dim=3 step=3\n",
    "%u = expand(%x) sizes=[2,16,6,6]\n"
    "%p = permute(%u) dims=[0,1,3,2]\n"
    "%t = slice(%p) dim=2 step=1\n",
};

static void networks_take_what_expand_and_slice_give(void **state)
{
    static const char *const consumers[][2] = {
        {"w=8,16,3,3", "%y = conv2d(%t, %w) padding=[1,1]\n"},
        {"w=16,1,3,3", "%y = conv2d(%t, %w) groups=16\n"},
        {"w=1,16,3,3", "%k = expand(%w) sizes=[8,16,3,3]\n%y = conv2d(%t, %k)\n"},
        {"w=16,8,2,2", "%y = conv_transpose2d(%t, %w) stride=[2,2]\n"},
        {"w=4,6", "%y = linear(%t, %w)\n"},
        {"w=1,6", "%k = expand(%w) sizes=[4,6]\n%y = linear(%t, %k)\n"},
        {"", "%y = max_pool2d(%t) kernel=[2,2] stride=[2,2]\n"},
        {"", "%y = avg_pool2d(%t) kernel=[2,2] stride=[2,2]\n"},
        {"", "%y = resize(%t) sizes=[12,12]\n"},
        {"g=16 b=16 m=16 v=16", "%y = batch_norm(%t, %g, %b, %m, %v)\n"},
    };
    for (size_t i = 0; i < sizeof openings / sizeof openings[0]; i++)
        for (size_t k = 0; k < sizeof consumers / sizeof consumers[0]; k++) {
            char body[1024];
            snprintf(body, sizeof body, "%s%s%%z = relu(%%y)\nreturn %%z\n", openings[i],
                     consumers[k][1]);
            check_net(fixture_context(state), consumers[k][0], "%x : f32[2,1,6,6]", body);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tensors_with_gaps_or_overlaps_can_be_blocked),
        TEST(every_operand_may_have_gaps_and_overlaps),
        TEST(networks_take_what_expand_and_slice_give),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
