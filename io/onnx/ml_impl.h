/* Functions shared by the import functions of ai.onnx.ml: attributes that are lists, and scores of
 * classes. */
#ifndef TESSERA_IO_ONNX_ML_IMPL_H
#define TESSERA_IO_ONNX_ML_IMPL_H

#include "io/onnx/node_impl.h"

/* Attributes that are lists of any length. n is 0 if the attribute is missing. The model owns the
 * elements. */
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
/* Only counts the strings, because string tensors are not supported. */
status_t ml_count_strings(onnx_node_t *node, const char *name, size_t *out_n);

/* Creates a known item. Copies the elements. */
status_t ml_known(onnx_node_t *node, dtype_t dtype, int rank, const int64_t *sizes,
                  const void *elements, item_t *out);

/* Reduces one dimension; the result has size 1 there. */
status_t ml_reduce(onnx_node_t *node, const char *op, int dim, item_t x, item_t *out);

/* Input 0 as f32 [N][F]. If `keeps_wide`, f64 stays f64. */
status_t ml_rows(onnx_node_t *node, bool keeps_wide, item_t *out);

/* ---- scores ---- */

typedef enum ml_transform {
    ML_NONE,
    ML_SOFTMAX,
    ML_LOGISTIC,
    ML_SOFTMAX_ZERO,
    ML_PROBIT
} ml_transform_t;
/* Read and apply the attribute post_transform. UNSUPPORTED for PROBIT. */
status_t ml_read_transform(onnx_node_t *node, ml_transform_t *out);
status_t ml_transform(onnx_node_t *node, ml_transform_t transform, item_t scores, item_t *out);

/* Makes scores [N][2] from s [N][1], the scores of the second class. The score of the first class
 * is 1 - s if the transform is logistic or if is_positive (no weight is negative), else -s. */
status_t ml_add_first_class(onnx_node_t *node, ml_transform_t transform, bool is_positive,
                            item_t scores, item_t *out);

/* Set output 0 to class labels. ml_label_largest: the label of the largest score. ml_label_above:
 * for two classes, the second label where the score [N][1] exceeds the threshold, else the first.
 * If labels are strings, the output is not supported. */
status_t ml_label_largest(onnx_node_t *node, ml_ints_t labels, item_t scores);
status_t ml_label_above(onnx_node_t *node, const int64_t *labels, item_t score, double threshold);

/* ---- strings, which tensors do not support ---- */

/* True if output 0 of the node is a tensor of strings (labels). */
bool ml_gives_text(const Onnx__NodeProto *proto);
/* Binds a name to a string tensor. Only nodes that return strings may read it. */
status_t ml_bind_text(onnx_t *onnx, const char *name);
/* If an input of the node is a string tensor, binds all outputs as strings and sets
 * *out_is_text. */
status_t ml_pass_text(onnx_t *onnx, const Onnx__NodeProto *proto, bool *out_is_text);
/* Removes string outputs from the graph. UNSUPPORTED if no other output remains. */
status_t ml_drop_texts(onnx_t *onnx);

#endif
