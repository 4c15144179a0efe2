/* Arrays of NumPy's .npy format, version 1 to 3, C order written, both orders read. */
#ifndef TESSERA_IO_NPY_H
#define TESSERA_IO_NPY_H

#include "tensor/tensor.h"

TESSERA_BEGIN

/* f32 f64 f16 s8 u8 s32 s64 bool; bf16 is written as f32. A new contiguous tensor. CORRUPT,
 * UNSUPPORTED (names the dtype), IO. */
status_t npy_load(context_t *ctx, const char *path, tensor_t **out_tensor) TESSERA_API(npy_load);
status_t npy_save(context_t *ctx, const char *path, const tensor_t *tensor) TESSERA_API(npy_save);

TESSERA_END

#endif
