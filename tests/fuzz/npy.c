/* Loads .npy files. Loading must fail with a message, or all elements of the tensor can be read. */
#include "tests/fuzz/fuzz.h"

#include "io/data/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    tensor_t *tensor = NULL, *copy = NULL;
    context_t *ctx = fuzz_begin(16 << 20, 1000);
    status_t status = npy_load(ctx, fuzz_file(bytes, n_bytes), &tensor);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK((status == STATUS_OK) == (tensor != NULL), "%s", status_name(status));
    if (tensor != NULL) fuzz_check_failure(ctx, tensor_clone(ctx, tensor, &copy));
    tensor_release(tensor);
    tensor_release(copy);
    fuzz_end(ctx);
    return 0;
}
