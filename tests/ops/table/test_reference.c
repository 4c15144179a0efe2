/* Compares specifications with numbers from PyTorch. reference.py writes reference.txt. */
#include "tests/support/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"
#include "tests/support/case.h"

/* Returns element i of an operand, by the formula of `fill` in reference.py. */
static double draw(const case_operand_t *operand, int number, int64_t i)
{
    int64_t value = (i * 97 + number * 31 + 11) % 251;
    if (operand->dtype == DTYPE_BOOL) return value % 2 == 0;
    if (!dtype_is_floating(operand->dtype)) {
        if (operand->limit > 0) return (double)(value % operand->limit);
        value = value % 11 - (dtype_is_unsigned(operand->dtype) ? 0 : 5);
        return (double)(operand->is_positive ? llabs(value) + 1 : value);
    }
    double floating = (double)(value - 125) / 128.0;
    if (operand->scale > 0) floating *= (double)operand->scale;
    return operand->is_positive ? fabs(floating) + 0.125 : floating;
}

static tensor_t *fill(context_t *ctx, const case_operand_t *operand, int number)
{
    tensor_t *tensor = NULL;
    void *data = NULL;
    if (operand->dtype == DTYPE_NONE || operand->is_number) {
        CHECK_OK(ctx, case_fill(ctx, operand, &tensor));
        return tensor;
    }
    CHECK_OK(ctx, tensor_empty(ctx, operand->dtype, operand->rank, operand->sizes, &tensor));
    CHECK_OK(ctx, tensor_data_mutable(ctx, tensor, &data));
    for (int64_t i = 0; i < tensor_numel(tensor); i++)
        dtype_store(operand->dtype, (char *)data + (size_t)i * dtype_size(operand->dtype),
                    draw(operand, number, i));
    return tensor;
}

typedef struct reference {
    const opdef_t *op;
    char attrs[CASE_MAX_ATTRS];
    int n_in, n_out, output;
    tensor_t *in[CASE_MAX_INPUTS];
    const tensor_info_t *infos[CASE_MAX_INPUTS];
    const void *data[CASE_MAX_INPUTS];
    tensor_info_t out[OP_MAX_OUTPUTS];
} reference_t;

static bool begin(context_t *ctx, const char *line, reference_t *reference)
{
    static const tensor_info_t absent = {.dtype = DTYPE_NONE};
    char name[64] = "";
    size_t length = strcspn(line, "(");
    case_call_t call;
    assert_true(length < sizeof name);
    memcpy(name, line, length);
    memset(reference, 0, sizeof *reference);
    reference->op = ops_find(name);
    if (reference->op == NULL) {
        print_error("there is no operator %s\n", name);
        return false;
    }
    CHECK_OK(ctx, case_parse(ctx, reference->op, line + length, &call));
    attrs_normalize(&reference->op->attrs, call.attrs, reference->attrs);
    reference->n_in = call.n_in;
    for (int i = 0; i < call.n_in; i++) {
        reference->in[i] = fill(ctx, &call.in[i], i);
        reference->infos[i] = reference->in[i] == NULL ? &absent : tensor_info(reference->in[i]);
        if (reference->in[i] != NULL)
            CHECK_OK(ctx, tensor_data(ctx, reference->in[i], &reference->data[i]));
    }
    CHECK_OK(ctx, case_infer(ctx, reference->op, reference->attrs, call.n_in, reference->in,
                             &reference->n_out, reference->out));
    return true;
}

static void end(reference_t *reference)
{
    for (int i = 0; i < reference->n_in; i++) tensor_release(reference->in[i]);
    if (reference->op != NULL) assert_int_equal(reference->output, reference->n_out);
    memset(reference, 0, sizeof *reference);
}

/* Parses an output such as "= [2,3] 0.5 1 ...". Returns the number of elements that differ from
 * it. */
static int compare(const char *line, const char *title, reference_t *reference)
{
    int output = reference->output++, n_wrong = 0;
    assert_true(output < reference->n_out);
    const tensor_info_t *info = &reference->out[output];
    char sizes[128];
    shape_text(info->rank, info->sizes, sizes, sizeof sizes);
    const char *at = line + 2;
    if (strncmp(at, sizes, strlen(sizes)) != 0) {
        print_error("%s    output %d has sizes %s, wanted %.40s\n", title, output, sizes, at);
        return 1;
    }
    at += strlen(sizes);
    spec_call_t call = {.op = reference->op,
                        .attrs = reference->attrs,
                        .n_in = reference->n_in,
                        .in = reference->infos,
                        .data = reference->data,
                        .out = reference->out};
    int64_t index[TENSOR_MAX_RANK] = {0};
    for (int64_t i = 0; i < info_numel(info); i++) {
        char *behind = NULL;
        double wanted = strtod(at, &behind);
        assert_true(behind != at);
        at = behind;
        double given = reference->op->spec(&call, output, index);
        shape_next(info->rank, info->sizes, index);
        bool is_close = fabs(given - wanted) <= 1e-6 * fmax(1.0, fabs(wanted));
        if (is_close || given == wanted || (isnan(given) && isnan(wanted))) continue;
        if (n_wrong++ == 0)
            print_error("%s    output %d element %lld is %.9g, wanted %.9g\n", title, output,
                        (long long)i, given, wanted);
    }
    return n_wrong > 0;
}

static void specifications_agree_with_pytorch(void **state)
{
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/ops/values/reference.txt", "r");
    assert_non_null(file);
    char *line = NULL, title[512] = "";
    size_t capacity = 0;
    int n_wrong = 0, n_cases = 0;
    reference_t reference = {0};
    while (getline(&line, &capacity, file) > 0) {
        if (strncmp(line, "//", 2) == 0) continue;
        if (line[0] == '=') {
            if (reference.op != NULL) n_wrong += compare(line, title, &reference);
            continue;
        }
        end(&reference);
        snprintf(title, sizeof title, "%s", line);
        line[strcspn(line, "\n")] = '\0';
        n_wrong += !begin(ctx, line, &reference);
        n_cases++;
    }
    end(&reference);
    free(line);
    fclose(file);
    assert_true(n_cases > 50);
    assert_int_equal(n_wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(specifications_agree_with_pytorch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
