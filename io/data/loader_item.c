/* Computes one item: converts bytes to numbers, crops and flips pictures, then applies mean and
 * std, in the order of PyTorch's RandomCrop, RandomHorizontalFlip, ToTensor and Normalize. Random
 * numbers are hashes of seed, epoch and item. */
#include <string.h>

#include "io/data/dataset_impl.h"
#include "io/data/picture_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/tensor_impl.h"

/* ---- random numbers ---- */

/* Purposes of random numbers; each has its own sequence. */
enum { DRAW_ORDER, DRAW_FLIP, DRAW_DOWN, DRAW_RIGHT };

static uint64_t draw(const loader_options_t *options, int64_t epoch, int64_t item, uint64_t what)
{
    uint64_t hash = hash_mix(what, options->seed);
    return hash_mix(hash_mix(hash, (uint64_t)epoch), (uint64_t)item);
}

/* Fisher-Yates shuffle: swaps each item with a random one at or before it. */
void loader_order(const loader_options_t *options, int64_t epoch, int64_t n, int64_t *out_items)
{
    for (int64_t i = 0; i < n; i++) out_items[i] = i;
    if (!options->shuffle) return;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(draw(options, epoch, i, DRAW_ORDER) % ((uint64_t)i + 1));
        int64_t item = out_items[i];
        out_items[i] = out_items[j];
        out_items[j] = item;
    }
}

static loader_change_t choose(const loader_options_t *options, int64_t epoch, int64_t item)
{
    uint64_t n_places = 2 * (uint64_t)options->crop_padding + 1;
    loader_change_t change = {
        .down = (int64_t)(draw(options, epoch, item, DRAW_DOWN) % n_places),
        .right = (int64_t)(draw(options, epoch, item, DRAW_RIGHT) % n_places),
        .flips = options->flip && draw(options, epoch, item, DRAW_FLIP) % 2 == 1,
    };
    return change;
}

/* ---- numbers ---- */

/* An item's elements: f32, or bytes that represent numbers from 0 to 1. If the item is not a
 * picture, it is described as channels of one row. */
typedef struct source {
    const float *numbers; /* or NULL */
    const uint8_t *bytes;
    int64_t channels, height, width;
    int64_t channel_stride, row_stride, column_stride;
} source_t;

static float number_at(const source_t *source, int64_t at)
{
    return source->numbers != NULL ? source->numbers[at] : (float)source->bytes[at] / 255.0F;
}

/* Copies one row of a channel. `row` and `first` (a column) may be outside of the source, where
 * elements count as zero. */
static void read_row(const source_t *source, int64_t channel, int64_t row, int64_t first,
                     bool flips, float *out)
{
    int64_t begin = channel * source->channel_stride + row * source->row_stride;
    for (int64_t i = 0; i < source->width; i++) {
        int64_t column = first + (flips ? source->width - 1 - i : i);
        bool is_inside = row >= 0 && row < source->height && column >= 0 && column < source->width;
        out[i] = is_inside ? number_at(source, begin + column * source->column_stride) : 0.0F;
    }
}

static void normalize(const loader_options_t *options, int64_t channel, int64_t n, float *numbers)
{
    int64_t at = options->n_channels == 1 ? 0 : channel;
    float mean = options->mean != NULL ? options->mean[at] : 0.0F;
    float std = options->std != NULL ? options->std[at] : 1.0F;
    if (options->n_channels == 0) return;
    for (int64_t i = 0; i < n; i++) numbers[i] = (numbers[i] - mean) / std;
}

static void write_numbers(const source_t *source, const loader_options_t *options,
                          const loader_change_t *change, float *out)
{
    int64_t plane = source->height * source->width, padding = options->crop_padding;
    for (int64_t c = 0; c < source->channels; c++, out += plane) {
        for (int64_t h = 0; h < source->height; h++)
            read_row(source, c, h + change->down - padding, change->right - padding, change->flips,
                     out + h * source->width);
        normalize(options, c, plane, out);
    }
}

/* ---- items ---- */

/* Describes the row-major elements of an item of any rank. */
static source_t source_of_item(const tensor_info_t *item)
{
    source_t source = {.channels = 1, .height = 1, .width = 1, .column_stride = 1};
    int64_t n = info_numel(item);
    if (item->rank > 0) source.channels = item->sizes[0];
    if (item->rank == 3) source.height = item->sizes[1];
    if (source.channels * source.height > 0) source.width = n / (source.channels * source.height);
    source.row_stride = source.width;
    source.channel_stride = source.width * source.height;
    return source;
}

static status_t read_picture(const dataset_t *dataset, int64_t item, uint8_t *pixels,
                             source_t *out_source, failure_t *failure)
{
    source_t source = source_of_item(&dataset->item);
    source.bytes = pixels;
    source.column_stride = PICTURE_CHANNELS;
    source.row_stride = source.width * PICTURE_CHANNELS;
    source.channel_stride = 1;
    *out_source = source;
    return picture_read(dataset->paths[item], source.height, source.width, pixels, failure);
}

status_t loader_read_item(const dataset_t *dataset, const loader_options_t *options, int64_t epoch,
                          int64_t item, uint8_t *pixels, void *out_item, failure_t *failure)
{
    loader_change_t change = choose(options, epoch, item);
    source_t source = source_of_item(&dataset->item);
    if (dataset->elements == NULL) {
        TRY(read_picture(dataset, item, pixels, &source, failure));
    } else {
        dtype_t kept = tensor_dtype(dataset->elements);
        int64_t n = info_numel(&dataset->item);
        const char *elements = tensor_bytes(dataset->elements);
        const void *first = elements + (size_t)(item * n) * dtype_size(kept);
        if (dataset->item.dtype != DTYPE_F32) {
            memcpy(out_item, first, (size_t)n * dtype_size(kept));
            return STATUS_OK;
        }
        if (kept == DTYPE_U8)
            source.bytes = first;
        else
            source.numbers = first;
    }
    write_numbers(&source, options, &change, out_item);
    return STATUS_OK;
}
