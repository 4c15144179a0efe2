/* Finds frozen ONNX models in the store. Failures are not reported: the model is then imported. */
#include "io/onnx/kept_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dispatch/dispatch.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- options ---- */

static void add_string(text_t *text, const char *string)
{
    text_append(text, "%zu:%s ", string != NULL ? strlen(string) : 0, string != NULL ? string : "");
}

static void add_strings(text_t *text, const char *const *strings)
{
    for (; strings != NULL && *strings != NULL; strings++) add_string(text, *strings);
    text_append(text, "; ");
}

static void add_import(text_t *text, const onnx_options_t *options)
{
    text_append(text, "batch %lld, open %lld, numbers %d; ",
                (long long)(options->batch != 0 ? options->batch : 1),
                (long long)options->open_size, options->keeps_numbers);
    for (int i = 0; i < options->n_shapes; i++) {
        const onnx_shape_t *shape = &options->shapes[i];
        add_string(text, shape->input);
        for (int d = 0; d < shape->rank && shape->sizes != NULL; d++)
            text_append(text, "%lld ", (long long)shape->sizes[d]);
        text_append(text, "; ");
    }
    for (int i = 0; i < options->n_guards; i++) add_string(text, options->guards[i]);
}

static void add_freezing(text_t *text, const freeze_options_t *options)
{
    text_append(text, "dtype %d, numerics %d, rounding %d %a, optimize %d; ", (int)options->dtype,
                options->keep_numerics, options->has_rounding_error, options->rounding_error,
                !options->no_optimize);
    add_strings(text, options->preserved);
    add_strings(text, options->keep_f32);
}

/* Settings of the context, and of the process, that decide how kernels are chosen. */
static void add_settings(text_t *text, context_t *ctx)
{
    text_append(text, "cache %zu, policy %d, denormals %d; ", context_cpu_cache(ctx),
                (int)dispatch_policy(ctx), context_flushes_denormals(ctx));
}

static bool are_plain(const onnx_options_t *options, const freeze_options_t *freezing)
{
    return options->n_tensors == 0 && options->n_shapes >= 0 && options->n_guards >= 0 &&
           (options->n_shapes == 0 || options->shapes != NULL) &&
           (options->n_guards == 0 || options->guards != NULL) && freezing->n_examples == 0 &&
           freezing->report == NULL && freezing->dump == NULL && freezing->skip == NULL &&
           !freezing->has_max_error && freezing->max_error == 0.0;
}

bool kept_begin(onnx_kept_t *kept, context_t *ctx, const onnx_source_t *source,
                const onnx_options_t *options, const freeze_options_t *freezing)
{
    static const onnx_options_t no_options;
    static const freeze_options_t no_freezing;
    if (options == NULL) options = &no_options;
    if (freezing == NULL) freezing = &no_freezing;
    *kept = (onnx_kept_t){.ctx = ctx, .source = source};
    if (!are_plain(options, freezing) || store_path(ctx) == NULL) return false;
    text_t text = text_begin(ctx);
    scope_attempt(ctx);
    add_import(&text, options);
    add_freezing(&text, freezing);
    add_settings(&text, ctx);
    const bool is_done = scope_attempt_end(ctx, text_status(&text), true) == STATUS_OK &&
                         store_hash_bytes(ctx, text_string(&text), text.length, kept->options);
    text_clear(&text);
    return is_done;
}

void kept_end(onnx_kept_t *kept)
{
    context_put(kept->ctx, kept->files);
}

/* ---- identities ---- */

static bool identify(int file, file_range_t *out_identity, bool *is_all_settled)
{
    struct stat about;
    int64_t opened = 0;
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return false;
    file_identify(file, &about, out_identity, &opened);
    *is_all_settled = *is_all_settled && file_is_settled(out_identity, opened, false);
    return true;
}

