/* MiniLM-L6: sentences to vectors, of which similar sentences have similar ones. */
#ifndef EXAMPLES_MINILM_H
#define EXAMPLES_MINILM_H

#include <stddef.h>
#include <stdint.h>
#include <tessera.h>

#define MINILM_WIDTH 384   /* numbers of a vector */
#define MINILM_MAX_IDS 256 /* of a sentence */
#define MINILM_LAYERS 6

/* The module with the weights of a file model.safetensors. forward takes ids s64 [N][T] and a mask
 * bool [N][T], false behind the end of a shorter sentence, and gives vectors [N][384] of length 1.
 */
status_t minilm_load(context_t *ctx, const char *path, module_t **out_model);

/* Two modules on the model's weights: front takes ids and mask through the first n_front layers to
 * x f32 [N][T][384]; back takes x and mask through the others to vectors. Who trains the last
 * layers runs the front once for each sentence. The model may be released. */
status_t minilm_split(context_t *ctx, module_t *model, int n_front, module_t **out_front,
                      module_t **out_back);

/* Sentences to ids by the words and pieces of words in a file vocab.txt, one a line, as BERT's
 * tokenizer for lower case has it: words between blanks and punctuation in lower case and without
 * accents, each cut into the longest pieces that there are.
 *
 * Accents go from letters of U+00C0 to U+017F (Latin-1 Supplement, Latin Extended-A) and where they
 * stand alone (U+0300 to U+036F). Letters of other scripts stay as they are: capitals of Greek or
 * Cyrillic and accents inside other letters are not changed, which Python's tokenizer does. */
typedef struct tokenizer tokenizer_t;

/* NULL with a text in *out_error. The caller destroys. */
tokenizer_t *tokenizer_create(const char *path, const char **out_error);
void tokenizer_destroy(tokenizer_t *tokenizer);

/* [CLS] ids.. [SEP]; what is too much for `capacity` (at least 2) is cut off. Gives how many. */
int tokenizer_run(const tokenizer_t *tokenizer, const char *sentence, int capacity,
                  int64_t *out_ids);

#endif
