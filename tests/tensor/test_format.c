#include "tests/support/support.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/context_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/format.h"
#include "tensor/onednn/api.h"
#include "tensor/shape.h"
#include "tensor/tensor_impl.h"

/* Tags (names of formats) of all kinds: without blocks, with one block, with several blocks of
 * different dimensions or of one, and with blocks in another order than the dimensions. */
static const char *const tags[] = {
    "a",       "ab",       "ba",        "abc",         "acb",        "bca",        "cba",
    "abcd",    "acdb",     "cdba",      "bacd",        "abdc",       "A4a",        "aB8b",
    "Ab2a",    "AB2a8b",   "AB8b2a",    "BA4b4a",      "BA2a3b2a",   "aBc4b",      "Abc4a",
    "ABc2a4b", "ABc4b2a",  "aCb3c",     "aBCd2b2c",    "aBcd4b",     "aBcd16b",    "acdB4b",
    "Acdb4a",  "ABcd4b4a", "ABcd2a4b",  "ABcd8b16a2b", "ABcd2b4a2b", "BAcd4a2b2a", "ABcd2a2b2a2b",
    "Abcd16a", "aBcde4b",  "aBCde2b4c", "ABcde4b4a",   "abcdeF3f",   "aBdC2b4c2b", "abDc5d",
};
#define N_TAGS ((int)(sizeof tags / sizeof *tags))

static format_t parse(context_t *ctx, const char *text)
{
    format_t format = {0};
    CHECK_OK(ctx, format_parse(ctx, text, &format));
    return format;
}

static int64_t draw(context_t *ctx, int64_t n)
{
    return (int64_t)(context_random(ctx) % (uint64_t)n);
}

/* ---- text ---- */

static void formats_print_as_they_were_written(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const others[] = {"?",
                                         "{}",
                                         "{0}",
                                         "{12544,1,112,1}",
                                         "abcdefghijkl",
                                         "{9223372036854775807,0}",
                                         "aBCde16c16b",
                                         "aB65535b",
                                         "u4f16z32b",
                                         "s4bf16g64a",
                                         "u2f32m65536l",
                                         "s8f16g16c",
                                         "opaque4x65536x20603x3x3x4x64x64x16x16x1x2",
                                         "opaque0x0x0"};
    char text[FORMAT_TEXT_MAX];
    for (int i = 0; i < N_TAGS; i++) {
        format_t format = parse(ctx, tags[i]);
        assert_string_equal(format_text(&format, text), tags[i]);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        format_t format = parse(ctx, others[i]);
        assert_string_equal(format_text(&format, text), others[i]);
    }
}

