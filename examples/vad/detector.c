/* The network takes samples [1][T], its state and the sample rate. It returns a probability [1][1]
 * and its next state. */
#include <string.h>

#include "vad.h"

static const int64_t state_sizes[] = {2, 1, 128};

/* A chunk has 512 samples at 16000 Hz and 256 at 8000 Hz. Each step also gets the last eighth of
 * the previous chunk. */
static int chunk_of(int rate)
{
    return rate == 16000 ? DETECTOR_MAX_CHUNK : DETECTOR_MAX_CHUNK / 2;
}

status_t detector_load(context_t *ctx, const char *path, int rate, module_t **out_model)
{
    const int64_t sizes[] = {1, chunk_of(rate) + chunk_of(rate) / 8};
    const onnx_shape_t shapes[] = {{"input", 2, sizes}, {"state", 3, state_sizes}};
    const onnx_options_t options = {.n_shapes = 2, .shapes = shapes};
    return onnx_load(ctx, path, &options, out_model);
}

status_t detector_begin(context_t *ctx, module_t *model, int rate, detector_t *out_detector)
{
    const int64_t number = rate;
    detector_t *detector = out_detector;
    *detector = (detector_t){.ctx = ctx, .n_chunk = chunk_of(rate)};
    detector->n_before = detector->n_chunk / 8;
    detector->model = module_retain(model);
    status_t status = tensor_full(ctx, DTYPE_F32, 3, state_sizes, 0, &detector->state);
    if (status == STATUS_OK)
        status = tensor_from(ctx, DTYPE_S64, 0, NULL, &number, &detector->rate);
    if (status != STATUS_OK) detector_end(detector);
    return status;
}

void detector_end(detector_t *detector)
{
    tensor_release(detector->state);
    tensor_release(detector->rate);
    module_release(detector->model);
    *detector = (detector_t){0};
}

status_t detector_step(detector_t *detector, const float *samples, float *out_probability)
{
    context_t *ctx = detector->ctx;
    const int n_before = detector->n_before, n_chunk = detector->n_chunk;
    tensor_t *input = NULL, *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    memmove(detector->seen, detector->seen + n_chunk, (size_t)n_before * sizeof *samples);
    memcpy(detector->seen + n_before, samples, (size_t)n_chunk * sizeof *samples);
    status_t status = tensor_from(ctx, DTYPE_F32, SHAPE(1, n_before + n_chunk), detector->seen,
                                  &input);
    if (status == STATUS_OK)
        status = module_call_tensors(ctx, detector->model, "forward", 3,
                                     (const tensor_t *[]){input, detector->state, detector->rate},
                                     &n_out, out);
    tensor_release(input);
    if (status != STATUS_OK) return status;
    tensor_release(detector->state);
    detector->state = out[1]; /* for the next step */
    status = tensor_read(ctx, out[0], out_probability, sizeof *out_probability);
    tensor_release(out[0]);
    return status;
}
