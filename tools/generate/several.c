/* Answers several prompts at once: when a sequence ends, the next prompt takes its slot. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/generate/generate.h"
#include "tools/support/print.h"
#include "tools/support/session.h"

/* A prompt and its answer. */
typedef struct item {
    char *prompt;           /* owned */
    generator_t *generator; /* NULL before and after its turn */
    text_t text;
    bool is_done;
    double begin_ms;
    generate_figures_t figures;
} item_t;

typedef struct several {
    context_t *ctx;
    generator_t *first; /* its slot is not used: it only keeps the model */
    const generate_options_t *options;
    int64_t n, capacity, n_begun, n_printed;
    int n_running;
    item_t *items; /* [capacity], of which n are used */
} several_t;

/* ---- prompts ---- */

static status_t add_item(several_t *s, const char *prompt)
{
    if (s->n == s->capacity) {
        const int64_t capacity = 2 * s->capacity + 16;
        item_t *items = realloc(s->items, (size_t)capacity * sizeof *items);
        if (items == NULL) return STATUS_OUT_OF_MEMORY;
        s->items = items;
        s->capacity = capacity;
    }
    s->items[s->n] = (item_t){.prompt = strdup(prompt), .text = text_begin(s->ctx)};
    return s->items[s->n++].prompt != NULL ? STATUS_OK : STATUS_OUT_OF_MEMORY;
}

static status_t read_lines(several_t *s, const char *path)
{
    char *line = NULL;
    size_t capacity = 0;
    status_t status = STATUS_OK;
    FILE *file = fopen(path, "r");
    if (file == NULL) return context_fail(s->ctx, STATUS_IO, "%s: %s", path, strerror(errno));
    while (status == STATUS_OK && getline(&line, &capacity, file) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line != '\0') status = add_item(s, line);
    }
    if (status == STATUS_OK && ferror(file))
        status = context_fail(s->ctx, STATUS_IO, "%s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return status;
}

static status_t add_items(several_t *s)
{
    for (int i = 0; i < s->options->prompts.n; i++) TRY(add_item(s, s->options->prompts.items[i]));
    return s->options->prompts_file != NULL ? read_lines(s, s->options->prompts_file) : STATUS_OK;
}

/* ---- running ---- */

static status_t feed(several_t *s, item_t *item)
{
    const chat_message_t message = {"user", item->prompt};
    if (!s->options->chats)
        return generate_feed(s->ctx, item->generator, item->prompt, false, &item->figures);
    text_t text = text_begin(s->ctx);
    status_t status = chat_text(s->ctx, generator_tokenizer(item->generator), 1, &message, &text);
    if (status == STATUS_OK)
        status = generate_feed(s->ctx, item->generator, text_string(&text), true, &item->figures);
    text_clear(&text);
    return status;
}

static status_t begin_items(several_t *s)
{
    for (; s->n_begun < s->n && s->n_running < s->options->n_sequences; s->n_begun++) {
        item_t *item = &s->items[s->n_begun];
        TRY(generator_add(s->ctx, s->first, NULL, &item->generator));
        s->n_running++;
        TRY(feed(s, item));
        item->begin_ms = session_now_ms();
    }
    return STATUS_OK;
}

static void end_item(several_t *s, item_t *item)
{
    generator_destroy(item->generator);
    item->generator = NULL;
    item->is_done = true;
    item->figures.decode_ms = session_now_ms() - item->begin_ms;
    s->n_running--;
}

static void print_items(several_t *s)
{
    for (; s->n_printed < s->n && s->items[s->n_printed].is_done; s->n_printed++) {
        const item_t *item = &s->items[s->n_printed];
        const char *text = text_string(&item->text);
        if (!s->options->as_json) print("%s%s\n", s->options->chats ? "" : item->prompt, text);
        generate_print(s->options, &item->figures, text);
        fflush(stdout);
    }
}

static bool is_full(const several_t *s, const item_t *item)
{
    return item->figures.n_tokens >= s->options->n_tokens ||
           generator_length(item->generator) == generator_capacity(item->generator);
}

/* Chooses one token for each sequence. */
static status_t step(several_t *s, generator_t **generators, item_t **members, int64_t *tokens)
{
    int n = 0;
    for (int64_t i = s->n_printed; i < s->n_begun; i++) {
        item_t *item = &s->items[i];
        if (item->generator != NULL && is_full(s, item)) end_item(s, item);
        if (item->generator == NULL) continue;
        members[n] = item;
        generators[n++] = item->generator;
    }
    if (n == 0) return STATUS_OK;
    TRY(generator_step_all(s->ctx, n, generators, tokens));
    for (int i = 0; i < n; i++) {
        if (tokenizer_is_end(generator_tokenizer(generators[i]), tokens[i])) {
            end_item(s, members[i]);
            continue;
        }
        members[i]->figures.n_tokens++;
        TRY(generator_text(s->ctx, generators[i], &members[i]->text));
    }
    return STATUS_OK;
}

static status_t run(several_t *s, generator_t **generators, item_t **members, int64_t *tokens)
{
    while (s->n_printed < s->n) {
        TRY(begin_items(s));
        TRY(step(s, generators, members, tokens));
        print_items(s);
    }
    return STATUS_OK;
}

status_t generate_several(context_t *ctx, generator_t *generator, const generate_options_t *options)
{
    several_t s = {.ctx = ctx, .first = generator, .options = options};
    const size_t most = (size_t)options->n_sequences;
    generator_t **generators = calloc(most, sizeof *generators);
    item_t **members = calloc(most, sizeof *members);
    int64_t *tokens = calloc(most, sizeof *tokens);
    status_t status = STATUS_OUT_OF_MEMORY;
    if (generators != NULL && members != NULL && tokens != NULL) status = add_items(&s);
    if (status == STATUS_OK) status = run(&s, generators, members, tokens);
    for (int64_t i = 0; i < s.n; i++) {
        generator_destroy(s.items[i].generator);
        text_clear(&s.items[i].text);
        free(s.items[i].prompt);
    }
    free(generators);
    free(members);
    free(tokens);
    free(s.items);
    return status;
}
