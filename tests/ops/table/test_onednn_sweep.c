/* Random calls of every operator that has oneDNN kernels. Sizes are around 1, around block sizes,
 * and around 64, 96, 128 and 199; sources have any order of dimensions, or are blocked. Each kernel
 * is compared with the specification. tensor/onednn/faults.c lists the implementations that are
 * wrong, and for which calls.
 *
 * usage: test_onednn_sweep [CALLS [FIRST]]. "test_onednn_sweep 1 217" repeats call 217. A thorough
 * sweep has 20000 calls for each version of oneDNN and each ONEDNN_MAX_CPU_ISA. It prints how many
 * primitives ran for each operator. */
#include "tests/support/support.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dispatch/choose/choose_impl.h"
#include "dispatch/pack_impl.h"
#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/convert/convert_impl.h"
#include "tests/support/case.h"
#include "tests/support/seeded.h"

#define N_CALLS 400
#define N_CHECKED 160 /* elements checked per result */
#define MAX_ELEMENTS 60000
#define MAX_FAILURES 40
#define MAX_OPS 512

static int64_t n_calls = N_CALLS, first_call = 1;
static int n_failures, n_primitives, n_of_op[MAX_OPS];
static const opdef_t *ops_seen[MAX_OPS];

/* ---- the call's text ---- */

static char text[1024], op_name[48];

static TESSERA_PRINTF(1, 2) void add(const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
}

static TESSERA_PRINTF(1, 2) void name(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(op_name, sizeof op_name, format, arguments);
    va_end(arguments);
}

static bool one_in(int n)
{
    return seeded_below(n) == 0;
}

static int pick_size(void)
{
    static const int sizes[] = {1,  2,  3,  4,  7,  8,  9,  15,  16,  17,  24,  31,  32,  33,
                                48, 63, 64, 65, 95, 96, 97, 112, 127, 128, 129, 160, 161, 199};
    return sizes[seeded_below((int)(sizeof sizes / sizeof *sizes))];
}

static const char *pick_post(void)
{
    static const char *const posts[] = {"relu",          "leaky_relu(0.1)",
                                        "clamp(-0.5,2)", "tanh",
                                        "sigmoid",       "hardswish",
                                        "silu",          "gelu",
                                        "elu(0.5)",      "abs"};
    return posts[seeded_below((int)(sizeof posts / sizeof *posts))];
}

/* Appends an attribute such as " name=[a,b]". */
static void add_ints(const char *attribute, int n, const int *values)
{
    add(" %s=[", attribute);
    for (int i = 0; i < n; i++) add("%s%d", i > 0 ? "," : "", values[i]);
    add("]");
}

static void add_tensor(const char *dtype, int n, const int *sizes)
{
    add("%s[", dtype);
    for (int i = 0; i < n; i++) add("%s%d", i > 0 ? "," : "", sizes[i]);
    add("]");
}

/* Appends ", f32[n]" half of the time, else ", none". */
static void add_bias(int n)
{
    if (one_in(2))
        add(", f32[%d]", n);
    else
        add(", none");
}

/* ---- windows ---- */

typedef struct windows {
    int n, c, k, groups;
    int in[3], kernel[3], stride[3], dilation[3], padding[3], out[3];
} windows_t;

static windows_t pick_windows(bool is_transposed)
{
    static const int by_chance[] = {2, 2, 2, 1, 3};
    windows_t w = {.n = by_chance[seeded_below(5)], .groups = 1};
    const bool is_small = one_in(4);
    w.c = pick_size();
    w.k = pick_size();
    if (one_in(4)) w.groups = w.k = w.c;
    if (one_in(6) && w.c % 2 == 0 && w.k % 2 == 0) w.groups = 2;
    for (int i = 0; i < w.n; i++) {
        w.kernel[i] = one_in(8) ? 5 : one_in(3) ? 1 : 1 + seeded_below(3);
        w.stride[i] = one_in(3) ? 2 : 1;
        w.dilation[i] = one_in(5) ? 2 : 1;
        w.padding[i] = seeded_below(1 + w.kernel[i] / 2 * w.dilation[i]);
        const int reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
        const int least = is_transposed ? 1 + w.padding[i] : reach;
        w.in[i] = least + seeded_below(is_small ? 2 : w.n == 3 ? 5 : w.n == 2 ? 10 : 60);
        w.out[i] = (w.in[i] + 2 * w.padding[i] - reach) / w.stride[i] + 1;
    }
    return w;
}

