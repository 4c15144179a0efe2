/* Random indices with probabilities proportional to weights. Each uniform number depends only on
 * the seed and the number's own index.
 *
 * With replacement, a sample is the first element for which the prefix sum of the weights exceeds a
 * random number between 0 and the total (inverse transform sampling). Without replacement, an
 * element of weight w gets the key w / -log(1 - u), with u random, and the elements with the
 * largest keys are the samples. This is an exponential race: 1 / key is the time of the first event
 * in a Poisson process of rate w. */
#include <math.h>

#include "kernels/random/generator_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/random/random.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct multinomial_attrs {
    int64_t n_samples, seed;
    bool replacement;
} multinomial_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(multinomial_attrs_t, n_samples, 1),
                                      FIELD_BOOL(multinomial_attrs_t, replacement, 0),
                                      FIELD_INT(multinomial_attrs_t, seed, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false}};
enum { X };

static int64_t row_size(const tensor_info_t *x)
{
    return x->sizes[x->rank - 1];
}

static int64_t row_count(const tensor_info_t *x)
{
    return x->rank == 2 ? x->sizes[0] : 1;
}

static status_t multinomial_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                  tensor_info_t *out)
{
    (void)out_n;
    const multinomial_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    int64_t sizes[TENSOR_MAX_RANK] = {0};
    REQUIRE(ctx, dtype_is_floating(x->dtype) && (x->rank == 1 || x->rank == 2),
            "multinomial: x is %s, floating weights of rank 1 or 2 are needed", info_brief(x));
    const int64_t most = attrs->replacement ? INT32_MAX : row_size(x);
    REQUIRE(ctx,
            sym_less(ctx, 0, row_size(x)) && sym_at_most(ctx, 1, attrs->n_samples) &&
                sym_at_most(ctx, attrs->n_samples, most),
            "multinomial: %lld samples of %s, 1 to %lld of some weights are possible",
            (long long)attrs->n_samples, info_brief(x), (long long)most);
    sizes[0] = x->sizes[0];
    sizes[x->rank - 1] = attrs->n_samples;
    TRY(shape_check(ctx, "multinomial", DTYPE_S64, x->rank, sizes));
    out[0] = info_dense(DTYPE_S64, x->rank, sizes);
    return STATUS_OK;
}

/* A uniform random number, limited so that its product with a total is less than the total after
 * rounding. */
static double draw_part(int64_t seed, int64_t place)
{
    return generator_uniform(seed, place) * (1.0 - 0x1p-52);
}

/* Key of an element, for samples without replacement. 0 if the weight is 0. */
static double draw_key(int64_t seed, int64_t place, double weight)
{
    return weight == 0.0 ? 0.0 : weight / -log1p(-generator_uniform(seed, place));
}

/* ---- specification ---- */

static double multinomial_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const multinomial_attrs_t *attrs = call->attrs;
    const tensor_info_t *x = call->in[X];
    const int64_t n = row_size(x), row = x->rank == 2 ? index[0] : 0;
    const int64_t sample = index[x->rank - 1];
    int64_t at[2] = {row, 0}, *element = &at[x->rank - 1];
    double total = 0.0, sum = 0.0;
    if (attrs->replacement) {
        for (*element = 0; *element < n; ++*element) total += spec_at(call, X, at);
        const double place = total * draw_part(attrs->seed, row * attrs->n_samples + sample);
        for (*element = 0; *element < n; ++*element) {
            sum += spec_at(call, X, at);
            if (sum > place) return (double)*element;
        }
        return NAN;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t n_before = 0;
        *element = i;
        const double key = draw_key(attrs->seed, row * n + i, spec_at(call, X, at));
        for (int64_t k = 0; k < n; k++) {
            *element = k;
            const double other = draw_key(attrs->seed, row * n + k, spec_at(call, X, at));
            n_before += other > key || (other == key && k < i);
        }
        if (n_before == sample) return (double)i;
    }
    return NAN;
}

/* ---- dense kernel ---- */

static status_t multinomial_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    prepared->scratch_bytes = (size_t)info_numel(call->in[X]) * sizeof(double);
    return STATUS_OK;
}

