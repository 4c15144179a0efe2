/* How our kernels iterate over a tensor: as one array of elements, or by channels.
 *
 * In memory, a tensor without gaps of rank 2 or more is [n][n_blocks][spatial][block]. A block has
 * one channel in a plain format, all channels in channels last, and 16 channels in aBcd16b. So the
 * same loops can process all of these formats. */
#ifndef TESSERA_OPS_WALK_IMPL_H
#define TESSERA_OPS_WALK_IMPL_H

#include "dispatch/prepared_impl.h"

typedef struct walk {
    int64_t n, n_blocks, spatial, block;
    int64_t channels; /* without padding */
} walk_t;

/* Describes the memory of a tensor without gaps. Returns false unless its format is plain, channels
 * last, or blocks of channels; and if it has no channels. */
bool walk_channels(const tensor_info_t *info, walk_t *out_walk);

/* Chooses one format for both input 0 and output 0, which have the same rank. This is the input's
 * own format if it has no gaps, and if walk_channels accepts it (checked only with by_channels).
 * Otherwise it is the plain format. */
status_t walk_follow(const op_call_t *call, prepared_t *prepared, bool by_channels);

/* Number of elements of a tensor without gaps, including padding. */
int64_t walk_elements(const tensor_info_t *info);

/* A unit of work for a thread, about 4096 elements: `rows` contiguous rows of `width` elements. If
 * a block has several channels, a row holds the channels from `channel` on. If a block has one
 * channel, a row holds positions of that channel. */
typedef struct walk_piece {
    int64_t offset, channel, rows, width;
} walk_piece_t;
int64_t walk_pieces(const walk_t *walk);
walk_piece_t walk_piece(const walk_t *walk, int64_t index);

/* Sets padded lanes to zero. Faster than convert_zero_padding if only channels have blocks. */
void walk_zero_padding(const tensor_info_t *info, void *bytes);

#endif
