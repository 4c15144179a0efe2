/* Forms of conversations, and how a template becomes one. */
#ifndef TESSERA_IO_TEXT_CHAT_IMPL_H
#define TESSERA_IO_TEXT_CHAT_IMPL_H

#include "io/text/chat.h"

/* How a system message is written. */
typedef enum chat_system {
    SYSTEM_MESSAGE, /* it is written like other messages */
    SYSTEM_IF_ANY,  /* written like other messages, unless it is empty */
    SYSTEM_HEADED,  /* always written, after a header */
    SYSTEM_FOLDED,  /* its text begins the first message of the user */
    SYSTEM_DROPPED,
    SYSTEM_REFUSED
} chat_system_t;

/* A message is written as: open, role, close, content, end. */
typedef struct chat_form {
    const char *open, *close, *end;
    const char *assistant; /* its name as a role; NULL: "assistant" */
} chat_form_t;

typedef struct chat_template {
    uint64_t hash; /* chat_hash of the Jinja program */
    const char *name;
    const chat_form_t *form;
    bool begins;        /* begins with the token that begins texts */
    bool trims;         /* without white space around contents */
    bool hides_thought; /* answers without their part up to </think> */
    bool alternates;    /* refuses two messages in sequence of the same role */
    chat_system_t system;
    const char *system_text; /* if there is no system message; or the header. NULL: none */
} chat_template_t;

/* Hashes a template. The two characters \n count as a line end, which they are in Jinja's strings;
 * white space at the end does not count. */
status_t chat_hash(context_t *ctx, const char *jinja, uint64_t *out_hash);

/* Find a template by its hash or by its name; NULL: unknown. */
const chat_template_t *chat_find(uint64_t hash);
const chat_template_t *chat_find_name(const char *name);

/* Appends a conversation. `begin` is the text of the token that begins texts. */
status_t chat_write(context_t *ctx, const chat_template_t *known, const char *begin, int n,
                    const chat_message_t *messages, text_t *text);

#endif
