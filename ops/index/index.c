#include "ops/index/index_impl.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "tensor/sym/sizes_impl.h"
#include "tensor/threads/threads_impl.h"

const char *const index_reduction_names[] = {"none", "add", "mul", "max", "min", NULL};

/* ---- inference ---- */

index_shape_t index_shape(const tensor_info_t *info)
{
    index_shape_t shape = {.rank = info->rank > 0 ? info->rank : 1, .sizes = {1}};
    if (info->rank > 0) memcpy(shape.sizes, info->sizes, (size_t)info->rank * sizeof *shape.sizes);
    shape_strides(shape.rank, shape.sizes, shape.strides);
    return shape;
}

status_t index_check_dtype(context_t *ctx, const char *op, const tensor_info_t *index)
{
    REQUIRE(ctx, index->dtype == DTYPE_S32 || index->dtype == DTYPE_S64,
            "%s: index is %s, s32 or s64 is needed", op, info_brief(index));
    return STATUS_OK;
}

status_t index_check_sizes(context_t *ctx, const char *op, const tensor_info_t *x,
                           const tensor_info_t *index, int dim)
{
    REQUIRE(ctx, index->rank == x->rank, "%s: index %s for %s, the same rank is needed", op,
            info_brief(index), info_brief(x));
    for (int d = 0; d < x->rank; d++)
        REQUIRE(ctx, d == dim || sym_at_most(ctx, index->sizes[d], x->sizes[d]),
                "%s: index %s is longer than %s in dimension %d, only dimension %d may be", op,
                info_brief(index), info_brief(x), d, dim);
    return STATUS_OK;
}

/* ---- conversion of indices to element numbers ---- */

static status_t fail_index(context_t *ctx, const char *op, const index_target_t *target,
                           int64_t position, int64_t value, int dim)
{
    const tensor_info_t *index = target->index;
    int64_t at[TENSOR_MAX_RANK] = {0};
    char text[256];
    for (int d = index->rank - 1; d >= 0; d--) {
        at[d] = position % index->sizes[d];
        position /= index->sizes[d];
    }
    FAIL(ctx, STATUS_INVALID_ARGUMENT,
         "%s: index %lld at %s of %s, dimension %d of %s has size %lld", op, (long long)value,
         shape_text(index->rank, at, text, sizeof text), info_brief(index), dim,
         info_brief(target->x), (long long)index_shape(target->x).sizes[dim]);
}

static int64_t load_index(const index_target_t *target, const void *bytes, int64_t position)
{
    if (target->index->dtype == DTYPE_S32) return ((const int32_t *)bytes)[position];
    return ((const int64_t *)bytes)[position];
}

/* Computes the element number of a tuple. If an index is out of range, returns false and sets
 * *out_place to the index's position in the tuple. */
static bool find_place(const index_target_t *target, const index_shape_t *x, const void *bytes,
                       int64_t tuple, int64_t *out_place)
{
    const int n = target->depth > 0 ? target->depth : 1;
    int64_t place = 0;
    for (int i = 0; i < n; i++) {
        int64_t size = x->sizes[target->first + i];
        int64_t value = load_index(target, bytes, tuple * n + i);
        if (value < -size || value >= size) {
            *out_place = i;
            return false;
        }
        place = place * size + (value < 0 ? value + size : value);
    }
    *out_place = place;
    return true;
}

typedef struct search {
    const index_target_t *target;
    const index_shape_t *x;
    const void *bytes; /* the index tensor */
    int64_t *places;
    atomic_bool is_wrong; /* some index is out of range */
} search_t;

static void find_places(void *user, int64_t first, int64_t last)
{
    search_t *s = user;
    bool is_wrong = false;
    for (int64_t i = first; i < last; i++)
        is_wrong = !find_place(s->target, s->x, s->bytes, i, &s->places[i]) || is_wrong;
    if (is_wrong) atomic_store(&s->is_wrong, true);
}

