/* tessera generate: continues a text, or answers messages, with a language model.
 *
 * The folder tools/generate contains tessera generate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"

#define NAME "generate"
#define MAX_MESSAGES 256
#define MAX_LINE 65536

typedef struct generate_options {
    const char *prompt;
    bool chats, as_json, has_stats;
    int64_t n_tokens, n_context, n_threads;
    sampling_t sampling;
} generate_options_t;

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL.gguf",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera generate model.gguf --prompt \"Once upon a time\" --tokens 100",
    .about = "Continues a text with a language model, token by token, until the model ends it.\n"
             "With --chat, the prompt is a message that the model answers. Without a prompt, each\n"
             "line of stdin is a message, and the model remembers the conversation.",
    .more = "Without sampling options, each token is the most likely one. The options apply in\n"
            "  this order: --repeat-penalty, --top-k, --top-p, --min-p, --temperature."};

typedef struct conversation {
    context_t *ctx;
    generator_t *generator;
    const generate_options_t *options;
    int n_messages;
    chat_message_t messages[MAX_MESSAGES];
    int64_t n_prompt, n_tokens; /* tokens of the last prompt and of the last answer */
    double prompt_ms, decode_ms;
} conversation_t;

/* ---- generating ---- */

static status_t feed(conversation_t *c, const char *text, bool is_chat)
{
    const tokenizer_t *tokenizer = generator_tokenizer(c->generator);
    const tokenizer_options_t options = {.parses_special = is_chat, .adds_ends = !is_chat};
    tensor_t *tokens = NULL;
    const void *data = NULL;
    REQUIRE(c->ctx, tokenizer != NULL, "the file has no tokenizer");
    TRY(tokenizer_encode(c->ctx, tokenizer, text, &options, &tokens));
    c->n_prompt = tensor_sizes(tokens)[0];
    status_t status = tensor_data(c->ctx, tokens, &data);
    if (status == STATUS_OK) status = generator_feed(c->ctx, c->generator, c->n_prompt, data);
    tensor_release(tokens);
    return status;
}

/* Appends the text of an answer, and prints it while it is made. */
static status_t answer(conversation_t *c, text_t *text)
{
    const generate_options_t *options = c->options;
    int64_t token = 0;
    size_t n_printed = 0;
    const double begin = session_now_ms();
    for (c->n_tokens = 0; c->n_tokens < options->n_tokens; c->n_tokens++) {
        if (generator_length(c->generator) == generator_capacity(c->generator)) break;
        TRY(generator_step(c->ctx, c->generator, &token));
        if (tokenizer_is_end(generator_tokenizer(c->generator), token)) break;
        TRY(generator_text(c->ctx, c->generator, text));
        if (options->as_json) continue;
        print("%s", text_string(text) + n_printed);
        fflush(stdout);
        n_printed = strlen(text_string(text));
    }
    c->decode_ms = session_now_ms() - begin;
    if (!options->as_json) print("\n");
    return STATUS_OK;
}

static double rate(int64_t n, double ms)
{
    return ms > 0.0 ? 1e3 * (double)n / ms : 0.0;
}

static void print_json_text(const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            print("\\%c", byte);
        else if (byte < 0x20)
            print("\\u%04x", byte);
        else
            print("%c", byte);
    }
}

static void print_results(const conversation_t *c, const char *text)
{
    if (c->options->has_stats)
        print_error("prompt: %lld tokens, %.1f tokens/s\nanswer: %lld tokens, %.1f tokens/s\n",
                    (long long)c->n_prompt, rate(c->n_prompt, c->prompt_ms), (long long)c->n_tokens,
                    rate(c->n_tokens, c->decode_ms));
    if (!c->options->as_json) return;
    print("{\"text\":\"");
    print_json_text(text);
    print("\",\"prompt_tokens\":%lld,\"tokens\":%lld,\"prompt_tokens_s\":%.2f,"
          "\"decode_tokens_s\":%.2f,\"first_token_ms\":%.2f}\n",
          (long long)c->n_prompt, (long long)c->n_tokens, rate(c->n_prompt, c->prompt_ms),
          rate(c->n_tokens, c->decode_ms), c->prompt_ms);
}

/* Runs a prompt, and appends the answer to `text`. */
static status_t generate(conversation_t *c, const char *prompt, bool is_chat, text_t *text)
{
    const double begin = session_now_ms();
    TRY(generator_reset(c->ctx, c->generator, NULL));
    TRY(feed(c, prompt, is_chat));
    c->prompt_ms = session_now_ms() - begin;
    TRY(answer(c, text));
    print_results(c, text_string(text));
    return STATUS_OK;
}

/* ---- conversations ---- */