static bool is_same(const file_range_t *a, const file_range_t *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static bool identify_main(const onnx_kept_t *kept, file_range_t *out, bool *is_all_settled)
{
    if (kept->source->path == NULL) return false;
    const int file = open(kept->source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return false;
    const bool is_done = identify(file, out, is_all_settled);
    close(file);
    return is_done;
}

/* Opens a file with external data, as the import does. */
static int open_external(const onnx_kept_t *kept, const char *location)
{
    int file = -1;
    if (kept->source->folder == NULL) return -1; /* a model in memory has no external files */
    scope_attempt(kept->ctx);
    (void)scope_attempt_end(
        kept->ctx,
        onnx_open_data(kept->ctx, kept->source->folder, kept->source->path, "", location, &file),
        true);
    return file;
}

static bool identify_external(const onnx_kept_t *kept, const char *location, file_range_t *out,
                              bool *is_all_settled)
{
    const int file = open_external(kept, location);
    if (file < 0) return false;
    const bool is_done = identify(file, out, is_all_settled);
    close(file);
    return is_done;
}

/* ---- the record of an identity ---- */

/* The bytes of a record; `n` files follow. */
typedef struct record {
    uint64_t content[2];
    uint64_t n;
} record_t;

static bool name_record(const onnx_kept_t *kept, store_key_t *out_key)
{
    const file_range_t *at = &kept->main;
    char text[256];
    snprintf(text, sizeof text,
             "content of file %llu on device %llu, %llu bytes, changed at %lld ns, modified at "
             "%lld ns",
             (unsigned long long)at->inode, (unsigned long long)at->device,
             (unsigned long long)at->file_bytes, (long long)at->changed, (long long)at->modified);
    return store_name_text(kept->ctx, STORE_SOURCE, text, out_key);
}

/* True if all files with external data are those of the record. */
static bool has_files(const onnx_kept_t *kept, int n, const kept_file_t *files)
{
    for (int i = 0; i < n; i++) {
        file_range_t now;
        bool is_all_settled = true;
        if (memchr(files[i].location, '\0', KEPT_LOCATION_MAX) == NULL ||
            !identify_external(kept, files[i].location, &now, &is_all_settled) || !is_all_settled ||
            !is_same(&now, &files[i].identity))
            return false;
    }
    return true;
}

static bool read_record(onnx_kept_t *kept, const file_mapping_t *bytes)
{
    const record_t *record = file_bytes(bytes);
    const size_t n_bytes = file_size(bytes);
    if (n_bytes < sizeof *record || record->n != (n_bytes - sizeof *record) / sizeof(kept_file_t) ||
        !has_files(kept, (int)record->n, (const kept_file_t *)(const void *)(record + 1)))
        return false;
    memcpy(kept->content, record->content, sizeof kept->content);
    return true;
}

static void find(onnx_kept_t *kept);

void kept_recall(onnx_kept_t *kept)
{
    store_key_t key;
    kept->is_settled = true;
    if (!identify_main(kept, &kept->main, &kept->is_settled) || !kept->is_settled ||
        !name_record(kept, &key))
        return;
    file_mapping_t *bytes = store_find_bytes(kept->ctx, &key);
    if (bytes != NULL && read_record(kept, bytes))
        find(kept);
    else if (bytes != NULL) /* an external file has changed; kept_add writes a new record */
        store_remove(kept->ctx, &key);
    file_release(bytes);
}

static status_t add_record(const onnx_kept_t *kept, const store_key_t *key)
{
    const size_t n_files = (size_t)kept->n_files * sizeof *kept->files;
    const size_t n_bytes = sizeof(record_t) + n_files;
    const tensor_info_t info = info_dense(DTYPE_U8, 1, (int64_t[]){(int64_t)n_bytes});
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(tensor_make_of(kept->ctx, &info, n_bytes, 0, &tensor, &bytes));
    record_t *record = bytes;
    *record = (record_t){.n = (uint64_t)kept->n_files};
    memcpy(record->content, kept->content, sizeof record->content);
    if (n_files > 0) memcpy(record + 1, kept->files, n_files);
    store_put_all(kept->ctx, key, 1, &tensor);
    tensor_drop(tensor);
    return STATUS_OK;
}

/* ---- the content ---- */

#define PIECE_BYTES ((size_t)4 << 20)

/* Reads and hashes a file in pieces, so that it takes little memory. */
static status_t hash_file(context_t *ctx, int file, uint64_t *out_hash)
{
    char *piece = NULL;
    TRY(context_get(ctx, PIECE_BYTES + 2 * sizeof *out_hash, "a part of a file", &piece));
    ssize_t n = 1;
    memset(out_hash, 0, 2 * sizeof *out_hash);
    for (off_t at = 0; n > 0; at += n) { /* each hash includes the one before */
        memcpy(piece, out_hash, 2 * sizeof *out_hash);
        n = interrupt_check(ctx, "external data") == STATUS_OK
                ? pread(file, piece + 2 * sizeof *out_hash, PIECE_BYTES, at)
                : -1;
        if (n > 0 && !store_hash_bytes(ctx, piece, (size_t)n + 2 * sizeof *out_hash, out_hash))
            n = -1;
    }
    context_put(ctx, piece);
    return n == 0 ? STATUS_OK : STATUS_IO;
}

static bool hash_external(const onnx_kept_t *kept, const char *location, uint64_t *out_hash)
{
    const int file = open_external(kept, location);
    if (file < 0) return false;
    scope_attempt(kept->ctx);
    const status_t status = scope_attempt_end(kept->ctx, hash_file(kept->ctx, file, out_hash),
                                              true);
    close(file);
    return status == STATUS_OK;
}

/* False if the model is too large for the store, so that hashing its data would be in vain. */
static bool fits_store(const onnx_kept_t *kept)
{
    uint64_t n_bytes = 0;
    for (int i = 0; i < kept->n_files; i++) n_bytes += kept->files[i].identity.file_bytes;
    return n_bytes < (uint64_t)context_store_bytes(kept->ctx);
}

static bool add_file(onnx_kept_t *kept, const char *location)
{
    for (int i = 0; i < kept->n_files; i++)
        if (strcmp(kept->files[i].location, location) == 0) return true;
    if (strlen(location) >= KEPT_LOCATION_MAX) return false;
    scope_attempt(kept->ctx);
    if (scope_attempt_end(kept->ctx,
                          context_grow(kept->ctx, &kept->files, &kept->capacity, kept->n_files + 1,
                                       sizeof *kept->files),
                          true) != STATUS_OK)
        return false;
    kept_file_t *file = &kept->files[kept->n_files++];
    *file = (kept_file_t){.location = ""};
    memcpy(file->location, location, strlen(location) + 1);
    return identify_external(kept, location, &file->identity, &kept->is_settled) &&
           fits_store(kept) && hash_external(kept, location, file->hash);
}

static bool add_files_of(onnx_kept_t *kept, const ProtobufCMessage *message);

static bool add_tensor(onnx_kept_t *kept, const Onnx__TensorProto *proto)
{
    if (proto->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) return true;
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        if (entry->key != NULL && entry->value != NULL && strcmp(entry->key, "location") == 0 &&
            !add_file(kept, entry->value))
            return false;
    }
    return true;
}

/* Visits the messages of a field. */
static bool add_field(onnx_kept_t *kept, const ProtobufCMessage *message,
                      const ProtobufCFieldDescriptor *field)
{
    const char *at = (const char *)message + field->offset;
    const void *quantifier = (const char *)message + field->quantifier_offset;
    if (field->type != PROTOBUF_C_TYPE_MESSAGE) return true;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        ProtobufCMessage *const *items = *(ProtobufCMessage *const *const *)(const void *)at;
        for (size_t i = 0, n = *(const size_t *)quantifier; i < n; i++)
            if (!add_files_of(kept, items[i])) return false;
        return true;
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0 &&
        *(const uint32_t *)quantifier != field->id)
        return true;
    const ProtobufCMessage *item = *(const ProtobufCMessage *const *)(const void *)at;
    return item == NULL || add_files_of(kept, item);
}

