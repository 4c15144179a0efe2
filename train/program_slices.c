/* Computes the gradients of large weights of linear layers in parts, so that they are never
 * completely in memory.
 *
 *   %g = linear_backward_weight(%x, %grad) : f32[4096,25088]@AB16b64a           411 MB
 *   call(%self, "fc.weight", %g) method="update"
 *
 * If our own kernel for few rows computes the gradient, this becomes a call that computes tiles and
 * updates the weight with each tile while it is in the L1 cache:
 *
 *   call(%self, "fc.weight", %x, %grad) method="update"
 *   call(%self, "fc.bias", %grad) method="update"
 *
 * Otherwise the gradient is split along the weight's outermost dimension in memory (outputs or
 * inputs). For outputs 0 to 191, 192 to 383 and so on:
 *
 *   %s = slice(%grad) dim=-1 start=192 end=384
 *   %g = linear_backward_weight(%x, %s) : f32[192,25088]@AB16b64a               19 MB
 *   call(%self, "fc.weight", %g, 192) method="update"
 *
 * All slices use the same memory, so a slice is still in the cache when the update reads it. Slices
 * are used only for few rows of x, because each element is then summed in the same order as without
 * slices. With many rows, threads would divide the sum. But then the product takes most of the
 * time, and the gradient is small compared with activations. */
#include <stdio.h>
#include <string.h>

#include "dispatch/select_impl.h"
#include "graph/analysis/weights_impl.h"
#include "graph/ir/graph_impl.h"
#include "graph/ir/rewrite_impl.h"
#include "ops/linear/linear_impl.h"
#include "ops/ops_impl.h"
#include "ops/shape/slabs_impl.h"
#include "train/program_impl.h"

#define PRODUCT_BYTES ((size_t)1 << 20) /* smaller gradients fit in the L2 cache anyway */
#define SLICE_BYTES ((size_t)8 << 20)
/* The size of a slice is a multiple of 192, which is a multiple of the sizes of format blocks and
 * of the tiles of matrix products (4, 6, 16, 24, 48). So only the last slice has a partial tile,
 * which is summed in another order; the complete gradient ends with the same partial tile. */
#define MIN_SIZE 192
#define MAX_BATCH 64 /* rows of x */

enum { X, GRAD };

/* ---- which gradients are split, and the size of slices ---- */

/* True if the tensor is row-major, so that slices need no reorder. */
static bool is_plain(const tensor_info_t *info)
{
    const format_t plain = format_plain(info->rank);
    return info->layout == LAYOUT_DENSE ? info_is_contiguous(info)
                                        : format_same(&info->format, &plain, info->sizes);
}

static tensor_info_t plain_info(const tensor_info_t *info, int64_t last)
{
    const format_t plain = format_plain(info->rank);
    tensor_info_t sliced = info_dense(info->dtype, info->rank, info->sizes);
    sliced.sizes[info->rank - 1] = last;
    return info_mkldnn(&sliced, &plain);
}

/* True for a linear_backward_weight with row-major inputs of known sizes, if each of its outputs is
 * read at most once (by the update of its parameter). */
static bool is_read_once(const graph_t *graph, const graph_node_t *node)
{
    if (node->kind != NODE_OP || node->op != &op_def_linear_backward_weight) return false;
    for (int i = 0; i < node->n_outputs; i++)
        if (graph_n_uses(graph, node->outputs[i]) > 1) return false;
    for (int i = 0; i < node->n_inputs; i++)
        if (!type_is_static(graph_value_type(graph, node->inputs[i])) ||
            !is_plain(&graph_value_type(graph, node->inputs[i])->info))
            return false;
    return type_is_static(graph_value_type(graph, node->outputs[0]));
}

/* Describes the complete gradient as an mkldnn tensor, even if it is row-major. */
static tensor_info_t whole_info(const graph_t *graph, value_t value)
{
    const tensor_info_t *info = &graph_value_type(graph, value)->info;
    return info->layout == LAYOUT_DENSE ? plain_info(info, info->sizes[info->rank - 1]) : *info;
}

#define NAME_MAX_BYTES 64

static int sliced_operand(int dim)
{
    return dim == 0 ? GRAD : X;
}

/* Finds the name of the implementation that computes a slice of n indices in the complete
 * gradient's format; "" if there is none. */
static status_t find_kernel(context_t *ctx, const graph_t *graph, const graph_node_t *node, int dim,
                            int64_t n, char *out_name)
{
    const tensor_info_t whole = whole_info(graph, node->outputs[0]);
    const tensor_info_t *infos[] = {&graph_value_type(graph, node->inputs[X])->info,
                                    &graph_value_type(graph, node->inputs[GRAD])->info};
    const int operand = sliced_operand(dim);
    const tensor_info_t part = plain_info(infos[operand], n);
    infos[operand] = &part;
    prepared_t *prepared = NULL;
    out_name[0] = '\0';
    status_t status = select_fixed(ctx, node->op, node->attrs, 2, infos, weights_of(graph, node),
                                   LAYOUT_MKLDNN, &whole.format, NULL, &prepared);
    if (status == STATUS_UNSUPPORTED) return STATUS_OK;
    TRY(status);
    if (format_same(&prepared->out[0].format, &whole.format, prepared->out[0].sizes))
        snprintf(out_name, NAME_MAX_BYTES, "%s", prepared_implementation(prepared));
    prepared_release(prepared);
    return STATUS_OK;
}

