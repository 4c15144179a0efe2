/* Chooses formats for kernels that call oneDNN.
 *
 * oneDNN's own choice (FORMAT_ANY) is not optimal: it sees one operator at a time, which causes
 * reorders between operators, and for some pairs of formats it silently runs a slow reference
 * implementation. So these functions ask oneDNN for a primitive for each candidate pair of formats.
 * They reject reference implementations, which they recognise by name, and compare the others by
 * estimated time. */
#ifndef TESSERA_DISPATCH_CHOOSE_CHOOSE_IMPL_H
#define TESSERA_DISPATCH_CHOOSE_CHOOSE_IMPL_H

#include "dispatch/prepared_impl.h"
#include "tensor/info_impl.h"
#include "tensor/onednn/candidates.h"
#include "tensor/onednn/cost.h"

/* Sets the problem's post-ops from the call's attribute `post`. If oneDNN treats NaN or infinities
 * in a post-op unlike PyTorch, this post-op and all later ones are left to Tessera's own loops.
 * problem->dst may be the result with its first dimensions joined. Operands of the result's shape
 * use its format; operands that broadcast must be row-major. out_operands[POST_MAX] receives the
 * operands' infos as oneDNN sees them; it must exist as long as the problem. Sets
 * prepared->sum_operand. Declines post-ops that oneDNN cannot fuse. */
status_t choose_post_ops(const op_call_t *call, prepared_t *prepared, onednn_problem_t *problem,
                         tensor_info_t *out_operands);

/* Translates an elementwise function and its parameters to oneDNN's. Returns false if oneDNN lacks
 * the function, or computes it wrongly for finite numbers. */
bool choose_eltwise(eltwise_t eltwise, double alpha, double beta, onednn_post_op_t *out_op);

/* True if oneDNN's results of a post-op for NaN and infinities equal PyTorch's. False for relu,
 * clamps, maximum, minimum and gelu. */
bool choose_is_exact(const post_op_t *op);

/* False if two post-ops are the same function with different parameters: the code that oneDNN 2.6
 * generates uses the parameters of the first for both. */
bool choose_tells_apart(const post_ops_t *post);

/* Chooses the formats of source and destination for operators with one activation (input 0) and one
 * output, with or without weight and bias. src[0], weight, bias and dst of `problem` hold dtype and
 * sizes; the weight is described with FORMAT_ANY. Sets in, out, primitive and cost of `prepared`.
 * flops: operations of the call, a multiply-add is two; 0 if memory limits the speed. Order of
 * candidates: the input's own format for both; then, unless call->keep_formats is set, blocks as
 * wide as a vector, oneDNN's proposal, channels last, other blocks, row-major. Policy per_op tries
 * oneDNN's proposal only. */
status_t choose_formats(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                        onednn_problem_t *problem, double flops);

/* Like choose_formats, for a gradient of such an operator. `forward` is the operator's problem,
 * whose src[0], weight, bias (NULL: none) and dst hold dtype and sizes. The call's operands:
 *
 *   ONEDNN_BACKWARD_DATA     in diff_dst, weight; out diff_src
 *   ONEDNN_BACKWARD_WEIGHT   in src, diff_dst; out diff_weight, and diff_bias if it has a bias
 *
 * The gradient of a weight has the format in which the forward operator reads the weight; if oneDNN
 * cannot make it, a note (prepared_note) says why. A dense gradient is row-major. A blocked
 * gradient of the source reads the weight in the forward operator's format; if oneDNN cannot, the
 * weight is reordered in each training step, and a note says why. */
status_t choose_backward(context_t *ctx, const op_call_t *call, prepared_t *prepared,
                         const onednn_problem_t *forward, onednn_propagation_t propagation,
                         double flops);

/* ---- what choose_formats and choose_backward share ---- */

typedef struct choice {
    onednn_primitive_t *primitive;
    tensor_info_t src, weight, dst;
    double cost, total; /* total: with reorders of the inputs */
    bool is_proposed;   /* oneDNN proposed the formats */
    bool packs_again;   /* the weight is already packed in another format */
} choice_t;

/* Formats to try; `weight` for gradients only. */
typedef struct candidate {
    format_t src, dst, weight;
    bool is_own; /* the inputs' own formats: the search ends here if oneDNN supports them */
} candidate_t;

/* A search: creates the primitive of a candidate. Returns UNSUPPORTED, with a note, if oneDNN only
 * has a reference implementation for it. */
typedef struct search search_t;
struct search {
    const op_call_t *call;
    prepared_t *prepared;
    const onednn_problem_t *problem;
    double flops;
    status_t (*try_one)(context_t *ctx, const search_t *search, const candidate_t *candidate,
                        choice_t *out_choice);
    onednn_propagation_t propagation; /* gradients only */
};

/* Tries n candidates, in order of preference: a later one must be 5 % faster than the best so far,
 * or make it unnecessary to pack the weight again. Declines if oneDNN supports none. */
status_t choose_best(context_t *ctx, const search_t *search, int n, const candidate_t *candidates,
                     choice_t *out_best);

bool choose_is_plain(const format_t *format, const tensor_info_t *info);

/* Number of channels with padding divided by number of channels: the factor by which padding
 * increases the work. */
double choose_padded_share(const tensor_info_t *info);

/* ---- gradients ---- */

/* Creates the primitive for the gradient of a forward problem whose formats are set; the weight's
 * may be FORMAT_ANY. Returns UNSUPPORTED without a message if oneDNN has no such gradient. */
status_t choose_describe_backward(context_t *ctx, const onednn_problem_t *forward,
                                  onednn_propagation_t propagation,
                                  onednn_primitive_t **out_primitive);

/* Finds the format in which the forward operator reads its weight if its activations have the
 * formats of `forward`. Returns UNSUPPORTED if no tag describes the format, or if oneDNN only has a
 * reference implementation. */
status_t choose_forward_format(context_t *ctx, const onednn_problem_t *forward,
                               format_t *out_format);

/* Tries to make the gradient use the weight format of the forward operator, which avoids a reorder
 * in each training step. Replaces *primitive, and *weight (the weight's info in *primitive), if the
 * implementation stays the same and the caller did not fix the format (is_said). Otherwise a note
 * names the forward operator's format. In `forward` all formats are set except the weight's. */
status_t choose_forward_weight(context_t *ctx, prepared_t *prepared,
                               const onednn_problem_t *forward, onednn_propagation_t propagation,
                               bool is_said, onednn_primitive_t **primitive, tensor_info_t *weight);
/* Makes `prepared` run the primitive; inputs and outputs are ordered as for choose_backward. */
void choose_take_backward(prepared_t *prepared, onednn_propagation_t propagation,
                          onednn_primitive_t *primitive);

/* Turns oneDNN's grouped weight [G][K/G].. into [K].. with the same bytes: f32[32,1,1,3,3] in
 * Abcde16a becomes f32[32,1,3,3] in Abcd16a. Returns false, and changes nothing, if no tag
 * describes the result. */
bool choose_join_groups(tensor_info_t *weight);

/* Turns a row-major mkldnn info into the dense info with the same bytes. */
tensor_info_t choose_as_dense(const tensor_info_t *info);

#endif
