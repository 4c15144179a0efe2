/* Operators with weights of few bits in blocks, each with a scale and a zero. Constant weights
 * become tensors in a grouped format (grouping_t), others are dequantised to f32. */
#include <string.h>

#include "io/onnx/node_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* A weight [K][C] in blocks of `block` integers along C. */
typedef struct weight {
    int64_t bits, block, n_out, n_in, n_blocks;
    item_t codes;  /* u8 [K][C] */
    item_t scales; /* [K][blocks] */
    item_t zeros;  /* u8 or floating-point [K][blocks]; ITEM_NONE: half of the range */
} weight_t;

static status_t as_float(onnx_node_t *node, item_t x, item_t *out)
{
    return onnx_cast(node, x, DTYPE_F32, out);
}

/* Unpacks 8 / bits integers from each byte, the low one first: [..][n] becomes [..][n * 8 / bits].
 */
static status_t unpack_bits(onnx_node_t *node, item_t x, int64_t bits, item_t *out)
{
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int n = (int)(8 / bits);
    item_t number, mask, parts[4];
    int64_t sizes[TENSOR_MAX_RANK + 1];
    *out = x;
    if (bits == 8) return STATUS_OK;
    for (int d = 0; d < info.rank; d++) sizes[d] = info.sizes[d];
    sizes[info.rank] = 1;
    TRY(onnx_integer(node->onnx, (1 << bits) - 1, &mask));
    for (int i = 0; i < n; i++) {
        TRY(onnx_integer(node->onnx, i * bits, &number));
        TRY(onnx_binary(node, "bitwise_right_shift", x, number, &parts[i]));
        TRY(onnx_binary(node, "bitwise_and", parts[i], mask, &parts[i]));
        TRY(onnx_reshape(node, parts[i], info.rank + 1, sizes, &parts[i]));
    }
    TRY(onnx_op(node, "concat", ONNX_ATTRS(SET("dim", info.rank)), n, parts, out));
    sizes[info.rank - 1] = sym_multiply(node->onnx->ctx, sizes[info.rank - 1], n);
    return onnx_reshape(node, *out, info.rank, sizes, out);
}

/* Reads the zeros of all blocks. They are packed like the weight, or floating-point numbers. */
static status_t unpack_zeros(onnx_node_t *node, int input, weight_t *w)
{
    w->zeros = ITEM_NONE;
    if (!onnx_has(node, input)) return STATUS_OK;
    const tensor_info_t info = onnx_input_info(node, input);
    const int64_t sizes[] = {w->n_out, w->n_blocks};
    w->zeros = node->in[input];
    if (info.dtype == DTYPE_U8) {
        const bool has_rows = sym_less(node->onnx->ctx, 0, w->n_out);
        const int64_t n = has_rows ? onnx_quotient(node, info.rank, info.sizes, 1, sizes) : 0;
        TRY(onnx_reshape(node, w->zeros, 2, (const int64_t[]){w->n_out, n}, &w->zeros));
        TRY(unpack_bits(node, w->zeros, w->bits, &w->zeros));
        TRY(onnx_slice(node, w->zeros, 1, 0, w->n_blocks, 1, &w->zeros));
    }
    return onnx_reshape(node, w->zeros, 2, sizes, &w->zeros);
}

/* ---- constant weights ---- */

/* True if the weight is constant and a grouped format has such blocks. */
static bool is_groupable(const onnx_node_t *node, const weight_t *w)
{
    const item_t items[] = {w->codes, w->scales, w->zeros};
    const dtype_t scale = onnx_info(node->onnx, w->scales)->dtype;
    for (int i = 0; i < 3; i++)
        if (items[i] != ITEM_NONE && onnx_tensor_of(node->onnx, items[i]) == NULL) return false;
    return w->block >= GROUPING_LEAST && w->block <= GROUPING_MOST &&
           w->block % GROUPING_LEAST == 0 && w->n_out > 0 && w->n_in > 0 &&
           (scale == DTYPE_F32 || scale == DTYPE_F16 || scale == DTYPE_BF16);
}

