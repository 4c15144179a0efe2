#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <pthread.h>
#include <string.h>

#include "tensor/convert/convert_impl.h"
#include "tensor/convert/form_impl.h"
#include "tensor/text/datum.h"
#include "tensor/text/print.h"

/* The format in which an optimizer writes a weight, and another one. */
#define MASTER "ABcd16b16a"
#define OTHER "BAcd16a16b"

enum { K = 17, C = 31, NUMEL = K * C * 3 * 3, MAX_NUMEL = 65 * 67 * 3 * 3 };

/* Makes f32[k,c,3,3] of 0, 1, 2, ... */
static tensor_t *counted(context_t *ctx, int64_t k, int64_t c)
{
    tensor_t *numbers = NULL, *view = NULL, *weight = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, k * c * 9, 0, &numbers));
    CHECK_OK(ctx, tensor_view(ctx, numbers, SHAPE(k, c, 3, 3), &view));
    CHECK_OK(ctx, tensor_clone(ctx, view, &weight));
    tensor_release(numbers);
    tensor_release(view);
    return weight;
}

/* Makes a weight that may free ("shed") its plain bytes if a form (copy in another format) has all
 * elements. It is so large that its bytes are not in one block with its handle. */
static tensor_t *shedding(context_t *ctx)
{
    tensor_t *weight = counted(ctx, 65, 67);
    storage_let_shed(weight->storage, true);
    return weight;
}

static tensor_info_t as(context_t *ctx, const tensor_t *tensor, const char *tag)
{
    format_t format;
    CHECK_OK(ctx, format_parse(ctx, tag, &format));
    return info_mkldnn(&tensor->info, &format);
}

static tensor_t *get(context_t *ctx, const tensor_t *tensor, const char *tag)
{
    tensor_t *form = NULL;
    tensor_info_t want = as(ctx, tensor, tag);
    CHECK_OK(ctx, form_get(ctx, tensor, &want, NULL, CAUSE_WEIGHT, NULL, &form));
    return form;
}

/* Makes or finds a form and returns its bytes. Nothing holds the form. */
static const void *get_bytes(context_t *ctx, const tensor_t *tensor, const char *tag)
{
    tensor_t *form = get(ctx, tensor, tag);
    const void *bytes = tensor_bytes(form);
    tensor_release(form);
    return bytes;
}

/* Adds a number to every element of a form. Padding does not change. */
static void add(context_t *ctx, tensor_t *tensor, const char *tag, double number)
{
    tensor_info_t want = as(ctx, tensor, tag);
    const size_t size = dtype_size(want.dtype);
    int64_t index[TENSOR_MAX_RANK] = {0};
    void *bytes = NULL;
    CHECK_OK(ctx, form_writable(ctx, tensor, &want, CAUSE_WEIGHT, &bytes));
    do {
        int64_t at = format_offset(&want.format, want.sizes, index);
        char *element = (char *)bytes + at * (int64_t)size;
        dtype_store(want.dtype, element, dtype_load(want.dtype, element) + number);
    } while (shape_next(want.rank, want.sizes, index));
    CHECK_OK(ctx, form_written(ctx, tensor, &want, CAUSE_WEIGHT));
}

/* Checks that the elements are first, first + 1, ... in row-major order. */
static void check_counts(context_t *ctx, const tensor_t *tensor, double first)
{
    static float read[MAX_NUMEL];
    int64_t numel = tensor_numel(tensor);
    CHECK_OK(ctx, tensor_read(ctx, tensor, read, sizeof read));
    for (int64_t i = 0; i < numel; i++)
        if (read[i] != (float)((double)i + first))
            fail_msg("element %lld is %g, begins with %g", (long long)i, (double)read[i], first);
}

static void check_form(context_t *ctx, const tensor_t *tensor, const char *tag, double first)
{
    tensor_t *form = get(ctx, tensor, tag);
    check_counts(ctx, form, first);
    assert_true(convert_padding_is_zero(&form->info, tensor_bytes(form)));
    tensor_release(form);
}

static counters_t read_counters(context_t *ctx)
{
    counters_t counters;
    counters_read(ctx, &counters);
    return counters;
}

/* ---- writes of the plain bytes ---- */