/* FORMAT_TEXT_MAX must be enough for any format that oneDNN describes. */
static void the_longest_formats_have_room_for_their_text(void **state)
{
    char text[FORMAT_TEXT_MAX];
    format_t strides = {.kind = FORMAT_STRIDED, .rank = TENSOR_MAX_RANK};
    format_t words = {.kind = FORMAT_OPAQUE, .rank = TENSOR_MAX_RANK};
    format_t tag = format_plain(TENSOR_MAX_RANK);
    tag.n_blocks = FORMAT_MAX_BLOCKS;
    for (int i = 0; i < TENSOR_MAX_RANK; i++) strides.strides[i] = words.words[i] = INT64_MAX;
    for (int i = 0; i < FORMAT_MAX_BLOCKS; i++) {
        tag.block_dims[i] = (uint8_t)i;
        tag.block_sizes[i] = UINT16_MAX;
    }
    /* If a product of sizes is less than 2^63, all sizes but their first digits have at most 18
     * digits. */
    int64_t inner[TENSOR_MAX_RANK] = {INT64_MAX, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    format_t regrouped = format_regroup(TENSOR_MAX_RANK, &tag, inner);
    const format_t *const longest[] = {&strides, &words, &tag, &regrouped};
    for (size_t i = 0; i < sizeof longest / sizeof *longest; i++)
        assert_true(strlen(format_text(longest[i], text)) < sizeof text);
    format_t read = parse(fixture_context(state), format_text(&words, text));
    assert_memory_equal(read.words, words.words, sizeof read.words);
}

static void a_tag_becomes_order_and_blocks(void **state)
{
    format_t format = parse(fixture_context(state), "BacD8b16d2b");
    assert_int_equal(format.kind, FORMAT_TAG);
    assert_int_equal(format.rank, 4);
    assert_memory_equal(format.order, ((uint8_t[]){1, 0, 2, 3}), 4);
    assert_int_equal(format.n_blocks, 3);
    assert_memory_equal(format.block_dims, ((uint8_t[]){1, 3, 1}), 3);
    assert_memory_equal(format.block_sizes, ((uint16_t[]){8, 16, 2}), 3 * sizeof(uint16_t));
}

#define SIZE "9223372036854775807"
#define FOUR_SIZES SIZE "," SIZE "," SIZE "," SIZE

static void malformed_texts_are_refused_with_the_rule(void **state)
{
    static const struct {
        const char *text, *message;
    } known[] = {
        {"", "format: \"\": no dimensions"},
        {"16b", "format: \"16b\": no dimensions"},
        {"aBcd", "format: \"aBcd\": b is split but has no block"},
        {"ABcd16b", "format: \"ABcd16b\": a is split but has no block"},
        {"abcd16b", "format: \"abcd16b\": b has a block but is not split"},
        {"abbd", "format: \"abbd\": b occurs twice"},
        {"aBbd", "format: \"aBbd\": b occurs twice"},
        {"abd", "format: \"abd\": c is missing"},
        {"b", "format: \"b\": a is missing"},
        {"abcdefghijklm", "format: \"abcdefghijklm\": 'm' is not a dimension, must be a to l"},
        {"ab cd", "format: \"ab cd\": ' ' is not a dimension"},
        {"ab-", "format: \"ab-\": '-' is not a dimension"},
        {"ab?", "format: \"ab?\": '?' is not a dimension"},
        {"aBcd16", "format: \"aBcd16\": block 16 has no dimension"},
        {"aBcd16e", "format: \"aBcd16e\": block 16 has no dimension"},
        {"aBcd16B", "format: \"aBcd16B\": block 16 has no dimension"},
        {"aBcd1b", "format: \"aBcd1b\": block 0 is not a number from 2 to 65535"},
        {"aBcd0b", "format: \"aBcd0b\": block 0 is not a number from 2 to 65535"},
        {"aBcd016b", "format: \"aBcd016b\": block 0 is not a number from 2 to 65535"},
        {"aBcd16bb", "format: \"aBcd16bb\": block 1 is not a number from 2 to 65535"},
        {"aB65536b", "block 0 is not a number from 2 to 65535"},
        {"aB99999999999999999999b", "block 0 is not a number from 2 to 65535"},
        {"aB2b2b2b2b2b2b2b", "more than 6 blocks"},
        {"aB65535b65535b", "its blocks hold more than 2147483647 elements"},
        {"{1,2", "format: \"{1,2\": } is missing"},
        {"{1,}", "format: \"{1,}\": stride 1 is not an integer below 2^63"},
        {"{", "stride 0 is not an integer"},
        {"{,}", "stride 0 is not an integer"},
        {"{-1}", "stride 0 is not an integer"},
        {"{ 1}", "stride 0 is not an integer"},
        {"{01}", "stride 0 is not an integer"},
        {"{9223372036854775808}", "stride 0 is not an integer below 2^63"},
        {"{1}x", "format: \"{1}x\": unexpected \"x\""},
        {"{1,1,1,1,1,1,1,1,1,1,1,1,1}", "more than 12 dimensions"},
        {"u", "format: \"u\": codes of 2, 4 or 8 bits, the scale's dtype, g, z or m, a group"},
        {"u4", "format: \"u4\": codes of 2"},
        {"u4f16", "format: \"u4f16\": codes of 2"},
        {"u3f16g32b", "format: \"u3f16g32b\": codes of 2"},
        {"u4s8g32b", "format: \"u4s8g32b\": codes of 2"},
        {"u4f64g32b", "format: \"u4f64g32b\": codes of 2"},
        {"u4f16g24b", "format: \"u4f16g24b\": codes of 2"},
        {"u4f16g65552b", "format: \"u4f16g65552b\": codes of 2"},
        {"u4f16g32", "format: \"u4f16g32\": codes of 2"},
        {"u4f16g32m", "format: \"u4f16g32m\": codes of 2"},
        {"u4f16g32b ", "format: \"u4f16g32b \": unexpected \" \""},
        {"opaque", "format: \"opaque\": its rank is not a number up to 12"},
        {"opaque13x1x1", "its rank is not a number up to 12"},
        {"opaque4x1", "format: \"opaque4x1\": its size and version are missing"},
        {"opaque4x1x-1", "word 1 is not an integer below 2^63"},
        {"opaque4x1x2x3x4x5x6x7x8x9x10x11x12x13", "word 12 is not an integer below 2^63, or one"},
        {"opaque4x1x2y", "format: \"opaque4x1x2y\": unexpected \"y\""},
        {"??", "format: \"??\": unexpected \"?\""},
        {"12:ABCDEFghijkl60000a2b2c2d2e2f(" FOUR_SIZES "," FOUR_SIZES "," FOUR_SIZES ")",
         "272 characters, must be at most 255"},
    };
    context_t *ctx = fixture_context(state);
    format_t format = format_plain(3), before = format;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        CHECK_FAILS(ctx, format_parse(ctx, known[i].text, &format), STATUS_INVALID_ARGUMENT,
                    known[i].message);
        assert_memory_equal(&format, &before, sizeof format);
    }
}

