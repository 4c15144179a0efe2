#include "ops/walk_impl.h"

#include <string.h>

#include "ops/accept_impl.h"
#include "tensor/convert/convert_impl.h"

bool walk_channels(const tensor_info_t *info, walk_t *out_walk)
{
    if (info->rank < 2) {
        *out_walk = (walk_t){1, 1, info_numel(info), 1, 1};
        return true;
    }
    format_t tag = info_tag(info), plain = format_plain(info->rank);
    format_t last = format_channels_last(info->rank);
    walk_t walk = {.n = info->sizes[0], .spatial = 1, .channels = info->sizes[1]};
    for (int d = 2; d < info->rank; d++) walk.spatial *= info->sizes[d];
    if (walk.channels == 0) return false;
    bool is_plain = format_same(&tag, &plain, info->sizes);
    if (is_plain && walk.spatial > 1) {
        walk.block = 1;
    } else if (is_plain || format_same(&tag, &last, info->sizes)) {
        walk.block = walk.channels;
    } else if (tag.n_blocks == 1 && tag.block_dims[0] == 1) {
        format_t blocks = format_channel_blocks(info->rank, tag.block_sizes[0]);
        if (!format_same(&tag, &blocks, info->sizes)) return false;
        walk.block = tag.block_sizes[0];
    } else {
        return false;
    }
    walk.n_blocks = (walk.channels + walk.block - 1) / walk.block;
    *out_walk = walk;
    return true;
}

status_t walk_follow(const op_call_t *call, prepared_t *prepared, bool by_channels)
{
    format_t tag = info_tag(call->in[0]);
    tensor_info_t taken = accept_info(call->in[0], call->layout, &tag);
    walk_t walk;
    if (by_channels && !walk_channels(&taken, &walk)) tag = format_plain(taken.rank);
    TRY(accept_format(call, prepared, 0, &tag));
    return accept_out(call, prepared, 0, &tag);
}

int64_t walk_elements(const tensor_info_t *info)
{
    return (int64_t)(info_bytes(info) / dtype_size(info->dtype));
}

/* ---- pieces ---- */

#define PIECE_ELEMENTS 4096
#define LEAST_POSITIONS 16
#define PARTS 4 /* minimum number of pieces in an image, unless these would be too small */

/* Spatial positions in a piece. */
static int64_t tile(const walk_t *walk)
{
    const int64_t of_block = walk->block < PIECE_ELEMENTS ? PIECE_ELEMENTS / walk->block : 1;
    int64_t n = (walk->spatial + PARTS - 1) / PARTS;
    if (walk->block == 1 || n < LEAST_POSITIONS) n = walk->spatial;
    return n < of_block ? n : of_block;
}

int64_t walk_pieces(const walk_t *walk)
{
    int64_t positions = tile(walk);
    return walk->n * walk->n_blocks * ((walk->spatial + positions - 1) / positions);
}

/* Pieces are ordered by image, then positions, then block of channels. So consecutive pieces, which
 * one thread processes, are a part of an image with all channels, as in convolutions. */
walk_piece_t walk_piece(const walk_t *walk, int64_t index)
{
    int64_t positions = tile(walk), n_tiles = (walk->spatial + positions - 1) / positions;
    int64_t block = index % walk->n_blocks, of_image = index / walk->n_blocks;
    int64_t image = of_image / n_tiles, first = of_image % n_tiles * positions;
    int64_t count = first + positions < walk->spatial ? positions : walk->spatial - first;
    int64_t plane = image * walk->n_blocks + block;
    walk_piece_t piece = {.offset = (plane * walk->spatial + first) * walk->block,
                          .channel = block * walk->block};
    piece.rows = walk->block == 1 ? 1 : count;
    piece.width = walk->block == 1 ? count : walk->block;
    return piece;
}

/* ---- padding ---- */

void walk_zero_padding(const tensor_info_t *info, void *bytes)
{
    walk_t walk;
    if (!format_is_padded(&info->format, info->sizes)) return;
    if (!walk_channels(info, &walk)) {
        convert_zero_padding(info, bytes);
        return;
    }
    size_t size = dtype_size(info->dtype);
    int64_t used = walk.channels - (walk.n_blocks - 1) * walk.block;
    for (int64_t n = 0; n < walk.n; n++) {
        int64_t first = ((n + 1) * walk.n_blocks - 1) * walk.spatial * walk.block;
        for (int64_t s = 0; s < walk.spatial; s++)
            memset((char *)bytes + (size_t)(first + s * walk.block + used) * size, 0,
                   (size_t)(walk.block - used) * size);
    }
}
