/* Non-maximum suppression: visits boxes by descending score and keeps those that overlap no box
 * that was kept before. */
#include <math.h>
#include <string.h>

#include "ops/accept_impl.h"
#include "ops/gradient_impl.h"
#include "ops/vision/vision.h"
#include "tensor/sym/sizes_impl.h"

typedef struct nms_attrs {
    int64_t max_per_class;
    double iou_threshold, score_threshold;
    bool is_center;
} nms_attrs_t;

static const attr_field_t fields[] = {
    FIELD_INT(nms_attrs_t, max_per_class, -1), FIELD_FLOAT(nms_attrs_t, iou_threshold, 0),
    FIELD_FLOAT(nms_attrs_t, score_threshold, -INFINITY), FIELD_BOOL(nms_attrs_t, is_center, 0)};

static const operand_t operands[] = {{"boxes", ROLE_ACTIVATION, false, false},
                                     {"scores", ROLE_ACTIVATION, false, false}};
enum { BOXES, SCORES };

/* Maximum number of boxes for one class of one image. */
static int64_t most_of(const nms_attrs_t *attrs, int64_t n_boxes)
{
    int64_t most = attrs->max_per_class;
    return most < 0 || most > n_boxes ? n_boxes : most;
}

/* ---- boxes ---- */

typedef struct box {
    double low[2], high[2];
} box_t;

static box_t make_box(const double *numbers, bool is_center)
{
    box_t box;
    for (int i = 0; i < 2; i++) {
        const double a = numbers[i], b = numbers[i + 2];
        box.low[i] = is_center ? a - b / 2 : fmin(a, b);
        box.high[i] = is_center ? a + b / 2 : fmax(a, b);
    }
    return box;
}

static double area_of(const box_t *box)
{
    return (box->high[0] - box->low[0]) * (box->high[1] - box->low[1]);
}

static bool overlaps(const box_t *a, const box_t *b, double threshold)
{
    double shared = 1.0;
    for (int i = 0; i < 2; i++)
        shared *= fmax(0.0, fmin(a->high[i], b->high[i]) - fmax(a->low[i], b->low[i]));
    return shared > 0.0 && shared > threshold * (area_of(a) + area_of(b) - shared);
}

/* ---- candidates: the boxes of one class of one image, sorted by score ---- */

typedef struct candidate {
    double score;
    int64_t index;
} candidate_t;

/* Scratch memory: all boxes [images][boxes], two buffers for sorting, and the rows of the
 * result. */
typedef struct work {
    int64_t n_images, n_classes, n_boxes;
    box_t *boxes;
    candidate_t *candidates; /* [2][n_boxes] */
    int64_t *n_rows;
    int64_t *rows;
} work_t;

static work_t begin_work(const tensor_info_t *scores, void *block)
{
    const int64_t *sizes = scores->sizes;
    work_t work = {.n_images = sizes[0], .n_classes = sizes[1], .n_boxes = sizes[2]};
    work.boxes = block;
    work.candidates = (candidate_t *)(void *)(work.boxes + work.n_images * work.n_boxes);
    work.n_rows = (int64_t *)(void *)(work.candidates + 2 * work.n_boxes);
    work.rows = work.n_rows + 1;
    return work;
}

/* Bytes of scratch memory that begin_work needs. */
static size_t count_work(const nms_attrs_t *attrs, const tensor_info_t *scores)
{
    const int64_t *sizes = scores->sizes;
    const int64_t most = sizes[0] * sizes[1] * most_of(attrs, sizes[2]);
    return (size_t)(sizes[0] * sizes[2]) * sizeof(box_t) +
           2 * (size_t)sizes[2] * sizeof(candidate_t) + (size_t)(1 + 3 * most) * sizeof(int64_t);
}

static bool comes_first(const candidate_t *a, const candidate_t *b)
{
    return a->score > b->score || (a->score == b->score && a->index < b->index);
}

/* Merge sort: merges pairs of sorted runs of 1, 2, 4, ... candidates between two buffers. Returns
 * the one that is sorted at the end. */
static candidate_t *sort(int64_t n, candidate_t *from, candidate_t *to)
{
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            const int64_t middle = begin + width < n ? begin + width : n;
            const int64_t end = begin + 2 * width < n ? begin + 2 * width : n;
            int64_t a = begin, b = middle;
            for (int64_t i = begin; i < end; i++) {
                bool is_left = b == end || (a < middle && comes_first(&from[a], &from[b]));
                to[i] = is_left ? from[a++] : from[b++];
            }
        }
        candidate_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

