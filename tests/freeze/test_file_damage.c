/* Loading reports every kind of damage to a file. Run it with the address sanitizer. */
#include "freeze/freeze.h"

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/frozen_file.h"
#include "tests/support/nets/nets.h"

#define PATH "test_file_damage.tessera"
#define DAMAGED "test_file_damaged.tessera"

typedef struct sample {
    context_t *ctx;
    char *bytes;
    size_t n;
} sample_t;

static sample_t begin(void **state)
{
    sample_t sample = {.ctx = fixture_context(state)};
    module_t *net = net_residual(sample.ctx), *frozen = NULL;
    CHECK_OK(sample.ctx, freeze(sample.ctx, net, NULL, &frozen));
    CHECK_OK(sample.ctx, freeze_save(sample.ctx, frozen, PATH));
    sample.bytes = frozen_file_read(PATH, &sample.n);
    module_release(net);
    module_release(frozen);
    return sample;
}

static void end(sample_t *sample)
{
    free(sample->bytes);
    remove(PATH);
    remove(DAMAGED);
}

/* Checks that loading fails with a message containing `part`, and makes no module. */
static void check_refused(const sample_t *sample, const void *bytes, size_t n, const char *part)
{
    module_t *loaded = NULL;
    frozen_file_write(DAMAGED, bytes, n);
    status_t status = freeze_load(sample->ctx, DAMAGED, &loaded);
    if (status != STATUS_CORRUPT && status != STATUS_UNSUPPORTED)
        fail_msg("%s: %s", status_name(status), context_error(sample->ctx));
    if (strstr(context_error(sample->ctx), "freeze_load: ") == NULL ||
        strstr(context_error(sample->ctx), part) == NULL)
        fail_msg("\"%s\" has no \"%s\"", context_error(sample->ctx), part);
    assert_null(loaded);
}

static void every_flipped_bit_of_the_header_is_refused(void **state)
{
    sample_t sample = begin(state);
    for (size_t bit = 0; bit < sizeof(file_header_t) * 8; bit++) {
        sample.bytes[bit / 8] = (char)(sample.bytes[bit / 8] ^ (1 << bit % 8));
        check_refused(&sample, sample.bytes, sample.n, DAMAGED);
        sample.bytes[bit / 8] = (char)(sample.bytes[bit / 8] ^ (1 << bit % 8));
    }
    end(&sample);
}

/* Tries every length up to the end of the header and a bit of the text, then 4,000 longer ones. */
static void every_truncation_is_refused(void **state)
{
    enum { REST = 4000 };
    sample_t sample = begin(state);
    for (size_t n = 1; n < sizeof(file_header_t) + 64; n++)
        check_refused(&sample, sample.bytes, n, DAMAGED);
    for (size_t i = 0; i < REST; i++) {
        size_t first = sizeof(file_header_t) + 64;
        check_refused(&sample, sample.bytes, first + (sample.n - first) * i / REST, DAMAGED);
    }
    end(&sample);
}