static void add_image(const windows_t *w, const char *dtype, int n, int channels, const int *space)
{
    int sizes[5] = {n, channels};
    memcpy(&sizes[2], space, (size_t)w->n * sizeof *space);
    add_tensor(dtype, w->n + 2, sizes);
}

static void add_geometry(const windows_t *w)
{
    add_ints("stride", w->n, w->stride);
    add_ints("padding", w->n, w->padding);
    add_ints("dilation", w->n, w->dilation);
}

static void draw_conv(void)
{
    const windows_t w = pick_windows(false);
    const int n = 1 + seeded_below(2);
    static const char *const sums[] = {"\"sum\"", "\"add\"", "\"mul\""};
    const int which = seeded_below(3);
    /* Products are large. If they are multiplied by a function of them that is almost 0, errors
     * exceed the bound. */
    const bool has_sum = one_in(4), has_post = one_in(2) && !(has_sum && which == 2);
    name("conv%dd", w.n);
    add("(");
    add_image(&w, "f32", n, w.c, w.in);
    add(", ");
    add_image(&w, "f32", w.k, w.c / w.groups, w.kernel);
    add_bias(w.k);
    if (has_sum) add(", ");
    if (has_sum) add_image(&w, "f32", n, w.k, w.out);
    add(") groups=%d", w.groups);
    add_geometry(&w);
    if (has_sum || has_post)
        add(" post=[%s%s%s%s%s]", has_sum ? sums[which] : "", has_sum && has_post ? "," : "",
            has_post ? "\"" : "", has_post ? pick_post() : "", has_post ? "\"" : "");
}

static void draw_conv_transpose(void)
{
    const windows_t w = pick_windows(true);
    name("conv_transpose%dd", w.n);
    add("(");
    add_image(&w, "f32", 1 + seeded_below(2), w.c, w.in);
    add(", ");
    add_image(&w, "f32", w.c, w.k / w.groups, w.kernel);
    add_bias(w.k);
    add(") groups=%d", w.groups);
    add_geometry(&w);
}

static void draw_conv_backward(void)
{
    const windows_t w = pick_windows(false);
    const bool is_data = one_in(2);
    const int n = 1 + seeded_below(2);
    name("conv%dd_backward_%s", w.n, is_data ? "data" : "weight");
    add("(");
    if (is_data) {
        add_image(&w, "f32", n, w.k, w.out);
        add(", ");
        add_image(&w, "f32", w.k, w.c / w.groups, w.kernel);
    } else {
        add_image(&w, "f32", n, w.c, w.in);
        add(", ");
        add_image(&w, "f32", n, w.k, w.out);
    }
    add(") groups=%d", w.groups);
    add_geometry(&w);
    add_ints("size", w.n, is_data ? w.in : w.kernel);
    if (!is_data && one_in(2)) add(" bias=true");
}

static void draw_conv_integer(void)
{
    const windows_t w = pick_windows(false);
    name("conv%dd_integer", w.n);
    add("(");
    add_image(&w, one_in(2) ? "u8" : "s8", 1 + seeded_below(2), w.c, w.in);
    add(", ");
    add_image(&w, "s8", w.k, w.c / w.groups, w.kernel);
    add(", none, none) groups=%d", w.groups);
    add_geometry(&w);
}

static void draw_pool(void)
{
    windows_t w = pick_windows(false);
    const bool is_average = one_in(2);
    for (int i = 0; i < w.n; i++) {
        w.kernel[i] = w.kernel[i] == 1 ? 2 : w.kernel[i];
        if (w.in[i] < w.kernel[i]) w.in[i] = w.kernel[i];
        if (w.padding[i] > w.kernel[i] / 2) w.padding[i] = w.kernel[i] / 2;
    }
    name("%s_pool%dd", is_average ? "avg" : "max", w.n);
    add("(");
    add_image(&w, "f32", 1 + seeded_below(2), w.c, w.in);
    add(")");
    add_ints("kernel", w.n, w.kernel);
    add_ints("stride", w.n, w.stride);
    add_ints("padding", w.n, w.padding);
    if (is_average && one_in(2)) add(" count_include_pad=true");
}

/* ---- products ---- */