static void a_write_refreshes_a_form_in_its_own_bytes(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    tensor_t *weight = counted(ctx, K, C);
    const void *before = get_bytes(ctx, weight, MASTER);
    for (int step = 1; step <= 3; step++) {
        CHECK_OK(ctx, tensor_fill(ctx, weight, step));
        counters_reset(ctx);
        counting_fail(&fixture->memory, 0, false);
        tensor_t *form = get(ctx, weight, MASTER);
        assert_int_equal(atomic_load(&fixture->memory.requests), 0);
        assert_int_equal(read_counters(ctx).reorders[CAUSE_WEIGHT], 1);
        assert_ptr_equal(tensor_bytes(form), before);
        assert_true(*(const float *)tensor_bytes(form) == (float)step);
        tensor_release(form);
        tensor_release(get(ctx, weight, MASTER));
        assert_int_equal(read_counters(ctx).reorders[CAUSE_WEIGHT], 1);
    }
    tensor_release(weight);
}

static void an_mkldnn_tensor_that_is_copied_into_refreshes_its_forms(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    tensor_t *first = counted(ctx, K, C), *second = counted(ctx, K, C), *m = NULL;
    CHECK_OK(ctx, tensor_fill(ctx, first, 9));
    CHECK_OK(ctx, to_mkldnn(ctx, first, &m));
    const void *before = get_bytes(ctx, m, MASTER);
    CHECK_OK(ctx, tensor_copy(ctx, m, second));
    counting_fail(&fixture->memory, 0, false);
    assert_ptr_equal(get_bytes(ctx, m, MASTER), before);
    assert_int_equal(atomic_load(&fixture->memory.requests), 0);
    check_form(ctx, m, MASTER, 0);
    tensor_release(first);
    tensor_release(second);
    tensor_release(m);
}

static void a_form_that_somebody_has_keeps_its_elements(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C), *other = counted(ctx, K, C), *handle = NULL, *m = NULL;
    tensor_t *held = get(ctx, weight, MASTER);
    CHECK_OK(ctx, tensor_fill(ctx, other, 5));
    CHECK_OK(ctx, tensor_copy(ctx, weight, other));
    tensor_t *refreshed = get(ctx, weight, MASTER);
    assert_ptr_not_equal(refreshed, held);
    assert_true(*(const float *)tensor_bytes(refreshed) == 5);
    check_counts(ctx, held, 0);
    tensor_release(refreshed);
    tensor_release(held);
    tensor_release(weight);

    weight = counted(ctx, K, C); /* `handle` is a snapshot that shares the form's bytes */
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &m));
    CHECK_OK(ctx, convert_reorder(ctx, m, MASTER, &handle));
    CHECK_OK(ctx, tensor_copy(ctx, m, other));
    assert_ptr_not_equal(get_bytes(ctx, m, MASTER), tensor_bytes(handle));
    check_counts(ctx, handle, 0);
    check_counts(ctx, weight, 0);
    tensor_release(handle);
    tensor_release(other);
    tensor_release(m);
    tensor_release(weight);
}

/* ---- writes through a form ---- */

static void a_write_through_a_form_is_seen_everywhere(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C), *flat = NULL, *part = NULL;
    CHECK_OK(ctx, tensor_view(ctx, weight, SHAPE(K, C * 9), &flat));
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 2, 3, &part));
    tensor_release(get(ctx, weight, OTHER));
    tensor_release(get(ctx, flat, "BA16a16b"));
    tensor_release(get(ctx, part, "Abcd8a"));
    add(ctx, weight, MASTER, 1);
    assert_false(storage_is_plain(weight->storage));

    counters_reset(ctx); /* one form is converted to the other */
    tensor_release(get(ctx, weight, OTHER));
    assert_int_equal(read_counters(ctx).reorders[CAUSE_WEIGHT], 1);
    assert_false(storage_is_plain(weight->storage));
    check_form(ctx, weight, OTHER, 1);
    check_form(ctx, weight, MASTER, 1);

    counters_reset(ctx); /* sizes differ, so plain bytes are needed */
    tensor_release(get(ctx, flat, "BA16a16b"));
    assert_int_equal(read_counters(ctx).reorders[CAUSE_WEIGHT], 2);
    assert_true(storage_is_plain(weight->storage));
    check_form(ctx, flat, "BA16a16b", 1);
    check_form(ctx, part, "Abcd8a", 1 + 2 * C * 9);
    check_counts(ctx, weight, 1);
    check_counts(ctx, part, 1 + 2 * C * 9);
    tensor_release(part);
    tensor_release(flat);
    tensor_release(weight);
}

