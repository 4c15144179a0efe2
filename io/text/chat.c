/* Known chat templates, and how they write a conversation. */
#include "io/text/chat.h"

#include <inttypes.h>
#include <string.h>

#include "io/text/chat_impl.h"
#include "io/text/tokenizer_impl.h"
#include "tensor/file/file.h"
#include "tensor/text/text_impl.h"

/* ---- templates ---- */

static const chat_form_t chatml = {"<|im_start|>", "\n", "<|im_end|>\n", NULL};
static const chat_form_t llama3 = {"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>",
                                   NULL};
static const chat_form_t gemma = {"<start_of_turn>", "\n", "<end_of_turn>\n", "model"};
static const chat_form_t phi3 = {"<|", "|>\n", "<|end|>\n", NULL};
static const chat_form_t phi4 = {"<|im_start|>", "<|im_sep|>", "<|im_end|>", NULL};

/* The date in templates that write one: the date that they use if they cannot read a clock. So
 * answers can be repeated. */
#define LLAMA_HEADER "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

static const chat_template_t templates[] = {
    {.hash = 0x406244e5f006a13a,
     .name = "SmolLM2",
     .form = &chatml,
     .system_text = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
    {.hash = 0x408946d744ba89ee, .name = "ChatML", .form = &chatml},
    {.hash = 0x1d2eff7c902dbb52,
     .name = "Qwen 2.5",
     .form = &chatml,
     .system_text = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."},
    {.hash = 0xb9a7689a68255e6c, .name = "Qwen 3", .form = &chatml, .hides_thought = true},
    {.hash = 0x4c3b79d529d80e8f, .name = "Qwen 3 Coder", .form = &chatml},
    {.hash = 0x8d8f098d1593d1aa,
     .name = "LFM2",
     .form = &chatml,
     .begins = true,
     .system = SYSTEM_IF_ANY},
    {.hash = 0xfdd2579ca78d6003,
     .name = "MiMo",
     .form = &chatml,
     .system_text = "You are MiMo, an AI assistant developed by Xiaomi."},
    {.hash = 0xfaadb0599d3f8825, .name = "Llama 3", .form = &llama3, .begins = true, .trims = true},
    {.hash = 0x412d607ab29a0263,
     .name = "Llama 3.1",
     .form = &llama3,
     .begins = true,
     .trims = true,
     .system = SYSTEM_HEADED,
     .system_text = LLAMA_HEADER},
    {.hash = 0x02384b8883ae103c,
     .name = "Llama 3.2",
     .form = &llama3,
     .begins = true,
     .trims = true,
     .system = SYSTEM_HEADED,
     .system_text = LLAMA_HEADER},
    {.hash = 0xca088e209a636fbe,
     .name = "Gemma",
     .form = &gemma,
     .trims = true,
     .alternates = true,
     .system = SYSTEM_REFUSED},
    {.hash = 0xedb6b8105d3879b4,
     .name = "Gemma 2",
     .form = &gemma,
     .begins = true,
     .trims = true,
     .alternates = true,
     .system = SYSTEM_REFUSED},
    {.hash = 0xdaa268fb12f5cd53,
     .name = "Gemma 3",
     .form = &gemma,
     .begins = true,
     .trims = true,
     .alternates = true,
     .system = SYSTEM_FOLDED},
    {.hash = 0x36a72d821e8ac96f, .name = "Phi 3.5", .form = &phi3, .system = SYSTEM_IF_ANY},
    {.hash = 0x26b23770dd3f6de9,
     .name = "Phi 3 mini",
     .form = &phi3,
     .begins = true,
     .system = SYSTEM_DROPPED},
    {.hash = 0x3cb8bca17aa40f34, .name = "Phi 3 small", .form = &phi3, .begins = true},
    {.hash = 0xd14f8649ae65a8b2, .name = "Phi 3 medium", .form = &phi3, .system = SYSTEM_DROPPED},
    {.hash = 0x24a1da694c9f057c, .name = "Phi 3 vision", .form = &phi3},
    {.hash = 0xebe41069d3c97a62, .name = "Phi 4", .form = &phi4},
};

enum { N_TEMPLATES = sizeof templates / sizeof *templates };

const chat_template_t *chat_find(uint64_t hash)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (templates[i].hash == hash) return &templates[i];
    return NULL;
}

const chat_template_t *chat_find_name(const char *name)
{
    for (int i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

status_t chat_hash(context_t *ctx, const char *jinja, uint64_t *out_hash)
{
    char *text = NULL;
    size_t n = 0;
    TRY(context_get(ctx, strlen(jinja) + 1, "a chat template", &text));
    for (const char *at = jinja; *at != '\0'; at++) {
        const bool is_line_end = at[0] == '\\' && at[1] == 'n';
        text[n++] = is_line_end ? '\n' : *at;
        if (is_line_end) at++;
    }
    while (n > 0 && is_space(text[n - 1])) n--;
    *out_hash = file_checksum(text, n, 0);
    context_put(ctx, text);
    return STATUS_OK;
}

/* ---- messages ---- */

/* Unicode's white space, as Python's str.strip() removes it. */
static bool is_white(const char *at, int length)
{
    static const char *const others[] = {"\x1c",         "\x1d",         "\x1e",
                                         "\x1f",         "\xc2\x85",     "\xc2\xa0",
                                         "\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                         "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (length == 1 && is_space(*at)) return true;
    const unsigned char *bytes = (const unsigned char *)at;
    if (length == 3 && memcmp(at, "\xe2\x80", 2) == 0 && bytes[2] >= 0x80 && bytes[2] <= 0x8a)
        return true; /* U+2000 to U+200A */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i]) == (size_t)length && memcmp(at, others[i], (size_t)length) == 0)
            return true;
    return false;
}

static void append_trimmed(text_t *text, const char *content)
{
    const size_t n = strlen(content);
    size_t begin = n, end = 0;
    for (size_t i = 0; i < n;) {
        const int length = text_character(content + i, n - i);
        if (!is_white(content + i, length)) {
            if (begin == n) begin = i;
            end = i + (size_t)length;
        }
        i += (size_t)length;
    }
    if (end > begin) text_append(text, "%.*s", (int)(end - begin), content + begin);
}

/* Returns an answer without its thoughts. */
static const char *skip_thought(const char *content)
{
    static const char mark[] = "</think>";
    const char *from = content;
    for (const char *at = content; (at = strstr(at, mark)) != NULL; from = at) at += strlen(mark);
    return from != content ? from + strspn(from, "\n") : content;
}

static void append_content(const chat_template_t *known, const char *content, text_t *text)
{
    if (known->trims)
        append_trimmed(text, content);
    else
        text_append(text, "%s", content);
}

static void open_message(const chat_template_t *known, const char *role, text_t *text)
{
    const chat_form_t *form = known->form;
    if (form->assistant != NULL && strcmp(role, "assistant") == 0) role = form->assistant;
    text_append(text, "%s%s%s", form->open, role, form->close);
}

/* Writes the system message; NULL: there is none. */
static void write_system(const chat_template_t *known, const char *content, text_t *text)
{
    const bool is_empty = content == NULL || *content == '\0';
    const bool is_written = known->system == SYSTEM_HEADED ||
                            (known->system == SYSTEM_IF_ANY && !is_empty) ||
                            (known->system == SYSTEM_MESSAGE &&
                             (content != NULL || known->system_text != NULL));
    if (!is_written) return;
    open_message(known, "system", text);
    if (known->system_text != NULL && (content == NULL || known->system == SYSTEM_HEADED))
        text_append(text, "%s", known->system_text);
    if (content != NULL) append_content(known, content, text);
    text_append(text, "%s", known->form->end);
}

static status_t check_message(context_t *ctx, const chat_template_t *known,
                              const chat_message_t *messages, int i)
{
    const char *role = messages[i].role, *content = messages[i].content;
    if (role == NULL) return context_null(ctx, "chat_text", "role");
    if (content == NULL) return context_null(ctx, "chat_text", "content");
    const bool is_system = strcmp(role, "system") == 0;
    REQUIRE(ctx, is_system || strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0,
            "chat_text: message %d has role \"%.40s\", roles are system, user and assistant", i,
            role);
    REQUIRE(ctx, !is_system || i == 0, "chat_text: message %d is of the system, must be first", i);
    REQUIRE(ctx, !is_system || known->system != SYSTEM_REFUSED,
            "chat_text: the template of %s has no message of the system", known->name);
    for (size_t at = 0, n = strlen(content); at < n;) {
        const int length = text_character(content + at, n - at);
        REQUIRE(ctx, length > 0, "chat_text: message %d is not UTF-8 at byte %zu", i, at);
        at += (size_t)length;
    }
    if (!known->alternates || is_system) return STATUS_OK;
    const bool follows = i > 0 && strcmp(messages[i - 1].role, "system") != 0;
    const char *expected = !follows || strcmp(messages[i - 1].role, "user") != 0 ? "user"
                                                                                 : "assistant";
    REQUIRE(ctx, strcmp(role, expected) == 0,
            "chat_text: message %d is of the %s, the template of %s needs one of the %s", i, role,
            known->name, expected);
    return STATUS_OK;
}

status_t chat_write(context_t *ctx, const chat_template_t *known, const char *begin, int n,
                    const chat_message_t *messages, text_t *text)
{
    for (int i = 0; i < n; i++) TRY(check_message(ctx, known, messages, i));
    REQUIRE(ctx, n > 0 && strcmp(messages[n - 1].role, "user") == 0,
            "chat_text: the last message must be of the user");
    const bool has_system = strcmp(messages[0].role, "system") == 0;
    if (known->begins) text_append(text, "%s", begin);
    write_system(known, has_system ? messages[0].content : NULL, text);
    for (int i = has_system; i < n; i++) {
        const bool is_answer = strcmp(messages[i].role, "assistant") == 0;
        const char *content = messages[i].content;
        open_message(known, messages[i].role, text);
        if (i == 1 && has_system && known->system == SYSTEM_FOLDED)
            text_append(text, "%s\n\n", messages[0].content);
        if (is_answer && known->hides_thought) content = skip_thought(content);
        append_content(known, content, text);
        text_append(text, "%s", known->form->end);
    }
    open_message(known, "assistant", text);
    return text_status(text);
}

status_t chat_text(context_t *ctx, const tokenizer_t *tokenizer, int n,
                   const chat_message_t *messages, text_t *text)
{
    uint64_t hash = 0;
    char begin[64] = "";
    if (tokenizer == NULL) return context_null(ctx, "chat_text", "tokenizer");
    if (text == NULL) return context_null(ctx, "chat_text", "text");
    TRY(context_array(ctx, "chat_text", "messages", n, messages));
    const char *jinja = tokenizer_template(tokenizer);
    if (jinja == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "chat_text: the model's file has no chat template");
    TRY(chat_hash(ctx, jinja, &hash));
    const chat_template_t *known = chat_find(hash);
    if (known == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "chat_text: the chat template of the model's file (hash %016" PRIx64
             ") is none of those that are known",
             hash);
    const int64_t token = tokenizer_begin_token(tokenizer);
    if (token >= 0 && tokenizer->tokens[token].n_bytes < sizeof begin)
        memcpy(begin, tokenizer->tokens[token].text, tokenizer->tokens[token].n_bytes);
    return chat_write(ctx, known, begin, n, messages, text);
}
