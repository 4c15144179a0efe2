/* Random numbers. Each number depends only on the seed and the number's own index. */
#include "ops/random/random.h"

#include <math.h>

#include "kernels/random/generator_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/threads_impl.h"

enum { RAND, RANDN }; /* opdef_t.variant */

typedef struct random_attrs {
    int64_t seed;
    double a, b; /* rand_like: low and high; randn_like: mean and standard deviation */
    int dtype;   /* dtype_t; DTYPE_NONE means x's dtype */
} random_attrs_t;

#define SEED_FIELD FIELD_INT(random_attrs_t, seed, 0)
#define DTYPE_FIELD FIELD_DTYPE(random_attrs_t, dtype, DTYPE_NONE)
static const attr_field_t rand_like_fields[] = {
    SEED_FIELD,
    {"low", ATTR_FLOAT, false, offsetof(random_attrs_t, a), 0, 0, NULL},
    {"high", ATTR_FLOAT, false, offsetof(random_attrs_t, b), 0, 1, NULL},
    DTYPE_FIELD};
static const attr_field_t randn_like_fields[] = {
    SEED_FIELD,
    {"mean", ATTR_FLOAT, false, offsetof(random_attrs_t, a), 0, 0, NULL},
    {"std", ATTR_FLOAT, false, offsetof(random_attrs_t, b), 0, 1, NULL},
    DTYPE_FIELD};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

/* ---- the generator ---- */

/* A normally distributed number: the Box-Muller transform of two uniform numbers. */
static double normal(int64_t seed, int64_t index)
{
    const double two_pi = 6.28318530717958647692528676655900577;
    const double radius = sqrt(-2.0 * log1p(-generator_uniform(seed, 2 * index)));
    return radius * cos(two_pi * generator_uniform(seed, 2 * index + 1));
}

/* Element `index` of the result. A uniform number in [0, 1) is truncated to the precision of the
 * dtype, so that it is not rounded to 1. If low + (high - low) * number still rounds to high, the
 * element is low. */
static double value_of(const opdef_t *op, const random_attrs_t *attrs, dtype_t dtype, int64_t index)
{
    if (op->variant == RANDN) return attrs->a + attrs->b * normal(attrs->seed, index);
    const double step = dtype_epsilon(dtype) / 2;
    const double part = floor(generator_uniform(attrs->seed, index) / step) * step;
    const double value = attrs->a + (attrs->b - attrs->a) * part;
    union {
        double alignment;
        char bytes[sizeof(double)];
    } stored;
    dtype_store(dtype, stored.bytes, value);
    const bool is_end = attrs->a < attrs->b && dtype_load(dtype, stored.bytes) >= attrs->b;
    return is_end ? attrs->a : value;
}

/* ---- inference and specification ---- */

static status_t random_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const random_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const dtype_t dtype = attrs->dtype == DTYPE_NONE ? x->dtype : (dtype_t)attrs->dtype;
    REQUIRE(ctx, dtype_is_floating(dtype), "%s: numbers of dtype %s, a floating one is needed",
            call->op->name, dtype_name(dtype));
    out[0] = info_dense(dtype, x->rank, x->sizes);
    return STATUS_OK;
}

static int64_t place_of(const tensor_info_t *info, const int64_t *index)
{
    int64_t place = 0;
    for (int d = 0; d < info->rank; d++) place = place * info->sizes[d] + index[d];
    return place;
}

static double random_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const tensor_info_t *y = &call->out[output];
    return value_of(call->op, call->attrs, y->dtype, place_of(y, index));
}

/* ---- dense kernel ---- */

typedef struct run {
    const opdef_t *op;
    const random_attrs_t *attrs;
    dtype_t dtype;
    char *out;
} run_t;

static void run_elements(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    const int64_t size = (int64_t)dtype_size(run->dtype);
    for (int64_t i = first; i < last; i++)
        dtype_store(run->dtype, run->out + i * size, value_of(run->op, run->attrs, run->dtype, i));
}

static status_t random_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)in, (void)scratch;
    const int64_t numel = info_numel(&prepared->out[0]);
    run_t run = {.op = prepared->op,
                 .attrs = prepared->attrs,
                 .dtype = prepared->out[0].dtype,
                 .out = out[0]};
    threads_share(threads_for(ctx, numel), numel, run_elements, &run);
    return STATUS_OK;
}

static const kernel_t native = {.name = "native", .prepare = ops_prepare_dense, .run = random_run};
static const kernel_t *const kernels[] = {&native, NULL};

#define DEFINE(op, which)                                                                          \
    const opdef_t op_def_##op = {.name = #op,                                                      \
                                 .variant = (which),                                               \
                                 .preference = OP_DENSE,                                           \
                                 .attrs = {sizeof(random_attrs_t),                                 \
                                           (int)(sizeof op##_fields / sizeof *(op##_fields)),      \
                                           op##_fields},                                           \
                                 OPERANDS(operands),                                               \
                                 .n_outputs = 1,                                                   \
                                 .infer = random_infer,                                            \
                                 .infers_symbols = true,                                           \
                                 .kernels = kernels,                                               \
                                 .spec = random_spec,                                              \
                                 .gradient = &gradient_zero}
DEFINE(rand_like, RAND);
DEFINE(randn_like, RANDN);

status_t op_rand_like(context_t *ctx, const tensor_t *x, double low, double high, int64_t seed,
                      dtype_t dtype, tensor_t **out)
{
    random_attrs_t attrs = {seed, low, high, (int)dtype};
    return dispatch_run(ctx, &op_def_rand_like, &attrs, 1, &x, NULL, out);
}

status_t op_randn_like(context_t *ctx, const tensor_t *x, double mean, double std, int64_t seed,
                       dtype_t dtype, tensor_t **out)
{
    random_attrs_t attrs = {seed, mean, std, (int)dtype};
    return dispatch_run(ctx, &op_def_randn_like, &attrs, 1, &x, NULL, out);
}

/* Compares uniform numbers with x: a number is less than p with probability p. They are f64, which
 * has enough digits for a small p. */
status_t op_bernoulli(context_t *ctx, const tensor_t *x, int64_t seed, dtype_t dtype,
                      tensor_t **out)
{
    tensor_t *numbers = NULL, *truth = NULL;
    TRY(context_output(ctx, "bernoulli", out));
    if (x == NULL) return context_null(ctx, "bernoulli", "x");
    REQUIRE(ctx, dtype_is_floating(x->info.dtype),
            "bernoulli: x is %s, probabilities of a floating dtype are needed", tensor_text(x));
    if (dtype == DTYPE_NONE) dtype = x->info.dtype;
    status_t status = op_rand_like(ctx, x, 0.0, 1.0, seed, DTYPE_F64, &numbers);
    if (status == STATUS_OK) status = op_lt(ctx, numbers, x, &truth);
    if (status == STATUS_OK) status = op_cast(ctx, truth, dtype, out);
    ops_drop(ctx, numbers);
    ops_drop(ctx, truth);
    return context_rename(ctx, status, "bernoulli");
}
