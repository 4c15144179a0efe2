/* Detects problems that overflow oneDNN's integers. oneDNN stores sizes, strides, paddings and
 * offsets inside a window in 32 bits, without checking whether they fit. */
#include <stdint.h>

#include "tensor/onednn/onednn_impl.h"
#include "tensor/shape.h"

/* UNROLLED_OUTPUTS: largest number of adjacent outputs that a kernel computes in one unrolled step.
 * BLOCK: largest number of channels in a block. */
#define UNROLLED_OUTPUTS 32
#define BLOCK 16

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool fits(int64_t number)
{
    return number >= -INT32_MAX && number <= INT32_MAX;
}

/* Multiplies *value by the factor. Returns false on 64-bit overflow. */
static bool multiply(int64_t *value, int64_t factor)
{
    return shape_multiply(*value, factor, value);
}

/* Adds the term to *value. Returns false on 64-bit overflow. */
static bool add(int64_t *value, int64_t term)
{
    return !__builtin_add_overflow(*value, term, value);
}

/* ---- sizes ---- */

/* True if the number of elements, padding included, fits into 32 bits. If oneDNN will choose the
 * format, padding is checked after this choice. */
static bool elements_fit(const tensor_info_t *info)
{
    int64_t elements = 0;
    if (info->format.kind == FORMAT_ANY) return info_numel(info) <= INT32_MAX;
    return format_elements(&info->format, info->sizes, &elements) && elements <= INT32_MAX;
}

static const char *sizes_obstacle(const onednn_problem_t *p)
{
    for (int i = 0; i < ONEDNN_ARGUMENT_COUNT; i++) {
        const tensor_info_t *info = onednn_operand(p, i);
        if (info == NULL) continue;
        for (int d = 0; d < info->rank; d++)
            if (!fits(info->sizes[d])) return "sizes beyond 32 bits";
        /* version 2 computes some kernels' offsets in 32 bits */
        if (DNNL_VERSION_MAJOR == 2 && !elements_fit(info)) return "tensors beyond 2^31 elements";
    }
    return NULL;
}

/* ---- windows ---- */

typedef struct window {
    const tensor_info_t *many, *few; /* `many`: the tensor that windows slide over; `few`: the
                                        tensor with one element per window */
    int64_t kernel[ONEDNN_MAX_SPATIAL];
} window_t;

/* Returns the windows of a problem. If the problem has gradients, uses their infos; they have the
 * shapes of the forward operands. */
static window_t window_of(const onednn_problem_t *p)
{
    const tensor_info_t *src = p->diff_src != NULL ? p->diff_src : p->src;
    const tensor_info_t *dst = p->diff_dst != NULL ? p->diff_dst : p->dst;
    const tensor_info_t *weight = p->diff_weight != NULL ? p->diff_weight : p->weight;
    const bool is_transposed = p->kind == ONEDNN_DECONVOLUTION;
    window_t window = {is_transposed ? dst : src, is_transposed ? src : dst, {0}};
    for (int i = 0; i < src->rank - 2; i++)
        window.kernel[i] = p->kind == ONEDNN_POOLING
                               ? p->kernel[i]
                               : weight->sizes[weight->rank - src->rank + 2 + i];
    return window;
}

/* Counts the elements along dimension i that a kernel addresses from one pointer: a window, the
 * steps to the next windows, and the padding. The number is 0 for adjacent windows of one element.
 * Returns false on overflow. */
static bool count_reach(const onednn_problem_t *p, const window_t *window, int i, bool is_innermost,
                        int64_t *out_reach)
{
    const int64_t size = window->many->sizes[2 + i], stride = p->stride[i];
    int64_t reach = window->kernel[i] - 1, padded = size, last = window->few->sizes[2 + i] - 1;
    *out_reach = 0;
    if (!multiply(&reach, p->dilation[i])) return false;
    const bool is_trivial = reach == 0 && stride == 1 && p->pad_begin[i] == 0 && p->pad_end[i] <= 0;
    if (!fits(stride) || !fits(p->dilation[i]) || !fits(p->pad_begin[i]) || !fits(p->pad_end[i]))
        return false;
    padded += p->pad_begin[i] + larger(p->pad_end[i], 0) + stride;
    if (!multiply(&last, stride) || !add(&last, reach) || !fits(last + stride)) return false;
    if (!add(&padded, reach) || !fits(padded)) return false;
    if (is_trivial) return true;
    *out_reach = (is_innermost ? UNROLLED_OUTPUTS * stride : stride) + reach + p->pad_begin[i] +
                 larger(p->pad_end[i], 0);
    return true;
}

/* Returns a message if an offset inside a window could exceed 32 bits, else NULL. Kernels encode
 * these offsets in their instructions, as 32-bit numbers of bytes. The largest offset is the number
 * of elements that count_reach returns, multiplied by the sizes of all inner dimensions and by the
 * channels (in channels last). */
static const char *windows_obstacle(const onednn_problem_t *p)
{
    const window_t window = window_of(p);
    const tensor_info_t *many = window.many, *few = window.few;
    int64_t bytes = (larger(many->sizes[1], few->sizes[1]) + BLOCK - 1) / BLOCK * BLOCK;
    bytes *= (int64_t)larger((int64_t)dtype_size(many->dtype), (int64_t)dtype_size(few->dtype));
    for (int i = many->rank - 3; i >= 0; i--) {
        int64_t reach = 0, offset = bytes;
        if (!count_reach(p, &window, i, i == many->rank - 3, &reach))
            return "strides, dilations or paddings beyond 32 bits";
        if (!multiply(&offset, reach) || !fits(offset)) return "windows beyond 2^31 bytes";
        if (!multiply(&bytes, larger(many->sizes[2 + i], few->sizes[2 + i])))
            return "tensors beyond 2^63 bytes";
    }
    return NULL;
}

/* ---- checks ---- */

const char *onednn_limit(const onednn_problem_t *p)
{
    const char *obstacle = sizes_obstacle(p);
    if (obstacle != NULL) return obstacle;
    switch (p->kind) {
    case ONEDNN_CONVOLUTION:
    case ONEDNN_DECONVOLUTION:
    case ONEDNN_POOLING: return windows_obstacle(p);
    case ONEDNN_LRN: return p->size <= INT32_MAX / 2 ? NULL : "an lrn size beyond 31 bits";
    default: return NULL;
    }
}

const char *onednn_limit_of_chosen(const onednn_primitive_t *primitive)
{
    for (int i = 0; DNNL_VERSION_MAJOR == 2 && i < ONEDNN_ARGUMENT_COUNT; i++) {
        const tensor_info_t *info = onednn_operand(primitive->problem, i);
        if (info == NULL || info->format.kind != FORMAT_ANY) continue;
        const_dnnl_memory_desc_t md = onednn_wanted(primitive, i);
        if (md != NULL && dnnl_memory_desc_get_size(md) / dtype_size(info->dtype) > INT32_MAX)
            return "tensors beyond 2^31 elements with their padding";
    }
    return NULL;
}
