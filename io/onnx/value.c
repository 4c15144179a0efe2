/* Converts TensorProto to tensors. */
#include "io/onnx/narrow_impl.h"

#include <string.h>

#include "tensor/tensor_impl.h"

/* ---- element types ---- */

static const struct {
    const char *name;
    dtype_t dtype; /* DTYPE_NONE: not supported */
} types[] = {
    {"UNDEFINED", DTYPE_NONE},
    {"FLOAT", DTYPE_F32},
    {"UINT8", DTYPE_U8},
    {"INT8", DTYPE_S8},
    {"UINT16", DTYPE_U16},
    {"INT16", DTYPE_S16},
    {"INT32", DTYPE_S32},
    {"INT64", DTYPE_S64},
    {"STRING", DTYPE_NONE},
    {"BOOL", DTYPE_BOOL},
    {"FLOAT16", DTYPE_F16},
    {"DOUBLE", DTYPE_F64},
    {"UINT32", DTYPE_U32},
    {"UINT64", DTYPE_U64},
    {"COMPLEX64", DTYPE_NONE},
    {"COMPLEX128", DTYPE_NONE},
    {"BFLOAT16", DTYPE_BF16},
    {"FLOAT8E4M3FN", DTYPE_NONE},
    {"FLOAT8E4M3FNUZ", DTYPE_NONE},
    {"FLOAT8E5M2", DTYPE_NONE},
    {"FLOAT8E5M2FNUZ", DTYPE_NONE},
    {"UINT4", DTYPE_NONE},
    {"INT4", DTYPE_NONE},
    {"FLOAT4E2M1", DTYPE_NONE},
    {"FLOAT8E8M0", DTYPE_NONE},
    {"UINT2", DTYPE_NONE},
    {"INT2", DTYPE_NONE},
    {"FLOAT6E2M3", DTYPE_NONE},
    {"FLOAT6E3M2", DTYPE_NONE},
};

status_t onnx_dtype(context_t *ctx, int64_t data_type, dtype_t *out_dtype)
{
    bool is_known = data_type >= 0 && data_type < (int64_t)(sizeof types / sizeof *types);
    if (!is_known || types[data_type].dtype == DTYPE_NONE)
        FAIL(ctx, STATUS_UNSUPPORTED, "elements of type %s (%lld)",
             is_known ? types[data_type].name : "unknown", (long long)data_type);
    *out_dtype = types[data_type].dtype;
    return STATUS_OK;
}

/* ---- elements ---- */

/* The typed list that holds elements of a dtype. */
typedef struct field {
    const char *name;
    size_t n;
    const void *items;
    size_t item_bytes;
} field_t;

static field_t field_of(const Onnx__TensorProto *proto, dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_F32: return (field_t){"float_data", proto->n_float_data, proto->float_data, 4};
    case DTYPE_F64: return (field_t){"double_data", proto->n_double_data, proto->double_data, 8};
    case DTYPE_S64: return (field_t){"int64_data", proto->n_int64_data, proto->int64_data, 8};
    case DTYPE_U32:
    case DTYPE_U64: return (field_t){"uint64_data", proto->n_uint64_data, proto->uint64_data, 8};
    default: return (field_t){"int32_data", proto->n_int32_data, proto->int32_data, 4};
    }
}

/* Copies the low bytes of each list item (little endian, like raw_data), because an element may be
 * smaller than an item. */
static void copy_field(const field_t *field, dtype_t dtype, void *out)
{
    size_t size = dtype_size(dtype);
    for (size_t i = 0; i < field->n; i++)
        memcpy((char *)out + i * size, (const char *)field->items + i * field->item_bytes, size);
}

/* Sets all nonzero bytes to 1: any nonzero byte is true. */
static void settle_bools(uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) bytes[i] = bytes[i] != 0;
}

static void free_bytes(onnx_t *onnx, void *list, size_t *n)
{
    void *block;
    memcpy(&block, list, sizeof block);
    if (block != NULL) onnx->allocator.free(onnx->allocator.allocator_data, block);
    memset(list, 0, sizeof block);
    *n = 0;
}

static void free_elements(onnx_t *onnx, Onnx__TensorProto *proto)
{
    free_bytes(onnx, &proto->raw_data.data, &proto->raw_data.len);
    free_bytes(onnx, &proto->float_data, &proto->n_float_data);
    free_bytes(onnx, &proto->double_data, &proto->n_double_data);
    free_bytes(onnx, &proto->int32_data, &proto->n_int32_data);
    free_bytes(onnx, &proto->int64_data, &proto->n_int64_data);
    free_bytes(onnx, &proto->uint64_data, &proto->n_uint64_data);
}

