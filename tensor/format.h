/* Formats: how the elements of a tensor are arranged in memory.
 *
 * A format does not depend on sizes or on oneDNN's version. It holds the order of the dimensions,
 * from slowest to fastest, and the inner blocks. Its text is called a tag, as in oneDNN. In
 * "aBcd16b", dimension b is split into blocks of 16: the capital B is the number of the block, and
 * 16b, the fastest, the position in it. In "acdb" nothing is split. Blocked dimensions are padded
 * up to a multiple of their block size, and the elements in the padding are zero. Strided formats
 * have strides, in elements, instead of an order; tensors with gaps or repeated elements need them.
 * Opaque formats are those that no tag describes: weights transformed for oneDNN's Winograd
 * algorithm, or weights in a kernel's own order. Grouped formats store f32 elements as codes of 2,
 * 4 or 8 bits with a scale for each group of elements (grouping_t). */
#ifndef TESSERA_TENSOR_FORMAT_H
#define TESSERA_TENSOR_FORMAT_H

#include "tensor/context.h"
#include "tensor/dtype.h"

#define FORMAT_MAX_BLOCKS 6
#define FORMAT_TEXT_MAX 256 /* format_parse rejects longer strings */
#define FORMAT_WORDS TENSOR_MAX_RANK

typedef enum format_kind {
    FORMAT_ANY = 0,   /* not chosen yet: "?" */
    FORMAT_TAG,       /* order and blocks */
    FORMAT_STRIDED,   /* strides: "{12544,1,112,1}" */
    FORMAT_OPAQUE,    /* only its owner can read it (oneDNN or a kernel, in the version that wrote
                         the elements): "opaque4x102400x20603x4" */
    FORMAT_REGROUPED, /* a tag that applies after a reshape to other sizes:
                         "4:aBcde8b(8,8,8,3,3)" */
    FORMAT_GROUPED    /* low-bit codes with scales, see grouping_t: "u4f16z32b" */
} format_kind_t;

typedef struct format {
    uint8_t kind;
    uint8_t rank;
    uint8_t n_blocks;
    uint8_t order[TENSOR_MAX_RANK];        /* FORMAT_TAG: dimensions, slowest first */
    uint8_t block_dims[FORMAT_MAX_BLOCKS]; /* inner blocks, outermost first */
    uint16_t block_sizes[FORMAT_MAX_BLOCKS];
    uint8_t inner_rank; /* FORMAT_REGROUPED: rank of `inner`; order and blocks refer to its
                           dimensions */
    union {
        int64_t strides[TENSOR_MAX_RANK]; /* FORMAT_STRIDED: in elements, one per dimension */
        int64_t words[FORMAT_WORDS];      /* FORMAT_OPAQUE: number of elements; oneDNN's version, or
                                             a kernel's name and version; its numbers.
                                             FORMAT_GROUPED: the fields of grouping_t */
        int64_t inner[TENSOR_MAX_RANK];   /* FORMAT_REGROUPED: sizes of the reshaped tensor */
    };
} format_t;

/* Parses a format's text: "aBcd16b", "acdb", "{1,2}", "?". Fails with INVALID_ARGUMENT; the message
 * says why. */
status_t format_parse(context_t *ctx, const char *text, format_t *out_format)
    TESSERA_API(format_parse);

/* Writes the format's text into a buffer of FORMAT_TEXT_MAX bytes and returns that buffer. */
const char *format_text(const format_t *format, char *out_text) TESSERA_API(format_text);

/* format_regroup returns a format for tensors of rank `rank`: the tensor is reshaped (in row-major
 * order) to the sizes `inner`, and then stored in format `tag`. Example: a weight [64,8,3,3] is
 * stored as 8 groups [8,8,8,3,3]. The product of `inner` must be below 2^63, and the format's text
 * must fit in FORMAT_TEXT_MAX. Only conversions read such a tensor. format_inner returns the
 * tag. */
format_t format_regroup(int rank, const format_t *tag, const int64_t *inner)
    TESSERA_API(format_regroup);
format_t format_inner(const format_t *format) TESSERA_API(format_inner);

/* format_owned returns an opaque format of a kernel or other owner with this name, not of oneDNN.
 * The version and the numbers (at most FORMAT_MAX_NUMBERS, none negative) tell the owner how the
 * elements are arranged. format_numbers returns these numbers, padded with zeros; NULL for other
 * formats. */
