/* Selects slices along one dimension at the indices in a tensor, like numpy.take. */
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "tensor/convert/grouped_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

typedef struct gather_attrs {
    int64_t dim;
} gather_attrs_t;

static const attr_field_t fields[] = {FIELD_INT(gather_attrs_t, dim, 0)};

static const operand_t operands[] = {{"x", ROLE_ACTIVATION, false, false},
                                     {"index", ROLE_ACTIVATION, false, false}};
enum { X, INDEX };

static int find_dim(const void *attrs, int rank)
{
    return ops_dim(rank, ((const gather_attrs_t *)attrs)->dim);
}

static status_t gather_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *x = call->in[X], *index = call->in[INDEX];
    int64_t wanted = ((const gather_attrs_t *)call->attrs)->dim, sizes[TENSOR_MAX_RANK];
    int dim = 0, rank = x->rank - 1 + index->rank;
    REQUIRE(ctx, x->rank > 0 && shape_dim(x->rank, wanted, &dim),
            "gather: dim %lld of %s, out of range", (long long)wanted, info_brief(x));
    REQUIRE(ctx, dtype_is_integral(index->dtype), "gather: index is %s, integers are needed",
            info_brief(index));
    REQUIRE(ctx, rank <= TENSOR_MAX_RANK,
            "gather: %s by %s would have rank %d, at most %d is possible", info_brief(x),
            info_brief(index), rank, TENSOR_MAX_RANK);
    memcpy(sizes, x->sizes, (size_t)dim * sizeof *sizes);
    memcpy(&sizes[dim], index->sizes, (size_t)index->rank * sizeof *sizes);
    memcpy(&sizes[dim + index->rank], &x->sizes[dim + 1],
           (size_t)(x->rank - dim - 1) * sizeof *sizes);
    TRY(shape_check(ctx, "gather", x->dtype, rank, sizes));
    out[0] = info_dense(x->dtype, rank, sizes);
    return STATUS_OK;
}

static double gather_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const tensor_info_t *x = call->in[X], *picked = call->in[INDEX];
    int dim = find_dim(call->attrs, x->rank);
    int64_t at[TENSOR_MAX_RANK];
    memcpy(at, index, (size_t)dim * sizeof *at);
    at[dim] = (int64_t)spec_at(call, INDEX, &index[dim]);
    if (at[dim] < 0) at[dim] += x->sizes[dim];
    memcpy(&at[dim + 1], &index[dim + picked->rank], (size_t)(x->rank - dim - 1) * sizeof *at);
    return spec_at(call, X, at);
}

/* ---- dense kernel: copies one contiguous row for each index ---- */

typedef struct copy {
    dtype_t index_dtype;
    size_t index_bytes, row; /* bytes of an index; bytes of a row of x */
    int64_t n_picked, size;  /* number of indices; size of dim in x */
    const char *index, *x;
    char *out;
} copy_t;

/* The index of row r of the result. */
static int64_t index_at(const copy_t *c, int64_t r)
{
    const int64_t at = dtype_load_integer(c->index_dtype,
                                          c->index + (size_t)(r % c->n_picked) * c->index_bytes);
    return at < 0 ? at + c->size : at;
}

static void copy_rows(void *user, int64_t first, int64_t last)
{
    const copy_t *c = user;
    for (int64_t r = first; r < last; r++)
        memcpy(c->out + (size_t)r * c->row,
               c->x + (size_t)(r / c->n_picked * c->size + index_at(c, r)) * c->row, c->row);
}

