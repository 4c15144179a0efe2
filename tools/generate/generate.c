/* tessera generate: continues a text, or answers messages, with a language model.
 *
 * The folder tools/generate contains tessera generate. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/generate/generate.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"

#define NAME GENERATE_NAME
#define MAX_MESSAGES 256
#define MAX_LINE 65536

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL.gguf",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera generate model.gguf --prompt \"Once upon a time\" --tokens 100",
    .about = "Continues a text with a language model, token by token, until the model ends it.\n"
             "With --chat, the prompt is a message that the model answers. Without a prompt, each\n"
             "line of stdin is a message, and the model remembers the conversation.\n"
             "Several prompts share each read of the weights; none sees the others.",
    .more = "Without sampling options, each token is the most likely one. The options apply in\n"
            "  this order: --repeat-penalty, --top-k, --top-p, --min-p, --temperature."};

typedef struct conversation {
    context_t *ctx;
    generator_t *generator;
    const generate_options_t *options;
    int n_messages;
    chat_message_t messages[MAX_MESSAGES];
    generate_figures_t figures; /* figures of the last answer */
} conversation_t;

/* ---- generating ---- */

status_t generate_feed(context_t *ctx, generator_t *generator, const char *text, bool is_chat,
                       generate_figures_t *out_figures)
{
    const double begin = session_now_ms();
    const int64_t before = generator_length(generator);
    TRY(generator_prompt(ctx, generator, text, is_chat));
    *out_figures = (generate_figures_t){.n_prompt = generator_length(generator) - before,
                                        .prompt_ms = session_now_ms() - begin};
    return STATUS_OK;
}

/* Appends the text of an answer, and prints it while it is made. */
static status_t answer(conversation_t *c, text_t *text)
{
    const generate_options_t *options = c->options;
    generate_figures_t *figures = &c->figures;
    int64_t token = 0;
    size_t n_printed = 0;
    const double begin = session_now_ms();
    for (; figures->n_tokens < options->n_tokens; figures->n_tokens++) {
        if (generator_length(c->generator) == generator_capacity(c->generator)) break;
        TRY(generator_step(c->ctx, c->generator, &token));
        if (tokenizer_is_end(generator_tokenizer(c->generator), token)) break;
        TRY(generator_text(c->ctx, c->generator, text));
        if (options->as_json) continue;
        print("%s", text_string(text) + n_printed);
        fflush(stdout);
        n_printed = strlen(text_string(text));
    }
    figures->decode_ms = session_now_ms() - begin;
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

void generate_print(const generate_options_t *options, const generate_figures_t *f,
                    const char *text)
{
    if (options->has_stats)
        print_error("prompt: %lld tokens, %.1f tokens/s\nanswer: %lld tokens, %.1f tokens/s\n",
                    (long long)f->n_prompt, rate(f->n_prompt, f->prompt_ms), (long long)f->n_tokens,
                    rate(f->n_tokens, f->decode_ms));
    if (!options->as_json) return;
    print("{\"text\":\"");
    print_json_text(text);
    print("\",\"prompt_tokens\":%lld,\"tokens\":%lld,\"prompt_tokens_s\":%.2f,"
          "\"decode_tokens_s\":%.2f,\"first_token_ms\":%.2f}\n",
          (long long)f->n_prompt, (long long)f->n_tokens, rate(f->n_prompt, f->prompt_ms),
          rate(f->n_tokens, f->decode_ms), f->prompt_ms);
}

/* Runs a prompt, and appends the answer to `text`. */
static status_t generate(conversation_t *c, const char *prompt, bool is_chat, text_t *text)
{
    TRY(generator_reset(c->ctx, c->generator, NULL));
    TRY(generate_feed(c->ctx, c->generator, prompt, is_chat, &c->figures));
    TRY(answer(c, text));
    generate_print(c->options, &c->figures, text_string(text));
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
    const char *prompt = c->options->prompts.items[0];
    text_t text = text_begin(c->ctx);
    if (!c->options->as_json) print("%s", prompt);
    const status_t status = generate(c, prompt, false, &text);
    text_clear(&text);
    return status;
}

static bool has_several(const generate_options_t *options)
{
    return options->prompts.n > 1 || options->prompts_file != NULL;
}

static status_t run_one(conversation_t *c)
{
    if (!c->options->chats) return run_prompt(c);
    return c->options->prompts.n > 0 ? reply(c, c->options->prompts.items[0]) : reply_to_lines(c);
}

static bool run(const char *path, const generate_options_t *options)
{
    const context_options_t settings = {.n_threads = (int)options->n_threads};
    const generator_options_t generating = {
        .capacity = options->n_context,
        .n_sequences = has_several(options) ? (int)options->n_sequences + 1 : 1,
        .sampling = options->sampling};
    conversation_t c = {.options = options};
    if (stop_create(&settings, &c.ctx) != STATUS_OK) return session_check(NAME, NULL, STATUS_IO);
    status_t status = generator_create(c.ctx, path, &generating, &c.generator);
    if (status == STATUS_OK)
        status = has_several(options) ? generate_several(c.ctx, c.generator, options) : run_one(&c);
    const bool is_done = session_check(NAME, c.ctx, status);
    for (int i = 0; i < c.n_messages; i++) free((char *)(uintptr_t)c.messages[i].content);
    generator_destroy(c.generator);
    stop_destroy(c.ctx);
    return is_done;
}

int command_generate(int argc, char **argv)
{
    generate_options_t o = {.n_tokens = 256, .n_sequences = 16};
    const args_option_t table[] = {
        {"--prompt", ARGS_REPEATED, &o.prompts, "TEXT",
         "the text to continue, or a message; may be repeated", 0, 0},
        {"--prompts", ARGS_TEXT, &o.prompts_file, "FILE", "a file with a prompt in each line", 0,
         0},
        {"--sequences", ARGS_INTEGER, &o.n_sequences, "N", "most prompts at a time (16)", 1, 255},
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
    if (o.prompts.n == 0 && o.prompts_file == NULL && !o.chats)
        return args_usage_error(NAME, "--prompt or --chat is needed");
    return run(operands.items[0], &o) ? EXIT_DONE : EXIT_FAILED;
}
