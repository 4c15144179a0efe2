/* Formats of activations that may be fast with oneDNN; the caller compares their estimated
 * costs. */
#ifndef TESSERA_TENSOR_ONEDNN_CANDIDATES_H
#define TESSERA_TENSOR_ONEDNN_CANDIDATES_H

#include "tensor/format.h"

/* Lists candidates for tensors of a rank, best first for this machine's instruction set. Example:
 * for rank 4 with AVX-512, blocks of 16 channels, channels last, blocks of 8, blocks of 4,
 * row-major. Returns their number: CANDIDATES_MAX for ranks 3 to 5, else 1 (row-major). */
#define CANDIDATES_MAX 5
int candidates_list(int rank, format_t *out_formats);

#endif
