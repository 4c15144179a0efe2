#include "tests/support/arrange.h"

#include "tensor/convert/convert_impl.h"

const char *arrange_name(arrangement_t arrangement)
{
    static const char *const names[] = {"contiguous", "channels last", "reversed", "gapped",
                                        "snapshot",   "16c",           "8c",       "nhwc"};
    return names[arrangement];
}

bool arrange_is_possible(const tensor_t *tensor, arrangement_t arrangement)
{
    int rank = tensor_rank(tensor);
    bool is_image = rank >= 3 && rank <= 5;
    switch (arrangement) {
    case ARRANGE_CONTIGUOUS: return true;
    case ARRANGE_LAST: return is_image;
    case ARRANGE_REVERSED: return rank >= 2;
    case ARRANGE_GAPPED: return rank >= 1;
    case ARRANGE_SNAPSHOT: return convert_refusal(tensor_info(tensor)) == NULL;
    default: return is_image && convert_refusal(tensor_info(tensor)) == NULL;
    }
}

static status_t reverse(context_t *ctx, const tensor_t *tensor, tensor_t **out)
{
    int rank = tensor_rank(tensor);
    int64_t dims[TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) dims[d] = rank - 1 - d;
    tensor_t *there = NULL, *copy = NULL;
    status_t status = tensor_permute(ctx, tensor, rank, dims, &there);
    if (status == STATUS_OK) status = tensor_clone(ctx, there, &copy);
    if (status == STATUS_OK) status = tensor_permute(ctx, copy, rank, dims, out);
    tensor_release(there);
    tensor_release(copy);
    return status;
}

static status_t spread(context_t *ctx, const tensor_t *tensor, tensor_t **out)
{
    int rank = tensor_rank(tensor);
    int64_t strides[TENSOR_MAX_RANK], numel = 2 * tensor_numel(tensor) + 3;
    shape_strides(rank, tensor_sizes(tensor), strides);
    for (int d = 0; d < rank; d++) strides[d] *= 2;
    tensor_t *base = NULL;
    status_t status = tensor_zeros(ctx, tensor_dtype(tensor), 1, &numel, &base);
    if (status == STATUS_OK)
        status = tensor_as_strided(ctx, base, rank, tensor_sizes(tensor), strides, 1, out);
    if (status == STATUS_OK) {
        status = tensor_copy(ctx, *out, tensor);
        if (status != STATUS_OK) {
            tensor_release(*out);
            *out = NULL;
        }
    }
    tensor_release(base);
    return status;
}

status_t arrange(context_t *ctx, tensor_t *tensor, arrangement_t arrangement, tensor_t **out)
{
    char text[FORMAT_TEXT_MAX];
    int rank = tensor_rank(tensor);
    format_t format;
    switch (arrangement) {
    case ARRANGE_CONTIGUOUS: *out = tensor_retain(tensor); return STATUS_OK;
    case ARRANGE_LAST: return tensor_channels_last(ctx, tensor, out);
    case ARRANGE_REVERSED: return reverse(ctx, tensor, out);
    case ARRANGE_GAPPED: return spread(ctx, tensor, out);
    case ARRANGE_SNAPSHOT: return to_mkldnn(ctx, tensor, out);
    case ARRANGE_BLOCKS_16: format = format_channel_blocks(rank, 16); break;
    case ARRANGE_BLOCKS_8: format = format_channel_blocks(rank, 8); break;
    default: format = format_channels_last(rank); break;
    }
    return convert_reorder(ctx, tensor, format_text(&format, text), out);
}
