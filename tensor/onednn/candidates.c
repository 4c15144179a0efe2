/* Blocks of as many channels as a vector holds are usually best; smaller blocks are for few
 * channels. */
#include "tensor/onednn/candidates.h"

#include "tensor/onednn/onednn.h"

int candidates_list(int rank, format_t *out_formats)
{
    int n = 0;
    const bool has_16 = onednn_isa_is_wide(onednn_isa());
    if (rank < 3 || rank > 5) {
        out_formats[n++] = format_plain(rank);
        return n;
    }
    out_formats[n++] = format_channel_blocks(rank, has_16 ? 16 : 8);
    out_formats[n++] = format_channels_last(rank);
    out_formats[n++] = format_channel_blocks(rank, has_16 ? 8 : 4);
    if (has_16) out_formats[n++] = format_channel_blocks(rank, 4);
    out_formats[n++] = format_plain(rank);
    return n;
}