static bool is_external(const Onnx__TensorProto *proto)
{
    return proto->has_data_location &&
           proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* Reads packed narrow elements. A typed list has one item for each byte. */
static status_t read_narrow(onnx_t *onnx, const Onnx__TensorProto *proto, size_t n_bytes,
                            uint8_t *bytes)
{
    const char *name = proto->name != NULL ? proto->name : "";
    if (is_external(proto)) return onnx_external(onnx, proto, n_bytes, bytes);
    const size_t have = proto->has_raw_data ? proto->raw_data.len : proto->n_int32_data;
    if (have != n_bytes)
        FAIL(onnx->ctx, STATUS_CORRUPT, "tensor \"%s\": %s of %zu bytes, %s of these sizes has %zu",
             name, proto->has_raw_data ? "raw_data" : "int32_data", have,
             onnx_narrow_of(proto->data_type)->name, n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        bytes[i] = proto->has_raw_data ? proto->raw_data.data[i] : (uint8_t)proto->int32_data[i];
    return STATUS_OK;
}

static status_t fill_narrow(onnx_t *onnx, const Onnx__TensorProto *proto,
                            const onnx_narrow_t *narrow, size_t n, void *bytes)
{
    const size_t n_bytes = onnx_narrow_bytes(narrow, n);
    uint8_t *packed = NULL;
    TRY(context_get(onnx->ctx, n_bytes + 1, "packed elements", &packed));
    status_t status = read_narrow(onnx, proto, n_bytes, packed);
    if (status == STATUS_OK) onnx_narrow_widen(narrow, n, packed, bytes);
    context_put(onnx->ctx, packed);
    return status;
}

static status_t fill(onnx_t *onnx, const Onnx__TensorProto *proto, const tensor_info_t *info,
                     void *bytes)
{
    context_t *ctx = onnx->ctx;
    const char *name = proto->name != NULL ? proto->name : "";
    size_t n = (size_t)info_numel(info), n_bytes = n * dtype_size(info->dtype);
    const onnx_narrow_t *narrow = onnx_narrow_of(proto->data_type);
    if (narrow != NULL) return fill_narrow(onnx, proto, narrow, n, bytes);
    if (is_external(proto)) {
        TRY(onnx_external(onnx, proto, n_bytes, bytes));
    } else if (proto->has_raw_data) {
        if (proto->raw_data.len != n_bytes)
            FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": raw_data of %zu bytes, %s has %zu", name,
                 proto->raw_data.len, info_brief(info), n_bytes);
        if (n_bytes > 0) memcpy(bytes, proto->raw_data.data, n_bytes);
    } else {
        field_t field = field_of(proto, info->dtype);
        if (field.n != n)
            FAIL(ctx, STATUS_CORRUPT, "tensor \"%s\": %s of %zu elements, %s has %zu", name,
                 field.name, field.n, info_brief(info), n);
        copy_field(&field, info->dtype, bytes);
    }
    if (info->dtype == DTYPE_BOOL) settle_bools(bytes, n);
    return STATUS_OK;
}

/* Refuses a tensor with two kinds of data, which is ambiguous. */
static status_t check_kinds(onnx_t *onnx, const Onnx__TensorProto *proto, const char *name)
{
    const char *const kinds[] = {is_external(proto) ? "external data" : NULL,
                                 proto->raw_data.len > 0 ? "raw_data" : NULL,
                                 proto->n_float_data > 0 ? "float_data" : NULL,
                                 proto->n_double_data > 0 ? "double_data" : NULL,
                                 proto->n_int32_data > 0 ? "int32_data" : NULL,
                                 proto->n_int64_data > 0 ? "int64_data" : NULL,
                                 proto->n_uint64_data > 0 ? "uint64_data" : NULL,
                                 proto->n_string_data > 0 ? "string_data" : NULL};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i] == NULL) continue;
        if (first != NULL)
            FAIL(onnx->ctx, STATUS_CORRUPT, "tensor \"%s\": %s and %s, one of them is needed", name,
                 first, kinds[i]);
        first = kinds[i];
    }
    return STATUS_OK;
}

/* Checks that the file has all elements. Called before allocation, so that a damaged file cannot
 * cause a huge allocation. */
