/* Col2Im sums blocks at their positions in an image.
 *
 * x [N, C * block, L] has one column for each of the block's L positions. A scatter adds the
 * columns' elements to an image of zeros, at indices that the graph computes from the sizes. At the
 * end the padding is cropped. */
#include "io/onnx/node_impl.h"

#include <string.h>

#include "ops/index/indexing.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

#define MAX_SPATIAL 4
#define MAX_STEP INT64_C(0x7fffffff)

/* Sizes of the image, of its blocks, and of the dimensions: numbers or symbolic integers. */
typedef struct columns {
    int n;
    int64_t image[MAX_SPATIAL], block[MAX_SPATIAL], padded[MAX_SPATIAL], places[MAX_SPATIAL];
    int64_t stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pads[2 * MAX_SPATIAL];
    int64_t n_block, n_places, n_padded;
} columns_t;

static status_t read_numbers(onnx_node_t *node, const char *name, int n, int64_t least,
                             int64_t *values)
{
    int n_given = 0;
    for (int i = 0; i < n; i++) values[i] = least;
    TRY(onnx_attr_ints(node, name, 2 * MAX_SPATIAL, &n_given, values));
    if (n_given >= 0 && n_given != n)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %d numbers, needs %d", name, n_given,
             n);
    for (int i = 0; i < n; i++)
        if (values[i] < least || values[i] > MAX_STEP)
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s %lld, %lld or more is needed", name,
                 (long long)values[i], (long long)least);
    return STATUS_OK;
}

/* True for a number above `most`. Symbolic integers have their own overflow check. */
static bool is_too_large(int64_t size, int64_t most)
{
    return !sym_is(size) && size > most;
}

static status_t read_columns(onnx_node_t *node, columns_t *columns)
{
    context_t *ctx = node->onnx->ctx;
    int n_block = 0;
    *columns = (columns_t){.n_block = 1, .n_places = 1, .n_padded = 1};
    TRY(onnx_input_ints(node, 1, "image_shape", MAX_SPATIAL, &columns->n, columns->image));
    TRY(onnx_input_ints(node, 2, "block_shape", MAX_SPATIAL, &n_block, columns->block));
    if (columns->n < 1 || n_block != columns->n)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a block of %d dimensions in an image of %d", n_block,
             columns->n);
    TRY(read_numbers(node, "strides", columns->n, 1, columns->stride));
    TRY(read_numbers(node, "dilations", columns->n, 1, columns->dilation));
    TRY(read_numbers(node, "pads", 2 * columns->n, 0, columns->pads));
    for (int d = 0; d < columns->n; d++) {
        const int64_t size = columns->image[d], block = columns->block[d];
        if (sym_less(ctx, size, 1) || is_too_large(size, MAX_STEP) || sym_less(ctx, block, 1) ||
            is_too_large(block, MAX_STEP / columns->dilation[d]))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a block of %lld in an image of %lld",
                 (long long)sym_hint(ctx, block), (long long)sym_hint(ctx, size));
        columns->padded[d] = sym_add(ctx, size, columns->pads[d] + columns->pads[columns->n + d]);
        const int64_t steps = sym_multiply(ctx, columns->dilation[d], sym_subtract(ctx, block, 1));
        const int64_t last = sym_subtract(ctx, columns->padded[d], sym_add(ctx, steps, 1));
        if (sym_less(ctx, last, 0))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "a block of %lld in an image of %lld",
                 (long long)sym_hint(ctx, steps) + 1, (long long)sym_hint(ctx, columns->padded[d]));
        columns->places[d] = sym_add(ctx, sym_divide(ctx, last, columns->stride[d]), 1);
        if (!onnx_multiply(node, columns->n_block, block, &columns->n_block) ||
            !onnx_multiply(node, columns->n_places, columns->places[d], &columns->n_places) ||
            !onnx_multiply(node, columns->n_padded, columns->padded[d], &columns->n_padded))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "the image has too many elements");
    }
    return STATUS_OK;
}

/* Computes element offsets in the padded image, s64 with shape `sizes`. An offset is the sum over
 * dimensions d of index[d] * steps[d] * (stride of d in the padded image). */
