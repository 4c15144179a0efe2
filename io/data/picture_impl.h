/* Pictures of PNG and JPEG files as bytes, read without a context: loaders do so in a thread.
 *
 * The libraries' own memory is malloc's and is freed before a call returns. The first bytes of a
 * file tell its format, not its name. */
#ifndef TESSERA_IO_DATA_PICTURE_IMPL_H
#define TESSERA_IO_DATA_PICTURE_IMPL_H

#include "tensor/context_impl.h"

#define PICTURE_CHANNELS 3

/* IO, CORRUPT, UNSUPPORTED, as dataset_from_folder has them; messages begin with the path. */
status_t picture_measure(const char *path, int64_t *out_height, int64_t *out_width,
                         failure_t *failure);

/* Red, green and blue of each point: [height][width][3]. INVALID_ARGUMENT for another size. A JPEG
 * file whose data the library has to guess is CORRUPT. */
status_t picture_read(const char *path, int64_t height, int64_t width, uint8_t *out_pixels,
                      failure_t *failure);

#endif
