/* Detects a file's kind from its first bytes, so that a message can name it if it is the wrong
 * kind. */
#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/file/file_kind_impl.h"

static const struct {
    file_kind_t kind;
    size_t offset;
    const char *magic;
    size_t n;
    const char *name, *hint;
} kinds[] = {
    {FILE_TESSERA, 0, "TESSERA\n", 8, "a .tessera file",
     "load it with freeze_load, or rename it to end in .tessera"},
    {FILE_NPY, 0, "\x93NUMPY", 6, "a .npy file", "load it with npy_load"},
    {FILE_SAFETENSORS, 8, "{\"", 2, "a .safetensors file", "open it with safetensors_open"},
    {FILE_OTHER, 0, "version https://git-lfs", FILE_KIND_BYTES,
     "a pointer of Git LFS and not the file itself", "git lfs pull fetches the file"},
    {FILE_GGUF, 0, "GGUF", 4, "a .gguf file", "open it with gguf_open"},
    {FILE_OTHER, 0, "PK\3\4", 4, "a zip archive, as torch.save and numpy.savez write",
     "export it as ONNX, safetensors or .npy"},
    {FILE_OTHER, 0, "\x80\2", 2, "a Python pickle", "export it as ONNX, safetensors or .npy"},
    {FILE_OTHER, 0, "\x89HDF\r\n", 6, "an HDF5 file", "export it as ONNX, safetensors or .npy"},
    {FILE_OTHER, 4, "TFL3", 4, "a .tflite file", "export it as ONNX"},
    {FILE_OTHER, 0, "\x1f\x8b", 2, "a file compressed by gzip", "unpack it"},
    {FILE_OTHER, 0, "<!DOCTYPE", 9, "a page of HTML", "the download did not return a model"},
    {FILE_OTHER, 0, "<html", 5, "a page of HTML", "the download did not return a model"},
};

status_t file_check_kind(context_t *ctx, const char *op, const char *path, file_kind_t expected,
                         const void *bytes, size_t n_bytes)
{
    const char *text = bytes;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (n_bytes < kinds[i].offset + kinds[i].n ||
            memcmp(text + kinds[i].offset, kinds[i].magic, kinds[i].n) != 0)
            continue;
        if (kinds[i].kind == expected) return STATUS_OK;
        FAIL(ctx, STATUS_CORRUPT, "%s: %s has the first bytes of %s: %s", op, path, kinds[i].name,
             kinds[i].hint);
    }
    return STATUS_OK;
}
