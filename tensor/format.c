#include "tensor/format.h"

#include <stdio.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/grouped_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/shape.h"

/* The result of functions for NULL and for invalid ranks. */
static const format_t unchosen = {.kind = FORMAT_ANY};

static inline bool is_rank(int rank)
{
    return rank >= 0 && rank <= TENSOR_MAX_RANK;
}

/* ---- text ---- */

/* State of the parser; `at` points to the next character. */
typedef struct reader {
    context_t *ctx;
    const char *text, *at;
} reader_t;

/* Reads a number without sign or leading zeros. Returns false if there is none, or if it is above
 * `largest`. */
static bool read_number(reader_t *reader, int64_t largest, int64_t *out_number)
{
    const char *at = reader->at;
    int64_t number = 0;
    if (*at == '0' && at[1] >= '0' && at[1] <= '9') return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        int digit = *at - '0';
        if (number > (largest - digit) / 10) return false;
        number = number * 10 + digit;
    }
    if (at == reader->at) return false;
    reader->at = at;
    *out_number = number;
    return true;
}

/* Reads "{12544,1,112,1}". */
static status_t read_strides(reader_t *reader, format_t *format)
{
    format->kind = FORMAT_STRIDED;
    reader->at++;
    while (*reader->at != '}' || format->rank > 0) {
        int64_t stride;
        REQUIRE(reader->ctx, format->rank < TENSOR_MAX_RANK,
                "format: \"%s\": more than %d dimensions", reader->text, TENSOR_MAX_RANK);
        REQUIRE(reader->ctx, read_number(reader, INT64_MAX, &stride),
                "format: \"%s\": stride %d is not an integer below 2^63", reader->text,
                format->rank);
        format->strides[format->rank++] = stride;
        if (*reader->at != ',') break;
        reader->at++;
    }
    REQUIRE(reader->ctx, *reader->at == '}', "format: \"%s\": } is missing", reader->text);
    reader->at++;
    return STATUS_OK;
}

/* Reads an order of dimensions such as "aBcd". out_split: bits of the dimensions with capital
 * letters. */
static status_t read_order(reader_t *reader, format_t *format, unsigned *out_split)
{
    unsigned seen = 0, split = 0;
    for (; *reader->at != '\0' && *reader->at != '(' && (*reader->at < '0' || *reader->at > '9');
         reader->at++) {
        bool is_split = *reader->at >= 'A' && *reader->at <= 'Z';
        int d = *reader->at - (is_split ? 'A' : 'a');
        REQUIRE(reader->ctx, d >= 0 && d < TENSOR_MAX_RANK,
                "format: \"%s\": '%c' is not a dimension, must be a to %c", reader->text,
                *reader->at, 'a' + TENSOR_MAX_RANK - 1);
        REQUIRE(reader->ctx, (seen & 1u << d) == 0, "format: \"%s\": %c occurs twice", reader->text,
                'a' + d);
        seen |= 1u << d;
        if (is_split) split |= 1u << d;
        format->order[format->rank++] = (uint8_t)d;
    }
    REQUIRE(reader->ctx, seen != 0, "format: \"%s\": no dimensions", reader->text);
    for (int d = 0; d < format->rank; d++)
        REQUIRE(reader->ctx, (seen & 1u << d) != 0, "format: \"%s\": %c is missing", reader->text,
                'a' + d);
    *out_split = split;
    return STATUS_OK;
}

