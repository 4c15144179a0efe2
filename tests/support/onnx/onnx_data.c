#include "tests/support/support.h"

#include <math.h>
#include <stdlib.h>

#include "io/onnx/onnx_impl.h"
#include "tensor/file/file.h"
#include "tensor/tensor_impl.h"
#include "tests/support/onnx/onnx_data.h"

const run_mode_t onnx_data_modes[MODE_COUNT] = {MODE_DENSE, MODE_FROZEN, MODE_NHWC, MODE_MKLDNN,
                                                MODE_GRAPH};

void *onnx_data_read(context_t *ctx, const ProtobufCMessageDescriptor *type, const char *path)
{
    file_mapping_t *mapping = NULL;
    if (file_map(ctx, path, &mapping) != STATUS_OK) return NULL;
    void *message = protobuf_c_message_unpack(type, NULL, file_size(mapping), file_bytes(mapping));
    file_release(mapping);
    return message;
}

static void *plain_get(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void plain_put(void *user, void *block)
{
    (void)user;
    free(block);
}

/* Importing takes the bytes out of the message, so it gets a copy of the message. */
status_t onnx_data_tensor(context_t *ctx, const Onnx__TensorProto *proto, tensor_t **out_tensor)
{
    onnx_t onnx = {.ctx = ctx, .allocator = {plain_get, plain_put, NULL}};
    size_t n_bytes = onnx__tensor_proto__get_packed_size(proto);
    uint8_t *bytes = malloc(n_bytes + 1);
    assert_non_null(bytes);
    onnx__tensor_proto__pack(proto, bytes);
    Onnx__TensorProto *copy = onnx__tensor_proto__unpack(&onnx.allocator, n_bytes, bytes);
    free(bytes);
    assert_non_null(copy);
    status_t status = onnx_tensor(&onnx, copy, out_tensor);
    onnx__tensor_proto__free_unpacked(copy, &onnx.allocator);
    return status;
}

/* ---- sequences and optionals ---- */

/* The bytes of one field of a message. */
typedef struct part {
    const uint8_t *bytes;
    size_t n;
} part_t;

static uint64_t take_varint(part_t *message)
{
    uint64_t number = 0;
    for (int shift = 0; message->n > 0; shift += 7) {
        const uint8_t byte = *message->bytes++;
        message->n--;
        number |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) break;
    }
    return number;
}

/* Reads the next field of type bytes; returns false at the end. Fields of other wire types are not
 * supported, because onnx-data.proto has no fixed-size numbers. */
static bool next_part(part_t *message, uint64_t *out_field, part_t *out_part)
{
    while (message->n > 0) {
        const uint64_t key = take_varint(message), number = take_varint(message);
        if ((key & 7) != 2) continue;
        assert_true(number <= message->n);
        *out_field = key >> 3;
        *out_part = (part_t){message->bytes, (size_t)number};
        message->bytes += number;
        message->n -= (size_t)number;
        return true;
    }
    return false;
}

static bool read_datum(context_t *ctx, const Onnx__TypeProto *type, part_t message,
                       datum_t **out_datum);

static bool read_tensor(context_t *ctx, part_t message, datum_t **out_datum)
{
    Onnx__TensorProto *proto = onnx__tensor_proto__unpack(NULL, message.n, message.bytes);
    tensor_t *tensor = NULL;
    if (proto == NULL) return false;
    const bool is_read = onnx_data_tensor(ctx, proto, &tensor) == STATUS_OK;
    onnx__tensor_proto__free_unpacked(proto, NULL);
    if (!is_read) return false;
    CHECK_OK(ctx, datum_tensor(ctx, tensor, out_datum));
    tensor_release(tensor);
    return true;
}

/* Field 3 of a SequenceProto is one tensor of the sequence. */
static bool read_sequence(context_t *ctx, part_t message, datum_t **out_datum)
{
    uint64_t field = 0;
    part_t part;
    CHECK_OK(ctx, datum_list(ctx, 0, NULL, out_datum));
    while (next_part(&message, &field, &part)) {
        datum_t *item = NULL;
        if (field != 3) continue;
        if (!read_tensor(ctx, part, &item)) {
            datum_release(*out_datum);
            *out_datum = NULL;
            return false;
        }
        CHECK_OK(ctx, datum_append(ctx, *out_datum, item));
        datum_release(item);
    }
    return true;
}

