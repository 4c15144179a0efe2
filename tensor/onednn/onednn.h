/* The only wrapper round oneDNN: a primitive is data, its descriptors are tensor_infos.
 *
 * Written against the C API of oneDNN 3.x; onednn_v2.c gives 2.6 the same calls. Formats go in and
 * come out as our own values, so nothing to the right sees a oneDNN type. A primitive is immutable
 * and shared between threads; building its kernel is put off until it first runs, so that choosing
 * between candidates costs descriptions only. There is one engine for the process. */
#ifndef TESSERA_TENSOR_ONEDNN_ONEDNN_H
#define TESSERA_TENSOR_ONEDNN_ONEDNN_H

#include "tensor/context_impl.h"
#include "tensor/info.h"
#include "tensor/text.h"

typedef enum onednn_kind {
    ONEDNN_CONVOLUTION,
    ONEDNN_DECONVOLUTION,
    ONEDNN_INNER_PRODUCT,
    ONEDNN_MATMUL,
    ONEDNN_POOLING,
    ONEDNN_ELTWISE,
    ONEDNN_BINARY,
    ONEDNN_BATCH_NORM,
    ONEDNN_LAYER_NORM,
    ONEDNN_SOFTMAX,
    ONEDNN_LRN,
    ONEDNN_RESAMPLING,
    ONEDNN_REORDER
} onednn_kind_t;

typedef enum onednn_algorithm {
    ONEDNN_DIRECT, /* convolution, deconvolution */
    ONEDNN_WINOGRAD,
    ONEDNN_POOL_MAX,
    ONEDNN_POOL_AVERAGE,        /* divides by the elements inside */
    ONEDNN_POOL_AVERAGE_PADDED, /* divides by the window */
    ONEDNN_ELTWISE_RELU,        /* x > 0 ? x : alpha x */
    ONEDNN_ELTWISE_ELU,         /* x > 0 ? x : alpha (exp(x) - 1) */
    ONEDNN_ELTWISE_TANH,
    ONEDNN_ELTWISE_SQUARE,
    ONEDNN_ELTWISE_ABS,
    ONEDNN_ELTWISE_SQRT,
    ONEDNN_ELTWISE_LINEAR, /* alpha x + beta */
    ONEDNN_ELTWISE_CLIP,   /* min(max(x, alpha), beta) */
    ONEDNN_ELTWISE_SIGMOID,
    ONEDNN_ELTWISE_EXP,
    ONEDNN_ELTWISE_LOG,
    ONEDNN_ELTWISE_GELU_TANH,
    ONEDNN_ELTWISE_GELU_ERF,
    ONEDNN_ELTWISE_SWISH, /* x / (1 + exp(-alpha x)) */
    ONEDNN_ELTWISE_SOFTPLUS,
    ONEDNN_ELTWISE_HARDSWISH,
    ONEDNN_ELTWISE_HARDSIGMOID, /* clip(alpha x + beta, 0, 1); oneDNN 3 only */
    ONEDNN_BINARY_ADD,
    ONEDNN_BINARY_SUB,
    ONEDNN_BINARY_MUL,
    ONEDNN_BINARY_DIV,
    ONEDNN_BINARY_MAX,
    ONEDNN_BINARY_MIN,
    ONEDNN_SOFTMAX_ACCURATE,
    ONEDNN_SOFTMAX_LOG,
    ONEDNN_LRN_ACROSS_CHANNELS,
    ONEDNN_RESAMPLING_NEAREST,
    ONEDNN_RESAMPLING_LINEAR,
    ONEDNN_ALGORITHM_COUNT
} onednn_algorithm_t;

typedef struct onednn_primitive onednn_primitive_t;

/* What is computed. Training: forward, and what backward needs is kept: a workspace, and for norms
 * mean and variance. Backward: gradients from the gradient of dst. */
typedef enum onednn_propagation {
    ONEDNN_INFERENCE = 0,
    ONEDNN_TRAINING,
    ONEDNN_BACKWARD,       /* norms: the gradients of src, scale and shift */
    ONEDNN_BACKWARD_DATA,  /* the gradient of src alone */
    ONEDNN_BACKWARD_WEIGHT /* those of weight and bias */
} onednn_propagation_t;

#define ONEDNN_MAX_SPATIAL 12 /* oneDNN reads that many; 3 are used */
#define ONEDNN_MAX_SRC 4
#define ONEDNN_MAX_POST_OPS 4
#define ONEDNN_MAX_ARGUMENTS 24

typedef enum onednn_post_kind {
    ONEDNN_POST_SUM,
    ONEDNN_POST_ELTWISE,
    ONEDNN_POST_BINARY
} onednn_post_kind_t;

typedef struct onednn_post_op {
    onednn_post_kind_t kind;
    onednn_algorithm_t algorithm;
    float alpha, beta;
    const tensor_info_t *operand; /* ONEDNN_POST_BINARY */
} onednn_post_op_t;

/* How the integers of an operand stand for numbers: number = scale (integer - zero). */
typedef struct onednn_quantization {
    bool has_scale, has_zero;
    bool is_per_channel; /* weight: a scale for each output channel, else one for all */
    const float *scale;  /* that many, constant; NULL: an argument of every run */
    const int32_t *zero; /* one, constant; NULL: an argument of every run */
} onednn_quantization_t;