/* Reads blocks such as "16b16a2b". out_blocked: bits of the dimensions that have a block. */
static status_t read_blocks(reader_t *reader, format_t *format, unsigned *out_blocked)
{
    int64_t elements = 1;
    while (*reader->at != '\0' && *reader->at != '(') {
        int64_t size;
        REQUIRE(reader->ctx, read_number(reader, UINT16_MAX, &size) && size >= 2,
                "format: \"%s\": block %d is not a number from 2 to %d", reader->text,
                format->n_blocks, UINT16_MAX);
        int d = *reader->at - 'a';
        REQUIRE(reader->ctx, d >= 0 && d < format->rank,
                "format: \"%s\": block %lld has no dimension", reader->text, (long long)size);
        REQUIRE(reader->ctx, format->n_blocks < FORMAT_MAX_BLOCKS,
                "format: \"%s\": more than %d blocks", reader->text, FORMAT_MAX_BLOCKS);
        elements *= size;
        REQUIRE(reader->ctx, elements <= INT32_MAX,
                "format: \"%s\": its blocks hold more than %d elements", reader->text, INT32_MAX);
        format->block_sizes[format->n_blocks] = (uint16_t)size;
        format->block_dims[format->n_blocks++] = (uint8_t)d;
        *out_blocked |= 1u << d;
        reader->at++;
    }
    return STATUS_OK;
}

/* Reads sizes such as "(8,8,8,3,3)" after a tag. */
static status_t read_inner(reader_t *reader, format_t *format)
{
    for (int d = 0; d < format->inner_rank; d++) {
        REQUIRE(reader->ctx, *reader->at == (d > 0 ? ',' : '('),
                "format: \"%s\": %d sizes are needed in brackets", reader->text,
                format->inner_rank);
        reader->at++;
        REQUIRE(reader->ctx, read_number(reader, INT64_MAX, &format->inner[d]),
                "format: \"%s\": size %d is not an integer below 2^63", reader->text, d);
    }
    REQUIRE(reader->ctx, *reader->at == ')', "format: \"%s\": ) is missing", reader->text);
    reader->at++;
    return STATUS_OK;
}

static status_t read_tag(reader_t *reader, format_t *format)
{
    unsigned split = 0, blocked = 0;
    format->kind = FORMAT_TAG;
    TRY(read_order(reader, format, &split));
    TRY(read_blocks(reader, format, &blocked));
    for (int d = 0; d < format->rank; d++) {
        bool is_split = (split & 1u << d) != 0, is_blocked = (blocked & 1u << d) != 0;
        REQUIRE(reader->ctx, !is_split || is_blocked,
                "format: \"%s\": %c is split but has no block", reader->text, 'a' + d);
        REQUIRE(reader->ctx, is_split || !is_blocked,
                "format: \"%s\": %c has a block but is not split", reader->text, 'a' + d);
    }
    return STATUS_OK;
}

static const char opaque[] = "opaque";

/* Reads "opaque4x102400x20603x4": the rank, then words without trailing zeros. */
static status_t read_words(reader_t *reader, format_t *format)
{
    int64_t rank = 0;
    int n = 0;
    format->kind = FORMAT_OPAQUE;
    reader->at += sizeof opaque - 1;
    REQUIRE(reader->ctx, read_number(reader, TENSOR_MAX_RANK, &rank),
            "format: \"%s\": its rank is not a number up to %d", reader->text, TENSOR_MAX_RANK);
    format->rank = (uint8_t)rank;
    for (; *reader->at == 'x'; n++) {
        reader->at++;
        REQUIRE(reader->ctx, n < FORMAT_WORDS && read_number(reader, INT64_MAX, &format->words[n]),
                "format: \"%s\": word %d is not an integer below 2^63, or one too many",
                reader->text, n);
    }
    REQUIRE(reader->ctx, n >= 2, "format: \"%s\": its size and version are missing", reader->text);
    return STATUS_OK;
}

/* Reads "4:aBcde8b(8,8,8,3,3)": the tensor's rank, then the tag, and the sizes to which the tag
 * applies. */
static status_t read_regrouped(reader_t *reader, format_t *format)
{
    int64_t rank = 0;
    REQUIRE(reader->ctx, read_number(reader, TENSOR_MAX_RANK, &rank) && *reader->at == ':',
            "format: \"%s\": a rank up to %d and : are needed", reader->text, TENSOR_MAX_RANK);
    reader->at++;
    TRY(read_tag(reader, format));
    format->inner_rank = format->rank;
    TRY(read_inner(reader, format));
    format->kind = FORMAT_REGROUPED;
    format->rank = (uint8_t)rank;
    return STATUS_OK;
}

