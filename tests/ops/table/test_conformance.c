/* Compares every operator of the table with its specification (a slow implementation of one
 * element): every case and layout of activations, on one and two threads, with every policy.
 *
 * usage: test_conformance [THREADS [ONE_IN]]. THREADS 0 means one and two; "test_conformance 5 4"
 * runs on 5 threads and takes a quarter of the layouts, others for each case. TESSERA_CASE=conv2d
 * runs the cases of one operator, TESSERA_CASE=conv2d:3 one of them. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/pack_impl.h"
#include "dispatch/select_impl.h"
#include "ops/ops.h"
#include "tensor/convert/convert_impl.h"
#include "tests/support/arrange.h"
#include "tests/support/case.h"
#include "tests/support/cases.h"

#define MAX_FAILURES 8 /* failures to print per operator */
#define MAX_KERNELS 16 /* kernels per operator */

/* Arrangements in memory of the first activation and of the other ones. */
static const struct {
    arrangement_t first, others;
} patterns[] = {
    {ARRANGE_CONTIGUOUS, ARRANGE_CONTIGUOUS}, {ARRANGE_LAST, ARRANGE_LAST},
    {ARRANGE_REVERSED, ARRANGE_REVERSED},     {ARRANGE_GAPPED, ARRANGE_GAPPED},
    {ARRANGE_SNAPSHOT, ARRANGE_SNAPSHOT},     {ARRANGE_BLOCKS_16, ARRANGE_BLOCKS_16},
    {ARRANGE_BLOCKS_8, ARRANGE_BLOCKS_8},     {ARRANGE_MKLDNN_LAST, ARRANGE_MKLDNN_LAST},
    {ARRANGE_CONTIGUOUS, ARRANGE_BLOCKS_16},  {ARRANGE_BLOCKS_16, ARRANGE_CONTIGUOUS},
    {ARRANGE_MKLDNN_LAST, ARRANGE_BLOCKS_16}, {ARRANGE_BLOCKS_16, ARRANGE_SNAPSHOT},
    {ARRANGE_LAST, ARRANGE_CONTIGUOUS},
};

/* ---- one case ---- */

typedef struct subject {
    context_t *ctx;
    const opdef_t *op;
    int index; /* index of the case */
    case_call_t call;
    tensor_t *dense[CASE_MAX_INPUTS];
    int n_out;
    tensor_info_t out[OP_MAX_OUTPUTS];
    double *expected[OP_MAX_OUTPUTS];
    double *bound[OP_MAX_OUTPUTS];               /* error bounds; -1: not computed */
    const tensor_info_t *infos[CASE_MAX_INPUTS]; /* as the specification reads them */
    const void *data[CASE_MAX_INPUTS];
    _Alignas(16) char attrs[CASE_MAX_ATTRS]; /* normalised: defaults are filled in */
    bool has_elements;                       /* outputs have elements; otherwise no kernel runs */
    bool *ran;                               /* for each kernel of the operator: it was selected */
    bool verified[MAX_KERNELS]; /* dispatch_verify has checked this kernel in this case */
    int n_failures;

    /* the current run: */
    int pattern, n_threads;
    policy_t policy;
    tensor_t *in[CASE_MAX_INPUTS];
    void *bytes[CASE_MAX_INPUTS]; /* original bytes of the inputs */
    bool is_uniform;
    layout_t layout; /* layout of all activations, if they agree */
} subject_t;

static bool is_activation(const subject_t *s, int i)
{
    return s->dense[i] != NULL && select_operand(s->op, i)->role == ROLE_ACTIVATION;
}

