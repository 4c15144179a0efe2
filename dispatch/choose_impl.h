/* Format choice for kernels on oneDNN.
 *
 * oneDNN's own choice (`any`) is not optimal: it sees one operator at a time, which causes reorders
 * between operators, and for some pairs of formats it silently runs a reference implementation. So
 * these functions describe every candidate, i.e. ask oneDNN for a primitive. They reject reference
 * implementations by their names, and compare the others by estimated time. */
#ifndef TESSERA_DISPATCH_CHOOSE_IMPL_H
#define TESSERA_DISPATCH_CHOOSE_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/onednn/candidates.h"
#include "tensor/onednn/cost.h"

/* Sets the problem's post-ops from the call's attribute `post`. The first post-op for which oneDNN
 * treats NaN or infinities unlike PyTorch, and all after it, are left to Tessera's own loops.
 * problem->dst may be the result with its first dimensions joined. Operands of the result's shape
 * use its format; operands that broadcast must be plain. out_operands[POST_MAX] receives the
 * operands' infos as oneDNN sees them; it must live as long as the problem. Sets
 * prepared->sum_operand. Declines post-ops that oneDNN cannot fuse. */
status_t choose_post_ops(const op_call_t *call, prepared_t *prepared, onednn_problem_t *problem,
                         tensor_info_t *out_operands);

/* Maps an elementwise function and its parameters to oneDNN's. False if oneDNN lacks the function,
 * or computes it wrongly for finite numbers. */
bool choose_eltwise(eltwise_t eltwise, double alpha, double beta, onednn_post_op_t *out_op);

/* True if oneDNN's results for NaN and infinities equal PyTorch's. False for relu, clamps, maximum,
 * minimum and gelu. */
bool choose_is_exact(const post_op_t *op);

/* False if two post-ops are the same function with different parameters: the code that oneDNN 2.6
 * generates uses the parameters of the first for both. */
bool choose_tells_apart(const post_ops_t *post);

/* Chooses the formats of source and destination for operators with one activation (input 0) and one
 * output, with or without weight and bias. src[0], weight, bias and dst of `problem` hold dtype and
 * sizes; the weight is described with FORMAT_ANY. Sets in, out, primitive and cost of `prepared`.
 * flops: operations of the call, two for a multiply-add; 0 for operators bound by memory. Order of
 * candidates: the input's own format for both; then, unless the call keeps formats, blocks of the
 * ISA's width, channels last, oneDNN's proposal, other blocks, plain. Policy per_op tries oneDNN's
 * proposal only. */
status_t choose_formats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                        onednn_problem_t *problem, double flops);

/* choose_formats for a gradient of such an operator. `forward` is the operator's problem, whose
 * src[0], weight, bias (NULL: none) and dst hold dtype and sizes. The call's operands:
 *
 *   ONEDNN_BACKWARD_DATA     in diff_dst, weight; out diff_src
 *   ONEDNN_BACKWARD_WEIGHT   in src, diff_dst; out diff_weight, and diff_bias if it has a bias
 *
 * The gradient of a weight gets the format of the forward operator's weight; if it cannot, a note
 * (prepared_note) says why. A dense gradient is row-major. A blocked gradient of the source reads
 * the weight in the forward operator's format; if it cannot, the weight is reordered in each
 * training step, and a note says why. */
status_t choose_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         const onednn_problem_t *forward, onednn_propagation_t propagation,
                         double flops);

/* Describes the gradient of a forward problem whose formats are set; the weight's may be
 * FORMAT_ANY. UNSUPPORTED without a message if oneDNN has no such gradient. */
status_t choose_describe_backward(context_t *ctx, const onednn_problem_t *forward,
                                  onednn_propagation_t propagation,
                                  onednn_primitive_t **out_primitive);

/* The format in which the forward operator reads its weight, given the formats of its activations.
 * UNSUPPORTED if no tag describes the format, or only a reference implementation exists. */
status_t choose_forward_format(context_t *ctx, const onednn_problem_t *forward,
                               format_t *out_format);

/* Avoids a reorder in each training step: tries to make the gradient use the weight format of the
 * forward operator. Replaces *primitive and *weight if the implementation stays the same and the
 * caller did not fix the format (is_said); otherwise a note names the forward operator's format. In
 * `forward` all formats are set except the weight's. *weight: the weight's info in *primitive,
 * before and after. */
status_t choose_forward_weight(context_t *ctx, prepared_t *prepared,
                               const onednn_problem_t *forward, onednn_propagation_t propagation,
                               bool is_said, onednn_primitive_t **primitive, tensor_info_t *weight);
/* Settles a kernel on the primitive; inputs and outputs are ordered as for choose_backward. */
void choose_take_backward(prepared_t *prepared, onednn_propagation_t propagation,
                          onednn_primitive_t *primitive);

/* Turns oneDNN's grouped weight [G][K/G].. into [K].. with the same bytes: f32[32,1,1,3,3] in
 * Abcde16a becomes f32[32,1,3,3] in Abcd16a. Returns false, and changes nothing, if no tag
 * describes the result. */
bool choose_join_groups(tensor_info_t *weight);

/* The dense info with the same bytes as a plain tag. */
tensor_info_t choose_as_dense(const tensor_info_t *info);

#endif