static const char offset_letters[] = "gzm"; /* in the order of grouping_offset_t */

/* Reads "u4f16z32b". */
static status_t read_grouped(reader_t *reader, format_t *format)
{
    int64_t bits = 0;
    char scale[8] = "";
    size_t n = 0;
    grouping_t grouping = {.is_signed = *reader->at++ == 's'};
    bool is_right = read_number(reader, 8, &bits);
    for (; is_right && n < sizeof scale - 1 && *reader->at != '\0'; reader->at++) {
        if (n > 0 && strchr(offset_letters, *reader->at) != NULL) break;
        scale[n++] = *reader->at;
    }
    const char *letter = is_right && *reader->at != '\0' ? strchr(offset_letters, *reader->at)
                                                         : NULL;
    is_right = letter != NULL;
    if (is_right) reader->at++;
    is_right = is_right && read_number(reader, GROUPING_MOST, &grouping.group) &&
               *reader->at >= 'a' && *reader->at < 'a' + TENSOR_MAX_RANK;
    if (is_right) {
        grouping.bits = (int)bits;
        grouping.scale = dtype_parse(scale);
        grouping.offset = (grouping_offset_t)(letter - offset_letters);
        *format = format_grouped(*reader->at++ - 'a' + 1, &grouping);
    }
    REQUIRE(
        reader->ctx, is_right && format->kind == FORMAT_GROUPED,
        "format: \"%s\": codes of 2, 4 or 8 bits, the scale's dtype, g, z or m, a group that is a "
        "multiple of %d up to %d, and the last dimension's letter are needed, as in u4f16z32b",
        reader->text, GROUPING_LEAST, GROUPING_MOST);
    return STATUS_OK;
}

status_t format_parse(context_t *ctx, const char *text, format_t *out_format)
{
    if (text == NULL) return context_null(ctx, "format", "text");
    if (out_format == NULL) return context_null(ctx, "format", "the output");
    reader_t reader = {ctx, text, text};
    format_t format = {0};
    if (*text == '{')
        TRY(read_strides(&reader, &format));
    else if (*text == '?')
        reader.at++;
    else if (strncmp(text, opaque, sizeof opaque - 1) == 0)
        TRY(read_words(&reader, &format));
    else if (*text == 's' || *text == 'u')
        TRY(read_grouped(&reader, &format));
    else if (strchr(text, ':') != NULL)
        TRY(read_regrouped(&reader, &format));
    else
        TRY(read_tag(&reader, &format));
    REQUIRE(ctx, *reader.at == '\0', "format: \"%s\": unexpected \"%s\"", text, reader.at);
    REQUIRE(ctx, strlen(text) < FORMAT_TEXT_MAX,
            "format: \"%s\": %zu characters, must be at most %d", text, strlen(text),
            FORMAT_TEXT_MAX - 1);
    *out_format = format;
    return STATUS_OK;
}

static bool has_block(const format_t *format, int d)
{
    for (int b = 0; b < format->n_blocks; b++)
        if (format->block_dims[b] == d) return true;
    return false;
}

static char *write_tag(const format_t *format, char *at)
{
    for (int i = 0; i < format->rank; i++) {
        int d = format->order[i];
        *at++ = (char)((has_block(format, d) ? 'A' : 'a') + d);
    }
    for (int b = 0; b < format->n_blocks; b++)
        at += snprintf(at, 8, "%d%c", format->block_sizes[b], 'a' + format->block_dims[b]);
    return at;
}

