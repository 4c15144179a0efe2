/* Random writes to a tensor, its parts and its forms (copies in other formats), random reads of any
 * of them, and snapshots. Arrays have the expected elements. */
#include "tests/support/support.h"

#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tests/support/seeded.h"

enum { MAX_NUMEL = 31 * 31 * 9 * 9, MAX_SNAPSHOTS = 4, N_STEPS = 40 };

/* A tensor and its expected elements. */
typedef struct logical {
    tensor_t *tensor;
    float elements[MAX_NUMEL];
} logical_t;

typedef struct trial {
    context_t *ctx;
    unsigned long long seed;
    const char *last; /* the last action */
    logical_t *weight;
    logical_t *snapshots;
    int n_snapshots;
    void *lent; /* memory that the tensor borrows; NULL: its own memory */
} trial_t;

static logical_t the_weight, the_snapshots[MAX_SNAPSHOTS];

/* Returns an integer that is also a bf16 number. */
static float number(void)
{
    return (float)(seeded_below(256) - 128);
}

static const char *some_tag(void)
{
    static const char *const tags[] = {"ABcd16b16a", "BAcd16a16b", "Abcd8a",
                                       "ABcd2b8a4b", "acdb",       "aBcd16b"};
    return tags[seeded_below((int)(sizeof tags / sizeof *tags))];
}

static tensor_info_t some_form(context_t *ctx, const tensor_t *tensor)
{
    format_t format;
    CHECK_OK(ctx, format_parse(ctx, some_tag(), &format));
    return info_mkldnn(&tensor->info, &format);
}

static void check(const trial_t *trial, const tensor_t *tensor, const float *elements)
{
    static char read[MAX_NUMEL * sizeof(float)];
    const dtype_t dtype = tensor->info.dtype;
    CHECK_OK(trial->ctx, tensor_read(trial->ctx, tensor, read, sizeof read));
    for (int64_t i = 0; i < tensor_numel(tensor); i++) {
        double is = dtype_load(dtype, read + i * (int64_t)dtype_size(dtype));
        if (is != (double)elements[i])
            fail_msg("element %lld of %s is %g, must be %g, after %s; again: test_form_random %llu",
                     (long long)i, tensor_text(tensor), is, (double)elements[i], trial->last,
                     trial->seed);
    }
    if (tensor->info.layout == LAYOUT_MKLDNN)
        assert_true(convert_padding_is_zero(&tensor->info, tensor_bytes(tensor)));
}

/* Returns a range of dimension 0, or all of it. *out_first is the row-major index of its first
 * element. */
static tensor_t *some_part(context_t *ctx, tensor_t *tensor, int64_t *out_first)
{
    tensor_t *part = NULL;
    int64_t n = tensor->info.sizes[0], first = 0, length = n;
    if (seeded_below(3) == 0) {
        first = seeded_below((int)n);
        length = 1 + seeded_below((int)(n - first));
    }
    CHECK_OK(ctx, tensor_narrow(ctx, tensor, 0, first, length, &part));
    *out_first = first * tensor_numel(tensor) / n;
    return part;
}

static void write_plain(trial_t *trial, logical_t *logical)
{
    context_t *ctx = trial->ctx;
    int64_t first = 0;
    tensor_t *part = some_part(ctx, logical->tensor, &first);
    const int64_t n = tensor_numel(part);
    float value = number();
    if (seeded_below(2) == 0) {
        CHECK_OK(ctx, tensor_fill(ctx, part, (double)value));
        for (int64_t i = 0; i < n; i++) logical->elements[first + i] = value;
    } else {
        const size_t size = dtype_size(part->info.dtype);
        void *data = NULL;
        CHECK_OK(ctx, tensor_data_mutable(ctx, part, &data));
        int64_t at = seeded_below((int)n);
        dtype_store(part->info.dtype, (char *)data + at * (int64_t)size, (double)value);
        logical->elements[first + at] = value;
    }
    tensor_release(part);
}

/* Changes some elements of a form of the weight or of a part. */
static void write_form(trial_t *trial)
{
    context_t *ctx = trial->ctx;
    int64_t first = 0, index[TENSOR_MAX_RANK] = {0};
    tensor_t *part = some_part(ctx, trial->weight->tensor, &first);
    tensor_info_t want = some_form(ctx, part);
    const size_t size = dtype_size(want.dtype);
    float *elements = trial->weight->elements + first, value = number();
    int every = 1 + seeded_below(5);
    void *bytes = NULL;
    CHECK_OK(ctx, form_writable(ctx, part, &want, CAUSE_WEIGHT, &bytes));
    do {
        char *element = (char *)bytes +
                        format_offset(&want.format, want.sizes, index) * (int64_t)size;
        assert_true(dtype_load(want.dtype, element) == (double)*elements);
        if (seeded_below(every) == 0) {
            dtype_store(want.dtype, element, (double)value);
            *elements = value;
        }
        elements++;
    } while (shape_next(want.rank, want.sizes, index));
    CHECK_OK(ctx, form_written(ctx, part, &want, CAUSE_WEIGHT));
    tensor_release(part);
}

static void read_form(const trial_t *trial)
{
    int64_t first = 0;
    tensor_t *part = some_part(trial->ctx, trial->weight->tensor, &first), *form = NULL;
    tensor_info_t want = some_form(trial->ctx, part);
    CHECK_OK(trial->ctx, form_get(trial->ctx, part, &want, NULL, CAUSE_WEIGHT, NULL, &form));
    check(trial, form, trial->weight->elements + first);
    tensor_release(form);
    tensor_release(part);
}