static status_t elements_of(const onnx_node_t *node, item_t item, const void **out_elements)
{
    tensor_t *plain = NULL;
    *out_elements = NULL;
    if (item == ITEM_NONE) return STATUS_OK;
    TRY(tensor_contiguous(node->onnx->ctx, onnx_tensor_of(node->onnx, item), &plain));
    *out_elements = tensor_bytes(plain);
    return STATUS_OK;
}

/* Makes the tensor; its arrays live until the end of a scope. */
static status_t make_grouped(const onnx_node_t *node, const weight_t *w, const grouping_t *grouping,
                             tensor_t **out_tensor)
{
    const void *codes = NULL, *scales = NULL, *offsets = NULL;
    TRY(elements_of(node, w->codes, &codes));
    TRY(elements_of(node, w->scales, &scales));
    TRY(elements_of(node, w->zeros, &offsets));
    return tensor_grouped(node->onnx->ctx, grouping, 2, (const int64_t[]){w->n_out, w->n_in}, codes,
                          scales, offsets, out_tensor);
}

/* Without zeros, codes become signed: the range is the same around 0. Zeros that are floating-point
 * numbers become minima. */
static status_t group_weight(onnx_node_t *node, const char *name, weight_t w, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    grouping_t grouping = {.bits = (int)w.bits,
                           .group = w.block,
                           .scale = onnx_info(node->onnx, w.scales)->dtype,
                           .offset = GROUPING_ZEROS};
    tensor_t *tensor = NULL;
    item_t half;
    if (w.zeros == ITEM_NONE) {
        grouping.is_signed = true;
        grouping.offset = GROUPING_NONE;
        TRY(onnx_integer(node->onnx, 1 << (w.bits - 1), &half));
        TRY(onnx_cast(node, w.codes, DTYPE_S16, &w.codes));
        TRY(onnx_binary(node, "sub", w.codes, half, &w.codes));
        TRY(onnx_cast(node, w.codes, DTYPE_S8, &w.codes));
    } else if (dtype_is_floating(onnx_info(node->onnx, w.zeros)->dtype)) {
        grouping.offset = GROUPING_MINIMA;
        grouping.scale = DTYPE_F32;
        TRY(as_float(node, w.scales, &w.scales));
        TRY(as_float(node, w.zeros, &w.zeros));
        TRY(onnx_binary(node, "mul", w.scales, w.zeros, &w.zeros));
        TRY(onnx_unary(node, "neg", w.zeros, &w.zeros));
    }
    scope_begin(ctx);
    status_t status = make_grouped(node, &w, &grouping, &tensor);
    if (status == STATUS_OK) tensor_hold(tensor);
    const status_t ended = scope_end(ctx);
    TRY(status != STATUS_OK ? status : ended);
    TRY(onnx_item_take(node->onnx, name, tensor, out));
    node->onnx->items[*out].is_weight = true;
    return STATUS_OK;
}

/* ---- weights that are not constant ---- */

/* Repeats a number of each block for all its integers: [K][blocks] becomes [K][C]. */
static status_t spread(onnx_node_t *node, const weight_t *w, item_t numbers, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    const int64_t thin[] = {w->n_out, w->n_blocks, 1}, wide[] = {w->n_out, w->n_blocks, w->block};
    const int64_t flat[] = {w->n_out, sym_multiply(ctx, w->n_blocks, w->block)};
    TRY(as_float(node, numbers, out));
    TRY(onnx_reshape(node, *out, 3, thin, out));
    TRY(onnx_expand(node, *out, 3, wide, out));
    TRY(onnx_reshape(node, *out, 2, flat, out));
    return onnx_slice(node, *out, 1, 0, w->n_in, 1, out);
}