/* Finds all files with external data that a message names. The depth is limited, since
 * onnx_wire_check accepted the message. */
static bool add_files_of(onnx_kept_t *kept, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *kind = message->descriptor;
    if (kind == &onnx__tensor_proto__descriptor)
        return add_tensor(kept, (const Onnx__TensorProto *)(const void *)message);
    for (unsigned i = 0; i < kind->n_fields; i++)
        if (!add_field(kept, message, &kind->fields[i])) return false;
    return true;
}

/* ---- searching ---- */

static void print_text(const onnx_kept_t *kept, char *out_text)
{
    snprintf(out_text, KEPT_TEXT_MAX, "ONNX model %016llx%016llx, options %016llx%016llx",
             (unsigned long long)kept->content[1], (unsigned long long)kept->content[0],
             (unsigned long long)kept->options[1], (unsigned long long)kept->options[0]);
}

static void find(onnx_kept_t *kept)
{
    char text[KEPT_TEXT_MAX];
    print_text(kept, text);
    kept->found = kept_find(kept->ctx, text);
}

void kept_see_bytes(onnx_kept_t *kept, const void *bytes, size_t n_bytes)
{
    kept->is_known = store_hash_bytes(kept->ctx, bytes, n_bytes, kept->bytes);
}

void kept_see_model(onnx_kept_t *kept, onnx_t *onnx)
{
    if (!kept->is_known) return;
    kept->is_known = add_files_of(kept, &onnx->model->base);
    uint64_t all[2][2] = {{kept->bytes[0], kept->bytes[1]}};
    if (kept->n_files > 0) /* hashes each file's location and content, but not its identity */
        for (int i = 0; i < kept->n_files && kept->is_known; i++) {
            kept_file_t file = kept->files[i];
            uint64_t chain[2][2];
            memset(&file.identity, 0, sizeof file.identity);
            (void)store_hash_bytes(kept->ctx, &file, sizeof file, chain[1]);
            memcpy(chain[0], all[0], sizeof chain[0]);
            (void)store_hash_bytes(kept->ctx, chain, sizeof chain, all[0]);
        }
    memcpy(kept->content, all[0], sizeof kept->content);
    if (kept->is_known) find(kept);
}

