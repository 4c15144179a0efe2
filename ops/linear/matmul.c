/* Matrix products with broadcast batch dimensions. */
#include <string.h>

#include "dispatch/choose/choose_impl.h"
#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/linear/matmul_impl.h"
#include "ops/ops_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

/* ---- attributes ---- */

typedef struct matmul_attrs {
    post_ops_t post; /* set by the fusion pass */
} matmul_attrs_t;

static const attr_field_t fields[] = {FIELD_POST(matmul_attrs_t, post)};

static const operand_t operands[] = {{"a", ROLE_ACTIVATION, false, false},
                                     {"b", ROLE_ACTIVATION, false, false}};
enum { A, B, POST };

/* ---- inference ---- */

product_t product_sizes(const tensor_info_t *a, const tensor_info_t *b)
{
    product_t p = {.n_batch_a = a->rank > 2 ? a->rank - 2 : 0,
                   .n_batch_b = b->rank > 2 ? b->rank - 2 : 0};
    p.m = a->rank > 1 ? a->sizes[a->rank - 2] : 1;
    p.k = a->sizes[a->rank - 1];
    p.k_b = b->sizes[b->rank > 1 ? b->rank - 2 : 0];
    p.n = b->rank > 1 ? b->sizes[b->rank - 1] : 1;
    return p;
}

bool product_describe(const tensor_info_t *a, const tensor_info_t *b, product_t *out)
{
    *out = product_sizes(a, b);
    return shape_broadcast(out->n_batch_a, a->sizes, out->n_batch_b, b->sizes, &out->n_batch,
                           out->batch);
}

double product_flops(const op_call_t *call)
{
    const tensor_info_t *a = call->in[A];
    return 2.0 * (double)info_numel(&call->out[0]) * (double)a->sizes[a->rank - 1];
}

status_t product_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    const char *op = call->op->name;
    REQUIRE(ctx, a->rank >= 1 && b->rank >= 1, "%s: %s times %s, rank 1 or more is needed", op,
            info_brief(a), info_brief(b));
    product_t p = product_sizes(a, b);
    REQUIRE(ctx,
            sizes_broadcast(ctx, p.n_batch_a, a->sizes, p.n_batch_b, b->sizes, &p.n_batch, p.batch),
            "%s: %s times %s, batch dimensions do not broadcast", op, info_brief(a), info_brief(b));
    REQUIRE(ctx, sym_equal(ctx, p.k, p.k_b), "%s: %s times %s, %lld columns meet %lld rows", op,
            info_brief(a), info_brief(b), (long long)p.k, (long long)p.k_b);
    int rank = p.n_batch;
    if (a->rank > 1) p.batch[rank++] = p.m;
    if (b->rank > 1) p.batch[rank++] = p.n;
    TRY(shape_check(ctx, op, dtype, rank, p.batch));
    *out = info_dense(dtype, rank, p.batch);
    return STATUS_OK;
}

static status_t matmul_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    TRY(product_infer(ctx, call, a->dtype, &out[0]));
    REQUIRE(ctx, a->dtype == b->dtype, "%s: a is %s, b is %s, equal dtypes are needed",
            call->op->name, dtype_name(a->dtype), dtype_name(b->dtype));
    return accept_post(ctx, call, &out[0]);
}

/* ---- specification ---- */

void product_at(const product_t *p, const tensor_info_t *a, const tensor_info_t *b,
                const int64_t *index, int rank, int64_t *at_a, int64_t *at_b)
{
    for (int d = 0; d < p->n_batch_a; d++)
        at_a[d] = a->sizes[d] == 1 ? 0 : index[p->n_batch - p->n_batch_a + d];
    for (int d = 0; d < p->n_batch_b; d++)
        at_b[d] = b->sizes[d] == 1 ? 0 : index[p->n_batch - p->n_batch_b + d];
    if (a->rank > 1) at_a[a->rank - 2] = index[p->n_batch];
    if (b->rank > 1) at_b[b->rank - 1] = index[rank - 1];
}