TESSERA_PRINTF(2, 3) static void complain(subject_t *s, const char *format, ...)
{
    char what[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (s->n_failures++ >= MAX_FAILURES) return;
    print_error("%s%s: inputs %s and %s, policy %s, %d threads\n    %s\n"
                "    again: TESSERA_CASE=%s:%d test_conformance\n",
                s->op->name, cases_of(s->op)[s->index], arrange_name(patterns[s->pattern].first),
                arrange_name(patterns[s->pattern].others), policy_name(s->policy), s->n_threads,
                what, s->op->name, s->index);
}

static spec_call_t call_spec(const subject_t *s)
{
    return (spec_call_t){.op = s->op,
                         .attrs = s->attrs,
                         .n_in = s->call.n_in,
                         .in = s->infos,
                         .data = s->data,
                         .out = s->out};
}

static status_t expect(subject_t *s)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    for (int i = 0; i < s->call.n_in; i++) {
        s->infos[i] = s->dense[i] == NULL ? &absent : tensor_info(s->dense[i]);
        if (s->dense[i] != NULL) TRY(tensor_data(s->ctx, s->dense[i], &s->data[i]));
    }
    TRY(case_infer(s->ctx, s->op, s->call.attrs, s->call.n_in, s->dense, &s->n_out, s->out));
    attrs_normalize(&s->op->attrs, s->call.attrs, s->attrs);
    const spec_call_t call = call_spec(s);
    for (int o = 0; o < s->n_out; o++) {
        int64_t numel = info_numel(&s->out[o]), index[TENSOR_MAX_RANK] = {0};
        s->expected[o] = malloc((size_t)(numel + 1) * sizeof(double));
        s->has_elements = s->has_elements || numel > 0;
        s->bound[o] = malloc((size_t)(numel + 1) * sizeof(double));
        if (s->expected[o] == NULL || s->bound[o] == NULL) return STATUS_OUT_OF_MEMORY;
        for (int64_t i = 0; i < numel; i++) {
            s->expected[o][i] = s->op->spec(&call, o, index);
            s->bound[o][i] = -1.0;
            shape_next(s->out[o].rank, s->out[o].sizes, index);
        }
    }
    return STATUS_OK;
}

static bool is_padding_zero(subject_t *s, const tensor_t *tensor)
{
    const tensor_info_t *info = tensor_info(tensor);
    if (!format_is_padded(&info->format, info->sizes)) return true;
    size_t bytes = info_bytes(info);
    void *copy = malloc(bytes);
    if (copy == NULL) return false;
    memcpy(copy, tensor_bytes(tensor), bytes);
    convert_zero_padding(info, copy);
    bool is_zero = memcmp(copy, tensor_bytes(tensor), bytes) == 0;
    free(copy);
    (void)s;
    return is_zero;
}

/* Returns the error relative to its bound. A bound takes several calls of the specification, so
 * none is computed for an error that every bound allows: 8 roundings of the result. A stored bound
 * is computed again before an error counts as too large. */
static double judge(subject_t *s, int output, int64_t i, double error)
{
    const tensor_info_t *info = &s->out[output];
    const double expected = s->expected[output][i];
    double *bound = &s->bound[output][i];
    if (!isfinite(error)) return INFINITY;
    if (dtype_is_floating(info->dtype) &&
        error <= 8.0 * dtype_epsilon(info->dtype) * fabs(expected))
        return 0.0;
    for (int is_sure = *bound >= 0.0; is_sure <= 1 && !(error <= *bound); is_sure++) {
        const spec_call_t call = call_spec(s);
        int64_t index[TENSOR_MAX_RANK], rest = i;
        for (int d = info->rank - 1; d >= 0; d--) {
            index[d] = rest % info->sizes[d];
            rest /= info->sizes[d];
        }
        *bound = dispatch_error_bound(&call, output, index, expected, is_sure != 0);
    }
    return isfinite(error / *bound) ? error / *bound : INFINITY;
}

static void check_elements(subject_t *s, int output, const tensor_t *tensor)
{
    const tensor_info_t *info = tensor_info(tensor);
    const size_t size = dtype_size(info->dtype);
    int64_t numel = info_numel(info), worst_at = 0;
    double worst = 0.0;
    char *read = malloc((size_t)(numel + 1) * size);
    if (read == NULL ||
        tensor_read(s->ctx, tensor, read, (size_t)(numel + 1) * size) != STATUS_OK) {
        complain(s, "output %d cannot be read: %s", output, context_error(s->ctx));
        free(read);
        return;
    }
    for (int64_t i = 0; i < numel; i++) {
        double wanted = s->expected[output][i];
        double given = dtype_load(info->dtype, read + (size_t)i * size);
        if (wanted == given || (isnan(wanted) && isnan(given))) continue;
        double error = judge(s, output, i, fabs(wanted - given));
        if (error <= worst) continue;
        worst = error;
        worst_at = i;
    }
    if (worst > 1.0)
        complain(s, "output %d element %lld is %.9g, wanted %.9g, off by %.3g times its bound",
                 output, (long long)worst_at,
                 dtype_load(info->dtype, read + (size_t)worst_at * size),
                 s->expected[output][worst_at], worst);
    free(read);
}

