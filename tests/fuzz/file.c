/* .tessera files. Nearly every change is caught by a checksum, so inputs are loaded as they are,
 * and once more with all checksums made right; what loads is run. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "freeze/freeze_impl.h"
#include "graph/plan.h"

#define ALIGNED(n) (((n) + FREEZE_ALIGNMENT - 1) / FREEZE_ALIGNMENT * FREEZE_ALIGNMENT)

static bool is_inside(size_t size, uint64_t offset, uint64_t bytes)
{
    return offset <= size && bytes <= size - offset;
}

/* Makes the checksums and what follows from the size right. */
static void repair(uint8_t *bytes, size_t n)
{
    file_header_t header;
    if (n < sizeof header) return;
    memcpy(&header, bytes, sizeof header);
    memcpy(header.magic, FREEZE_MAGIC, sizeof header.magic);
    header.version = FREEZE_VERSION;
    header.byte_order = 0x01020304;
    header.file_bytes = n;
    if (header.n_blobs <= FREEZE_MAX_BLOBS &&
        is_inside(n, header.table_offset, header.n_blobs * sizeof(file_blob_t))) {
        for (uint64_t i = 0; i < header.n_blobs; i++) {
            file_blob_t blob;
            uint8_t *at = bytes + header.table_offset + i * sizeof blob;
            memcpy(&blob, at, sizeof blob);
            if (is_inside(n, blob.offset, blob.bytes))
                blob.checksum = file_checksum(bytes + blob.offset, blob.bytes, 0);
            memcpy(at, &blob, sizeof blob);
        }
        header.table_checksum = file_checksum(bytes + header.table_offset,
                                              header.n_blobs * sizeof(file_blob_t), 0);
    }
    if (is_inside(n, header.text_offset, header.text_bytes))
        header.text_checksum = file_checksum(bytes + header.text_offset, header.text_bytes, 0);
    header.header_checksum = file_checksum(&header, offsetof(file_header_t, header_checksum), 0);
    memcpy(bytes, &header, sizeof header);
}

static void run_methods(context_t *ctx, module_t *module)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        graph_t *graph = kind == MEMBER_METHOD ? plan_method_graph(module, name) : NULL;
        if (graph != NULL) fuzz_run_method(ctx, graph, module);
    }
}

static void load(const uint8_t *bytes, size_t n_bytes)
{
    module_t *module = NULL;
    context_t *ctx = fuzz_begin(16 << 20, 200000);
    status_t status = freeze_load(ctx, fuzz_file(bytes, n_bytes), &module);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK((status == STATUS_OK) == (module != NULL), "%s", status_name(status));
    if (module != NULL) run_methods(ctx, module);
    module_release(module);
    fuzz_end(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    uint8_t *copy = malloc(n_bytes + 1);
    FUZZ_CHECK(copy != NULL, "%zu bytes", n_bytes);
    if (n_bytes > 0) memcpy(copy, bytes, n_bytes);
    load(copy, n_bytes);
    repair(copy, n_bytes);
    load(copy, n_bytes);
    free(copy);
    return 0;
}

#ifdef TESSERA_LIBFUZZER

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n_bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t max_bytes, unsigned seed);

/* Changes the text alone, and moves what stands behind it to where it belongs. */
static size_t mutate_text(uint8_t *bytes, size_t n, size_t max)
{
    file_header_t header;
    memcpy(&header, bytes, sizeof header);
    size_t first = header.text_offset, table = header.table_offset;
    size_t n_text = header.text_bytes, n_table = header.n_blobs * sizeof(file_blob_t);
    size_t n_behind = n - table, room = max - first - n_behind;
    if (room < n_text + FREEZE_ALIGNMENT) return LLVMFuzzerMutate(bytes, n, max);
    uint8_t *behind = malloc(n_behind), *text = calloc(1, room);
    FUZZ_CHECK(behind != NULL && text != NULL, "%zu bytes", n);
    memcpy(behind, bytes + table, n_behind);
    memcpy(text, bytes + first, n_text);
    n_text = LLVMFuzzerMutate(text, n_text, room - FREEZE_ALIGNMENT);
    size_t new_table = ALIGNED(first + n_text);
    memset(text + n_text, 0, new_table - first - n_text);
    memcpy(bytes + first, text, new_table - first);
    memcpy(bytes + new_table, behind, n_behind);
    for (size_t i = 0; i < n_table; i += sizeof(file_blob_t)) {
        file_blob_t blob;
        memcpy(&blob, bytes + new_table + i, sizeof blob);
        blob.offset += new_table - table;
        memcpy(bytes + new_table + i, &blob, sizeof blob);
    }
    header.text_bytes = n_text;
    header.table_offset = new_table;
    memcpy(bytes, &header, sizeof header);
    free(behind);
    free(text);
    return new_table + n_behind;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t max_bytes, unsigned seed)
{
    file_header_t header;
    if (n_bytes < sizeof header || seed % 4 == 0)
        return LLVMFuzzerMutate(bytes, n_bytes, max_bytes);
    memcpy(&header, bytes, sizeof header);
    bool has_sections = is_inside(n_bytes, header.text_offset, header.text_bytes) &&
                        header.n_blobs <= FREEZE_MAX_BLOBS &&
                        is_inside(n_bytes, header.table_offset,
                                  header.n_blobs * sizeof(file_blob_t)) &&
                        header.text_offset + header.text_bytes <= header.table_offset;
    if (!has_sections) return LLVMFuzzerMutate(bytes, n_bytes, max_bytes);
    if (seed % 4 != 1) return mutate_text(bytes, n_bytes, max_bytes);
    /* An entry of the table; header and blobs are left to the mutation of all. */
    if (header.n_blobs == 0) return LLVMFuzzerMutate(bytes, n_bytes, max_bytes);
    size_t at = header.table_offset + seed / 4 % header.n_blobs * sizeof(file_blob_t);
    uint8_t entry[sizeof(file_blob_t)];
    memcpy(entry, bytes + at, sizeof entry);
    LLVMFuzzerMutate(entry, sizeof entry, sizeof entry);
    memcpy(bytes + at, entry, sizeof entry);
    return n_bytes;
}

#endif