/* Collects and sorts the candidates with a score above the threshold, so without NaN. */
static candidate_t *find_candidates(const work_t *work, const nms_attrs_t *attrs, dtype_t dtype,
                                    const char *scores, int64_t *out_n)
{
    int64_t n = 0;
    for (int64_t i = 0; i < work->n_boxes; i++) {
        double score = dtype_load(dtype, scores + (size_t)i * dtype_size(dtype));
        if (score > attrs->score_threshold) work->candidates[n++] = (candidate_t){score, i};
    }
    *out_n = n;
    return sort(n, work->candidates, work->candidates + work->n_boxes);
}

static void keep_best(work_t *work, const nms_attrs_t *attrs, int64_t class_index, int64_t n,
                      const candidate_t *sorted)
{
    const int64_t image = class_index / work->n_classes, class = class_index % work->n_classes;
    const int64_t first = *work->n_rows, most = most_of(attrs, work->n_boxes);
    const box_t *boxes = work->boxes + image * work->n_boxes;
    for (int64_t i = 0; i < n && *work->n_rows - first < most; i++) {
        bool is_kept = true;
        for (int64_t r = first; is_kept && r < *work->n_rows; r++)
            is_kept = !overlaps(&boxes[work->rows[3 * r + 2]], &boxes[sorted[i].index],
                                attrs->iou_threshold);
        if (!is_kept) continue;
        int64_t *row = work->rows + 3 * (*work->n_rows)++;
        row[0] = image;
        row[1] = class;
        row[2] = sorted[i].index;
    }
}

static void keep_all(const nms_attrs_t *attrs, dtype_t dtype, const void *boxes, const void *scores,
                     work_t *work)
{
    const size_t size = dtype_size(dtype);
    for (int64_t i = 0; i < work->n_images * work->n_boxes; i++) {
        double numbers[4];
        dtype_cast(4, dtype, (const char *)boxes + (size_t)(4 * i) * size, 1, DTYPE_F64, numbers,
                   1);
        work->boxes[i] = make_box(numbers, attrs->is_center);
    }
    *work->n_rows = 0;
    for (int64_t c = 0; c < work->n_images * work->n_classes; c++) {
        int64_t n = 0;
        const char *first = (const char *)scores + (size_t)(c * work->n_boxes) * size;
        candidate_t *sorted = find_candidates(work, attrs, dtype, first, &n);
        keep_best(work, attrs, c, n, sorted);
    }
}

static status_t count_kept(context_t *ctx, const op_call_t *call, int64_t *out_n)
{
    const tensor_info_t *scores = call->in[SCORES];
    void *block = NULL;
    TRY(context_get(ctx, count_work(call->attrs, scores), "boxes", &block));
    work_t work = begin_work(scores, block);
    keep_all(call->attrs, scores->dtype, call->data[BOXES], call->data[SCORES], &work);
    *out_n = *work.n_rows;
    context_put(ctx, block);
    return STATUS_OK;
}

/* ---- inference ---- */

static status_t nms_infer(context_t *ctx, const op_call_t *call, int *out_n, tensor_info_t *out)
{
    (void)out_n;
    const tensor_info_t *boxes = call->in[BOXES], *scores = call->in[SCORES];
    char text[INFO_TEXT_MAX];
    REQUIRE(ctx, dtype_is_floating(boxes->dtype) && boxes->dtype == scores->dtype,
            "nms: boxes %s and scores %s, one floating dtype is needed", info_text(boxes, text),
            info_brief(scores));
    REQUIRE(ctx, boxes->rank == 3 && sym_equal(ctx, boxes->sizes[2], 4),
            "nms: boxes %s, [images, boxes, 4] is needed", info_brief(boxes));
    REQUIRE(ctx,
            scores->rank == 3 && sym_equal(ctx, scores->sizes[0], boxes->sizes[0]) &&
                sym_equal(ctx, scores->sizes[2], boxes->sizes[1]),
            "nms: scores %s, [images, classes, boxes] of boxes %s are needed",
            info_text(scores, text), info_brief(boxes));
    int64_t n = 0;
    bool fits = sizes_have_symbols(3, scores->sizes) ||
                shape_multiply(scores->sizes[0] * scores->sizes[1],
                               most_of(call->attrs, boxes->sizes[1]), &n);
    REQUIRE(ctx, fits, "nms: scores %s, too many", info_brief(scores));
    n = -1;
    if (call_knows(call, BOXES) && call_knows(call, SCORES)) TRY(count_kept(ctx, call, &n));
    out[0] = info_dense(DTYPE_S64, 2, (const int64_t[]){n, 3});
    return STATUS_OK;
}