/* Writes numbers separated by commas, in brackets. */
static char *write_numbers(int n, const int64_t *numbers, const char *brackets, char *at)
{
    *at++ = brackets[0];
    for (int i = 0; i < n; i++)
        at += snprintf(at, 22, i > 0 ? ",%lld" : "%lld", (long long)numbers[i]);
    *at++ = brackets[1];
    return at;
}

static char *write_grouped(const format_t *format, char *at)
{
    grouping_t grouping = {0};
    format_grouping(format, &grouping);
    return at + sprintf(at, "%c%d%s%c%lld%c", grouping.is_signed ? 's' : 'u', grouping.bits,
                        dtype_name(grouping.scale), offset_letters[grouping.offset],
                        (long long)grouping.group, 'a' + format->rank - 1);
}

const char *format_text(const format_t *format, char *out_text)
{
    char *at = out_text;
    if (out_text == NULL) return "";
    if (format == NULL) format = &unchosen;
    if (format->kind == FORMAT_ANY) {
        *at++ = '?';
    } else if (format->kind == FORMAT_STRIDED) {
        at = write_numbers(format->rank, format->strides, "{}", at);
    } else if (format->kind == FORMAT_REGROUPED) {
        format_t tag = format_inner(format);
        at += snprintf(at, 8, "%d:", format->rank);
        at = write_tag(&tag, at);
        at = write_numbers(tag.rank, format->inner, "()", at);
    } else if (format->kind == FORMAT_OPAQUE) {
        int n = FORMAT_WORDS;
        while (n > 2 && format->words[n - 1] == 0) n--;
        at += sprintf(at, "%s%d", opaque, format->rank);
        for (int i = 0; i < n; i++) at += snprintf(at, 21, "x%lld", (long long)format->words[i]);
    } else if (format->kind == FORMAT_GROUPED) {
        at = write_grouped(format, at);
    } else {
        at = write_tag(format, at);
    }
    *at = '\0';
    return out_text;
}

/* ---- constructors ---- */

format_t format_plain(int rank)
{
    if (!is_rank(rank)) return unchosen;
    format_t format = {.kind = FORMAT_TAG, .rank = (uint8_t)rank};
    for (int d = 0; d < rank; d++) format.order[d] = (uint8_t)d;
    return format;
}

format_t format_channels_last(int rank)
{
    format_t format = format_plain(rank);
    if (rank < 3 || !is_rank(rank)) return format;
    for (int i = 1; i < rank - 1; i++) format.order[i] = (uint8_t)(i + 1);
    format.order[rank - 1] = 1;
    return format;
}

format_t format_channel_blocks(int rank, int block)
{
    if (rank < 2 || !is_rank(rank) || block < 2 || block > UINT16_MAX) return unchosen;
    format_t format = format_plain(rank);
    format.n_blocks = 1;
    format.block_dims[0] = 1;
    format.block_sizes[0] = (uint16_t)block;
    return format;
}

format_t format_regroup(int rank, const format_t *tag, const int64_t *inner)
{
    if (tag == NULL || inner == NULL || tag->kind != FORMAT_TAG || !is_rank(rank)) return unchosen;
    format_t format = *tag;
    format.kind = FORMAT_REGROUPED;
    format.inner_rank = tag->rank;
    format.rank = (uint8_t)rank;
    memcpy(format.inner, inner, (size_t)tag->rank * sizeof *inner);
    return format;
}

format_t format_inner(const format_t *format)
{
    if (format == NULL || format->kind != FORMAT_REGROUPED) return unchosen;
    format_t tag = *format;
    tag.kind = FORMAT_TAG;
    tag.rank = format->inner_rank;
    tag.inner_rank = 0;
    memset(tag.inner, 0, sizeof tag.inner);
    return tag;
}

/* A bit that is set if the word is a hash of an owner's name, and not a version of oneDNN. */
#define OWNER_BIT (INT64_C(1) << 62)
enum { WORD_ELEMENTS, WORD_OWNER, WORD_VERSION, WORD_NUMBERS };