/* A primitive to be. Infos may have FORMAT_ANY where oneDNN shall choose. Arrays over spatial
 * dimensions begin with the slowest; stride and dilation count from 1. Unused fields stay zero.
 *
 * A problem gives the operands that it reads and writes, and no others:
 *
 *   forward, any kind                          src, weight, bias > dst
 *   convolution, deconvolution, inner product
 *       BACKWARD_DATA                          weight, diff_dst > diff_src
 *       BACKWARD_WEIGHT                        src, diff_dst > diff_weight, diff_bias
 *   pooling, resampling: BACKWARD_DATA         diff_dst > diff_src
 *   eltwise: BACKWARD_DATA                     src, or dst if from_dst, diff_dst > diff_src
 *   softmax: BACKWARD_DATA                     dst, diff_dst > diff_src
 *   lrn: BACKWARD_DATA                         src, diff_dst > diff_src
 *   norms: BACKWARD if has_scale, else
 *       BACKWARD_DATA                          src, diff_dst > diff_src
 *
 * Matmul, binary and reorder are forward only. What is taken besides (workspace, mean and variance,
 * scale and shift) follows from the other fields: see onednn_argument_t. */
typedef struct onednn_problem {
    onednn_kind_t kind;
    onednn_algorithm_t algorithm;
    onednn_propagation_t propagation;
    onednn_primitive_t *forward; /* backward: the same layer in training, described before */
    int n_src;
    const tensor_info_t *src;    /* [n_src] */
    const tensor_info_t *weight; /* convolution [G][K/G][C/G].. if grouped; NULL */
    const tensor_info_t *bias;   /* NULL: none */
    const tensor_info_t *dst;
    const tensor_info_t *diff_src, *diff_weight, *diff_bias, *diff_dst;
    int64_t kernel[ONEDNN_MAX_SPATIAL];
    int64_t stride[ONEDNN_MAX_SPATIAL];
    int64_t dilation[ONEDNN_MAX_SPATIAL];
    int64_t pad_begin[ONEDNN_MAX_SPATIAL];
    int64_t pad_end[ONEDNN_MAX_SPATIAL];
    int axis;              /* softmax */
    int64_t size;          /* lrn */
    float alpha, beta;     /* eltwise; lrn */
    float k;               /* lrn */
    float epsilon;         /* norms */
    bool has_scale;        /* norms: scale and shift given */
    bool has_relu;         /* batch norm: the result is max(0, ..) */
    bool fixed_statistics; /* norms: mean and variance are given, not computed from src; batch norm
                              in inference does so always */
    bool from_dst;         /* eltwise: backward goes by dst, as relu, elu with alpha >= 0, tanh,
                              sigmoid, exp and sqrt can */
    /* Convolution, deconvolution, inner product, matmul, reorder: the result is computed from the
     * numbers, then post-ops; it is rounded to integers last. The bias is in f32, of numbers.
     * oneDNN 2.6 has no convolution whose scales are arguments, and no dst scale that is one before
     * post-ops. */
    onednn_quantization_t src_quantization, weight_quantization, dst_quantization;
    int n_post;
    onednn_post_op_t post[ONEDNN_MAX_POST_OPS];
} onednn_problem_t;

typedef struct onednn_frame onednn_frame_t;
typedef struct onednn_stream onednn_stream_t;

/* Describes a primitive. UNSUPPORTED, without a message in the context since this is a question and
 * not an error, when oneDNN has no implementation or would count elements in too few bits. */
status_t onednn_describe(context_t *ctx, const onednn_problem_t *problem,
                         onednn_primitive_t **out_primitive);
onednn_primitive_t *onednn_retain(onednn_primitive_t *primitive);
void onednn_release(onednn_primitive_t *primitive);

/* "jit:avx512_core", "brgconv:avx512_core", ...; owned by the primitive. */
const char *onednn_implementation(const onednn_primitive_t *primitive);

/* True if the name has the token "ref" between non-letters. */
bool onednn_is_reference(const char *implementation);

/* What an implementation that took the problem, with this destination, gets wrong: "says success
 * and writes no bf16". NULL: nothing that is known. */
const char *onednn_fault(const onednn_problem_t *problem, const char *implementation,
                         const tensor_info_t *dst);

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
    ONEDNN_ARGUMENT_SRC = 0, /* + index */
    ONEDNN_ARGUMENT_WEIGHT = ONEDNN_ARGUMENT_SRC + ONEDNN_MAX_SRC,
    ONEDNN_ARGUMENT_BIAS,
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
    ONEDNN_ARGUMENT_DST,
    ONEDNN_ARGUMENT_DIFF_DST,
    ONEDNN_ARGUMENT_WORKSPACE,
    ONEDNN_ARGUMENT_DIFF_SRC,
    ONEDNN_ARGUMENT_DIFF_WEIGHT,
    ONEDNN_ARGUMENT_DIFF_BIAS,
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
 * none of ours: int8 weights with the sums over their inputs behind them. */
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