/* Returns true if the policy allows a result of this layout. */
static bool is_layout_right(const subject_t *s, layout_t layout)
{
    const char *const transitions[] = {"to_mkldnn", "to_dense", "reorder"};
    if (s->policy == POLICY_PER_OP) return layout == LAYOUT_DENSE;
    for (size_t i = 0; i < sizeof transitions / sizeof *transitions; i++)
        if (strcmp(s->op->name, transitions[i]) == 0) return true;
    if (s->policy == POLICY_STRICT) return layout == s->layout;
    bool all_dense = s->is_uniform && s->layout == LAYOUT_DENSE;
    if (s->op->preference == OP_DENSE || (s->op->preference == OP_FOLLOWS && all_dense))
        return layout == LAYOUT_DENSE;
    return true;
}

static void check_output(subject_t *s, int output, const tensor_t *tensor)
{
    const tensor_info_t *info = tensor_info(tensor), *wanted = &s->out[output];
    char text[INFO_TEXT_MAX], wanted_text[INFO_TEXT_MAX];
    info_text(info, text);
    if (info->dtype != wanted->dtype ||
        !shape_equal(info->rank, info->sizes, wanted->rank, wanted->sizes)) {
        complain(s, "output %d is %s, inferred was %s", output, text,
                 info_text(wanted, wanted_text));
        return;
    }
    if (info_numel(info) > 0 && !is_layout_right(s, info->layout))
        complain(s, "output %d is %s, another layout was promised", output, text);
    if (!is_padding_zero(s, tensor))
        complain(s, "output %d, %s, has padded lanes that are not zero", output, text);
    check_elements(s, output, tensor);
}

static void check_inputs(subject_t *s)
{
    for (int i = 0; i < s->call.n_in; i++)
        if (s->in[i] != NULL &&
            memcmp(s->bytes[i], tensor_bytes(s->in[i]), info_bytes(tensor_info(s->in[i]))) != 0)
            complain(s, "input %d was changed", i);
}

/* Returns true for an expected error: with policy strict, an operator may have no kernel for a
 * layout. */
static bool is_refusal(const subject_t *s, status_t status)
{
    return status == STATUS_UNSUPPORTED && s->policy == POLICY_STRICT && s->layout == LAYOUT_MKLDNN;
}

/* Checks results with dispatch_verify, once per kernel, because it takes most of the time: it
 * computes elements again. */
static void verify(subject_t *s, const tensor_t *const *in, int n_out, tensor_t *const *out)
{
    const tensor_t *given[OP_MAX_OUTPUTS];
    double error = 0.0;
    bool has_elements = true;
    for (int o = 0; o < n_out; o++) {
        given[o] = out[o];
        has_elements = has_elements && tensor_numel(out[o]) > 0;
    }
    status_t status = dispatch_verify(s->ctx, s->op, s->call.attrs, s->call.n_in, in, n_out, given,
                                      has_elements ? 4 : 0, &error);
    if (status != STATUS_OK) complain(s, "verify: %s", context_error(s->ctx));
    if (!(error <= 1.0)) complain(s, "verify: off by %.3g times its bound", error);
}

/* Runs the call. `kernel` is the index of its kernel; -1: unknown. */
static void run_once(subject_t *s, int kernel)
{
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL};
    const tensor_t *in[CASE_MAX_INPUTS];
    int n_out = OP_MAX_OUTPUTS;
    for (int i = 0; i < s->call.n_in; i++) in[i] = s->in[i];
    status_t status = dispatch_run(s->ctx, s->op, s->call.attrs, s->call.n_in, in, &n_out, out);
    if (status != STATUS_OK) {
        if (!is_refusal(s, status))
            complain(s, "%s: %s", status_name(status), context_error(s->ctx));
        return;
    }
    if (n_out != s->n_out) complain(s, "%d outputs, inferred were %d", n_out, s->n_out);
    for (int o = 0; o < n_out; o++) check_output(s, o, out[o]);
    check_inputs(s);
    if (kernel < 0 || !s->verified[kernel]) verify(s, in, n_out, out);
    if (kernel >= 0) s->verified[kernel] = true;
    for (int o = 0; o < n_out; o++) tensor_release(out[o]);
}

