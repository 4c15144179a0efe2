/* Runs one pass for each dimension that changes: [outer][grad][inner] becomes [outer][x][inner]. */
#include "ops/shape/adjoint_impl.h"

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/walk_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- specification ---- */

typedef struct probe {
    const spec_call_t *call;
    adjoint_taps_t taps;
    const int64_t *index;
    int64_t at[TENSOR_MAX_RANK];
} probe_t;

static double weight_of(const probe_t *probe, int dim, int64_t q)
{
    const spec_call_t *call = probe->call;
    row_sum_tap_t taps[ADJOINT_TAPS];
    double weight = 0.0;
    int n = ADJOINT_TAPS;
    for (int64_t first = 0; n == ADJOINT_TAPS; first += n) {
        n = probe->taps(call->attrs, call->out, call->in[0], dim, q, first, taps);
        for (int t = 0; t < n; t++)
            if (taps[t].index == probe->index[dim]) weight += taps[t].weight;
    }
    return weight;
}

static double sum_from(probe_t *probe, int dim)
{
    const tensor_info_t *grad = probe->call->in[0];
    double sum = 0.0;
    if (dim == grad->rank) return spec_at(probe->call, 0, probe->at);
    for (int64_t q = 0; q < grad->sizes[dim]; q++) {
        const double weight = weight_of(probe, dim, q);
        probe->at[dim] = q;
        if (weight != 0.0) sum += weight * sum_from(probe, dim + 1);
    }
    return sum;
}

double adjoint_spec(const spec_call_t *call, const int64_t *index, adjoint_taps_t taps)
{
    probe_t probe = {.call = call, .taps = taps, .index = index};
    return sum_from(&probe, 0);
}

/* ---- preparing ---- */

/* Element i of x is a weighted sum of elements of grad: taps [starts[i], starts[i + 1]). */
typedef struct pass {
    int64_t outer, grad, x, inner;
    int64_t *starts;
    row_sum_tap_t *taps;
} pass_t;

typedef struct plan {
    int n_passes;
    pass_t passes[TENSOR_MAX_RANK];
    dtype_t compute;
    size_t buffer_bytes; /* bytes of one of the two buffers for intermediate results */
    char bytes[];        /* the arrays that the passes point to */
} plan_t;

/* A function that is called for every tap of index q whose weight is not 0. */
typedef void (*visit_t)(void *user, int64_t q, const row_sum_tap_t *tap);

static void visit_taps(const op_call_t *call, adjoint_taps_t taps, int dim, int64_t q,
                       visit_t visit, void *user)
{
    row_sum_tap_t some[ADJOINT_TAPS];
    int n = ADJOINT_TAPS;
    for (int64_t first = 0; n == ADJOINT_TAPS; first += n) {
        n = taps(call->attrs, &call->out[0], call->in[0], dim, q, first, some);
        for (int t = 0; t < n; t++)
            if (some[t].weight != 0.0) visit(user, q, &some[t]);
    }
}

/* The number of taps, and whether the last tap is index q itself with weight 1. */
typedef struct only {
    int64_t n;
    bool is_itself;
} only_t;

static void look_at(void *user, int64_t q, const row_sum_tap_t *tap)
{
    only_t *only = user;
    only->n++;
    only->is_itself = tap->index == q && tap->weight == 1.0;
}

static bool changes(const op_call_t *call, adjoint_taps_t taps, int dim)
{
    const tensor_info_t *grad = call->in[0], *x = &call->out[0];
    if (grad->sizes[dim] != x->sizes[dim]) return true;
    for (int64_t q = 0; q < grad->sizes[dim]; q++) {
        only_t only = {0, false};
        visit_taps(call, taps, dim, q, look_at, &only);
        if (only.n != 1 || !only.is_itself) return true;
    }
    return false;
}

static int64_t count_taps(const op_call_t *call, adjoint_taps_t taps, int dim)
{
    only_t all = {0, false};
    for (int64_t q = 0; q < call->in[0]->sizes[dim]; q++)
        visit_taps(call, taps, dim, q, look_at, &all);
    return all.n;
}

static void count_tap(void *user, int64_t q, const row_sum_tap_t *tap)
{
    (void)q;
    ((pass_t *)user)->starts[tap->index + 1]++;
}

static void put_tap(void *user, int64_t q, const row_sum_tap_t *tap)
{
    pass_t *pass = user;
    pass->taps[pass->starts[tap->index]++] = (row_sum_tap_t){q, tap->weight};
}

/* Groups the taps by element of x, in ascending order of q within each group. */
static void fill_pass(const op_call_t *call, adjoint_taps_t taps, int dim, pass_t *pass)
{
    for (int64_t q = 0; q < pass->grad; q++) visit_taps(call, taps, dim, q, count_tap, pass);
    for (int64_t i = 0; i < pass->x; i++) pass->starts[i + 1] += pass->starts[i];
    for (int64_t q = 0; q < pass->grad; q++) visit_taps(call, taps, dim, q, put_tap, pass);
    for (int64_t i = pass->x; i > 0; i--) pass->starts[i] = pass->starts[i - 1];
    pass->starts[0] = 0;
}

/* Finds the sizes of grad in memory order, outermost first, and returns their number. Size d is
 * that of dimension d for each dimension d that changes. If grad has one element for each channel,
 * its format is ambiguous; then the larger of grad and x decides. */
