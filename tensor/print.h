/* Tensors as text, for people. */
#ifndef TESSERA_TENSOR_PRINT_H
#define TESSERA_TENSOR_PRINT_H

#include <stdio.h>

#include "tensor/tensor.h"
#include "tensor/text.h"

TESSERA_BEGIN

/* Writes a tensor as PyTorch does, and its dtype, sizes and layout behind; and a newline.
 *
 *   tensor([[1.0000, 2.5000],
 *           [3.0000, 4.0000]], mkldnn f32[2,2]@ab)
 *
 * Of a tensor of more than 1000 elements the first and the last three along each dimension.
 * Floating numbers have four digits behind the point, in scientific form where they differ by more
 * than a factor of 1000, are above 1e8 or below 1e-4. Any layout: mkldnn ones are read by way of
 * to_dense.
 *
 * IO  the file was not written */
status_t tensor_print(context_t *ctx, const tensor_t *tensor, FILE *file) TESSERA_API(tensor_print);
/* The same appended to a text, without the newline. */
status_t tensor_print_text(context_t *ctx, const tensor_t *tensor, text_t *text)
    TESSERA_API(tensor_print_text);

TESSERA_END

#endif
