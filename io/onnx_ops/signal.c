/* Signal transforms: DFT, STFT, MelWeightMatrix.
 *
 * A transform multiplies the signal by a constant matrix, so oneDNN computes it. The matrix's rows
 * are real or imaginary parts of elements, its columns those of frequencies:
 *
 *   x [..., n, c] as [rows, n*c], times w [n*c, k*2], is y [..., k, 2] */
#include "io/onnx/node_impl.h"

#include <math.h>

#include "tensor/tensor_impl.h"

#define PI 3.14159265358979323846

/* Largest number of elements of the matrix: enough for all frequencies of 2048 complex elements. */
#define MAX_MATRIX (INT64_C(1) << 24)

/* Description of the matrix of a transform. */
typedef struct transform {
    dtype_t dtype;
    int64_t length;  /* length of the transform */
    int64_t given;   /* elements of the signal; the rest is 0 */
    int64_t n_parts; /* 1: real elements; 2: complex ones */
    int64_t n_out;   /* number of frequencies */
    bool is_inverse;
} transform_t;

/* Writes the coefficients of element n for frequency k: exp(-2 pi i n k / length). The inverse
 * transform needs the conjugates, divided by the length. */
static void fill_number(const transform_t *transform, int64_t n, int64_t k, void *bytes)
{
    const int64_t at = n % transform->length * (k % transform->length) % transform->length;
    const double angle = 2.0 * PI * (double)at / (double)transform->length;
    const double scale = transform->is_inverse ? 1.0 / (double)transform->length : 1.0;
    const double real = cos(angle) * scale;
    const double imaginary = transform->is_inverse ? sin(angle) * scale : -sin(angle);
    const double parts[2][2] = {{real, imaginary}, {-imaginary, real}};
    const size_t size = dtype_size(transform->dtype);
    for (int64_t c = 0; c < transform->n_parts; c++)
        for (int64_t d = 0; d < 2; d++) {
            const int64_t row = n * transform->n_parts + c;
            const int64_t place = (row * transform->n_out + k) * 2 + d;
            dtype_store(transform->dtype, (char *)bytes + (size_t)place * size, parts[c][d]);
        }
}

static status_t make_matrix(onnx_node_t *node, const transform_t *transform, item_t *out)
{
    context_t *ctx = node->onnx->ctx;
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    const int64_t sizes[2] = {transform->given * transform->n_parts, transform->n_out * 2};
    if (transform->length > MAX_MATRIX || (sizes[1] > 0 && sizes[0] > MAX_MATRIX / sizes[1]))
        FAIL(ctx, STATUS_UNSUPPORTED,
             "a transform of %lld numbers to %lld frequencies, its matrix "
             "has more than %lld elements",
             (long long)transform->given, (long long)transform->n_out, (long long)MAX_MATRIX);
    tensor_info_t info = info_dense(transform->dtype, 2, sizes);
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    for (int64_t n = 0; n < transform->given; n++)
        for (int64_t k = 0; k < transform->n_out; k++) fill_number(transform, n, k, bytes);
    return onnx_item_take(node->onnx, NULL, tensor, out);
}

/* x [..., given, n_parts] becomes [..., n_out, 2]. */
static status_t apply(onnx_node_t *node, const transform_t *transform, item_t x, item_t *out)
{
    const tensor_info_t info = *onnx_info(node->onnx, x);
    const int64_t rows = onnx_product(node, info.rank - 2, info.sizes);
    int64_t sizes[TENSOR_MAX_RANK];
    item_t in[2];
    for (int d = 0; d < info.rank; d++) sizes[d] = info.sizes[d];
    TRY(make_matrix(node, transform, &in[1]));
    TRY(onnx_reshape(node, x, 2, (int64_t[]){rows, transform->given * transform->n_parts}, &in[0]));
    TRY(onnx_op(node, "matmul", NULL, 2, in, out));
    sizes[info.rank - 2] = transform->n_out;
    sizes[info.rank - 1] = 2;
    return onnx_reshape(node, *out, info.rank, sizes, out);
}

