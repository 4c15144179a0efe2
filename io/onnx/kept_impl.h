/* Frozen models in the store (freeze/kept_impl.h). The name of a model depends on its content: a
 * hash of the bytes of its file, and of the files with its external data.
 *
 * Reading and hashing these files takes time, so the store also has records, from the identity of a
 * file (device, inode, size, times of the last changes) to its content. A file that was changed
 * less than 2 seconds before it was read gets no record: another change at the same time, by the
 * resolution of the clock, would not change its identity. Nor do files of other machines. */
#ifndef TESSERA_IO_ONNX_KEPT_IMPL_H
#define TESSERA_IO_ONNX_KEPT_IMPL_H

#include "freeze/freeze.h"
#include "freeze/kept_impl.h"
#include "io/onnx/onnx_impl.h"
#include "tensor/file/file_range_impl.h"

#define KEPT_LOCATION_MAX 256

/* A file with external data. */
typedef struct kept_file {
    file_range_t identity; /* for the complete file */
    uint64_t hash[2];
    char location[KEPT_LOCATION_MAX];
} kept_file_t;

/* The search for a model in the store. */
typedef struct onnx_kept {
    context_t *ctx;
    const onnx_source_t *source;
    uint64_t options[2]; /* hash of the options */
    file_range_t main;   /* identifies the file of the model */
    bool is_settled;     /* records may use the identities */
    bool is_known;       /* the content is known */
    uint64_t bytes[2];   /* hash of the bytes of the model's file */
    uint64_t content[2];
    kept_file_t *files;
    int n_files, capacity;
    module_t *found; /* the module, if the store has it */
} onnx_kept_t;

/* Prepares a search. Returns false if there is no store, or if the result cannot be stored: the
 * options have tensors, examples or callbacks, or skip passes. */
bool kept_begin(onnx_kept_t *kept, context_t *ctx, const onnx_source_t *source,
                const onnx_options_t *options, const freeze_options_t *freezing);
void kept_end(onnx_kept_t *kept);

/* Searches with the record of the file's identity. Sets kept->found. */
void kept_recall(onnx_kept_t *kept);

/* Called by onnx_begin with the bytes of the model, and after it with the message: search by
 * content. Sets kept->found. */
void kept_see_bytes(onnx_kept_t *kept, const void *bytes, size_t n_bytes);
void kept_see_model(onnx_kept_t *kept, onnx_t *onnx);

/* Imports a model. kept may be NULL; if it finds the model in the store, *out_module stays NULL. */
status_t onnx_import(context_t *ctx, const onnx_source_t *source, const onnx_options_t *options,
                     onnx_kept_t *kept, module_t **out_module);

/* After an import, or a search by content: adds the record, and has the module added to the store
 * after its first run. frozen may be NULL. */
void kept_add(onnx_kept_t *kept, module_t *frozen);

#endif
