/* Operators of ai.onnx.ml that encode features, and linear models. Composed of other operators. */
#include "io/onnx/ml_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- numbers ---- */

/* Requires one number for all features, or one for each feature. */
static status_t check_features(onnx_node_t *node, const char *name, size_t n, item_t x)
{
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int64_t features = info.rank > 0 ? info.sizes[info.rank - 1] : 1;
    if (n != 1 && !sym_equal(node->onnx->ctx, (int64_t)n, features))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %zu numbers, x is %s", name, n,
             onnx_brief(node, &info));
    return STATUS_OK;
}

/* (x - offset) * scale */
status_t onnx_import_scaler(onnx_node_t *node)
{
    static const char *const names[] = {"offset", "scale"};
    static const char *const ops[] = {"sub", "mul"};
    item_t x, known;
    TRY(onnx_cast(node, node->in[0], DTYPE_F32, &x));
    for (int i = 0; i < 2; i++) {
        ml_floats_t list;
        TRY(ml_read_floats(node, names[i], &list));
        if (list.n == 0) continue;
        const int64_t n = (int64_t)list.n;
        TRY(check_features(node, names[i], list.n, x));
        TRY(ml_known(node, DTYPE_F32, 1, &n, list.at, &known));
        TRY(onnx_binary(node, ops[i], x, known, &x));
    }
    return onnx_cast(node, x, DTYPE_F32, &node->out[0]);
}

/* Divides each row by its maximum, sum of absolute values or Euclidean length, unless that is 0. */
status_t onnx_import_normalizer(onnx_node_t *node)
{
    enum { MAX, L1, L2 };
    static const char *const norms[] = {"MAX", "L1", "L2", NULL};
    int norm = MAX;
    item_t x, size, is_none, one;
    TRY(onnx_attr_name(node, "norm", norms, MAX, &norm));
    TRY(onnx_cast(node, node->in[0], DTYPE_F32, &x));
    const int dim = onnx_info(node->onnx, x)->rank - 1;
    if (dim < 0)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "x is a number, rows of features are needed");
    size = x;
    if (norm != MAX) TRY(onnx_unary(node, norm == L1 ? "abs" : "square", x, &size));
    TRY(ml_reduce(node, norm == MAX ? "amax" : "sum", dim, size, &size));
    if (norm == L2) TRY(onnx_unary(node, "sqrt", size, &size));
    TRY(onnx_with_number(node, "eq", size, 0.0, &is_none));
    TRY(onnx_number(node->onnx, 1.0, &one));
    TRY(onnx_op(node, "where", NULL, 3, (const item_t[]){is_none, one, size}, &size));
    return onnx_binary(node, "div", x, size, &node->out[0]);
}

status_t onnx_import_binarizer(onnx_node_t *node)
{
    double threshold = 0;
    item_t x;
    TRY(onnx_attr_float(node, "threshold", 0.0, &threshold));
    TRY(onnx_with_number(node, "gt", node->in[0], threshold, &x));
    return onnx_cast(node, x, onnx_input_info(node, 0).dtype, &node->out[0]);
}

/* Replaces missing values by one number, or by a number for each feature. */
status_t onnx_import_imputer(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    const bool is_floating = dtype_is_floating(x.dtype);
    ml_floats_t floats;
    ml_ints_t ints;
    double replaced = 0;
    int64_t replaced_int = 0;
    item_t in[3] = {ITEM_NONE, ITEM_NONE, node->in[0]};
    TRY(ml_read_floats(node, "imputed_value_floats", &floats));
    TRY(ml_read_ints(node, "imputed_value_int64s", &ints));
    TRY(onnx_attr_float(node, "replaced_value_float", 0.0, &replaced));
    TRY(onnx_attr_int(node, "replaced_value_int64", 0, &replaced_int));
    const int64_t n = (int64_t)(is_floating ? floats.n : ints.n);
    if (n == 0)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "no values to put into x %s",
             onnx_brief(node, &x));
    TRY(check_features(node, "the list of values", (size_t)n, node->in[0]));
    TRY(is_floating ? ml_known(node, DTYPE_F32, 1, &n, floats.at, &in[1])
                    : ml_known(node, DTYPE_S64, 1, &n, ints.at, &in[1]));
    TRY(onnx_cast(node, in[1], x.dtype, &in[1]));
    if (is_floating && isnan(replaced)) {
        TRY(onnx_unary(node, "isnan", node->in[0], &in[0]));
    } else if (is_floating) {
        TRY(onnx_with_number(node, "eq", node->in[0], replaced, &in[0]));
    } else {
        TRY(onnx_integer(node->onnx, replaced_int, &in[0]));
        TRY(onnx_binary(node, "eq", node->in[0], in[0], &in[0]));
    }
    return onnx_op(node, "where", NULL, 3, in, &node->out[0]);
}

