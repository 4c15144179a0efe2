/* Attributes and known inputs of ONNX nodes. */
#include "io/onnx/function_impl.h"

#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- inputs ---- */

status_t onnx_check_inputs(const onnx_node_t *node, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (!onnx_has(node, i))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "input %d is missing", i);
    return STATUS_OK;
}

/* ---- attributes ---- */

Onnx__AttributeProto *onnx_attr(onnx_node_t *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        Onnx__AttributeProto *attr = node->proto->attribute[i];
        if (attr->name == NULL || strcmp(attr->name, name) != 0) continue;
        if (i < 64) node->asked |= UINT64_C(1) << i;
        return onnx_attr_given(node->onnx, attr);
    }
    return NULL;
}

/* True if the attribute has this type. Old files omit the type. */
static bool is_type(const Onnx__AttributeProto *attr, Onnx__AttributeProto__AttributeType type)
{
    return !attr->has_type || attr->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED ||
           attr->type == type;
}

static status_t fail_kind(onnx_node_t *node, const char *name, const char *kind)
{
    FAIL(node->onnx->ctx, STATUS_CORRUPT, "attribute %s is not %s", name, kind);
}

bool onnx_has_attr(onnx_node_t *node, const char *name)
{
    return onnx_attr(node, name) != NULL;
}

status_t onnx_attr_int(onnx_node_t *node, const char *name, int64_t initial, int64_t *out_value)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    if (attr != NULL && !is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT))
        return fail_kind(node, name, "an integer");
    *out_value = attr != NULL ? attr->i : initial;
    return STATUS_OK;
}

status_t onnx_attr_bool(onnx_node_t *node, const char *name, bool initial, bool *out_value)
{
    int64_t value = 0;
    TRY(onnx_attr_int(node, name, initial, &value));
    if (value != 0 && value != 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s is %lld, 0 or 1 is needed", name,
             (long long)value);
    *out_value = value != 0;
    return STATUS_OK;
}

status_t onnx_attr_float(onnx_node_t *node, const char *name, double initial, double *out_value)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    if (attr != NULL && !is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT))
        return fail_kind(node, name, "a float");
    *out_value = attr != NULL ? (double)attr->f : initial;
    return STATUS_OK;
}

status_t onnx_attr_name(onnx_node_t *node, const char *name, const char *const *names, int initial,
                        int *out_index)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out_index = initial;
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING))
        return fail_kind(node, name, "a string");
    for (int i = 0; names[i] != NULL; i++) {
        *out_index = i;
        if (strlen(names[i]) == attr->s.len && memcmp(names[i], attr->s.data, attr->s.len) == 0)
            return STATUS_OK;
    }
    FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "%s \"%.*s\"", name,
         (int)(attr->s.len < 64 ? attr->s.len : 64),
         attr->s.data != NULL ? (const char *)attr->s.data : "");
}

/* Raises numbers that would be taken for symbols' handles. */
static void raise_lowest(int n, int64_t *values)
{
    for (int i = 0; i < n; i++)
        if (values[i] < INT64_MIN / 2) values[i] = INT64_MIN / 2;
}

status_t onnx_attr_ints(onnx_node_t *node, const char *name, int capacity, int *out_n,
                        int64_t *out_values)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out_n = -1;
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS))
        return fail_kind(node, name, "a list of integers");
    if (attr->n_ints > (size_t)capacity)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %zu numbers, %d are the most", name,
             attr->n_ints, capacity);
    *out_n = (int)attr->n_ints;
    for (size_t i = 0; i < attr->n_ints; i++) out_values[i] = attr->ints[i];
    raise_lowest(*out_n, out_values);
    return STATUS_OK;
}