static void plain_bytes_come_back_by_one_reorder_that_counts(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    const void *data = NULL;
    add(ctx, weight, MASTER, 3);
    counters_reset(ctx);
    CHECK_OK(ctx, tensor_data(ctx, weight, &data));
    assert_int_equal(read_counters(ctx).reorders[CAUSE_USER], 1);
    assert_true(((const float *)data)[NUMEL - 1] == NUMEL + 2);
    check_counts(ctx, weight, 3);
    assert_int_equal(read_counters(ctx).reorders[CAUSE_USER], 1);

    add(ctx, weight, MASTER, 1); /* tensor_bytes has no context, so our own loop converts */
    assert_true(((const float *)tensor_bytes(weight))[NUMEL - 1] == NUMEL + 3);
    assert_int_equal(read_counters(ctx).reorders[CAUSE_USER], 1);
    check_counts(ctx, weight, 4);
    tensor_release(weight);
}

static status_t convert_to_itself(context_t *ctx, tensor_t *weight)
{
    tensor_t *same = NULL;
    tensor_info_t want = weight->info;
    TRY(convert_to(ctx, weight, &want, CAUSE_USER, &same));
    assert_ptr_equal(same, weight);
    tensor_release(same);
    return STATUS_OK;
}

static status_t print_it(context_t *ctx, tensor_t *weight)
{
    text_t text = text_begin(ctx);
    status_t status = tensor_print_text(ctx, weight, &text);
    text_clear(&text);
    return status;
}

static status_t compare_it(context_t *ctx, tensor_t *weight)
{
    double difference = -1;
    return tensor_max_rel_diff(ctx, weight, weight, &difference);
}

static status_t equal_it(context_t *ctx, tensor_t *weight)
{
    tensor_t *other = NULL;
    datum_t *a = NULL, *b = NULL;
    TRY(tensor_zeros(ctx, DTYPE_F32, SHAPE(K, C, 3, 3), &other));
    TRY(datum_tensor(ctx, weight, &a));
    TRY(datum_tensor(ctx, other, &b));
    assert_false(datum_equal(ctx, a, b));
    datum_release(a);
    datum_release(b);
    tensor_release(other);
    return STATUS_OK;
}

static void reading_plain_bytes_is_a_counted_reorder(void **state)
{
    status_t (*const readers[])(context_t *, tensor_t *) = {convert_to_itself, print_it, compare_it,
                                                            equal_it};
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        add(ctx, weight, MASTER, 1);
        counters_reset(ctx);
        CHECK_OK(ctx, readers[i](ctx, weight));
        assert_int_equal(read_counters(ctx).reorders[CAUSE_USER], 1);
        assert_true(storage_is_plain(weight->storage));
    }
    tensor_release(weight);
}

static void steps_in_the_same_forms_allocate_nothing(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    for (int may_shed = 0; may_shed < 2; may_shed++) {
        tensor_t *weight = may_shed ? shedding(ctx) : counted(ctx, K, C);
        for (int step = 1; step <= 6; step++) {
            counters_reset(ctx);
            if (step == 4) counting_fail(&fixture->memory, 0, false);
            add(ctx, weight, MASTER, 1);
            tensor_release(get(ctx, weight, MASTER));
            tensor_release(get(ctx, weight, OTHER));
            CHECK_OK(ctx, storage_restore(ctx, weight->storage, CAUSE_USER));
            if (step == 1) continue;
            assert_int_equal(read_counters(ctx).reorders[CAUSE_WEIGHT], 1);
            assert_int_equal(read_counters(ctx).reorders[CAUSE_USER], 1);
        }
        assert_int_equal(atomic_load(&fixture->memory.requests), 0);
        check_form(ctx, weight, OTHER, 6);
        check_counts(ctx, weight, 6);
        tensor_release(weight);
    }
}