/* Describes the copies, and checks all indices. */
static status_t find_rows(context_t *ctx, const prepared_t *prepared, void *const *in,
                          void *const *out, copy_t *out_copy)
{
    const tensor_info_t *x = &prepared->in[X], *index = &prepared->in[INDEX];
    int dim = find_dim(prepared->attrs, x->rank);
    const int64_t size = x->sizes[dim], n_picked = info_numel(index);
    const size_t index_bytes = dtype_size(index->dtype);
    size_t row = dtype_size(x->dtype);
    for (int d = dim + 1; d < x->rank; d++) row *= (size_t)x->sizes[d];
    for (int64_t i = 0; i < n_picked; i++) {
        int64_t at = dtype_load_integer(index->dtype,
                                        (const char *)in[INDEX] + (size_t)i * index_bytes);
        REQUIRE(ctx, at >= -size && at < size,
                "gather: index %lld of %s in dimension %d, out of range", (long long)at,
                info_brief(x), dim);
    }
    *out_copy = (copy_t){index->dtype, index_bytes, row, n_picked, size, in[INDEX], in[X], out[0]};
    return STATUS_OK;
}

static status_t gather_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                           void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    int64_t n_outer = 1;
    copy_t copy;
    for (int d = 0; d < find_dim(prepared->attrs, x->rank); d++) n_outer *= x->sizes[d];
    TRY(find_rows(ctx, prepared, in, out, &copy));
    threads_share(threads_for(ctx, info_numel(&prepared->out[0])), n_outer * copy.n_picked,
                  copy_rows, &copy);
    return STATUS_OK;
}

/* ---- rows of a matrix in a grouped format: widens only those ---- */

static status_t prepare_grouped(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    (void)ctx;
    const tensor_info_t *x = call->in[X];
    if (x->format.kind != FORMAT_GROUPED)
        return prepared_decline(prepared, "grouped: x has no low-bit codes");
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "grouped: dense only");
    if (x->rank != 2 || find_dim(call->attrs, x->rank) != 0)
        return prepared_decline(prepared, "grouped: slices of %s that are no rows", info_brief(x));
    TRY(accept_plain(call, prepared, INDEX));
    prepared->in[X] = *x;
    return accept_out_plain(call, prepared, 0);
}

typedef struct widened {
    copy_t copy;
    grouped_t grouped;
} widened_t;

static void widen_rows(void *user, int64_t first, int64_t last)
{
    const widened_t *w = user;
    for (int64_t r = first; r < last; r++)
        grouped_unpack_row(&w->grouped, w->copy.x, index_at(&w->copy, r),
                           (float *)(void *)(w->copy.out + (size_t)r * w->copy.row));
}

static status_t run_grouped(context_t *ctx, const prepared_t *prepared, void *const *in,
                            void *const *out, void *scratch)
{
    (void)scratch;
    const tensor_info_t *x = &prepared->in[X];
    widened_t widened;
    TRY(find_rows(ctx, prepared, in, out, &widened.copy));
    const bool is_found = grouped_find(&x->format, x->sizes, &widened.grouped);
    INVARIANT(is_found);
    (void)is_found;
    threads_share(threads_for(ctx, info_numel(&prepared->out[0])), widened.copy.n_picked,
                  widen_rows, &widened);
    return STATUS_OK;
}

static const kernel_t grouped = {.name = "grouped",
                                 .prepare = prepare_grouped,
                                 .run = run_grouped,
                                 .flags = KERNEL_NEEDS_ELEMENTS};

/* ---- gradients: for each row of x, gather_backward adds the gradients of all its copies ---- */

static void gather_pass(const gradient_call_t *call)
{
    emitter_t *e = call->emitter;
    const tensor_info_t x = *emit_info(e, call->in[X]);
    const int dim = find_dim(call->attrs, x.rank);
    if (call->is_wanted[X])
        call->in_grad[X] = emit_gather_backward(e, call->out_grad[0], call->in[INDEX], dim,
                                                x.sizes[dim]);
}

typedef struct backward_attrs {
    int64_t dim, size; /* dim, and the size of x along it */
} backward_attrs_t;

static const attr_field_t backward_fields[] = {FIELD_INT(backward_attrs_t, dim, 0),
                                               FIELD_INT(backward_attrs_t, size, 0)};

static const operand_t backward_operands[] = {{"grad", ROLE_ACTIVATION, false, false},
                                              {"index", ROLE_ACTIVATION, false, false}};
enum { GRAD };

