/* Formats of activations that are worth trying with oneDNN. */
#ifndef TESSERA_TENSOR_ONEDNN_CANDIDATES_H
#define TESSERA_TENSOR_ONEDNN_CANDIDATES_H

#include "tensor/format.h"

/* Those for a rank, best first for this machine's instruction set: for rank 4 with AVX-512 blocks
 * of 16, channels last, blocks of 8, blocks of 4, plain. Gives their number, which is the same for
 * ranks 3 to 5; for others it is 1, plain. */
#define CANDIDATES_MAX 5
int candidates_list(int rank, format_t *out_formats);

#endif
