/* Gradients of every operator that has a gradient rule. For every case with float inputs, dense and
 * mkldnn, compares the tape's gradients with finite differences of the operator's specification, in
 * double.
 *
 * The loss is a sum of some elements of one output (terms), with random factors. An element x of an
 * input is tested (probed) by changing it to x - h and x + h. If the two slopes differ, the
 * function has a kink at x, and another element is tested instead.
 *
 * usage: test_gradients [OPERATOR[:CASE]] */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "ops/gradient_impl.h"
#include "tensor/convert/convert.h"
#include "tests/support/case.h"
#include "tests/support/cases.h"
#include "train/tape.h"

#define MAX_PROBES 12      /* elements to test per input */
#define MIN_PROBES 3       /* the same if a term reads many elements, e.g. of recurrent layers */
#define MAX_TERMS 96       /* elements of the output that the loss sums */
#define MIN_TERMS 4        /* the same if a term reads many elements */
#define MAX_READS 20000    /* elements that all terms read, or more with MIN_TERMS */
#define MAX_ELEMENTS 50000 /* elements of the inputs; larger cases are skipped */

static const char *filter;

/* ---- one case ---- */

typedef struct subject {
    context_t *ctx;
    const opdef_t *op;
    int index;
    case_call_t call;
    tensor_t *dense[CASE_MAX_INPUTS];
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    const void *data[CASE_MAX_INPUTS];
    float *floats[CASE_MAX_INPUTS]; /* elements of f32 inputs, which differ() changes */
    int n_out;
    tensor_info_t out[OP_MAX_OUTPUTS];
    _Alignas(16) char attrs[CASE_MAX_ATTRS];
    uint64_t random;
    int n_passed, n_refused, n_kinks;
} subject_t;

static double draw(subject_t *subject)
{
    subject->random = subject->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(subject->random >> 33) / 2147483648.0 * 2.0 - 1.0;
}

static int64_t draw_below(subject_t *subject, int64_t n)
{
    int64_t drawn = (int64_t)((draw(subject) + 1.0) / 2.0 * (double)n);
    return drawn < n ? drawn : n - 1;
}

/* The elements of an output that the loss sums, and their factors. */
typedef struct loss {
    int output, n;
    int n_probes; /* elements to test per input */
    int64_t at[MAX_TERMS];
    double factor[MAX_TERMS];
} loss_t;

static spec_call_t call_of(const subject_t *subject)
{
    return (spec_call_t){.op = subject->op,
                         .attrs = subject->attrs,
                         .n_in = subject->call.n_in,
                         .in = subject->infos,
                         .data = subject->data,
                         .out = subject->out};
}

/* Returns the number of elements that the first and the last element of the output depend on. */
static int64_t count_reads(const subject_t *subject, int output)
{
    const tensor_info_t *out = &subject->out[output];
    spec_probe_t probe = {.n_reads = 1};
    spec_call_t call = call_of(subject);
    int64_t index[TENSOR_MAX_RANK] = {0};
    call.probe = &probe;
    subject->op->spec(&call, output, index);
    for (int d = 0; d < out->rank; d++) index[d] = out->sizes[d] - 1;
    subject->op->spec(&call, output, index);
    return probe.n_reads;
}