static void draw_linear(void)
{
    const int outputs = pick_size();
    int sizes[4] = {pick_size(), pick_size(), 1 + seeded_below(6), 1 + seeded_below(6)};
    const int rank = 2 + seeded_below(3);
    const bool is_flat = rank > 2 && !one_in(4);
    int features = sizes[rank - 1];
    for (int d = 1; is_flat && d < rank - 1; d++) features *= sizes[d];
    name("linear");
    add("(");
    add_tensor("f32", rank, sizes);
    add(", f32[%d,%d]", outputs, features);
    add_bias(outputs);
    add(")");
    if (is_flat) add(" flatten=true");
    if (one_in(3)) add(" post=[\"%s\"]", pick_post());
}

static void draw_linear_backward(void)
{
    const int n = pick_size(), c = pick_size(), k = pick_size();
    if (one_in(2)) {
        name("linear_backward_data");
        add("(f32[%d,%d], f32[%d,%d])", n, k, k, c);
    } else {
        name("linear_backward_weight");
        add("(f32[%d,%d], f32[%d,%d])", n, c, n, k);
    }
}

static void draw_matmul(void)
{
    const int m = pick_size(), k = pick_size(), n = pick_size();
    const int batch = 1 + seeded_below(3), heads = 1 + seeded_below(4);
    name("matmul");
    const int a[] = {batch, heads, m, k}, b[] = {batch, heads, k, n};
    const int rank = 2 + seeded_below(3), rank_of_b = one_in(4) ? 2 : rank;
    add("(");
    add_tensor("f32", rank, &a[4 - rank]);
    add(", ");
    add_tensor("f32", rank_of_b, &b[4 - rank_of_b]);
    add(")");
    if (one_in(4)) add(" post=[\"%s\"]", pick_post());
}

static void draw_matmul_integer(void)
{
    const int m = pick_size(), k = pick_size(), n = pick_size();
    name("matmul_integer");
    add("(%s[%d,%d], s8[%d,%d], none, none)", one_in(2) ? "u8" : "s8", m, k, k, n);
}

static void draw_recurrent(void)
{
    static const struct {
        const char *name, *states;
        int gates;
    } cells[] = {{"lstm", ", none, none, none, none", 4},
                 {"gru", ", none, none", 3},
                 {"rnn", ", none, none", 1}};
    const int which = seeded_below(3), t = 1 + seeded_below(4), n = 1 + seeded_below(9);
    const int c = pick_size(), h = pick_size(), rows = cells[which].gates * h;
    name("%s", cells[which].name);
    add("(f32[%d,%d,%d], f32[%d,%d], f32[%d,%d], f32[%d], none%s)", t, n, c, rows, c, rows, h, rows,
        cells[which].states);
    if (one_in(2)) add(" reverse=true");
}

/* ---- other operators ---- */

/* Chooses an image or a matrix. Blocks are of dimension 1. */
static int pick_shape(int *sizes)
{
    const int rank = 2 + seeded_below(4);
    for (int d = 0; d < rank; d++) sizes[d] = 1 + seeded_below(rank > 3 ? 9 : 20);
    sizes[1] = pick_size();
    if (rank == 2) sizes[0] = pick_size();
    return rank;
}

static void draw_unary(void)
{
    static const char *const ops[] = {"relu",    "elu",         "tanh",      "square", "abs",
                                      "sigmoid", "hardsigmoid", "hardswish", "silu",   "softplus",
                                      "gelu",    "leaky_relu",  "clamp",     "exp",    "relu6"};
    int sizes[5];
    const int rank = pick_shape(sizes);
    name("%s", ops[seeded_below((int)(sizeof ops / sizeof *ops))]);
    add("(");
    add_tensor("f32", rank, sizes);
    add(")%s", strcmp(op_name, "clamp") == 0 ? " min=-0.5 max=1.0" : "");
}

static void draw_binary(void)
{
    static const char *const ops[] = {"add", "sub", "mul", "div", "maximum", "minimum"};
    int sizes[5], other[5];
    const int rank = pick_shape(sizes), pattern = seeded_below(4);
    for (int d = 0; d < rank; d++)
        other[d] = pattern == 0 || (pattern == 1 && d == 1) || (pattern == 2 && d == 0) ? sizes[d]
                                                                                        : 1;
    name("%s", ops[seeded_below(6)]);
    add("(");
    add_tensor("f32", rank, sizes);
    add(", ");
    add_tensor("f32", rank, other);
    add("+)");
}

