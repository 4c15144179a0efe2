/* Arrays of NumPy's .npy format, version 1 to 3, C order written, both orders read. */
#ifndef TESSERA_IO_DATA_NPY_H
#define TESSERA_IO_DATA_NPY_H

#include "tensor/datum.h"
#include "tensor/tensor.h"

TESSERA_BEGIN

/* f32 f64 f16 s8 u8 s32 s64 bool; bf16 is written as f32. A new contiguous tensor. CORRUPT,
 * UNSUPPORTED (names the dtype), IO. */
status_t npy_load(context_t *ctx, const char *path, tensor_t **out_tensor) TESSERA_API(npy_load);
status_t npy_save(context_t *ctx, const char *path, const tensor_t *tensor) TESSERA_API(npy_save);

/* A folder as a dict, of NAME.npy as NAME, in order of names: a state dict, for
 * module_load_state_dict, is a file for each parameter and buffer, "layer1.0.conv1.weight.npy".
 * Other files, and those whose names begin with a point, are left alone. The caller releases the
 * dict. IO, INVALID_ARGUMENT for a folder without such files, errors of npy_load, whose message
 * names the file. */
status_t npy_load_folder(context_t *ctx, const char *path, datum_t **out_dict)
    TESSERA_API(npy_load_folder);
/* Writes each tensor of a dict; makes the folder, if it is not there. Files of other names stay.
 * INVALID_ARGUMENT, before anything is written, for a value that is no tensor and for a key that is
 * no name of a file: empty, with a slash, or with a point in front. */
status_t npy_save_folder(context_t *ctx, const char *path, const datum_t *dict)
    TESSERA_API(npy_save_folder);

TESSERA_END

#endif