status_t index_resolve(context_t *ctx, const char *op, const index_target_t *target,
                       const void *bytes, int64_t n, int64_t *out_places)
{
    const index_shape_t x = index_shape(target->x);
    const int depth = target->depth > 0 ? target->depth : 1;
    search_t search = {target, &x, bytes, out_places, false};
    threads_share(threads_for(ctx, n), n, find_places, &search);
    for (int64_t i = 0; i < n && search.is_wrong; i++) {
        int64_t which = 0;
        if (find_place(target, &x, bytes, i, &which)) continue;
        int64_t position = i * depth + which;
        return fail_index(ctx, op, target, position, load_index(target, bytes, position),
                          target->first + (int)which);
    }
    return STATUS_OK;
}

/* ---- writing elements ---- */

#define PUT(name, type, expr)                                                                      \
    static void name(const index_put_t *put)                                                       \
    {                                                                                              \
        const type *src = put->src;                                                                \
        type *dst = put->dst;                                                                      \
        for (int64_t i = 0; i < put->n; i++) {                                                     \
            int64_t at = put->places[i * put->place_step] * put->step + i * put->next;             \
            const type a = dst[at], b = src[i];                                                    \
            (void)a;                                                                               \
            dst[at] = (type)(expr);                                                                \
        }                                                                                          \
    }

PUT(put_1, uint8_t, b)
PUT(put_2, uint16_t, b)
PUT(put_4, uint32_t, b)
PUT(put_8, uint64_t, b)

