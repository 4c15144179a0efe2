/* What the reductions share: which dimensions go, what the result's shape is, and how the elements
 * of x that make one element of the result are walked. */
#ifndef TESSERA_OPS_REDUCE_REDUCE_IMPL_H
#define TESSERA_OPS_REDUCE_REDUCE_IMPL_H

#include <math.h>

#include "dispatch/prepared_impl.h"

/* oneDNN adds elements up in one float, or in one vector of floats, and the error grows with their
 * number: that of a mean is 1e-6 for 4,096 and 4e-5 for a million. Sums of more elements than this
 * (per lane) are left to our own kernels, which use kernels/sums_impl.h. */
#define REDUCE_NAIVE_MOST 1024

typedef struct reduce_attrs {
    ints_t dims; /* none: all */
    bool keepdim;
    int64_t correction; /* var, std: taken off the number of elements that they divide by */
    double p;           /* norm */
    bool select_last;   /* argmax, argmin: of equal elements the last */
} reduce_attrs_t;

/* The fields that every reduction has. */
#define REDUCE_FIELDS                                                                              \
    {"dims", ATTR_INTS, false, offsetof(reduce_attrs_t, dims), 0, 0, NULL},                        \
    {                                                                                              \
        "keepdim", ATTR_BOOL, false, offsetof(reduce_attrs_t, keepdim), 0, 0, NULL                 \
    }

/* Which dimensions go; false when one is out of range or stands twice. */
bool reduce_mark(const ints_t *dims, int rank, bool *out_gone);

/* The result's shape, with elements of `dtype`. */
status_t reduce_infer(context_t *ctx, const op_call_t *call, dtype_t dtype, tensor_info_t *out);

/* INVALID_ARGUMENT where a dimension that goes has no elements. */
status_t reduce_need_elements(context_t *ctx, const op_call_t *call);

/* The `prepare` of kernels that read a dense x of any strides. */
status_t reduce_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared);

/* ---- specification: the elements of x that one element of the result is made of ---- */

typedef struct reduce_spec {
    const spec_call_t *call;
    bool is_done;
    int64_t at[TENSOR_MAX_RANK], range[TENSOR_MAX_RANK], step[TENSOR_MAX_RANK];
} reduce_spec_t;

/* Begins at the first one, and gives their number. */
int64_t reduce_spec(const spec_call_t *call, const int64_t *index, reduce_spec_t *out_spec);
/* The element at hand, and on to the next one; false behind the last one. */
bool reduce_spec_next(reduce_spec_t *spec, double *out_value);

/* ---- kernels ---- */

/* A loop over some dimensions of x, the last one innermost. */
typedef struct reduce_loops {
    int n;
    int64_t total, sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
} reduce_loops_t;

/* The loop over the elements of the result, and within it that over what each is made of, whose
 * innermost dimension has the smallest stride. */
void reduce_split(const prepared_t *prepared, reduce_loops_t *out_kept, reduce_loops_t *out_inner);
void reduce_split_of(const tensor_info_t *x, const ints_t *dims, reduce_loops_t *out_kept,
                     reduce_loops_t *out_inner);

/* Elements from the first one to number `place` of the n outermost dimensions. */
int64_t reduce_offset(const reduce_loops_t *loops, int n, int64_t place);

#define REDUCE_CHUNK 256

/* Elements number `first` and following of a loop, REDUCE_CHUNK or what is left of them, as f64 or
 * s64 to `chunk`; gives how many. x is the loop's first element. */
int64_t reduce_read(const reduce_loops_t *loops, dtype_t dtype, const char *x, int64_t first,
                    dtype_t as, void *chunk);

/* The larger one of two; NaN is larger than all numbers. */
static inline double reduce_larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

/* The largest of n numbers and `best`. */
double reduce_largest(double best, int64_t n, const double *x);

/* x ^ mask of integers read as s64 are in their order, or in the opposite one: bits that are all
 * flipped turn the order round, and the sign bit alone makes the order of u64 that of s64. */
static inline int64_t reduce_order_mask(dtype_t dtype, bool is_reversed)
{
    int64_t mask = dtype == DTYPE_U64 ? INT64_MIN : 0;
    return is_reversed ? ~mask : mask;
}

/* ---- public functions ---- */

/* The call with n dims added to its attributes. */
status_t reduce_call(context_t *ctx, const opdef_t *op, const tensor_t *x, int n,
                     const int64_t *dims, reduce_attrs_t attrs, tensor_t **out);

#endif
