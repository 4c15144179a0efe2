/* How kernels on oneDNN choose formats: the one place where candidates are tried.
 *
 * oneDNN's own choice (`any`) is no oracle: asked op by op it puts reorders between operators, and
 * an unsuitable pair of formats silently runs a reference implementation. So every candidate is
 * described, its implementation's name is looked at, and what remains is compared by estimate. */
#ifndef TESSERA_DISPATCH_CHOOSE_IMPL_H
#define TESSERA_DISPATCH_CHOOSE_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/onednn/candidates.h"
#include "tensor/onednn/cost.h"

/* Fills the problem's post-ops from the call's attribute `post`, and leaves those behind the first
 * whose special values differ, and that one, to our own loops; problem->dst may be the result with
 * its first dimensions joined. Operands of the result's shape take its format, those that broadcast
 * are wanted plain; their infos, as oneDNN sees them, go into out_operands[POST_MAX], which lives
 * as long as the problem. Sets prepared->sum_operand. Declines what oneDNN cannot fuse. */
status_t choose_post_ops(const op_call_t *call, prepared_t *prepared, onednn_problem_t *problem,
                         tensor_info_t *out_operands);

/* oneDNN's name for an elementwise function, with its parameters; false when it has none, or is
 * wrong for finite numbers. */
bool choose_eltwise(eltwise_t eltwise, double alpha, double beta, onednn_post_op_t *out_op);

/* Whether oneDNN's results of NaN and infinities are PyTorch's: not those of relu, clamps, maximum
 * and minimum, nor of gelu. */
bool choose_is_exact(const post_op_t *op);

/* False for two of one function with different parameters: code that oneDNN 2.6 generates gives
 * both those of the first. */
bool choose_tells_apart(const post_ops_t *post);

/* For operators of one activation (input 0) and one output, with or without weight and bias:
 * finds formats of source and destination for `problem`, whose src[0], weight, bias and dst say
 * dtype and sizes; weight is described with FORMAT_ANY. Fills in, out, primitive and cost.
 * flops: multiply-adds times two for the whole call, 0 for operators bound by memory.
 * Order: the input's own format for both; then, unless the call keeps formats, blocks of the ISA's
 * width, channels last, oneDNN's proposal, other blocks, plain. Under per_op: the proposal only. */
status_t choose_formats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                        onednn_problem_t *problem, double flops);

/* The same for a gradient of such an operator. `forward` is the operator's problem, whose src[0],
 * weight, bias (NULL: none) and dst say dtype and sizes. What the call has:
 *
 *   ONEDNN_BACKWARD_DATA     in diff_dst, weight; out diff_src
 *   ONEDNN_BACKWARD_WEIGHT   in src, diff_dst; out diff_weight, and diff_bias where it has a bias
 *
 * The gradient of a weight gets the format of the forward operator's weight, or a note says why
 * not; a dense one is row-major. A blocked gradient of the source reads the weight as the forward
 * operator does, or a note says why not: that costs a reorder in each step.
 */
status_t choose_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         const onednn_problem_t *forward, onednn_propagation_t propagation,
                         double flops);

/* Describes the gradient of a forward problem whose formats are said, but for the weight's, which
 * may be FORMAT_ANY. UNSUPPORTED, without a message: there is none. */
status_t choose_describe_backward(context_t *ctx, const onednn_problem_t *forward,
                                  onednn_propagation_t propagation,
                                  onednn_primitive_t **out_primitive);

/* The format in which a forward operator reads its weight beside the activations that its problem
 * says. UNSUPPORTED: no tag describes it, or only a reference runs beside them. */
status_t choose_forward_format(context_t *ctx, const onednn_problem_t *forward,
                               format_t *out_format);

/* A gradient of the source that reads the weight as the forward operator has it, and a gradient of
 * the weight that lies so, need no reorder in each step: *primitive becomes one of that kind if it
 * is the same implementation and nobody said the format (is_said), else a note says what it would
 * be. The forward problem says its formats, but for the weight's; *weight is how *primitive has it,
 * before and after. */
status_t choose_forward_weight(context_t *ctx, prepared_t *prepared,
                               const onednn_problem_t *forward, onednn_propagation_t propagation,
                               bool is_said, onednn_primitive_t **primitive, tensor_info_t *weight);
/* Settles a kernel on it; inputs and outputs stand as for choose_backward. */
void choose_take_backward(prepared_t *prepared, onednn_propagation_t propagation,
                          onednn_primitive_t *primitive);

/* Makes a weight [G][K/G].. that oneDNN described one [K].. with the same bytes: f32[32,1,1,3,3] in
 * Abcde16a is f32[32,1,3,3] in Abcd16a. False where no tag says it: it stays. */
bool choose_join_groups(tensor_info_t *weight);

/* The dense info whose elements lie as a plain tag says. */
tensor_info_t choose_as_dense(const tensor_info_t *info);

#endif
