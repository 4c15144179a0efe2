/* Code shared by reductions: the reduced dimensions, the shape of the result, and loops over the
 * elements of x that are combined into one result element. */
#ifndef TESSERA_OPS_REDUCE_REDUCE_IMPL_H
#define TESSERA_OPS_REDUCE_REDUCE_IMPL_H

#include <math.h>

#include "dispatch/prepared_impl.h"

/* oneDNN sums in one float (or one vector of floats), so errors grow with the number of elements:
 * the error of a mean is 1e-6 for 4,096 elements and 4e-5 for a million. If a lane has to sum more
 * elements than this limit, oneDNN is not used, but our own kernels, which sum accurately
 * (kernels/sums_impl.h). */
#define REDUCE_NAIVE_MOST 1024

typedef struct reduce_attrs {
    ints_t dims; /* empty: all */
    bool keepdim;
    int64_t correction; /* var, std: the divisor is the number of elements minus this */
    double p;           /* norm */
    bool select_last;   /* argmax, argmin: return the last of equal elements */
} reduce_attrs_t;

/* Attributes of every reduction. */
#define REDUCE_FIELDS FIELD_INTS(reduce_attrs_t, dims), FIELD_BOOL(reduce_attrs_t, keepdim, 0)

/* Sets out_gone[d] to true for each reduced dimension d, else to false. Returns false if one is out
 * of range or repeated. */
bool reduce_mark(const ints_t *dims, int rank, bool *out_gone);

/* Infers the result: x's sizes without the reduced dimensions (1 with keepdim), and `dtype`. */
status_t reduce_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

/* Fails with INVALID_ARGUMENT if a reduced dimension has no elements. */
status_t reduce_need_elements(context_t *ctx, const op_call_t *call);

/* The `prepare` of kernels that read a dense x with any strides. */
status_t reduce_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared);

/* ---- specification: the elements of x that are combined into one result element ---- */

typedef struct reduce_spec {
    const spec_call_t *call;
    bool is_done;
    int64_t at[TENSOR_MAX_RANK], range[TENSOR_MAX_RANK], step[TENSOR_MAX_RANK];
} reduce_spec_t;

/* Starts at the first element of x for result element `index`. Returns the number of elements. */
int64_t reduce_spec(const spec_call_t *call, const int64_t *index, reduce_spec_t *out_spec);
/* Reads the current element and advances to the next. Returns false after the last one. */
bool reduce_spec_next(reduce_spec_t *spec, double *out_value);

/* ---- kernels ---- */

/* Nested loops over some dimensions of x, the last one innermost. total: product of the sizes. */
typedef struct reduce_loops {
    int n;
    int64_t total, sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
} reduce_loops_t;

/* Splits the dimensions of x into loops over the result's elements, and inner loops over the
 * elements that are combined into one result element. The innermost dimension has the smallest
 * stride. */
void reduce_split(const prepared_t *prepared, reduce_loops_t *out_kept, reduce_loops_t *out_inner);
void reduce_split_of(const tensor_info_t *x, const ints_t *dims, reduce_loops_t *out_kept,
                     reduce_loops_t *out_inner);

/* Offset of the element with row-major index `place` in the n outermost dimensions, in elements. */
int64_t reduce_offset(const reduce_loops_t *loops, int n, int64_t place);

#define REDUCE_CHUNK 256

/* Converts up to REDUCE_CHUNK elements of the loops, from index `first` on, to f64 or s64 (`as`) in
 * `chunk`. x is the element with index 0. Returns the number of elements. */
int64_t reduce_read(const reduce_loops_t *loops, dtype_t dtype, const char *x, int64_t first,
                    dtype_t as, void *chunk);

/* Maximum of two numbers; NaN is larger than all numbers. */
static inline double reduce_larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* Maximum of `best` and n numbers, with NaN as above. */
double reduce_largest(double best, int64_t n, const double *x);

/* Returns a mask so that comparing x ^ mask as s64 compares numbers of this dtype, or compares them
 * in reverse. Flipping the sign bit maps the order of u64 to that of s64; flipping all bits
 * reverses the order. */
static inline int64_t reduce_order_mask(dtype_t dtype, bool is_reversed)
{
    int64_t mask = dtype == DTYPE_U64 ? INT64_MIN : 0;
    return is_reversed ? ~mask : mask;
}

/* ---- public functions ---- */

/* Sets attrs.dims to the n dims, then runs `op` on x. */
status_t reduce_call(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                     const int64_t *dims, reduce_attrs_t attrs, tensor_t **out);

#endif
