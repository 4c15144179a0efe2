/* Defines a custom operator, root mean square normalisation. The installed header is all that it
 * needs.
 *
 *   1  calls it on a dense and on an mkldnn tensor, which dispatch converts
 *   2  compares its result with its specification, a simple version of the operator
 *   3  traces and freezes it together with built-in operators */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera.h>

static void check(context_t *ctx, status_t status)
{
    if (status == STATUS_OK) return;
    fprintf(stderr, "own_operator: %s\n", context_error(ctx));
    exit(EXIT_FAILURE);
}

/* ---- the operator: out[..][c] = x[..][c] / sqrt(mean(c) x[..][c]^2 + epsilon) ---- */

typedef struct unit_rms_attrs {
    double epsilon;
} unit_rms_attrs_t;

static const attr_field_t fields[] = {
    {"epsilon", ATTR_FLOAT, false, offsetof(unit_rms_attrs_t, epsilon), 0, 1e-6, NULL}};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    char text[INFO_TEXT_MAX];
    const tensor_info_t *x = call->in[0];
    (void)out_n;
    if (x->dtype != DTYPE_F32 || x->rank < 1)
        return context_fail(ctx, STATUS_INVALID_ARGUMENT,
                            "unit_rms: x is %s, f32 of rank 1 or more is needed",
                            info_text(x, text));
    out[0] = info_dense(x->dtype, x->rank, x->sizes);
    return STATUS_OK;
}

/* The specification: computes one element in double. */
static double spec(const spec_call_t *call, int output, const int64_t *index)
{
    const unit_rms_attrs_t *attrs = call->attrs;
    int last = call->out->rank - 1;
    int64_t at[TENSOR_MAX_RANK], n = call->out->sizes[last];
    double sum = 0.0;
    (void)output;
    for (int d = 0; d < last; d++) at[d] = index[d];
    for (at[last] = 0; at[last] < n; at[last]++) {
        double x = spec_at(call, 0, at);
        sum += x * x;
    }
    return spec_at(call, 0, index) / sqrt(sum / (double)n + attrs->epsilon);
}

static status_t run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                    void *scratch)
{
    const unit_rms_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *info = prepared_input(prepared, 0);
    const int64_t n = info->sizes[info->rank - 1], n_rows = info_numel(info) / n;
    const float *x = in[0];
    float *y = out[0];
    (void)ctx, (void)scratch;
    for (int64_t row = 0; row < n_rows; row++, x += n, y += n) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
        const double factor = 1.0 / sqrt(sum / (double)n + attrs->epsilon);
        for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] * factor);
    }
    return STATUS_OK;
}

static const kernel_t kernel = {.name = "rows", .prepare = ops_prepare_dense, .run = run};
static const kernel_t *const kernels[] = {&kernel, NULL};

static const opdef_t unit_rms = {.name = "unit_rms",
                                 .preference = OP_DENSE,
                                 .attrs = {sizeof(unit_rms_attrs_t), 1, fields},
                                 .n_operands = 1,
                                 .operands = operands,
                                 .n_outputs = 1,
                                 .infer = infer,
                                 .kernels = kernels,
                                 .spec = spec};

static status_t op_unit_rms(context_t *ctx, const tensor_t *x, const unit_rms_attrs_t *attrs,
                            tensor_t **out)
{
    return dispatch_run(ctx, &unit_rms, attrs, 1, &x, NULL, out);
}

/* ---- using it ---- */

static status_t forward(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                        int *n_out, tensor_t **out)
{
    tensor_t *y = NULL, *z = NULL;
    (void)n_in;
    *n_out = 1;
    op_conv2d(ctx, in[0], module_parameter(self, "weight"), NULL, NULL, &y);
    op_unit_rms(ctx, y, &(unit_rms_attrs_t){1e-3}, &z);
    op_relu(ctx, z, &out[0]);
    return context_status(ctx);
}

int main(void)
{
    context_t *ctx = NULL;
    module_t *net = NULL, *frozen = NULL;
    tensor_t *x = NULL, *blocked = NULL, *y = NULL, *again = NULL, *weight = NULL;
    double difference = 0.0, error = 0.0;
    counters_t counters;
    text_t text;

    if (context_create(NULL, &ctx)) return 1;
    context_seed(ctx, 1);
    check(ctx, scope_begin(ctx));

    tensor_randn(ctx, DTYPE_F32, SHAPE(2, 8, 5, 7), &x);
    op_to_mkldnn(ctx, x, &blocked);
    op_unit_rms(ctx, x, NULL, &y);
    counters_reset(ctx);
    op_unit_rms(ctx, blocked, NULL, &again);
    counters_read(ctx, &counters);
    check(ctx, tensor_max_rel_diff(ctx, again, y, &difference));
    printf("1. of mkldnn and of dense: difference %g, %d transition to dense\n", difference,
           (int)counters.to_dense);

    check(ctx, dispatch_verify(ctx, &unit_rms, NULL, 1, (const tensor_t *[]){x}, 1,
                               (const tensor_t *[]){y}, 0, &error));
    printf("2. against its specification: %s\n", error <= 1.0 ? "within its bound" : "wrong");

    check(ctx, module_create(ctx, "Net", &net));
    tensor_randn(ctx, DTYPE_F32, SHAPE(16, 8, 3, 3), &weight);
    check(ctx, module_set_parameter(ctx, net, "weight", weight));
    check(ctx, module_set_forward(ctx, net, "forward", forward));
    module_forward(ctx, net, x, &y);
    check(ctx, graph_trace(ctx, net, "forward", 1, (const tensor_t *[]){x}));
    check(ctx, freeze(ctx, net, NULL, &frozen));
    module_forward(ctx, frozen, x, &again);
    check(ctx, tensor_max_rel_diff(ctx, again, y, &difference));
    text = text_begin(ctx);
    check(ctx, graph_print(ctx, graph_of(net, "forward"), NULL, &text));
    printf("3. traced\n\n%s\nand frozen: %s\n", text_string(&text),
           difference < 1e-5 ? "the same result" : "another result");
    text_clear(&text);

    check(ctx, scope_end(ctx));
    module_release(frozen);
    module_release(net);
    context_destroy(ctx);
    return 0;
}
