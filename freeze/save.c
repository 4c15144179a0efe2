/* Saving: constants go out in the packed form that the plan settled on, or plain. */
#include <stdio.h>
#include <string.h>

#include "dispatch/pack_impl.h"
#include "freeze/freeze_impl.h"
#include "graph/pass_impl.h"
#include "tensor/context_impl.h"
#include "tensor/convert_impl.h"
#include "tensor/onednn.h"

/* ---- constants in the form they are stored in ---- */

static status_t pack_node(rewrite_t *rewrite, const graph_node_t *node, bool *out_done)
{
    if (node->kind != NODE_CONSTANT || datum_kind(node->datum) != DATUM_TENSOR) return STATUS_OK;
    tensor_t *tensor = datum_as_tensor(node->datum), *packed = NULL;
    if (!pack_sole_form(tensor, &packed)) return STATUS_OK;
    datum_t *datum = NULL;
    status_t status = datum_tensor(rewrite->ctx, packed, &datum);
    if (status == STATUS_OK) {
        value_t value = graph_add_constant(rewrite->to, datum,
                                           graph_value_name(rewrite->from, node->outputs[0]));
        rewrite_map(rewrite, node->outputs[0], value);
        *out_done = true;
    }
    datum_release(datum);
    tensor_release(packed);
    return status;
}

/* ---- the text ---- */

static status_t print_method(context_t *ctx, const graph_t *graph, datum_t *pool, text_t *text)
{
    graph_t *stored = NULL;
    TRY(rewrite_graph(ctx, graph, pack_node, NULL, &stored));
    status_t status = graph_print(ctx, stored, pool, text);
    graph_release(stored);
    return status;
}

/* Attributes are the results of a graph of constants, their names and kinds beside them: a list of
 * "kind:path" strings, then the values in order. */
static status_t add_member(context_t *ctx, graph_builder_t *builder, datum_t *names,
                           value_t *results, int *n, char kind, const char *path, datum_t *value)
{
    char name[512];
    datum_t *entry = NULL;
    REQUIRE(ctx, *n + 1 < METHOD_MAX_OUTPUTS * 8, "freeze_save: too many attributes");
    snprintf(name, sizeof name, "%c:%s", kind, path);
    TRY(datum_string(ctx, name, &entry));
    status_t status = datum_append(ctx, names, entry);
    datum_release(entry);
    TRY(status);
    results[++*n] = graph_add_constant(builder, value, NULL);
    return STATUS_OK;
}

typedef struct members {
    graph_builder_t *builder;
    datum_t *names;
    value_t results[METHOD_MAX_OUTPUTS * 8];
    int n;
} members_t;

static status_t visit_members(context_t *ctx, void *user, const char *path, module_t *module)
{
    members_t *members = user;
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        char full[512];
        snprintf(full, sizeof full, "%s%s%s", path, path[0] != '\0' ? "." : "", name);
        datum_t *value = NULL;
        if (kind == MEMBER_ATTRIBUTE) {
            TRY(add_member(ctx, members->builder, members->names, members->results, &members->n,
                           'a', full, module_attribute(module, name)));
        } else if (kind == MEMBER_PARAMETER || kind == MEMBER_BUFFER) {
            tensor_t *tensor = kind == MEMBER_PARAMETER ? module_parameter(module, name)
                                                        : module_buffer(module, name);
            TRY(tensor == NULL ? datum_none(ctx, &value) : datum_tensor(ctx, tensor, &value));
            status_t status = add_member(ctx, members->builder, members->names, members->results,
                                         &members->n, kind == MEMBER_PARAMETER ? 'p' : 'b', full,
                                         value);
            datum_release(value);
            TRY(status);
        }
    }
    return STATUS_OK;
}