static double matmul_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    product_t p;
    if (!product_describe(a, b, &p)) return 0.0;
    int64_t at_a[TENSOR_MAX_RANK] = {0}, at_b[TENSOR_MAX_RANK] = {0};
    product_at(&p, a, b, index, call->out->rank, at_a, at_b);
    double sum = 0.0;
    for (int64_t k = 0; k < p.k; k++) {
        at_a[a->rank - 1] = k;
        at_b[b->rank > 1 ? b->rank - 2 : 0] = k;
        sum += spec_at(call, A, at_a) * spec_at(call, B, at_b);
    }
    return spec_post(call, &((const matmul_attrs_t *)call->attrs)->post, POST, sum, index);
}

/* ---- kernel on oneDNN ---- */

/* Accepts an operand whose matrices are transposed, if allowed. Otherwise requires row-major. */
static status_t accept_matrix(const op_call_t *call, prepared_t *prepared, int index,
                              bool may_be_transposed, bool *out_is_transposed)
{
    const tensor_info_t *info = call->in[index];
    *out_is_transposed = false;
    if (may_be_transposed && info->rank >= 2) {
        format_t plain = format_plain(info->rank), transposed = plain;
        transposed.order[info->rank - 2] = (uint8_t)(info->rank - 1);
        transposed.order[info->rank - 1] = (uint8_t)(info->rank - 2);
        *out_is_transposed = format_same(&info->format, &transposed, info->sizes) &&
                             !format_same(&info->format, &plain, info->sizes);
    }
    return *out_is_transposed ? STATUS_OK : accept_plain(call, prepared, index);
}

/* Describes [batch..][rows][columns] for oneDNN. */
static tensor_info_t matrices(dtype_t dtype, int n_batch, const int64_t *batch, int64_t rows,
                              int64_t columns, bool is_transposed)
{
    int64_t sizes[TENSOR_MAX_RANK];
    memcpy(sizes, batch, (size_t)n_batch * sizeof *sizes);
    sizes[n_batch] = rows;
    sizes[n_batch + 1] = columns;
    tensor_info_t info = info_dense(dtype, n_batch + 2, sizes);
    format_t format = format_plain(n_batch + 2);
    if (is_transposed) {
        format.order[n_batch] = (uint8_t)(n_batch + 1);
        format.order[n_batch + 1] = (uint8_t)n_batch;
    }
    return info_mkldnn(&info, &format);
}

/* Copies the batch dimensions of an operand, with ones in front up to n_batch dimensions. */
static void pad_batch(const tensor_info_t *info, int n_own, int n_batch, int64_t *out_batch)
{
    for (int d = 0; d < n_batch; d++) {
        int from = d - (n_batch - n_own);
        out_batch[d] = from < 0 ? 1 : info->sizes[from];
    }
}

static bool is_one(int rank, const int64_t *sizes)
{
    for (int d = 0; d < rank; d++)
        if (sizes[d] != 1) return false;
    return true;
}