static int64_t clamp_count(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

static void draw_loss(subject_t *subject, int output, loss_t *loss)
{
    const int64_t numel = info_numel(&subject->out[output]);
    /* number of terms that may run */
    const int64_t wanted = 2 * MAX_READS / count_reads(subject, output);
    const int64_t most = clamp_count(wanted, MIN_TERMS, MAX_TERMS);
    *loss = (loss_t){.output = output,
                     .n = (int)(numel < most ? numel : most),
                     .n_probes = (int)clamp_count(wanted, MIN_PROBES, MAX_PROBES)};
    for (int i = 0; i < loss->n; i++) {
        loss->at[i] = numel <= most ? i
                                    : numel * i / loss->n + draw_below(subject, numel / loss->n);
        loss->factor[i] = draw(subject) + 0.1;
    }
}

static double loss_value(const subject_t *subject, const loss_t *loss)
{
    const tensor_info_t *out = &subject->out[loss->output];
    const spec_call_t call = call_of(subject);
    double sum = 0.0;
    for (int i = 0; i < loss->n; i++) {
        int64_t index[TENSOR_MAX_RANK] = {0}, rest = loss->at[i];
        for (int d = out->rank - 1; d >= 0; d--) {
            index[d] = rest % out->sizes[d];
            rest /= out->sizes[d];
        }
        sum += loss->factor[i] * subject->op->spec(&call, loss->output, index);
    }
    return sum;
}

/* Computes d loss / d element with steps to both sides. *out_apart is the difference of the two
 * slopes. Returns false if they disagree. */
static bool differ(const subject_t *subject, const loss_t *loss, float *x, double step, double *out,
                   double *out_apart)
{
    const float kept = *x;
    const float low = (float)(kept - step), high = (float)(kept + step);
    const double middle = loss_value(subject, loss);
    *x = low;
    const double below = loss_value(subject, loss);
    *x = high;
    const double above = loss_value(subject, loss);
    *x = kept;
    const double left = (middle - below) / ((double)kept - low);
    const double right = (above - middle) / ((double)high - kept);
    *out = (above - below) / ((double)high - low);
    *out_apart = fabs(left - right);
    return isfinite(*out) && *out_apart <= 0.05 * (fabs(left) + fabs(right)) + 1e-4;
}

/* Returns false at a kink, a jump, or NaN. At a jump, the slope grows as the step shrinks, so
 * slopes of two step sizes disagree. */
static bool differentiate(const subject_t *subject, const loss_t *loss, float *x, double *out,
                          double *out_apart)
{
    const double step = 2e-3 * fmax(0.25, fabs((double)*x));
    double wide = 0.0;
    return differ(subject, loss, x, step, &wide, out_apart) &&
           differ(subject, loss, x, step / 4, out, out_apart) &&
           fabs(wide - *out) <= 0.02 * fabs(*out) + 1e-4;
}

/* ---- gradients from the tape ---- */

/* Boxes of regions have no gradient; test_gradient_values.c checks that. */
static bool is_watched(const subject_t *subject, int i)
{
    if (subject->op == &op_def_roi_align && i == 1) return false;
    return subject->dense[i] != NULL && subject->floats[i] != NULL;
}

static status_t pass_back(subject_t *subject, const loss_t *loss, tensor_t *const *in, tape_t *tape)
{
    context_t *ctx = subject->ctx;
    const tensor_info_t *info = &subject->out[loss->output];
    tensor_t *out[OP_MAX_OUTPUTS] = {NULL}, *grad = NULL;
    int n_out = OP_MAX_OUTPUTS;
    void *bytes = NULL;
    for (int i = 0; i < subject->call.n_in; i++)
        if (is_watched(subject, i)) CHECK_OK(ctx, tape_watch(ctx, tape, in[i]));
    CHECK_OK(ctx, dispatch_run(ctx, subject->op, subject->call.attrs, subject->call.n_in,
                               (const tensor_t *const *)in, &n_out, out));
    CHECK_OK(ctx, tensor_zeros(ctx, info->dtype, info->rank, info->sizes, &grad));
    CHECK_OK(ctx, tensor_data_mutable(ctx, grad, &bytes));
    for (int i = 0; i < loss->n; i++) ((float *)bytes)[loss->at[i]] = (float)loss->factor[i];
    status_t status = tape_backward(ctx, tape, out[loss->output], grad);
    tensor_release(grad);
    for (int i = 0; i < n_out; i++) tensor_release(out[i]);
    return status;
}

static void compare(subject_t *subject, const loss_t *loss, int input, const tensor_t *grad)
{
    const int64_t numel = info_numel(subject->infos[input]);
    float *got = calloc((size_t)numel + 1, sizeof *got);
    double expected[MAX_PROBES], apart[MAX_PROBES], most = 0.0;
    int64_t at[MAX_PROBES];
    int n = 0;
    assert_non_null(got);
    if (grad != NULL)
        CHECK_OK(subject->ctx, tensor_read(subject->ctx, grad, got, (size_t)numel * sizeof *got));
    for (int tries = 0; tries < 3 * loss->n_probes && n < loss->n_probes && n < numel; tries++) {
        /* if possible, half of the tested elements have a gradient that is not zero */
        int64_t place = draw_below(subject, numel);
        for (int k = 0; tries % 2 == 0 && k < 50 && got[place] == 0; k++)
            place = draw_below(subject, numel);
        if (!differentiate(subject, loss, &subject->floats[input][place], &expected[n],
                           &apart[n])) {
            subject->n_kinks++;
            continue;
        }
        most = fmax(most, fabs(expected[n]));
        at[n++] = place;
    }
    for (int i = 0; i < n; i++) {
        const double error = fabs((double)got[at[i]] - expected[i]);
        const double bound = 3e-3 * fabs(expected[i]) + 1e-3 * most + 2e-4 + apart[i] / 2.0;
        if (!(error <= bound))
            fail_msg("%s:%d %s: input %d, element %lld of output %d's loss: %g, by differences %g",
                     subject->op->name, subject->index, cases_of(subject->op)[subject->index],
                     input, (long long)at[i], loss->output, (double)got[at[i]], expected[i]);
    }
    subject->n_passed += n > 0;
    free(got);
}

static void check_output(subject_t *subject, int output, bool is_mkldnn)
{
    context_t *ctx = subject->ctx;
    tensor_t *in[CASE_MAX_INPUTS] = {NULL};
    tape_t *tape = NULL;
    loss_t loss;
    draw_loss(subject, output, &loss);
    for (int i = 0; i < subject->call.n_in; i++) {
        if (subject->dense[i] == NULL) continue;
        const operand_t *operand =
            &subject->op->operands[i < subject->op->n_operands ? i : subject->op->n_operands - 1];
        const bool is_forced = is_mkldnn && is_watched(subject, i) &&
                               operand->role == ROLE_ACTIVATION && subject->infos[i]->rank > 0;
        if (is_forced && subject->infos[i]->rank >= 3 && subject->infos[i]->rank <= 5)
            CHECK_OK(ctx, convert_reorder(ctx, subject->dense[i],
                                          (const char *[]){"aBc16b", "aBcd16b",
                                                           "aBcde16b"}[subject->infos[i]->rank - 3],
                                          &in[i]));
        else if (is_forced)
            CHECK_OK(ctx, to_mkldnn(ctx, subject->dense[i], &in[i]));
        else
            in[i] = tensor_retain(subject->dense[i]);
    }
    CHECK_OK(ctx, tape_create(ctx, &tape));
    status_t status = pass_back(subject, &loss, in, tape);
    if (status == STATUS_UNSUPPORTED)
        subject->n_refused++;
    else
        CHECK_OK(ctx, status);
    for (int i = 0; i < subject->call.n_in && status == STATUS_OK; i++)
        if (is_watched(subject, i)) compare(subject, &loss, i, tape_gradient(tape, in[i]));
    tape_destroy(tape);
    for (int i = 0; i < subject->call.n_in; i++) tensor_release(in[i]);
}

/* Returns false if the case is too large or has no gradient to check. */
static bool prepare(subject_t *subject)
{
    context_t *ctx = subject->ctx;
    int n_floating = 0;
    int64_t n_elements = 0;
    for (int i = 0; i < subject->call.n_in; i++) {
        static const tensor_info_t absent = {.dtype = DTYPE_NONE};
        const case_operand_t *operand = &subject->call.in[i];
        const bool is_f32 = operand->dtype == DTYPE_F32 && !operand->is_number;
        CHECK_OK(ctx, case_fill(ctx, operand, &subject->dense[i]));
        subject->infos[i] = &absent;
        if (subject->dense[i] == NULL) continue;
        if (dtype_is_floating(operand->dtype) && !is_f32 && !operand->is_number) return false;
        subject->infos[i] = tensor_info(subject->dense[i]);
        n_elements += info_numel(subject->infos[i]);
        if (info_numel(subject->infos[i]) == 0) return false;
        CHECK_OK(ctx, tensor_data(ctx, subject->dense[i], &subject->data[i]));
        if (!is_f32) continue;
        void *bytes = NULL;
        CHECK_OK(ctx, tensor_data_mutable(ctx, subject->dense[i], &bytes));
        subject->floats[i] = bytes;
        subject->data[i] = bytes;
        n_floating++;
    }
    if (n_floating == 0 || n_elements > MAX_ELEMENTS) return false;
    attrs_normalize(&subject->op->attrs, subject->call.attrs, subject->attrs);
    const post_ops_t *post = attrs_post(&subject->op->attrs, subject->attrs);
    if (post != NULL && post->n > 0) return false;
    CHECK_OK(ctx, case_infer(ctx, subject->op, subject->call.attrs, subject->call.n_in,
                             subject->dense, &subject->n_out, subject->out));
    for (int i = 0; i < subject->n_out; i++)
        if (info_numel(&subject->out[i]) == 0) return false;
    return true;
}

static void check_case(subject_t *subject, bool is_mkldnn)
{
    CHECK_OK(subject->ctx, case_parse(subject->ctx, subject->op,
                                      cases_of(subject->op)[subject->index], &subject->call));
    const bool is_asked = prepare(subject);
    for (int i = 0; is_asked && i < subject->n_out; i++)
        if (subject->out[i].dtype == DTYPE_F32) check_output(subject, i, is_mkldnn);
    for (int i = 0; i < subject->call.n_in; i++) tensor_release(subject->dense[i]);
}

static bool is_chosen(const opdef_t *op, int index)
{
    const size_t length = strlen(op->name);
    if (filter == NULL) return true;
    if (strncmp(filter, op->name, length) != 0) return false;
    return filter[length] == 0 || (filter[length] == ':' && atoi(filter + length + 1) == index);
}

static void check_all(bool is_mkldnn)
{
    for (int i = 0; i < ops_count(); i++) {
        const opdef_t *op = ops_at(i);
        int n_passed = 0, n_refused = 0, n_kinks = 0, n_asked = 0;
        if (op->gradient == NULL || op->gradient == &gradient_zero) continue;
        for (int index = 0; cases_of(op)[index] != NULL; index++) {
            if (!is_chosen(op, index)) continue;
            /* With sanitizers, one case runs both dense and mkldnn; then the two alternate. */
            if (IS_SANITIZED && filter == NULL && n_passed > 0 && index % 2 == is_mkldnn) continue;
            subject_t subject = {.op = op, .index = index, .random = (uint64_t)(i * 100 + index)};
            counting_t memory;
            counting_begin(&memory);
            const context_options_t options = {.allocator = &memory.allocator, .n_threads = 2};
            assert_int_equal(context_create(&options, &subject.ctx), STATUS_OK);
            context_seed(subject.ctx, (uint64_t)index + 1);
            check_case(&subject, is_mkldnn);
            context_destroy(subject.ctx);
            assert_int_equal(atomic_load(&memory.live), 0);
            n_passed += subject.n_passed;
            n_refused += subject.n_refused;
            n_kinks += subject.n_kinks;
            n_asked++;
        }
        if (filter != NULL && n_asked > 0)
            print_message("%s: %d inputs agree, %d outputs refused, %d elements at kinks\n",
                          op->name, n_passed, n_refused, n_kinks);
        if (n_asked > 0 && filter == NULL && n_passed == 0)
            fail_msg("%s: has a rule, and no case shows it", op->name);
    }
}

static void gradients_are_those_of_the_specification(void **state)
{
    (void)state;
    check_all(false);
}

static void gradients_of_blocked_tensors_are_the_same(void **state)
{
    (void)state;
    check_all(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_the_specification),
        cmocka_unit_test(gradients_of_blocked_tensors_are_the_same),
    };
    if (argc > 1) filter = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