static void damage_of_any_section_is_named(void **state)
{
    sample_t sample = begin(state);
    file_header_t header;
    file_machine_t machine;
    memcpy(&header, sample.bytes, sizeof header);
    memcpy(&machine, sample.bytes + header.machines.offset, sizeof machine);
    const struct {
        const file_section_t *section;
        const char *part;
    } cases[] = {{&header.text, "the text is damaged"},
                 {&header.machines, "the list of machines is damaged"},
                 {&machine.hints, "the hints of machine 0 are damaged"},
                 {&header.blobs, "the table of blobs is damaged"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        assert_true(cases[c].section->bytes > 0);
        for (int i = 0; i < 40; i++) {
            size_t at = cases[c].section->offset + (size_t)rand() % cases[c].section->bytes;
            sample.bytes[at] = (char)(sample.bytes[at] ^ (1 << i % 8));
            check_refused(&sample, sample.bytes, sample.n, cases[c].part);
            sample.bytes[at] = (char)(sample.bytes[at] ^ (1 << i % 8));
        }
    }
    end(&sample);
}

static void damage_of_a_blob_is_named(void **state)
{
    sample_t sample = begin(state);
    file_header_t header;
    memcpy(&header, sample.bytes, sizeof header);
    size_t n = header.blobs.bytes / sizeof(file_blob_t);
    assert_true(n >= 3);
    for (size_t i = 0; i < n * 20; i++) {
        file_blob_t blob;
        char part[64];
        memcpy(&blob, sample.bytes + header.blobs.offset + i % n * sizeof blob, sizeof blob);
        snprintf(part, sizeof part, "blob %zu is damaged", i % n);
        size_t at = blob.at.offset + (size_t)rand() % blob.at.bytes;
        sample.bytes[at] = (char)(sample.bytes[at] ^ 16);
        check_refused(&sample, sample.bytes, sample.n, part);
        sample.bytes[at] = (char)(sample.bytes[at] ^ 16);
    }
    end(&sample);
}

/* ---- false data with correct checksums ---- */

static void a_header_that_lies_is_refused(void **state)
{
    sample_t sample = begin(state);
    const uint64_t lies[] = {0,
                             1,
                             63,
                             UINT64_MAX,
                             UINT64_MAX - 63,
                             UINT64_C(1) << 63,
                             sample.n,
                             sample.n + 64,
                             UINT64_C(1) << 40};
    const size_t fields[] = {
        offsetof(file_header_t, text.offset),     offsetof(file_header_t, text.bytes),
        offsetof(file_header_t, machines.offset), offsetof(file_header_t, machines.bytes),
        offsetof(file_header_t, blobs.offset),    offsetof(file_header_t, blobs.bytes)};
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            if (lies[i] == 0 && fields[f] == offsetof(file_header_t, machines.bytes)) continue;
            char *bytes = malloc(sample.n);
            assert_non_null(bytes);
            memcpy(bytes, sample.bytes, sample.n);
            memcpy(bytes + fields[f], &lies[i], sizeof lies[i]);
            frozen_seal(bytes, sample.n);
            check_refused(&sample, bytes, sample.n, DAMAGED);
            free(bytes);
        }
    end(&sample);
}

/* Changes one field of blob 0 (the bytes of a constant) and corrects the checksums. */
static void check_blob_refused(const sample_t *sample, size_t field, const void *value, size_t size,
                               const char *part)
{
    file_header_t header;
    char *bytes = malloc(sample->n);
    assert_non_null(bytes);
    memcpy(bytes, sample->bytes, sample->n);
    memcpy(&header, bytes, sizeof header);
    memcpy(bytes + header.blobs.offset + field, value, size);
    frozen_seal(bytes, sample->n);
    check_refused(sample, bytes, sample->n, part);
    free(bytes);
}

static void a_blob_that_lies_is_refused(void **state)
{
    sample_t sample = begin(state);
    const int64_t sizes[] = {INT64_MAX, INT64_MIN, -1, INT64_C(1) << 62, INT64_C(1) << 33, 0, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_blob_refused(&sample, offsetof(file_blob_t, sizes), &sizes[i], 8, "blob 0");
        check_blob_refused(&sample, offsetof(file_blob_t, constant_sizes), &sizes[i], 8, "blob 0");
    }
    const uint32_t ranks[] = {13, UINT32_MAX, 3};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        check_blob_refused(&sample, offsetof(file_blob_t, rank), &ranks[i], 4, "blob 0");
        check_blob_refused(&sample, offsetof(file_blob_t, constant_rank), &ranks[i], 4, "blob 0");
    }
    const uint64_t places[] = {1, sample.n, UINT64_MAX - 63, UINT64_C(1) << 63};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        check_blob_refused(&sample, offsetof(file_blob_t, at.offset), &places[i], 8,
                           "blob 0 is outside the file");
        check_blob_refused(&sample, offsetof(file_blob_t, at.bytes), &places[i], 8,
                           "blob 0 is outside the file");
    }
    char text[FORMAT_TEXT_MAX];
    memset(text, 'a', sizeof text);
    check_blob_refused(&sample, offsetof(file_blob_t, dtype), text, 8, "blob 0 is malformed");
    check_blob_refused(&sample, offsetof(file_blob_t, dtype), "f33", 4, "unknown dtype");
    check_blob_refused(&sample, offsetof(file_blob_t, format), text, sizeof text,
                       "blob 0 is malformed");
    check_blob_refused(&sample, offsetof(file_blob_t, format), "Abcd65535a65535a", 17, "blob 0");
    const uint32_t layout = 3, opaque = FILE_OPAQUE, constant = 7;
    check_blob_refused(&sample, offsetof(file_blob_t, layout), &layout, 4, "blob 0 is malformed");
    check_blob_refused(&sample, offsetof(file_blob_t, layout), &opaque, 4,
                       "the format of blob 0 does not match its sizes");
    check_blob_refused(&sample, offsetof(file_blob_t, constant), &constant, 4,
                       "blob 0 belongs to no constant");
    end(&sample);
}

