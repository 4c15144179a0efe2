/* How native kernels walk over a tensor: as one run of elements, or by channels.
 *
 * A tensor without gaps, of rank 2 and up, lies as [n][n_blocks][spatial][block]: a block is one
 * channel in a plain format, all of them in channels last, sixteen in aBcd16b. So one loop serves
 * every format. */
#ifndef TESSERA_OPS_WALK_IMPL_H
#define TESSERA_OPS_WALK_IMPL_H

#include "dispatch/prepared_impl.h"

typedef struct walk {
    int64_t n, n_blocks, spatial, block;
    int64_t channels; /* without padding */
} walk_t;

/* False for blocks other than of channels. The tensor has no gaps. */
bool walk_channels(const tensor_info_t *info, walk_t *out_walk);

/* Takes input 0 as it lies if it has no gaps (and, by_channels, can be walked so), else plain;
 * gives output 0, of the same rank, the same format. */
status_t walk_follow(const op_call_t *call, prepared_t *prepared, bool by_channels);

/* Elements of a tensor without gaps, padding included. */
int64_t walk_elements(const tensor_info_t *info);

/* Some thousand elements to work on at a time: `rows` rows of `width`, one behind the other. Those
 * of a row are of the channels from `channel` on, or all of that one if the block is one channel.
 */
typedef struct walk_piece {
    int64_t offset, channel, rows, width;
} walk_piece_t;
int64_t walk_pieces(const walk_t *walk);
walk_piece_t walk_piece(const walk_t *walk, int64_t index);

/* Sets padded lanes to zero: convert_zero_padding, faster where only channels have blocks. */
void walk_zero_padding(const tensor_info_t *info, void *bytes);

#endif