static void snapshots_from_before_a_write_keep_their_elements(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C), *m = NULL, *blocked = NULL, *again = NULL, *clone = NULL;
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &m));
    CHECK_OK(ctx, tensor_clone(ctx, weight, &clone));
    tensor_info_t want = as(ctx, weight, MASTER);
    tensor_t *held = get(ctx, weight, MASTER);
    tensor_hold(held);
    blocked = held;
    CHECK_OK(ctx, convert_own(ctx, weight, &blocked)); /* shares the form's bytes */
    const void *before = tensor_bytes(held);
    add(ctx, weight, MASTER, 1);
    assert_ptr_not_equal(get_bytes(ctx, weight, MASTER), before);
    assert_true(convert_padding_is_zero(&want, get_bytes(ctx, weight, MASTER)));
    check_counts(ctx, held, 0);
    tensor_release(held); /* the snapshot still shares the bytes */
    add(ctx, weight, MASTER, 1);
    CHECK_OK(ctx, to_mkldnn(ctx, weight, &again));
    add(ctx, weight, MASTER, 1);
    check_counts(ctx, m, 0);
    check_counts(ctx, clone, 0);
    check_counts(ctx, blocked, 0);
    check_counts(ctx, again, 2);
    check_counts(ctx, weight, 3);
    tensor_release(m);
    tensor_release(clone);
    tensor_release(blocked);
    tensor_release(again);
    tensor_release(weight);
}

/* The part has the elements from 2 * C * 9 on. */
static void a_part_is_written_back_at_the_end_of_the_write(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C), *part = NULL, *before = NULL, *after = NULL;
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 2, 3, &part));
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 0, 2, &before));
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 5, K - 5, &after));
    add(ctx, weight, MASTER, 1);
    add(ctx, part, OTHER, 10);
    assert_true(storage_is_plain(weight->storage));
    check_counts(ctx, before, 1);
    check_counts(ctx, part, 11 + 2 * C * 9);
    check_counts(ctx, after, 1 + 5 * C * 9);
    tensor_t *form = get(ctx, weight, MASTER), *plain = NULL, *of_part = NULL;
    CHECK_OK(ctx, to_dense(ctx, form, &plain));
    CHECK_OK(ctx, tensor_narrow(ctx, plain, 0, 2, 3, &of_part));
    check_counts(ctx, of_part, 11 + 2 * C * 9);
    tensor_release(of_part);
    tensor_release(plain);
    tensor_release(form);
    add(ctx, part, OTHER, -10);
    check_form(ctx, weight, MASTER, 1);
    tensor_release(before);
    tensor_release(part);
    tensor_release(after);
    tensor_release(weight);
}

static void a_write_through_a_form_reaches_the_owner_of_borrowed_memory(void **state)
{
    static float lent[NUMEL];
    context_t *ctx = fixture_context(state);
    tensor_t *weight = NULL;
    for (int i = 0; i < NUMEL; i++) lent[i] = (float)i;
    CHECK_OK(ctx, tensor_borrow(ctx, DTYPE_F32, 4, (int64_t[]){K, C, 3, 3}, NULL, lent, NULL, NULL,
                                &weight));
    for (int step = 1; step <= 3; step++) {
        add(ctx, weight, MASTER, 1);
        assert_true(lent[0] == (float)step && lent[NUMEL - 1] == (float)(NUMEL - 1 + step));
        check_form(ctx, weight, MASTER, step);
        check_counts(ctx, weight, step);
    }
    tensor_release(weight);
}

static void count_deletion(void *user, void *data)
{
    (void)data;
    ++*(int *)user;
}

