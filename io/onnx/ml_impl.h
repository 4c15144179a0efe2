/* What the importers of ai.onnx.ml share: lists of attributes, and scores. */
#ifndef TESSERA_IO_ONNX_ML_IMPL_H
#define TESSERA_IO_ONNX_ML_IMPL_H

#include "io/onnx/node_impl.h"

#ifdef TESSERA_HAVE_ONNX

/* Lists of any length; n is 0 where there is none. They live as long as the message. */
typedef struct ml_ints {
    size_t n;
    const int64_t *at;
} ml_ints_t;
typedef struct ml_floats {
    size_t n;
    const float *at;
} ml_floats_t;
status_t ml_read_ints(onnx_node_t *node, const char *name, ml_ints_t *out);
status_t ml_read_floats(onnx_node_t *node, const char *name, ml_floats_t *out);
/* Only how many there are: tensors of text are not supported. */
status_t ml_count_strings(onnx_node_t *node, const char *name, size_t *out_n);

/* A known item of these elements, which are copied. */
status_t ml_known(onnx_node_t *node, dtype_t dtype, int rank, const int64_t *sizes,
                  const void *elements, item_t *out);

/* An operator on x and a number. */
status_t ml_with_number(onnx_node_t *node, const char *op, item_t x, double number, item_t *out);
/* An operator along a dimension, which stays with size 1. */
status_t ml_reduce(onnx_node_t *node, const char *op, int dim, item_t x, item_t *out);

/* Input 0 as f32 [N][F]; f64 stays where `keeps_wide`. */
status_t ml_rows(onnx_node_t *node, bool keeps_wide, item_t *out);

/* ---- scores ---- */

typedef enum ml_transform {
    ML_NONE,
    ML_SOFTMAX,
    ML_LOGISTIC,
    ML_SOFTMAX_ZERO,
    ML_PROBIT
} ml_transform_t;
/* UNSUPPORTED for PROBIT. */
status_t ml_read_transform(onnx_node_t *node, ml_transform_t *out);
status_t ml_transform(onnx_node_t *node, ml_transform_t transform, item_t scores, item_t *out);

/* Scores [N][1] of the second class, and those of the first one before them: 1 - s, or -s where
 * weights are of both signs. */
status_t ml_add_first_class(onnx_node_t *node, ml_transform_t transform, bool is_positive,
                            item_t scores, item_t *out);

/* Labels as an output: the one of the largest score, or, of two, the second one where the score
 * [N][1] is above a threshold. Labels of text are an output that is not supported. */
status_t ml_label_largest(onnx_node_t *node, ml_ints_t labels, item_t scores);
status_t ml_label_above(onnx_node_t *node, const int64_t *labels, item_t score, double threshold);

/* ---- texts, which no tensor of ours has ---- */

/* The node gives labels that are texts: its output 0. */
bool ml_gives_text(const Onnx__NodeProto *proto);
/* Binds a name to a text that nothing may read but what gives texts. */
status_t ml_bind_text(onnx_t *onnx, const char *name);
/* True where an input of the node is a text: then its outputs are bound to texts, too. */
status_t ml_pass_text(onnx_t *onnx, const Onnx__NodeProto *proto, bool *out_is_text);
/* Takes outputs that are texts away from the graph. UNSUPPORTED where no other is left. */
status_t ml_drop_texts(onnx_t *onnx);

#endif
#endif