static void draw_norm(void)
{
    int sizes[5];
    const int rank = pick_shape(sizes), which = seeded_below(5), last = sizes[rank - 1];
    static const char *const names[] = {"batch_norm", "layer_norm", "softmax", "log_softmax",
                                        "lrn"};
    name("%s", names[which]);
    add("(");
    add_tensor("f32", rank, sizes);
    for (int i = 0; which == 0 && i < 4; i++) add(", f32[%d]%s", sizes[1], i == 3 ? "+" : "");
    if (which == 1) add_bias(last);
    if (which == 1) add_bias(last);
    add(")");
    if (which == 2 || which == 3) add(" dim=%d", one_in(2) ? rank - 1 : seeded_below(rank));
    if (which == 4) add(" size=%d alpha=0.5", 3 + 2 * seeded_below(2));
}

static void draw_mean(void)
{
    int sizes[5];
    const int rank = pick_shape(sizes);
    name("mean");
    add("(");
    add_tensor("f32", rank, sizes);
    add(")%s%s",
        rank == 3   ? " dims=[2]"
        : rank == 4 ? " dims=[2,3]"
        : rank == 5 ? " dims=[2,3,4]"
                    : "",
        one_in(2) ? " keepdim=true" : "");
}

static const struct {
    void (*draw)(void);
    int share;
} draws[] = {{draw_conv, 5},           {draw_conv_transpose, 2},
             {draw_conv_backward, 3},  {draw_conv_integer, 1},
             {draw_pool, 2},           {draw_linear, 5},
             {draw_matmul, 3},         {draw_linear_backward, 1},
             {draw_matmul_integer, 1}, {draw_recurrent, 1},
             {draw_unary, 1},          {draw_binary, 2},
             {draw_norm, 2},           {draw_mean, 1}};

static void draw_call(void)
{
    int total = 0, at = 0;
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++) total += draws[i].share;
    int drawn = seeded_below(total);
    while (drawn >= draws[at].share) drawn -= draws[at++].share;
    text[0] = '\0';
    draws[at].draw();
}

/* ---- formats ---- */

/* Chooses a format: row-major, channels last, blocks of channels, or any order such as "bcad". */
static void pick_tag(int rank, char *out_tag)
{
    static const char *const blocks[] = {"8b", "16b", "4b"};
    const int which = seeded_below(6);
    for (int d = 0; d < rank; d++) out_tag[d] = (char)('a' + d);
    out_tag[rank] = '\0';
    if (which == 1 && rank > 2) {
        memmove(out_tag + 1, out_tag + 2, (size_t)rank - 2);
        out_tag[rank - 1] = 'b';
    } else if (which == 2 && rank > 2) {
        out_tag[1] = 'B';
        strcat(out_tag, blocks[seeded_below(3)]);
    }
    for (int d = rank - 1; which > 2 && d > 0; d--) {
        const int other = seeded_below(d + 1);
        const char moved = out_tag[d];
        out_tag[d] = out_tag[other];
        out_tag[other] = moved;
    }
}

/* Replaces the tag by a candidate with the same bytes, if there is one: with 8 channels, or with
 * one pixel, blocks and channels last are the same bytes. oneDNN may have another kernel for that
 * name. */
static void pick_name(context_t *ctx, int rank, const int64_t *sizes, char *tag)
{
    format_t given, candidates[CANDIDATES_MAX];
    const int n = candidates_list(rank, candidates), first = seeded_below(n);
    CHECK_OK(ctx, format_parse(ctx, tag, &given));
    for (int i = 0; i < n; i++) {
        const format_t *other = &candidates[(first + i) % n];
        if (!format_same(&given, other, sizes)) continue;
        format_text(other, tag);
        return;
    }
}

/* ---- running ---- */

typedef struct subject {
    context_t *ctx;
    const opdef_t *op;
    case_call_t call;
    tensor_t *in[CASE_MAX_INPUTS];
    char tags[CASE_MAX_INPUTS][FORMAT_TEXT_MAX];
    format_t wanted[CANDIDATES_MAX]; /* formats to request for the result */
    int n_wanted;
    int64_t number;
} subject_t;