static void any_bytes_are_parsed_or_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char alphabet[] = "aabBcCdD0123468,{}?";
    for (int i = 0; i < 200000; i++) {
        char text[12] = {0}, again[FORMAT_TEXT_MAX];
        int64_t length = draw(ctx, sizeof text);
        for (int64_t k = 0; k < length; k++) text[k] = alphabet[draw(ctx, sizeof alphabet - 1)];
        format_t format;
        if (format_parse(ctx, text, &format) == STATUS_OK)
            assert_string_equal(format_text(&format, again), text);
    }
}

static void usual_formats_have_their_tags(void **state)
{
    (void)state;
    static const char *const plain[] = {"", "a", "ab", "abc", "abcd", "abcde"};
    static const char *const last[] = {"", "a", "ab", "acb", "acdb", "acdeb"};
    char text[FORMAT_TEXT_MAX];
    for (int rank = 0; rank <= 5; rank++) {
        format_t format = format_plain(rank);
        assert_string_equal(format_text(&format, text), plain[rank]);
        format = format_channels_last(rank);
        assert_string_equal(format_text(&format, text), last[rank]);
    }
    format_t format = format_channel_blocks(4, 16);
    assert_string_equal(format_text(&format, text), "aBcd16b");
    assert_true(format_is_blocked(&format));
    format = format_plain(4);
    assert_false(format_is_blocked(&format));
}

/* ---- offsets ---- */

static int64_t whole_block(const format_t *format, int d)
{
    int64_t block = 1;
    for (int b = 0; b < format->n_blocks; b++)
        if (format->block_dims[b] == d) block *= format->block_sizes[b];
    return block;
}

/* Chooses sizes that are smaller than the blocks, multiples of them, or larger. */
static void draw_sizes(context_t *ctx, const format_t *format, int64_t *out_sizes)
{
    for (int d = 0; d < format->rank; d++) {
        int64_t block = whole_block(format, d), most = format->rank > 6 ? 2 : 4;
        if (block > 1)
            out_sizes[d] = draw(ctx, 4) == 0 ? block : 1 + draw(ctx, block + block / 2 + 1);
        else
            out_sizes[d] = 1 + draw(ctx, most);
    }
}

static void every_padded_element_has_a_place_of_its_own(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 20 * N_TAGS; i++) {
        format_t format = parse(ctx, tags[i % N_TAGS]);
        int64_t sizes[TENSOR_MAX_RANK], padded[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK] = {0};
        int64_t elements = 0, numel = 0, count = 0;
        draw_sizes(ctx, &format, sizes);
        format_padded_sizes(&format, sizes, padded);
        assert_true(format_elements(&format, sizes, &elements));
        assert_true(shape_numel(format.rank, padded, &numel));
        assert_int_equal(elements, numel);
        assert_int_equal(format_is_padded(&format, sizes),
                         !shape_equal(format.rank, sizes, format.rank, padded));

        bool *taken = calloc((size_t)elements, sizeof *taken);
        assert_non_null(taken);
        do {
            int64_t offset = format_offset(&format, sizes, index);
            assert_in_range(offset, 0, elements - 1);
            assert_false(taken[offset]);
            taken[offset] = true;
            count++;
        } while (shape_next(format.rank, padded, index));
        assert_int_equal(count, elements);
        free(taken);
    }
}