format_t format_owned(int rank, int64_t elements, const char *owner, int version, int n_numbers,
                      const int64_t *numbers)
{
    if (!is_rank(rank) || elements < 0 || owner == NULL || version < 0 || n_numbers < 0 ||
        n_numbers > FORMAT_MAX_NUMBERS || (n_numbers > 0 && numbers == NULL))
        return unchosen;
    format_t format = {.kind = FORMAT_OPAQUE, .rank = (uint8_t)rank};
    uint64_t hash = hash_bytes(owner, strlen(owner), 0);
    format.words[WORD_ELEMENTS] = elements;
    format.words[WORD_OWNER] = OWNER_BIT | (int64_t)(hash & (OWNER_BIT - 1));
    format.words[WORD_VERSION] = version;
    for (int i = 0; i < n_numbers; i++) format.words[WORD_NUMBERS + i] = numbers[i];
    return format;
}

const int64_t *format_numbers(const format_t *format)
{
    bool is_owned = format != NULL && format->kind == FORMAT_OPAQUE &&
                    (format->words[WORD_OWNER] & OWNER_BIT) != 0;
    return is_owned ? &format->words[WORD_NUMBERS] : NULL;
}

/* Indices of the words of a grouped format. */
enum { WORD_BITS, WORD_SIGNED, WORD_GROUP, WORD_SCALE, WORD_OFFSET };

format_t format_grouped(int rank, const grouping_t *grouping)
{
    const grouping_t *g = grouping;
    if (rank < 1 || rank > TENSOR_MAX_RANK || g == NULL ||
        (g->bits != 2 && g->bits != 4 && g->bits != 8) || g->group < GROUPING_LEAST ||
        g->group > GROUPING_MOST || g->group % GROUPING_LEAST != 0 ||
        (g->scale != DTYPE_F32 && g->scale != DTYPE_F16 && g->scale != DTYPE_BF16) ||
        g->offset < GROUPING_NONE || g->offset > GROUPING_MINIMA)
        return unchosen;
    format_t format = {.kind = FORMAT_GROUPED, .rank = (uint8_t)rank};
    format.words[WORD_BITS] = g->bits;
    format.words[WORD_SIGNED] = g->is_signed;
    format.words[WORD_GROUP] = g->group;
    format.words[WORD_SCALE] = g->scale;
    format.words[WORD_OFFSET] = g->offset;
    return format;
}

bool format_grouping(const format_t *format, grouping_t *out_grouping)
{
    if (format == NULL || out_grouping == NULL || format->kind != FORMAT_GROUPED) return false;
    const grouping_t grouping = {.bits = (int)format->words[WORD_BITS],
                                 .is_signed = format->words[WORD_SIGNED] != 0,
                                 .group = format->words[WORD_GROUP],
                                 .scale = (dtype_t)format->words[WORD_SCALE],
                                 .offset = (grouping_offset_t)format->words[WORD_OFFSET]};
    if (format_grouped(format->rank, &grouping).kind != FORMAT_GROUPED) return false;
    *out_grouping = grouping;
    return true;
}

/* Orders dimensions by falling stride. The stride of a dimension of size 1 has no meaning; such a
 * dimension is inserted before the next higher dimension, so that the result is row-major if
 * possible. */
static format_t sort_by_stride(int rank, const int64_t *sizes, const int64_t *strides)
{
    format_t format = {.kind = FORMAT_TAG, .rank = (uint8_t)rank};
    int n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < rank; d++) {
            if ((sizes[d] == 1) != (pass == 1)) continue;
            int at = 0;
            while (at < n &&
                   (pass == 0 ? strides[format.order[at]] >= strides[d] : format.order[at] < d))
                at++;
            memmove(format.order + at + 1, format.order + at, (size_t)(n - at));
            format.order[at] = (uint8_t)d;
            n++;
        }
    }
    return format;
}

