/* The only wrapper round oneDNN: a primitive is data, its descriptors are tensor_infos.
 *
 * Written against the C API of oneDNN 3.x; v2.c gives 2.6 the same calls. Formats go in and
 * come out as our own values, so nothing to the right sees a oneDNN type. A primitive is immutable
 * and shared between threads; building its kernel is put off until it first runs, so that choosing
 * between candidates costs descriptions only. There is one engine for the process. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_H

#include "tensor/context_impl.h"
#include "tensor/onednn/problem.h"
#include "tensor/text.h"

typedef struct onednn_frame onednn_frame_t;
typedef struct onednn_stream onednn_stream_t;

/* Memory that one primitive is counted with. Its code and descriptors take 30 to 65 KB. */
#define ONEDNN_PRIMITIVE_BYTES ((size_t)48 << 10)

/* Describes a primitive. Every problem passes here, and here alone, before oneDNN computes it.
 * UNSUPPORTED, without a message in the context since this is a question and not an error, when
 * oneDNN has no implementation, would overflow 32-bit integers, or is known to compute something
 * else (onednn_fault). onednn_refusal has the reason until the next call: "no implementation". */
status_t onednn_describe(context_t *ctx, const onednn_problem_t *problem,
                         onednn_primitive_t **out_primitive);
const char *onednn_refusal(context_t *ctx);
onednn_primitive_t *onednn_retain(onednn_primitive_t *primitive);
void onednn_release(onednn_primitive_t *primitive);

/* "jit:avx512_core", "brgconv:avx512_core", ...; owned by the primitive. */
const char *onednn_implementation(const onednn_primitive_t *primitive);

/* True if the name has the token "ref" between non-letters. */
bool onednn_is_reference(const char *implementation);

/* What the implementation gets wrong of a problem whose formats are known: "says success and writes
 * no bf16". NULL: nothing that is known. */
const char *onednn_fault(const onednn_problem_t *problem, const char *implementation);

/* What a primitive reads and writes. A run is given their bytes in this order: those that the
 * problem gives, and
 *   mean, variance    norms, but for layer norm in inference without fixed_statistics; outputs in
 *                     training without fixed_statistics, else inputs. f32
 *   scale, shift      norms with has_scale; shift only forward. f32
 *   operand           of each binary post-op
 *   scales, zeros     of src, weight and dst, where they are no constants; f32, s32
 *   workspace         training writes it and backward reads it, where the implementations have one
 *   diff_scale, diff_shift   norms with has_scale, BACKWARD
 * Of a convolution for inference that is src, weight, bias, dst. */
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

/* How many a primitive takes; and where in the order one of them stands, -1 if it is not taken. */
int onednn_n_arguments(const onednn_primitive_t *primitive);
int onednn_argument_index(const onednn_primitive_t *primitive, int argument);

/* What the primitive wants of an argument: dtype, sizes and the chosen format, as an mkldnn info.
 * UNSUPPORTED, without a message, if the format is none of ours, or the argument is not taken. */
status_t onednn_query(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                      tensor_info_t *out_info);

/* The same of the weight alone, for who packs it: formats, too, that differ from one with a tag in
 * the order of sizes of 1, as those of channels apart. */
status_t onednn_query_weight(const onednn_primitive_t *primitive, tensor_info_t *out_info);

/* Bytes of an argument, of those too whose format is none of ours; 0 if it is not taken. */
size_t onednn_argument_bytes(const onednn_primitive_t *primitive, int argument);

/* The command line of benchdnn, oneDNN's own test, that repeats a problem: "./benchdnn --conv ...".
 * All formats of a problem have to be known; a primitive's are those it wants. */
void onednn_repro_problem(const onednn_problem_t *problem, text_t *text);
void onednn_repro(const onednn_primitive_t *primitive, text_t *text);

size_t onednn_scratch_bytes(const onednn_primitive_t *primitive);

/* Runs on the context's stream with memory objects that the primitive lends for the call. scratch
 * may be NULL when onednn_scratch_bytes is 0. */
status_t onednn_run(context_t *ctx, onednn_primitive_t *primitive, void *const *arguments,
                    void *scratch);

/* Writes an argument, which lies as `from` says, as the primitive wants it, in a format that may be
 * none of ours: int8 weights with the sums over their inputs behind them, recurrent ones in parts.
 */
status_t onednn_pack(context_t *ctx, const onednn_primitive_t *primitive, int argument,
                     const tensor_info_t *from, const void *bytes, void *out_bytes);

/* The primitive that moves bytes from one info to the other, of equal dtype and sizes, described
 * once for each pair; arguments src, dst. Borrowed until the next call; UNSUPPORTED, without a
 * message, when oneDNN has no such reorder. */
status_t onednn_reorder(context_t *ctx, const tensor_info_t *src, const tensor_info_t *dst,
                        onednn_primitive_t **out_primitive);

/* onednn_run in two steps. A frame holds the memory objects of a run, for one thread at a time. */
status_t onednn_frame_create(context_t *ctx, onednn_primitive_t *primitive,
                             onednn_frame_t **out_frame);
void onednn_frame_destroy(onednn_frame_t *frame);
status_t onednn_frame_run(context_t *ctx, onednn_frame_t *frame, void *const *arguments,
                          void *scratch);

status_t onednn_stream_create(context_t *ctx, onednn_stream_t **out_stream);
void onednn_stream_destroy(context_t *ctx, onednn_stream_t *stream);

/* The instructions that oneDNN makes code for, as its bits; the name of such bits; and whether they
 * have those of a class that decides about block sizes and speed. */
typedef enum onednn_isa {
    ONEDNN_ISA_AVX,
    ONEDNN_ISA_AVX2,
    ONEDNN_ISA_AVX512,
    ONEDNN_ISA_BF16, /* products of bf16 pairs */
    ONEDNN_ISA_VNNI, /* products of four bytes each */
    ONEDNN_ISA_SVE_512
} onednn_isa_t;
unsigned onednn_isa(void);
const char *onednn_isa_name(unsigned isa);
bool onednn_isa_has(unsigned isa, onednn_isa_t wanted);

/* True if its vectors hold 16 floats. */
bool onednn_isa_is_wide(unsigned isa);

/* dtypes that oneDNN knows. */
bool onednn_has_dtype(dtype_t dtype);

#define TRY_ONEDNN(ctx, expr)                                                                      \
    do {                                                                                           \
        int onednn_status_ = (int)(expr);                                                          \
        if (onednn_status_) return onednn_fail((ctx), onednn_status_, #expr);                      \
    } while (0)
status_t onednn_fail(context_t *ctx, int onednn_status, const char *call);

#endif