value_t emit_gather_backward(emitter_t *emitter, value_t grad, value_t index, int64_t dim,
                             int64_t size)
{
    const backward_attrs_t attrs = {dim, size};
    const value_t in[] = {grad, index};
    return emit_op(emitter, &op_def_gather_backward, &attrs, 2, in);
}

static status_t gather_backward_infer(context_t *ctx, const op_call_t *call, int *out_n,
                                      tensor_info_t *out)
{
    (void)out_n;
    const backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *grad = call->in[GRAD], *index = call->in[INDEX];
    const int rank = grad->rank - index->rank + 1, dim = (int)attrs->dim;
    int64_t sizes[TENSOR_MAX_RANK];
    REQUIRE(ctx,
            dtype_is_integral(index->dtype) && dtype_is_floating(grad->dtype) && attrs->dim >= 0 &&
                attrs->dim < rank && sym_at_most(ctx, 0, attrs->size) &&
                sizes_equal(ctx, index->rank, &grad->sizes[dim], index->rank, index->sizes),
            "gather_backward: grad is %s, index is %s, it has no floating slices along dimension "
            "%lld for these",
            info_brief(grad), info_brief(index), (long long)attrs->dim);
    memcpy(sizes, grad->sizes, (size_t)dim * sizeof *sizes);
    sizes[dim] = attrs->size;
    memcpy(&sizes[dim + 1], &grad->sizes[dim + index->rank],
           (size_t)(rank - dim - 1) * sizeof *sizes);
    TRY(shape_check(ctx, "gather_backward", grad->dtype, rank, sizes));
    out[0] = info_dense(grad->dtype, rank, sizes);
    return STATUS_OK;
}

static double gather_backward_spec(const spec_call_t *call, int output, const int64_t *index)
{
    const backward_attrs_t *attrs = call->attrs;
    const tensor_info_t *taken = call->in[INDEX];
    const int dim = (int)attrs->dim, rank = call->out[output].rank;
    int64_t at[TENSOR_MAX_RANK] = {0}, place[TENSOR_MAX_RANK] = {0};
    double sum = 0.0;
    if (info_numel(taken) == 0) return 0.0;
    memcpy(at, index, (size_t)dim * sizeof *at);
    memcpy(&at[dim + taken->rank], &index[dim + 1], (size_t)(rank - dim - 1) * sizeof *at);
    do {
        int64_t from = (int64_t)spec_at(call, INDEX, place);
        if (from < 0) from += attrs->size;
        memcpy(&at[dim], place, (size_t)taken->rank * sizeof *at);
        if (from == index[dim]) sum += spec_at(call, GRAD, at);
    } while (shape_next(taken->rank, taken->sizes, place));
    return sum;
}

/* Scratch memory holds the result of sort_places: `starts`, then `places`. */
static status_t prepare_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    const int64_t n = ((const backward_attrs_t *)call->attrs)->size + 2 +
                      info_numel(call->in[INDEX]);
    prepared->scratch_bytes = (size_t)n * sizeof(int64_t);
    return STATUS_OK;
}

/* For each row of x, lists the positions in the index tensor that refer to the row, in ascending
 * order. The list of row r is places[starts[r]] to places[starts[r + 1] - 1]. */
static status_t sort_places(context_t *ctx, const prepared_t *prepared, const void *bytes,
                            int64_t *starts, int64_t *places)
{
    const tensor_info_t *index = &prepared->in[INDEX];
    const int64_t size = ((const backward_attrs_t *)prepared->attrs)->size, n = info_numel(index);
    const size_t index_bytes = dtype_size(index->dtype);
    memset(starts, 0, (size_t)(size + 2) * sizeof *starts);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = dtype_load_integer(index->dtype,
                                              (const char *)bytes + (size_t)i * index_bytes);
        REQUIRE(ctx, at >= -size && at < size,
                "gather_backward: index %lld of size %lld, out of range", (long long)at,
                (long long)size);
        starts[(at < 0 ? at + size : at) + 2]++;
    }
    for (int64_t r = 1; r < size; r++) starts[r + 1] += starts[r];
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = dtype_load_integer(index->dtype,
                                              (const char *)bytes + (size_t)i * index_bytes);
        places[starts[(at < 0 ? at + size : at) + 1]++] = i;
    }
    return STATUS_OK;
}

