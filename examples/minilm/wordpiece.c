#include "minilm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORD 100 /* in characters; longer words are unknown */

/* ---- the vocabulary ---- */

typedef struct piece {
    const char *text; /* points into the file's bytes */
    size_t length;
    int64_t id; /* line number */
} piece_t;

struct wordpiece {
    char *bytes;
    piece_t *pieces; /* sorted by text */
    size_t n;
    int64_t begin, end, unknown;
};

static int compare(const void *a, const void *b)
{
    const piece_t *one = a, *other = b;
    size_t shorter = one->length < other->length ? one->length : other->length;
    int order = memcmp(one->text, other->text, shorter);
    if (order != 0) return order;
    return (one->length > other->length) - (one->length < other->length);
}

/* Returns the id of a text; -1: it is not in the vocabulary. */
static int64_t find(const wordpiece_t *wordpiece, const char *text, size_t length)
{
    const piece_t key = {text, length, 0};
    const piece_t *found = bsearch(&key, wordpiece->pieces, wordpiece->n, sizeof key, compare);
    return found != NULL ? found->id : -1;
}

/* Returns the content of the file with a zero byte at its end, or NULL. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long n = -1;
    if (file == NULL) return NULL;
    if (fseek(file, 0, SEEK_END) == 0) n = ftell(file);
    if (n >= 0 && fseek(file, 0, SEEK_SET) == 0) bytes = malloc((size_t)n + 1);
    if (bytes != NULL && fread(bytes, 1, (size_t)n, file) != (size_t)n) {
        free(bytes);
        bytes = NULL;
    }
    if (bytes != NULL) bytes[n] = '\0';
    fclose(file);
    return bytes;
}

static bool split_lines(wordpiece_t *wordpiece)
{
    size_t n_lines = 1;
    for (const char *at = wordpiece->bytes; *at != '\0'; at++) n_lines += *at == '\n';
    wordpiece->pieces = calloc(n_lines, sizeof *wordpiece->pieces);
    if (wordpiece->pieces == NULL) return false;
    for (const char *at = wordpiece->bytes; *at != '\0';) {
        size_t length = strcspn(at, "\n"), used = length;
        if (used > 0 && at[used - 1] == '\r') used--;
        wordpiece->pieces[wordpiece->n] = (piece_t){at, used, (int64_t)wordpiece->n};
        wordpiece->n++;
        at += length + (at[length] == '\n');
    }
    qsort(wordpiece->pieces, wordpiece->n, sizeof *wordpiece->pieces, compare);
    return true;
}

wordpiece_t *wordpiece_create(const char *path, const char **out_error)
{
    wordpiece_t *wordpiece = calloc(1, sizeof *wordpiece);
    *out_error = "out of memory";
    if (wordpiece == NULL) return NULL;
    wordpiece->bytes = read_file(path);
    if (wordpiece->bytes == NULL) {
        *out_error = "the file cannot be read";
    } else if (split_lines(wordpiece)) {
        wordpiece->begin = find(wordpiece, "[CLS]", 5);
        wordpiece->end = find(wordpiece, "[SEP]", 5);
        wordpiece->unknown = find(wordpiece, "[UNK]", 5);
        if (wordpiece->begin >= 0 && wordpiece->end >= 0 && wordpiece->unknown >= 0)
            return wordpiece;
        *out_error = "the file has no lines [CLS], [SEP] and [UNK]";
    }
    wordpiece_destroy(wordpiece);
    return NULL;
}

void wordpiece_destroy(wordpiece_t *wordpiece)
{
    if (wordpiece == NULL) return;
    free(wordpiece->pieces);
    free(wordpiece->bytes);
    free(wordpiece);
}

/* ---- characters ---- */

/* Returns the character at *text and moves *text after it. Returns 0 at the end, and U+FFFD for
 * bytes that are no UTF-8. */
static uint32_t next_character(const char **text)
{
    const unsigned char *at = (const unsigned char *)*text;
    if (*at == '\0') return 0;
    int n = *at < 0x80   ? 0
            : *at < 0xc0 ? -1
            : *at < 0xe0 ? 1
            : *at < 0xf0 ? 2
            : *at < 0xf8 ? 3
                         : -1;
    uint32_t character = n < 0 ? 0xfffd : n == 0 ? *at : *at & (0x3fU >> n);
    at++;
    for (int i = 0; i < n; i++, at++) {
        if ((*at & 0xc0) != 0x80) {
            character = 0xfffd;
            break;
        }
        character = character << 6 | (*at & 0x3f);
    }
    *text = (const char *)at;
    return character;
}

static int put_character(uint32_t character, char *out)
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    int n = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    for (int i = n; i > 0; i--, character >>= 6) out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)(first[n] | character);
    return n + 1;
}

