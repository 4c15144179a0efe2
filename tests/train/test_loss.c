/* Losses and their gradients compared with PyTorch: loss_values.py writes loss_values.txt. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "tensor/convert/convert.h"
#include "tests/support/drawn.h"
#include "train/loss.h"
#include "train/tape.h"

enum { MAX_LINE = 2048, N = 12 };

static tensor_t *drawn(context_t *ctx, const char *key, double shift, double scale, int rank,
                       const int64_t *sizes)
{
    tensor_t *x = NULL;
    void *data = NULL;
    CHECK_OK(ctx, tensor_empty(ctx, DTYPE_F32, rank, sizes, &x));
    CHECK_OK(ctx, tensor_data_mutable(ctx, x, &data));
    drawn_fill(key, shift, scale, tensor_numel(x), data);
    return x;
}

static tensor_t *make_labels(context_t *ctx, int rank, const int64_t *sizes)
{
    tensor_t *labels = NULL;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, rank, sizes, (int64_t[]){0, 2, 1, 2}, &labels));
    return labels;
}

static tensor_t *make_weight(context_t *ctx)
{
    tensor_t *weight = NULL;
    CHECK_OK(ctx,
             tensor_from(ctx, DTYPE_F32, 1, (int64_t[]){3}, (float[]){0.5f, 1.5f, 2.0f}, &weight));
    return weight;
}

/* Returns the number after "name=" in a line, or a default. */
static double option(const char *line, const char *name, double otherwise)
{
    char word[40];
    snprintf(word, sizeof word, " %s=", name);
    const char *at = strstr(line, word);
    return at != NULL ? strtod(at + strlen(word), NULL) : otherwise;
}

static bool is_about(const char *line, const char *name)
{
    return strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ' ';
}

/* ---- one line ---- */

typedef struct subject {
    context_t *ctx;
    const char *line;
    reduction_t reduction;
    tensor_t *x, *target, *weight, *pos_weight;
} subject_t;

static bool is_of_classes(const char *line)
{
    return is_about(line, "cross_entropy") || is_about(line, "nll") ||
           is_about(line, "probabilities") || is_about(line, "planes");
}

static void make_target(subject_t *subject)
{
    context_t *ctx = subject->ctx;
    const int64_t sizes[] = {4, 3};
    tensor_t *scores = NULL;
    if (is_about(subject->line, "planes")) {
        subject->target = make_labels(ctx, 2, (int64_t[]){2, 2});
    } else if (is_about(subject->line, "probabilities")) {
        scores = drawn(ctx, "target", 0.0, 1.0, 2, sizes);
        CHECK_OK(ctx, op_softmax(ctx, scores, 1, &subject->target));
        tensor_release(scores);
    } else if (is_of_classes(subject->line)) {
        subject->target = make_labels(ctx, 1, sizes);
    } else {
        const bool is_bce = is_about(subject->line, "bce");
        subject->target = drawn(ctx, "target", is_bce ? 0.5 : 0.0, is_bce ? 0.5 : 1.0, 2, sizes);
    }
}

static void begin(context_t *ctx, const char *line, const char *format, subject_t *subject)
{
    const bool has_planes = is_about(line, "planes");
    *subject = (subject_t){.ctx = ctx, .line = line, .reduction = REDUCTION_MEAN};
    if (strstr(line, "reduction=sum") != NULL) subject->reduction = REDUCTION_SUM;
    if (strstr(line, "reduction=none") != NULL) subject->reduction = REDUCTION_NONE;
    subject->x = has_planes ? drawn(ctx, "x", 0.0, 3.0, 3, (int64_t[]){2, 3, 2})
                            : drawn(ctx, "x", 0.0, 3.0, 2, (int64_t[]){4, 3});
    if (format != NULL) {
        tensor_t *dense = subject->x;
        CHECK_OK(ctx, convert_reorder(ctx, dense, has_planes ? "aBc16b" : "ab", &subject->x));
        tensor_release(dense);
    }
    make_target(subject);
    if (option(line, "weight", 0.0) != 0.0) subject->weight = make_weight(ctx);
    if (option(line, "pos_weight", 0.0) != 0.0) subject->pos_weight = make_weight(ctx);
}

static status_t run_loss(const subject_t *subject, tensor_t **out)
{
    context_t *ctx = subject->ctx;
    const char *line = subject->line;
    const reduction_t reduction = subject->reduction;
    if (is_about(line, "mse")) return loss_mse(ctx, subject->x, subject->target, reduction, out);
    if (is_about(line, "l1")) return loss_l1(ctx, subject->x, subject->target, reduction, out);
    if (is_about(line, "smooth_l1"))
        return loss_smooth_l1(ctx, subject->x, subject->target, option(line, "beta", NAN),
                              reduction, out);
    if (is_about(line, "bce"))
        return loss_bce_with_logits(ctx, subject->x, subject->target, subject->weight,
                                    subject->pos_weight, reduction, out);
    cross_entropy_options_t options = cross_entropy_options();
    options.reduction = reduction;
    options.weight = subject->weight;
    options.ignore_index = (int64_t)option(line, "ignore_index", -100);
    options.label_smoothing = option(line, "label_smoothing", 0.0);
    return is_about(line, "nll")
               ? loss_nll(ctx, subject->x, subject->target, &options, out)
               : loss_cross_entropy(ctx, subject->x, subject->target, &options, out);
}

