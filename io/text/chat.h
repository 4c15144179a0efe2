/* Writes a conversation as the text that a chat model was trained on.
 *
 * A GGUF file contains the form of this text as a template in the language Jinja. Tessera does not
 * run templates: it recognises those of SmolLM2, Qwen 2.5 and 3, Llama 3 to 3.3, Gemma 1 to 3, Phi
 * 3 to 4, LFM2, MiMo and plain ChatML by their hashes, and writes the same text. Others are
 * UNSUPPORTED. */
#ifndef TESSERA_IO_TEXT_CHAT_H
#define TESSERA_IO_TEXT_CHAT_H

#include "io/text/tokenizer.h"

typedef struct chat_message {
    const char *role; /* "system" (first message only), "user" or "assistant" */
    const char *content;
} chat_message_t;

/* Appends the text of a conversation, up to where the model's answer begins. Encode it with
 * parses_special, and without adds_ends: the text has the token that begins it.
 *
 * messages  the last one is the user's
 *
 * UNSUPPORTED       the model has no chat template, or one that is not known
 * INVALID_ARGUMENT  other roles; content that is not UTF-8; messages in an order that the model
 *                   does not know */
status_t chat_text(context_t *ctx, const tokenizer_t *tokenizer, int n,
                   const chat_message_t *messages, text_t *text) TESSERA_API(chat_text);

#endif