static status_t prepare_onednn(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    if (a->dtype != DTYPE_F32 && a->dtype != DTYPE_BF16)
        return prepared_decline(prepared, "onednn: dtype %s", dtype_name(a->dtype));
    product_t p;
    if (!product_describe(a, b, &p) || p.n_batch + 2 > TENSOR_MAX_RANK)
        return prepared_decline(prepared, "onednn: rank");
    int64_t batch_a[TENSOR_MAX_RANK], batch_b[TENSOR_MAX_RANK];
    pad_batch(a, p.n_batch_a, p.n_batch, batch_a);
    pad_batch(b, p.n_batch_b, p.n_batch, batch_b);
    bool shares_b = is_one(p.n_batch, batch_b) &&
                    shape_equal(p.n_batch, batch_a, p.n_batch, p.batch);
    bool is_paired = shape_equal(p.n_batch, batch_a, p.n_batch, batch_b);
    bool merges_rows = shares_b && !is_one(p.n_batch, batch_a);
    if (merges_rows) { /* one b for all a: rows of all batches form one matrix */
        for (int d = 0; d < p.n_batch; d++) p.m *= p.batch[d];
        p.n_batch = 0;
    } else if (is_paired && p.n_batch > 0) {
        for (int d = 1; d < p.n_batch; d++) p.batch[0] *= p.batch[d];
        p.n_batch = is_one(1, p.batch) ? 0 : 1;
        batch_a[0] = batch_b[0] = p.batch[0];
    }
    bool a_transposed = false, b_transposed = false;
    TRY(accept_matrix(call, prepared, A, !merges_rows, &a_transposed));
    TRY(accept_matrix(call, prepared, B, true, &b_transposed));
    TRY(accept_out_plain(call, prepared, 0));
    tensor_info_t src = matrices(a->dtype, p.n_batch, batch_a, p.m, p.k, a_transposed);
    tensor_info_t weight = matrices(a->dtype, p.n_batch, batch_b, p.k, p.n, b_transposed);
    tensor_info_t dst = matrices(a->dtype, p.n_batch, p.batch, p.m, p.n, false);
    onednn_problem_t problem = {
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &src, .weight = &weight, .dst = &dst};
    tensor_info_t post[POST_MAX];
    TRY(choose_post_ops(call, prepared, &problem, post));
    onednn_primitive_t *primitive = NULL;
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "onednn: %s", onednn_refusal(ctx));
    TRY(status);
    const char *implementation = onednn_implementation(primitive);
    if (onednn_is_reference(implementation)) {
        status = prepared_decline(prepared, "onednn: %s", implementation);
        onednn_release(primitive);
        return status;
    }
    prepared->cost_ns = cost_run(ctx, implementation, 2.0 * (double)info_numel(&dst) * (double)p.k,
                                 (double)info_bytes(&src) + (double)info_bytes(&weight) +
                                     (double)info_bytes(&dst));
    prepared_take_primitive(prepared, primitive);
    return STATUS_OK;
}

static const kernel_t onednn = {.name = "onednn",
                                .prepare = prepare_onednn,
                                .run = prepared_run_primitive,
                                .flags = KERNEL_FUSES_POST_OPS | KERNEL_NEEDS_ELEMENTS};

/* ---- oneDNN kernel for strided views ----
 *
 * A graph pass keeps such views, for example heads of attention: in memory, rows of a head
 * alternate with rows of other heads. */

/* Returns true if the rows, or the columns, of every matrix are contiguous. */
static bool are_matrices(const tensor_info_t *info)
{
    const int64_t *strides = info->format.strides;
    const int rank = info->rank;
    for (int d = 0; d < rank; d++)
        if (info->sizes[d] > 1 && strides[d] < 1) return false;
    return strides[rank - 1] == 1 || strides[rank - 2] == 1;
}

/* Format of the result: if b's rows are contiguous, b's order of dimensions, so that heads
 * alternate in the result, too; otherwise row-major. */
static format_t choose_order(const tensor_info_t *b)
{
    const format_t order = accept_order(b);
    return order.order[b->rank - 1] == b->rank - 1 ? order : format_plain(b->rank);
}