/* ---- hostile text ---- */

static void check_text_refused(const sample_t *sample, const char *text, const char *part)
{
    size_t n = 0;
    char *bytes = frozen_file_with_text(sample->bytes, sample->n, text, &n);
    check_refused(sample, bytes, n, part);
    free(bytes);
}

#define TREE                                                                                       \
    "graph module() {\n  %1 = constant() value=([\"t:\",\"a:frozen\",\"m:forward\"],"              \
    "[\"M\",[],true])\n  return %1\n}\n"

static void a_hostile_text_is_refused(void **state)
{
    sample_t sample = begin(state);
    check_text_refused(&sample, "graph", "line 1");
    check_text_refused(&sample, "graph module() {\n  return\n}\n", "malformed");
    check_text_refused(&sample, "graph module() {\n  return $0\n}\n", "malformed");
    check_text_refused(&sample, TREE, "method \"forward\" has no graph");
    check_text_refused(&sample, TREE "graph forward(%x : f32[1]) {\n  return %y\n}\n", "%y");
    check_text_refused(
        &sample, TREE "graph forward(%x : f32[1,1,1,1,1,1,1,1,1,1,1,1,1]) {\n  return %x\n}\n",
        "12 dimensions");
    check_text_refused(
        &sample, TREE "graph forward(%x : f32[9223372036854775807,4]) {\n  return %x\n}\n", "");
    check_text_refused(
        &sample,
        TREE "graph forward(%x : f32[1]) {\n  %1 = constant() value=$99999\n  return %1\n}\n",
        "$99999");
    check_text_refused(&sample,
                       TREE "graph forward(%x : f32[1]) {\n  %1 = constant() "
                            "value=$18446744073709551616\n  return %1\n}\n",
                       "");
    check_text_refused(
        &sample, TREE "graph forward(%x : f32[1]) {\n  %1 = relu(%x) : f32[2]\n  return %1\n}\n",
        "f32[2]");
    check_text_refused(&sample,
                       TREE "graph forward(%x : f32[8,8,3,3]@opaque4x576x20603x1) {\n"
                            "  %1 = relu(%x)\n  return %1\n}\n",
                       "parameter %x is f32[8,8,3,3]@opaque4x576x20603x1, must have a tag");
    check_text_refused(&sample,
                       TREE "graph forward(%x : f32[8,8,3,3]@4:lkjihgfedcba"
                            "(2,2,2,2,2,2,1,3,3,1,1,1)) {\n  %1 = relu(%x)\n  return %1\n}\n",
                       "parameter %x is f32[8,8,3,3]@4:lkjihgfedcba(");
    check_text_refused(
        &sample, TREE "graph forward(%x : f32[1]) {\n  %1 = conv2d(%x, %x, none)\n  return %1\n}\n",
        "conv2d");
    check_text_refused(&sample,
                       TREE "graph forward(%x : f32[1]) {\n  %1 = no_such_op(%x)\n  return %1\n}\n",
                       "no_such_op");
    check_text_refused(
        &sample,
        TREE "graph f(%x : f32[1]) {\n  return %x\n}\ngraph g(%x : f32[1]) {\n  return %x\n}\n",
        "a graph belongs to no method");
    const char *const trees[] = {"([\"m:forward\",\"t:\"],[true,\"M\"])",
                                 "([\"t:\",\"t:\"],[\"M\",\"M\"])",
                                 "([\"t:\"],[\"M\"])",
                                 "([\"t:\",\"a:frozen\"],[\"M\",true])",
                                 "([\"t:\",\"a:frozen\"],[\"M\",[3]])",
                                 "([\"t:\"],[3])",
                                 "([\"t:\",\"x:y\"],[\"M\",3])",
                                 "([\"t:\",\"\"],[\"M\",3])",
                                 "([\"t:\",\"p:w\"],[\"M\",3])",
                                 "([\"t:\",\"a:\"],[\"M\",3])",
                                 "([\"t:\",\"m:forward\"],[\"M\",3])",
                                 "([\"t:\"],[\"M\",3])",
                                 "([3],[\"M\"])",
                                 "([],[])",
                                 "([\"t:\",\"a:.x\"],[\"M\",3])"};
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "graph module() {\n  %%1 = constant() value=%s\n  return %%1\n}\n", trees[i]);
        check_text_refused(&sample, text, "");
    }
    end(&sample);
}