static int find_lies(const prepared_t *prepared, bool by_channels, int64_t *out_lies)
{
    const tensor_info_t *grad = &prepared->in[0], *x = &prepared->out[0];
    walk_t walk;
    if (!by_channels || !walk_channels(info_numel(x) > info_numel(grad) ? x : grad, &walk)) {
        for (int d = 0; d < grad->rank; d++) out_lies[d] = grad->sizes[d];
        return grad->rank;
    }
    out_lies[0] = walk.n;
    out_lies[1] = walk.n_blocks;
    for (int d = 2; d < grad->rank; d++) out_lies[d] = grad->sizes[d];
    out_lies[grad->rank] = walk.block;
    return grad->rank + 1;
}

static status_t take_formats(const op_call_t *call, prepared_t *prepared, bool by_channels)
{
    const format_t plain = format_plain(call->in[0]->rank);
    if (by_channels) return walk_follow(call, prepared, true);
    TRY(accept_format(call, prepared, 0, &plain));
    return accept_out(call, prepared, 0, &plain);
}

static size_t align(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Sizes both buffers for the largest input or result of any pass. */
static void size_buffers(prepared_t *prepared, plan_t *plan)
{
    int64_t most = walk_elements(&prepared->in[0]);
    for (int i = 0; i < plan->n_passes; i++) {
        const pass_t *pass = &plan->passes[i];
        const int64_t n = pass->outer * pass->x * pass->inner;
        if (n > most) most = n;
    }
    plan->compute = prepared->in[0].dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
    plan->buffer_bytes = align((size_t)most * dtype_size(plan->compute));
    prepared->scratch_bytes = 2 * plan->buffer_bytes;
}

status_t adjoint_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         adjoint_taps_t taps)
{
    const tensor_info_t *grad = call->in[0], *x = &call->out[0];
    bool changed[TENSOR_MAX_RANK];
    int64_t lies[TENSOR_MAX_RANK + 1];
    size_t bytes = 0;
    plan_t *plan = NULL;
    for (int d = 0; d < grad->rank; d++) {
        changed[d] = changes(call, taps, d);
        if (changed[d])
            bytes += align((size_t)(x->sizes[d] + 1) * sizeof(int64_t)) +
                     align((size_t)count_taps(call, taps, d) * sizeof(row_sum_tap_t));
    }
    const bool by_channels = grad->rank > 2 && !changed[0] && !changed[1];
    TRY(take_formats(call, prepared, by_channels));
    TRY(context_get_zeroed(ctx, sizeof *plan + bytes + 64, "a gradient by taps", &plan));
    prepared->state = plan;
    const int n_lies = find_lies(prepared, by_channels, lies);
    char *at = plan->bytes + (64 - (uintptr_t)plan->bytes % 64) % 64;
    for (int d = 0; d < grad->rank; d++) {
        if (!changed[d]) continue;
        pass_t *pass = &plan->passes[plan->n_passes++];
        *pass = (pass_t){.outer = 1, .grad = grad->sizes[d], .x = x->sizes[d], .inner = 1};
        for (int i = 0; i < d; i++) pass->outer *= lies[i];
        for (int i = d + 1; i < n_lies; i++) pass->inner *= lies[i];
        lies[d] = pass->x;
        pass->starts = (int64_t *)(void *)at;
        at += align((size_t)(pass->x + 1) * sizeof(int64_t));
        pass->taps = (row_sum_tap_t *)(void *)at;
        at += align((size_t)count_taps(call, taps, d) * sizeof(row_sum_tap_t));
        fill_pass(call, taps, d, pass);
    }
    size_buffers(prepared, plan);
    prepared->cost_ns = cost_run(ctx, "native", 0.0,
                                 2.0 * (double)(info_bytes(grad) + info_bytes(x)));
    return STATUS_OK;
}

/* ---- running ---- */

static void run_pass(context_t *ctx, const plan_t *plan, const pass_t *pass, const void *from,
                     void *to)
{
    const row_sum_t sum = {.outer = pass->outer,
                           .n_from = pass->grad,
                           .n_to = pass->x,
                           .inner = pass->inner,
                           .starts = pass->starts,
                           .taps = pass->taps,
                           .is_wide = plan->compute == DTYPE_F64,
                           .from = from,
                           .to = to};
    row_sum_run(&sum, isa_best(), threads_for(ctx, pass->outer * pass->x * pass->inner));
}

/* Converts f16 and bf16 to f32 before the first pass, and back after the last. */
status_t adjoint_run(context_t *ctx, const prepared_t *prepared, void *const *in, void *const *out,
                     void *scratch)
{
    const plan_t *plan = prepared->state;
    const tensor_info_t *grad = &prepared->in[0], *x = &prepared->out[0];
    const bool is_direct = plan->compute == grad->dtype;
    char *buffers[2] = {scratch, (char *)scratch + plan->buffer_bytes};
    const void *from = in[0];
    if (!is_direct || plan->n_passes == 0) {
        void *to = plan->n_passes == 0 && is_direct ? out[0] : buffers[1];
        dtype_cast(walk_elements(grad), grad->dtype, in[0], 1, plan->compute, to, 1);
        from = to;
    }
    for (int i = 0; i < plan->n_passes; i++) {
        void *to = i == plan->n_passes - 1 && is_direct ? out[0] : buffers[i % 2];
        run_pass(ctx, plan, &plan->passes[i], from, to);
        from = to;
    }
    if (!is_direct) dtype_cast(walk_elements(x), plan->compute, from, 1, x->dtype, out[0], 1);
    return STATUS_OK;
}