/* The characters U+00C0 to U+017F in lower case and without accents. */
static const uint16_t letters[] = {
    'a',  'a',   'a',   'a',   'a',   'a',   0xe6,  'c',   'e',   'e',  'e',   'e',   'i',   'i',
    'i',  'i',   0xf0,  'n',   'o',   'o',   'o',   'o',   'o',   0xd7, 0xf8,  'u',   'u',   'u',
    'u',  'y',   0xfe,  0xdf,  'a',   'a',   'a',   'a',   'a',   'a',  0xe6,  'c',   'e',   'e',
    'e',  'e',   'i',   'i',   'i',   'i',   0xf0,  'n',   'o',   'o',  'o',   'o',   'o',   0xf7,
    0xf8, 'u',   'u',   'u',   'u',   'y',   0xfe,  'y',   'a',   'a',  'a',   'a',   'a',   'a',
    'c',  'c',   'c',   'c',   'c',   'c',   'c',   'c',   'd',   'd',  0x111, 0x111, 'e',   'e',
    'e',  'e',   'e',   'e',   'e',   'e',   'e',   'e',   'g',   'g',  'g',   'g',   'g',   'g',
    'g',  'g',   'h',   'h',   0x127, 0x127, 'i',   'i',   'i',   'i',  'i',   'i',   'i',   'i',
    'i',  0x131, 0x133, 0x133, 'j',   'j',   'k',   'k',   0x138, 'l',  'l',   'l',   'l',   'l',
    'l',  0x140, 0x140, 0x142, 0x142, 'n',   'n',   'n',   'n',   'n',  'n',   0x149, 0x14b, 0x14b,
    'o',  'o',   'o',   'o',   'o',   'o',   0x153, 0x153, 'r',   'r',  'r',   'r',   'r',   'r',
    's',  's',   's',   's',   's',   's',   's',   's',   't',   't',  't',   't',   0x167, 0x167,
    'u',  'u',   'u',   'u',   'u',   'u',   'u',   'u',   'u',   'u',  'u',   'u',   'w',   'w',
    'y',  'y',   'y',   'z',   'z',   'z',   'z',   'z',   'z',   0x17f};

/* Returns the character in lower case and without accent; 0: the character is an accent to
 * remove. */
static uint32_t simplify(uint32_t character)
{
    if (character >= 'A' && character <= 'Z') return character - 'A' + 'a';
    if (character >= 0xc0 && character < 0x180) return letters[character - 0xc0];
    if (character >= 0x300 && character < 0x370) return 0;
    return character;
}

static bool is_blank(uint32_t character)
{
    return character == ' ' || (character >= '\t' && character <= '\r') || character == 0xa0 ||
           character == 0x1680 || (character >= 0x2000 && character <= 0x200a) ||
           character == 0x202f || character == 0x205f || character == 0x3000 ||
           character == 0x2028 || character == 0x2029;
}

static bool is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0xad ||
           character == 0xfffd || (character >= 0x200b && character <= 0x200f) ||
           (character >= 0x202a && character <= 0x202e) || character == 0xfeff;
}

static bool is_punctuation(uint32_t character)
{
    if (character < 0x80)
        return (character >= 33 && character <= 47) || (character >= 58 && character <= 64) ||
               (character >= 91 && character <= 96) || (character >= 123 && character <= 126);
    return character == 0xa1 || character == 0xa7 || character == 0xab || character == 0xb6 ||
           character == 0xb7 || character == 0xbb || character == 0xbf ||
           (character >= 0x2010 && character <= 0x2027) ||
           (character >= 0x2030 && character <= 0x205e && character != 0x2044 &&
            character != 0x2052) ||
           (character >= 0x3001 && character <= 0x3003) ||
           (character >= 0x3008 && character <= 0x3011);
}

static bool is_chinese(uint32_t character)
{
    return (character >= 0x4e00 && character <= 0x9fff) ||
           (character >= 0x3400 && character <= 0x4dbf) ||
           (character >= 0xf900 && character <= 0xfaff) ||
           (character >= 0x20000 && character <= 0x2a6df);
}

/* ---- words to pieces ---- */

typedef struct word {
    char text[4 * MAX_WORD + 4]; /* with space for a "##" prefix */
    size_t length;
    int n_characters;
} word_t;

typedef struct output {
    int n, capacity;
    int64_t *ids;
} output_t;

static void put(output_t *out, int64_t id)
{
    if (out->n < out->capacity) out->ids[out->n++] = id;
}

/* Returns the id of the longest piece that starts at `first`, and its length. Returns -1 if no
 * piece does. */
static int64_t longest(const wordpiece_t *wordpiece, const word_t *word, size_t first,
                       size_t *out_length)
{
    char text[sizeof word->text + 2] = "##";
    const size_t prefix = first > 0 ? 2 : 0;
    for (size_t length = word->length - first; length > 0; length--) {
        memcpy(text + prefix, word->text + first, length);
        int64_t id = find(wordpiece, text, prefix + length);
        *out_length = length;
        if (id >= 0) return id;
    }
    return -1;
}

static void end_word(const wordpiece_t *wordpiece, word_t *word, output_t *out)
{
    int64_t ids[4 * MAX_WORD];
    int n = 0;
    size_t length = 0;
    bool is_known = word->n_characters <= MAX_WORD;
    for (size_t at = 0; at < word->length && is_known; at += length) {
        ids[n] = longest(wordpiece, word, at, &length);
        is_known = ids[n++] >= 0;
    }
    if (word->n_characters > 0 && !is_known) put(out, wordpiece->unknown);
    for (int i = 0; i < n && is_known; i++) put(out, ids[i]);
    word->length = 0;
    word->n_characters = 0;
}

static void add_character(word_t *word, uint32_t character)
{
    if (word->n_characters++ < MAX_WORD)
        word->length += (size_t)put_character(character, word->text + word->length);
}

int wordpiece_run(const wordpiece_t *wordpiece, const char *sentence, int capacity,
                  int64_t *out_ids)
{
    output_t out = {.capacity = capacity - 1, .ids = out_ids};
    word_t word = {.length = 0};
    put(&out, wordpiece->begin);
    for (uint32_t character; (character = next_character(&sentence)) != 0;) {
        const bool is_alone = is_punctuation(character) || is_chinese(character);
        if (is_blank(character) || is_alone) end_word(wordpiece, &word, &out);
        if (is_blank(character) || is_control(character)) continue;
        character = simplify(character);
        if (character != 0) add_character(&word, character);
        if (is_alone) end_word(wordpiece, &word, &out);
    }
    end_word(wordpiece, &word, &out);
    out.capacity = capacity;
    put(&out, wordpiece->end);
    return out.n;
}