static bool has_strides(const format_t *format, const int64_t *sizes, const int64_t *strides)
{
    int64_t own[TENSOR_MAX_RANK];
    format_strides(format, sizes, own);
    for (int d = 0; d < format->rank; d++)
        if (sizes[d] != 1 && own[d] != strides[d]) return false;
    return true;
}

format_t format_of_strides(int rank, const int64_t *sizes, const int64_t *strides)
{
    if (!is_rank(rank) || (rank > 0 && (sizes == NULL || strides == NULL))) return unchosen;
    int64_t numel = 0;
    bool fits = shape_numel(rank, sizes, &numel);
    const format_t candidates[] = {format_plain(rank), format_channels_last(rank),
                                   sort_by_stride(rank, sizes, strides)};
    for (int i = 0; fits && i < 3; i++)
        if (numel == 0 || has_strides(&candidates[i], sizes, strides)) return candidates[i];

    format_t format = {.kind = FORMAT_STRIDED, .rank = (uint8_t)rank};
    if (rank > 0) memcpy(format.strides, strides, (size_t)rank * sizeof *strides);
    return format;
}

/* ---- queries ---- */

bool format_is_blocked(const format_t *format)
{
    return format != NULL && (format->n_blocks > 0 || format->kind == FORMAT_OPAQUE ||
                              format->kind == FORMAT_REGROUPED || format->kind == FORMAT_GROUPED);
}

/* For each dimension, the product of its block sizes; 1 without blocks. */
static void whole_blocks(const format_t *format, int64_t *out_blocks)
{
    for (int d = 0; d < format->rank; d++) out_blocks[d] = 1;
    for (int b = 0; b < format->n_blocks; b++)
        out_blocks[format->block_dims[b]] *= format->block_sizes[b];
}

bool format_is_padded(const format_t *format, const int64_t *sizes)
{
    if (format == NULL || format->n_blocks == 0 || format->kind != FORMAT_TAG || sizes == NULL)
        return false;
    int64_t blocks[TENSOR_MAX_RANK];
    whole_blocks(format, blocks);
    for (int d = 0; d < format->rank; d++)
        if (sizes[d] % blocks[d] != 0) return true;
    return false;
}

/* True if the format determines the offset of each element. */
static bool is_explicit(const format_t *format)
{
    return format != NULL && (format->kind == FORMAT_TAG || format->kind == FORMAT_STRIDED);
}

/* Number of blocks that cover a size; cannot overflow. */
static int64_t blocks_in(int64_t size, int64_t block)
{
    return block == 1 ? size : size / block + (size % block != 0);
}

void format_padded_sizes(const format_t *format, const int64_t *sizes, int64_t *out_sizes)
{
    if (!is_explicit(format) || sizes == NULL || out_sizes == NULL) return;
    int64_t blocks[TENSOR_MAX_RANK];
    whole_blocks(format, blocks);
    for (int d = 0; d < format->rank; d++)
        out_sizes[d] = blocks_in(sizes[d], blocks[d]) * blocks[d];
}

void format_strides(const format_t *format, const int64_t *sizes, int64_t *out_strides)
{
    if (!is_explicit(format) || sizes == NULL || out_strides == NULL) return;
    if (format->kind == FORMAT_STRIDED) {
        for (int d = 0; d < format->rank; d++) out_strides[d] = format->strides[d];
        return;
    }
    int64_t blocks[TENSOR_MAX_RANK], stride = 1;
    whole_blocks(format, blocks);
    for (int b = 0; b < format->n_blocks; b++) stride *= format->block_sizes[b];
    for (int i = format->rank - 1; i >= 0; i--) {
        int d = format->order[i];
        int64_t n = blocks_in(sizes[d], blocks[d]);
        out_strides[d] = stride;
        if (n > 1) stride *= n;
    }
}