status_t onnx_attr_floats(onnx_node_t *node, const char *name, int capacity, int *out_n,
                          double *out_values)
{
    const Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out_n = -1;
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS))
        return fail_kind(node, name, "a list of floats");
    if (attr->n_floats > (size_t)capacity)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s has %zu numbers, %d are the most", name,
             attr->n_floats, capacity);
    *out_n = (int)attr->n_floats;
    for (size_t i = 0; i < attr->n_floats; i++) out_values[i] = (double)attr->floats[i];
    return STATUS_OK;
}

status_t onnx_attr_tensor(onnx_node_t *node, const char *name, Onnx__TensorProto **out_proto)
{
    Onnx__AttributeProto *attr = onnx_attr(node, name);
    *out_proto = NULL;
    if (attr == NULL) return STATUS_OK;
    if (!is_type(attr, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR) || attr->t == NULL)
        return fail_kind(node, name, "a tensor");
    *out_proto = attr->t;
    return STATUS_OK;
}

void onnx_attr_ignore(onnx_node_t *node, const char *name)
{
    (void)onnx_attr(node, name);
}

status_t onnx_attrs_done(const onnx_node_t *node)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const char *name = node->proto->attribute[i]->name;
        if (i >= 64 || (node->asked >> i & 1) == 0)
            FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "attribute %s in opset %lld",
                 name != NULL ? name : "\"\"", (long long)node->opset);
    }
    return STATUS_OK;
}

/* ---- known inputs ---- */

/* Reads at most `capacity` elements as another dtype. *out_n is -1 if the input is left out. */
static status_t read_known(onnx_node_t *node, int input, const char *what, dtype_t dtype,
                           int capacity, int *out_n, void *out_values)
{
    context_t *ctx = node->onnx->ctx;
    *out_n = -1;
    if (!onnx_has(node, input)) return STATUS_OK;
    const tensor_t *known = onnx_tensor_of(node->onnx, node->in[input]);
    if (known == NULL)
        FAIL(ctx, STATUS_UNSUPPORTED, "%s is not known at import, it depends on the data", what);
    if (tensor_numel(known) > capacity)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s is %s, %d numbers are the most", what,
             tensor_text(known), capacity);
    tensor_info_t info = *tensor_info(known);
    info = info_dense(dtype, info.rank, info.sizes);
    tensor_t *copy = NULL;
    TRY(tensor_make(ctx, &info, &copy));
    status_t status = tensor_copy(ctx, copy, known);
    if (status == STATUS_OK) status = tensor_read(ctx, copy, out_values, (size_t)capacity * 8);
    if (status == STATUS_OK) *out_n = (int)tensor_numel(known);
    tensor_drop(copy);
    return status;
}

status_t onnx_check_integers(onnx_node_t *node, int input, const char *what)
{
    if (onnx_has(node, input) && dtype_is_floating(onnx_input_info(node, input).dtype))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s is %s, integers are needed", what,
             info_brief(onnx_info(node->onnx, node->in[input])));
    return STATUS_OK;
}

/* The input's symbols; NULL if it has none, or if they are known only at run time. */
static const int64_t *symbols_of(const onnx_node_t *node, int input)
{
    if (!onnx_has(node, input)) return NULL;
    const onnx_item_t *item = &node->onnx->items[node->in[input]];
    return item->is_live ? NULL : item->symbols;
}

static status_t read_symbols(onnx_node_t *node, int input, const char *what, int capacity,
                             int *out_n, int64_t *out_values)
{
    const tensor_info_t *info = onnx_info(node->onnx, node->in[input]);
    const int64_t n = info_numel(info);
    if (n > capacity)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s is %s, %d numbers are the most", what,
             info_brief(info), capacity);
    memcpy(out_values, symbols_of(node, input), (size_t)n * sizeof *out_values);
    *out_n = (int)n;
    return STATUS_OK;
}