/* ---- DFT ---- */

/* The transformed dimension: an attribute before opset 20, later an input. */
static status_t read_axis(onnx_node_t *node, int rank, int *out_axis)
{
    int64_t axis = -2;
    int n = 0;
    if (node->opset < 20) {
        TRY(onnx_dim(node, "axis", rank, 1, out_axis));
    } else {
        TRY(onnx_input_numbers(node, 2, "axis", 1, &n, &axis));
        if (n == 0 || !shape_dim(rank, axis, out_axis))
            FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %lld of rank %d", (long long)axis,
                 rank);
    }
    if (*out_axis == rank - 1)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "axis %d is that of the parts", *out_axis);
    return STATUS_OK;
}

/* The last dimension contains the real part only, or the real and the imaginary part. */
static status_t read_parts(onnx_node_t *node, item_t signal, int64_t *out_n)
{
    context_t *ctx = node->onnx->ctx;
    const tensor_info_t x = *onnx_info(node->onnx, signal);
    *out_n = x.rank > 0 ? sym_pin(ctx, x.sizes[x.rank - 1]) : 0;
    if (x.rank < 2 || !dtype_is_floating(x.dtype) || *out_n < 1 || *out_n > 2)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "x is %s, floating numbers of 1 or 2 parts in its last dimension are needed",
             onnx_brief(node, &x));
    return STATUS_OK;
}

/* Moves dimension `axis` to the second last position, or back. */
static status_t move_axis(onnx_node_t *node, int rank, int axis, bool is_back, item_t *x)
{
    int64_t dims[TENSOR_MAX_RANK];
    int n = 0;
    for (int d = 0; d < rank - 1; d++) {
        const int from = d < axis ? d : d + 1;
        if (n < rank - 2) dims[n++] = from;
    }
    dims[rank - 2] = axis;
    dims[rank - 1] = rank - 1;
    if (is_back)
        for (int d = 0; d < rank - 1; d++) dims[d] = d < axis ? d : d == axis ? rank - 2 : d - 1;
    return onnx_permute(node, *x, rank, dims, x);
}

status_t onnx_import_dft(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    tensor_info_t info = onnx_input_info(node, 0);
    transform_t transform = {.dtype = info.dtype};
    int axis = 0, n = 0;
    bool is_onesided = false;
    item_t x = node->in[0];
    TRY(read_parts(node, x, &transform.n_parts));
    TRY(read_axis(node, info.rank, &axis));
    TRY(onnx_attr_bool(node, "inverse", false, &transform.is_inverse));
    TRY(onnx_attr_bool(node, "onesided", false, &is_onesided));
    const int64_t size = info.sizes[axis];
    TRY(onnx_input_numbers(node, 1, "dft_length", 1, &n, &transform.length));
    if (n < 0) transform.length = sym_pin(ctx, size);
    if (n == 0 || transform.length < 1)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "a length of %lld", (long long)transform.length);
    if (is_onesided && (transform.is_inverse || transform.n_parts == 2))
        FAIL(ctx, STATUS_UNSUPPORTED, "onesided %s",
             transform.is_inverse ? "and inverse" : "of complex numbers");
    const bool is_cut = sym_at_most(ctx, transform.length, size);
    transform.given = is_cut ? transform.length : sym_pin(ctx, size);
    transform.n_out = is_onesided ? transform.length / 2 + 1 : transform.length;
    TRY(onnx_slice(node, x, axis, 0, transform.given, 1, &x));
    TRY(move_axis(node, info.rank, axis, false, &x));
    TRY(apply(node, &transform, x, &x));
    TRY(move_axis(node, info.rank, axis, true, &x));
    node->out[0] = x;
    return STATUS_OK;
}

/* ---- STFT ---- */

typedef struct frames {
    int64_t step, length; /* in elements; numbers, because the matrix needs them */
    int64_t n;
} frames_t;

