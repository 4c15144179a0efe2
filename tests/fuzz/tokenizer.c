/* Makes tokenizers of GGUF files, encodes a text and decodes its tokens. The text is the end of the
 * input. Creating must fail with a message, or every token is in the vocabulary and has a text. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "io/text/chat.h"
#include "tensor/text/text_impl.h"

enum { MAX_TOKENS = 4096, MAX_TEXT = 1024 };

static void check_utf8(const text_t *text)
{
    for (size_t i = 0; i < text->length;) {
        const int length = text_character(text->bytes + i, text->length - i);
        FUZZ_CHECK(length > 0, "byte %zu", i);
        i += (size_t)length;
    }
}

static void use(context_t *ctx, const tokenizer_t *tokenizer, const char *string)
{
    static int64_t ids[MAX_TOKENS];
    for (int i = 0; i < 4; i++) {
        const tokenizer_options_t options = {(i & 1) != 0, (i & 2) != 0};
        tensor_t *tokens = NULL;
        text_t text = text_begin(ctx);
        tokenizer_stream_t stream = {{0}, 0, false};
        fuzz_check_failure(ctx, tokenizer_encode(ctx, tokenizer, string, &options, &tokens));
        const int64_t n = tokens != NULL ? tensor_numel(tokens) : 0;
        FUZZ_CHECK(n <= MAX_TOKENS, "%lld", (long long)n);
        if (n > 0) fuzz_check_failure(ctx, tensor_read(ctx, tokens, ids, (size_t)n * 8));
        for (int64_t j = 0; j < n; j++) {
            FUZZ_CHECK(ids[j] >= 0 && ids[j] < tokenizer_count(tokenizer), "%lld",
                       (long long)ids[j]);
            fuzz_check_failure(
                ctx, tokenizer_decode(ctx, tokenizer, 1, &ids[j], (i & 1) != 0, &stream, &text));
        }
        fuzz_check_failure(ctx, tokenizer_decode(ctx, tokenizer, 0, NULL, false, &stream, &text));
        check_utf8(&text);
        text_clear(&text);
        tensor_release(tokens);
    }
    const chat_message_t message = {"user", string};
    text_t text = text_begin(ctx);
    fuzz_check_failure(ctx, chat_text(ctx, tokenizer, 1, &message, &text));
    text_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    context_t *ctx = fuzz_begin(64 << 20, 20000);
    gguf_t *file = NULL;
    tokenizer_t *tokenizer = NULL;
    char string[MAX_TEXT + 1];
    const size_t n = n_bytes < MAX_TEXT ? n_bytes : MAX_TEXT;
    if (n > 0) memcpy(string, bytes + n_bytes - n, n);
    string[n] = '\0';
    /* The last bytes of the input that are text without a zero byte. */
    const char *text = string + n;
    while (text > string && text[-1] != '\0') text--;
    status_t status = gguf_open_bytes(ctx, bytes, n_bytes, &file);
    fuzz_check_failure(ctx, status);
    if (status == STATUS_OK) {
        status = tokenizer_create(ctx, file, &tokenizer);
        fuzz_check_failure(ctx, status);
        FUZZ_CHECK((status == STATUS_OK) == (tokenizer != NULL), "%s", status_name(status));
    }
    gguf_close(file);
    if (tokenizer != NULL) use(ctx, tokenizer, text);
    tokenizer_destroy(tokenizer);
    fuzz_end(ctx);
    return 0;
}
