/* Formats: how the elements of a tensor lie in memory, as a value of our own.
 *
 * A format is independent of sizes and of oneDNN's version: the order of the dimensions from the
 * slowest to the fastest, and inner blocks. Its text is oneDNN's tag: in "aBcd16b" dimension b is
 * split into an outer b (capital: it has a block) and an innermost block of 16; in "acdb" nothing
 * is split. Blocked dimensions are padded up to their block, and padded elements are zero.
 * Strided formats carry strides in elements instead, for tensors with gaps or broadcasts. Opaque
 * ones are what no tag describes: words that oneDNN said (weights as winograd transforms them), or
 * a kernel of another owner (weights as it packs them). */
#ifndef TESSERA_TENSOR_FORMAT_H
#define TESSERA_TENSOR_FORMAT_H

#include "tensor/context.h"
#include "tensor/dtype.h"

TESSERA_BEGIN

#define FORMAT_MAX_BLOCKS 6
#define FORMAT_TEXT_MAX 256 /* format_parse refuses what is longer */
#define FORMAT_WORDS TENSOR_MAX_RANK

typedef enum format_kind {
    FORMAT_ANY = 0, /* not chosen yet: "?" */
    FORMAT_TAG,     /* order and blocks */
    FORMAT_STRIDED, /* strides: "{12544,1,112,1}" */
    FORMAT_OPAQUE,  /* only its owner (oneDNN, or a kernel) can read the bytes, and only the version
                       that wrote them: "opaque4x102400x20603x4" */
    FORMAT_REGROUPED /* a tag of the tensor under other sizes: "4:aBcde8b(8,8,8,3,3)" */
} format_kind_t;

typedef struct format {
    uint8_t kind;
    uint8_t rank;
    uint8_t n_blocks;
    uint8_t order[TENSOR_MAX_RANK];        /* FORMAT_TAG: dimensions, slowest first */
    uint8_t block_dims[FORMAT_MAX_BLOCKS]; /* inner blocks, outermost first */
    uint16_t block_sizes[FORMAT_MAX_BLOCKS];
    uint8_t inner_rank; /* FORMAT_REGROUPED: of the tag; order and blocks are of its dimensions */
    union {
        int64_t strides[TENSOR_MAX_RANK]; /* FORMAT_STRIDED: elements, by dimension */
        int64_t words[FORMAT_WORDS];    /* FORMAT_OPAQUE: elements; version of oneDNN, or owner and
                                         * version; numbers of its own */
        int64_t inner[TENSOR_MAX_RANK]; /* FORMAT_REGROUPED: sizes, of as many elements */
    };
} format_t;

/* "aBcd16b", "acdb", "{1,2}", "?"; INVALID_ARGUMENT says what is wrong with the text. */
status_t format_parse(context_t *ctx, const char *text, format_t *out_format)
    TESSERA_API(format_parse);

/* Text into a buffer of FORMAT_TEXT_MAX bytes; gives the buffer back. */
const char *format_text(const format_t *format, char *out_text) TESSERA_API(format_text);

/* A tag for the sizes `inner` as the format of a tensor of rank `rank` with the same elements in
 * row-major order (so their product is below 2^63, and the text fits): a weight with its groups
 * apart, or spread over what was flattened before it. Only conversions read such a tensor. And
 * back: the tag. */
format_t format_regroup(int rank, const format_t *tag, const int64_t *inner)
    TESSERA_API(format_regroup);
format_t format_inner(const format_t *format) TESSERA_API(format_inner);

/* An opaque format of an owner other than oneDNN, which is known by its name: so many elements, of
 * which the owner's version and numbers (at most FORMAT_MAX_NUMBERS, none below 0) say how they
 * lie. And the numbers, zeros behind; NULL for any other format. */
#define FORMAT_MAX_NUMBERS (FORMAT_WORDS - 3)
format_t format_owned(int rank, int64_t elements, const char *owner, int version, int n_numbers,
                      const int64_t *numbers) TESSERA_API(format_owned);
const int64_t *format_numbers(const format_t *format) TESSERA_API(format_numbers);

/* Row-major, and channels last: "abcd", "acdb". */
format_t format_plain(int rank) TESSERA_API(format_plain);
format_t format_channels_last(int rank) TESSERA_API(format_channels_last);

/* Channels (dimension 1) split into blocks of `block`: "aBcd16b". */
format_t format_channel_blocks(int rank, int block) TESSERA_API(format_channel_blocks);

/* The format of a strided tensor: a FORMAT_TAG without blocks where the strides have neither gaps
 * nor overlaps (plain if that has the same bytes, then channels last), else FORMAT_STRIDED. */
format_t format_of_strides(int rank, const int64_t *sizes, const int64_t *strides)
    TESSERA_API(format_of_strides);

bool format_is_blocked(const format_t *format) TESSERA_API(format_is_blocked);

/* True if some blocked dimension is not a multiple of its block, so that there are padded lanes. */
bool format_is_padded(const format_t *format, const int64_t *sizes) TESSERA_API(format_is_padded);

/* Sizes rounded up to blocks. */
void format_padded_sizes(const format_t *format, const int64_t *sizes, int64_t *out_sizes)
    TESSERA_API(format_padded_sizes);

/* Strides in elements of the outer (block) index of each dimension; of tags and strides. */
void format_strides(const format_t *format, const int64_t *sizes, int64_t *out_strides)
    TESSERA_API(format_strides);

/* Elements from the first to one past the last, padding included; false on overflow, for a negative
 * size or stride, and for a format not chosen yet. */
bool format_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
    TESSERA_API(format_elements);

/* Where the element with this index lies, in elements from the first; of tags and strides. */
int64_t format_offset(const format_t *format, const int64_t *sizes, const int64_t *index)
    TESSERA_API(format_offset);

/* True if tensors of these sizes have the same bytes in both formats: strides of dimensions of
 * size 1 do not matter, nor does a block where nothing lies between the blocks. */
bool format_same(const format_t *a, const format_t *b, const int64_t *sizes)
    TESSERA_API(format_same);

/* Equal for formats that format_same calls the same at these sizes. */
uint64_t format_hash(const format_t *format, const int64_t *sizes, uint64_t seed)
    TESSERA_API(format_hash);

TESSERA_END

#endif
