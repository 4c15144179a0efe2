/* Max pooling that also returns the indices of the maxima, for unpooling. */
#include <math.h>
#include <string.h>

#include "kernels/pool/indices_impl.h"
#include "ops/accept_impl.h"
#include "ops/pool/pool_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

static const char *const orders[] = {"plane", "tensor", "columns", NULL};

typedef struct pool_indices_attrs {
    pool_attrs_t windows; /* must come first: pool_infer and pool_axes read it */
    int order;
} pool_indices_attrs_t;

#define ORDER FIELD_NAME(pool_indices_attrs_t, order, 0, orders)

static const attr_field_t fields_1d[] = {POOL_FIELDS(1), ORDER};
static const attr_field_t fields_2d[] = {POOL_FIELDS(2), ORDER};
static const attr_field_t fields_3d[] = {POOL_FIELDS(3), ORDER};

static const attr_field_t fields_adaptive[] = {FIELD_INTS(adaptive_attrs_t, output_size)};

static int order_of(const opdef_t *op, const void *attrs)
{
    if (pool_is_adaptive(op)) return POOL_ORDER_PLANE;
    return ((const pool_indices_attrs_t *)attrs)->order;
}

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };
enum { VALUES, INDICES };

static status_t pool_indices_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                   tensor_info_t *out)
{
    TRY(pool_is_adaptive(call->op) ? pool_infer_adaptive(ctx, call, out_n, &out[VALUES])
                                   : pool_infer(ctx, call, out_n, &out[VALUES]));
    out[INDICES] = info_dense(DTYPE_S64, out[VALUES].rank, out[VALUES].sizes);
    return STATUS_OK;
}

/* ---- specification: the first largest element, or the last NaN, as in PyTorch ---- */

static double pool_indices_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *x = call->in[X];
    const int lead = 5 - x->rank;
    pool_axis_t axes[3];
    pool_window_t windows[3];
    int64_t counts[3], tap[3] = {0}, best[3] = {-1, -1, -1};
    int64_t at[TENSOR_MAX_RANK] = {index[0], index[1]};
    double largest = -INFINITY;
    pool_axes(call->op, call->attrs, x, &call->out[VALUES], axes);
    for (int i = 0; i < 3; i++) {
        windows[i] = pool_window(&axes[i], i < lead ? 0 : index[2 + i - lead]);
        counts[i] = windows[i].count;
    }
    if (counts[0] * counts[1] * counts[2] > 0) {
        do {
            int64_t place[3];
            for (int i = 0; i < 3; i++) place[i] = windows[i].first + tap[i] * windows[i].step;
            for (int i = lead; i < 3; i++) at[2 + i - lead] = place[i];
            const double value = spec_at(call, X, at);
            if (best[0] >= 0 && !(value > largest) && !isnan(value)) continue;
            largest = value;
            for (int i = 0; i < 3; i++) best[i] = place[i];
        } while (shape_next(3, counts, tap));
    }
    if (output == VALUES) return largest;
    const int order = order_of(call->op, call->attrs);
    return (double)pool_index(order, axes, index[0] * x->sizes[1] + index[1], best);
}

/* ---- dense kernel: plane by plane ---- */

typedef struct plan {
    pool_axis_t axes[3];
    int64_t n_planes;
} plan_t;

static status_t pool_indices_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *x = call->in[X];
    plan_t *plan = NULL;
    TRY(ops_prepare_dense(ctx, call, prepared));
    TRY(context_get_zeroed(ctx, sizeof *plan, "pooling", &plan));
    prepared->state = plan;
    pool_axes(call->op, call->attrs, x, &call->out[VALUES], plan->axes);
    plan->n_planes = x->sizes[0] * x->sizes[1];
    return STATUS_OK;
}

static status_t pool_with_indices_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                      void *const *out, void *scratch)
{
    (void)scratch;
    const plan_t *plan = prepared->state;
    const pool_indices_t indices = {.axes = plan->axes,
                                    .n_planes = plan->n_planes,
                                    .order = order_of(prepared->op, prepared_attrs(prepared)),
                                    .dtype = prepared->in[X].dtype,
                                    .src = in[X],
                                    .values = out[VALUES],
                                    .indices = out[INDICES]};
    pool_indices_run(&indices, threads_for(ctx, info_numel(&prepared->in[X])));
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = pool_indices_prepare, .run = pool_with_indices_run};
static const kernel_t *const kernels[] = {&native, NULL};

