/* Conversations as Jinja writes them with the templates of models. chat_values.py writes
 * chat_values.txt. */
#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/text/chat_impl.h"
#include "tests/support/lines.h"

#define SMOLLM2 TESSERA_SOURCE_DIR "/build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

enum { MAX_LINE = 4096, MAX_MESSAGES = 8, N_TEMPLATES = 19, N_CONVERSATIONS = 12 };

static char lines[MAX_MESSAGES][MAX_LINE];
static chat_message_t messages[MAX_MESSAGES];
static int n_messages;

static void add_message(const char *line)
{
    char *copy = lines[n_messages];
    assert_true(n_messages < MAX_MESSAGES);
    strcpy(copy, line + 2);
    char *space = strchr(copy, ' ');
    assert_non_null(space);
    *space = '\0';
    messages[n_messages++] = (chat_message_t){copy, space + 1};
}

static void conversations_are_written_as_by_jinja(void **state)
{
    static char line[MAX_LINE];
    context_t *ctx = fixture_context(state);
    const chat_template_t *known = NULL;
    int n_templates = 0, n = 0;
    FILE *file = fopen(TESSERA_SOURCE_DIR "/tests/io/text/chat_values.txt", "r");
    assert_non_null(file);
    while (lines_read(file, MAX_LINE, line)) {
        text_t text = text_begin(ctx);
        if (line[0] == '@') {
            known = chat_find_name(line + 2);
            if (known == NULL) fail_msg("%s is not known", line + 2);
            n_templates++;
        } else if (line[0] == '-') {
            add_message(line);
        } else if (line[0] == '=') {
            CHECK_OK(ctx, chat_write(ctx, known, "<BOS>", n_messages, messages, &text));
            assert_string_equal(text_string(&text), line + 2);
        } else {
            CHECK_FAILS(ctx, chat_write(ctx, known, "<BOS>", n_messages, messages, &text),
                        STATUS_INVALID_ARGUMENT, "chat_text: ");
        }
        text_clear(&text);
        if (line[0] == '=' || line[0] == 'r') n_messages = 0, n++;
    }
    fclose(file);
    assert_int_equal(n_templates, N_TEMPLATES);
    assert_int_equal(n, N_TEMPLATES * N_CONVERSATIONS);
}

static void a_template_is_recognised_by_its_hash(void **state)
{
    static const char jinja[] =
        "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
        "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt "
        "%}{{ '<|im_start|>assistant\\n' }}{% endif %}\n \n";
    context_t *ctx = fixture_context(state);
    uint64_t hash = 0;
    CHECK_OK(ctx, chat_hash(ctx, jinja, &hash));
    assert_string_equal(chat_find(hash)->name, "ChatML");
    CHECK_OK(ctx, chat_hash(ctx, jinja + 1, &hash));
    assert_null(chat_find(hash));
    for (uint64_t i = 0; i < 1000; i++) assert_null(chat_find(i));
    assert_null(chat_find_name("Qwen"));
}

static void wrong_conversations_are_refused(void **state)
{
    static const struct {
        const char *name;
        int n;
        chat_message_t messages[2];
        const char *part;
    } cases[] = {
        {"ChatML", 0, {{0}}, "the last message must be of the user"},
        {"ChatML", 1, {{"assistant", "a"}}, "the last message must be of the user"},
        {"ChatML", 1, {{"tool", "a"}}, "message 0 has role \"tool\", roles are system, user and"},
        {"ChatML",
         2,
         {{"user", "a"}, {"system", "b"}},
         "message 1 is of the system, must be first"},
        {"ChatML", 1, {{"user", "a\xff"}}, "message 0 is not UTF-8 at byte 1"},
        {"ChatML", 1, {{"user", NULL}}, "content is NULL"},
        {"ChatML", 1, {{NULL, "a"}}, "role is NULL"},
        {"Gemma", 2, {{"system", "a"}, {"user", "b"}}, "Gemma has no message of the system"},
        {"Gemma",
         2,
         {{"user", "a"}, {"user", "b"}},
         "message 1 is of the user, the template of Gemma needs one of the assistant"}};
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_t text = text_begin(ctx);
        CHECK_FAILS(ctx,
                    chat_write(ctx, chat_find_name(cases[i].name), "", cases[i].n,
                               cases[i].messages, &text),
                    STATUS_INVALID_ARGUMENT, cases[i].part);
        text_clear(&text);
        context_clear_error(ctx);
    }
}

static tokenizer_t *open_tokenizer(context_t *ctx, const char *path)
{
    gguf_t *file = NULL;
    tokenizer_t *tokenizer = NULL;
    CHECK_OK(ctx, gguf_open(ctx, path, &file));
    CHECK_OK(ctx, tokenizer_create(ctx, file, &tokenizer));
    gguf_close(file);
    return tokenizer;
}

#ifdef TESSERA_HAVE_PCRE
static void a_chat_with_smollm2(void **state)
{
    static const chat_message_t hello = {"user", "Hi"};
    context_t *ctx = fixture_context(state);
    FILE *file = fopen(SMOLLM2, "r");
    if (file == NULL) skip_without("tools/models");
    fclose(file);
    tokenizer_t *tokenizer = open_tokenizer(ctx, SMOLLM2);
    text_t text = text_begin(ctx);
    CHECK_OK(ctx, chat_text(ctx, tokenizer, 1, &hello, &text));
    assert_string_equal(text_string(&text),
                        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained "
                        "by Hugging Face<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
                        "<|im_start|>assistant\n");
    text_clear(&text);
    tokenizer_destroy(tokenizer);
}
#endif

static void a_model_without_template_cannot_chat(void **state)
{
    static const chat_message_t hello = {"user", "Hi"};
    context_t *ctx = fixture_context(state);
    tokenizer_t *tokenizer = open_tokenizer(ctx,
                                            TESSERA_SOURCE_DIR "/tests/io/text/sentences.gguf");
    text_t text = text_begin(ctx);
    CHECK_FAILS(ctx, chat_text(ctx, tokenizer, 1, &hello, &text), STATUS_UNSUPPORTED,
                "the model's file has no chat template");
    tokenizer_destroy(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(conversations_are_written_as_by_jinja),
        TEST(a_template_is_recognised_by_its_hash),
        TEST(wrong_conversations_are_refused),
#ifdef TESSERA_HAVE_PCRE
        TEST(a_chat_with_smollm2),
#endif
        TEST(a_model_without_template_cannot_chat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