static void known_offsets_are_where_onednn_documents_them(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t sizes[] = {32, 64, 3, 3}, index[] = {19, 37, 1, 2};
    format_t format = parse(ctx, "aBcd16b");
    assert_int_equal(format_offset(&format, sizes, index),
                     (((19 * 4 + 37 / 16) * 3 + 1) * 3 + 2) * 16 + 37 % 16);
    /* OIhw8i16o2i in oneDNN's words */
    format = parse(ctx, "ABcd8b16a2b");
    assert_int_equal(format_offset(&format, sizes, index),
                     ((((19 / 16) * 4 + 37 / 16) * 3 + 1) * 3 + 2) * 256 +
                         (37 % 16 / 2 * 16 + 19 % 16) * 2 + 37 % 2);
    format = parse(ctx, "acdb");
    assert_int_equal(format_offset(&format, sizes, index), ((19 * 3 + 1) * 3 + 2) * 64 + 37);
    format = parse(ctx, "{1000,10,0,7}");
    assert_int_equal(format_offset(&format, sizes, index), 19 * 1000 + 370 + 14);
}

static void strides_are_the_steps_from_block_to_block(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 20 * N_TAGS; i++) {
        format_t format = parse(ctx, tags[i % N_TAGS]);
        int64_t sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
        draw_sizes(ctx, &format, sizes);
        format_strides(&format, sizes, strides);
        for (int d = 0; d < format.rank; d++) {
            int64_t index[TENSOR_MAX_RANK] = {0}, block = whole_block(&format, d);
            if (sizes[d] <= block) continue;
            index[d] = block;
            assert_int_equal(format_offset(&format, sizes, index), strides[d]);
        }
    }
}

/* Reorders 1, 2, 3, ... to the tag with oneDNN. Each element must be at format_offset, and all
 * other bytes must be zero. Returns false if oneDNN does not support the reorder. */
static bool check_against_onednn(context_t *ctx, const char *tag)
{
    format_t format = parse(ctx, tag);
    int64_t sizes[TENSOR_MAX_RANK], index[TENSOR_MAX_RANK] = {0}, numel = 0, elements = 0;
    draw_sizes(ctx, &format, sizes);
    if (format.n_blocks == 0 && format.rank > 6) sizes[3] = 3;
    assert_true(shape_numel(format.rank, sizes, &numel));
    tensor_t *ramp = NULL, *dense = NULL, *blocked = NULL;
    CHECK_OK(ctx, tensor_arange(ctx, DTYPE_F32, numel, 1.0, &ramp));
    CHECK_OK(ctx, tensor_view(ctx, ramp, format.rank, sizes, &dense));
    tensor_release(ramp);
    status_t status = convert_reorder(ctx, dense, tag, &blocked);
    tensor_release(dense);
    if (status == STATUS_UNSUPPORTED) return false;
    CHECK_OK(ctx, status);

    const float *bytes = tensor_bytes(blocked);
    double sum = 0;
    int64_t count = 0;
    do {
        int64_t offset = format_offset(&format, sizes, index);
        count++;
        if (bytes[offset] != (float)count) print_error("%s: element %d\n", tag, (int)count);
        assert_true(bytes[offset] == (float)count);
    } while (shape_next(format.rank, sizes, index));
    assert_true(format_elements(&format, sizes, &elements));
    assert_int_equal(info_bytes(tensor_info(blocked)), (size_t)elements * sizeof *bytes);
    for (int64_t i = 0; i < elements; i++) sum += (double)bytes[i];
    assert_true(sum == (double)numel * (double)(numel + 1) / 2);
    tensor_release(blocked);
    return true;
}

