/* Writes a .tessera file: collects machines and constants in all forms, then writes all bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "freeze/file_impl.h"
#include "graph/method/method_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/convert/trim_impl.h"
#include "tensor/onednn/onednn.h"

/* Limit for the stored forms of a constant; further forms are packed again after loading. */
#define MAX_FORMS 32

void image_clear(image_t *image)
{
    for (int i = 0; i < image->n_blobs; i++) tensor_drop(image->blobs[i].holder);
    for (int i = 0; i < image->n_machines; i++) context_put(image->ctx, image->machines[i].hints);
    CONTEXT_PUT(image->ctx, image->blobs, image->text);
}

/* ---- machines ---- */

static void describe_here(const context_t *ctx, file_machine_t *out)
{
    memset(out, 0, sizeof *out);
    snprintf(out->onednn, sizeof out->onednn, "%s", onednn_version_text());
    snprintf(out->isa, sizeof out->isa, "%s", onednn_isa_text());
    out->n_threads = (uint64_t)context_threads(ctx);
}

bool file_is_here(const context_t *ctx, const file_machine_t *machine)
{
    file_machine_t here;
    describe_here(ctx, &here);
    return memcmp(here.onednn, machine->onednn, sizeof here.onednn) == 0 &&
           memcmp(here.isa, machine->isa, sizeof here.isa) == 0 &&
           here.n_threads == machine->n_threads;
}

/* Prints "forward;f32[1,3,224,224];0 0 03 - d " for each plan of each method. */
static status_t print_hints(context_t *ctx, void *user, const char *path, module_t *module)
{
    text_t *hints = user;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        if (kind != MEMBER_METHOD) continue;
        text_t lines = text_begin(ctx);
        status_t status = plan_layouts(ctx, module, name, &lines);
        const char *at = text_string(&lines), *end;
        for (; status == STATUS_OK && (end = strchr(at, '\n')) != NULL; at = end + 1)
            text_append(hints, "%s%s%s;%.*s", path, path[0] != '\0' ? "." : "", name,
                        (int)(end + 1 - at), at);
        text_clear(&lines);
        TRY(status);
    }
    return text_status(hints);
}

status_t image_add_machine(image_t *image, const module_t *frozen, int *out_machine)
{
    context_t *ctx = image->ctx;
    int machine = 0;
    while (machine < image->n_machines && !file_is_here(ctx, &image->machines[machine].entry))
        machine++;
    if (machine == FILE_MAX_MACHINES)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "freeze_append: the file has %d machines, which is the maximum", FILE_MAX_MACHINES);
    image_machine_t *place = &image->machines[machine];
    text_t text = text_begin(ctx);
    char *hints = NULL;
    status_t status = module_walk(ctx, (module_t *)(uintptr_t)frozen, print_hints, &text);
    if (status == STATUS_OK) status = context_string(ctx, text_string(&text), &hints);
    text_clear(&text);
    TRY(status);
    if (machine == image->n_machines) {
        describe_here(ctx, &place->entry);
        image->n_machines++;
    }
    context_put(ctx, place->hints);
    place->hints = hints;
    for (int i = 0; i < image->n_blobs; i++)
        image->blobs[i].entry.machines &= ~(UINT64_C(1) << machine);
    *out_machine = machine;
    return STATUS_OK;
}

/* ---- constants ---- */

static void describe(const tensor_info_t *info, file_blob_t *entry)
{
    char format[FORMAT_TEXT_MAX];
    if (info->layout == LAYOUT_MKLDNN) {
        const bool is_tag = info->format.kind != FORMAT_OPAQUE &&
                            info->format.kind != FORMAT_GROUPED;
        entry->layout = is_tag ? FILE_TAG : FILE_OPAQUE;
        memcpy(entry->format, format, strlen(format_text(&info->format, format)));
    }
    snprintf(entry->dtype, sizeof entry->dtype, "%s", dtype_name(info->dtype));
    entry->rank = (uint32_t)info->rank;
    memcpy(entry->sizes, info->sizes, (size_t)info->rank * sizeof *info->sizes);
}

/* Inserts a blob after the other blobs of the same constant. */
static void insert(image_t *image, const image_blob_t *blob)
{
    int at = image->n_blobs;
    while (at > 0 && image->blobs[at - 1].entry.constant > blob->entry.constant) at--;
    memmove(&image->blobs[at + 1], &image->blobs[at],
            (size_t)(image->n_blobs - at) * sizeof *image->blobs);
    image->blobs[at] = *blob;
    image->n_blobs++;
}

/* Adds the contiguous bytes of a form. If the image has a blob of this form, or if is_marked_only,
 * only marks it as used by the machine. */