static void a_read_only_mapping_is_left_as_it_is(void **state)
{
    static float mapped[NUMEL];
    context_t *ctx = fixture_context(state);
    storage_t *storage = NULL;
    tensor_t *weight = NULL;
    int n_deleted = 0;
    for (int i = 0; i < NUMEL; i++) mapped[i] = (float)i;
    tensor_info_t info = info_dense(DTYPE_F32, 4, (int64_t[]){K, C, 3, 3});
    CHECK_OK(ctx, storage_borrow(ctx, mapped, sizeof mapped, true, count_deletion, &n_deleted,
                                 &storage));
    CHECK_OK(ctx, tensor_over(ctx, &info, storage, 0, &weight));
    storage_release(storage);
    add(ctx, weight, MASTER, 1);
    assert_int_equal(n_deleted, 1);
    check_counts(ctx, weight, 1);
    assert_false(storage_is_read_only(weight->storage));
    assert_true(mapped[0] == 0 && mapped[NUMEL - 1] == NUMEL - 1);
    tensor_release(weight);

    static float packed[32 * 32 * 9]; /* bytes of a read-only form */
    tensor_t *form = NULL;
    weight = counted(ctx, K, C);
    tensor_info_t want = as(ctx, weight, MASTER);
    assert_int_equal(info_bytes(&want), sizeof packed);
    memcpy(packed, get_bytes(ctx, weight, MASTER), sizeof packed);
    form_drop(weight->storage);
    CHECK_OK(ctx, storage_borrow(ctx, packed, sizeof packed, true, NULL, NULL, &storage));
    CHECK_OK(ctx, tensor_over(ctx, &want, storage, 0, &form));
    storage_release(storage);
    CHECK_OK(ctx, form_add(ctx, weight, form));
    tensor_release(form);
    assert_ptr_equal(get_bytes(ctx, weight, MASTER), packed);
    add(ctx, weight, MASTER, 1);
    assert_true(packed[0] == 0);
    check_counts(ctx, weight, 1);
    CHECK_OK(ctx, tensor_fill(ctx, weight, 4));
    assert_ptr_not_equal(get_bytes(ctx, weight, MASTER), packed);
    tensor_release(weight);
}

static void every_write_counts_a_version(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    uint64_t version = storage_version(weight->storage);
    tensor_release(get(ctx, weight, MASTER));
    assert_int_equal(storage_version(weight->storage), version);
    add(ctx, weight, MASTER, 1);
    assert_int_equal(storage_version(weight->storage), version + 1);
    check_counts(ctx, weight, 1);
    assert_int_equal(storage_version(weight->storage), version + 1);
    CHECK_OK(ctx, tensor_fill(ctx, weight, 1));
    assert_int_equal(storage_version(weight->storage), version + 2);
    tensor_release(weight);
}

static void formats_that_lie_like_plain_are_the_plain_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    const void *before = tensor_bytes(weight);
    counters_reset(ctx);
    add(ctx, weight, "abcd", 1);
    assert_ptr_equal(tensor_bytes(weight), before);
    assert_null(storage_forms(weight->storage));
    assert_int_equal(read_counters(ctx).reorder_bytes, 0);
    check_counts(ctx, weight, 1);
    tensor_release(weight);
}

static void forms_that_cannot_be_read_back_are_not_written(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    tensor_info_t want = weight->info;
    void *bytes = NULL;
    want.layout = LAYOUT_MKLDNN;
    want.format = (format_t){.kind = FORMAT_OPAQUE, .rank = 4, .words = {NUMEL, 1}};
    CHECK_FAILS(ctx, form_writable(ctx, weight, &want, CAUSE_WEIGHT, &bytes), STATUS_UNSUPPORTED,
                "form: cannot write f32[17,31,3,3] as mkldnn f32[17,31,3,3]@opaque");
    assert_null(bytes);
    check_counts(ctx, weight, 0);
    tensor_release(weight);
}

static void lanes_that_are_not_zero_are_found(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C), *form = get(ctx, weight, MASTER), *own = NULL;
    void *bytes = NULL;
    CHECK_OK(ctx, tensor_clone(ctx, form, &own));
    CHECK_OK(ctx, tensor_writable(ctx, own, &bytes));
    assert_true(convert_padding_is_zero(&own->info, bytes));
    ((float *)bytes)[info_bytes(&own->info) / sizeof(float) - 1] = 1; /* padding at [31,31,2,2] */
    assert_false(convert_padding_is_zero(&own->info, bytes));
    convert_zero_padding(&own->info, bytes);
    assert_true(convert_padding_is_zero(&own->info, bytes));
    check_counts(ctx, own, 0);
    tensor_release(own);
    tensor_release(form);
    tensor_release(weight);
}