static status_t widen_weight(onnx_node_t *node, const weight_t *w, item_t *out)
{
    item_t zeros, scales;
    TRY(spread(node, w, w->scales, &scales));
    if (w->zeros == ITEM_NONE)
        TRY(onnx_number(node->onnx, (double)(1 << (w->bits - 1)), &zeros));
    else
        TRY(spread(node, w, w->zeros, &zeros));
    TRY(as_float(node, w->codes, out));
    TRY(onnx_binary(node, "sub", *out, zeros, out));
    return onnx_binary(node, "mul", *out, scales, out);
}

static status_t add_weight(onnx_node_t *node, const char *name, const weight_t *w, item_t *out)
{
    return is_groupable(node, w) ? group_weight(node, name, *w, out) : widen_weight(node, w, out);
}

/* ---- products ---- */

/* Sorts the inputs by their block, which g_idx lists. Each block must have `block` inputs. */
static status_t sort_inputs(onnx_node_t *node, int input, const weight_t *w, int64_t *out_order)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_t *known = onnx_is_number(node, input)
                                ? onnx_tensor_of(node->onnx, node->in[input])
                                : NULL;
    int64_t n = 0;
    if (known == NULL || tensor_numel(known) != w->n_in || !info_is_contiguous(&known->info) ||
        !dtype_is_integral(tensor_dtype(known)))
        FAIL(ctx, STATUS_UNSUPPORTED, "g_idx that is not a constant with %lld integers",
             (long long)w->n_in);
    const char *blocks = tensor_bytes(known);
    const size_t size = dtype_size(tensor_dtype(known));
    for (int64_t block = 0; block < w->n_blocks; block++) {
        const int64_t first = n;
        for (int64_t i = 0; i < w->n_in; i++)
            if (dtype_load_integer(tensor_dtype(known), blocks + (size_t)i * size) == block)
                out_order[n++] = i;
        if (n - first != (block < w->n_blocks - 1 ? w->block : w->n_in - first))
            FAIL(ctx, STATUS_UNSUPPORTED, "g_idx with %lld inputs in block %lld of %lld",
                 (long long)(n - first), (long long)block, (long long)w->block);
    }
    return STATUS_OK;
}

/* Moves the inputs of x and of the weight into the order of blocks. */
static status_t take_in_order(onnx_node_t *node, int input, weight_t *w, item_t *x)
{
    context_t *ctx = node->onnx->ctx;
    int64_t *order = NULL;
    TRY(context_get(ctx, (size_t)w->n_in * sizeof *order, "the order of inputs", &order));
    status_t status = sort_inputs(node, input, w, order);
    const int rank = onnx_info(node->onnx, *x)->rank;
    if (status == STATUS_OK) status = onnx_take(node, *x, rank - 1, (int)w->n_in, order, x);
    if (status == STATUS_OK) status = onnx_take(node, w->codes, 1, (int)w->n_in, order, &w->codes);
    context_put(ctx, order);
    return status;
}

