/* The network returns a map: for each pixel, the probability that it is inside a line of text. The
 * map leaves out the rim of each line, so that lines do not touch. A line is a connected component
 * of such pixels; its box is enlarged by the rim. */
#include <stdlib.h>

#include "ocr.h"

#define INSIDE 0.3F  /* least probability of a pixel */
#define SURE 0.5F    /* least average of a box */
#define RIM 1.6F     /* width of a rim: RIM * area / circumference */
#define SHORTEST 736 /* least shorter side of the network's input */
#define STEP 32      /* sides are multiples: the network halves them five times */
#define MIN_SIDE 3

typedef struct map {
    int width, height;
    float *inside;
    int *stack; /* pixels to visit */
} map_t;

status_t detect_load(context_t *ctx, const char *path, module_t **out_model)
{
    const int64_t sizes[] = {1, 3, SHORTEST, SHORTEST};
    const onnx_shape_t shape = {"x", 4, sizes};
    module_t *model = NULL;
    status_t status = onnx_load(ctx, path, &(onnx_options_t){.n_shapes = 1, .shapes = &shape},
                                &model);
    if (status == STATUS_OK) status = freeze_take(ctx, &model, NULL, out_model);
    module_release(model);
    return status;
}

/* Scales a side and rounds it to a multiple of STEP. */
static int round_side(int side, float factor)
{
    const int steps = (int)((float)side * factor / STEP + 0.5F);
    return STEP * (steps > 1 ? steps : 1);
}

/* Returns true for a pixel that belongs to a line and was not taken yet. Makes it negative, which
 * means taken. */
static bool take(map_t *map, int x, int y)
{
    if (x < 0 || y < 0 || x >= map->width || y >= map->height) return false;
    float *inside = &map->inside[(size_t)y * (size_t)map->width + (size_t)x];
    const bool is_inside = *inside > INSIDE;
    *inside = is_inside ? -*inside : *inside;
    return is_inside;
}

/* Returns the box around all pixels that are connected to this one. */
static box_t follow(map_t *map, int x, int y)
{
    box_t box = {x, y, x + 1, y + 1};
    int n = 0;
    map->stack[n++] = y * map->width + x;
    while (n > 0) {
        const int point = map->stack[--n];
        x = point % map->width, y = point / map->width;
        if (x < box.left) box.left = x;
        if (x >= box.right) box.right = x + 1;
        if (y < box.top) box.top = y;
        if (y >= box.bottom) box.bottom = y + 1;
        for (int i = 0; i < 9; i++)
            if (take(map, x + i % 3 - 1, y + i / 3 - 1))
                map->stack[n++] = (y + i / 3 - 1) * map->width + x + i % 3 - 1;
    }
    return box;
}

/* Returns the average probability in a box. Taken pixels are negative. */
static float average(const map_t *map, const box_t *box)
{
    float sum = 0;
    for (int y = box->top; y < box->bottom; y++)
        for (int x = box->left; x < box->right; x++) {
            const float inside = map->inside[(size_t)y * (size_t)map->width + (size_t)x];
            sum += inside < 0 ? -inside : inside;
        }
    return sum / (float)((box->right - box->left) * (box->bottom - box->top));
}

/* Converts a coordinate of the map to one of the image. */
static int enlarge(float at, int side, int picture_side)
{
    const int whole = (int)(at * (float)picture_side / (float)side + 0.5F);
    return at < 0 ? 0 : whole < picture_side ? whole : picture_side;
}

static box_t with_rim(const map_t *map, const box_t *box, const picture_t *picture)
{
    const float width = (float)(box->right - box->left), height = (float)(box->bottom - box->top);
    const float rim = RIM * width * height / (2 * (width + height));
    return (box_t){enlarge((float)box->left - rim, map->width, picture->width),
                   enlarge((float)box->top - rim, map->height, picture->height),
                   enlarge((float)box->right + rim, map->width, picture->width),
                   enlarge((float)box->bottom + rim, map->height, picture->height)};
}

/* Returns true if a person reads a before b. Boxes are in one row if the middle of a is within the
 * height of b. */
static bool is_before(const box_t *a, const box_t *b)
{
    const int middle = (a->top + a->bottom) / 2;
    return middle >= b->top && middle < b->bottom ? a->left < b->left : a->top < b->top;
}

static void insert(box_t box, int n, box_t *boxes)
{
    for (; n > 0 && is_before(&box, &boxes[n - 1]); n--) boxes[n] = boxes[n - 1];
    boxes[n] = box;
}

static int find_boxes(map_t *map, const picture_t *picture, box_t *out_boxes)
{
    int n = 0;
    for (int y = 0; y < map->height; y++)
        for (int x = 0; x < map->width; x++) {
            if (!take(map, x, y)) continue;
            const box_t box = follow(map, x, y);
            const bool is_line = box.right - box.left >= MIN_SIDE &&
                                 box.bottom - box.top >= MIN_SIDE && average(map, &box) >= SURE;
            if (is_line && n < DETECT_MAX) insert(with_rim(map, &box, picture), n++, out_boxes);
        }
    return n;
}

status_t detect(context_t *ctx, module_t *model, const picture_t *picture, box_t *out_boxes,
                int *out_n)
{
    const int shorter = picture->width < picture->height ? picture->width : picture->height;
    const float factor = shorter < SHORTEST ? (float)SHORTEST / (float)shorter : 1;
    const box_t all = {0, 0, picture->width, picture->height};
    map_t map = {round_side(picture->width, factor), round_side(picture->height, factor), NULL,
                 NULL};
    const size_t n = (size_t)map.width * (size_t)map.height;
    tensor_t *x = NULL, *y = NULL;
    status_t status = picture_tensor(ctx, picture, &all, map.height, map.width, map.width, &x);
    if (status == STATUS_OK) status = module_forward(ctx, model, x, &y);
    map.inside = malloc(n * sizeof *map.inside);
    map.stack = malloc(n * sizeof *map.stack);
    if (status == STATUS_OK && (map.inside == NULL || map.stack == NULL))
        status = STATUS_OUT_OF_MEMORY;
    if (status == STATUS_OK) status = tensor_read(ctx, y, map.inside, n * sizeof *map.inside);
    *out_n = status == STATUS_OK ? find_boxes(&map, picture, out_boxes) : 0;
    free(map.inside);
    free(map.stack);
    tensor_release(x);
    tensor_release(y);
    return status;
}