static bool make_inputs(subject_t *s)
{
    context_t *ctx = s->ctx;
    for (int i = 0; i < s->call.n_in; i++) {
        tensor_t *dense = NULL;
        if (s->call.in[i].dtype == DTYPE_NONE) continue;
        int64_t numel = 0;
        if (!shape_numel(s->call.in[i].rank, s->call.in[i].sizes, &numel) || numel > MAX_ELEMENTS)
            return false;
        CHECK_OK(ctx, case_fill(ctx, &s->call.in[i], &dense));
        const bool is_activation = select_operand(s->op, i)->role == ROLE_ACTIVATION;
        s->in[i] = dense;
        if (!is_activation || tensor_rank(dense) < 2 || convert_refusal(tensor_info(dense)) != NULL)
            continue;
        if (i == 0 || one_in(2) || s->tags[0][0] == '\0' ||
            tensor_rank(s->in[0]) != tensor_rank(dense))
            pick_tag(tensor_rank(dense), s->tags[i]);
        else
            strcpy(s->tags[i], s->tags[0]);
        if (one_in(2)) pick_name(ctx, tensor_rank(dense), tensor_sizes(dense), s->tags[i]);
        s->in[i] = NULL;
        CHECK_OK(ctx, convert_reorder(ctx, dense, s->tags[i], &s->in[i]));
        tensor_release(dense);
    }
    return true;
}

static void note(const subject_t *s)
{
    int i = 0;
    while (i < MAX_OPS - 1 && ops_seen[i] != NULL && ops_seen[i] != s->op) i++;
    ops_seen[i] = s->op;
    n_of_op[i]++;
    n_primitives++;
}

static void complain(const subject_t *s, const prepared_t *prepared, const char *what, double error)
{
    char from[INFO_TEXT_MAX], to[INFO_TEXT_MAX], weight[INFO_TEXT_MAX];
    if (n_failures++ >= MAX_FAILURES) return;
    print_error("%s%s\n    %s, %s to %s, input 1 %s: %s, %.3g times its bound\n"
                "    again: test_onednn_sweep 1 %lld\n",
                s->op->name, text, prepared->implementation, info_text(&prepared->in[0], from),
                info_text(&prepared->out[0], to),
                prepared->n_in > 1 ? info_text(&prepared->in[1], weight) : "none", what, error,
                (long long)s->number);
}

static status_t convert_input(const subject_t *s, const prepared_t *prepared, int i,
                              tensor_t **out_converted)
{
    return pack_for_call(s->ctx, prepared->kernel, s->in[i], &prepared->in[i], CAUSE_USER,
                         out_converted);
}

static status_t run_kernel(const subject_t *s, const prepared_t *prepared, tensor_t **converted,
                           tensor_t **targets)
{
    void *in[CASE_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL}, *scratch = NULL;
    for (int i = 0; i < s->call.n_in; i++) {
        if (s->in[i] == NULL) continue;
        TRY(convert_input(s, prepared, i, &converted[i]));
        in[i] = (void *)(uintptr_t)tensor_bytes(converted[i]);
    }
    for (int o = 0; o < prepared->n_out; o++) {
        TRY(tensor_make(s->ctx, &prepared->out[o], &targets[o]));
        TRY(tensor_writable(s->ctx, targets[o], &out[o]));
        memset(out[o], 0x5a, info_bytes(&prepared->out[o]));
    }
    TRY(context_scratch(s->ctx, prepared->scratch_bytes, &scratch));
    return prepared->run(s->ctx, prepared, in, out, scratch);
}

static void check_kernel(const subject_t *s, const prepared_t *prepared)
{
    tensor_t *converted[CASE_MAX_INPUTS] = {NULL}, *targets[OP_MAX_OUTPUTS] = {NULL};
    double error = 0.0;
    status_t status = run_kernel(s, prepared, converted, targets);
    if (status == STATUS_OK)
        status = dispatch_verify(s->ctx, s->op, s->call.attrs, s->call.n_in,
                                 (const tensor_t *const *)s->in, prepared->n_out,
                                 (const tensor_t *const *)targets, N_CHECKED, &error);
    if (status != STATUS_OK) complain(s, prepared, context_error(s->ctx), INFINITY);
    if (!(error <= 1.0)) complain(s, prepared, "wrong", error);
    note(s);
    for (int i = 0; i < CASE_MAX_INPUTS; i++) tensor_release(converted[i]);
    for (int o = 0; o < prepared->n_out; o++) tensor_release(targets[o]);
}

/* Runs each kernel of the operator that uses a oneDNN primitive, in both layouts, with the formats
 * that plans may request. */