static status_t check_bytes(onnx_t *onnx, const Onnx__TensorProto *proto, const char *name,
                            const tensor_info_t *info)
{
    const onnx_narrow_t *narrow = onnx_narrow_of(proto->data_type);
    size_t n_bytes = (size_t)info_numel(info) * dtype_size(info->dtype);
    if (narrow != NULL) n_bytes = onnx_narrow_bytes(narrow, (size_t)info_numel(info));
    TRY(check_kinds(onnx, proto, name));
    if (is_external(proto)) return onnx_external(onnx, proto, n_bytes, NULL);
    size_t have = proto->raw_data.len;
    if (!proto->has_raw_data) have = field_of(proto, info->dtype).n * dtype_size(info->dtype);
    if (narrow != NULL && !proto->has_raw_data) have = proto->n_int32_data;
    if (n_bytes > have)
        FAIL(onnx->ctx, STATUS_CORRUPT, "tensor \"%s\": %s has more elements than the file", name,
             info_brief(info));
    return STATUS_OK;
}

/* ---- tensors from the options ---- */

status_t onnx_tensor_given(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor)
{
    context_t *ctx = onnx->ctx;
    const onnx_tensor_t *given = NULL;
    char text[INFO_TEXT_MAX];
    dtype_t dtype = DTYPE_NONE;
    int narrow = 0;
    *out_tensor = NULL;
    for (int i = 0; onnx->options != NULL && i < onnx->options->n_tensors && given == NULL; i++)
        if (strcmp(onnx->options->tensors[i].initializer, proto->name) == 0)
            given = &onnx->options->tensors[i];
    if (given == NULL) return STATUS_OK;
    TRY(onnx_dtype_wide(ctx, proto->data_type, &dtype, &narrow));
    TRY(shape_check(ctx, "tensor", dtype, (int)proto->n_dims, proto->dims));
    const tensor_info_t wanted = info_dense(dtype, (int)proto->n_dims, proto->dims);
    const tensor_info_t *info = tensor_info(given->tensor);
    if (info->layout != LAYOUT_DENSE || info->dtype != dtype ||
        !shape_equal(info->rank, info->sizes, wanted.rank, wanted.sizes))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "the tensor given is %s, the file has %s",
             info_text(info, text), info_brief(&wanted));
    if (!info_is_contiguous(info)) return tensor_duplicate(ctx, given->tensor, out_tensor);
    *out_tensor = tensor_hold(given->tensor);
    return STATUS_OK;
}

static bool is_initializer(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name != NULL && strcmp(graph->initializer[i]->name, name) == 0)
            return true;
    return false;
}

status_t onnx_check_given(onnx_t *onnx, const Onnx__GraphProto *graph)
{
    context_t *ctx = onnx->ctx;
    const int n = onnx->options != NULL ? onnx->options->n_tensors : 0;
    if (n > 0 && onnx->options->tensors == NULL) return context_null(ctx, "onnx_load", "tensors");
    for (int i = 0; i < n; i++) {
        const onnx_tensor_t *given = &onnx->options->tensors[i];
        if (given->initializer == NULL) return context_null(ctx, "onnx_load", "an initializer");
        if (given->tensor == NULL) return context_null(ctx, "onnx_load", "a tensor");
        REQUIRE(ctx, is_initializer(graph, given->initializer),
                "onnx: a tensor is given for \"%s\", the file has no such initializer",
                given->initializer);
    }
    return STATUS_OK;
}

/* ---- tensors from the file ---- */

status_t onnx_tensor_again(onnx_t *onnx, const Onnx__TensorProto *proto, tensor_t **out_tensor)
{
    context_t *ctx = onnx->ctx;
    const char *name = proto->name != NULL ? proto->name : "";
    dtype_t dtype = DTYPE_NONE;
    int narrow = 0;
    TRY(onnx_dtype_wide(ctx, proto->data_type, &dtype, &narrow));
    if (proto->n_dims > TENSOR_MAX_RANK)
        FAIL(ctx, STATUS_UNSUPPORTED, "tensor \"%s\": rank %zu, must be at most %d", name,
             proto->n_dims, TENSOR_MAX_RANK);
    if (proto->segment != NULL) FAIL(ctx, STATUS_UNSUPPORTED, "tensor \"%s\": in segments", name);
    TRY(shape_check(ctx, "tensor", dtype, (int)proto->n_dims, proto->dims));
    tensor_info_t info = info_dense(dtype, (int)proto->n_dims, proto->dims);
    TRY(check_bytes(onnx, proto, name, &info));
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(tensor_make(ctx, &info, &tensor));
    status_t status = tensor_writable(ctx, tensor, &bytes);
    if (status == STATUS_OK) status = fill(onnx, proto, &info, bytes);
    GIVE(status, out_tensor, tensor, tensor_drop(tensor));
}

status_t onnx_tensor(onnx_t *onnx, Onnx__TensorProto *proto, tensor_t **out_tensor)
{
    TRY(onnx_tensor_again(onnx, proto, out_tensor));
    free_elements(onnx, proto);
    return STATUS_OK;
}
