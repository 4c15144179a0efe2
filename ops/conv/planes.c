#include "ops/conv/planes_impl.h"

enum { X, WEIGHT, BIAS };

status_t planes_prepare(const op_call_t *call, prepared_t *prepared)
{
    if (call->layout == LAYOUT_MKLDNN) return prepared_decline(prepared, "native: dense only");
    if (!dtype_is_floating(call->in[X]->dtype))
        return prepared_decline(prepared, "native: dtype %s", dtype_name(call->in[X]->dtype));
    for (int i = X; i <= BIAS; i++)
        if (call_has(call, i))
            prepared->in[i] = info_dense(call->in[i]->dtype, call->in[i]->rank, call->in[i]->sizes);
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

static double load_bias(const prepared_t *prepared, const char *bias, int64_t k)
{
    if (bias == NULL) return 0.0;
    const dtype_t dtype = prepared->in[BIAS].dtype;
    return dtype_load(dtype, bias + k * (int64_t)dtype_size(dtype));
}

double planes_transposed(const planes_t *p, const char *x, const char *weight, int64_t k,
                         const int64_t *at)
{
    const int64_t size = (int64_t)dtype_size(p->dtype), step = p->group_outputs * p->kernel_plane;
    const int64_t group = k / p->group_outputs;
    double sum = 0.0;
    weight += (group * p->group_channels * step + k % p->group_outputs * p->kernel_plane) * size;
    for (int64_t window = 0; window < p->kernel_plane; window++) {
        int64_t rest = window, at_x = 0, plane = 1;
        bool is_inside = true;
        for (int i = 2; i >= 0; i--) {
            int64_t place = at[i] + p->padding[i] - rest % p->kernel[i] * p->dilation[i];
            rest /= p->kernel[i];
            int64_t index = place / p->stride[i];
            is_inside = is_inside && place >= 0 && place % p->stride[i] == 0 && index < p->in[i];
            at_x += index * plane;
            plane *= p->in[i];
        }
        for (int64_t c = 0; is_inside && c < p->group_channels; c++)
            sum += dtype_load(p->dtype, x + (c * p->in_plane + at_x) * size) *
                   dtype_load(p->dtype, weight + (c * step + window) * size);
    }
    return sum;
}

void planes_run(context_t *ctx, const prepared_t *prepared, const planes_t *p,
                planes_window_t window, void *const *in, void *out)
{
    const int64_t size = (int64_t)dtype_size(p->dtype);
    const int64_t n_planes = prepared->in[X].sizes[0] * p->outputs;
#pragma omp parallel for num_threads(context_threads(ctx)) schedule(static)
    for (int64_t plane = 0; plane < n_planes; plane++) {
        int64_t n = plane / p->outputs, k = plane % p->outputs;
        int64_t first = n * p->channels + k / p->group_outputs * p->group_channels;
        const char *x = (const char *)in[X] + first * p->in_plane * size;
        double bias = load_bias(prepared, in[BIAS], k);
        for (int64_t q = 0; q < p->out_plane; q++) {
            int64_t at[3] = {q / (p->out[1] * p->out[2]), q / p->out[2] % p->out[1], q % p->out[2]};
            dtype_store(p->dtype, (char *)out + (plane * p->out_plane + q) * size,
                        bias + window(p, x, in[WEIGHT], k, at));
        }
    }
}
