/* Arrays in NumPy's .npy format, versions 1 to 3. Reads C and Fortran order; writes C order. */
#ifndef TESSERA_IO_DATA_NPY_H
#define TESSERA_IO_DATA_NPY_H

#include "tensor/tensor.h"
#include "tensor/text/datum.h"

/* Element types: f32 f64 f16, signed and unsigned integers of 8 to 64 bits, bool; bf16 is written
 * as f32. Loading creates a contiguous tensor. CORRUPT, UNSUPPORTED (names the dtype), IO. */
status_t npy_load(context_t *ctx, const char *path, tensor_t **out_tensor) TESSERA_API(npy_load);
status_t npy_save(context_t *ctx, const char *path, const tensor_t *tensor) TESSERA_API(npy_save);

/* Loads a folder as a dict: the file NAME.npy becomes the key NAME; keys are sorted. For
 * module_load_state_dict, the folder needs one file for each parameter and buffer, for example
 * "layer1.0.conv1.weight.npy". Other files, and names that begin with a period, are ignored. The
 * caller releases the dict. IO, INVALID_ARGUMENT for a folder without such files, errors of
 * npy_load; the message names the file. */
status_t npy_load_folder(context_t *ctx, const char *path, datum_t **out_dict)
    TESSERA_API(npy_load_folder);
/* Writes each tensor of a dict to its own file. Creates the folder if necessary and keeps other
 * files. INVALID_ARGUMENT, before any file is written, for a value that is not a tensor and for a
 * key that cannot be a file name: empty, containing a slash, or beginning with a period. */
status_t npy_save_folder(context_t *ctx, const char *path, const datum_t *dict)
    TESSERA_API(npy_save_folder);

#endif