/* ---- columns ---- */

/* Gathers columns of x: [N][n]. A vector x counts as one row. */
status_t onnx_import_feature_extractor(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0), index = onnx_input_info(node, 1);
    const int64_t n = onnx_numel(node, &index), row[] = {1, n};
    item_t picked;
    if (x.rank < 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "x is a number, rows of features are needed");
    TRY(onnx_check_integers(node, 1, "the list of features"));
    TRY(onnx_reshape(node, node->in[1], 1, &n, &picked));
    TRY(onnx_op(node, "gather", ONNX_ATTRS(SET("dim", x.rank - 1)), 2,
                (const item_t[]){node->in[0], picked}, &node->out[0]));
    return x.rank > 1 ? STATUS_OK : onnx_reshape(node, node->out[0], 2, row, &node->out[0]);
}

/* Joins the columns of all inputs, as f32. */
status_t onnx_import_feature_vectorizer(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    item_t parts[OP_MAX_INPUTS];
    ml_ints_t sizes;
    TRY(onnx_check_inputs(node, 0, node->n_in));
    TRY(ml_read_ints(node, "inputdimensions", &sizes));
    if (sizes.n != 0 && sizes.n != (size_t)node->n_in)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "inputdimensions has %zu numbers for %d inputs", sizes.n,
             node->n_in);
    for (int i = 0; i < node->n_in; i++) {
        const tensor_info_t info = onnx_input_info(node, i);
        const int64_t column[] = {info.rank > 0 ? info.sizes[0] : 1, 1};
        if (info.rank < 1 || info.rank > 2 ||
            (sizes.n > 0 && !sym_equal(ctx, sizes.at[i], info.rank > 1 ? info.sizes[1] : 1)))
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "input %d is %s, inputdimensions says otherwise", i,
                 onnx_brief(node, &info));
        TRY(onnx_cast(node, node->in[i], DTYPE_F32, &parts[i]));
        if (info.rank == 1) TRY(onnx_reshape(node, parts[i], 2, column, &parts[i]));
    }
    if (node->n_in == 1) {
        node->out[0] = parts[0];
        return STATUS_OK;
    }
    return onnx_op(node, "concat", ONNX_ATTRS(SET("dim", 1)), node->n_in, parts, &node->out[0]);
}

/* The output is the tensor of probabilities, not a list of maps from labels to probabilities. */
status_t onnx_import_zip_map(onnx_node_t *node)
{
    onnx_attr_ignore(node, "classlabels_int64s");
    onnx_attr_ignore(node, "classlabels_strings");
    node->out[0] = node->in[0];
    return STATUS_OK;
}

/* ---- categories ---- */

/* True where an element equals one of the n keys: bool, [sizes of x][n]. NaN equals NaN. */
static status_t compare_keys(onnx_node_t *node, item_t keys, item_t *out)
{
    const tensor_info_t x = onnx_input_info(node, 0), info = *onnx_info(node->onnx, keys);
    int64_t sizes[TENSOR_MAX_RANK];
    item_t column, nans[2];
    if (x.rank >= TENSOR_MAX_RANK)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "x of rank %d, too many dimensions with one more",
             x.rank);
    for (int d = 0; d < x.rank; d++) sizes[d] = x.sizes[d];
    sizes[x.rank] = 1;
    TRY(onnx_reshape(node, node->in[0], x.rank + 1, sizes, &column));
    TRY(onnx_binary(node, "eq", column, keys, out));
    if (!dtype_is_floating(x.dtype) || !dtype_is_floating(info.dtype)) return STATUS_OK;
    TRY(onnx_unary(node, "isnan", column, &nans[0]));
    TRY(onnx_unary(node, "isnan", keys, &nans[1]));
    TRY(onnx_binary(node, "logical_and", nans[0], nans[1], &nans[0]));
    return onnx_binary(node, "logical_or", *out, nans[0], out);
}

/* The index of the first key that equals an element, as s64; n if there is none. */
static status_t find_key(onnx_node_t *node, int64_t n, item_t is_key, item_t *out)
{
    const int rank = onnx_info(node->onnx, is_key)->rank;
    const int64_t dims[] = {rank - 1};
    item_t in[3], all;
    TRY(onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0), SET("dtype", DTYPE_S64)), 1,
                &is_key, &all));
    TRY(onnx_op(node, "cumsum", ONNX_ATTRS(SET("dim", rank - 1), SET("exclusive", true)), 1, &all,
                &in[1]));
    in[0] = is_key;
    TRY(onnx_integer(node->onnx, n, &in[2]));
    TRY(onnx_op(node, "where", NULL, 3, in, &all));
    return onnx_op(node, "amin", ONNX_ATTRS(SET_INTS("dims", 1, dims)), 1, &all, out);
}

