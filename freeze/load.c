/* Loading: the file is mapped; everything in it is checked before it is believed. */
#include <string.h>

#include "dispatch/pack_impl.h"
#include "freeze/freeze_impl.h"
#include "tensor/context_impl.h"

typedef struct loading {
    context_t *ctx;
    const char *path;
    file_mapping_t *mapping;
    const file_header_t *header;
    const file_blob_t *table;
    datum_t *pool;
    module_t *module;
} loading_t;

#define CORRUPT(loading, ...) FAIL((loading)->ctx, STATUS_CORRUPT, "freeze_load: " __VA_ARGS__)

static bool is_inside(const loading_t *loading, uint64_t offset, uint64_t bytes)
{
    uint64_t size = file_size(loading->mapping);
    return offset <= size && bytes <= size - offset;
}

static status_t check_header(loading_t *l)
{
    if (file_size(l->mapping) < sizeof *l->header) CORRUPT(l, "%s is too short", l->path);
    const file_header_t *header = file_bytes(l->mapping);
    l->header = header;
    if (memcmp(header->magic, FREEZE_MAGIC, sizeof header->magic) != 0)
        CORRUPT(l, "%s is no .tessera file", l->path);
    if (header->byte_order != 0x01020304) CORRUPT(l, "%s has another byte order", l->path);
    if (header->version != FREEZE_VERSION)
        FAIL(l->ctx, STATUS_UNSUPPORTED, "freeze_load: %s has version %u, this library reads %u",
             l->path, header->version, FREEZE_VERSION);
    if (header->header_checksum !=
        file_checksum(header, offsetof(file_header_t, header_checksum), 0))
        CORRUPT(l, "%s: the header is damaged", l->path);
    if (header->file_bytes != file_size(l->mapping))
        CORRUPT(l, "%s has %zu bytes, %llu were written", l->path, file_size(l->mapping),
                (unsigned long long)header->file_bytes);
    if (header->n_blobs > FREEZE_MAX_BLOBS ||
        !is_inside(l, header->text_offset, header->text_bytes) || header->text_bytes == 0 ||
        header->table_offset % FREEZE_ALIGNMENT != 0 ||
        !is_inside(l, header->table_offset, header->n_blobs * sizeof(file_blob_t)))
        CORRUPT(l, "%s: the header points outside the file", l->path);
    const char *bytes = file_bytes(l->mapping);
    l->table = (const file_blob_t *)(const void *)(bytes + header->table_offset);
    if (file_checksum(bytes + header->text_offset, header->text_bytes, 0) != header->text_checksum)
        CORRUPT(l, "%s: the text is damaged", l->path);
    if (file_checksum(l->table, header->n_blobs * sizeof *l->table, 0) != header->table_checksum)
        CORRUPT(l, "%s: the table is damaged", l->path);
    return STATUS_OK;
}

/* What a table entry says, checked against itself and the file. */
static status_t read_info(loading_t *l, uint64_t index, tensor_info_t *out_info)
{
    const file_blob_t *blob = &l->table[index];
    unsigned long long number = (unsigned long long)index;
    if (memchr(blob->dtype, '\0', sizeof blob->dtype) == NULL ||
        memchr(blob->format, '\0', sizeof blob->format) == NULL || blob->rank > TENSOR_MAX_RANK ||
        blob->layout > 1)
        CORRUPT(l, "%s: blob %llu is malformed", l->path, number);
    dtype_t dtype = dtype_parse(blob->dtype);
    if (dtype == DTYPE_NONE) CORRUPT(l, "%s: blob %llu has no known dtype", l->path, number);
    int rank = (int)blob->rank;
    status_t status = shape_check(l->ctx, "freeze_load", dtype, rank, blob->sizes);
    if (status != STATUS_OK) CORRUPT(l, "%s: the sizes of blob %llu overflow", l->path, number);
    tensor_info_t info = info_dense(dtype, rank, blob->sizes);
    if (blob->layout == 1) {
        format_t format;
        int64_t elements = 0, bytes = 0;
        status = format_parse(l->ctx, blob->format, &format);
        if (status != STATUS_OK || (format.kind != FORMAT_TAG && format.kind != FORMAT_OPAQUE) ||
            format.rank != rank || !format_elements(&format, blob->sizes, &elements) ||
            !shape_multiply(elements, (int64_t)dtype_size(dtype), &bytes))
            CORRUPT(l, "%s: the format of blob %llu does not fit it", l->path, number);
        info = info_mkldnn(&info, &format);
    }
    if (info_bytes(&info) != blob->bytes || blob->offset % FREEZE_ALIGNMENT != 0 ||
        !is_inside(l, blob->offset, blob->bytes))
        CORRUPT(l, "%s: blob %llu lies outside the file", l->path, number);
    if (blob->base < -1 || blob->base >= (int64_t)index)
        CORRUPT(l, "%s: blob %llu is a form of no other", l->path, number);
    *out_info = info;
    return STATUS_OK;
}

static status_t check_blobs(loading_t *l)
{
    const char *bytes = file_bytes(l->mapping);
    int64_t n = (int64_t)l->header->n_blobs, damaged = -1;
#pragma omp parallel for num_threads(context_threads(l->ctx)) schedule(dynamic)                    \
    reduction(max                                                                                  \
              : damaged)
    for (int64_t i = 0; i < n; i++)
        if (file_checksum(bytes + l->table[i].offset, l->table[i].bytes, 0) != l->table[i].checksum)
            damaged = damaged > i ? damaged : i;
    if (damaged >= 0) CORRUPT(l, "%s: blob %lld is damaged", l->path, (long long)damaged);
    return STATUS_OK;
}