static void deep_nesting_is_refused(void **state)
{
    enum { DEPTH = 200000 };
    sample_t sample = begin(state);
    char *text = malloc(2 * DEPTH + 100);
    assert_non_null(text);
    char *at = text + sprintf(text, "graph module() {\n  %%1 = constant() value=");
    memset(at, '[', DEPTH);
    memset(at + DEPTH, ']', DEPTH);
    strcpy(at + 2 * DEPTH, "\n  return %1\n}\n");
    check_text_refused(&sample, text, "line 2");
    at = text + sprintf(text, "%sgraph forward(%%c : bool) {\n", TREE);
    for (int i = 0; i < DEPTH / 10; i++) at += sprintf(at, "if (%%c) {\n");
    check_text_refused(&sample, text, "");
    free(text);
    end(&sample);
}

/* A file has choices of the layout pass as hints. If they are wrong, the loader must search
 * again. */
static void hints_that_lie_do_no_harm(void **state)
{
    sample_t sample = begin(state);
    file_header_t header;
    file_machine_t machine;
    memcpy(&header, sample.bytes, sizeof header);
    memcpy(&machine, sample.bytes + header.machines.offset, sizeof machine);
    module_t *right = NULL;
    tensor_t *x = net_input(sample.ctx, 1), *expected = NULL;
    CHECK_OK(sample.ctx, freeze_load(sample.ctx, PATH, &right));
    CHECK_OK(sample.ctx, module_forward(sample.ctx, right, x, &expected));
    char *hints = sample.bytes + machine.hints.offset;
    size_t first = 0;
    while (hints[first] != ';') first++; /* skips the method's name */
    for (first++; hints[first] != ';';) first++;
    for (size_t i = first + 1; i < machine.hints.bytes; i++) {
        const char others[] = {'0', '1', '4', '7', 'd', '-', ' ', '\n', ';', '\0'};
        char kept = hints[i];
        hints[i] = others[i % sizeof others];
        frozen_seal(sample.bytes, sample.n);
        frozen_file_write(DAMAGED, sample.bytes, sample.n);
        module_t *loaded = NULL;
        tensor_t *actual = NULL;
        double difference = 1.0;
        CHECK_OK(sample.ctx, freeze_load(sample.ctx, DAMAGED, &loaded));
        CHECK_OK(sample.ctx, module_forward(sample.ctx, loaded, x, &actual));
        CHECK_OK(sample.ctx, tensor_max_rel_diff(sample.ctx, actual, expected, &difference));
        assert_true(difference < 1e-5);
        tensor_release(actual);
        module_release(loaded);
        hints[i] = kept;
    }
    tensor_release(x);
    tensor_release(expected);
    module_release(right);
    end(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_flipped_bit_of_the_header_is_refused),
        TEST(every_truncation_is_refused),
        TEST(damage_of_any_section_is_named),
        TEST(damage_of_a_blob_is_named),
        TEST(a_header_that_lies_is_refused),
        TEST(a_blob_that_lies_is_refused),
        TEST(a_hostile_text_is_refused),
        TEST(deep_nesting_is_refused),
        TEST(hints_that_lie_do_no_harm),
    };
    srand(7);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