#define ROWS_KERNEL "rows"

status_t train_product_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                          bool *out_may, tensor_info_t *out_info)
{
    char name[NAME_MAX_BYTES];
    *out_may = false;
    if (!is_read_once(graph, node)) return STATUS_OK;
    *out_info = whole_info(graph, node->outputs[0]);
    if (info_bytes(out_info) < PRODUCT_BYTES || !linear_gradient_fits(out_info)) return STATUS_OK;
    TRY(find_kernel(ctx, graph, node, 0, out_info->sizes[0], name));
    *out_may = strcmp(name, ROWS_KERNEL) == 0;
    return STATUS_OK;
}

static int64_t rows_of(const tensor_info_t *x)
{
    int64_t rows = 0;
    return shape_numel(x->rank - 1, x->sizes, &rows) ? rows : INT64_MAX;
}

/* Sets *out_is_one if the same implementation is chosen for slices of all three sizes. */
static status_t check_kernels(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                              int dim, const int64_t sizes[3], bool *out_is_one)
{
    char names[3][NAME_MAX_BYTES];
    for (int i = 0; i < 3; i++) TRY(find_kernel(ctx, graph, node, dim, sizes[i], names[i]));
    *out_is_one = names[0][0] != '\0' && strcmp(names[0], names[1]) == 0 &&
                  strcmp(names[0], names[2]) == 0;
    return STATUS_OK;
}

status_t train_slices_of(context_t *ctx, const graph_t *graph, const graph_node_t *node,
                         step_slices_t *out_slices)
{
    bool is_one = false;
    *out_slices = (step_slices_t){0};
    if (!is_read_once(graph, node)) return STATUS_OK;
    const tensor_info_t whole = whole_info(graph, node->outputs[0]);
    const int dim = whole.format.kind == FORMAT_TAG ? whole.format.order[0] : 0;
    const int64_t n = whole.sizes[dim];
    if (info_bytes(&whole) < 2 * SLICE_BYTES ||
        rows_of(&graph_value_type(graph, node->inputs[X])->info) > MAX_BATCH)
        return STATUS_OK;
    const size_t unit = info_bytes(&whole) / (size_t)((n + MIN_SIZE - 1) / MIN_SIZE);
    const size_t n_units = unit < SLICE_BYTES ? SLICE_BYTES / unit : 1;
    const step_slices_t slices = {.dim = dim, .size = (int64_t)n_units * MIN_SIZE};
    if (slices.size >= n || !step_lies_in_slices(&whole, slices)) return STATUS_OK;
    const int64_t rest = n % slices.size;
    const int64_t sizes[] = {n, slices.size, rest > 0 ? rest : slices.size};
    TRY(check_kernels(ctx, graph, node, dim, sizes, &is_one));
    if (is_one) *out_slices = slices;
    return STATUS_OK;
}

/* ---- nodes ---- */

static void set_int(const graph_node_t *node, void *attrs, const char *name, int64_t value)
{
    *(int64_t *)rewrite_attr_in(node, attrs, name, ATTR_INT) = value;
}

/* Adds a node that takes a slice of the last dimension. */
static value_t add_slice(graph_builder_t *to, const tensor_info_t *info, const char *path,
                         value_t value, int64_t first, int64_t n)
{
    int64_t attrs[ATTRS_MAX / sizeof(int64_t)] = {0};
    const graph_node_t slice = {.kind = NODE_OP,
                                .op = &op_def_slice,
                                .attrs = attrs,
                                .path = path,
                                .n_inputs = 1,
                                .n_outputs = 1};
    const graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = plain_info(info, n)};
    const graph_type_t *const types[] = {&type};
    const char *const names[] = {NULL};
    value_t sliced = VALUE_NONE;
    set_int(&slice, attrs, "dim", -1);
    set_int(&slice, attrs, "start", first);
    set_int(&slice, attrs, "end", first + n);
    set_int(&slice, attrs, "step", 1);
    graph_add_node(to, &slice, &value, types, names, &sliced);
    return sliced;
}

void train_slices_add(graph_builder_t *to, const graph_t *from, const graph_node_t *node,
                      const value_t *inputs, int dim, int64_t first, int64_t n, value_t *out_values)
{
    static const linear_backward_attrs_t no_bias = {.bias = false};
    const int operand = sliced_operand(dim);
    const tensor_info_t *info = &graph_value_type(from, node->inputs[operand])->info;
    value_t sliced[] = {inputs[X], inputs[GRAD]};
    graph_node_t part = *node;
    graph_type_t types[OP_MAX_OUTPUTS];
    const graph_type_t *listed[OP_MAX_OUTPUTS];
    const char *const names[OP_MAX_OUTPUTS] = {NULL};
    sliced[operand] = add_slice(to, info, node->path, inputs[operand], first, n);
    if (dim != 0 && first > 0) {
        part.attrs = &no_bias;
        part.n_outputs = 1;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const tensor_info_t whole = whole_info(from, node->outputs[i]);
        types[i] = (graph_type_t){.kind = TYPE_TENSOR, .has_info = true, .info = whole};
        if (dim < whole.rank) types[i].info.sizes[dim] = n;
        listed[i] = &types[i];
        out_values[i] = VALUE_NONE;
    }
    graph_add_node(to, &part, sliced, listed, names, out_values);
}