static status_t add_form(image_t *image, const tensor_t *tensor, const tensor_info_t *constant,
                         int number, int machine, bool is_marked_only)
{
    context_t *ctx = image->ctx;
    tensor_info_t inner = convert_inner_info(&tensor->info), want = tensor->info;
    if (want.layout == LAYOUT_DENSE) inner = want = info_dense(want.dtype, want.rank, want.sizes);
    file_blob_t entry = {.constant = (uint32_t)number, .machines = UINT64_C(1) << machine};
    describe(&inner, &entry);
    if (inner.format.kind == FORMAT_GROUPED) image->version = FILE_VERSION;
    entry.constant_rank = (uint32_t)constant->rank;
    memcpy(entry.constant_sizes, constant->sizes, (size_t)constant->rank * sizeof *constant->sizes);
    for (int i = 0; i < image->n_blobs; i++) {
        file_blob_t *other = &image->blobs[i].entry;
        if (other->constant != entry.constant || strcmp(other->format, entry.format) != 0 ||
            other->layout != entry.layout || other->rank != entry.rank ||
            memcmp(other->sizes, entry.sizes, sizeof entry.sizes) != 0)
            continue;
        other->machines |= entry.machines;
        return STATUS_OK;
    }
    if (is_marked_only) return STATUS_OK;
    TRY(context_grow(ctx, &image->blobs, &image->blobs_capacity, image->n_blobs + 1,
                     sizeof *image->blobs));
    tensor_t *holder = NULL;
    TRY(convert_to(ctx, tensor, &want, CAUSE_USER, &holder));
    entry.at.bytes = info_bytes(&want);
    if (!image->is_entry)
        entry.at.checksum = file_checksum(tensor_bytes(holder), entry.at.bytes, 0);
    insert(image, &(image_blob_t){entry, tensor_bytes(holder), holder});
    return STATUS_OK;
}

/* Sorts forms by format and sizes, so that equal modules make equal files. */
static int compare_forms(const void *a, const void *b)
{
    char text_a[INFO_TEXT_MAX], text_b[INFO_TEXT_MAX];
    return strcmp(info_text(&(*(tensor_t *const *)a)->info, text_a),
                  info_text(&(*(tensor_t *const *)b)->info, text_b));
}

/* Finds a form that can replace the constant as its main blob, or -1. A form with a format tag
 * contains all plain elements; a form with the constant's own sizes is preferred. For a trimmed
 * constant, any trimmed form contains all elements. */
static int find_main(int n, tensor_t *const *forms, const tensor_info_t *constant)
{
    int found = -1;
    for (int i = 0; i < n && trim_is(constant); i++)
        if (trim_is(&forms[i]->info)) return i;
    if (constant->layout != LAYOUT_DENSE) return -1;
    for (int i = 0; i < n; i++) {
        const tensor_info_t *form = &forms[i]->info;
        if (form->layout != LAYOUT_MKLDNN || form->format.kind != FORMAT_TAG) continue;
        if (shape_equal(form->rank, form->sizes, constant->rank, constant->sizes)) return i;
        if (found < 0) found = i;
    }
    return found;
}

/* True for a form of our own kernels that is much larger than the plain elements, such as Winograd
 * weights. It is not in the file, unless freeze_append_forms adds it, but in the store. */
static bool is_remade(const tensor_info_t *form, const tensor_info_t *constant)
{
    return format_numbers(&form->format) != NULL &&
           (double)info_bytes(form) > 1.5 * (double)info_bytes(constant);
}

status_t image_add_constant(image_t *image, tensor_t *tensor, int constant, int machine,
                            bool is_plain)
{
    tensor_t *forms[MAX_FORMS];
    const tensor_info_t *info = &tensor->info;
    int n = form_list(tensor, MAX_FORMS, forms), main_form = -1;
    qsort(forms, (size_t)n, sizeof *forms, compare_forms);
    if (!is_plain) main_form = find_main(n, forms, info);
    status_t status = add_form(image, main_form >= 0 ? forms[main_form] : tensor, info, constant,
                               machine, false);
    for (int i = 0; i < n; i++) {
        const bool is_large = !image->has_all_forms && is_remade(&forms[i]->info, info);
        if (status == STATUS_OK)
            status = add_form(image, forms[i], info, constant, machine, is_large);
        tensor_drop(forms[i]);
    }
    return status;
}

/* ---- bytes ---- */

static uint64_t align(uint64_t offset)
{
    return (offset + FILE_ALIGNMENT - 1) / FILE_ALIGNMENT * FILE_ALIGNMENT;
}

