/* Checks a message before protobuf-c unpacks it. protobuf-c recurses into nested messages without a
 * limit, so a small file could overflow the stack. This check keeps its own stack, of limited
 * depth. */
#include "io/onnx/onnx_impl.h"

#define MAX_DEPTH 64

typedef struct level {
    const ProtobufCMessageDescriptor *message;
    const uint8_t *end;
} level_t;

enum { WIRE_VARINT = 0, WIRE_64BIT = 1, WIRE_BYTES = 2, WIRE_32BIT = 5 };

/* False if the bytes end inside the number. */
static bool read_varint(const uint8_t **at, const uint8_t *end, uint64_t *out_value)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (*at == end) return false;
        uint8_t byte = *(*at)++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out_value = value;
            return true;
        }
    }
    return false;
}

/* Returns the length of a field's value after its tag. The caller checks the contents of nested
 * messages. */
static bool read_length(const uint8_t **at, const uint8_t *end, unsigned wire, uint64_t *out_length)
{
    uint64_t number;
    switch (wire) {
    case WIRE_VARINT: *out_length = 0; return read_varint(at, end, &number);
    case WIRE_64BIT: *out_length = 8; break;
    case WIRE_32BIT: *out_length = 4; break;
    case WIRE_BYTES:
        if (!read_varint(at, end, out_length)) return false;
        break;
    default: return false;
    }
    return *out_length <= (uint64_t)(end - *at);
}

status_t onnx_wire_check(context_t *ctx, const ProtobufCMessageDescriptor *message,
                         const void *bytes, size_t n_bytes)
{
    static const char broken[] = "onnx: byte %zu of %zu, no protobuf message of a model";
    level_t levels[MAX_DEPTH];
    const uint8_t *first = bytes, *at = first;
    int depth = 0;
    levels[0] = (level_t){message, first + n_bytes};
    for (;;) {
        while (depth > 0 && at == levels[depth].end) depth--;
        const level_t *level = &levels[depth];
        if (at == level->end) return STATUS_OK;
        uint64_t tag, length;
        if (!read_varint(&at, level->end, &tag) || tag >> 3 == 0 || tag > UINT32_MAX ||
            !read_length(&at, level->end, (unsigned)(tag & 7), &length))
            FAIL(ctx, STATUS_CORRUPT, broken, (size_t)(at - first), n_bytes);
        const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
            level->message, (unsigned)(tag >> 3));
        if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE && (tag & 7) == WIRE_BYTES) {
            if (depth + 1 == MAX_DEPTH)
                FAIL(ctx, STATUS_CORRUPT, "onnx: byte %zu, messages nest more than %d deep",
                     (size_t)(at - first), MAX_DEPTH);
            levels[++depth] = (level_t){field->descriptor, at + length};
        } else {
            at += length;
        }
    }
}