/* 1 at each element's category, 0 elsewhere. If `zeros` is 0, an element without a category is an
 * error: its index n is out of range when it gathers from a table of n elements. */
status_t onnx_import_one_hot_encoder(onnx_node_t *node)
{
    const tensor_info_t x = onnx_input_info(node, 0);
    ml_ints_t categories;
    size_t n_texts = 0;
    bool zeros = true;
    item_t known, is_key, place;
    TRY(ml_read_ints(node, "cats_int64s", &categories));
    TRY(ml_count_strings(node, "cats_strings", &n_texts));
    TRY(onnx_attr_bool(node, "zeros", true, &zeros));
    const int64_t n = (int64_t)categories.n;
    if (n_texts > 0) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "categories that are texts");
    if (n == 0 || n > ONNX_MAX_VALUES)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "cats_int64s has %lld numbers",
             (long long)n);
    TRY(ml_known(node, DTYPE_S64, 1, &n, categories.at, &known));
    if (dtype_is_floating(x.dtype)) TRY(onnx_cast(node, node->in[0], DTYPE_S64, &node->in[0]));
    TRY(compare_keys(node, known, &is_key));
    TRY(onnx_cast(node, is_key, DTYPE_F32, &node->out[0]));
    if (zeros) return STATUS_OK;
    TRY(find_key(node, n, is_key, &place));
    item_t ones, one, table;
    const int64_t sizes[] = {n};
    TRY(onnx_number(node->onnx, 1.0, &one));
    TRY(onnx_cast(node, known, DTYPE_F32, &table));
    TRY(onnx_op(node, "full_like", ONNX_ATTRS(SET_FLOAT("value", 1.0)), 1, &table, &table));
    TRY(onnx_reshape(node, table, 1, sizes, &table));
    TRY(onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 0)), 2, (const item_t[]){table, place},
                &ones));
    TRY(onnx_op(node, "unsqueeze", ONNX_ATTRS(SET_INTS("dims", 1, (const int64_t[]){x.rank})), 1,
                &ones, &ones));
    return onnx_binary(node, "mul", node->out[0], ones, &node->out[0]);
}

/* Reads a list of keys or values. Each element type has its own attribute. */
static status_t read_table(onnx_node_t *node, const char *what, item_t *out, int64_t *out_n)
{
    char name[64];
    ml_ints_t ints;
    ml_floats_t floats;
    size_t n_texts = 0;
    Onnx__TensorProto *proto = NULL;
    tensor_t *tensor = NULL;
    snprintf(name, sizeof name, "%s_strings", what);
    TRY(ml_count_strings(node, name, &n_texts));
    if (n_texts > 0) FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%s that are texts", what);
    snprintf(name, sizeof name, "%s_int64s", what);
    TRY(ml_read_ints(node, name, &ints));
    snprintf(name, sizeof name, "%s_floats", what);
    TRY(ml_read_floats(node, name, &floats));
    snprintf(name, sizeof name, "%s_tensor", what);
    TRY(onnx_attr_tensor(node, name, &proto));
    *out_n = (int64_t)(ints.n > 0 ? ints.n : floats.n);
    if (proto == NULL)
        return ints.n > 0 ? ml_known(node, DTYPE_S64, 1, out_n, ints.at, out)
                          : ml_known(node, DTYPE_F32, 1, out_n, floats.at, out);
    TRY(onnx_tensor_again(node->onnx, proto, &tensor));
    *out_n = tensor_numel(tensor);
    TRY(onnx_item_take(node->onnx, NULL, tensor, out));
    return onnx_reshape(node, *out, 1, out_n, out);
}

/* The result for elements that match no key, in the values' dtype: [1]. */
static status_t read_default(onnx_node_t *node, dtype_t dtype, item_t *out)
{
    const int64_t one = 1;
    Onnx__TensorProto *proto = NULL;
    tensor_t *tensor = NULL;
    double number = 0;
    int64_t integer = 0;
    onnx_attr_ignore(node, "default_string");
    TRY(onnx_attr_int(node, "default_int64", -1, &integer));
    TRY(onnx_attr_float(node, "default_float", 0.0, &number));
    TRY(onnx_attr_tensor(node, "default_tensor", &proto));
    if (proto != NULL) {
        TRY(onnx_tensor_again(node->onnx, proto, &tensor));
        TRY(onnx_item_take(node->onnx, NULL, tensor, out));
    } else if (dtype_is_floating(dtype)) {
        const float value = (float)number;
        TRY(ml_known(node, DTYPE_F32, 1, &one, &value, out));
    } else {
        TRY(ml_known(node, DTYPE_S64, 1, &one, &integer, out));
    }
    TRY(onnx_reshape(node, *out, 1, &one, out));
    return onnx_cast(node, *out, dtype, out);
}