static status_t print_members(context_t *ctx, module_t *frozen, datum_t *pool, text_t *text)
{
    members_t members = {0};
    datum_t *type = NULL, *names = NULL;
    graph_t *graph = NULL;
    TRY(graph_builder_create(ctx, "members", &members.builder));
    status_t status = datum_list(ctx, 0, NULL, &members.names);
    if (status == STATUS_OK) status = datum_string(ctx, module_type(frozen), &type);
    if (status == STATUS_OK) status = datum_append(ctx, members.names, type);
    if (status == STATUS_OK) status = module_walk(ctx, frozen, visit_members, &members);
    if (status == STATUS_OK) status = datum_clone(ctx, members.names, &names);
    if (status == STATUS_OK) {
        members.results[0] = graph_add_constant(members.builder, names, NULL);
        status = graph_finish(members.builder, members.n + 1, members.results, &graph);
    }
    if (status == STATUS_OK) status = graph_print(ctx, graph, pool, text);
    graph_release(graph);
    datum_release(type);
    datum_release(names);
    datum_release(members.names);
    graph_builder_destroy(members.builder);
    return status;
}

static status_t print_all(context_t *ctx, module_t *frozen, datum_t *pool, text_t *text)
{
    TRY(print_members(ctx, frozen, pool, text));
    for (int i = 0; i < module_n_members(frozen); i++) {
        member_kind_t kind;
        const char *name = module_member(frozen, i, &kind);
        if (kind != MEMBER_METHOD) continue;
        const graph_t *graph = plan_method_graph(frozen, name);
        if (graph == NULL) continue;
        REQUIRE(ctx, strcmp(graph_name(graph), name) == 0,
                "freeze_save: method \"%s\" has a graph named \"%s\"", name, graph_name(graph));
        TRY(print_method(ctx, graph, pool, text));
    }
    return text_status(text);
}

/* ---- blobs ---- */

typedef struct blobs {
    int n, capacity;
    file_blob_t *table;
    tensor_t **tensors; /* retained */
    int tensors_capacity;
} blobs_t;

static status_t add_blob(context_t *ctx, blobs_t *blobs, tensor_t *tensor, int64_t base)
{
    tensor_t *stored = NULL;
    tensor_info_t want = tensor->info;
    if (want.layout == LAYOUT_DENSE) want = info_dense(want.dtype, want.rank, want.sizes);
    TRY(context_grow(ctx, &blobs->table, &blobs->capacity, blobs->n + 1, sizeof *blobs->table));
    TRY(context_grow(ctx, &blobs->tensors, &blobs->tensors_capacity, blobs->n + 1,
                     sizeof(tensor_t *)));
    TRY(convert_to(ctx, tensor, &want, CAUSE_USER, &stored));
    file_blob_t *blob = &blobs->table[blobs->n];
    memset(blob, 0, sizeof *blob);
    char format[FORMAT_TEXT_MAX] = "";
    if (want.layout == LAYOUT_MKLDNN) format_text(&want.format, format);
    if (strlen(format) >= sizeof blob->format) {
        tensor_release(stored);
        FAIL(ctx, STATUS_UNSUPPORTED, "freeze_save: format %s is too long", format);
    }
    blob->bytes = info_bytes(&want);
    blob->checksum = file_checksum(tensor_bytes(stored), blob->bytes, 0);
    blob->base = base;
    blob->layout = want.layout == LAYOUT_MKLDNN;
    blob->rank = (uint32_t)want.rank;
    snprintf(blob->dtype, sizeof blob->dtype, "%s", dtype_name(want.dtype));
    memcpy(blob->format, format, strlen(format));
    memcpy(blob->sizes, want.sizes, (size_t)want.rank * sizeof *want.sizes);
    blobs->tensors[blobs->n++] = stored;
    return STATUS_OK;
}

