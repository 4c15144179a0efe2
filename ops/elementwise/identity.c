/* Operators that return their input unchanged: identity, and dropout of elements or channels in
 * inference. */
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"

typedef struct dropout_attrs {
    double p; /* probability that training sets an element to zero */
} dropout_attrs_t;

static const attr_field_t dropout_fields[] = {FIELD_FLOAT(dropout_attrs_t, p, 0.5)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};

static status_t infer_dropout(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    double p = ((const dropout_attrs_t *)call->attrs)->p;
    REQUIRE(ctx, p >= 0.0 && p <= 1.0, "%s: p=%g, 0 to 1 is needed", call->op->name, p);
    return ops_infer_like(ctx, call, out_n, out);
}

static double identity_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    return spec_at(call, 0, index);
}

/* The result may have any layout and format; it keeps those of x. */
static status_t identity_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[0];
    if (call->out_format != NULL && !format_same(call->out_format, &x->format, x->sizes))
        return prepared_decline(prepared, "view: the format stays that of %s", info_brief(x));
    prepared->out[0] = *x;
    prepared->out[0].is_number = false;
    return STATUS_OK;
}

static const kernel_t view = {.name = "view", .prepare = identity_prepare, .flags = KERNEL_IS_VIEW};
static const kernel_t *const kernels[] = {&view, NULL};

const opdef_t op_def_identity = {.name = "identity",
                                 .preference = OP_FOLLOWS,
                                 .traits = TRAIT_VIEW | TRAIT_IDENTITY,
                                 OPERANDS(operands),
                                 .n_outputs = 1,
                                 .infer = ops_infer_like,
                                 .infers_symbols = true,
                                 .kernels = kernels,
                                 .spec = identity_spec,
                                 .gradient = &gradient_same};

#define DEFINE_DROPOUT(word)                                                                       \
    const opdef_t op_def_##word = {.name = #word,                                                  \
                                   .preference = OP_FOLLOWS,                                       \
                                   .traits = TRAIT_VIEW | TRAIT_IDENTITY,                          \
                                   .attrs = {sizeof(dropout_attrs_t), 1, dropout_fields},          \
                                   OPERANDS(operands),                                             \
                                   .n_outputs = 1,                                                 \
                                   .infer = infer_dropout,                                         \
                                   .infers_symbols = true,                                         \
                                   .kernels = kernels,                                             \
                                   .spec = identity_spec,                                          \
                                   .gradient = &gradient_same}
DEFINE_DROPOUT(dropout);
DEFINE_DROPOUT(feature_dropout);

status_t op_identity(context_t *ctx, const tensor_t *x, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_identity, NULL, 1, &x, NULL, out);
}

status_t op_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
{
    dropout_attrs_t attrs = {p};
    return dispatch_run(ctx, &op_def_dropout, &attrs, 1, &x, NULL, out);
}

status_t op_feature_dropout(context_t *ctx, const tensor_t *x, double p, tensor_t **out)
{
    dropout_attrs_t attrs = {p};
    return dispatch_run(ctx, &op_def_feature_dropout, &attrs, 1, &x, NULL, out);
}