static status_t load_blobs(loading_t *l)
{
    tensor_info_t info;
    for (uint64_t i = 0; i < l->header->n_blobs; i++) TRY(read_info(l, i, &info));
    TRY(check_blobs(l));
    for (uint64_t i = 0; i < l->header->n_blobs; i++) {
        const file_blob_t *blob = &l->table[i];
        tensor_t *tensor = NULL;
        datum_t *datum = NULL;
        TRY(read_info(l, i, &info));
        TRY(file_tensor(l->ctx, l->mapping, blob->offset, &info, &tensor));
        scope_keep(l->ctx, tensor);
        status_t status = STATUS_OK;
        if (blob->base >= 0) {
            const datum_t *base = datum_item(l->pool, (int)blob->base);
            status = base == NULL ? STATUS_CORRUPT
                                  : pack_attach(l->ctx, datum_as_tensor(base), tensor);
            if (base == NULL)
                context_fail(l->ctx, status, "freeze_load: %s: blob %llu is a form of no constant",
                             l->path, (unsigned long long)i);
        } else {
            status = datum_tensor(l->ctx, tensor, &datum);
            if (status == STATUS_OK) status = datum_append(l->ctx, l->pool, datum);
        }
        datum_release(datum);
        tensor_release(tensor);
        TRY(status);
    }
    return STATUS_OK;
}

/* ---- the text ---- */

static status_t set_member(loading_t *l, const char *entry, datum_t *value)
{
    if (strlen(entry) < 3 || entry[1] != ':') CORRUPT(l, "%s: attribute \"%s\"", l->path, entry);
    const char *name = NULL;
    module_t *owner = NULL;
    TRY(freeze_owner(l->ctx, l->module, entry + 2, &name, &owner));
    if (entry[0] == 'a') return module_set_attribute(l->ctx, owner, name, value);
    tensor_t *tensor = NULL;
    if (datum_kind(value) == DATUM_TENSOR)
        TRY(tensor_clone(l->ctx, datum_as_tensor(value), &tensor));
    status_t status = entry[0] == 'p' ? module_set_parameter(l->ctx, owner, name, tensor)
                                      : module_set_buffer(l->ctx, owner, name, tensor);
    if (tensor != NULL) scope_keep(l->ctx, tensor);
    tensor_release(tensor);
    return status;
}

/* The first graph: a list of the type and the names, then the values. */
static status_t load_members(loading_t *l, const graph_t *graph)
{
    const graph_block_t *body = graph_body(graph);
    const datum_t *names = body->n_results > 0 ? graph_constant(graph, body->results[0]) : NULL;
    bool is_list = names != NULL && datum_kind(names) == DATUM_LIST &&
                   datum_length(names) == body->n_results;
    for (int i = 0; is_list && i < body->n_results; i++)
        is_list = datum_kind(datum_item(names, i)) == DATUM_STRING;
    if (!is_list) CORRUPT(l, "%s: the list of attributes is malformed", l->path);
    TRY(freeze_module(l->ctx, datum_as_string(datum_item(names, 0)), &l->module));
    for (int i = 1; i < body->n_results; i++) {
        datum_t *value = graph_constant(graph, body->results[i]), *copy = NULL;
        if (value == NULL) CORRUPT(l, "%s: attribute %d is no constant", l->path, i);
        TRY(datum_clone(l->ctx, value, &copy));
        status_t status = set_member(l, datum_as_string(datum_item(names, i)), copy);
        datum_release(copy);
        TRY(status);
    }
    return STATUS_OK;
}

static status_t load_methods(loading_t *l, const char *text)
{
    const char *cursor = text;
    bool is_first = true;
    for (;;) {
        graph_t *graph = NULL;
        status_t status = graph_parse_next(l->ctx, &cursor, l->pool, &graph);
        if (status == STATUS_INVALID_ARGUMENT) CORRUPT(l, "%s: %s", l->path, context_error(l->ctx));
        TRY(status);
        if (graph == NULL) break;
        status = graph_verify(l->ctx, graph);
        if (status == STATUS_INVALID_ARGUMENT)
            status = context_fail(l->ctx, STATUS_CORRUPT, "freeze_load: %s: %s", l->path,
                                  context_error(l->ctx));
        if (status == STATUS_OK)
            status = is_first ? load_members(l, graph)
                              : plan_set_method(l->ctx, l->module, graph_name(graph), graph, 0);
        if (status == STATUS_OK && !is_first)
            status = plan_warm(l->ctx, l->module, graph_name(graph));
        graph_release(graph);
        TRY(status);
        is_first = false;
    }
    if (is_first) CORRUPT(l, "%s has no graphs", l->path);
    return STATUS_OK;
}

static status_t load(loading_t *l)
{
    TRY(file_map(l->ctx, l->path, &l->mapping));
    TRY(check_header(l));
    TRY(datum_list(l->ctx, 0, NULL, &l->pool));
    TRY(load_blobs(l));
    const char *text = (const char *)file_bytes(l->mapping) + l->header->text_offset;
    char *copy = NULL;
    TRY(context_get(l->ctx, l->header->text_bytes + 1, "the text of a file", &copy));
    memcpy(copy, text, l->header->text_bytes);
    copy[l->header->text_bytes] = '\0';
    status_t status = load_methods(l, copy);
    context_put(l->ctx, copy);
    return status;
}

status_t freeze_load(context_t *ctx, const char *path, module_t **out_frozen)
{
    loading_t loading = {.ctx = ctx, .path = path};
    if (path == NULL) return context_null(ctx, "freeze_load", "path");
    status_t status = load(&loading);
    datum_release(loading.pool);
    file_release(loading.mapping);
    if (status != STATUS_OK) {
        module_release(loading.module);
        return status;
    }
    *out_frozen = loading.module;
    return STATUS_OK;
}