status_t onnx_input_numbers(onnx_node_t *node, int input, const char *what, int capacity,
                            int *out_n, int64_t *out_values)
{
    TRY(onnx_check_integers(node, input, what));
    if (symbols_of(node, input) == NULL)
        return read_known(node, input, what, DTYPE_S64, capacity, out_n, out_values);
    TRY(read_symbols(node, input, what, capacity, out_n, out_values));
    for (int i = 0; i < *out_n; i++) out_values[i] = sym_pin(node->onnx->ctx, out_values[i]);
    return sym_status(node->onnx->ctx);
}

status_t onnx_input_ints(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                         int64_t *out_values)
{
    TRY(onnx_check_integers(node, input, what));
    if (symbols_of(node, input) != NULL)
        return read_symbols(node, input, what, capacity, out_n, out_values);
    TRY(read_known(node, input, what, DTYPE_S64, capacity, out_n, out_values));
    raise_lowest(*out_n, out_values);
    return STATUS_OK;
}

status_t onnx_input_floats(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                           double *out_values)
{
    return read_known(node, input, what, DTYPE_F64, capacity, out_n, out_values);
}

status_t onnx_input_reals(onnx_node_t *node, int input, const char *what, int capacity, int *out_n,
                          int64_t *out_values)
{
    double number = 0;
    if (symbols_of(node, input) != NULL) {
        TRY(read_symbols(node, input, what, capacity, out_n, out_values));
        for (int i = 0; i < *out_n; i++)
            out_values[i] = sym_to_real(node->onnx->ctx, SYM_F64, out_values[i]);
        return STATUS_OK;
    }
    TRY(read_known(node, input, what, DTYPE_F64, capacity, out_n, out_values));
    for (int i = 0; i < *out_n; i++) {
        memcpy(&number, &out_values[i], sizeof number);
        out_values[i] = sym_real(node->onnx->ctx, SYM_F64, number);
    }
    return STATUS_OK;
}

status_t onnx_ints_since(onnx_node_t *node, int64_t since, const char *name, int input,
                         int capacity, int *out_n, int64_t *out_values)
{
    return node->opset < since ? onnx_attr_ints(node, name, capacity, out_n, out_values)
                               : onnx_input_ints(node, input, name, capacity, out_n, out_values);
}

status_t onnx_numbers_since(onnx_node_t *node, int64_t since, const char *name, int input,
                            int capacity, int *out_n, int64_t *out_values)
{
    return node->opset < since ? onnx_attr_ints(node, name, capacity, out_n, out_values)
                               : onnx_input_numbers(node, input, name, capacity, out_n, out_values);
}

/* ---- dimensions ---- */

status_t onnx_dims(onnx_node_t *node, int rank, int n, int64_t *dims)
{
    bool is_there[TENSOR_MAX_RANK + 1] = {false};
    for (int i = 0; i < n; i++) {
        int dim = 0;
        if (rank == 0 || !shape_dim(rank, dims[i], &dim))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
                 (long long)dims[i], rank);
        if (is_there[dim])
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld is given twice",
                 (long long)dims[i]);
        is_there[dim] = true;
    }
    for (int dim = 0, i = 0; dim < rank; dim++)
        if (is_there[dim]) dims[i++] = dim;
    return STATUS_OK;
}

status_t onnx_dims_in_order(onnx_node_t *node, int rank, int n, int64_t *dims)
{
    bool is_used[TENSOR_MAX_RANK] = {false};
    for (int i = 0; i < n; i++) {
        int dim = 0;
        if (rank == 0 || !shape_dim(rank, dims[i], &dim) || is_used[dim])
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d",
                 (long long)dims[i], rank);
        is_used[dim] = true;
        dims[i] = dim;
    }
    return STATUS_OK;
}

status_t onnx_dim(onnx_node_t *node, const char *name, int rank, int64_t initial, int *out_dim)
{
    int64_t dim = 0;
    TRY(onnx_attr_int(node, name, initial, &dim));
    if (!shape_dim(rank, dim, out_dim))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "%s %lld of rank %d", name, (long long)dim,
             rank);
    return STATUS_OK;
}
