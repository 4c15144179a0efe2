#include "ops/conv/planes_impl.h"

#include "ops/accept_impl.h"

enum { X, WEIGHT, BIAS };

status_t planes_prepare(const op_call_t *call, prepared_t *prepared)
{
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!dtype_is_floating(call->in[X]->dtype))
        return prepared_decline(prepared, "native: dtype %s", dtype_name(call->in[X]->dtype));
    accept_contiguous(call, prepared, X, BIAS);
    prepared->cost_ns = 1e9;
    return STATUS_OK;
}

planes_t planes_between(const tensor_info_t *x, const tensor_info_t *weight,
                        const tensor_info_t *out, const int64_t *stride, const int64_t *dilation,
                        const int64_t *padding, int64_t groups)
{
    planes_t planes = {.dtype = x->dtype,
                       .channels = x->sizes[1],
                       .outputs = out->sizes[1],
                       .groups = groups,
                       .in_plane = 1,
                       .out_plane = 1,
                       .kernel_plane = 1,
                       .group_channels = x->sizes[1] / groups,
                       .group_outputs = out->sizes[1] / groups};
    int n_spatial = x->rank - 2;
    for (int i = 0; i < 3; i++) {
        int from = i - (3 - n_spatial);
        planes.in[i] = from < 0 ? 1 : x->sizes[2 + from];
        planes.out[i] = from < 0 ? 1 : out->sizes[2 + from];
        planes.kernel[i] = from < 0 ? 1 : weight->sizes[2 + from];
        planes.stride[i] = from < 0 ? 1 : stride[from];
        planes.dilation[i] = from < 0 ? 1 : dilation[from];
        planes.padding[i] = from < 0 ? 0 : padding[from];
        planes.in_plane *= planes.in[i];
        planes.out_plane *= planes.out[i];
        planes.kernel_plane *= planes.kernel[i];
    }
    return planes;
}

planes_t planes_describe(const prepared_t *prepared, const int64_t *stride, const int64_t *dilation,
                         const int64_t *padding, int64_t groups)
{
    return planes_between(&prepared->in[X], &prepared->in[WEIGHT], &prepared->out[0], stride,
                          dilation, padding, groups);
}

void planes_run(context_t *ctx, const prepared_t *prepared, const planes_t *planes,
                planes_window_t *window, void *const *in, void *out)
{
    planes_windows(planes, window, prepared->in[X].sizes[0], in[X], in[WEIGHT],
                   prepared->in[BIAS].dtype, in[BIAS], out, context_threads(ctx));
}
