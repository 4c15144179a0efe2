/* Prints tensors for people. */
#ifndef TESSERA_TENSOR_TEXT_PRINT_H
#define TESSERA_TENSOR_TEXT_PRINT_H

#include <stdio.h>

#include "tensor/tensor.h"
#include "tensor/text/text.h"

/* Writes a tensor in PyTorch's notation, then its dtype, sizes and layout, and a newline.
 *
 *   tensor([[1.0000, 2.5000],
 *           [3.0000, 4.0000]], mkldnn f32[2,2]@ab)
 *
 * For tensors of more than 1000 elements, it writes the first and last three along each dimension.
 * Floating-point numbers have four decimals, or none if all are integers; the notation is
 * scientific if they differ by more than a factor of 1000, exceed 1e8 or are below 1e-4. mkldnn
 * tensors are converted with to_dense first.
 *
 * IO  writing to the file failed */
status_t tensor_print(context_t *ctx, const tensor_t *tensor, FILE *file) TESSERA_API(tensor_print);
/* Like tensor_print, but appends to a text, without the newline. */
status_t tensor_print_text(context_t *ctx, const tensor_t *tensor, text_t *text)
    TESSERA_API(tensor_print_text);

#endif