/* ---- shed bytes ---- */

static void plain_bytes_that_nobody_asks_for_between_two_writes_are_shed(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = shedding(ctx);
    const void *data = NULL;
    add(ctx, weight, MASTER, 1);
    assert_true(storage_is_shed(weight->storage));
    CHECK_OK(ctx, tensor_data(ctx, weight, &data)); /* the pointer is valid until the next write */
    assert_true(((const float *)data)[0] == 1);
    add(ctx, weight, MASTER, 1);
    assert_false(storage_is_plain(weight->storage));
    assert_false(storage_is_shed(weight->storage));
    CHECK_OK(ctx, storage_restore(ctx, weight->storage, CAUSE_USER));
    tensor_release(get(ctx, weight, OTHER)); /* no pointer to plain bytes is valid */
    assert_true(storage_is_shed(weight->storage));
    CHECK_OK(ctx, storage_restore(ctx, weight->storage, CAUSE_USER));
    add(ctx, weight, MASTER, 1);
    assert_false(storage_is_shed(weight->storage));
    add(ctx, weight, MASTER, 1);
    assert_true(storage_is_shed(weight->storage));
    check_counts(ctx, weight, 4);
    tensor_release(weight);
}

static void plain_bytes_that_come_back_for_two_writes_stay(void **state)
{
    fixture_t *fixture = *state;
    context_t *ctx = fixture->ctx;
    tensor_t *weight = shedding(ctx);
    tensor_release(get(ctx, weight, MASTER));
    for (int step = 1; step <= 4; step++) {
        assert_true(storage_is_shed(weight->storage) == (step < 3));
        if (step == 4) counting_fail(&fixture->memory, 0, false);
        CHECK_OK(ctx, tensor_fill(ctx, weight, step));
        assert_true(*(const float *)get_bytes(ctx, weight, MASTER) == (float)step);
    }
    assert_int_equal(atomic_load(&fixture->memory.requests), 0);
    add(ctx, weight, MASTER, 1); /* writing a form sheds them again */
    add(ctx, weight, MASTER, 1);
    assert_true(storage_is_shed(weight->storage));
    tensor_release(weight);
}

static void overlap_is_known_without_reading_plain_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = shedding(ctx), *other = counted(ctx, K, C), *parts[2] = {NULL};
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 0, 2, &parts[0]));
    CHECK_OK(ctx, tensor_narrow(ctx, weight, 0, 2, 2, &parts[1]));
    tensor_release(get(ctx, weight, MASTER));
    assert_true(tensor_overlaps(weight, parts[1]));
    assert_false(tensor_overlaps(parts[0], parts[1]));
    assert_false(tensor_overlaps(weight, other));
    assert_true(tensor_overlaps(other, other));
    assert_true(storage_is_shed(weight->storage));
    for (int i = 0; i < 2; i++) tensor_release(parts[i]);
    tensor_release(other);
    tensor_release(weight);
}

/* ---- threads, memory ---- */

#define N_THREADS 4

typedef struct asking {
    tensor_t *source, *form;
    const void *plain;
    bool is_made;
    pthread_barrier_t *start;
} asking_t;

static void *ask(void *user)
{
    asking_t *asking = user;
    context_t *ctx = NULL;
    format_t format;
    bool is_right = context_create(NULL, &ctx) == STATUS_OK &&
                    format_parse(ctx, OTHER, &format) == STATUS_OK;
    tensor_info_t want = info_mkldnn(&asking->source->info, &format);
    pthread_barrier_wait(asking->start);
    is_right = is_right &&
               form_get(ctx, asking->source, &want, NULL, CAUSE_WEIGHT, &asking->is_made,
                        &asking->form) == STATUS_OK &&
               tensor_data(ctx, asking->source, &asking->plain) == STATUS_OK;
    context_destroy(ctx);
    return is_right ? user : NULL;
}

