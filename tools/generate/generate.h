/* Declarations that the files of tessera generate share. */
#ifndef TESSERA_TOOLS_GENERATE_GENERATE_H
#define TESSERA_TOOLS_GENERATE_GENERATE_H

#include <tessera.h>

#include "tools/support/args.h"

#define GENERATE_NAME "generate"

typedef struct generate_options {
    args_list_t prompts;
    const char *prompts_file;
    bool chats, as_json, has_stats;
    int64_t n_tokens, n_context, n_threads, n_sequences;
    sampling_t sampling;
} generate_options_t;

/* Figures of an answer. */
typedef struct generate_figures {
    int64_t n_prompt, n_tokens; /* tokens of the prompt and of the answer */
    double prompt_ms, decode_ms;
} generate_figures_t;

/* Feeds a prompt. is_chat: the text has the form of the file's template. */
status_t generate_feed(context_t *ctx, generator_t *generator, const char *text, bool is_chat,
                       generate_figures_t *out_figures);

/* Prints figures on stderr and the text as JSON, if the options ask for them. */
void generate_print(const generate_options_t *options, const generate_figures_t *figures,
                    const char *text);

/* Answers the prompts of the options and then those of the file, one in each line. Up to
 * options->n_sequences run at a time. Texts are printed in the order of the prompts. */
status_t generate_several(context_t *ctx, generator_t *generator,
                          const generate_options_t *options);

#endif