/* Copies a part to its place. */
static void put(char *head, const file_section_t *at, const void *bytes)
{
    if (at->bytes > 0) memcpy(head + at->offset, bytes, at->bytes);
}

/* The section of n bytes that begins at *offset; sets *offset to its end. */
static file_section_t section(uint64_t *offset, const void *bytes, size_t n)
{
    file_section_t result = {.offset = *offset, .bytes = n, .checksum = file_checksum(bytes, n, 0)};
    *offset = align(*offset + n);
    return result;
}

/* Sets the places of machines, hints and blobs, after the text. */
static void set_places(image_t *image, file_header_t *header, file_machine_t *machines,
                       file_blob_t *blobs)
{
    const size_t n_machines = (size_t)image->n_machines * sizeof *machines;
    const size_t n_blobs = (size_t)image->n_blobs * sizeof *blobs;
    uint64_t at = sizeof *header, machines_at, blobs_at;
    at = align(at);
    header->text = section(&at, image->text, strlen(image->text));
    machines_at = at;
    at = align(at + n_machines);
    for (int i = 0; i < image->n_machines; i++) {
        machines[i] = image->machines[i].entry;
        machines[i].hints = section(&at, image->machines[i].hints,
                                    strlen(image->machines[i].hints));
    }
    blobs_at = at;
    at = align(at + n_blobs);
    header->file_bytes = at;
    for (int i = 0; i < image->n_blobs; i++) {
        blobs[i] = image->blobs[i].entry;
        blobs[i].at.offset = at;
        header->file_bytes = image->is_entry ? at + blobs[i].at.bytes
                                             : align(at + blobs[i].at.bytes);
        at = align(at + blobs[i].at.bytes);
    }
    header->machines = section(&machines_at, machines, n_machines);
    header->blobs = section(&blobs_at, blobs, n_blobs);
}

static status_t fill_head(image_t *image, file_header_t *header, file_machine_t *machines,
                          file_blob_t *blobs, tensor_t **out_head)
{
    void *bytes = NULL;
    set_places(image, header, machines, blobs);
    const uint64_t n_bytes = align(header->blobs.offset + header->blobs.bytes);
    const tensor_info_t info = info_dense(DTYPE_U8, 1, (int64_t[]){(int64_t)n_bytes});
    memcpy(header->magic, FILE_MAGIC, sizeof header->magic);
    header->checksum = file_checksum(header, offsetof(file_header_t, checksum), 0);
    TRY(tensor_make_of(image->ctx, &info, n_bytes, 0, out_head, &bytes));
    memset(bytes, 0, n_bytes);
    memcpy(bytes, header, sizeof *header);
    put(bytes, &header->text, image->text);
    put(bytes, &header->machines, machines);
    for (int i = 0; i < image->n_machines; i++)
        put(bytes, &machines[i].hints, image->machines[i].hints);
    put(bytes, &header->blobs, blobs);
    return STATUS_OK;
}

status_t image_head(image_t *image, tensor_t **out_head)
{
    context_t *ctx = image->ctx;
    file_header_t header = {.version = image->version, .byte_order = 0x01020304};
    file_machine_t *machines = NULL;
    file_blob_t *blobs = NULL;
    status_t status = context_get_zeroed(ctx, (size_t)image->n_machines * sizeof *machines,
                                         "machines", &machines);
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, (size_t)image->n_blobs * sizeof *blobs, "blobs", &blobs);
    if (status == STATUS_OK) status = fill_head(image, &header, machines, blobs, out_head);
    CONTEXT_PUT(ctx, machines, blobs);
    return status;
}

static status_t write_blob(file_writer_t *writer, const image_blob_t *blob)
{
    static const char zeros[FILE_ALIGNMENT];
    TRY(file_write(writer, blob->bytes, blob->entry.at.bytes));
    return file_write(writer, zeros, align(file_write_offset(writer)) - file_write_offset(writer));
}

static status_t write_parts(image_t *image, const tensor_t *head, file_writer_t *writer)
{
    TRY(file_write(writer, tensor_bytes(head), info_bytes(&head->info)));
    for (int i = 0; i < image->n_blobs; i++) TRY(write_blob(writer, &image->blobs[i]));
    return STATUS_OK;
}

status_t image_write(image_t *image, const char *path)
{
    tensor_t *head = NULL;
    file_writer_t *writer = NULL;
    TRY(image_head(image, &head));
    status_t status = file_write_begin(image->ctx, path, &writer);
    if (status == STATUS_OK) {
        status = write_parts(image, head, writer);
        status_t ended = file_write_end(writer, status == STATUS_OK);
        if (status == STATUS_OK) status = ended;
    }
    tensor_drop(head);
    return status;
}