static void threads_that_ask_after_a_write_get_one_refreshed_form(void **state)
{
    context_t *ctx = fixture_context(state);
    tensor_t *weight = counted(ctx, K, C);
    tensor_release(get(ctx, weight, OTHER));
    for (int round = 1; round <= 20; round++) {
        pthread_barrier_t start;
        pthread_t threads[N_THREADS];
        asking_t asking[N_THREADS];
        int n_made = 0;
        add(ctx, weight, MASTER, 1);
        assert_int_equal(pthread_barrier_init(&start, NULL, N_THREADS), 0);
        for (int i = 0; i < N_THREADS; i++) {
            asking[i] = (asking_t){.source = weight, .start = &start};
            assert_int_equal(pthread_create(&threads[i], NULL, ask, &asking[i]), 0);
        }
        for (int i = 0; i < N_THREADS; i++) {
            void *result = NULL;
            assert_int_equal(pthread_join(threads[i], &result), 0);
            assert_ptr_equal(result, &asking[i]);
        }
        for (int i = 0; i < N_THREADS; i++) {
            assert_ptr_equal(asking[i].form, asking[0].form);
            assert_ptr_equal(asking[i].plain, asking[0].plain);
            assert_true(((const float *)asking[i].plain)[7] == (float)(7 + round));
            n_made += asking[i].is_made;
        }
        assert_int_equal(n_made, 1);
        check_counts(ctx, asking[0].form, round);
        for (int i = 0; i < N_THREADS; i++) tensor_release(asking[i].form);
        pthread_barrier_destroy(&start);
    }
    tensor_release(weight);
}

static status_t try_add(context_t *ctx, tensor_t *weight, const tensor_info_t *want)
{
    void *bytes = NULL;
    TRY(form_writable(ctx, weight, want, CAUSE_WEIGHT, &bytes));
    for (int i = 0; i < 4; i++) ((float *)bytes)[i] += 1;
    return form_written(ctx, weight, want, CAUSE_WEIGHT);
}

static status_t write_and_read(context_t *ctx)
{
    float read[64] = {0};
    tensor_t *whole = NULL, *m = NULL;
    format_t format = format_channel_blocks(4, 8);
    status_t status = tensor_full(ctx, DTYPE_F32, SHAPE(1, 16, 2, 2), 1, &whole);
    if (status == STATUS_OK) status = to_mkldnn(ctx, whole, &m);
    if (status == STATUS_OK) {
        tensor_info_t want = info_mkldnn(&whole->info, &format);
        status = try_add(ctx, whole, &want);
        if (status == STATUS_OK) status = try_add(ctx, whole, &want);
        if (status == STATUS_OK) status = tensor_copy(ctx, whole, m);
        if (status == STATUS_OK) status = try_add(ctx, whole, &want);
    }
    if (status == STATUS_OK) status = tensor_read(ctx, whole, read, sizeof read);
    if (status == STATUS_OK) assert_true(read[0] == 2 && read[63] == 1);
    tensor_release(m);
    tensor_release(whole);
    return status;
}

static void writes_survive_every_refused_allocation(void **state)
{
    (void)state;
    check_every_allocation(write_and_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_write_refreshes_a_form_in_its_own_bytes),
        TEST(an_mkldnn_tensor_that_is_copied_into_refreshes_its_forms),
        TEST(a_form_that_somebody_has_keeps_its_elements),
        TEST(a_write_through_a_form_is_seen_everywhere),
        TEST(plain_bytes_come_back_by_one_reorder_that_counts),
        TEST(reading_plain_bytes_is_a_counted_reorder),
        TEST(steps_in_the_same_forms_allocate_nothing),
        TEST(snapshots_from_before_a_write_keep_their_elements),
        TEST(a_part_is_written_back_at_the_end_of_the_write),
        TEST(a_write_through_a_form_reaches_the_owner_of_borrowed_memory),
        TEST(a_read_only_mapping_is_left_as_it_is),
        TEST(every_write_counts_a_version),
        TEST(formats_that_lie_like_plain_are_the_plain_bytes),
        TEST(forms_that_cannot_be_read_back_are_not_written),
        TEST(lanes_that_are_not_zero_are_found),
        TEST(plain_bytes_that_nobody_asks_for_between_two_writes_are_shed),
        TEST(plain_bytes_that_come_back_for_two_writes_stay),
        TEST(overlap_is_known_without_reading_plain_bytes),
        TEST(threads_that_ask_after_a_write_get_one_refreshed_form),
        TEST(writes_survive_every_refused_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
