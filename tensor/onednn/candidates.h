/* Formats of activations that are worth trying with oneDNN. */
#ifndef TESSERA_TENSOR_ONEDNN_CANDIDATES_H
#define TESSERA_TENSOR_ONEDNN_CANDIDATES_H

#include "tensor/format.h"

/* Lists candidates for a rank, best first for this machine's instruction set. Rank 4 with AVX-512:
 * blocks of 16, channels last, blocks of 8, blocks of 4, plain. Returns their number:
 * CANDIDATES_MAX for ranks 3 to 5, else 1 (plain). */
#define CANDIDATES_MAX 5
int candidates_list(int rank, format_t *out_formats);

#endif
