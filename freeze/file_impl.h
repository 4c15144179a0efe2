/* The .tessera file: its layout, what is read of it, and what is written.
 *
 *   header | text | machines | hints of each machine | table of blobs | blobs
 *
 * each at a multiple of 64; all numbers are little-endian.
 *
 * The text holds graphs free of layout: the first has the module's tree and its attributes as one
 * constant, then come the methods; a method may have several graphs, for other sizes. "$n" in it is
 * constant n, which has one blob or more: the first with its number is the main one, from which
 * every other form can be made; the others are forms that some machine wants. A machine is an
 * oneDNN version, an ISA and a number of threads; its hints are lines "method;infos;choice" of the
 * layout pass. What is wanted by other machines only is neither read nor checked. */
#ifndef TESSERA_FREEZE_FILE_IMPL_H
#define TESSERA_FREEZE_FILE_IMPL_H

#include "freeze/freeze_impl.h"
#include "module/map_impl.h"
#include "tensor/file.h"

#define FILE_MAGIC "TESSERA\n"
#define FILE_VERSION_LEAST 2u
#define FILE_VERSION                                                                               \
    3u /* a method has several graphs; without them, a file has the version before */
#define FILE_ALIGNMENT 64u
#define FILE_MAX_BLOBS (1u << 20)
#define FILE_MAX_MACHINES 64

typedef struct file_section {
    uint64_t offset, bytes, checksum;
} file_section_t;

typedef struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order; /* 0x01020304 as written */
    uint64_t file_bytes;
    file_section_t text, machines, blobs;
    uint64_t checksum; /* of all before it */
} file_header_t;

typedef struct file_machine {
    char onednn[16];
    char isa[32];
    uint64_t n_threads;
    file_section_t hints;
} file_machine_t;

/* How the bytes of a blob lie. Opaque ones are what only the oneDNN or the kernel that made them
 * can read (winograd): those never are the main blob, but for trimmed ones (tensor/trim_impl.h),
 * which every machine can read. */
#define FILE_DENSE 0u
#define FILE_TAG 1u
#define FILE_OPAQUE 2u

typedef struct file_blob {
    file_section_t at;
    uint64_t machines; /* bit i: machine i wants it */
    uint32_t constant;
    uint32_t layout;
    char dtype[8];
    char format[FORMAT_TEXT_MAX]; /* of the tensor under `sizes`; "" if dense */
    uint32_t rank, constant_rank;
    int64_t sizes[TENSOR_MAX_RANK];
    int64_t constant_sizes[TENSOR_MAX_RANK]; /* over the same elements, in row-major order */
} file_blob_t;

/* ---- writing ---- */

typedef struct image_blob {
    file_blob_t entry;
    const void *bytes;
    tensor_t *holder; /* of the bytes; NULL: somebody else holds them */
} image_blob_t;

typedef struct image_machine {
    file_machine_t entry;
    char *hints;
} image_machine_t;

/* A file to be. */
typedef struct image {
    context_t *ctx;
    uint32_t version;
    char *text;
    int n_blobs, blobs_capacity, n_machines;
    image_blob_t *blobs;
    image_machine_t machines[FILE_MAX_MACHINES];
} image_t;

void image_clear(image_t *image);

/* The machine that this process is, its hints replaced; added if it is new. UNSUPPORTED when there
 * is no room. */
status_t image_add_machine(image_t *image, const module_t *frozen, int *out_machine);

/* All forms that the constant has in this process; those that the image has already are marked as
 * wanted. is_plain: the bytes are read as they are, so the main blob is not a packed form. */
status_t image_add_constant(image_t *image, tensor_t *tensor, int constant, int machine,
                            bool is_plain);

/* Whole or not at all. */
status_t image_write(image_t *image, const char *path);

/* ---- reading ---- */

typedef struct loading {
    context_t *ctx;
    const char *path;
    freeze_load_options_t options;
    file_mapping_t *mapping;
    const file_header_t *header;
    const file_machine_t *machines;
    const file_blob_t *blobs;
    int n_machines, n_blobs;
    file_mapping_t *block; /* of copied constants; NULL: they are in the mapping */
    uint64_t *places;      /* of each blob that is wanted in the block */
    int machine;           /* that this process is, or -1: the file does not know it */
    datum_t *pool;         /* the constants */
    map_t tensors; /* what parameters and buffers have for a constant: tied ones have one tensor */
    module_t *module;
} loading_t;

#define FILE_CORRUPT(loading, ...) FAIL((loading)->ctx, STATUS_CORRUPT, "freeze_load: " __VA_ARGS__)

/* Maps the file and checks all of it but the text. */
status_t file_open(loading_t *loading);

/* Checks the bytes of all blobs that are wanted, and copies them, as the options say. */
status_t file_take_blobs(loading_t *loading);

/* A blob that is wanted as a tensor. */
status_t file_blob_tensor(loading_t *loading, int index, const tensor_info_t *info,
                          tensor_t **out_tensor);

/* The info of a blob, checked against the file; and whether this process wants it. */
status_t file_blob_info(loading_t *loading, int index, tensor_info_t *out_info);

bool file_is_wanted(const loading_t *loading, int index);

/* A section as a string. */
status_t file_string(const loading_t *loading, const file_section_t *section, char **out_string);

/* What was read as what can be written; blobs stay in the mapping. */
status_t file_image(const loading_t *loading, image_t *image);

/* All of freeze_load: module and pool are made. The caller clears. */
status_t file_load(loading_t *loading);
void file_close(loading_t *loading);

/* Whether this is the machine that this process is. */
bool file_is_here(const context_t *ctx, const file_machine_t *machine);

#endif