static status_t add_dimensions(onnx_node_t *node, const columns_t *columns, const int64_t *sizes,
                               const int64_t *steps, item_t *out)
{
    int64_t between = 1;
    *out = ITEM_NONE;
    for (int d = columns->n - 1; d >= 0; d--) {
        const int64_t factor = sym_multiply(node->onnx->ctx, steps[d], between);
        int64_t shape[MAX_SPATIAL] = {1, 1, 1, 1};
        item_t term, number;
        shape[d] = sizes[d];
        TRY(onnx_count_up(node, sizes[d], &term));
        TRY(onnx_vector(node->onnx, NULL, 1, &factor, &number));
        TRY(onnx_binary(node, "mul", term, number, &term));
        TRY(onnx_reshape(node, term, columns->n, shape, &term));
        if (*out != ITEM_NONE) TRY(onnx_binary(node, "add", *out, term, &term));
        *out = term;
        between = sym_multiply(node->onnx->ctx, between, columns->padded[d]);
    }
    return STATUS_OK;
}

/* The offset in the padded image of each block element at each position of the block: s64 [1,
 * elements of the block * positions]. */
static status_t make_index(onnx_node_t *node, const columns_t *columns, int64_t n, item_t *out)
{
    item_t elements, places;
    TRY(add_dimensions(node, columns, columns->block, columns->dilation, &elements));
    TRY(onnx_reshape(node, elements, 2, (int64_t[]){columns->n_block, 1}, &elements));
    TRY(add_dimensions(node, columns, columns->places, columns->stride, &places));
    TRY(onnx_reshape(node, places, 2, (int64_t[]){1, columns->n_places}, &places));
    TRY(onnx_binary(node, "add", elements, places, out));
    return onnx_reshape(node, *out, 2, (int64_t[]){1, n}, out);
}

/* Adds all columns to an image of zeros: [rows, elements of the padded image]. */
static status_t add_up(onnx_node_t *node, const columns_t *columns, int64_t rows, item_t *out)
{
    onnx_t *onnx = node->onnx;
    const int64_t n = sym_multiply(onnx->ctx, columns->n_block, columns->n_places);
    tensor_t *zero = NULL;
    item_t in[3];
    TRY(tensor_zeros(onnx->ctx, onnx_input_info(node, 0).dtype, 2, (int64_t[]){1, 1}, &zero));
    scope_take(onnx->ctx, zero);
    TRY(onnx_item_take(onnx, NULL, zero, &in[0]));
    TRY(onnx_expand(node, in[0], 2, (int64_t[]){rows, columns->n_padded}, &in[0]));
    TRY(make_index(node, columns, n, &in[1]));
    TRY(onnx_expand(node, in[1], 2, (int64_t[]){rows, n}, &in[1]));
    TRY(onnx_reshape(node, node->in[0], 2, (int64_t[]){rows, n}, &in[2]));
    return onnx_op(node, "scatter", ONNX_ATTRS(SET("dim", 1), SET("reduction", SCATTER_ADD)), 3, in,
                   out);
}

status_t onnx_import_col2im(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = onnx_input_info(node, 0);
    columns_t columns;
    int64_t sizes[2 + MAX_SPATIAL];
    TRY(read_columns(node, &columns));
    if (x.rank != 3 || !sym_divides(ctx, columns.n_block, x.sizes[1]) ||
        !sym_equal(ctx, x.sizes[2], columns.n_places))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "x is %s, the block has %lld elements and %lld places",
             onnx_brief(node, &x), (long long)sym_hint(ctx, columns.n_block),
             (long long)sym_hint(ctx, columns.n_places));
    if (is_too_large(sym_multiply(ctx, columns.n_places, columns.n_block), MAX_STEP))
        FAIL(ctx, STATUS_UNSUPPORTED, "%lld places of %lld elements", (long long)columns.n_places,
             (long long)columns.n_block);
    sizes[0] = x.sizes[0];
    sizes[1] = sym_divide(ctx, x.sizes[1], columns.n_block);
    for (int d = 0; d < columns.n; d++) sizes[2 + d] = columns.padded[d];
    TRY(add_up(node, &columns, sym_multiply(ctx, sizes[0], sizes[1]), &node->out[0]));
    TRY(onnx_reshape(node, node->out[0], 2 + columns.n, sizes, &node->out[0]));
    for (int d = 0; d < columns.n; d++)
        TRY(onnx_slice(node, node->out[0], 2 + d, columns.pads[d],
                       sym_add(ctx, columns.pads[d], columns.image[d]), 1, &node->out[0]));
    return STATUS_OK;
}