static status_t prepare_strided(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    const tensor_info_t *a = call->in[A], *b = call->in[B];
    const matmul_attrs_t *attrs = call->attrs;
    const int rank = a->rank;
    if (!call->keep_formats || call->layout != LAYOUT_DENSE || attrs->post.n > 0)
        return prepared_decline(prepared, "strided: only of dense views as they are");
    if (a->dtype != DTYPE_F32 || rank < 3 || rank != b->rank || !are_matrices(a) ||
        !are_matrices(b) || !shape_equal(rank - 2, a->sizes, rank - 2, b->sizes))
        return prepared_decline(prepared, "strided: only of f32 matrices in pairs");
    const format_t order = choose_order(b);
    TRY(accept_out(call, prepared, 0, &order));
    tensor_info_t src = *a, weight = *b, dst = prepared->out[0];
    const onednn_problem_t problem = {
        .kind = ONEDNN_MATMUL, .n_src = 1, .src = &src, .weight = &weight, .dst = &dst};
    onednn_primitive_t *primitive = NULL;
    status_t status = onednn_describe(ctx, &problem, &primitive);
    if (status == STATUS_UNSUPPORTED)
        return prepared_decline(prepared, "strided: %s", onednn_refusal(ctx));
    TRY(status);
    const char *implementation = onednn_implementation(primitive);
    if (onednn_is_reference(implementation)) {
        status = prepared_decline(prepared, "strided: %s", implementation);
        onednn_release(primitive);
        return status;
    }
    prepared->cost_ns = cost_run(
        ctx, implementation, 2.0 * (double)info_numel(&dst) * (double)a->sizes[rank - 1],
        (double)info_bytes(&src) + (double)info_bytes(&weight) + (double)info_bytes(&dst));
    prepared_take_primitive(prepared, primitive);
    return STATUS_OK;
}

static const kernel_t strided = {.name = "strided",
                                 .prepare = prepare_strided,
                                 .run = prepared_run_primitive,
                                 .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- our own kernel: dtypes that oneDNN does not support ---- */

static status_t prepare_native(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (call->in[A]->dtype == DTYPE_BOOL) return prepared_decline(prepared, "native: dtype bool");
    TRY(accept_plain(call, prepared, A));
    TRY(accept_plain(call, prepared, B));
    prepared->cost_ns = 1e9;
    TRY(accept_out_plain(call, prepared, 0));
    return STATUS_OK;
}

/* Computes one element of the result. Integers wrap around. */
static void multiply(dtype_t dtype, int64_t n, const char *a, const char *b, int64_t b_step,
                     char *out)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    if (dtype_is_integral(dtype)) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += (uint64_t)dtype_load_integer(dtype, a + k * size) *
                   (uint64_t)dtype_load_integer(dtype, b + k * b_step * size);
        dtype_store_integer(dtype, out, (int64_t)sum);
        return;
    }
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++)
        sum += dtype_load(dtype, a + k * size) * dtype_load(dtype, b + k * b_step * size);
    dtype_store(dtype, out, sum);
}

int64_t product_matrix(const product_t *p, const tensor_info_t *info, int n_own, int64_t matrix)
{
    int64_t at = 0, stride = 1;
    for (int d = p->n_batch - 1; d >= 0; d--) {
        int64_t index = matrix % p->batch[d];
        matrix /= p->batch[d];
        int from = d - (p->n_batch - n_own);
        if (from < 0) continue;
        if (info->sizes[from] > 1) at += index * stride;
        stride *= info->sizes[from];
    }
    return at;
}

typedef struct rows {
    const product_t *p;
    const tensor_info_t *a, *b;
    const char *from_a, *from_b;
    char *out;
} rows_t;

static void multiply_rows(void *user, int64_t first, int64_t last)
{
    const rows_t *r = user;
    const product_t *p = r->p;
    const int64_t size = (int64_t)dtype_size(r->a->dtype);
    for (int64_t row = first; row < last; row++) {
        const int64_t matrix = row / p->m;
        const int64_t row_a = product_matrix(p, r->a, p->n_batch_a, matrix) * p->m + row % p->m;
        const char *a = r->from_a + row_a * p->k * size;
        const char *b = r->from_b +
                        product_matrix(p, r->b, p->n_batch_b, matrix) * p->k * p->n * size;
        for (int64_t n = 0; n < p->n; n++)
            multiply(r->a->dtype, p->k, a, b + n * size, p->n, r->out + (row * p->n + n) * size);
    }
}