static void elements_lie_where_onednn_puts_them_for_every_tag_it_has(void **state)
{
    context_t *ctx = fixture_context(state);
    int n_tags = 0, n_checked = 0;
    char text[FORMAT_TEXT_MAX];
    for (int tag = dnnl_format_tag_any + 1; tag < dnnl_format_tag_last; tag++) {
        const char *name = dnnl_fmt_tag2str((dnnl_format_tag_t)tag);
        if (strstr(name, "unknown") != NULL) continue;
        n_tags++;
        format_t format = parse(ctx, name);
        assert_string_equal(format_text(&format, text), name);
        n_checked += check_against_onednn(ctx, name);
    }
    assert_true(n_tags > 400);
    assert_true(n_checked > n_tags * 9 / 10);
}

static void elements_that_do_not_fit_are_no_number(void **state)
{
    context_t *ctx = fixture_context(state);
    int64_t elements = -7;
    format_t format = parse(ctx, "aB16b");
    assert_false(format_elements(&format, (int64_t[]){1, INT64_MAX}, &elements));
    assert_false(format_elements(&format, (int64_t[]){INT64_C(1) << 59, 1}, &elements));
    assert_false(format_elements(&format, (int64_t[]){2, -1}, &elements));
    format = parse(ctx, "{4611686018427387904,1}");
    assert_false(format_elements(&format, (int64_t[]){3, 1}, &elements));
    format = parse(ctx, "{9223372036854775807,1}");
    assert_false(format_elements(&format, (int64_t[]){2, 2}, &elements));
    format = parse(ctx, "?");
    assert_false(format_elements(&format, (int64_t[]){2, 2}, &elements));
    assert_int_equal(elements, -7);

    format = parse(ctx, "aB16b");
    assert_true(format_elements(&format, (int64_t[]){INT64_C(1) << 58, 1}, &elements));
    assert_int_equal(elements, INT64_C(1) << 62);
    assert_true(format_elements(&format, (int64_t[]){INT64_MAX, 0}, &elements));
    assert_int_equal(elements, 0);
    format = parse(ctx, "{0,7,1}");
    assert_true(format_elements(&format, (int64_t[]){1000, 3, 2}, &elements));
    assert_int_equal(elements, 16);
}

/* ---- from strides ---- */

static void check_of_strides(const char *wanted, int rank, const int64_t *sizes,
                             const int64_t *strides)
{
    char text[FORMAT_TEXT_MAX];
    format_t format = format_of_strides(rank, sizes, strides);
    assert_string_equal(format_text(&format, text), wanted);
}

static void strides_without_gaps_become_a_tag(void **state)
{
    (void)state;
    check_of_strides("abcd", 4, (int64_t[]){2, 3, 4, 5}, (int64_t[]){60, 20, 5, 1});
    check_of_strides("acdb", 4, (int64_t[]){2, 3, 4, 5}, (int64_t[]){60, 1, 15, 3});
    check_of_strides("cdba", 4, (int64_t[]){2, 3, 4, 5}, (int64_t[]){1, 2, 30, 6});
    check_of_strides("", 0, NULL, NULL);
}

static void sizes_of_one_give_the_usual_order_where_it_has_the_same_bytes(void **state)
{
    (void)state;
    check_of_strides("abcd", 4, (int64_t[]){1, 3, 1, 5}, (int64_t[]){77, 5, 1, 1});
    check_of_strides("abcd", 4, (int64_t[]){2, 3, 1, 1}, (int64_t[]){3, 1, 3, 3});
    check_of_strides("acdb", 4, (int64_t[]){1, 3, 4, 5}, (int64_t[]){0, 1, 15, 3});
    check_of_strides("acdb", 4, (int64_t[]){2, 3, 4, 1}, (int64_t[]){12, 1, 3, 9});
    check_of_strides("bacd", 4, (int64_t[]){2, 3, 1, 1}, (int64_t[]){1, 2, 1, 1});
    check_of_strides("acbd", 4, (int64_t[]){1, 3, 4, 5}, (int64_t[]){9, 5, 15, 1});
}

static void empty_tensors_are_plain(void **state)
{
    (void)state;
    check_of_strides("abc", 3, (int64_t[]){2, 0, 3}, (int64_t[]){1, 99, 0});
}

