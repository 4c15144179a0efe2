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

/* Fills the problem's post-ops from the call's attribute `post`; problem->dst may be the result
 * with its first dimensions joined. Operands of the result's shape take its format, those that
 * broadcast are wanted plain; their infos, as oneDNN sees them, go into out_operands[POST_MAX],
 * which lives as long as the problem. Sets prepared->sum_operand. Declines what oneDNN cannot
 * fuse. */
status_t choose_post_ops(const op_call_t *call, prepared_t *prepared, onednn_problem_t *problem,
                         tensor_info_t *out_operands);

/* oneDNN's name for an elementwise function, with its parameters; false when it has none, or is
 * wrong. Its relu and clamp are right but for NaN, which gives 0 and a bound. */
bool choose_eltwise(eltwise_t eltwise, double alpha, double beta, onednn_post_op_t *out_op);

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

#endif
