#include "tests/support/support.h"

#include "tests/support/onnx_data.h"

#ifdef TESSERA_HAVE_ONNX

#include <math.h>
#include <stdlib.h>

#include "io/onnx_impl.h"
#include "tensor/file.h"
#include "tensor/tensor_impl.h"

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

/* The importer takes the bytes out of a message: a copy of it is read. */
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

#endif