/* Runs with output 0 in the memory of input i, which was converted to the kernel's format. */
static void run_over(subject_t *s, const prepared_t *prepared, tensor_t *const *converted, int i)
{
    void *in[CASE_MAX_INPUTS] = {NULL}, *out[OP_MAX_OUTPUTS] = {NULL}, *scratch = NULL;
    tensor_t *targets[OP_MAX_OUTPUTS] = {NULL};
    status_t status = STATUS_OK;
    for (int k = 0; k < s->call.n_in; k++)
        if (converted[k] != NULL) in[k] = (void *)(uintptr_t)tensor_bytes(converted[k]);
    for (int o = 0; status == STATUS_OK && o < prepared->n_out; o++) {
        status = tensor_make(s->ctx, &prepared->out[o], &targets[o]);
        if (status == STATUS_OK) status = tensor_writable(s->ctx, targets[o], &out[o]);
    }
    if (status == STATUS_OK) memcpy(out[0], in[i], info_bytes(&prepared->out[0]));
    if (status == STATUS_OK)
        status = context_get(s->ctx, prepared->scratch_bytes, "scratch", &scratch);
    in[i] = out[0];
    if (status == STATUS_OK) status = prepared->run(s->ctx, prepared, in, out, scratch);
    if (status != STATUS_OK) complain(s, "over input %d: %s", i, context_error(s->ctx));
    for (int o = 0; status == STATUS_OK && o < prepared->n_out; o++) {
        if (!is_padding_zero(s, targets[o]))
            complain(s, "over input %d: padded lanes are not zero", i);
        check_elements(s, o, targets[o]);
    }
    context_put(s->ctx, scratch);
    for (int o = 0; o < prepared->n_out; o++) tensor_release(targets[o]);
}

static bool lie_alike(const tensor_info_t *a, const tensor_info_t *b)
{
    return a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes) &&
           a->layout == b->layout && format_same(&a->format, &b->format, a->sizes);
}

/* Converts input i to the format that the kernel reads. */
static status_t convert_input(const subject_t *s, const prepared_t *prepared, int i,
                              tensor_t **out_converted)
{
    const tensor_info_t *want = &prepared->in[i];
    if (pack_of(prepared->kernel, want) != NULL)
        return pack_for_call(s->ctx, prepared->kernel, s->in[i], want, CAUSE_USER, out_converted);
    return convert_to(s->ctx, s->in[i], want, CAUSE_USER, out_converted);
}

/* Selects the prepared operator for these inputs. Returns the index of its kernel, or -1. If output
 * sizes depend on elements, the operator is selected only when it runs, and has one kernel. */
static int select_kernel(subject_t *s, prepared_t **out_prepared)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    *out_prepared = NULL;
    if ((s->op->traits & TRAIT_MEASURES) != 0) {
        s->ran[0] = s->ran[0] || s->has_elements;
        return -1;
    }
    for (int i = 0; i < s->call.n_in; i++)
        infos[i] = s->in[i] != NULL ? tensor_info(s->in[i]) : &absent;
    status_t status = dispatch_select(s->ctx, s->op, s->call.attrs, s->call.n_in, infos, s->policy,
                                      out_prepared);
    if (status != STATUS_OK) {
        if (!is_refusal(s, status))
            complain(s, "select: %s: %s", status_name(status), context_error(s->ctx));
        return -1;
    }
    int k = 0;
    while (s->op->kernels[k] != NULL && s->op->kernels[k] != (*out_prepared)->kernel) k++;
    if (s->op->kernels[k] == NULL) return -1; /* nothing runs without elements */
    assert_true(k < MAX_KERNELS);
    s->ran[k] = s->ran[k] || s->has_elements;
    return k;
}

