/* Opens a .tessera file and checks it before use. Can make an image of it, for writing. */
#include <string.h>

#include "freeze/file_impl.h"
#include "tensor/context_impl.h"
#include "tensor/file/file_kind_impl.h"
#include "tensor/threads/interrupt_impl.h"

static bool is_inside(const loading_t *l, const file_section_t *section)
{
    uint64_t size = file_size(l->mapping);
    return section->offset <= size && section->bytes <= size - section->offset;
}

static const void *bytes_at(const loading_t *l, const file_section_t *section)
{
    return (const char *)file_bytes(l->mapping) + section->offset;
}

static bool is_whole(const loading_t *l, const file_section_t *section)
{
    return file_checksum(bytes_at(l, section), section->bytes, 0) == section->checksum;
}

/* True if the section is an array of at most `most` items of `item` bytes. Sets their number. */
static bool is_array(const loading_t *l, const file_section_t *section, size_t item, uint64_t most,
                     int *out_n)
{
    if (!is_inside(l, section) || section->offset % FILE_ALIGNMENT != 0 ||
        section->bytes % item != 0 || section->bytes / item > most)
        return false;
    *out_n = (int)(section->bytes / item);
    return true;
}

static status_t check_start(loading_t *l)
{
    TRY(file_check_kind(l->ctx, "freeze_load", l->path, FILE_TESSERA, file_bytes(l->mapping),
                        file_size(l->mapping)));
    if (file_size(l->mapping) < sizeof *l->header) FILE_CORRUPT(l, "%s is too short", l->path);
    const file_header_t *header = file_bytes(l->mapping);
    l->header = header;
    if (memcmp(header->magic, FILE_MAGIC, sizeof header->magic) != 0)
        FILE_CORRUPT(l, "%s is not a .tessera file", l->path);
    if (header->byte_order != 0x01020304) FILE_CORRUPT(l, "%s has another byte order", l->path);
    if (header->version < FILE_VERSION_LEAST || header->version > FILE_VERSION)
        FAIL(l->ctx, STATUS_UNSUPPORTED,
             "freeze_load: %s has version %u, this library reads %u to %u", l->path,
             header->version, FILE_VERSION_LEAST, FILE_VERSION);
    if (header->checksum != file_checksum(header, offsetof(file_header_t, checksum), 0))
        FILE_CORRUPT(l, "%s: the header is damaged", l->path);
    if (header->file_bytes != file_size(l->mapping))
        FILE_CORRUPT(l, "%s has %zu bytes, %llu were written", l->path, file_size(l->mapping),
                     (unsigned long long)header->file_bytes);
    return STATUS_OK;
}

static status_t check_sections(loading_t *l)
{
    const file_header_t *header = l->header;
    if (!is_inside(l, &header->text) || header->text.bytes == 0 ||
        !is_array(l, &header->machines, sizeof *l->machines, FILE_MAX_MACHINES, &l->n_machines) ||
        !is_array(l, &header->blobs, sizeof *l->blobs, FILE_MAX_BLOBS, &l->n_blobs))
        FILE_CORRUPT(l, "%s: the header points outside the file", l->path);
    l->machines = bytes_at(l, &header->machines);
    l->blobs = bytes_at(l, &header->blobs);
    if (!is_whole(l, &header->text)) FILE_CORRUPT(l, "%s: the text is damaged", l->path);
    if (!is_whole(l, &header->machines))
        FILE_CORRUPT(l, "%s: the list of machines is damaged", l->path);
    if (!is_whole(l, &header->blobs)) FILE_CORRUPT(l, "%s: the table of blobs is damaged", l->path);
    for (int i = 0; i < l->n_machines; i++) {
        const file_machine_t *machine = &l->machines[i];
        if (memchr(machine->onednn, '\0', sizeof machine->onednn) == NULL ||
            memchr(machine->isa, '\0', sizeof machine->isa) == NULL ||
            !is_inside(l, &machine->hints))
            FILE_CORRUPT(l, "%s: machine %d is malformed", l->path, i);
        if (!is_whole(l, &machine->hints))
            FILE_CORRUPT(l, "%s: the hints of machine %d are damaged", l->path, i);
        if (l->machine < 0 && file_is_here(l->ctx, machine)) l->machine = i;
    }
    return STATUS_OK;
}

/* ---- blobs ---- */

static status_t blob_format(loading_t *l, int index, tensor_info_t *info)
{
    const file_blob_t *blob = &l->blobs[index];
    format_t format;
    int64_t elements = 0, bytes = 0;
    status_t status = format_parse(l->ctx, blob->format, &format);
    if (interrupt_is_final(status)) return status;
    const bool is_right = status == STATUS_OK &&
                          (blob->layout == FILE_TAG
                               ? format.kind == FORMAT_TAG
                               : format.kind == FORMAT_OPAQUE || format.kind == FORMAT_GROUPED);
    if (!is_right || (format.kind == FORMAT_GROUPED && info->dtype != DTYPE_F32) ||
        format.rank != info->rank || !format_elements(&format, info->sizes, &elements) ||
        !shape_multiply(elements, (int64_t)dtype_size(info->dtype), &bytes))
        FILE_CORRUPT(l, "%s: the format of blob %d does not match its sizes", l->path, index);
    *info = info_mkldnn(info, &format);
    return STATUS_OK;
}

