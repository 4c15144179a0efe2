/* A data set has items, each with a target. They come from arrays or from folders of pictures.
 *
 * A data set is immutable, so loaders of several threads may share it. It is reference-counted:
 * creating a loader adds a reference. Arrays are copied to memory; pictures are read from disk each
 * time that they are used.
 *
 * A loader (loader.h) converts items:
 *
 *   u8                  f32, divided by 255
 *   f16, bf16, f64      f32
 *   all others          unchanged
 *
 * and targets: integers and bool to s64, floating types to f32. */
#ifndef TESSERA_IO_DATA_DATASET_H
#define TESSERA_IO_DATA_DATASET_H

#include "tensor/tensor.h"

typedef struct dataset dataset_t;

/* Items are x[0], x[1], ... and their targets y[0], y[1], ... Copies both tensors, which may have
 * any layout. INVALID_ARGUMENT for rank 0, for no items, and if the numbers of items and targets
 * differ. */
status_t dataset_from_tensors(context_t *ctx, const tensor_t *x, const tensor_t *y,
                              dataset_t **out_dataset) TESSERA_API(dataset_from_tensors);

/* dataset_from_tensors with tensors from two .npy files, for example u8 [1797][1][8][8] and u8
 * [1797]. Errors of npy_load are returned too. */
status_t dataset_from_npy(context_t *ctx, const char *x_path, const char *y_path,
                          dataset_t **out_dataset) TESSERA_API(dataset_from_npy);

/* Reads a folder with one subfolder for each class: path/cat/1.png, path/dog/1.jpg. Classes are
 * numbered in byte order of their names. Items are sorted by class, then by name. Pictures are
 * files that end in .png, .jpg or .jpeg (upper or lower case). Other files, and names that begin
 * with a period, are ignored.
 *
 * A picture is f32 [3][height][width]: red, green, blue from 0 to 1. The three channels of a gray
 * picture are equal; transparent pixels are blended with white. All pictures must have the same
 * size. Creating the data set reads only the size of each picture, from the file's header.
 *
 * IO                the system's error
 * INVALID_ARGUMENT  no classes, a class without pictures, a picture of another size
 * CORRUPT           a file that is not a picture
 * UNSUPPORTED       a PNG or JPEG file if Tessera was built without libpng or libjpeg */
status_t dataset_from_folder(context_t *ctx, const char *path, dataset_t **out_dataset)
    TESSERA_API(dataset_from_folder);

dataset_t *dataset_retain(dataset_t *dataset) TESSERA_API(dataset_retain);
void dataset_release(dataset_t *dataset) TESSERA_API(dataset_release);

/* ---- properties ---- */

/* The number of items. */
int64_t dataset_n(const dataset_t *dataset) TESSERA_API(dataset_n);

/* The number of classes: the largest label plus 1; 0 if targets are not single integers. */
int64_t dataset_classes(const dataset_t *dataset) TESSERA_API(dataset_classes);

/* The name of a class (its subfolder), borrowed. NULL if the data set comes from arrays, or if
 * index is not a class. */
const char *dataset_class_name(const dataset_t *dataset, int64_t index)
    TESSERA_API(dataset_class_name);

/* Dtype and sizes of one item and of one target as a loader returns them, for example
 * f32[3,224,224] and s64[]. Borrowed. */
const tensor_info_t *dataset_item(const dataset_t *dataset) TESSERA_API(dataset_item);
const tensor_info_t *dataset_target(const dataset_t *dataset) TESSERA_API(dataset_target);

#endif
