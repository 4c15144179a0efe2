/* ONNX models whose elements are in separate files. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/onnx/onnx_model.h"

static char directory[64];

static void put_file(const char *name, const void *bytes, size_t n_bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static void put_link(const char *name, const char *to)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_int_equal(symlink(to, path), 0);
}

static void remove_directory(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", directory);
    assert_int_equal(system(command), 0);
}

static status_t load_external(context_t *ctx, const char *location, const char *offset,
                              module_t **out)
{
    static Onnx__StringStringEntryProto entries[2];
    static Onnx__StringStringEntryProto *list[2] = {&entries[0], &entries[1]};
    static char names[2][64] = {"location", "offset"}, values[2][128];
    char path[128];
    snprintf(values[0], sizeof values[0], "%s", location);
    snprintf(values[1], sizeof values[1], "%s", offset);
    for (int i = 0; i < 2; i++) {
        onnx__string_string_entry_proto__init(&entries[i]);
        entries[i].key = names[i];
        entries[i].value = values[i];
    }
    begin_model(13, DIMS(2));
    Onnx__TensorProto *tensor = maker_initializer(&maker, "w", FLOAT, DIMS(2), NULL, 0);
    tensor->has_raw_data = false;
    tensor->has_data_location = true;
    tensor->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    tensor->n_external_data = 2;
    tensor->external_data = list;
    maker_node(&maker, "Add", "", "x w", "y");
    size_t n_bytes = 0;
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    put_file("model.onnx", bytes, n_bytes);
    free(bytes);
    snprintf(path, sizeof path, "%s/model.onnx", directory);
    return onnx_load(ctx, path, NULL, out);
}

static void data_beside_the_model_is_read_and_none_outside(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    char target[128], link_path[128];
    strcpy(directory, "/tmp/tessera_onnx_XXXXXX");
    assert_non_null(mkdtemp(directory));
    put_file("weights.bin", model_ramp, 16);
    snprintf(target, sizeof target, "%s/weights.bin", directory);
    snprintf(link_path, sizeof link_path, "%s/link.bin", directory);
    assert_int_equal(symlink("weights.bin", link_path), 0);
    put_link("outside", "/etc/passwd");
    put_link("loop", "loop");
    snprintf(link_path, sizeof link_path, "%s/sub", directory);
    assert_int_equal(mkdir(link_path, 0700), 0);

    CHECK_OK(ctx, load_external(ctx, "weights.bin", "8", &model));
    check_model_result(ctx, model, 2, (const float[]){1 + 3, 2 + 4});
    module_release(model);
    model = NULL;
    CHECK_FAILS(ctx, load_external(ctx, "weights.bin", "12", &model), STATUS_CORRUPT,
                "8 bytes at 12 of \"weights.bin\", which has 16");
    CHECK_FAILS(ctx, load_external(ctx, "weights.bin", "x", &model), STATUS_CORRUPT,
                "external offset \"x\"");
    for (int i = 0; i < 4; i++) {
        static const char *const inside[] = {"./weights.bin", ".//weights.bin",
                                             "sub/../weights.bin", "link.bin"};
        CHECK_OK(ctx, load_external(ctx, inside[i], "8", &model));
        check_model_result(ctx, model, 2, (const float[]){1 + 3, 2 + 4});
        module_release(model);
        model = NULL;
    }
    const struct {
        const char *location, *why;
    } refused[] = {
        {target, "a path from the model's folder is needed"},
        {"", "a path from the model's folder is needed"},
        {"../weights.bin", "No such file or directory"},
        {"a/../../weights.bin", "No such file or directory"},
        {"outside", "leads out of the model's folder"},
        {"../../etc/passwd", "external data \"../../etc/passwd\", leads out of the model's folder"},
        {"loop", "Too many levels of symbolic links"},
        {"sub", "is not a regular file"},
        {".", "leads out of the model's folder"}};
    for (int i = 0; i < 9; i++)
        CHECK_FAILS(ctx, load_external(ctx, refused[i].location, "0", &model), STATUS_IO,
                    refused[i].why);
    CHECK_FAILS(ctx, load_model_batch(ctx, 1, &model), STATUS_UNSUPPORTED,
                "a model in memory has no files beside it");
    assert_null(model);

    remove_directory();
}

/* A download cache stores a model's files as links to files named by hash. All of these are in one
 * folder, "blobs". */
static void data_of_a_model_in_a_cache_is_read(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *model = NULL;
    char path[256];
    const char *const root = directory;
    strcpy(directory, "/tmp/tessera_onnx_XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "mkdir -p %s/blobs %s/snapshots/1/onnx", root, root);
    assert_int_equal(system(path), 0);
    CHECK_FAILS(ctx, load_external(ctx, "model.onnx_data", "0", &model), STATUS_IO, "No such file");
    snprintf(path, sizeof path, "mv %s/model.onnx %s/blobs/5f", root, root);
    assert_int_equal(system(path), 0);
    put_file("blobs/8a", model_ramp, 16);
    put_file("elsewhere", model_ramp, 16);
    put_link("snapshots/1/onnx/model.onnx", "../../../blobs/5f");
    put_link("snapshots/1/onnx/model.onnx_data", "../../../blobs/8a");
    snprintf(path, sizeof path, "%s/snapshots/1/onnx/model.onnx", root);
    CHECK_OK(ctx, onnx_load(ctx, path, NULL, &model));
    check_model_result(ctx, model, 2, (const float[]){1 + 1, 2 + 2});
    module_release(model);
    model = NULL;
    snprintf(path, sizeof path, "%s/snapshots/1/onnx/model.onnx_data", root);
    unlink(path);
    put_link("snapshots/1/onnx/model.onnx_data", "../../../elsewhere");
    snprintf(path, sizeof path, "%s/snapshots/1/onnx/model.onnx", root);
    CHECK_FAILS(ctx, onnx_load(ctx, path, NULL, &model), STATUS_IO,
                "leads out of the model's folder");
    remove_directory();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(data_beside_the_model_is_read_and_none_outside),
        TEST(data_of_a_model_in_a_cache_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
