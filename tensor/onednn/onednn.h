/* All calls of oneDNN go through this interface. A primitive (oneDNN's term for a prepared
 * operation) is created from a problem: a struct that says what to compute on which tensors
 * (problem.h).
 *
 * The code uses the C API of oneDNN 3.x; v2.c implements the same calls for 2.6. Formats are passed
 * and returned as format_t, so no other folder uses oneDNN's types. A primitive never changes, and
 * threads share it. Creating a primitive only describes it, which is cheap enough to compare
 * candidates; its machine code is generated when it first runs. The process has one engine. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_H

#include "tensor/context_impl.h"
#include "tensor/onednn/problem.h"
#include "tensor/text/text.h"

typedef struct onednn_frame onednn_frame_t;
typedef struct onednn_stream onednn_stream_t;

/* Assumed memory of one primitive; the code and descriptors of one take 30 to 65 KB. */
#define ONEDNN_PRIMITIVE_BYTES ((size_t)48 << 10)

/* Creates a primitive from a problem. Returns UNSUPPORTED if oneDNN has no implementation, would
 * overflow 32-bit integers, or is known to compute wrong results (onednn_fault). UNSUPPORTED sets
 * no message in the context; until the next call, onednn_refusal returns the reason, for example
 * "no implementation". */
status_t onednn_describe(context_t *ctx, const onednn_problem_t *problem,
                         onednn_primitive_t **out_primitive);
const char *onednn_refusal(context_t *ctx);
onednn_primitive_t *onednn_retain(onednn_primitive_t *primitive);
void onednn_release(onednn_primitive_t *primitive);

/* Name such as "jit:avx512_core" or "brgconv:avx512_core". Borrowed from the primitive. */
const char *onednn_implementation(const onednn_primitive_t *primitive);

/* True if the name contains the word "ref" (not as part of a longer word). */
bool onednn_is_reference(const char *implementation);

/* Describes a fault of oneDNN that this implementation is known to have for this problem, such as
 * "reports success without writing bf16"; NULL if there is none. The problem's formats must be
 * known. */
const char *onednn_fault(const onednn_problem_t *problem, const char *implementation);

/* Arguments that a primitive reads and writes. A run takes their pointers in this order, limited to
 * those that the problem has, and to
 *   mean, variance    norms, except layer norm in inference without fixed_statistics; outputs in
 *                     training without fixed_statistics, else inputs. f32
 *   scale, shift      norms with has_scale; shift only forward. f32
 *   operand           one for each binary post-op
 *   scales, zeros     of src, weight and dst, unless they are constants; f32, s32
 *   workspace         written in training and read in backward, if the implementation uses one
 *   diff_scale, diff_shift   norms with has_scale, BACKWARD
 * Example: a convolution for inference takes src, weight, bias, dst. */
typedef enum onednn_argument {
    ONEDNN_ARGUMENT_SRC = 0,                                       /* + index */
    ONEDNN_ARGUMENT_WEIGHT = ONEDNN_ARGUMENT_SRC + ONEDNN_MAX_SRC, /* + index */
    ONEDNN_ARGUMENT_BIAS = ONEDNN_ARGUMENT_WEIGHT + ONEDNN_MAX_WEIGHT,
    ONEDNN_ARGUMENT_MEAN,
    ONEDNN_ARGUMENT_VARIANCE,
    ONEDNN_ARGUMENT_SCALE,
    ONEDNN_ARGUMENT_SHIFT,
    ONEDNN_ARGUMENT_OPERAND, /* + index of the post-op */
    ONEDNN_ARGUMENT_SRC_SCALE = ONEDNN_ARGUMENT_OPERAND + ONEDNN_MAX_POST_OPS,
    ONEDNN_ARGUMENT_WEIGHT_SCALE,
    ONEDNN_ARGUMENT_DST_SCALE,
    ONEDNN_ARGUMENT_SRC_ZERO,
    ONEDNN_ARGUMENT_WEIGHT_ZERO,
    ONEDNN_ARGUMENT_DST_ZERO,
    ONEDNN_ARGUMENT_DST,                                             /* + index */
    ONEDNN_ARGUMENT_DIFF_DST = ONEDNN_ARGUMENT_DST + ONEDNN_MAX_DST, /* + index */
    ONEDNN_ARGUMENT_WORKSPACE = ONEDNN_ARGUMENT_DIFF_DST + ONEDNN_MAX_DST,
    ONEDNN_ARGUMENT_DIFF_SRC,                                                /* + index */
    ONEDNN_ARGUMENT_DIFF_WEIGHT = ONEDNN_ARGUMENT_DIFF_SRC + ONEDNN_MAX_SRC, /* + index */
    ONEDNN_ARGUMENT_DIFF_BIAS = ONEDNN_ARGUMENT_DIFF_WEIGHT + ONEDNN_MAX_WEIGHT,
    ONEDNN_ARGUMENT_DIFF_SCALE,
    ONEDNN_ARGUMENT_DIFF_SHIFT,
    ONEDNN_ARGUMENT_COUNT
} onednn_argument_t;