/* Number of elements up to the last one of a strided tensor without empty dimensions. */
static bool strided_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
{
    int64_t elements = 1;
    for (int d = 0; d < format->rank; d++) {
        int64_t span;
        if (!shape_multiply(sizes[d] - 1, format->strides[d], &span) ||
            __builtin_add_overflow(elements, span, &elements))
            return false;
    }
    *out_elements = elements;
    return true;
}

/* Number of elements of the inner tensor, which must match `sizes`. */
static bool regrouped_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
{
    int64_t numel = 0, inner_numel = 0;
    format_t tag = format_inner(format);
    return shape_numel(format->rank, sizes, &numel) &&
           shape_numel(tag.rank, format->inner, &inner_numel) && numel == inner_numel &&
           format_elements(&tag, format->inner, out_elements);
}

bool format_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
{
    if (format == NULL || format->kind == FORMAT_ANY || out_elements == NULL) return false;
    if (format->rank > 0 && sizes == NULL) return false;
    for (int d = 0; d < format->rank; d++)
        if (sizes[d] < 0) return false;
    for (int d = 0; d < format->rank; d++) {
        if (sizes[d] > 0) continue;
        *out_elements = 0;
        return true;
    }
    if (format->kind == FORMAT_STRIDED) return strided_elements(format, sizes, out_elements);
    if (format->kind == FORMAT_REGROUPED) return regrouped_elements(format, sizes, out_elements);
    if (format->kind == FORMAT_GROUPED) return grouped_elements(format, sizes, out_elements);
    if (format->kind == FORMAT_OPAQUE) {
        *out_elements = format->words[0];
        return true;
    }

    int64_t blocks[TENSOR_MAX_RANK], elements = 1;
    whole_blocks(format, blocks);
    for (int d = 0; d < format->rank; d++)
        if (!shape_multiply(elements, blocks_in(sizes[d], blocks[d]), &elements) ||
            !shape_multiply(elements, blocks[d], &elements))
            return false;
    *out_elements = elements;
    return true;
}

/* Computes an element's offset, beginning with the innermost block. A block uses index % block size
 * of its dimension; the blocks outside of it use index / block size. */
int64_t format_offset(const format_t *format, const int64_t *sizes, const int64_t *index)
{
    if (!is_explicit(format) || sizes == NULL || index == NULL) return 0;
    int64_t offset = 0, stride = 1;
    if (format->kind == FORMAT_STRIDED) {
        for (int d = 0; d < format->rank; d++) offset += index[d] * format->strides[d];
        return offset;
    }
    int64_t left[TENSOR_MAX_RANK], blocks[TENSOR_MAX_RANK];
    whole_blocks(format, blocks);
    for (int d = 0; d < format->rank; d++) left[d] = index[d];
    for (int b = format->n_blocks - 1; b >= 0; b--) {
        int d = format->block_dims[b], size = format->block_sizes[b];
        offset += left[d] % size * stride;
        left[d] /= size;
        stride *= size;
    }
    for (int i = format->rank - 1; i >= 0; i--) {
        int d = format->order[i];
        offset += left[d] * stride;
        stride *= blocks_in(sizes[d], blocks[d]);
    }
    return offset;
}

/* ---- equality ---- */

/* The offset of an element is a sum over the dimensions. For one dimension it is a sum of the
 * digits of the index, each times a stride; a digit is index / start % (start of the next digit /
 * start). Formats with the same offsets have the same list of digits, once digits are joined where
 * possible and digits that are always 0 are left out. */
typedef struct digit {
    int64_t start, stride;
} digit_t;

static int add_digit(digit_t *digits, int n, int64_t size, int64_t start, int64_t stride)
{
    if (start >= size) return n;
    if (n > 0 && stride == start / digits[n - 1].start * digits[n - 1].stride) return n;
    digits[n] = (digit_t){start, stride};
    return n + 1;
}