/* ---- gradient: of the maxima only ---- */

static void pool_indices_pass(const gradient_call_t *call)
{
    pool_backward_attrs_t backward = {.input_size.n = 0};
    if (!pool_is_adaptive(call->op))
        backward.windows = ((const pool_indices_attrs_t *)call->attrs)->windows;
    const opdef_t *op = pool_backward_op(call->op, call->op->attrs.fields[0].length);
    const value_t in[] = {call->in[X], call->out_grad[VALUES]};
    if (call->out_grad[VALUES] == VALUE_NONE) return;
    call->in_grad[X] = emit_op(call->emitter, op, &backward, 2, in);
}

static const gradient_t gradient = {.pass = pool_indices_pass, .reads_in = 1u << X};

/* ---- definitions ---- */

#define DEFINE(n)                                                                                  \
    const opdef_t op_def_max_pool##n##d_with_indices = {                                           \
        .name = "max_pool" #n "d_with_indices",                                                    \
        .variant = VARIANT_max,                                                                    \
        .preference = OP_DENSE,                                                                    \
        .attrs = {sizeof(pool_indices_attrs_t), sizeof fields_##n##d / sizeof *fields_##n##d,      \
                  fields_##n##d},                                                                  \
        OPERANDS(operands),                                                                        \
        .n_outputs = 2,                                                                            \
        .infer = pool_indices_infer,                                                               \
        .infers_symbols = true,                                                                    \
        .kernels = kernels,                                                                        \
        .spec = pool_indices_spec,                                                                 \
        .gradient = &gradient}

DEFINE(1);
DEFINE(2);
DEFINE(3);

const opdef_t op_def_adaptive_max_pool_with_indices = {
    .name = "adaptive_max_pool_with_indices",
    .variant = POOL_ADAPTIVE | VARIANT_max,
    .preference = OP_DENSE,
    .attrs = {sizeof(adaptive_attrs_t), 1, fields_adaptive},
    OPERANDS(operands),
    .n_outputs = 2,
    .infer = pool_indices_infer,
    .infers_symbols = true,
    .kernels = kernels,
    .spec = pool_indices_spec,
    .gradient = &gradient};

/* ---- public ---- */

static status_t begin(context_t *ctx, const opdef_t *op, tensor_t **out_values,
                      tensor_t **out_indices)
{
    if (out_indices != NULL) *out_indices = NULL;
    TRY(context_output(ctx, op->name, out_values));
    return context_output(ctx, op->name, out_indices);
}

static status_t finish(context_t *ctx, const opdef_t *op, const void *attrs, const tensor_t *x,
                       tensor_t **out_values, tensor_t **out_indices)
{
    tensor_t *out[2] = {NULL, NULL};
    int n_out = 2;
    TRY(dispatch_run(ctx, op, attrs, 1, &x, &n_out, out));
    *out_values = out[VALUES];
    *out_indices = out[INDICES];
    return STATUS_OK;
}

static status_t call(context_t *ctx, const opdef_t *op, const tensor_t *x,
                     const pool_attrs_t *windows, tensor_t **out_values, tensor_t **out_indices)
{
    pool_indices_attrs_t attrs = {.order = POOL_ORDER_PLANE};
    TRY(begin(ctx, op, out_values, out_indices));
    if (windows != NULL) attrs.windows = *windows;
    return finish(ctx, op, &attrs, x, out_values, out_indices);
}

#define PUBLIC(name)                                                                               \
    status_t op_##name(context_t *ctx, const tensor_t *x, const pool_attrs_t *attrs,               \
                       tensor_t **out_values, tensor_t **out_indices)                              \
    {                                                                                              \
        return call(ctx, &op_def_##name, x, attrs, out_values, out_indices);                       \
    }

PUBLIC(max_pool1d_with_indices)
PUBLIC(max_pool2d_with_indices)
PUBLIC(max_pool3d_with_indices)

status_t op_adaptive_max_pool_with_indices(context_t *ctx, const tensor_t *x, int n,
                                           const int64_t *output_size, tensor_t **out_values,
                                           tensor_t **out_indices)
{
    const opdef_t *op = &op_def_adaptive_max_pool_with_indices;
    adaptive_attrs_t attrs;
    TRY(begin(ctx, op, out_values, out_indices));
    TRY(pool_read_adaptive(ctx, op, n, output_size, &attrs));
    return finish(ctx, op, &attrs, x, out_values, out_indices);
}