#define PUT_FLOATING(dtype, type)                                                                  \
    PUT(add_##dtype, type, a + b)                                                                  \
    PUT(mul_##dtype, type, a *b)                                                                   \
    PUT(max_##dtype, type, isnan(a) || a > b ? a : b)                                              \
    PUT(min_##dtype, type, isnan(a) || a < b ? a : b)
PUT_FLOATING(f32, float)
PUT_FLOATING(f64, double)

/* Sums and products of integers use unsigned arithmetic, so that they wrap around. */
#define PUT_INTEGER(dtype, type)                                                                   \
    PUT(add_##dtype, type, (uint64_t)a + (uint64_t)b)                                              \
    PUT(mul_##dtype, type, (uint64_t)a *(uint64_t)b)                                               \
    PUT(max_##dtype, type, a > b ? a : b)                                                          \
    PUT(min_##dtype, type, a < b ? a : b)
PUT_INTEGER(s8, int8_t)
PUT_INTEGER(u8, uint8_t)
PUT_INTEGER(s16, int16_t)
PUT_INTEGER(u16, uint16_t)
PUT_INTEGER(s32, int32_t)
PUT_INTEGER(u32, uint32_t)
PUT_INTEGER(s64, int64_t)
PUT_INTEGER(u64, uint64_t)

index_put_run_t index_put_find(dtype_t dtype, scatter_reduction_t reduction)
{
#define ROW(dtype)                                                                                 \
    {                                                                                              \
        add_##dtype, mul_##dtype, max_##dtype, min_##dtype                                         \
    }
    static const index_put_run_t rows[DTYPE_COUNT][4] = {
        [DTYPE_F32] = ROW(f32), [DTYPE_F64] = ROW(f64), [DTYPE_BF16] = ROW(f32),
        [DTYPE_F16] = ROW(f32), [DTYPE_S8] = ROW(s8),   [DTYPE_U8] = ROW(u8),
        [DTYPE_S16] = ROW(s16), [DTYPE_U16] = ROW(u16), [DTYPE_S32] = ROW(s32),
        [DTYPE_U32] = ROW(u32), [DTYPE_S64] = ROW(s64), [DTYPE_U64] = ROW(u64)};
#undef ROW
    if (reduction != SCATTER_NONE) return rows[dtype][reduction - SCATTER_ADD];
    switch (dtype_size(dtype)) {
    case 1: return put_1;
    case 2: return put_2;
    case 4: return put_4;
    default: return put_8;
    }
}

/* ---- scatter ---- */

static bool is_reduced_wide(dtype_t dtype, scatter_reduction_t reduction)
{
    return reduction != SCATTER_NONE && (dtype == DTYPE_BF16 || dtype == DTYPE_F16);
}

status_t index_prepare_scatter(const op_call_t *call, prepared_t *prepared,
                               scatter_reduction_t reduction, int64_t n_places)
{
    const tensor_info_t *x = call->in[SCATTER_X], *src = call->in[SCATTER_SRC];
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (index_put_find(x->dtype, reduction) == NULL)
        return prepared_decline(prepared,
                                "native: reduction %s of %s, bool has reduction none only",
                                index_reduction_names[reduction], info_brief(x));
    for (int i = SCATTER_X; i <= SCATTER_SRC; i++) TRY(accept_plain(call, prepared, i));
    prepared->scratch_bytes = (size_t)n_places * sizeof(int64_t);
    if (is_reduced_wide(x->dtype, reduction))
        prepared->scratch_bytes += (size_t)(info_numel(x) + info_numel(src)) * sizeof(float);
    return accept_out_plain(call, prepared, 0);
}

status_t index_begin_scatter(context_t *ctx, const prepared_t *prepared,
                             const index_target_t *target, scatter_reduction_t reduction,
                             int64_t n_places, void *const *in, void *out, void *scratch,
                             index_buffers_t *out_buffers)
{
    const tensor_info_t *x = &prepared->in[SCATTER_X], *src = &prepared->in[SCATTER_SRC];
    const int64_t numel = info_numel(x), n_src = info_numel(src);
    *out_buffers = (index_buffers_t){scratch, x->dtype, in[SCATTER_SRC], out,
                                     index_put_find(x->dtype, reduction)};
    TRY(index_resolve(ctx, prepared->op->name, target, in[SCATTER_INDEX], n_places, scratch));
    if (!is_reduced_wide(x->dtype, reduction)) {
        if (numel > 0) memcpy(out, in[SCATTER_X], (size_t)info_bytes(x));
        return STATUS_OK;
    }
    void *behind = out_buffers->places + n_places;
    float *wide = behind, *wide_src = wide + numel;
    dtype_cast(numel, x->dtype, in[SCATTER_X], 1, DTYPE_F32, wide, 1);
    dtype_cast(n_src, src->dtype, in[SCATTER_SRC], 1, DTYPE_F32, wide_src, 1);
    out_buffers->dtype = DTYPE_F32;
    out_buffers->src = (const char *)wide_src;
    out_buffers->dst = (char *)wide;
    return STATUS_OK;
}

void index_end_scatter(const prepared_t *prepared, const index_buffers_t *buffers, void *out)
{
    const tensor_info_t *x = &prepared->in[SCATTER_X];
    if (buffers->dtype != x->dtype)
        dtype_cast(info_numel(x), buffers->dtype, buffers->dst, 1, x->dtype, out, 1);
}

/* ---- specification ---- */

static double combine_floating(scatter_reduction_t reduction, double value, double update)
{
    switch (reduction) {
    case SCATTER_ADD: return value + update;
    case SCATTER_MUL: return value * update;
    case SCATTER_MAX: return isnan(value) || value > update ? value : update;
    case SCATTER_MIN: return isnan(value) || value < update ? value : update;
    case SCATTER_NONE: break;
    }
    return update;
}

/* Sums and products of integers wrap around. */
double index_combine(dtype_t dtype, scatter_reduction_t reduction, double value, double update)
{
    uint64_t element = 0;
    bool wraps = reduction == SCATTER_ADD || reduction == SCATTER_MUL;
    if (!dtype_is_integral(dtype) || !wraps) return combine_floating(reduction, value, update);
    uint64_t a = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    uint64_t b = update < 0 ? (uint64_t)(int64_t)update : (uint64_t)update;
    dtype_store_integer(dtype, &element, (int64_t)(reduction == SCATTER_ADD ? a + b : a * b));
    return dtype_load(dtype, &element);
}