static void gaps_and_overlaps_keep_their_strides(void **state)
{
    (void)state;
    check_of_strides("{40,10,2}", 3, (int64_t[]){2, 3, 4}, (int64_t[]){40, 10, 2});
    check_of_strides("{13,4,1}", 3, (int64_t[]){2, 3, 4}, (int64_t[]){13, 4, 1});
    check_of_strides("{0,4,1}", 3, (int64_t[]){2, 3, 4}, (int64_t[]){0, 4, 1});
    check_of_strides("{1,1}", 2, (int64_t[]){2, 3}, (int64_t[]){1, 1});
    check_of_strides("{0,0}", 2, (int64_t[]){INT64_MAX, INT64_MAX}, (int64_t[]){0, 0});
}

/* The strides of a permuted contiguous tensor must become a tag with the same offsets. If row-major
 * or channels-last has these offsets, it must be that one. */
static void permuted_tensors_become_tags_with_the_same_bytes(void **state)
{
    context_t *ctx = fixture_context(state);
    for (int i = 0; i < 5000; i++) {
        int rank = 1 + (int)draw(ctx, 6);
        format_t made = format_plain(rank), last = format_channels_last(rank);
        format_t plain = format_plain(rank);
        int64_t sizes[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
        for (int d = rank - 1; d > 0; d--) {
            int64_t other = draw(ctx, d + 1);
            uint8_t kept = made.order[d];
            made.order[d] = made.order[other];
            made.order[other] = kept;
        }
        for (int d = 0; d < rank; d++) sizes[d] = 1 + draw(ctx, 3);
        format_strides(&made, sizes, strides);
        for (int d = 0; d < rank; d++)
            if (sizes[d] == 1) strides[d] = draw(ctx, 100);
        format_t format = format_of_strides(rank, sizes, strides);
        assert_int_equal(format.kind, FORMAT_TAG);
        assert_true(format_same(&format, &made, sizes));
        if (format_same(&plain, &made, sizes))
            assert_memory_equal(&format, &plain, sizeof format);
        else if (format_same(&last, &made, sizes))
            assert_memory_equal(&format, &last, sizeof format);
    }
}

/* ---- equality ---- */

static bool same_by_enumeration(const format_t *a, const format_t *b, const int64_t *sizes)
{
    int64_t index[TENSOR_MAX_RANK] = {0}, elements_a = 0, elements_b = 0;
    if (a->rank != b->rank) return false;
    assert_true(format_elements(a, sizes, &elements_a));
    assert_true(format_elements(b, sizes, &elements_b));
    if (elements_a != elements_b) return false;
    for (int d = 0; d < a->rank; d++)
        if (sizes[d] == 0) return true;
    do {
        if (format_offset(a, sizes, index) != format_offset(b, sizes, index)) return false;
    } while (shape_next(a->rank, sizes, index));
    return true;
}

static void check_same(const format_t *a, const format_t *b, const int64_t *sizes, int *n_same)
{
    bool wanted = same_by_enumeration(a, b, sizes);
    if (format_same(a, b, sizes) != wanted) {
        char text_a[FORMAT_TEXT_MAX], text_b[FORMAT_TEXT_MAX], text[256];
        print_error("%s and %s of %s\n", format_text(a, text_a), format_text(b, text_b),
                    shape_text(a->rank, sizes, text, sizeof text));
    }
    assert_int_equal(format_same(a, b, sizes), wanted);
    assert_int_equal(format_hash(a, sizes, 1) == format_hash(b, sizes, 1), wanted);
    *n_same += wanted;
}

/* Compares all pairs of tags of one rank, for sizes around multiples of the blocks. */
static void equality_is_that_of_every_element(void **state)
{
    static const int64_t choices[] = {1, 1, 1, 2, 3, 4, 5, 8, 16, 17, 0};
    context_t *ctx = fixture_context(state);
    int n_same = 0, n_pairs = 0;
    for (int i = 0; i < N_TAGS; i++) {
        for (int j = 0; j < i; j++) {
            format_t a = parse(ctx, tags[i]), b = parse(ctx, tags[j]);
            if (a.rank != b.rank) continue;
            n_pairs++;
            for (int trial = 0; trial < 150; trial++) {
                int64_t sizes[TENSOR_MAX_RANK], n_choices = trial % 10 == 0 ? 11 : 10;
                for (int d = 0; d < a.rank; d++) sizes[d] = choices[draw(ctx, n_choices)];
                if (a.rank > 3) sizes[draw(ctx, a.rank)] = 1;
                check_same(&a, &b, sizes, &n_same);
            }
        }
    }
    assert_true(n_pairs > 100 && n_same > 1000);
}

/* Compares random formats with blocks of 2 and 3, for small sizes, with each other and with the
 * strides that are most like them. */
static void equality_holds_for_random_formats(void **state)
{
    context_t *ctx = fixture_context(state);
    int n_same = 0;
    for (int i = 0; i < 100000; i++) {
        format_t formats[2];
        int rank = 1 + (int)draw(ctx, 3);
        int64_t sizes[TENSOR_MAX_RANK];
        for (int f = 0; f < 2; f++) {
            formats[f] = draw(ctx, 2) == 0 ? format_plain(rank) : format_channels_last(rank);
            formats[f].n_blocks = (uint8_t)draw(ctx, 4);
            for (int b = 0; b < formats[f].n_blocks; b++) {
                formats[f].block_dims[b] = (uint8_t)draw(ctx, rank);
                formats[f].block_sizes[b] = (uint16_t)(2 + draw(ctx, 2));
            }
        }
        for (int d = 0; d < rank; d++) sizes[d] = 1 + draw(ctx, 7);
        check_same(&formats[0], &formats[1], sizes, &n_same);

        format_t strided = {.kind = FORMAT_STRIDED, .rank = (uint8_t)rank};
        for (int d = 0; d < rank; d++) {
            int64_t index[TENSOR_MAX_RANK] = {0};
            index[d] = sizes[d] > 1 ? 1 : 0;
            strided.strides[d] = format_offset(&formats[0], sizes, index);
        }
        check_same(&formats[0], &strided, sizes, &n_same);
        check_same(&formats[1], &strided, sizes, &n_same);
    }
    assert_true(n_same > 10000);
}

static void opaque_formats_are_the_same_word_for_word(void **state)
{
    context_t *ctx = fixture_context(state);
    static const int64_t sizes[] = {8, 8, 3, 3};
    format_t a = parse(ctx, "opaque4x4096x20603x4"), b = parse(ctx, "opaque4x4096x20603x4");
    format_t other = parse(ctx, "opaque4x4096x30200x4"), plain = format_plain(4);
    int64_t elements = 0;
    assert_true(format_same(&a, &b, sizes));
    assert_int_equal(format_hash(&a, sizes, 1), format_hash(&b, sizes, 1));
    assert_false(format_same(&a, &other, sizes));
    assert_int_not_equal(format_hash(&a, sizes, 1), format_hash(&other, sizes, 1));
    assert_false(format_same(&a, &plain, sizes));
    assert_false(format_same(&plain, &a, sizes));
    assert_true(format_elements(&a, sizes, &elements));
    assert_int_equal(elements, 4096);
    assert_true(format_is_blocked(&a));
}

static void known_pairs_need_no_reorder(void **state)
{
    static const struct {
        const char *a, *b;
        int64_t sizes[4];
        bool is_same;
    } known[] = {
        {"aBcd16b", "abcd", {8, 64, 1, 1}, true},
        {"aBcd16b", "abcd", {8, 63, 1, 1}, false},
        {"aBcd16b", "abcd", {8, 64, 2, 1}, false},
        {"aBcd16b", "acdb", {8, 16, 7, 7}, true},
        {"aBcd16b", "acdb", {8, 32, 7, 7}, false},
        {"aBcd16b", "aBcd8b", {8, 64, 1, 1}, true},
        {"aBcd16b", "aBcd8b", {8, 8, 1, 1}, false},
        {"acdb", "abcd", {8, 1, 7, 7}, true},
        {"acdb", "abcd", {8, 3, 1, 1}, true},
        {"Abcd16a", "abcd", {1, 3, 5, 5}, false},
        {"{64,1,64,64}", "aBcd16b", {8, 64, 1, 1}, true},
        {"{64,1,9,9}", "acdb", {8, 64, 1, 1}, true},
        {"{0,1,9,9}", "acdb", {8, 64, 1, 1}, false},
        {"{128,1,9,9}", "acdb", {8, 64, 1, 1}, false},
        {"{64,1,9,9}", "aBcd16b", {1, 8, 1, 1}, false},
        {"?", "abcd", {8, 64, 7, 7}, false},
        {"?", "?", {8, 64, 7, 7}, true},
    };
    context_t *ctx = fixture_context(state);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        format_t a = parse(ctx, known[i].a), b = parse(ctx, known[i].b);
        assert_int_equal(format_same(&a, &b, known[i].sizes), known[i].is_same);
        assert_int_equal(format_same(&b, &a, known[i].sizes), known[i].is_same);
    }
    format_t a = format_plain(2), b = format_plain(3);
    assert_false(format_same(&a, &b, (int64_t[]){2, 3, 1}));
}