#define CHUNK 256

/* Computes one row of the result: the sum of n slices of grad, added in the given order. */
static void add_slices(dtype_t dtype, int64_t inner, int64_t n, const int64_t *places,
                       const char *grad, char *out)
{
    const int64_t size = (int64_t)dtype_size(dtype);
    double sum[CHUNK], slice[CHUNK];
    for (int64_t first = 0; first < inner; first += CHUNK) {
        const int64_t width = inner - first < CHUNK ? inner - first : CHUNK;
        memset(sum, 0, sizeof sum);
        for (int64_t p = 0; p < n; p++) {
            dtype_cast(width, dtype, grad + (places[p] * inner + first) * size, 1, DTYPE_F64, slice,
                       1);
            for (int64_t i = 0; i < width; i++) sum[i] += slice[i];
        }
        dtype_cast(width, DTYPE_F64, sum, 1, dtype, out + first * size, 1);
    }
}

typedef struct sum {
    dtype_t dtype;
    int64_t inner, row; /* elements and bytes of a row */
    int64_t size, n_picked;
    const int64_t *starts, *places; /* a row is the sum of the rows of grad in its list */
    const char *grad;
    char *out;
} sum_t;

static void sum_rows(void *user, int64_t first, int64_t last)
{
    const sum_t *s = user;
    for (int64_t r = first; r < last; r++) {
        const int64_t at = r % s->size;
        add_slices(s->dtype, s->inner, s->starts[at + 1] - s->starts[at], s->places + s->starts[at],
                   s->grad + r / s->size * s->n_picked * s->row, s->out + r * s->row);
    }
}

static status_t run_backward(context_t *ctx, const prepared_t *prepared, void *const *in,
                             void *const *out, void *scratch)
{
    const backward_attrs_t *attrs = prepared->attrs;
    const tensor_info_t *x = &prepared->out[0];
    const int64_t size = attrs->size, n_picked = info_numel(&prepared->in[INDEX]);
    int64_t *starts = scratch, *places = starts + size + 2, outer = 1, inner = 1;
    for (int d = 0; d < x->rank; d++) {
        if (d < (int)attrs->dim) outer *= x->sizes[d];
        if (d > (int)attrs->dim) inner *= x->sizes[d];
    }
    const int64_t row = inner * (int64_t)dtype_size(x->dtype);
    TRY(sort_places(ctx, prepared, in[INDEX], starts, places));
    sum_t sum = {x->dtype, inner, row, size, n_picked, starts, places, in[GRAD], out[0]};
    threads_share(threads_for(ctx, outer * (size + n_picked) * inner), outer * size, sum_rows,
                  &sum);
    return STATUS_OK;
}

const opdef_t op_def_gather = {
    .name = "gather",
    FUNCTIONS_OF(gather),
    .preference = OP_DENSE,
    .traits = TRAIT_READS_GROUPED,
    .attrs = {sizeof(gather_attrs_t), 1, fields},
    OPERANDS(operands),
    .kernels = KERNELS(&grouped, KERNEL("native", ops_prepare_dense, gather_run)),
    .gradient = GRADIENT(.pass = gather_pass, .reads_in = 1u << INDEX)};

const opdef_t op_def_gather_backward = {
    .name = "gather_backward",
    FUNCTIONS_OF(gather_backward),
    .preference = OP_DENSE,
    .attrs = {sizeof(backward_attrs_t), 2, backward_fields},
    OPERANDS(backward_operands),
    .kernels = KERNELS(KERNEL("native", prepare_backward, run_backward))};

status_t op_gather(context_t *ctx, const tensor_t *x, int64_t dim, const tensor_t *index,
                   tensor_t **out)
{
    gather_attrs_t attrs = {dim};
    return dispatch_run(ctx, &op_def_gather, &attrs, 2, (const tensor_t *[]){x, index}, NULL, out);
}