/* Reads frame_length or, without it, the size of the window. Counts complete frames only. */
static status_t read_frames(onnx_node_t *node, int64_t size, frames_t *out_frames)
{
    context_t *ctx = node->onnx->ctx;
    frames_t frames = {0};
    int n = 0;
    if (onnx_has(node, 2)) {
        const tensor_info_t window = onnx_input_info(node, 2);
        if (window.rank != 1)
            FAIL(ctx, STATUS_INVALID_ARGUMENT, "the window is %s, rank 1 is needed",
                 onnx_brief(node, &window));
        frames.length = sym_pin(ctx, window.sizes[0]);
    }
    const int64_t n_window = frames.length;
    TRY(onnx_input_numbers(node, 1, "frame_step", 1, &n, &frames.step));
    TRY(onnx_input_numbers(node, 3, "frame_length", 1, &n, &frames.length));
    if (onnx_has(node, 2) && frames.length != n_window)
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "frames of %lld, the window has %lld",
             (long long)frames.length, (long long)n_window);
    if (frames.step < 1 || frames.length < 1 || sym_less(ctx, size, frames.length))
        FAIL(ctx, STATUS_INVALID_ARGUMENT, "frames of %lld every %lld numbers, the signal has %lld",
             (long long)frames.length, (long long)frames.step, (long long)sym_hint(ctx, size));
    frames.n = sym_divide(ctx, sym_subtract(ctx, size, frames.length), frames.step);
    frames.n = sym_add(ctx, frames.n, 1);
    if (!sym_is(frames.n) && frames.n > MAX_MATRIX / frames.length)
        FAIL(ctx, STATUS_UNSUPPORTED, "%lld frames of %lld numbers", (long long)frames.n,
             (long long)frames.length);
    *out_frames = frames;
    return STATUS_OK;
}

/* x [batch, size, parts] becomes [batch, frames, length, parts]: x[step * frame + i]. */
static status_t cut_frames(onnx_node_t *node, const frames_t *frames, item_t *x)
{
    item_t in[2] = {*x, ITEM_NONE}, step, numbers;
    TRY(onnx_count_up(node, frames->n, &in[1]));
    TRY(onnx_reshape(node, in[1], 2, (int64_t[]){frames->n, 1}, &in[1]));
    TRY(onnx_integer(node->onnx, frames->step, &step));
    TRY(onnx_binary(node, "mul", in[1], step, &in[1]));
    TRY(onnx_count_up(node, frames->length, &numbers));
    TRY(onnx_binary(node, "add", in[1], numbers, &in[1]));
    return onnx_op(node, "gather", ONNX_ATTRS(SET("dim", 1)), 2, in, x);
}

status_t onnx_import_stft(onnx_node_t *node)
{
    tensor_info_t info = onnx_input_info(node, 0);
    transform_t transform = {.dtype = info.dtype};
    frames_t frames = {0};
    bool is_onesided = true;
    item_t x = node->in[0], window;
    if (info.rank != 2 && info.rank != 3)
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT, "x is %s, rank 2 or 3 is needed",
             onnx_brief(node, &info));
    /* Exporters may omit the last dimension (parts) for real signals. */
    if (info.rank == 2)
        TRY(onnx_reshape(node, x, 3, (int64_t[]){info.sizes[0], info.sizes[1], 1}, &x));
    TRY(read_parts(node, x, &transform.n_parts));
    TRY(onnx_attr_bool(node, "onesided", true, &is_onesided));
    if (is_onesided && transform.n_parts == 2)
        FAIL(node->onnx->ctx, STATUS_UNSUPPORTED, "onesided of complex numbers");
    TRY(read_frames(node, info.sizes[1], &frames));
    TRY(cut_frames(node, &frames, &x));
    if (onnx_has(node, 2)) {
        TRY(onnx_reshape(node, node->in[2], 2, (int64_t[]){frames.length, 1}, &window));
        TRY(onnx_binary(node, "mul", x, window, &x));
    }
    transform.length = transform.given = frames.length;
    transform.n_out = is_onesided ? frames.length / 2 + 1 : frames.length;
    return apply(node, &transform, x, &node->out[0]);
}

