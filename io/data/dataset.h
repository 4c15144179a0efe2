/* Data sets: items with a target each, from arrays or from folders of pictures.
 *
 * A data set never changes once it is made, so loaders of several threads may share it. It is
 * counted: whoever made or retained it releases it; a loader retains the one it reads. Elements of
 * arrays are kept in memory, pictures are read again at each use.
 *
 * What a loader makes of items (see loader.h):
 *
 *   u8                  f32, divided by 255
 *   f16, bf16, f64      f32
 *   all others          as they are
 *
 * and of targets: integers and bool become s64, floating types f32. */
#ifndef TESSERA_IO_DATA_DATASET_H
#define TESSERA_IO_DATA_DATASET_H

#include "tensor/tensor.h"

TESSERA_BEGIN

typedef struct dataset dataset_t;

/* Items are x[0], x[1], ...; their targets y[0], y[1], ... Copies both, of any layout.
 * INVALID_ARGUMENT for rank 0, no items, or unequal numbers of both. */
status_t dataset_from_tensors(context_t *ctx, const tensor_t *x, const tensor_t *y,
                              dataset_t **out_dataset) TESSERA_API(dataset_from_tensors);

/* The same from two .npy files, such as u8 [1797][1][8][8] and u8 [1797]; also errors of npy_load.
 */
status_t dataset_from_npy(context_t *ctx, const char *x_path, const char *y_path,
                          dataset_t **out_dataset) TESSERA_API(dataset_from_npy);

/* A folder with a subfolder for each class: path/cat/1.png, path/dog/1.jpg. Classes are numbered in
 * the order of their names, which is that of bytes; items stand by class, then by name. Pictures
 * are files that end in .png, .jpg or .jpeg, in letters of either case; other files, and names that
 * begin with a point, are left alone.
 *
 * A picture is f32 [3][height][width]: red, green, blue from 0 to 1. Gray ones have three equal
 * channels, transparency is on white. All must be of one size, which their headers are asked for.
 *
 * IO                what the system refuses, with its reason
 * INVALID_ARGUMENT  no classes, a class without pictures, a picture of another size
 * CORRUPT           a file that is no picture
 * UNSUPPORTED       a PNG or JPEG file where Tessera was built without libpng or libjpeg */
status_t dataset_from_folder(context_t *ctx, const char *path, dataset_t **out_dataset)
    TESSERA_API(dataset_from_folder);

dataset_t *dataset_retain(dataset_t *dataset) TESSERA_API(dataset_retain);
void dataset_release(dataset_t *dataset) TESSERA_API(dataset_release);

/* ---- asking ---- */

/* Items. */
int64_t dataset_n(const dataset_t *dataset) TESSERA_API(dataset_n);

/* One more than the largest class; 0 where targets are no single integers. */
int64_t dataset_classes(const dataset_t *dataset) TESSERA_API(dataset_classes);

/* The name of a subfolder, borrowed; NULL for arrays, and for a number that is no class. */
const char *dataset_class_name(const dataset_t *dataset, int64_t index)
    TESSERA_API(dataset_class_name);

/* One item and one target, as loaders give them: f32[3,224,224] and s64[]. Borrowed. */
const tensor_info_t *dataset_item(const dataset_t *dataset) TESSERA_API(dataset_item);
const tensor_info_t *dataset_target(const dataset_t *dataset) TESSERA_API(dataset_target);

TESSERA_END

#endif