static status_t gather_blobs(context_t *ctx, const datum_t *pool, blobs_t *blobs)
{
    int n_pool = datum_length(pool);
    for (int i = 0; i < n_pool; i++)
        TRY(add_blob(ctx, blobs, datum_as_tensor(datum_item(pool, i)), -1));
    for (int i = 0; i < n_pool; i++) {
        tensor_t *forms[8];
        int n = pack_forms(datum_as_tensor(datum_item(pool, i)), 8, forms);
        status_t status = STATUS_OK;
        for (int k = 0; k < n; k++) {
            if (status == STATUS_OK) status = add_blob(ctx, blobs, forms[k], i);
            tensor_release(forms[k]);
        }
        TRY(status);
    }
    return STATUS_OK;
}

static uint64_t align(uint64_t offset)
{
    return (offset + FREEZE_ALIGNMENT - 1) / FREEZE_ALIGNMENT * FREEZE_ALIGNMENT;
}

static status_t write_padded(file_writer_t *writer, const void *bytes, size_t n)
{
    static const char zeros[FREEZE_ALIGNMENT];
    TRY(file_write(writer, bytes, n));
    return file_write(writer, zeros, align(file_write_offset(writer)) - file_write_offset(writer));
}

static status_t write_all(context_t *ctx, file_writer_t *writer, const text_t *text, blobs_t *blobs)
{
    size_t table_bytes = (size_t)blobs->n * sizeof *blobs->table;
    file_header_t header = {.version = FREEZE_VERSION, .byte_order = 0x01020304};
    memcpy(header.magic, FREEZE_MAGIC, sizeof header.magic);
    snprintf(header.onednn, sizeof header.onednn, "%s", onednn_version_text());
    snprintf(header.isa, sizeof header.isa, "%s", onednn_isa_text());
    header.n_threads = (uint32_t)context_threads(ctx);
    header.text_offset = align(sizeof header);
    header.text_bytes = text->length;
    header.text_checksum = file_checksum(text_string(text), text->length, 0);
    header.table_offset = align(header.text_offset + header.text_bytes);
    header.n_blobs = (uint64_t)blobs->n;
    uint64_t offset = align(header.table_offset + table_bytes);
    for (int i = 0; i < blobs->n; i++) {
        blobs->table[i].offset = offset;
        offset = align(offset + blobs->table[i].bytes);
    }
    header.table_checksum = file_checksum(blobs->table, table_bytes, 0);
    header.file_bytes = offset;
    header.header_checksum = file_checksum(&header, offsetof(file_header_t, header_checksum), 0);
    TRY(write_padded(writer, &header, sizeof header));
    TRY(write_padded(writer, text_string(text), text->length));
    TRY(write_padded(writer, blobs->table, table_bytes));
    for (int i = 0; i < blobs->n; i++)
        TRY(write_padded(writer, tensor_bytes(blobs->tensors[i]), blobs->table[i].bytes));
    return STATUS_OK;
}

status_t freeze_save(context_t *ctx, module_t *frozen, const char *path)
{
    if (frozen == NULL) return context_null(ctx, "freeze_save", "module");
    REQUIRE(ctx, freeze_is_frozen(frozen), "freeze_save: %s is not frozen, freeze it first",
            module_type(frozen));
    datum_t *pool = NULL;
    blobs_t blobs = {0};
    file_writer_t *writer = NULL;
    text_t text = text_begin(ctx);
    status_t status = datum_list(ctx, 0, NULL, &pool);
    if (status == STATUS_OK) status = print_all(ctx, frozen, pool, &text);
    if (status == STATUS_OK) status = gather_blobs(ctx, pool, &blobs);
    if (status == STATUS_OK) status = file_write_begin(ctx, path, &writer);
    if (status == STATUS_OK) {
        status = write_all(ctx, writer, &text, &blobs);
        status_t ended = file_write_end(writer, status == STATUS_OK);
        if (status == STATUS_OK) status = ended;
    }
    for (int i = 0; i < blobs.n; i++) tensor_release(blobs.tensors[i]);
    context_put(ctx, blobs.tensors);
    context_put(ctx, blobs.table);
    text_clear(&text);
    datum_release(pool);
    return status;
}