/* ---- other sizes ---- */

static void a_regrouped_format_is_the_tag_of_other_sizes(void **state)
{
    context_t *ctx = fixture_context(state);
    char text[FORMAT_TEXT_MAX];
    format_t tag, other, read, plain = format_plain(4);
    const int64_t sizes[] = {64, 3, 3, 3}, inner[] = {8, 8, 3, 3, 3};
    int64_t elements = 0;
    CHECK_OK(ctx, format_parse(ctx, "aBcde16b", &tag));
    format_t format = format_regroup(4, &tag, inner);
    assert_string_equal(format_text(&format, text), "4:aBcde16b(8,8,3,3,3)");
    CHECK_OK(ctx, format_parse(ctx, text, &read));
    assert_true(format_same(&format, &read, sizes));
    assert_int_equal(format_hash(&format, sizes, 1), format_hash(&read, sizes, 1));
    assert_true(format_elements(&format, sizes, &elements));
    assert_int_equal(elements, 8 * 16 * 27);
    assert_true(format_is_blocked(&format));
    assert_false(format_same(&format, &plain, sizes));
    CHECK_OK(ctx, format_parse(ctx, "4:aBcde16b(8,8,3,3,4)", &other));
    assert_false(format_same(&format, &other, sizes));
    assert_false(format_elements(&other, sizes, &elements));
    read = format_inner(&format);
    assert_true(format_same(&read, &tag, inner));
    CHECK_FAILS(ctx, format_parse(ctx, "4:aBcde16b(8,8,3,3)", &other), STATUS_INVALID_ARGUMENT,
                "5 sizes are needed");
    CHECK_FAILS(ctx, format_parse(ctx, "4:aBcde16b(8,8,3,3,3", &other), STATUS_INVALID_ARGUMENT,
                ") is missing");
    CHECK_FAILS(ctx, format_parse(ctx, "x:aB16b", &other), STATUS_INVALID_ARGUMENT,
                "a rank up to 12 and :");
    CHECK_FAILS(ctx, format_parse(ctx, "aBcd16b(1,1,1,1)", &other), STATUS_INVALID_ARGUMENT,
                "unexpected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(formats_print_as_they_were_written),
        TEST(the_longest_formats_have_room_for_their_text),
        TEST(a_tag_becomes_order_and_blocks),
        TEST(malformed_texts_are_refused_with_the_rule),
        TEST(any_bytes_are_parsed_or_refused),
        cmocka_unit_test(usual_formats_have_their_tags),
        TEST(every_padded_element_has_a_place_of_its_own),
        TEST(known_offsets_are_where_onednn_documents_them),
        TEST(strides_are_the_steps_from_block_to_block),
        TEST(elements_lie_where_onednn_puts_them_for_every_tag_it_has),
        TEST(elements_that_do_not_fit_are_no_number),
        cmocka_unit_test(strides_without_gaps_become_a_tag),
        cmocka_unit_test(sizes_of_one_give_the_usual_order_where_it_has_the_same_bytes),
        cmocka_unit_test(empty_tensors_are_plain),
        cmocka_unit_test(gaps_and_overlaps_keep_their_strides),
        TEST(permuted_tensors_become_tags_with_the_same_bytes),
        TEST(equality_is_that_of_every_element),
        TEST(equality_holds_for_random_formats),
        TEST(opaque_formats_are_the_same_word_for_word),
        TEST(known_pairs_need_no_reorder),
        TEST(a_regrouped_format_is_the_tag_of_other_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
