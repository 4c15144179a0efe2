/* MiniLM-L6 maps sentences to vectors, which are similar if the sentences have similar meanings. */
#ifndef EXAMPLES_MINILM_H
#define EXAMPLES_MINILM_H

#include <stddef.h>
#include <stdint.h>
#include <tessera.h>

#define MINILM_WIDTH 384   /* length of a vector */
#define MINILM_MAX_IDS 256 /* maximum number of ids of a sentence */
#define MINILM_LAYERS 6

/* Makes the module with the weights of model.safetensors. forward takes ids s64 [N][T] and a mask
 * bool [N][T], which is false after the end of a shorter sentence. It returns vectors [N][384] of
 * length 1. */
status_t minilm_load(context_t *ctx, const char *path, module_t **out_model);

/* Splits the model into two modules that share its weights: front maps ids and mask through the
 * first n_front layers to x f32 [N][T][384]; back maps x and mask through the others to vectors. So
 * a program that trains only the last layers runs front once for each sentence. The caller may
 * release the model afterwards. */
status_t minilm_split(context_t *ctx, module_t *model, int n_front, module_t **out_front,
                      module_t **out_back);

/* Maps sentences to ids, like BERT's lower-case tokenizer. vocab.txt has a word, or a piece of one,
 * on each line; the line number is its id. Text is split at blanks and punctuation, lower-cased and
 * stripped of accents; each word is then split into the longest pieces in the vocabulary
 * (WordPiece).
 *
 * Accents are removed from letters U+00C0 to U+017F (Latin-1 Supplement, Latin Extended-A), and
 * combining accents U+0300 to U+036F are removed. Unlike Python's wordpiece, this one leaves other
 * scripts unchanged: capitals of Greek or Cyrillic, and accents on other letters. */
typedef struct wordpiece wordpiece_t;

/* The caller destroys the tokenizer. On failure returns NULL, with a message in *out_error. */
wordpiece_t *wordpiece_create(const char *path, const char **out_error);
void wordpiece_destroy(wordpiece_t *wordpiece);

/* Writes the id of [CLS], those of the sentence, and that of [SEP], at most `capacity` ids, which
 * is at least 2. Returns the number of ids. */
int wordpiece_run(const wordpiece_t *wordpiece, const char *sentence, int capacity,
                  int64_t *out_ids);

#endif