static status_t add_message(conversation_t *c, const char *role, const char *content)
{
    REQUIRE(c->ctx, c->n_messages < MAX_MESSAGES, "%d messages are the most", MAX_MESSAGES);
    char *copy = malloc(strlen(content) + 1);
    if (copy == NULL) return STATUS_OUT_OF_MEMORY;
    strcpy(copy, content);
    c->messages[c->n_messages++] = (chat_message_t){role, copy};
    return STATUS_OK;
}

/* Answers a message. The prompt is the whole conversation so far. */
static status_t reply(conversation_t *c, const char *message)
{
    text_t prompt = text_begin(c->ctx), text = text_begin(c->ctx);
    status_t status = add_message(c, "user", message);
    if (status == STATUS_OK)
        status = chat_text(c->ctx, generator_tokenizer(c->generator), c->n_messages, c->messages,
                           &prompt);
    if (status == STATUS_OK) status = generate(c, text_string(&prompt), true, &text);
    if (status == STATUS_OK) status = add_message(c, "assistant", text_string(&text));
    text_clear(&prompt);
    text_clear(&text);
    return status;
}

static status_t reply_to_lines(conversation_t *c)
{
    static char line[MAX_LINE];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (*line != '\0') TRY(reply(c, line));
    }
    return STATUS_OK;
}

static status_t run_prompt(conversation_t *c)
{
    text_t text = text_begin(c->ctx);
    if (!c->options->as_json) print("%s", c->options->prompt);
    const status_t status = generate(c, c->options->prompt, false, &text);
    text_clear(&text);
    return status;
}

/* ---- command line ---- */

static bool run(const char *path, const generate_options_t *options)
{
    const context_options_t settings = {.n_threads = (int)options->n_threads};
    const generator_options_t generating = {.capacity = options->n_context,
                                            .sampling = options->sampling};
    conversation_t c = {.options = options};
    if (stop_create(&settings, &c.ctx) != STATUS_OK) return session_check(NAME, NULL, STATUS_IO);
    status_t status = generator_create(c.ctx, path, &generating, &c.generator);
    if (status == STATUS_OK && !options->chats)
        status = run_prompt(&c);
    else if (status == STATUS_OK)
        status = options->prompt != NULL ? reply(&c, options->prompt) : reply_to_lines(&c);
    const bool is_done = session_check(NAME, c.ctx, status);
    for (int i = 0; i < c.n_messages; i++) free((char *)(uintptr_t)c.messages[i].content);
    generator_destroy(c.generator);
    stop_destroy(c.ctx);
    return is_done;
}

int command_generate(int argc, char **argv)
{
    generate_options_t o = {.n_tokens = 256};
    const args_option_t table[] = {
        {"--prompt", ARGS_TEXT, &o.prompt, "TEXT", "the text to continue, or a message", 0, 0},
        {"--chat", ARGS_FLAG, &o.chats, NULL, "answer messages, with the file's chat template", 0,
         0},
        {"--tokens", ARGS_INTEGER, &o.n_tokens, "N", "maximum number of tokens of an answer (256)",
         1, 1 << 20},
        {"--context", ARGS_INTEGER, &o.n_context, "N",
         "maximum number of tokens of a sequence (the model's, at most 4096)", 1, 1 << 20},
        {"--temperature", ARGS_NUMBER, &o.sampling.temperature, "F",
         "divides logits; 0: the most likely token (0)", 0, 0},
        {"--top-k", ARGS_INTEGER, &o.sampling.top_k, "N", "only the N most likely tokens (all)", 0,
         1 << 30},
        {"--top-p", ARGS_NUMBER, &o.sampling.top_p, "F",
         "only the most likely tokens, up to this sum of probabilities (1)", 0, 0},
        {"--min-p", ARGS_NUMBER, &o.sampling.min_p, "F",
         "only tokens with at least this part of the largest probability (0)", 0, 0},
        {"--repeat-penalty", ARGS_NUMBER, &o.sampling.repeat_penalty, "F",
         "makes the last 64 tokens less likely (1)", 0, 0},
        {"--seed", ARGS_INTEGER, &o.sampling.seed, "N", "seed of the random numbers (0)", 0,
         INT32_MAX},
        option_of(OPTION_THREADS, &o.n_threads),
        {"--stats", ARGS_FLAG, &o.has_stats, NULL, "print tokens per second on stderr", 0, 0},
        {"--json", ARGS_FLAG, &o.as_json, NULL, "print one JSON object with text and rates", 0, 0},
    };
    args_list_t operands;
    int code;
    if (!args_parse(&command, table, (int)(sizeof table / sizeof table[0]), argc, argv, &operands,
                    &code))
        return code;
    if (o.prompt == NULL && !o.chats) return args_usage_error(NAME, "--prompt or --chat is needed");
    return run(operands.items[0], &o) ? EXIT_DONE : EXIT_FAILED;
}