/* Lets the kernel overwrite each input that it may overwrite, as plans do. */
static void run_in_place(subject_t *s, const prepared_t *prepared)
{
    tensor_t *converted[CASE_MAX_INPUTS] = {NULL};
    if (prepared == NULL || prepared->overwrites == 0) return;
    for (int i = 0; i < s->call.n_in; i++)
        if (s->in[i] != NULL && convert_input(s, prepared, i, &converted[i]) != STATUS_OK)
            complain(s, "input %d: %s", i, context_error(s->ctx));
    for (int i = 0; i < s->call.n_in; i++)
        if ((prepared->overwrites >> i & 1) != 0 && converted[i] != NULL &&
            lie_alike(&prepared->in[i], &prepared->out[0]))
            run_over(s, prepared, converted, i);
    for (int i = 0; i < s->call.n_in; i++) tensor_release(converted[i]);
}

/* Set by the command line. */
static int only_threads; /* 0: one and two */
static int one_in = 1;

static void run_policies(subject_t *s)
{
    int first = only_threads > 0 ? only_threads : 1, last = only_threads > 0 ? only_threads : 2;
    for (s->n_threads = first; s->n_threads <= last; s->n_threads++)
        for (int policy = POLICY_AUTO; policy <= POLICY_PER_OP; policy++) {
            s->policy = (policy_t)policy;
            if (policy == POLICY_STRICT && !s->is_uniform) continue;
            if (context_set_threads(s->ctx, s->n_threads) != STATUS_OK ||
                dispatch_set_policy(s->ctx, s->policy) != STATUS_OK)
                complain(s, "%s", context_error(s->ctx));
            prepared_t *prepared = NULL;
            run_once(s, select_kernel(s, &prepared));
            run_in_place(s, prepared);
            prepared_release(prepared);
        }
}

/* Makes the inputs for a pattern. Returns false if they are the same as for an earlier pattern. */
static bool make_inputs(subject_t *s)
{
    int n_activations = 0, n_varied = 0, layouts = 0;
    for (int i = 0; i < s->call.n_in; i++) {
        s->in[i] = tensor_retain(s->dense[i]);
        if (!is_activation(s, i)) continue;
        arrangement_t as = n_activations++ == 0 ? patterns[s->pattern].first
                                                : patterns[s->pattern].others;
        if (as != ARRANGE_CONTIGUOUS && arrange_is_possible(s->dense[i], as)) {
            tensor_release(s->in[i]);
            s->in[i] = NULL;
            if (arrange(s->ctx, s->dense[i], as, &s->in[i]) != STATUS_OK) {
                complain(s, "input %d: %s", i, context_error(s->ctx));
                return false;
            }
            n_varied++;
        }
        if (tensor_rank(s->in[i]) > 0) {
            s->layout = tensor_layout(s->in[i]);
            layouts |= 1 << s->layout;
        }
    }
    if (layouts == 0) s->layout = LAYOUT_DENSE;
    s->is_uniform = layouts != 3;
    bool is_mixed = patterns[s->pattern].first != patterns[s->pattern].others;
    return s->pattern == 0 || (n_varied > 0 && (!is_mixed || n_activations > 1));
}

static void run_pattern(subject_t *s)
{
    if (make_inputs(s)) {
        for (int i = 0; i < s->call.n_in; i++) {
            if (s->in[i] == NULL) continue;
            size_t bytes = info_bytes(tensor_info(s->in[i]));
            s->bytes[i] = malloc(bytes + 1);
            if (s->bytes[i] != NULL) memcpy(s->bytes[i], tensor_bytes(s->in[i]), bytes);
        }
        run_policies(s);
    }
    for (int i = 0; i < s->call.n_in; i++) {
        tensor_release(s->in[i]);
        s->in[i] = NULL;
        free(s->bytes[i]);
        s->bytes[i] = NULL;
    }
}