static void compare(const subject_t *subject, const char *what, const tensor_t *got, char **numbers)
{
    float elements[N];
    assert_non_null(got);
    CHECK_OK(subject->ctx, tensor_read(subject->ctx, got, elements, sizeof elements));
    for (int i = 0; i < tensor_numel(got); i++) {
        const double wanted = strtod(*numbers, numbers);
        if (!(fabs((double)elements[i] - wanted) <= 2e-6 * (1.0 + fabs(wanted))))
            fail_msg("%.80s: %s %d is %.9g, must be %.9g", subject->line, what, i,
                     (double)elements[i], wanted);
    }
}

static void check_line(context_t *ctx, const char *line, const char *format)
{
    subject_t subject;
    tape_t *tape = NULL;
    tensor_t *loss = NULL, *upstream = NULL;
    char *numbers = strchr(line, ':') + 1;
    begin(ctx, line, format, &subject);
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, subject.x));
    CHECK_OK(ctx, run_loss(&subject, &loss));
    if (subject.reduction == REDUCTION_NONE)
        upstream = drawn(ctx, "grad", 0.0, 1.0, tensor_rank(loss), tensor_sizes(loss));
    CHECK_OK(ctx, tape_backward(ctx, tape, loss, upstream));
    compare(&subject, "loss", loss, &numbers);
    compare(&subject, "gradient", tape_gradient(tape, subject.x), &numbers);
    while (*numbers == ' ') numbers++;
    assert_int_equal(*numbers, '\n');
    tape_destroy(tape);
    tensor_t *all[] = {subject.x,          subject.target, subject.weight,
                       subject.pos_weight, loss,           upstream};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tensor_release(all[i]);
}

static void losses_and_gradients_are_those_of_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    static char line[MAX_LINE];
    int n = 0;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/train/values/loss_values.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#') continue;
        check_line(ctx, line, NULL);
        check_line(ctx, line, "mkldnn");
        n++;
    }
    fclose(file);
    assert_int_equal(n, 3 * 26);
}

/* ---- errors ---- */

static void a_label_that_is_no_class_is_told(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {4, 3}, n = 4;
    tensor_t *x = drawn(ctx, "x", 0.0, 1.0, 2, sizes), *labels = NULL, *loss = NULL;
    cross_entropy_options_t options = cross_entropy_options();
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, &n, (int64_t[]){0, 2, 3, -1}, &labels));
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, x, labels, NULL, &loss), STATUS_INVALID_ARGUMENT,
                "cross_entropy: label 3 at index 2 of the target, x f32[4,3] has 3 classes");
    assert_null(loss);
    options.ignore_index = 3;
    CHECK_FAILS(ctx, loss_nll(ctx, x, labels, &options, &loss), STATUS_INVALID_ARGUMENT,
                "nll_loss: label -1 at index 3 of the target");
    tensor_release(x);
    tensor_release(labels);
}

static void what_does_not_fit_is_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {4, 3}, others[] = {4, 2};
    tensor_t *x = drawn(ctx, "x", 0.0, 1.0, 2, sizes), *y = drawn(ctx, "y", 0.0, 1.0, 2, others);
    tensor_t *labels = make_labels(ctx, 1, sizes), *loss = NULL, *row = make_weight(ctx);
    cross_entropy_options_t options = cross_entropy_options();
    CHECK_FAILS(ctx, loss_mse(ctx, x, y, REDUCTION_MEAN, &loss), STATUS_INVALID_ARGUMENT,
                "loss_mse: x is f32[4,3], target f32[4,2], sizes must be equal");
    CHECK_FAILS(ctx, loss_l1(ctx, labels, labels, REDUCTION_MEAN, &loss), STATUS_INVALID_ARGUMENT,
                "loss_l1: x is s64[4], must be floating");
    CHECK_FAILS(ctx, loss_l1(ctx, x, x, (reduction_t)3, &loss), STATUS_INVALID_ARGUMENT,
                "reduction 3, must be a reduction_t");
    CHECK_FAILS(ctx, loss_smooth_l1(ctx, x, x, -1.0, REDUCTION_MEAN, &loss),
                STATUS_INVALID_ARGUMENT, "beta -1, must not be negative");
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, x, y, NULL, &loss), STATUS_INVALID_ARGUMENT,
                "labels have x's sizes without dimension 1");
    CHECK_FAILS(ctx, loss_nll(ctx, x, x, NULL, &loss), STATUS_INVALID_ARGUMENT,
                "nll_loss: target is f32[4,3], integers are needed");
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, labels, labels, NULL, &loss), STATUS_INVALID_ARGUMENT,
                "must be floating and have a dimension of classes");
    options.label_smoothing = 1.5;
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, x, labels, &options, &loss), STATUS_INVALID_ARGUMENT,
                "label_smoothing=1.5, must be between 0 and 1");
    CHECK_FAILS(ctx, loss_nll(ctx, x, labels, &options, &loss), STATUS_INVALID_ARGUMENT,
                "only loss_cross_entropy supports it");
    options = cross_entropy_options();
    options.ignore_index = 1;
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, x, x, &options, &loss), STATUS_INVALID_ARGUMENT,
                "only labels can be ignored");
    options.weight = x;
    CHECK_FAILS(ctx, loss_cross_entropy(ctx, x, labels, &options, &loss), STATUS_INVALID_ARGUMENT,
                "one number for each class is needed");
    assert_null(loss);
    tensor_release(x);
    tensor_release(y);
    tensor_release(labels);
    tensor_release(row);
}