/* True if no file has changed since it was hashed. Files that may change without another identity
 * are hashed again; the model's own file is not, because the bytes that were hashed are those that
 * were imported. */
static bool is_stable(const onnx_kept_t *kept)
{
    for (int i = 0; i < kept->n_files; i++) {
        const kept_file_t *file = &kept->files[i];
        file_range_t now;
        uint64_t hash[2];
        bool is_all_settled = true;
        if (!identify_external(kept, file->location, &now, &is_all_settled) ||
            !is_same(&now, &file->identity))
            return false;
        if (!kept->is_settled && (!hash_external(kept, file->location, hash) ||
                                  memcmp(hash, file->hash, sizeof hash) != 0))
            return false;
    }
    return true;
}

void kept_add(onnx_kept_t *kept, module_t *frozen)
{
    char text[KEPT_TEXT_MAX];
    file_range_t now;
    store_key_t key;
    if (!kept->is_known || !is_stable(kept)) return;
    print_text(kept, text);
    if (frozen != NULL) kept_add_later(kept->ctx, frozen, text);
    bool is_all_settled = kept->is_settled;
    if (!identify_main(kept, &now, &is_all_settled) || !is_all_settled ||
        !is_same(&now, &kept->main) || !name_record(kept, &key))
        return;
    scope_attempt(kept->ctx);
    (void)scope_attempt_end(kept->ctx, add_record(kept, &key), true);
}
