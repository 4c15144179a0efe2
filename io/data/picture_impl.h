/* Decodes PNG and JPEG files to bytes. Needs no context, because loaders call it from a thread.
 *
 * libpng and libjpeg use malloc, and all they allocate is freed when a call returns. The first
 * bytes of a file determine its format; its name does not matter. */
#ifndef TESSERA_IO_DATA_PICTURE_IMPL_H
#define TESSERA_IO_DATA_PICTURE_IMPL_H

#include "tensor/context_impl.h"

#define PICTURE_CHANNELS 3

/* Reads the size from the file's header. IO, CORRUPT, UNSUPPORTED as in dataset_from_folder;
 * messages begin with the path. */
status_t picture_measure(const char *path, int64_t *out_height, int64_t *out_width,
                         failure_t *failure);

/* Reads red, green and blue of each pixel: [height][width][3]. INVALID_ARGUMENT for another size. A
 * JPEG file with missing or damaged data is CORRUPT. */
status_t picture_read(const char *path, int64_t height, int64_t width, uint8_t *out_pixels,
                      failure_t *failure);

#endif