static void check_call(const subject_t *s)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    for (int k = 0; s->op->kernels[k] != NULL; k++)
        for (int layout = LAYOUT_DENSE; layout <= LAYOUT_MKLDNN; layout++) {
            const tensor_info_t *infos[CASE_MAX_INPUTS];
            tensor_info_t strided[CASE_MAX_INPUTS];
            prepared_t *prepared = NULL;
            bool is_possible = true;
            for (int i = 0; i < s->call.n_in; i++) {
                infos[i] = s->in[i] != NULL ? tensor_info(s->in[i]) : &absent;
                if (layout == LAYOUT_MKLDNN || infos[i]->layout == LAYOUT_DENSE) continue;
                is_possible = is_possible && infos[i]->format.n_blocks == 0;
                strided[i] = choose_as_dense(infos[i]);
                infos[i] = &strided[i];
            }
            const int n_wanted = layout == LAYOUT_MKLDNN ? s->n_wanted : 0;
            for (int o = 0; is_possible && o <= n_wanted; o++) {
                const format_t *wanted = o > 0 ? &s->wanted[o - 1] : NULL;
                if (select_fixed(s->ctx, s->op, s->call.attrs, s->call.n_in, infos, WEIGHT_KEPT,
                                 (layout_t)layout, wanted, s->op->kernels[k],
                                 &prepared) != STATUS_OK)
                    continue;
                if (prepared->primitive != NULL) check_kernel(s, prepared);
                prepared_release(prepared);
            }
        }
}

/* Reorders from the source's format to another one and back, which must not change a bit. */
static void check_reorder(const subject_t *s)
{
    tensor_t *there = NULL, *back = NULL, *plain = NULL;
    char tag[FORMAT_TEXT_MAX];
    if (s->tags[0][0] == '\0') return;
    pick_tag(tensor_rank(s->in[0]), tag);
    CHECK_OK(s->ctx, convert_reorder(s->ctx, s->in[0], tag, &there));
    CHECK_OK(s->ctx, to_dense(s->ctx, there, &back));
    CHECK_OK(s->ctx, to_dense(s->ctx, s->in[0], &plain));
    if (memcmp(tensor_bytes(back), tensor_bytes(plain), info_bytes(tensor_info(plain))) != 0) {
        n_failures++;
        print_error(
            "reorder of %s from %s to %s is not exact\n    again: test_onednn_sweep 1 %lld\n", text,
            s->tags[0], tag, (long long)s->number);
    }
    tensor_release(there);
    tensor_release(back);
    tensor_release(plain);
}

/* Prints the call if it crashes. */
static void tell(int signal_number)
{
    static const char what[] = "\nended by a signal: ";
    if (write(STDERR_FILENO, what, sizeof what - 1) > 0 &&
        write(STDERR_FILENO, op_name, strlen(op_name)) > 0 &&
        write(STDERR_FILENO, text, strlen(text)) > 0)
        (void)!write(STDERR_FILENO, "\n", 1);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void run(context_t *ctx, int64_t number)
{
    subject_t s = {.ctx = ctx, .number = number};
    seeded_begin((uint64_t)number);
    context_seed(ctx, (uint64_t)number);
    draw_call();
    s.op = ops_find(op_name);
    assert_non_null(s.op);
    CHECK_OK(ctx, case_parse(ctx, s.op, text, &s.call));
    if (make_inputs(&s)) {
        if (s.tags[0][0] != '\0') s.n_wanted = candidates_list(tensor_rank(s.in[0]), s.wanted);
        check_call(&s);
        check_reorder(&s);
    }
    for (int i = 0; i < CASE_MAX_INPUTS; i++) tensor_release(s.in[i]);
}

static void every_primitive_computes_what_the_specification_says(void **state)
{
    context_t *ctx = fixture_context(state);
    signal(SIGSEGV, tell);
    signal(SIGFPE, tell);
    for (int64_t i = 0; i < n_calls; i++) run(ctx, first_call + i);
    for (int i = 0; i < MAX_OPS && ops_seen[i] != NULL; i++)
        print_message("%6d %s\n", n_of_op[i], ops_seen[i]->name);
    print_message("%6d primitives of oneDNN %s, %s: %d wrong\n", n_primitives,
                  onednn_version_text(), onednn_isa_text(), n_failures);
    if (n_failures > 0) fail();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(every_primitive_computes_what_the_specification_says)};
    if (argc > 1) n_calls = strtoll(argv[1], NULL, 10);
    if (argc > 2) first_call = strtoll(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