static void classes_weights_have_no_gradient(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {4, 3};
    tensor_t *x = drawn(ctx, "x", 0.0, 1.0, 2, sizes), *weight = make_weight(ctx), *loss = NULL;
    tensor_t *labels = make_labels(ctx, 1, sizes);
    cross_entropy_options_t options = cross_entropy_options();
    tape_t *tape = NULL;
    options.weight = weight;
    CHECK_OK(ctx, tape_create(ctx, &tape));
    CHECK_OK(ctx, tape_watch(ctx, tape, weight));
    CHECK_OK(ctx, loss_cross_entropy(ctx, x, labels, &options, &loss));
    CHECK_FAILS(ctx, tape_backward(ctx, tape, loss, NULL), STATUS_UNSUPPORTED,
                "the gradient of weight is wanted, only x has one");
    tape_destroy(tape);
    tensor_release(x);
    tensor_release(weight);
    tensor_release(loss);
    tensor_release(labels);
}

/* ---- numbers ---- */

static void large_scores_neither_overflow_nor_lose_the_loss(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3}, n = 2;
    const float elements[] = {1e4f, -1e4f, 0.0f, 90.0f, 90.0f, -INFINITY};
    tensor_t *x = NULL, *labels = NULL, *losses = NULL;
    cross_entropy_options_t options = cross_entropy_options();
    float got[2];
    options.reduction = REDUCTION_NONE;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 2, sizes, elements, &x));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, &n, (int64_t[]){1, 0}, &labels));
    CHECK_OK(ctx, loss_cross_entropy(ctx, x, labels, &options, &losses));
    CHECK_OK(ctx, tensor_read(ctx, losses, got, sizeof got));
    assert_true(got[0] == 2e4f);
    assert_float_equal(got[1], 0.69314718f, 1e-6);
    tensor_release(x);
    tensor_release(labels);
    tensor_release(losses);
}

static void a_mean_over_ignored_rows_alone_is_no_number(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {2, 3}, n = 2;
    tensor_t *x = drawn(ctx, "x", 0.0, 1.0, 2, sizes), *labels = NULL, *loss = NULL;
    double value = 0.0;
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 1, &n, (int64_t[]){-100, -100}, &labels));
    CHECK_OK(ctx, loss_cross_entropy(ctx, x, labels, NULL, &loss));
    CHECK_OK(ctx, tensor_item(ctx, loss, &value));
    assert_true(isnan(value)); /* as in PyTorch */
    tensor_release(x);
    tensor_release(labels);
    tensor_release(loss);
}

static status_t scenario(context_t *ctx)
{
    const int64_t sizes[] = {2, 3};
    const float elements[] = {1, 2, 3, 4, 5, 6};
    tensor_t *x = NULL, *loss = NULL;
    status_t status = tensor_from(ctx, DTYPE_F32, 2, sizes, elements, &x);
    if (status == STATUS_OK) status = loss_smooth_l1(ctx, x, x, 0.5, REDUCTION_MEAN, &loss);
    tensor_release(loss);
    loss = NULL;
    if (status == STATUS_OK) status = loss_bce_with_logits(ctx, x, x, x, x, REDUCTION_SUM, &loss);
    tensor_release(loss);
    loss = NULL;
    if (status == STATUS_OK) status = loss_cross_entropy(ctx, x, x, NULL, &loss);
    tensor_release(loss);
    tensor_release(x);
    return status;
}

static void nothing_leaks_when_allocations_fail(void **state)
{
    (void)state;
    check_every_allocation(scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(losses_and_gradients_are_those_of_pytorch),
        TEST(a_label_that_is_no_class_is_told),
        TEST(what_does_not_fit_is_refused),
        TEST(classes_weights_have_no_gradient),
        TEST(large_scores_neither_overflow_nor_lose_the_loss),
        TEST(a_mean_over_ignored_rows_alone_is_no_number),
        TEST(nothing_leaks_when_allocations_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