/* Lists the digits of dimension d, fastest first; `outer` comes from format_strides. */
static int make_digits(const format_t *format, const int64_t *sizes, const int64_t *outer, int d,
                       digit_t *out_digits)
{
    int n = 0;
    int64_t start = 1, stride = 1;
    for (int b = format->n_blocks - 1; b >= 0; b--) {
        if (format->block_dims[b] == d) {
            n = add_digit(out_digits, n, sizes[d], start, stride);
            start *= format->block_sizes[b];
        }
        stride *= format->block_sizes[b];
    }
    return add_digit(out_digits, n, sizes[d], start, outer[d]);
}

static bool same_regrouped(const format_t *a, const format_t *b)
{
    if (a->kind != b->kind || a->rank != b->rank ||
        !shape_equal(a->inner_rank, a->inner, b->inner_rank, b->inner))
        return false;
    format_t tag_a = format_inner(a), tag_b = format_inner(b);
    return format_same(&tag_a, &tag_b, a->inner);
}

bool format_same(const format_t *a, const format_t *b, const int64_t *sizes)
{
    if (a == NULL || b == NULL) return a == b;
    if (a->kind == FORMAT_ANY || b->kind == FORMAT_ANY) return a->kind == b->kind;
    if (a->kind == FORMAT_OPAQUE || b->kind == FORMAT_OPAQUE || a->kind == FORMAT_GROUPED ||
        b->kind == FORMAT_GROUPED)
        return a->kind == b->kind && a->rank == b->rank &&
               memcmp(a->words, b->words, sizeof a->words) == 0;
    if (a->kind == FORMAT_REGROUPED || b->kind == FORMAT_REGROUPED) return same_regrouped(a, b);
    int64_t elements_a, elements_b;
    if (a->rank != b->rank || !format_elements(a, sizes, &elements_a) ||
        !format_elements(b, sizes, &elements_b) || elements_a != elements_b)
        return false;
    if (elements_a == 0) return true;

    int64_t outer_a[TENSOR_MAX_RANK], outer_b[TENSOR_MAX_RANK];
    format_strides(a, sizes, outer_a);
    format_strides(b, sizes, outer_b);
    for (int d = 0; d < a->rank; d++) {
        digit_t digits_a[FORMAT_MAX_BLOCKS + 1], digits_b[FORMAT_MAX_BLOCKS + 1];
        int n = make_digits(a, sizes, outer_a, d, digits_a);
        if (make_digits(b, sizes, outer_b, d, digits_b) != n) return false;
        for (int i = 0; i < n; i++)
            if (digits_a[i].start != digits_b[i].start || digits_a[i].stride != digits_b[i].stride)
                return false;
    }
    return true;
}

uint64_t format_hash(const format_t *format, const int64_t *sizes, uint64_t seed)
{
    int64_t elements = 0;
    if (format == NULL || format->kind == FORMAT_ANY) return hash_mix(seed, UINT64_MAX);
    if (!format_elements(format, sizes, &elements) || elements == 0) return hash_mix(seed, 0);
    int64_t outer[TENSOR_MAX_RANK];
    uint64_t hash = hash_mix(seed, (uint64_t)elements);
    if (format->kind == FORMAT_REGROUPED) {
        format_t tag = format_inner(format);
        return format_hash(&tag, format->inner, hash_mix(seed, (uint64_t)format->inner_rank));
    }
    if (format->kind == FORMAT_OPAQUE || format->kind == FORMAT_GROUPED) {
        for (int i = 0; i < FORMAT_WORDS; i++) hash = hash_mix(hash, (uint64_t)format->words[i]);
        return hash;
    }
    format_strides(format, sizes, outer);
    for (int d = 0; d < format->rank; d++) {
        digit_t digits[FORMAT_MAX_BLOCKS + 1];
        int n = make_digits(format, sizes, outer, d, digits);
        for (int i = 0; i < n; i++) {
            hash = hash_mix(hash, (uint64_t)digits[i].start);
            hash = hash_mix(hash, (uint64_t)digits[i].stride);
        }
    }
    return hash;
}