/* Draws samples with replacement. Overwrites the weights of the row with their prefix sums. */
static void draw_again(const multinomial_attrs_t *attrs, int64_t row, int64_t n, double *weights,
                       int64_t *out)
{
    for (int64_t i = 1; i < n; i++) weights[i] += weights[i - 1];
    for (int64_t sample = 0; sample < attrs->n_samples; sample++) {
        const double place = weights[n - 1] *
                             draw_part(attrs->seed, row * attrs->n_samples + sample);
        int64_t low = 0, high = n - 1;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (weights[middle] > place)
                high = middle;
            else
                low = middle + 1;
        }
        out[sample] = low;
    }
}

/* Draws samples without replacement. Overwrites the weights of the row with the keys, and the keys
 * of samples with -1. */
static void draw_once(const multinomial_attrs_t *attrs, int64_t row, int64_t n, double *weights,
                      int64_t *out)
{
    for (int64_t i = 0; i < n; i++) weights[i] = draw_key(attrs->seed, row * n + i, weights[i]);
    for (int64_t sample = 0; sample < attrs->n_samples; sample++) {
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (weights[i] > weights[best]) best = i;
        weights[best] = -1.0;
        out[sample] = best;
    }
}

/* Fails unless all weights are finite and enough of them are above 0. */
static status_t check_rows(context_t *ctx, const multinomial_attrs_t *attrs, int64_t n_rows,
                           int64_t n, const double *weights)
{
    const int64_t least = attrs->replacement ? 1 : attrs->n_samples;
    for (int64_t row = 0; row < n_rows; row++) {
        int64_t n_above = 0;
        for (int64_t i = 0; i < n; i++) {
            const double weight = weights[row * n + i];
            REQUIRE(ctx, weight >= 0.0 && isfinite(weight),
                    "multinomial: weight %g in row %lld, finite ones of 0 and more are needed",
                    weight, (long long)row);
            n_above += weight > 0.0;
        }
        REQUIRE(ctx, n_above >= least, "multinomial: row %lld has %lld weights above 0, needs %lld",
                (long long)row, (long long)n_above, (long long)least);
    }
    return STATUS_OK;
}

typedef struct run {
    const multinomial_attrs_t *attrs;
    int64_t n;       /* weights of a row */
    double *weights; /* [rows][n] */
    int64_t *out;    /* [rows][n_samples] */
} run_t;

static void run_rows(void *user, int64_t first, int64_t last)
{
    const run_t *run = user;
    for (int64_t row = first; row < last; row++) {
        double *weights = run->weights + row * run->n;
        int64_t *drawn = run->out + row * run->attrs->n_samples;
        if (run->attrs->replacement)
            draw_again(run->attrs, row, run->n, weights, drawn);
        else
            draw_once(run->attrs, row, run->n, weights, drawn);
    }
}

static status_t multinomial_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                                void *const *out, void *scratch)
{
    const multinomial_attrs_t *attrs = prepared_attrs(prepared);
    const tensor_info_t *x = prepared_input(prepared, X);
    const int64_t n = row_size(x), n_rows = row_count(x);
    double *weights = scratch;
    dtype_cast(info_numel(x), x->dtype, in[X], 1, DTYPE_F64, weights, 1);
    TRY(check_rows(ctx, attrs, n_rows, n, weights));
    run_t run = {.attrs = attrs, .n = n, .weights = weights, .out = out[0]};
    threads_share(threads_for(ctx, info_numel(x)), n_rows, run_rows, &run);
    return STATUS_OK;
}

static const kernel_t native = {
    .name = "native", .prepare = multinomial_prepare, .run = multinomial_run};
static const kernel_t *const kernels[] = {&native, NULL};

const opdef_t op_def_multinomial = {.name = "multinomial",
                                    FUNCTIONS_OF(multinomial),
                                    .preference = OP_DENSE,
                                    .attrs = {sizeof(multinomial_attrs_t), 3, fields},
                                    OPERANDS(operands),
                                    .kernels = kernels,
                                    .gradient = &gradient_zero};

status_t op_multinomial(context_t *ctx, const tensor_t *x, int64_t n_samples, bool replacement,
                        int64_t seed, tensor_t **out)
{
    const multinomial_attrs_t attrs = {n_samples, seed, replacement};
    return dispatch_run(ctx, &op_def_multinomial, &attrs, 1, &x, NULL, out);
}
