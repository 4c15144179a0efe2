/* Opens GGUF files. Opening must fail with a message, or all values and tensors can be read. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "io/gguf/gguf.h"

static void read_value(context_t *ctx, const gguf_t *file, const gguf_value_t *value)
{
    int64_t integer = 0;
    double number = 0;
    const char *text = NULL;
    FUZZ_CHECK(gguf_find_value(file, value->key) == value, "%s", value->key);
    fuzz_check_failure(ctx, gguf_integer(ctx, file, value->key, &integer));
    fuzz_check_failure(ctx, gguf_number(ctx, file, value->key, &number));
    fuzz_check_failure(ctx, gguf_text(ctx, file, value->key, &text));
    FUZZ_CHECK(text == NULL || strlen(text) == value->strings->n_bytes, "%s", value->key);
    for (int64_t i = 0; i < value->n; i++) {
        if (value->dtype == DTYPE_NONE)
            number += value->strings[i].n_bytes > 0 ? value->strings[i].text[0] : 0;
        else
            number += dtype_load(value->dtype, (const char *)value->elements +
                                                   (size_t)i * dtype_size(value->dtype));
    }
}

static void read_tensor(context_t *ctx, const gguf_t *file, const gguf_info_t *info)
{
    tensor_t *tensor = NULL, *copy = NULL;
    FUZZ_CHECK(gguf_find(file, info->name) == info, "%s", info->name);
    status_t status = gguf_tensor(ctx, file, info->name, &tensor);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK((status == STATUS_OK) == (tensor != NULL), "%s", status_name(status));
    if (tensor != NULL) fuzz_check_failure(ctx, tensor_clone(ctx, tensor, &copy));
    tensor_release(tensor);
    tensor_release(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    context_t *ctx = fuzz_begin(16 << 20, 20000);
    gguf_t *file = NULL;
    status_t status = gguf_open(ctx, fuzz_file(bytes, n_bytes), &file);
    fuzz_check_failure(ctx, status);
    FUZZ_CHECK((status == STATUS_OK) == (file != NULL), "%s", status_name(status));
    for (int i = 0; i < gguf_n_values(file); i++) read_value(ctx, file, gguf_value(file, i));
    for (int i = 0; i < gguf_count(file); i++) read_tensor(ctx, file, gguf_info(file, i));
    gguf_close(file);
    fuzz_end(ctx);
    return 0;
}