/* ---- specification ---- */

static box_t spec_box(const spec_call_t *call, int64_t image, int64_t index)
{
    double numbers[4];
    for (int64_t i = 0; i < 4; i++)
        numbers[i] = spec_at(call, BOXES, (const int64_t[]){image, index, i});
    return make_box(numbers, ((const nms_attrs_t *)call->attrs)->is_center);
}

static double spec_score(const spec_call_t *call, int64_t image, int64_t class, int64_t index)
{
    return spec_at(call, SCORES, (const int64_t[]){image, class, index});
}

static bool is_better(const spec_call_t *call, int64_t image, int64_t class, int64_t a, int64_t b)
{
    double x = spec_score(call, image, class, a), y = spec_score(call, image, class, b);
    return x > y || (x == y && a < b);
}

/* True if the box is in the result: it does not overlap a better box that is in the result. */
static bool stays(const spec_call_t *call, int64_t image, int64_t class, int64_t index)
{
    const nms_attrs_t *attrs = call->attrs;
    const box_t box = spec_box(call, image, index);
    if (!(spec_score(call, image, class, index) > attrs->score_threshold)) return false;
    for (int64_t i = 0; i < call->in[BOXES]->sizes[1]; i++) {
        const box_t other = spec_box(call, image, i);
        if (is_better(call, image, class, i, index) &&
            overlaps(&other, &box, attrs->iou_threshold) && stays(call, image, class, i))
            return false;
    }
    return true;
}

/* Finds the box of the result that has `rank` better boxes in the result, or -1. *out_n becomes the
 * number of boxes in the result. */
static int64_t find_stayed(const spec_call_t *call, int64_t image, int64_t class, int64_t rank,
                           int64_t *out_n)
{
    const int64_t n = call->in[BOXES]->sizes[1];
    int64_t found = -1;
    *out_n = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t n_better = 0;
        if (!stays(call, image, class, i)) continue;
        ++*out_n;
        for (int64_t k = 0; k < n; k++)
            n_better += is_better(call, image, class, k, i) && stays(call, image, class, k);
        if (n_better == rank) found = i;
    }
    return found;
}

static double nms_spec(const spec_call_t *call, int output, const int64_t *index)
{
    (void)output;
    const int64_t *sizes = call->in[SCORES]->sizes;
    const int64_t most = most_of(call->attrs, sizes[2]);
    int64_t row = index[0];
    for (int64_t i = 0; i < sizes[0] * sizes[1]; i++) {
        int64_t n = 0, image = i / sizes[1], class = i % sizes[1];
        int64_t box = find_stayed(call, image, class, row, &n);
        if (row < n && row < most) return (double)(const int64_t[]){image, class, box}[index[1]];
        row -= n < most ? n : most;
    }
    return -1.0;
}

/* ---- dense kernel ---- */

static status_t nms_prepare(context_t *ctx, const op_call_t *call, prepared_t *prepared)
{
    TRY(ops_prepare_dense(ctx, call, prepared));
    prepared->scratch_bytes = count_work(call->attrs, call->in[SCORES]);
    return STATUS_OK;
}

static status_t nms_run(context_t *ctx, const prepared_t *prepared, void *const *in,
                        void *const *out, void *scratch)
{
    (void)ctx;
    work_t work = begin_work(&prepared->in[SCORES], scratch);
    keep_all(prepared->attrs, prepared->in[SCORES].dtype, in[BOXES], in[SCORES], &work);
    memcpy(out[0], work.rows, (size_t)(3 * *work.n_rows) * sizeof *work.rows);
    return STATUS_OK;
}

const opdef_t op_def_nms = {.name = "nms",
                            FUNCTIONS_OF(nms),
                            .preference = OP_DENSE,
                            .traits = TRAIT_MEASURES,
                            .attrs = {sizeof(nms_attrs_t), 4, fields},
                            OPERANDS(operands),
                            .kernels = KERNELS(KERNEL("native", nms_prepare, nms_run)),
                            .gradient = &gradient_zero};

status_t op_nms(context_t *ctx, const tensor_t *boxes, const tensor_t *scores,
                int64_t max_per_class, double iou_threshold, double score_threshold, bool is_center,
                tensor_t **out)
{
    const tensor_t *in[] = {boxes, scores};
    nms_attrs_t attrs = {.max_per_class = max_per_class,
                         .iou_threshold = iou_threshold,
                         .score_threshold = score_threshold,
                         .is_center = is_center};
    return dispatch_run(ctx, &op_def_nms, &attrs, 2, in, NULL, out);
}