static status_t run_native(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *a = &prepared->in[A], *b = &prepared->in[B];
    product_t p;
    if (!product_describe(a, b, &p)) return STATUS_INVALID_ARGUMENT;
    const int64_t n_rows = info_numel(&prepared->out[0]) / p.n;
    rows_t rows = {&p, a, b, in[A], in[B], out[0]};
    threads_share(threads_for(ctx, n_rows * p.n * p.k), n_rows, multiply_rows, &rows);
    return STATUS_OK;
}

/* ---- gradients: grad b^T for a, a^T grad for b ---- */

static value_t transpose(emitter_t *emitter, value_t x)
{
    const int rank = emit_info(emitter, x)->rank;
    int64_t dims[TENSOR_MAX_RANK] = {0};
    if (rank < 2) return VALUE_NONE;
    for (int d = 0; d < rank; d++) dims[d] = d;
    dims[rank - 2] = rank - 1;
    dims[rank - 1] = rank - 2;
    return emit_ints(emitter, &op_def_permute, x, rank, dims);
}

/* Reshapes x to [batch..][rows][columns]. */
static value_t as_matrices(emitter_t *emitter, value_t x, int n_batch, const int64_t *batch,
                           int64_t rows, int64_t columns)
{
    int64_t sizes[TENSOR_MAX_RANK];
    const tensor_info_t *info = emit_info(emitter, x);
    memcpy(sizes, batch, (size_t)n_batch * sizeof *sizes);
    sizes[n_batch] = rows;
    sizes[n_batch + 1] = columns;
    if (shape_equal(info->rank, info->sizes, n_batch + 2, sizes)) return x;
    return emit_ints(emitter, &op_def_reshape, x, n_batch + 2, sizes);
}

static void matmul_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    value_t a = call->in[A], b = call->in[B], grad = call->out_grad[0];
    const tensor_info_t info_a = *emit_info(e, a), info_b = *emit_info(e, b);
    product_t p;
    if (!product_describe(&info_a, &info_b, &p)) return;
    if (p.n_batch_b == 0) { /* one b for all a: rows of all batches form one matrix */
        for (int d = 0; d < p.n_batch; d++) p.m *= p.batch[d];
        p.n_batch = p.n_batch_a = 0;
    }
    a = as_matrices(e, a, p.n_batch_a, info_a.sizes, p.m, p.k);
    b = as_matrices(e, b, p.n_batch_b, info_b.sizes, p.k, p.n);
    grad = as_matrices(e, grad, p.n_batch, p.batch, p.m, p.n);
    if (call->is_wanted[A]) {
        value_t product = emit_binary(e, &op_def_matmul, grad, transpose(e, b));
        call->in_grad[A] = emit_reshape_like(e, emit_unbroadcast(e, product, a), call->in[A]);
    }
    if (call->is_wanted[B]) {
        value_t product = emit_binary(e, &op_def_matmul, transpose(e, a), grad);
        call->in_grad[B] = emit_reshape_like(e, emit_unbroadcast(e, product, b), call->in[B]);
    }
}

/* ---- definition ---- */

const opdef_t op_def_matmul = {
    .name = "matmul",
    FUNCTIONS_OF(matmul),
    .preference = OP_FOLLOWS,
    .traits = TRAIT_POST_OPS,
    .attrs = {sizeof(matmul_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(&onednn, &strided, KERNEL("native", prepare_native, run_native)),
    .flops = product_flops,
    .gradient = GRADIENT(.pass = matmul_pass, .reads_in = 1u << A | 1u << B)};

/* ---- public ---- */

status_t op_matmul(context_t *ctx, const tensor_t *a, const tensor_t *b, tensor_t **out)
{
    return dispatch_run(ctx, &op_def_matmul, NULL, 2, (const tensor_t *[]){a, b}, NULL, out);
}
