/* What the kernels of our own for convolution and its transpose share: geometry, and the loop over
 * output planes. Operands are contiguous; spatial dimensions are padded to three in front. */
#ifndef TESSERA_OPS_CONV_PLANES_IMPL_H
#define TESSERA_OPS_CONV_PLANES_IMPL_H

#include "dispatch/prepared_impl.h"

typedef struct planes {
    dtype_t dtype;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
    int64_t channels, outputs, groups;         /* C, K, G */
    int64_t in_plane, out_plane, kernel_plane; /* elements */
    int64_t group_channels, group_outputs;     /* C/G, K/G */
} planes_t;

/* Operands of the call: x 0, weight 1, bias 2. Declines what is not dense and floating, and wants
 * the operands contiguous. */
status_t planes_prepare(const op_call_t *call, prepared_t *prepared);

planes_t planes_between(const tensor_info_t *x, const tensor_info_t *weight,
                        const tensor_info_t *out, const int64_t *stride, const int64_t *dilation,
                        const int64_t *padding, int64_t groups);
planes_t planes_describe(const prepared_t *prepared, const int64_t *stride, const int64_t *dilation,
                         const int64_t *padding, int64_t groups);

/* One element of output k of an image: the sum over the window at out[], without bias. x begins
 * with the group's first channel, weight with the whole tensor's first element. */
typedef double (*planes_window_t)(const planes_t *planes, const char *x, const char *weight,
                                  int64_t k, const int64_t *out);

/* That of a transposed convolution, whose weight is [C][K/G]..: what reaches the element is
 * x[(out + padding - r dilation) / stride]. */
double planes_transposed(const planes_t *planes, const char *x, const char *weight, int64_t k,
                         const int64_t *out);

/* out[n][k][..] = bias[k] + window, in parallel over planes. */
void planes_run(context_t *ctx, const prepared_t *prepared, const planes_t *planes,
                planes_window_t window, void *const *in, void *out);

#endif