#define FORMAT_MAX_NUMBERS (FORMAT_WORDS - 3)
format_t format_owned(int rank, int64_t elements, const char *owner, int version, int n_numbers,
                      const int64_t *numbers) TESSERA_API(format_owned);
const int64_t *format_numbers(const format_t *format) TESSERA_API(format_numbers);

/* Numbers that a grouped format adds to scale * code. */
typedef enum grouping_offset {
    GROUPING_NONE,  /* nothing: value = scale * code */
    GROUPING_ZEROS, /* a zero, which is a code, for each group: value = scale * (code - zero) */
    GROUPING_MINIMA /* a minimum, of the scale's dtype, for each group: scale * code + minimum */
} grouping_offset_t;

/* A grouped format stores f32 elements as codes, in groups along the innermost dimension. Each
 * group has a scale. A value is the product, rounded to f32, to which a minimum is added. The
 * format's text lists the fields: "u4f16z32b" has unsigned codes of 4 bits, f16 scales, zeros, and
 * groups of 32 along dimension b, which is the innermost one. Instead of z, g means no offset, and
 * m minima. Such tensors are made by tensor_grouped (tensor.h), and are never written; to_dense
 * widens them. */
#define GROUPING_LEAST 16
#define GROUPING_MOST 65536
typedef struct grouping {
    int bits;       /* 2, 4 or 8 in each code */
    bool is_signed; /* codes of 4 bits are -8 to 7 instead of 0 to 15 */
    int64_t group;  /* elements of a group, a multiple of GROUPING_LEAST up to GROUPING_MOST; the
                       last group of a row may have fewer */
    dtype_t scale;  /* dtype of scales: f32, f16 or bf16 */
    grouping_offset_t offset;
} grouping_t;

/* format_grouped returns FORMAT_ANY if a field is invalid, or if the rank is 0. format_grouping
 * returns false for other formats. */
format_t format_grouped(int rank, const grouping_t *grouping) TESSERA_API(format_grouped);
bool format_grouping(const format_t *format, grouping_t *out_grouping) TESSERA_API(format_grouping);

/* "abcd" (row-major) and "acdb" (channels last). */
format_t format_plain(int rank) TESSERA_API(format_plain);
format_t format_channels_last(int rank) TESSERA_API(format_channels_last);

/* Splits channels (dimension 1) into blocks: "aBcd16b" for block 16. */
format_t format_channel_blocks(int rank, int block) TESSERA_API(format_channel_blocks);

/* The format of a strided tensor. Strides without gaps and overlaps become a FORMAT_TAG without
 * blocks. If sizes of 1 allow several orders, it is row-major or channels last if possible. Other
 * strides stay FORMAT_STRIDED. */
format_t format_of_strides(int rank, const int64_t *sizes, const int64_t *strides)
    TESSERA_API(format_of_strides);

bool format_is_blocked(const format_t *format) TESSERA_API(format_is_blocked);

/* True if a blocked dimension is not a multiple of its block size, so that there is padding. */
bool format_is_padded(const format_t *format, const int64_t *sizes) TESSERA_API(format_is_padded);

/* Sizes rounded up to multiples of their block sizes. */
void format_padded_sizes(const format_t *format, const int64_t *sizes, int64_t *out_sizes)
    TESSERA_API(format_padded_sizes);

/* Strides, in elements, of each dimension; for a blocked dimension, from one block to the next.
 * Only for FORMAT_TAG and FORMAT_STRIDED. */
void format_strides(const format_t *format, const int64_t *sizes, int64_t *out_strides)
    TESSERA_API(format_strides);

/* Number of elements that a tensor of these sizes takes in memory, with padding and gaps. Returns
 * false on overflow, for a negative size or stride, and for FORMAT_ANY. */
bool format_elements(const format_t *format, const int64_t *sizes, int64_t *out_elements)
    TESSERA_API(format_elements);

/* Offset of an element from the first one, in elements. Only for FORMAT_TAG and FORMAT_STRIDED. */
int64_t format_offset(const format_t *format, const int64_t *sizes, const int64_t *index)
    TESSERA_API(format_offset);

/* True if tensors of these sizes have the same bytes in both formats. Strides of dimensions of size
 * 1 do not matter. A dimension that is split into adjacent blocks counts as not split. */
bool format_same(const format_t *a, const format_t *b, const int64_t *sizes)
    TESSERA_API(format_same);

/* A hash of a format. If format_same is true for two formats at these sizes, their hashes are
 * equal. */
uint64_t format_hash(const format_t *format, const int64_t *sizes, uint64_t seed)
    TESSERA_API(format_hash);

#endif