/* Number of arguments that a run of a primitive takes; position of an argument among them, -1 if it
 * is not taken. */
int onednn_n_arguments(const onednn_primitive_t *primitive);
int onednn_argument_index(const onednn_primitive_t *primitive, int argument);

/* Returns dtype, sizes and chosen format of an argument, as an mkldnn info. Returns UNSUPPORTED,
 * without a message, if no format_t describes the format, or the argument is not taken. */
status_t onednn_query(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                      tensor_info_t *out_info);

/* Like onednn_query for the weight, for code that packs it. Also accepts formats that differ from a
 * tag only in the order of dimensions of size 1, such as those of depthwise weights. */
status_t onednn_query_weight(const onednn_primitive_t *primitive, tensor_info_t *out_info);

/* Bytes of an argument, even if no format_t describes its format; 0 if it is not taken. */
size_t onednn_argument_bytes(const onednn_primitive_t *primitive, int argument);

/* Appends a command line of benchdnn, oneDNN's test program, that repeats a problem: "./benchdnn
 * --conv ...". In onednn_repro_problem all formats must be known; onednn_repro uses those that
 * oneDNN chose for the primitive. */
void onednn_repro_problem(const onednn_problem_t *problem, text_t *text);
void onednn_repro(const onednn_primitive_t *primitive, text_t *text);

size_t onednn_scratch_bytes(const onednn_primitive_t *primitive);

/* Runs a primitive on the context's stream. scratch may be NULL if onednn_scratch_bytes is 0. */
status_t onednn_run(context_t *ctx, onednn_primitive_t *primitive, void *const *arguments,
                    void *scratch);

/* Reorders an argument from format `from` into the primitive's format, even if no format_t
 * describes that. Examples: int8 weights followed by the sums over their inputs, recurrent weights
 * in several parts. */
status_t onednn_pack(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                     const tensor_info_t *from, const void *bytes, void *out_bytes);

/* Returns the primitive that reorders from one info to another of equal dtype and sizes. It is
 * created once for each pair, has the arguments src and dst, and is borrowed until the next call.
 * Returns UNSUPPORTED, without a message, if oneDNN has no such reorder. */
status_t onednn_reorder(context_t *ctx, const tensor_info_t *src, const tensor_info_t *dst,
                        onednn_primitive_t **out_primitive);

/* onednn_run in two steps. A frame holds oneDNN's memory objects (descriptor and pointer of each
 * argument) for a run; only one thread at a time may use it. */
status_t onednn_frame_create(context_t *ctx, onednn_primitive_t *primitive,
                             onednn_frame_t **out_frame);
void onednn_frame_destroy(onednn_frame_t *frame);
status_t onednn_frame_run(context_t *ctx, onednn_frame_t *frame, void *const *arguments,
                          void *scratch);

status_t onednn_stream_create(context_t *ctx, onednn_stream_t **out_stream);
void onednn_stream_destroy(context_t *ctx, onednn_stream_t *stream);

/* onednn_isa returns the instruction set for which oneDNN generates code, as oneDNN's bits.
 * onednn_isa_name returns the name of such bits. onednn_isa_has returns true if the bits include
 * one of the classes below, on which block sizes and speed depend. */
typedef enum onednn_isa {
    ONEDNN_ISA_AVX,
    ONEDNN_ISA_AVX2,
    ONEDNN_ISA_AVX512,
    ONEDNN_ISA_BF16,      /* dot products of bf16 pairs */
    ONEDNN_ISA_VNNI,      /* AVX-512 with dot products of four 8-bit integers */
    ONEDNN_ISA_AVX2_VNNI, /* AVX2 with such products; not implied by ONEDNN_ISA_VNNI */
    ONEDNN_ISA_SVE_512
} onednn_isa_t;
unsigned onednn_isa(void);
const char *onednn_isa_name(unsigned isa);
bool onednn_isa_has(unsigned isa, onednn_isa_t wanted);

/* True if vectors hold 16 floats. */
bool onednn_isa_is_wide(unsigned isa);

/* True if oneDNN supports the dtype. */
bool onednn_has_dtype(dtype_t dtype);

#define TRY_ONEDNN(ctx, expr)                                                                      \
    do {                                                                                           \
        int onednn_status_ = (int)(expr);                                                          \
        if (onednn_status_) return onednn_fail((ctx), onednn_status_, #expr);                      \
    } while (0)
status_t onednn_fail(context_t *ctx, int onednn_status, const char *call);

#endif
