/* Loads .safetensors files. Loading must fail with a message, or all tensors can be read, both
 * borrowed from a mapped file and copied from memory. */
#include "tests/fuzz/fuzz.h"

#include "io/safetensors/safetensors.h"

static void read_all(context_t *ctx, const safetensors_t *file)
{
    for (int i = 0; i < safetensors_count(file); i++) {
        const safetensors_info_t *info = safetensors_info(file, i);
        tensor_t *tensor = NULL, *copy = NULL;
        FUZZ_CHECK(safetensors_find(file, info->name) == info, "%s", info->name);
        status_t status = safetensors_tensor(ctx, file, info->name, &tensor);
        fuzz_check_failure(ctx, status);
        FUZZ_CHECK((status == STATUS_OK) == (tensor != NULL), "%s", status_name(status));
        if (tensor != NULL) fuzz_check_failure(ctx, tensor_clone(ctx, tensor, &copy));
        tensor_release(tensor);
        tensor_release(copy);
    }
    for (int i = 0; i < safetensors_n_metadata(file); i++)
        FUZZ_CHECK(safetensors_metadata(file, safetensors_metadata_key(file, i)) != NULL, "%d", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    context_t *ctx = fuzz_begin(16 << 20, 20000);
    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        safetensors_t *file = NULL;
        status_t status = is_mapped ? safetensors_open(ctx, fuzz_file(bytes, n_bytes), &file)
                                    : safetensors_open_bytes(ctx, bytes, n_bytes, &file);
        fuzz_check_failure(ctx, status);
        FUZZ_CHECK((status == STATUS_OK) == (file != NULL), "%s", status_name(status));
        read_all(ctx, file);
        safetensors_close(file);
    }
    fuzz_end(ctx);
    return 0;
}
