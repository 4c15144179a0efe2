/* The .tessera file: format, reading and writing.
 *
 *   header | text | machines | hints of each machine | table of blobs | blobs
 *
 * Each part starts at a multiple of 64; all numbers are little-endian.
 *
 * The text contains graphs without layouts. The first graph describes the module tree, with its
 * attributes, as one constant; the graphs of methods follow. A method may have several graphs, for
 * different sizes. "$n" in the text stands for constant n. A constant has one or more blobs: its
 * bytes in some form. The first blob is the constant's main blob, from which all other forms can be
 * computed. The other blobs are forms that some machine uses. A machine is an oneDNN version, an
 * ISA and a number of threads. Its hints are lines "method;infos;choice" of the layout pass.
 * Loading neither reads nor checks a blob that only other machines use. */
#ifndef TESSERA_FREEZE_FILE_IMPL_H
#define TESSERA_FREEZE_FILE_IMPL_H

#include "freeze/freeze_impl.h"
#include "module/map_impl.h"
#include "tensor/file/file.h"

#define FILE_MAGIC "TESSERA\n"
#define FILE_VERSION_LEAST 2u
#define FILE_VERSION_GRAPHS 3u /* adds several graphs per method */
#define FILE_VERSION 4u /* adds grouped formats; files without additions have an older version */
#define FILE_ALIGNMENT 64u
#define FILE_MAX_BLOBS (1u << 20)
#define FILE_MAX_MACHINES 64

typedef struct file_section {
    uint64_t offset, bytes, checksum;
} file_section_t;

typedef struct file_header {
    char magic[8];
    uint32_t version;
    uint32_t byte_order; /* 0x01020304 in the writer's byte order */
    uint64_t file_bytes;
    file_section_t text, machines, blobs;
    uint64_t checksum; /* covers all fields before it */
} file_header_t;

typedef struct file_machine {
    char onednn[16];
    char isa[32];
    uint64_t n_threads;
    file_section_t hints;
} file_machine_t;

/* Layout of a blob's bytes. Opaque bytes, such as Winograd weights, can be read only by the kernel
 * or the oneDNN version that made them, so an opaque blob is never the main blob. Trimmed blobs
 * (tensor/convert/trim_impl.h) and those in a grouped format (tensor/grouped_impl.h) are an
 * exception: every machine can read them. */
#define FILE_DENSE 0u
#define FILE_TAG 1u
#define FILE_OPAQUE 2u

typedef struct file_blob {
    file_section_t at;
    uint64_t machines; /* bit i: machine i uses it */
    uint32_t constant;
    uint32_t layout;
    char dtype[8];
    char format[FORMAT_TEXT_MAX]; /* format of the tensor of these `sizes`; "" if dense */
    uint32_t rank, constant_rank;
    int64_t sizes[TENSOR_MAX_RANK];
    int64_t constant_sizes[TENSOR_MAX_RANK]; /* sizes of the constant itself */
} file_blob_t;

/* ---- writing ---- */

typedef struct image_blob {
    file_blob_t entry;
    const void *bytes;
    tensor_t *holder; /* tensor that owns the bytes, or NULL */
} image_blob_t;

typedef struct image_machine {
    file_machine_t entry;
    char *hints;
} image_machine_t;

/* A file in memory, before it is written. */
typedef struct image {
    context_t *ctx;
    uint32_t version;
    bool is_entry; /* an entry of the store, which has a checksum of its own: blobs have none, and
                      no padding follows the last one */
    bool has_all_forms; /* also forms that are much larger than their constants */
    char *text;
    int n_blobs, blobs_capacity, n_machines;
    image_blob_t *blobs;
    image_machine_t machines[FILE_MAX_MACHINES];
} image_t;

void image_clear(image_t *image);

/* Sets the hints of this process's machine; adds the machine if the image lacks it. UNSUPPORTED if
 * it has too many machines. */
status_t image_add_machine(image_t *image, const module_t *frozen, int *out_machine);

/* Adds all forms that the constant has in this process. Existing blobs of these forms are marked as
 * used by the machine. is_plain: an operator reads the plain bytes, so the main blob must not be a
 * packed form. */
status_t image_add_constant(image_t *image, tensor_t *tensor, int constant, int machine,
                            bool is_plain);

/* Makes everything before the first blob as one tensor of bytes, whose size is a multiple of
 * FILE_ALIGNMENT. Each blob follows at the next multiple. The caller drops the tensor. */
status_t image_head(image_t *image, tensor_t **out_head);

/* Writes the file atomically. */
status_t image_write(image_t *image, const char *path);

/* Makes the image of a frozen module with this process's machine. */
status_t image_of(context_t *ctx, module_t *frozen, image_t *image);

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
    file_mapping_t *block; /* block with copies of the constants; NULL: they are in the mapping */
    uint64_t *places;      /* offset in the block of each blob that is used */
    int machine;           /* index of this process's machine; -1: not in the file */
    datum_t *pool;         /* the constants */
    map_t tensors; /* the tensor of each constant that is a parameter or buffer; all its names share
                      it */
    module_t *module;
} loading_t;

#define FILE_CORRUPT(loading, ...) FAIL((loading)->ctx, STATUS_CORRUPT, "freeze_load: " __VA_ARGS__)

/* Maps the file, unless `mapping` is set, and checks everything except the text and the bytes of
 * constants. */
status_t file_open(loading_t *loading);

/* Checks, and copies if the options say so, the bytes of all blobs that this process uses. */
status_t file_take_blobs(loading_t *loading);

/* Makes a tensor from a blob that this process uses. */
status_t file_blob_tensor(loading_t *loading, int index, const tensor_info_t *info,
                          tensor_t **out_tensor);

/* Returns the info of a blob after checking it. */
status_t file_blob_info(loading_t *loading, int index, tensor_info_t *out_info);

bool file_is_wanted(const loading_t *loading, int index);

/* Returns the text of a section. */
status_t file_string(const loading_t *loading, const file_section_t *section, char **out_string);

/* Makes an image from the opened file, to be written again. Its blobs stay in the mapping. */
status_t file_image(const loading_t *loading, image_t *image);

/* Does the work of freeze_load: makes the module and its constants. The caller calls file_close. */
status_t file_load(loading_t *loading);
void file_close(loading_t *loading);

/* True if this process runs on such a machine. */
bool file_is_here(const context_t *ctx, const file_machine_t *machine);

#endif