/* Field 3 of an OptionalProto is a tensor, field 5 is a sequence. */
static bool read_optional(context_t *ctx, const Onnx__TypeProto *type, part_t message,
                          datum_t **out_datum)
{
    uint64_t field = 0;
    part_t part;
    while (next_part(&message, &field, &part))
        if (field == 3 || field == 5) return read_datum(ctx, type, part, out_datum);
    CHECK_OK(ctx, datum_none(ctx, out_datum));
    return true;
}

static bool read_datum(context_t *ctx, const Onnx__TypeProto *type, part_t message,
                       datum_t **out_datum)
{
    switch (type->value_case) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: return read_tensor(ctx, message, out_datum);
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE: return read_sequence(ctx, message, out_datum);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        return read_optional(ctx, type->optional_type->elem_type, message, out_datum);
    default: return false;
    }
}

bool onnx_data_datum(context_t *ctx, const Onnx__TypeProto *type, const char *path,
                     datum_t **out_datum)
{
    file_mapping_t *mapping = NULL;
    *out_datum = NULL;
    if (file_map(ctx, path, &mapping) != STATUS_OK) return false;
    const bool is_read = read_datum(ctx, type, (part_t){file_bytes(mapping), file_size(mapping)},
                                    out_datum);
    file_release(mapping);
    return is_read;
}

bool onnx_data_is_same_datum(context_t *ctx, const datum_t *got, const datum_t *wanted)
{
    if (datum_kind(got) != datum_kind(wanted)) {
        print_error("    got a %s, wanted a %s\n", datum_kind_name(datum_kind(got)),
                    datum_kind_name(datum_kind(wanted)));
        return false;
    }
    if (datum_kind(got) == DATUM_TENSOR)
        return onnx_data_is_same(ctx, datum_as_tensor(got), datum_as_tensor(wanted), 1e-3, 2e-6);
    if (datum_kind(got) != DATUM_LIST) return datum_kind(got) == DATUM_NONE;
    bool same = datum_length(got) == datum_length(wanted);
    if (!same)
        print_error("    got %d items, wanted %d\n", datum_length(got), datum_length(wanted));
    for (int i = 0; i < datum_length(got) && same; i++)
        same = onnx_data_is_same_datum(ctx, datum_item(got, i), datum_item(wanted, i));
    return same;
}

/* ---- comparison ---- */

static double *elements_of(context_t *ctx, const tensor_t *tensor)
{
    tensor_info_t info = *tensor_info(tensor);
    tensor_t *wide = NULL;
    size_t n_bytes = (size_t)info_numel(&info) * sizeof(double);
    double *elements = malloc(n_bytes + 1);
    assert_non_null(elements);
    info = info_dense(DTYPE_F64, info.rank, info.sizes);
    CHECK_OK(ctx, tensor_make(ctx, &info, &wide));
    CHECK_OK(ctx, tensor_copy(ctx, wide, tensor));
    CHECK_OK(ctx, tensor_read(ctx, wide, elements, n_bytes));
    tensor_release(wide);
    return elements;
}

static bool is_close(double a, double b, double rtol, double atol)
{
    if (isnan(b) || isinf(b)) return isnan(b) ? isnan(a) : a == b;
    return fabs(a - b) <= atol + rtol * fabs(b);
}

bool onnx_data_is_same(context_t *ctx, const tensor_t *got, const tensor_t *wanted, double rtol,
                       double atol)
{
    const tensor_info_t *a = tensor_info(got), *b = tensor_info(wanted);
    bool same = a->dtype == b->dtype && shape_equal(a->rank, a->sizes, b->rank, b->sizes);
    if (!same) {
        char text[2][INFO_TEXT_MAX];
        print_error("    got %s, wanted %s\n", info_text(a, text[0]), info_text(b, text[1]));
        return false;
    }
    double *x = elements_of(ctx, got), *y = elements_of(ctx, wanted);
    for (int64_t i = 0; i < info_numel(a) && same; i++) {
        same = is_close(x[i], y[i], rtol, atol);
        if (!same) print_error("    element %lld is %g, wanted %g\n", (long long)i, x[i], y[i]);
    }
    free(x);
    free(y);
    return same;
}