/* ---- MelWeightMatrix ---- */

#define MAX_BINS 65536

typedef struct mel {
    int64_t n_bins, length, rate;
    double low, high;
} mel_t;

static status_t read_mel(onnx_node_t *node, mel_t *out_mel)
{
    mel_t mel = {0};
    int n = 0;
    TRY(onnx_input_numbers(node, 0, "num_mel_bins", 1, &n, &mel.n_bins));
    TRY(onnx_input_numbers(node, 1, "dft_length", 1, &n, &mel.length));
    TRY(onnx_input_numbers(node, 2, "sample_rate", 1, &n, &mel.rate));
    TRY(onnx_input_floats(node, 3, "lower_edge_hertz", 1, &n, &mel.low));
    TRY(onnx_input_floats(node, 4, "upper_edge_hertz", 1, &n, &mel.high));
    if (mel.n_bins < 1 || mel.n_bins > MAX_BINS || mel.length < 1 || mel.length > MAX_BINS ||
        mel.n_bins * mel.length > MAX_MATRIX || mel.rate < 1 || !(mel.low >= 0) ||
        !(mel.high >= mel.low) || !(mel.high <= (double)mel.rate))
        FAIL(node->onnx->ctx, STATUS_INVALID_ARGUMENT,
             "%lld bins from %g to %g hertz, of a length of %lld at a rate of %lld",
             (long long)mel.n_bins, mel.low, mel.high, (long long)mel.length, (long long)mel.rate);
    *out_mel = mel;
    return STATUS_OK;
}

/* The index of the frequency at which a bin begins. Bins are equally spaced on the mel scale. */
static int64_t edge_of(const mel_t *mel, int64_t bin)
{
    const double low = 2595.0 * log10(1.0 + mel->low / 700.0);
    const double high = 2595.0 * log10(1.0 + mel->high / 700.0);
    const double mels = low + (double)bin * (high - low) / (double)(mel->n_bins + 2);
    const double hertz = 700.0 * (pow(10.0, mels / 2595.0) - 1.0);
    return (int64_t)floor((double)(mel->length + 1) * hertz / (double)mel->rate);
}

/* A triangle that rises over one bin and falls over the next. */
static double weight_of(const mel_t *mel, int64_t frequency, int64_t bin)
{
    const int64_t low = edge_of(mel, bin), center = edge_of(mel, bin + 1);
    const int64_t high = edge_of(mel, bin + 2);
    if (frequency >= center && frequency < high)
        return (double)(high - frequency) / (double)(high - center);
    if (low == center) return frequency == center ? 1.0 : 0.0;
    if (frequency < low || frequency > center) return 0.0;
    return (double)(frequency - low) / (double)(center - low);
}

status_t onnx_import_mel_weight_matrix(onnx_node_t *node)
{
    context_t *ctx = node->onnx->ctx;
    mel_t mel = {0};
    int64_t to = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    dtype_t dtype;
    tensor_t *tensor = NULL;
    void *bytes = NULL;
    TRY(onnx_attr_int(node, "output_datatype", to, &to));
    TRY(onnx_dtype(ctx, to, &dtype));
    TRY(read_mel(node, &mel));
    tensor_info_t info = info_dense(dtype, 2, (int64_t[]){mel.length / 2 + 1, mel.n_bins});
    TRY(tensor_make(ctx, &info, &tensor));
    TRY_OR(tensor_writable(ctx, tensor, &bytes), tensor_drop(tensor));
    for (int64_t f = 0; f < info.sizes[0]; f++)
        for (int64_t b = 0; b < mel.n_bins; b++)
            dtype_store(dtype, (char *)bytes + (size_t)(f * mel.n_bins + b) * dtype_size(dtype),
                        weight_of(&mel, f, b));
    return onnx_item_take(node->onnx, NULL, tensor, &node->out[0]);
}