static void check_text(subject_t *s)
{
    char again[CASE_MAX_ATTRS];
    text_t text = text_begin(s->ctx);
    attrs_print(&s->op->attrs, s->call.attrs, &text);
    attrs_init(&s->op->attrs, again);
    const char *at = text_string(&text);
    status_t status = STATUS_OK;
    while (status == STATUS_OK && *at != '\0')
        status = attrs_parse(s->ctx, s->op->name, &s->op->attrs, &at, again);
    if (status != STATUS_OK)
        complain(s, "attributes do not read back: %s", context_error(s->ctx));
    else if (!attrs_equal(&s->op->attrs, s->call.attrs, again))
        complain(s, "attributes %s are others when read back", text_string(&text));
    text_clear(&text);
}

static int run_case(context_t *ctx, const opdef_t *op, int index, bool *ran)
{
    subject_t s = {.ctx = ctx, .op = op, .index = index, .ran = ran};
    context_seed(ctx, (uint64_t)index + 1);
    status_t status = case_parse(ctx, op, cases_of(op)[index], &s.call);
    for (int i = 0; status == STATUS_OK && i < s.call.n_in; i++)
        status = case_fill(ctx, &s.call.in[i], &s.dense[i]);
    if (status == STATUS_OK) status = expect(&s);
    if (status != STATUS_OK) {
        complain(&s, "%s", context_error(ctx));
    } else {
        check_text(&s);
        int n_patterns = (int)(sizeof patterns / sizeof *patterns);
        for (s.pattern = index % one_in; s.pattern < n_patterns; s.pattern += one_in)
            run_pattern(&s);
    }
    for (int o = 0; o < s.n_out; o++) {
        free(s.expected[o]);
        free(s.bound[o]);
    }
    for (int i = 0; i < s.call.n_in; i++) tensor_release(s.dense[i]);
    return s.n_failures;
}

/* ---- one test per operator ---- */

static int wanted_case(const opdef_t *op, int index)
{
    const char *filter = getenv("TESSERA_CASE");
    if (filter == NULL || *filter == '\0') return 1;
    size_t length = strcspn(filter, ":");
    if (strlen(op->name) != length || strncmp(op->name, filter, length) != 0) return 0;
    if (filter[length] == '\0') return 1;
    char *end = NULL;
    long number = strtol(filter + length + 1, &end, 10);
    return end != filter + length + 1 && *end == '\0' && number == index;
}

static bool is_filtered(void)
{
    const char *filter = getenv("TESSERA_CASE");
    return filter != NULL && *filter != '\0';
}

/* Kernels that no case needs to run: some versions of oneDNN lack them, only older instruction sets
 * use them (the test on sse41 runs these), only plans request them (test_plan_views), or they need
 * weights in training or constant ones (test_linear_rows, test_conv_kernels and
 * test_frozen_linear). Every other kernel must run in some case on x86-64 with AVX2; other
 * processors have reference implementations for many. */
static const struct {
    const char *op, *kernel;
    const char *version; /* only for this oneDNN version; "": all */
} idle[] = {
    {"conv1d", "rows", ""},
    {"conv2d", "rows", ""},
    {"hardsigmoid", "onednn", "2."},
    {"sigmoid", "onednn", ""},
    {"silu", "onednn", ""},
    {"linear", "product", ""},
    {"linear", "rows", ""},
    {"linear", "strassen", ""},
    {"linear", "grouped", ""}, /* cases have no low-bit weights: freeze/test_frozen_grouped */
    {"gather", "grouped", ""},
    {"matmul", "strided", ""},
    {"conv_transpose1d", "tiling", ""},
    {"conv_transpose2d", "tiling", ""},
    {"conv_transpose3d", "tiling", ""},
};

/* True for kernels that decline without 8-bit dot products, because oneDNN's integer sums are then
 * not exact. */
static bool lacks_dot_products(const opdef_t *op, const kernel_t *kernel)
{
    static const char *const names[] = {"vnni", "bf16", "fp16", "amx"};
    bool has_them = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        has_them = has_them || strstr(onednn_isa_text(), names[i]) != NULL;
    const bool is_of_bytes = strstr(op->name, "_integer") != NULL ||
                             strstr(op->name, "_quantized") != NULL;
    return !has_them && is_of_bytes && strcmp(kernel->name, "onednn") == 0;
}

/* True for our kernels of quantised operators, which run only if oneDNN has no 8-bit dot products.
 * test_quantize.c runs them. */
