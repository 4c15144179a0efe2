/* Models from which one part was removed: an input of a node, its last input or an attribute.
 * Importing must succeed or fail with a message. The models are those of tests/io and the ONNX
 * project's test data. */
#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/onnx/onnx.h"
#include "tests/support/onnx/onnx_data.h"

#define FOLDER TESSERA_SOURCE_DIR "/tests/io/"

enum { MAX_BYTES = 64 << 10 }; /* importing larger models takes too long */

static int n_imported, n_refused;

static void import(context_t *ctx, const Onnx__ModelProto *model)
{
    module_t *module = NULL;
    const size_t n = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = malloc(n + 1);
    assert_non_null(bytes);
    onnx__model_proto__pack(model, bytes);
    const status_t status = onnx_load_bytes(ctx, bytes, n, NULL, &module);
    if (status == STATUS_OK)
        n_imported++;
    else
        n_refused++;
    module_release(module);
    free(bytes);
}

static void take_out_inputs(context_t *ctx, const Onnx__ModelProto *model, Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++) {
        char *name = node->input[i];
        if (*name == '\0') continue;
        node->input[i] = "";
        import(ctx, model);
        node->input[i] = name;
    }
    if (node->n_input == 0) return;
    node->n_input--;
    import(ctx, model);
    node->n_input++;
}

static void take_out_attributes(context_t *ctx, const Onnx__ModelProto *model,
                                Onnx__NodeProto *node)
{
    if (node->n_attribute == 0) return;
    const size_t last = --node->n_attribute;
    Onnx__AttributeProto **attributes = node->attribute;
    for (size_t i = 0; i <= last; i++) {
        Onnx__AttributeProto *taken = attributes[i];
        attributes[i] = attributes[last];
        import(ctx, model);
        attributes[i] = taken;
    }
    node->n_attribute++;
}

static void take_out(context_t *ctx, const char *path)
{
    Onnx__ModelProto *model = onnx_data_read(ctx, &onnx__model_proto__descriptor, path);
    if (model == NULL) return; /* the folder has no model */
    if (onnx__model_proto__get_packed_size(model) <= MAX_BYTES && model->graph != NULL)
        for (size_t i = 0; i < model->graph->n_node; i++) {
            take_out_inputs(ctx, model, model->graph->node[i]);
            take_out_attributes(ctx, model, model->graph->node[i]);
        }
    onnx__model_proto__free_unpacked(model, NULL);
}

/* Takes parts out of the models at the path `file` below each entry of a folder; "": the entry. */
static void take_out_in(context_t *ctx, const char *folder, const char *file)
{
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s%s", folder, entry->d_name, file);
        take_out(ctx, path);
    }
    closedir(directory);
}

static void models_with_a_part_taken_out_are_imported_or_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    take_out_in(ctx, FOLDER "stored", "");
    take_out_in(ctx, FOLDER "exported", "");
    if (*TESSERA_ONNX_TESTDATA != '\0') {
        static const char *const folders[] = {"node", "simple", "pytorch-converted",
                                              "pytorch-operator"};
        for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
            char folder[512];
            snprintf(folder, sizeof folder, "%s/%s", TESSERA_ONNX_TESTDATA, folders[i]);
            take_out_in(ctx, folder, "/model.onnx");
        }
    }
    print_message("%d models were imported, %d refused\n", n_imported, n_refused);
    assert_true(n_imported > 100 && n_refused > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_with_a_part_taken_out_are_imported_or_refused),
    };
    return cmocka_run_group_tests_name("onnx_left_out", tests, NULL, NULL);
}
