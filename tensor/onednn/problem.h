/* A problem says what a oneDNN primitive computes, and on which tensors. */
#ifndef TESSERA_TENSOR_ONEDNN_PROBLEM_H
#define TESSERA_TENSOR_ONEDNN_PROBLEM_H

#include "tensor/info.h"

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
    ONEDNN_RNN,
    ONEDNN_REORDER
} onednn_kind_t;

typedef enum onednn_algorithm {
    ONEDNN_DIRECT, /* convolution, deconvolution */
    ONEDNN_WINOGRAD,
    ONEDNN_POOL_MAX,
    ONEDNN_POOL_AVERAGE,        /* divides by the number of elements inside the input */
    ONEDNN_POOL_AVERAGE_PADDED, /* divides by the window size */
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
    ONEDNN_RNN_TANH, /* h' = tanh(W x + U h + b) */
    ONEDNN_RNN_RELU,
    ONEDNN_RNN_LSTM,    /* gates in the order input, forget, cell, output */
    ONEDNN_RNN_GRU,     /* update, reset, output; U_o (r h): reset before the product */
    ONEDNN_RNN_LBR_GRU, /* r (U_o h + b_u), as PyTorch; its bias has a fourth row, b_u */
    ONEDNN_ALGORITHM_COUNT
} onednn_algorithm_t;

typedef struct onednn_primitive onednn_primitive_t;

/* ONEDNN_TRAINING is a forward pass that also stores the values that the backward pass needs: a
 * workspace, and for norms mean and variance. The backward kinds compute gradients from the
 * gradient of dst. */
typedef enum onednn_propagation {
    ONEDNN_INFERENCE = 0,
    ONEDNN_TRAINING,
    ONEDNN_BACKWARD,       /* norms: gradients of src, scale and shift; recurrent: all gradients */
    ONEDNN_BACKWARD_DATA,  /* gradient of src only */
    ONEDNN_BACKWARD_WEIGHT /* gradients of weight and bias */
} onednn_propagation_t;

/* Direction in which a recurrent layer reads its sequence; results of both directions are
 * concatenated or added. */
typedef enum onednn_direction {
    ONEDNN_LEFT_TO_RIGHT = 0,
    ONEDNN_RIGHT_TO_LEFT,
    ONEDNN_BOTH_CONCATENATED,
    ONEDNN_BOTH_SUMMED
} onednn_direction_t;

#define ONEDNN_MAX_SPATIAL 12 /* oneDNN's array size; at most 3 are used */
#define ONEDNN_MAX_SRC 4
#define ONEDNN_MAX_WEIGHT 4
#define ONEDNN_MAX_DST 3
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
    float alpha, beta; /* sum: alpha times the old dst; alpha 0: the scale and zero of dst */
    const tensor_info_t *operand; /* ONEDNN_POST_BINARY only */
} onednn_post_op_t;

/* Maps the integers of an operand to numbers: number = scale (integer - zero). */
typedef struct onednn_quantization {
    bool has_scale, has_zero;
    bool is_per_channel; /* weight: one scale for each output channel; otherwise one for all */
    const float *scale;  /* scales that are constant; NULL: they are an argument of each run */
    const int32_t *zero; /* one constant value; NULL: it is an argument of each run */
} onednn_quantization_t;

/* Describes a primitive. An info with FORMAT_ANY lets oneDNN choose the format. Arrays of spatial
 * dimensions start with the slowest one. A stride or dilation of 1 is the smallest. Unused fields
 * are zero.
 *
 * A problem sets exactly the operands that it reads and writes (read > written):
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
 *   rnn: BACKWARD         src, weight, bias, dst, diff_dst > diff_src, diff_weight, diff_bias
 *
 * A recurrent layer has several operands of each kind. Sizes: T steps, N sequences, C inputs, H
 * hidden elements, L layers, D directions, G gates. Absent ones have dtype DTYPE_NONE.
 *
 *   src[n_src]   layer [T][N][C], iter [L][D][N][H], iter_c [L][D][N][H] (lstm)
 *   weight[4]    layer [L][D][C][G][H], iter [L][D][H][G][H], peephole [L][D][3][H],
 *                projection [L][D][H][P]
 *   bias         [L][D][G][H]; G + 1 for lbr_gru
 *   dst[3]       layer [T][N][H], 2 H if concatenated; iter and iter_c as in src
 *
 * Projected states have P elements instead of H. Gradients have the same sizes; gradients of weight
 * and bias are added to the existing values.
 *
 * Matmul, binary and reorder are forward only. Other arguments (workspace, mean and variance, scale
 * and shift) follow from the other fields: see onednn_argument_t. */
typedef struct onednn_problem {
    onednn_kind_t kind;
    onednn_algorithm_t algorithm;
    onednn_propagation_t propagation;
    onednn_primitive_t *forward; /* backward: the primitive of the same layer in ONEDNN_TRAINING */
    int n_src;
    const tensor_info_t *src;    /* [n_src] */
    const tensor_info_t *weight; /* grouped convolution: [G][K/G][C/G]..; recurrent: [4]; or NULL */
    const tensor_info_t *bias;   /* NULL: none */
    const tensor_info_t *dst;    /* recurrent: array of 3 */
    const tensor_info_t *diff_src, *diff_weight, *diff_bias, *diff_dst;
    int64_t kernel[ONEDNN_MAX_SPATIAL];
    int64_t stride[ONEDNN_MAX_SPATIAL];
    int64_t dilation[ONEDNN_MAX_SPATIAL];
    int64_t pad_begin[ONEDNN_MAX_SPATIAL];
    int64_t pad_end[ONEDNN_MAX_SPATIAL];
    onednn_direction_t direction; /* recurrent */
    int axis;                     /* softmax */
    int64_t size;                 /* lrn */
    float alpha, beta;            /* eltwise; lrn */
    float k;                      /* lrn */
    float epsilon;                /* norms */
    bool has_scale;               /* norms: scale and shift are arguments */
    bool has_relu;                /* batch norm: applies max(0, ..) to the result */
    bool fixed_statistics; /* norms: mean and variance are arguments, not computed from src; always
                              true for batch norm in inference */
    bool from_dst;         /* eltwise: backward uses dst, possible for relu, elu with alpha >= 0,
                              tanh, sigmoid, exp and sqrt */
    /* Convolution, deconvolution, inner product, matmul, reorder: operands are dequantized, then
     * post-ops are applied, then the result is rounded to integers. The bias is f32 and not
     * quantized. oneDNN 2.6 supports neither scales as convolution arguments nor a dst scale before
     * post-ops. */
    onednn_quantization_t src_quantization, weight_quantization, dst_quantization;
    int n_post;
    onednn_post_op_t post[ONEDNN_MAX_POST_OPS];
} onednn_problem_t;

#endif