static bool stands_in(const opdef_t *op, const kernel_t *kernel)
{
    return strstr(op->name, "_quantized") != NULL && strcmp(kernel->name, "onednn") != 0;
}

/* True for kernels of a linear layer's gradients that need weights in blocks of outputs, if oneDNN
 * proposes no such weights: without AVX-512, and in 3.x for the source's gradient. */
static bool lacks_blocks(const opdef_t *op, const kernel_t *kernel)
{
    const bool is_data = strcmp(op->name, "linear_backward_data") == 0;
    if (!is_data && strcmp(op->name, "linear_backward_weight") != 0) return false;
    return strcmp(kernel->name, "rows") == 0 &&
           (strstr(onednn_isa_text(), "avx512") == NULL ||
            (is_data && strncmp(onednn_version_text(), "2.", 2) != 0));
}

static int count_idle(const opdef_t *op, const bool *ran)
{
    int n = 0;
    if (strstr(onednn_isa_text(), "avx") == NULL) return 0;
    for (int k = 0; op->kernels[k] != NULL; k++) {
        bool is_idle = lacks_dot_products(op, op->kernels[k]) || stands_in(op, op->kernels[k]) ||
                       lacks_blocks(op, op->kernels[k]);
        assert_true(k < MAX_KERNELS);
        for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
            is_idle = is_idle || (strcmp(idle[i].op, op->name) == 0 &&
                                  strcmp(idle[i].kernel, op->kernels[k]->name) == 0 &&
                                  strncmp(onednn_version_text(), idle[i].version,
                                          strlen(idle[i].version)) == 0);
        if (ran[k] || is_idle) continue;
        print_error("%s: no case runs its kernel %s\n", op->name, op->kernels[k]->name);
        n++;
    }
    return n;
}

static void conforms(void **state)
{
    const opdef_t *op = *state;
    int n_failures = 0;
    bool ran[MAX_KERNELS] = {false};
    assert_non_null(*cases_of(op));
    assert_non_null(op->spec);
    for (int i = 0; cases_of(op)[i] != NULL; i++) {
        if (!wanted_case(op, i)) continue;
        counting_t memory;
        counting_begin(&memory);
        context_options_t options = {.allocator = &memory.allocator, .n_threads = 1};
        context_t *ctx = NULL;
        assert_int_equal(context_create(&options, &ctx), STATUS_OK);
        n_failures += run_case(ctx, op, i, ran);
        context_destroy(ctx);
        long live = atomic_load(&memory.live);
        if (live != 0) {
            print_error("%s%s: %ld blocks are still alive at the end\n", op->name, cases_of(op)[i],
                        live);
            n_failures++;
        }
    }
    if (!is_filtered() && one_in == 1) n_failures += count_idle(op, ran);
    if (n_failures > 0) print_error("%s: %d failures\n", op->name, n_failures);
    assert_int_equal(n_failures, 0);
}

/* Returns true for random operators, which have no specification. */
static bool draws(const opdef_t *op)
{
    return (op->traits & TRAIT_DRAWS) != 0;
}

/* Returns false if TESSERA_CASE names no operator or case, so that the test would run nothing. */
static bool is_filter_right(void)
{
    int n = 0;
    for (int i = 0; i < ops_count(); i++)
        for (int k = 0; !draws(ops_at(i)) && cases_of(ops_at(i))[k] != NULL; k++)
            n += wanted_case(ops_at(i), k);
    if (n == 0) print_error("TESSERA_CASE=%s names no case\n", getenv("TESSERA_CASE"));
    return n > 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[256];
    int n = 0;
    if (ops_count() > 256 || !is_filter_right()) return 1;
    if (argc > 1) only_threads = atoi(argv[1]);
    if (argc > 2) one_in = atoi(argv[2]);
    if (argc > 3 || only_threads < 0 || one_in < 1) return 2;
    for (int i = 0; i < ops_count(); i++) {
        if (draws(ops_at(i))) continue;
        union {
            const opdef_t *op;
            void *state;
        } state = {ops_at(i)};
        tests[n++] = (struct CMUnitTest){
            .name = ops_at(i)->name, .test_func = conforms, .initial_state = state.state};
    }
    return _cmocka_run_group_tests("conformance", tests, (size_t)n, NULL, NULL);
}