static status_t check_sizes(loading_t *l, int index, dtype_t dtype, uint32_t rank,
                            const int64_t *sizes)
{
    if (rank > TENSOR_MAX_RANK) FILE_CORRUPT(l, "%s: blob %d is malformed", l->path, index);
    if (shape_check(l->ctx, "freeze_load", dtype, (int)rank, sizes) != STATUS_OK)
        FILE_CORRUPT(l, "%s: the sizes of blob %d overflow", l->path, index);
    return STATUS_OK;
}

status_t file_blob_info(loading_t *l, int index, tensor_info_t *out_info)
{
    const file_blob_t *blob = &l->blobs[index];
    if (memchr(blob->dtype, '\0', sizeof blob->dtype) == NULL ||
        memchr(blob->format, '\0', sizeof blob->format) == NULL || blob->layout > FILE_OPAQUE)
        FILE_CORRUPT(l, "%s: blob %d is malformed", l->path, index);
    dtype_t dtype = dtype_parse(blob->dtype);
    if (dtype == DTYPE_NONE) FILE_CORRUPT(l, "%s: blob %d has an unknown dtype", l->path, index);
    TRY(check_sizes(l, index, dtype, blob->rank, blob->sizes));
    TRY(check_sizes(l, index, dtype, blob->constant_rank, blob->constant_sizes));
    tensor_info_t constant = info_dense(dtype, (int)blob->constant_rank, blob->constant_sizes);
    tensor_info_t info = info_dense(dtype, (int)blob->rank, blob->sizes);
    if (info_numel(&info) != info_numel(&constant))
        FILE_CORRUPT(l, "%s: blob %d has another number of elements than its constant", l->path,
                     index);
    if (blob->layout != FILE_DENSE) TRY(blob_format(l, index, &info));
    if (info_bytes(&info) != blob->at.bytes || blob->at.offset % FILE_ALIGNMENT != 0 ||
        !is_inside(l, &blob->at))
        FILE_CORRUPT(l, "%s: blob %d is outside the file", l->path, index);
    *out_info = info;
    return STATUS_OK;
}

bool file_is_wanted(const loading_t *l, int index)
{
    const file_blob_t *blob = &l->blobs[index];
    bool is_main = index == 0 || blob->constant != l->blobs[index - 1].constant;
    return is_main || l->machine < 0 || (blob->machines >> l->machine & 1) != 0;
}

/* Checks that a constant's blobs are adjacent, and that bytes follow the table without overlap. */
static status_t check_order(loading_t *l)
{
    uint32_t constant = 0;
    for (int i = 0; i < l->n_blobs; i++) {
        const file_blob_t *blob = &l->blobs[i];
        bool is_next = i > 0 && blob->constant == constant + 1;
        bool is_same = blob->constant == constant;
        if (!is_next && !is_same) FILE_CORRUPT(l, "%s: blob %d belongs to no constant", l->path, i);
        if (i > 0 && is_same &&
            (memcmp(blob->constant_sizes, blob[-1].constant_sizes, sizeof blob->sizes) != 0 ||
             memcmp(blob->dtype, blob[-1].dtype, sizeof blob->dtype) != 0))
            FILE_CORRUPT(l, "%s: blob %d does not match its constant", l->path, i);
        if (i > 0 && blob->at.offset < blob[-1].at.offset + blob[-1].at.bytes)
            FILE_CORRUPT(l, "%s: blob %d overlaps the one before it", l->path, i);
        constant = blob->constant;
    }
    return STATUS_OK;
}

status_t file_open(loading_t *l)
{
    tensor_info_t info;
    l->machine = -1;
    if (l->mapping == NULL) TRY(file_map(l->ctx, l->path, &l->mapping));
    TRY(check_start(l));
    TRY(check_sections(l));
    for (int i = 0; i < l->n_blobs; i++) TRY(file_blob_info(l, i, &info));
    TRY(check_order(l));
    return file_take_blobs(l);
}

void file_close(loading_t *l)
{
    map_clear(&l->tensors);
    datum_release(l->pool);
    module_release(l->module);
    context_put(l->ctx, l->places);
    file_release(l->block);
    file_release(l->mapping);
}

/* ---- strings, and conversion to an image ---- */

status_t file_string(const loading_t *l, const file_section_t *section, char **out_string)
{
    TRY(context_get(l->ctx, section->bytes + 1, "the text of a file", out_string));
    memcpy(*out_string, bytes_at(l, section), section->bytes);
    (*out_string)[section->bytes] = '\0';
    return STATUS_OK;
}

status_t file_image(const loading_t *l, image_t *image)
{
    context_t *ctx = l->ctx;
    image->version = l->header->version;
    TRY(file_string(l, &l->header->text, &image->text));
    TRY(context_grow(ctx, &image->blobs, &image->blobs_capacity, l->n_blobs, sizeof *image->blobs));
    for (int i = 0; i < l->n_blobs; i++)
        image->blobs[i] = (image_blob_t){.entry = l->blobs[i],
                                         .bytes = bytes_at(l, &l->blobs[i].at)};
    image->n_blobs = l->n_blobs;
    for (int i = 0; i < l->n_machines; i++) {
        image_machine_t *machine = &image->machines[i];
        TRY(file_string(l, &l->machines[i].hints, &machine->hints));
        machine->entry = l->machines[i];
        image->n_machines++;
    }
    return STATUS_OK;
}