/* Multiplies a [..][C] by a weight of K rows. */
status_t onnx_import_matmul_n_bits(onnx_node_t *node)
{
    enum { A, WEIGHT, SCALES, ZEROS, ORDER, ADDED };
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t packed = onnx_input_info(node, WEIGHT);
    weight_t w = {.scales = node->in[SCALES]};
    item_t in[3] = {node->in[A], ITEM_NONE, ITEM_NONE};
    TRY(onnx_attr_int(node, "bits", 4, &w.bits));
    TRY(onnx_attr_int(node, "block_size", 0, &w.block));
    TRY(onnx_attr_int(node, "K", 0, &w.n_in));
    TRY(onnx_attr_int(node, "N", 0, &w.n_out));
    onnx_attr_ignore(node, "accuracy_level"); /* products are always f32 */
    if (w.bits != 2 && w.bits != 4 && w.bits != 8)
        FAIL(ctx, STATUS_UNSUPPORTED, "bits %lld, 2, 4 and 8 are supported", (long long)w.bits);
    w.n_blocks = w.block > 0 && w.n_in > 0 ? (w.n_in - 1) / w.block + 1 : 0;
    if (packed.rank != 3 || packed.dtype != DTYPE_U8 || w.n_blocks == 0 ||
        !sym_equal(ctx, packed.sizes[0], w.n_out) || !sym_equal(ctx, packed.sizes[1], w.n_blocks) ||
        !sym_equal(ctx, packed.sizes[2], w.block * w.bits / 8))
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "the weight is %s, for %lld rows of %lld in blocks of %lld", onnx_brief(node, &packed),
             (long long)w.n_out, (long long)w.n_in, (long long)w.block);
    const int64_t flat[] = {w.n_out, sym_multiply(ctx, w.n_blocks, w.block)};
    const int64_t blocks[] = {w.n_out, w.n_blocks};
    TRY(unpack_bits(node, node->in[WEIGHT], w.bits, &w.codes));
    TRY(onnx_reshape(node, w.codes, 2, flat, &w.codes));
    TRY(onnx_slice(node, w.codes, 1, 0, w.n_in, 1, &w.codes));
    TRY(onnx_reshape(node, w.scales, 2, blocks, &w.scales));
    TRY(unpack_zeros(node, ZEROS, &w));
    if (onnx_has(node, ORDER)) TRY(take_in_order(node, ORDER, &w, &in[0]));
    TRY(add_weight(node, node->onnx->items[node->in[WEIGHT]].name, &w, &in[1]));
    if (onnx_has(node, ADDED)) in[2] = node->in[ADDED];
    return onnx_op(node, "linear", NULL, 3, in, &node->out[0]);
}

/* Takes rows of a weight. */
status_t onnx_import_gather_block_quantized(onnx_node_t *node)
{
    enum { DATA, INDICES, SCALES, ZEROS };
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t packed = onnx_input_info(node, DATA);
    const tensor_info_t scales = onnx_input_info(node, SCALES);
    weight_t w = {.scales = node->in[SCALES]};
    int64_t gathered = 0, quantized = 0;
    item_t in[] = {ITEM_NONE, node->in[INDICES]};
    TRY(onnx_attr_int(node, "bits", 4, &w.bits));
    TRY(onnx_attr_int(node, "block_size", 128, &w.block));
    TRY(onnx_attr_int(node, "gather_axis", 0, &gathered));
    TRY(onnx_attr_int(node, "quantize_axis", 1, &quantized));
    if ((w.bits != 2 && w.bits != 4 && w.bits != 8) || packed.rank != 2 ||
        packed.dtype != DTYPE_U8 || node->onnx->items[node->in[DATA]].narrow != 0 ||
        (gathered != 0 && gathered != -2) || (quantized != 1 && quantized != -1))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "data %s with %lld bits, gather_axis %lld and quantize_axis %lld: rows of a matrix of "
             "u8 with 2, 4 or 8 bits and axes 0 and 1 are supported",
             onnx_brief(node, &packed), (long long)w.bits, (long long)gathered,
             (long long)quantized);
    w.n_out = packed.sizes[0];
    w.n_in = sym_multiply(ctx, packed.sizes[1], 8 / w.bits);
    w.n_blocks = scales.rank == 2 ? scales.sizes[1] : 0;
    if (w.block < 1 || scales.rank != 2 || !sym_equal(ctx, scales.sizes[0], w.n_out) ||
        !sym_equal(ctx, w.n_blocks, sym_divide(ctx, w.n_in + w.block - 1, w.block)))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "scales are %s, for data %s in blocks of %lld",
             onnx_brief(node, &scales), onnx_brief(node, &packed), (long long)w.block);
    TRY(unpack_bits(node, node->in[DATA], w.bits, &w.codes));
    TRY(unpack_zeros(node, ZEROS, &w));
    TRY(add_weight(node, node->onnx->items[node->in[DATA]].name, &w, &in[0]));
    TRY(onnx_op(node, "gather", NULL, 2, in, &node->out[0]));
    return onnx_cast(node, node->out[0], scales.dtype, &node->out[0]);
}