/* Maps keys to values. */
status_t onnx_import_label_encoder(onnx_node_t *node)
{
    int64_t n_keys = 0, n_values = 0;
    item_t keys, values[2], place;
    TRY(read_table(node, "keys", &keys, &n_keys));
    TRY(read_table(node, "values", &values[0], &n_values));
    if (n_keys == 0 || n_keys != n_values || n_keys > ONNX_MAX_VALUES)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%lld keys and %lld values",
             (long long)n_keys, (long long)n_values);
    TRY(read_default(node, onnx_info(node->onnx, values[0])->dtype, &values[1]));
    TRY(compare_keys(node, keys, &place));
    TRY(find_key(node, n_keys, place, &place));
    TRY(onnx_op(node, "concat", ONNX_ATTRS(SET("dim", 0)), 2, values, &values[0]));
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 0)), 2, (const item_t[]){values[0], place},
                   &node->out[0]);
}

/* ---- linear models ---- */

/* Rows times coefficients [targets][features], plus intercepts: [N][targets]. */
static status_t product(onnx_node_t *node, int64_t n_targets, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    ml_floats_t coefficients, intercepts;
    item_t x, weight, bias;
    TRY(ml_read_floats(node, "coefficients", &coefficients));
    TRY(ml_read_floats(node, "intercepts", &intercepts));
    TRY(ml_rows(node, false, &x));
    const int64_t n_features = sym_pin(ctx, onnx_info(node->onnx, x)->sizes[1]);
    const int64_t sizes[] = {n_targets, n_features};
    if (n_targets < 1 || n_targets > INT32_MAX || n_features > INT32_MAX ||
        (int64_t)coefficients.n != n_targets * n_features ||
        (intercepts.n != 0 && (int64_t)intercepts.n != n_targets))
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "%zu coefficients and %zu intercepts, of %lld targets and %lld features",
             coefficients.n, intercepts.n, (long long)n_targets, (long long)n_features);
    TRY(ml_known(node, DTYPE_F32, 2, sizes, coefficients.at, &weight));
    TRY(onnx_permute(node, weight, 2, (const int64_t[]){1, 0}, &weight));
    TRY(onnx_binary(node, "matmul", x, weight, out));
    if (intercepts.n == 0) return STATUS_OK;
    TRY(ml_known(node, DTYPE_F32, 1, &n_targets, intercepts.at, &bias));
    return onnx_binary(node, "add", *out, bias, out);
}

status_t onnx_import_linear_regressor(onnx_node_t *node)
{
    int64_t n_targets = 1;
    ml_transform_t transform = ML_NONE;
    item_t scores;
    TRY(onnx_attr_int(node, "targets", 1, &n_targets));
    TRY(ml_read_transform(node, &transform));
    TRY(product(node, n_targets, &scores));
    return ml_transform(node, transform, scores, &node->out[0]);
}

/* A single score is that of the second of two classes. */
status_t onnx_import_linear_classifier(onnx_node_t *node)
{
    ml_ints_t labels;
    ml_floats_t intercepts;
    ml_transform_t transform = ML_NONE;
    size_t n_texts = 0;
    item_t scores;
    onnx_attr_ignore(node, "multi_class");
    TRY(ml_read_ints(node, "classlabels_ints", &labels));
    TRY(ml_count_strings(node, "classlabels_strings", &n_texts));
    TRY(ml_read_floats(node, "intercepts", &intercepts));
    TRY(ml_read_transform(node, &transform));
    const size_t n = n_texts > 0 ? n_texts : labels.n;
    if (n_texts > 0) labels.n = 0;
    if (n < 2 || (intercepts.n != n && !(n == 2 && intercepts.n == 1)))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%zu class labels and %zu intercepts", n,
             intercepts.n);
    TRY(product(node, (int64_t)intercepts.n, &scores));
    if (intercepts.n == 1) {
        if (labels.n == 2) TRY(ml_label_above(node, labels.at, scores, 0.0));
        return ml_add_first_class(node, transform, true, scores, &node->out[1]);
    }
    TRY(ml_label_largest(node, labels, scores));
    return ml_transform(node, transform, scores, &node->out[1]);
}