static void read_plain(const trial_t *trial)
{
    int64_t first = 0;
    tensor_t *part = some_part(trial->ctx, trial->weight->tensor, &first);
    check(trial, part, trial->weight->elements + first);
    tensor_release(part);
}

/* Replaces a snapshot by an mkldnn tensor, a clone, a form, or a tensor that shares a form's
 * bytes. */
static void take_snapshot(trial_t *trial)
{
    context_t *ctx = trial->ctx;
    tensor_t *weight = trial->weight->tensor, *made = NULL;
    int at = seeded_below(MAX_SNAPSHOTS), kind = seeded_below(4);
    tensor_info_t want = some_form(ctx, weight);
    if (kind == 0) CHECK_OK(ctx, to_mkldnn(ctx, weight, &made));
    if (kind == 1) CHECK_OK(ctx, tensor_clone(ctx, weight, &made));
    if (kind >= 2) CHECK_OK(ctx, form_get(ctx, weight, &want, NULL, CAUSE_WEIGHT, NULL, &made));
    if (kind == 3) CHECK_OK(ctx, convert_own(ctx, weight, &made));
    tensor_release(trial->snapshots[at].tensor);
    trial->snapshots[at].tensor = made;
    memcpy(trial->snapshots[at].elements, trial->weight->elements,
           (size_t)tensor_numel(weight) * sizeof(float));
}

static void visit_snapshot(trial_t *trial)
{
    logical_t *snapshot = &trial->snapshots[seeded_below(MAX_SNAPSHOTS)];
    if (snapshot->tensor == NULL) return;
    check(trial, snapshot->tensor, snapshot->elements);
    if (snapshot->tensor->info.layout == LAYOUT_DENSE && seeded_below(2) == 0)
        write_plain(trial, snapshot);
}

static void step(trial_t *trial)
{
    static const char *const names[] = {
        "a plain write", "a write of a form",    "a form read",         "a read",
        "a snapshot",    "a look at a snapshot", "a change of shedding"};
    int what = seeded_below(7);
    trial->last = names[what];
    switch (what) {
    case 0: write_plain(trial, trial->weight); break;
    case 1: write_form(trial); break;
    case 2: read_form(trial); break;
    case 3: read_plain(trial); break;
    case 4: take_snapshot(trial); break;
    case 5: visit_snapshot(trial); break;
    default: storage_let_shed(trial->weight->tensor->storage, seeded_below(4) != 0); break;
    }
}

/* The owner of borrowed memory must see the elements when a write has ended. */
static void check_lent(const trial_t *trial)
{
    const tensor_info_t *info = &trial->weight->tensor->info;
    const size_t size = dtype_size(info->dtype);
    for (int64_t i = 0; trial->lent != NULL && i < info_numel(info); i++)
        if (dtype_load(info->dtype, (char *)trial->lent + i * (int64_t)size) !=
            (double)trial->weight->elements[i])
            fail_msg("element %lld of the owner's is old, after %s; again: test_form_random %llu",
                     (long long)i, trial->last, trial->seed);
}

static void try_seed(context_t *ctx, uint64_t seed)
{
    static char lent[MAX_NUMEL * sizeof(float)];
    static const int64_t channels[] = {1, 3, 7, 17, 31}, kernels[] = {1, 3, 9};
    trial_t trial = {.ctx = ctx, .seed = seed, .weight = &the_weight, .snapshots = the_snapshots};
    seeded_begin(seed);
    const int64_t r = kernels[seeded_below(3)];
    const int64_t sizes[4] = {channels[seeded_below(5)], channels[seeded_below(5)], r, r};
    const dtype_t dtype = seeded_below(2) == 0 ? DTYPE_F32 : DTYPE_BF16;
    if (seeded_below(4) == 0) trial.lent = lent;
    memset(&the_weight, 0, sizeof the_weight);
    memset(the_snapshots, 0, sizeof the_snapshots);
    if (trial.lent != NULL)
        CHECK_OK(ctx,
                 tensor_borrow(ctx, dtype, 4, sizes, NULL, lent, NULL, NULL, &the_weight.tensor));
    else
        CHECK_OK(ctx, tensor_empty(ctx, dtype, 4, sizes, &the_weight.tensor));
    CHECK_OK(ctx, tensor_fill(ctx, the_weight.tensor, 0));
    storage_let_shed(the_weight.tensor->storage, seeded_below(2) == 0);
    for (int i = 0; i < N_STEPS; i++) {
        step(&trial);
        check_lent(&trial);
    }
    trial.last = "all";
    check(&trial, the_weight.tensor, the_weight.elements);
    for (int i = 0; i < MAX_SNAPSHOTS; i++) {
        if (the_snapshots[i].tensor != NULL)
            check(&trial, the_snapshots[i].tensor, the_snapshots[i].elements);
        tensor_release(the_snapshots[i].tensor);
    }
    tensor_release(the_weight.tensor);
}

static void writes_and_reads_agree_with_arrays(void **state)
{
    seeded_check(fixture_context(state), 60, try_seed);
}

int main(int argc, char **argv)
{
    seeded_arguments(argc, argv);
    const struct CMUnitTest tests[] = {
        TEST(writes_and_reads_agree_with_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
