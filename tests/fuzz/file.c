/* Loads .tessera files. Checksums detect nearly every change, so each input is loaded twice: as it
 * is, and with all checksums corrected. If a file loads, its methods run. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "graph/program/plan.h"
#include "tests/support/frozen_seal.h"

#define ALIGNED(n) (((n) + FILE_ALIGNMENT - 1) / FILE_ALIGNMENT * FILE_ALIGNMENT)

/* Corrects the checksums, and the fields that depend on the file's size. */
static void repair(uint8_t *bytes, size_t n)
{
    file_header_t header;
    if (n < sizeof header) return;
    memcpy(&header, bytes, sizeof header);
    memcpy(header.magic, FILE_MAGIC, sizeof header.magic);
    header.version = FILE_VERSION;
    header.byte_order = 0x01020304;
    memcpy(bytes, &header, sizeof header);
    frozen_seal(bytes, n);
}

static void run_methods(context_t *ctx, module_t *module)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        const char *name = module_member(module, i, &kind);
        graph_t *graph = kind == MEMBER_METHOD ? graph_of(module, name) : NULL;
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
    uint8_t *copy = calloc(1, n_bytes + 1);
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

/* Returns the number of items in a section, or 0 if the section is not inside the file. */
static size_t count(const file_section_t *section, size_t n, size_t item)
{
    bool is_inside = section->offset <= n && section->bytes <= n - section->offset;
    return is_inside ? section->bytes / item : 0;
}

/* Adds `by` to the offsets of all sections after the text. */
static void move_sections(uint8_t *bytes, size_t n, file_header_t *header, size_t by)
{
    header->machines.offset += by;
    header->blobs.offset += by;
    for (size_t i = 0; i < count(&header->machines, n, sizeof(file_machine_t)); i++) {
        file_machine_t machine;
        uint8_t *at = bytes + header->machines.offset + i * sizeof machine;
        memcpy(&machine, at, sizeof machine);
        machine.hints.offset += by;
        memcpy(at, &machine, sizeof machine);
    }
    for (size_t i = 0; i < count(&header->blobs, n, sizeof(file_blob_t)); i++) {
        file_blob_t blob;
        uint8_t *at = bytes + header->blobs.offset + i * sizeof blob;
        memcpy(&blob, at, sizeof blob);
        blob.at.offset += by;
        memcpy(at, &blob, sizeof blob);
    }
}

/* Mutates only the text, and moves the sections after it if its length changes. */
static size_t mutate_text(uint8_t *bytes, size_t n, size_t max)
{
    file_header_t header;
    memcpy(&header, bytes, sizeof header);
    size_t first = header.text.offset, n_text = header.text.bytes, next = header.machines.offset;
    size_t n_behind = n - next, room = max - first - n_behind;
    if (max < first + n_behind || room < n_text + FILE_ALIGNMENT)
        return LLVMFuzzerMutate(bytes, n, max);
    uint8_t *behind = malloc(n_behind), *text = calloc(1, room);
    FUZZ_CHECK(behind != NULL && text != NULL, "%zu bytes", n);
    memcpy(behind, bytes + next, n_behind);
    memcpy(text, bytes + first, n_text);
    n_text = LLVMFuzzerMutate(text, n_text, room - FILE_ALIGNMENT);
    size_t new_next = ALIGNED(first + n_text);
    memset(text + n_text, 0, new_next - first - n_text);
    memcpy(bytes + first, text, new_next - first);
    memcpy(bytes + new_next, behind, n_behind);
    header.text.bytes = n_text;
    move_sections(bytes, new_next + n_behind, &header, new_next - next);
    memcpy(bytes, &header, sizeof header);
    free(behind);
    free(text);
    return new_next + n_behind;
}

/* Mutates one item of a table in the file. */
static size_t mutate_item(uint8_t *bytes, size_t n, size_t offset, size_t bytes_of_item)
{
    uint8_t item[sizeof(file_blob_t)];
    memcpy(item, bytes + offset, bytes_of_item);
    LLVMFuzzerMutate(item, bytes_of_item, bytes_of_item);
    memcpy(bytes + offset, item, bytes_of_item);
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n_bytes, size_t max_bytes, unsigned seed)
{
    file_header_t header;
    if (n_bytes < sizeof header || seed % 4 == 0)
        return LLVMFuzzerMutate(bytes, n_bytes, max_bytes);
    memcpy(&header, bytes, sizeof header);
    size_t n_blobs = count(&header.blobs, n_bytes, sizeof(file_blob_t));
    size_t n_machines = count(&header.machines, n_bytes, sizeof(file_machine_t));
    bool has_text = count(&header.text, n_bytes, 1) > 0 && header.machines.offset <= n_bytes &&
                    header.text.offset + header.text.bytes <= header.machines.offset;
    if (seed % 4 != 1 && has_text) return mutate_text(bytes, n_bytes, max_bytes);
    /* Mutate an item of a table. libFuzzer's own mutation is enough for header, hints and blobs. */
    size_t at = seed / 8;
    if (seed % 8 == 1 && n_machines > 0)
        return mutate_item(bytes, n_bytes,
                           header.machines.offset + at % n_machines * sizeof(file_machine_t),
                           sizeof(file_machine_t));
    if (n_blobs > 0)
        return mutate_item(bytes, n_bytes, header.blobs.offset + at % n_blobs * sizeof(file_blob_t),
                           sizeof(file_blob_t));
    return LLVMFuzzerMutate(bytes, n_bytes, max_bytes);
}

#endif
