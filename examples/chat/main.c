/* A conversation with a language model. Each line of standard input is a message; the answer is
 * printed while it is generated.
 *
 *     chat build/models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
 *
 * The GGUF file has the tokenizer and the template of conversations; tools/models downloads one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tessera.h>

enum { MAX_MESSAGES = 64, MAX_LINE = 4096, MAX_TOKENS = 256 };

typedef struct conversation {
    context_t *ctx;
    generator_t *generator;
    int n; /* messages, by turns of the user and of the model */
    chat_message_t messages[MAX_MESSAGES];
} conversation_t;

static bool add(conversation_t *c, const char *role, const char *content)
{
    char *copy = malloc(strlen(content) + 1);
    if (copy == NULL || c->n == MAX_MESSAGES) {
        free(copy);
        fprintf(stderr, "chat: the conversation is too long\n");
        return false;
    }
    c->messages[c->n++] = (chat_message_t){role, strcpy(copy, content)};
    return true;
}

/* Feeds the whole conversation in the form that the model knows. */
static status_t feed(conversation_t *c)
{
    text_t prompt = text_begin(c->ctx);
    status_t status = chat_text(c->ctx, generator_tokenizer(c->generator), c->n, c->messages,
                                &prompt);
    if (status == STATUS_OK) status = generator_reset(c->ctx, c->generator, NULL);
    if (status == STATUS_OK)
        status = generator_prompt(c->ctx, c->generator, text_string(&prompt), true);
    text_clear(&prompt);
    return status;
}

/* Chooses tokens until the model ends its answer, and prints their text. */
static status_t answer(conversation_t *c, text_t *text)
{
    const tokenizer_t *tokenizer = generator_tokenizer(c->generator);
    size_t n_printed = 0;
    for (int i = 0; i < MAX_TOKENS; i++) {
        int64_t token;
        status_t status = generator_step(c->ctx, c->generator, &token);
        if (status != STATUS_OK) return status;
        if (tokenizer_is_end(tokenizer, token)) break;
        status = generator_text(c->ctx, c->generator, text);
        if (status != STATUS_OK) return status;
        fputs(text_string(text) + n_printed, stdout);
        fflush(stdout);
        n_printed = strlen(text_string(text));
    }
    putchar('\n');
    return STATUS_OK;
}

static bool reply(conversation_t *c, const char *line)
{
    text_t text = text_begin(c->ctx);
    status_t status = STATUS_OK;
    bool is_done = add(c, "user", line);
    if (is_done) status = feed(c);
    if (is_done && status == STATUS_OK) status = answer(c, &text);
    if (status != STATUS_OK) fprintf(stderr, "chat: %s\n", context_error(c->ctx));
    is_done = is_done && status == STATUS_OK && add(c, "assistant", text_string(&text));
    text_clear(&text);
    return is_done;
}

int main(int argc, char **argv)
{
    static char line[MAX_LINE];
    conversation_t c = {.n = 0};
    if (argc != 2) {
        fprintf(stderr, "usage: chat MODEL.gguf\n");
        return 2;
    }
    if (context_create(NULL, &c.ctx) != STATUS_OK) return 1;
    bool is_done = generator_create(c.ctx, argv[1], NULL, &c.generator) == STATUS_OK;
    if (!is_done) fprintf(stderr, "chat: %s\n", context_error(c.ctx));
    while (is_done && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (*line != '\0') is_done = reply(&c, line);
    }
    for (int i = 0; i < c.n; i++) free((char *)(uintptr_t)c.messages[i].content);
    generator_destroy(c.generator);
    context_destroy(c.ctx);
    return is_done ? 0 : 1;
}
