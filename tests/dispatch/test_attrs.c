#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dispatch/attrs.h"
#include "tests/support/support.h"

typedef struct sample {
    bool ceil_mode;
    int64_t stride[2], padding[2];
    int64_t groups, axis, end;
    double epsilon, slope;
    dtype_t dtype;
    int mode;
    ints_t dims;
    post_ops_t post;
} sample_t;

static const char *const modes[] = {"zeros", "border", "a\"b\\\n\xC3\xA9", NULL};
#define FIELD(member) .name = #member, .offset = offsetof(sample_t, member)
static const attr_field_t fields[] = {
    {FIELD(ceil_mode), .kind = ATTR_BOOL},
    {FIELD(stride), .kind = ATTR_ARRAY, .length = 2, .zero_is_default = true, .initial = 1},
    {FIELD(padding), .kind = ATTR_ARRAY, .length = 2},
    {FIELD(groups), .kind = ATTR_INT, .zero_is_default = true, .initial = 1},
    {FIELD(axis), .kind = ATTR_INT, .initial = -1},
    {FIELD(end), .kind = ATTR_INT, .initial = 0x1p63},
    {FIELD(epsilon), .kind = ATTR_FLOAT, .zero_is_default = true, .initial = 1e-5},
    {FIELD(slope), .kind = ATTR_FLOAT, .initial = 0.01},
    {FIELD(dtype), .kind = ATTR_DTYPE, .initial = DTYPE_F32},
    {FIELD(mode), .kind = ATTR_NAME, .names = modes},
    {FIELD(dims), .kind = ATTR_INTS},
    {FIELD(post), .kind = ATTR_POST},
};
static const attr_table_t table = {sizeof(sample_t), sizeof fields / sizeof *fields, fields};
static const attr_table_t no_table = {0, 0, NULL};

/* The context of the running test. */
static context_t *ctx;

static int setup(void **state)
{
    int failed = fixture_setup(state);
    ctx = failed ? NULL : fixture_context(state);
    return failed;
}

static sample_t defaults(void)
{
    sample_t sample;
    attrs_init(&table, &sample);
    return sample;
}

/* Parses every attribute in the text into defaults. */
static sample_t parsed(const char *text)
{
    sample_t sample = defaults();
    while (*text != '\0')
        if (attrs_parse(ctx, "op", &table, &text, &sample)) fail_msg("%s", context_error(ctx));
    return sample;
}

static void assert_prints(const sample_t *sample, const char *want)
{
    text_t text = text_begin(ctx);
    attrs_print(&table, sample, &text);
    assert_int_equal(text_status(&text), STATUS_OK);
    assert_string_equal(text_string(&text), want);
    text_clear(&text);
}

/* Checks that an attribute is rejected with this message and changes nothing. */
static void assert_refused(const char *given, const char *message)
{
    sample_t sample, before;
    memset(&sample, 0x55, sizeof sample);
    memcpy(&before, &sample, sizeof sample);
    const char *cursor = given;
    status_t status = attrs_parse(ctx, "conv2d", &table, &cursor, &sample);
    if (status != STATUS_INVALID_ARGUMENT) fail_msg("%s is accepted", given);
    assert_string_equal(context_error(ctx), message);
    assert_ptr_equal(cursor, given);
    assert_memory_equal(&sample, &before, sizeof sample);
}

static void an_initialised_struct_has_the_defaults(void **state)
{
    (void)state;
    sample_t sample = defaults();
    assert_false(sample.ceil_mode);
    assert_int_equal(sample.stride[0], 1);
    assert_int_equal(sample.stride[1], 1);
    assert_int_equal(sample.padding[0], 0);
    assert_int_equal(sample.axis, -1);
    assert_true(sample.end == INT64_MAX);
    assert_true(sample.epsilon == 1e-5 && sample.slope == 0.01);
    assert_int_equal(sample.dtype, DTYPE_F32);
    assert_int_equal(sample.mode, 0);
    assert_int_equal(sample.dims.n, 0);
    assert_int_equal(sample.post.n, 0);
}

static void normalizing_nothing_gives_the_defaults(void **state)
{
    (void)state;
    sample_t want = defaults(), got;
    memset(&got, 0x55, sizeof got);
    attrs_normalize(&table, NULL, &got);
    assert_true(attrs_equal(&table, &got, &want));
    attrs_normalize(&no_table, NULL, NULL);
    attrs_init(&no_table, NULL);
}

static void normalizing_replaces_zeros_only_where_they_stand_for_the_default(void **state)
{
    (void)state;
    sample_t given = {.stride = {0, 2}, .axis = 0, .slope = 0, .epsilon = -0.0}, got;
    attrs_normalize(&table, &given, &got);
    assert_int_equal(got.stride[0], 1);
    assert_int_equal(got.stride[1], 2);
    assert_int_equal(got.groups, 1);
    assert_true(got.epsilon == 1e-5);
    assert_int_equal(got.axis, 0);
    assert_true(got.slope == 0);
    assert_int_equal(got.dtype, DTYPE_NONE);
    sample_t again;
    attrs_normalize(&table, &got, &again);
    assert_memory_equal(&again, &got, sizeof got);
}

/* a and b differ only in unused bytes: between fields, after a list's end, after the last
 * post-op. */
static void equal_attributes_have_equal_bytes_after_normalising(void **state)
{
    (void)state;
    sample_t a, b, a_normal, b_normal;
    const attr_field_t *field = table.fields;
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xff, sizeof b);
    for (int f = 0; f < table.n_fields; f++, field++) {
        int n_bytes = field->kind == ATTR_BOOL                                ? 1
                      : field->kind == ATTR_DTYPE || field->kind == ATTR_NAME ? 4
                      : field->kind == ATTR_ARRAY                             ? 8 * field->length
                      : field->kind == ATTR_FORMAT ? (int)sizeof(format_t)
                                                   : 8;
        memset((char *)&b + field->offset, 0, (size_t)n_bytes);
    }
    a.dims.n = b.dims.n = 1;
    a.dims.values[0] = b.dims.values[0] = 7;
    a.post.n = b.post.n = 1;
    a.post.op[0] = b.post.op[0] = (post_op_t){.kind = POST_SUM};
    attrs_normalize(&table, &a, &a_normal);
    attrs_normalize(&table, &b, &b_normal);
    assert_memory_equal(&a_normal, &b_normal, sizeof a_normal);
}

/* Each change is applied alone. */
static const char *const changes[] = {"ceil_mode=true",
                                      "stride=[2,1]",
                                      "stride=[1,2]",
                                      "padding=[0,1]",
                                      "groups=2",
                                      "axis=1",
                                      "end=-1",
                                      "epsilon=0.001",
                                      "slope=0.02",
                                      "dtype=bf16",
                                      "dtype=none",
                                      "mode=\"border\"",
                                      "dims=[0]",
                                      "dims=[0,0]",
                                      "dims=[1]",
                                      "post=[\"sum\"]",
                                      "post=[\"add\"]",
                                      "post=[\"relu\"]",
                                      "post=[\"clamp(0,6)\"]",
                                      "post=[\"clamp(1,6)\"]",
                                      "post=[\"clamp(0,5)\"]",
                                      "post=[\"relu\",\"sum\"]",
                                      "post=[\"sum\",\"relu\"]"};
#define N_CHANGES (sizeof changes / sizeof *changes)

static void every_attribute_takes_part_in_equality_and_hash(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CHANGES; i++) {
        for (size_t j = 0; j < N_CHANGES; j++) {
            sample_t a = parsed(changes[i]), b = parsed(changes[j]);
            bool is_same_hash = attrs_hash(&table, &a, 7) == attrs_hash(&table, &b, 7);
            if (attrs_equal(&table, &a, &b) != (i == j) || is_same_hash != (i == j))
                fail_msg("%s and %s", changes[i], changes[j]);
        }
        sample_t changed = parsed(changes[i]), plain = defaults();
        assert_false(attrs_equal(&table, &changed, &plain));
        assert_true(attrs_hash(&table, &changed, 7) != attrs_hash(&table, &changed, 8));
    }
}

static void struct_padding_and_what_lies_behind_a_list_do_not_matter(void **state)
{
    (void)state;
    sample_t a, b;
    memset(&a, 0x00, sizeof a);
    memset(&b, 0xFF, sizeof b);
    sample_t *both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        both[i]->ceil_mode = true;
        both[i]->stride[0] = both[i]->stride[1] = 2;
        both[i]->padding[0] = both[i]->padding[1] = 0;
        both[i]->groups = both[i]->axis = both[i]->end = 3;
        both[i]->epsilon = both[i]->slope = 0.5;
        both[i]->dtype = DTYPE_S8;
        both[i]->mode = 1;
        both[i]->dims.n = 1;
        both[i]->dims.values[0] = 4;
        both[i]->post.n = 2;
        both[i]->post.op[0].kind = POST_SUM;
        both[i]->post.op[1].kind = POST_ELTWISE;
        both[i]->post.op[1].eltwise = ELTWISE_RELU;
    }
    assert_true(attrs_equal(&table, &a, &b));
    assert_true(attrs_hash(&table, &a, 1) == attrs_hash(&table, &b, 1));
}

static void minus_zero_equals_zero_and_nan_equals_itself(void **state)
{
    (void)state;
    sample_t a = defaults(), b = defaults();
    a.slope = 0.0, b.slope = -0.0;
    assert_true(attrs_equal(&table, &a, &b));
    assert_true(attrs_hash(&table, &a, 1) == attrs_hash(&table, &b, 1));
    a.slope = NAN, b.slope = NAN;
    assert_true(attrs_equal(&table, &a, &b));
    assert_true(attrs_hash(&table, &a, 1) == attrs_hash(&table, &b, 1));
    a.slope = 0.0, b.slope = DBL_TRUE_MIN;
    assert_false(attrs_equal(&table, &a, &b));
}

static void zeros_that_stand_for_the_default_equal_it(void **state)
{
    (void)state;
    sample_t a = defaults(), b = defaults();
    b.stride[0] = b.stride[1] = b.groups = 0;
    b.epsilon = 0;
    assert_true(attrs_equal(&table, &a, &b));
    assert_true(attrs_hash(&table, &a, 1) == attrs_hash(&table, &b, 1));
    assert_prints(&b, "");
}

static void post_ops_take_as_many_operands_as_there_are_sums_adds_and_muls(void **state)
{
    (void)state;
    assert_int_equal(post_operands(&(post_ops_t){0}), 0);
    sample_t sample = parsed("post=[\"sum\",\"relu\",\"mul\",\"add\"]");
    assert_int_equal(post_operands(&sample.post), 3);
}

static void printing_omits_defaults_and_puts_a_space_before_the_rest(void **state)
{
    (void)state;
    sample_t sample = defaults();
    assert_prints(&sample, "");
    sample.padding[0] = sample.padding[1] = 1;
    sample.groups = 32;
    assert_prints(&sample, " padding=[1,1] groups=32");
}

static void printing_gives_every_kind_its_literal(void **state)
{
    (void)state;
    sample_t sample = defaults();
    sample.ceil_mode = true;
    sample.end = INT64_MIN;
    sample.slope = -INFINITY;
    sample.dtype = DTYPE_BF16;
    sample.mode = 1;
    sample.dims = ATTRS_INTS(2, -3);
    sample.post.n = 4;
    sample.post.op[0].kind = POST_SUM;
    sample.post.op[1] = (post_op_t){POST_ELTWISE, ELTWISE_RELU, 0, 0};
    sample.post.op[2] = (post_op_t){POST_ELTWISE, ELTWISE_CLAMP, 0, 6};
    sample.post.op[3] = (post_op_t){POST_ELTWISE, ELTWISE_LEAKY_RELU, 0.25, 0};
    assert_prints(&sample, " ceil_mode=true end=-9223372036854775808 slope=-inf dtype=bf16"
                           " mode=\"border\" dims=[2,-3]"
                           " post=[\"sum\",\"relu\",\"clamp(0,6)\",\"leaky_relu(0.25)\"]");
}

static void structs_out_of_bounds_print_without_reading_there(void **state)
{
    (void)state;
    sample_t sample = defaults();
    sample.mode = 77;
    sample.dims.n = -1;
    sample.post.n = 1 << 30;
    for (int i = 0; i < POST_MAX; i++) sample.post.op[i].kind = (post_kind_t)99;
    assert_prints(&sample, " mode=\"?\" dims=[] post=[\"?\",\"?\",\"?\",\"?\"]");
    sample_t fits = sample;
    fits.dims.n = 0;
    assert_false(attrs_equal(&table, &sample, &fits));
    sample.dims.n = INT32_MAX;
    attrs_hash(&table, &sample, 0);
    assert_int_equal(post_operands(&sample.post), POST_MAX);
}

static void assert_reads_back(const sample_t *sample)
{
    text_t text = text_begin(ctx);
    attrs_print(&table, sample, &text);
    sample_t back = parsed(text_string(&text));
    if (!attrs_equal(&table, sample, &back)) fail_msg("%s", text_string(&text));
    assert_prints(&back, text_string(&text));
    text_clear(&text);
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CHANGES; i++) {
        sample_t sample = parsed(changes[i]);
        assert_reads_back(&sample);
    }
    const double numbers[] = {
        0.0,     -0.0,    1.0,          0.1,      -1e300, 1e15, 123456789012345678.0,
        DBL_MIN, DBL_MAX, DBL_TRUE_MIN, INFINITY, NAN,    -2,   1.0 / 3};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        sample_t sample = defaults();
        sample.slope = numbers[i];
        sample.post.n = 1;
        sample.post.op[0] = (post_op_t){POST_ELTWISE, ELTWISE_LINEAR, numbers[i], -numbers[i]};
        if (isnan(numbers[i])) sample.post.op[0].beta = 0;
        assert_reads_back(&sample);
    }
    for (int mode = 0; mode < 3; mode++) {
        sample_t sample = defaults();
        sample.mode = mode;
        assert_reads_back(&sample);
    }
}

static void reading_skips_blanks_and_stops_behind_the_literal(void **state)
{
    (void)state;
    const char *text = " \tpadding = [ 1 ,\t-2 ] : f32[1] at \"conv\"";
    sample_t sample = defaults();
    assert_int_equal(attrs_parse(ctx, "op", &table, &text, &sample), STATUS_OK);
    assert_string_equal(text, " : f32[1] at \"conv\"");
    assert_int_equal(sample.padding[0], 1);
    assert_int_equal(sample.padding[1], -2);
    text = "groups=2: f32[1]";
    assert_int_equal(attrs_parse(ctx, "op", &table, &text, &sample), STATUS_OK);
    assert_string_equal(text, ": f32[1]");
}

static void reading_takes_every_kind(void **state)
{
    (void)state;
    sample_t sample = parsed("ceil_mode=true end=9223372036854775807 slope=-2.5e-1 epsilon=3 "
                             "dtype=s64 mode=\"border\" dims=[1,2,3,4,5,6,7,8,9,10,11,12]");
    assert_true(sample.ceil_mode);
    assert_true(sample.end == INT64_MAX);
    assert_true(sample.slope == -0.25 && sample.epsilon == 3);
    assert_int_equal(sample.dtype, DTYPE_S64);
    assert_int_equal(sample.mode, 1);
    assert_int_equal(sample.dims.n, 12);
    assert_int_equal(sample.dims.values[11], 12);
    sample = parsed("end=-9223372036854775808 dims=[] post=[]");
    assert_true(sample.end == INT64_MIN);
    assert_int_equal(sample.dims.n, 0);
}

static void reading_takes_post_ops_in_order(void **state)
{
    (void)state;
    sample_t sample = parsed("post=[\"sum\", \"relu\", \"clamp(0, 6.5)\", \"add\"]");
    assert_int_equal(sample.post.n, 4);
    assert_int_equal(sample.post.op[0].kind, POST_SUM);
    assert_int_equal(sample.post.op[1].kind, POST_ELTWISE);
    assert_int_equal(sample.post.op[1].eltwise, ELTWISE_RELU);
    assert_int_equal(sample.post.op[2].eltwise, ELTWISE_CLAMP);
    assert_true(sample.post.op[2].alpha == 0 && sample.post.op[2].beta == 6.5);
    assert_int_equal(sample.post.op[3].kind, POST_ADD);
}

static void strings_have_the_escapes_of_json(void **state)
{
    (void)state;
    assert_int_equal(parsed("mode=\"\\u0062ord\\u0065r\"").mode, 1);
    assert_int_equal(parsed("mode=\"a\\\"b\\\\\\n\\u00E9\"").mode, 2);
    static const char *const many[] = {"/\b\f\r\t", "\xF0\x9F\x98\x80", "\xE2\x82\xAC", NULL};
    const attr_field_t field = {FIELD(mode), .kind = ATTR_NAME, .names = many};
    const attr_table_t one = {sizeof(sample_t), 1, &field};
    const char *const given[] = {"mode=\"\\/\\b\\f\\r\\t\"", "mode=\"\\ud83d\\uDE00\"",
                                 "mode=\"\\u20ac\""};
    for (int i = 0; i < 3; i++) {
        sample_t sample = {.mode = -1};
        const char *cursor = given[i];
        assert_int_equal(attrs_parse(ctx, "op", &one, &cursor, &sample), STATUS_OK);
        assert_int_equal(sample.mode, i);
    }
}

/* A careless parser would decode the strings below to one of these choices, and accept them. */
static void strings_that_are_no_json_are_refused(void **state)
{
    (void)state;
    static const char *const sloppy[] = {
        "border", "\xF0\x91\xA1\x81", "\xED\xB0\x80", "\xF4\x90\x80\x80", "x", "a\tb", NULL};
    const attr_field_t field = {FIELD(mode), .kind = ATTR_NAME, .names = sloppy};
    const attr_table_t one = {sizeof(sample_t), 1, &field};
    const char *const given[] = {"mode=\"border\\u0000x\"",
                                 "mode=\"\\ud83d\\u0041\"",
                                 "mode=\"\\udc00\"",
                                 "mode=\"\\udc00\\udc00\"",
                                 "mode=\"\\x\"",
                                 "mode=\"a\tb\"",
                                 "mode=\"border",
                                 "mode=border",
                                 "mode=\"border\"x"};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        sample_t sample = {.mode = -1};
        const char *cursor = given[i];
        status_t status = attrs_parse(ctx, "op", &one, &cursor, &sample);
        if (status != STATUS_INVALID_ARGUMENT) fail_msg("%s is accepted", given[i]);
        assert_int_equal(sample.mode, -1);
    }
}

static void an_unknown_attribute_is_named_with_those_there_are(void **state)
{
    (void)state;
    assert_refused("paddin=[1,1]",
                   "conv2d: attribute \"paddin\" is unknown, the operator has ceil_mode, "
                   "stride, padding, groups, axis, end, epsilon, slope, dtype, "
                   "mode, dims, post");
    const char *cursor = "x=1";
    assert_int_equal(attrs_parse(ctx, "relu", &no_table, &cursor, NULL), STATUS_INVALID_ARGUMENT);
    assert_string_equal(context_error(ctx),
                        "relu: attribute \"x\" is unknown, the operator has none");
}

static void text_that_is_no_attribute_is_refused(void **state)
{
    (void)state;
    assert_refused("", "conv2d: \"\" is not an attribute, name=literal is needed");
    assert_refused("=3", "conv2d: \"=3\" is not an attribute, name=literal is needed");
    assert_refused("groups", "conv2d: attribute \"groups\" has no value, name=literal is needed");
    assert_refused("groups 2", "conv2d: attribute \"groups\" has no value, name=literal is needed");
}

static void a_literal_of_another_kind_is_named_with_what_is_needed(void **state)
{
    (void)state;
    assert_refused("padding=[1]", "conv2d: padding=[1], 2 integers are needed");
    assert_refused("padding=1", "conv2d: padding=1, 2 integers are needed");
    assert_refused("padding=[1,2,3]", "conv2d: padding=[1,2,3], 2 integers are needed");
    assert_refused("padding=[1,2.5]", "conv2d: padding=[1,2.5], 2 integers are needed");
    assert_refused("padding=[1 2]", "conv2d: padding=[1 2], 2 integers are needed");
    assert_refused("padding=[1,2,]", "conv2d: padding=[1,2,], 2 integers are needed");
    assert_refused("padding=[1,2][3]", "conv2d: padding=[1,2][3], 2 integers are needed");
    assert_refused("groups=1.5", "conv2d: groups=1.5, an integer is needed");
    assert_refused("groups=2x", "conv2d: groups=2x, an integer is needed");
    assert_refused("groups=-", "conv2d: groups=-, an integer is needed");
    assert_refused("ceil_mode=1", "conv2d: ceil_mode=1, true or false is needed");
    assert_refused("ceil_mode=truer", "conv2d: ceil_mode=truer, true or false is needed");
    assert_refused("slope=0x1p3", "conv2d: slope=0x1p3, a number is needed");
    assert_refused("slope=.5", "conv2d: slope=.5, a number is needed");
    assert_refused("slope=1e", "conv2d: slope=1e, a number is needed");
    assert_refused("slope=infinity", "conv2d: slope=infinity, a number is needed");
    assert_refused("dtype=f31", "conv2d: dtype=f31, a dtype such as f32 is needed");
    assert_refused("dtype=\"f32\"", "conv2d: dtype=\"f32\", a dtype such as f32 is needed");
    assert_refused("dims=3", "conv2d: dims=3, a list of at most 12 integers is needed");
    assert_refused("post=\"sum\"", "conv2d: post=\"sum\", a list of at most 4 post-ops is needed");
}

static void a_name_that_is_none_of_the_choices_is_refused_with_them(void **state)
{
    (void)state;
    const char *cursor = "mode=\"zero\"";
    static const char *const few[] = {"zeros", "border", NULL};
    const attr_field_t field = {FIELD(mode), .kind = ATTR_NAME, .names = few};
    const attr_table_t one = {sizeof(sample_t), 1, &field};
    sample_t sample = {.mode = -1};
    assert_int_equal(attrs_parse(ctx, "pad", &one, &cursor, &sample), STATUS_INVALID_ARGUMENT);
    assert_string_equal(context_error(ctx),
                        "pad: mode=\"zero\", one of \"zeros\", \"border\" is needed");
    assert_int_equal(sample.mode, -1);
}

static void numbers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    assert_refused("end=9223372036854775808",
                   "conv2d: end=9223372036854775808, a number does not fit in 64 bits");
    assert_refused("end=-9223372036854775809",
                   "conv2d: end=-9223372036854775809, a number does not fit in 64 bits");
    assert_refused("padding=[1,99999999999999999999]",
                   "conv2d: padding=[1,99999999999999999999], a number does not fit in 64 bits");
    assert_refused("slope=1e999", "conv2d: slope=1e999, a number does not fit in 64 bits");
    char given[300] = "slope=0.", want[300] = "conv2d: slope=0.";
    for (int i = 0; i < 200; i++) strcat(given, "1");
    for (int i = 0; i < 78; i++) strcat(want, "1");
    assert_refused(given, strcat(want, "..., a number does not fit in 64 bits"));
}

static void zero_is_refused_where_it_is_no_legal_value(void **state)
{
    (void)state;
    assert_refused("groups=0", "conv2d: groups=0, zero is not a legal value");
    assert_refused("stride=[1,0]", "conv2d: stride=[1,0], zero is not a legal value");
    assert_refused("epsilon=-0.0", "conv2d: epsilon=-0.0, zero is not a legal value");
}

static void wrong_post_ops_are_refused_by_name(void **state)
{
    (void)state;
    assert_refused("post=[\"rel\"]", "conv2d: post=[\"rel\"], \"rel\" is not a post-op");
    assert_refused("post=[\"none\"]", "conv2d: post=[\"none\"], \"none\" is not a post-op");
    assert_refused("post=[\"\"]", "conv2d: post=[\"\"], \"\" is not a post-op");
    assert_refused("post=[\"clamp\"]", "conv2d: post=[\"clamp\"], \"clamp\" takes 2 numbers");
    assert_refused("post=[\"clamp(0,6\"]",
                   "conv2d: post=[\"clamp(0,6\"], \"clamp\" takes 2 numbers");
    assert_refused("post=[\"clamp(0,6,7)\"]",
                   "conv2d: post=[\"clamp(0,6,7)\"], \"clamp\" takes 2 numbers");
    assert_refused("post=[\"elu(x)\"]", "conv2d: post=[\"elu(x)\"], \"elu\" takes 1 number");
    assert_refused("post=[\"relu()\"]", "conv2d: post=[\"relu()\"], \"relu\" takes 0 numbers");
    assert_refused("post=[\"sum(1)\"]", "conv2d: post=[\"sum(1)\"], \"sum\" takes 0 numbers");
    assert_refused("post=[\"sum\",\"sum\",\"sum\",\"sum\",\"sum\"]",
                   "conv2d: post=[\"sum\",\"sum\",\"sum\",\"sum\",\"sum\"], "
                   "a list of at most 4 post-ops is needed");
}

static void a_long_literal_is_cut_between_characters_in_its_message(void **state)
{
    (void)state;
    char given[400] = "mode=\"";
    for (int i = 0; i < 100; i++) strcat(given, "\xC3\xA9");
    strcat(given, "\"");
    sample_t sample = defaults();
    const char *cursor = given;
    assert_int_equal(attrs_parse(ctx, "op", &table, &cursor, &sample), STATUS_INVALID_ARGUMENT);
    char want[200] = "op: mode=\"";
    for (int i = 0; i < 39; i++) strcat(want, "\xC3\xA9");
    strcat(want, "..., one of ");
    assert_memory_equal(context_error(ctx), want, strlen(want));
}

/* Copies the text to a block of its exact length, so that sanitizers detect reads beyond it. */
static status_t parse_exact(const char *text, size_t length, sample_t *sample, size_t *out_used)
{
    char *block = malloc(length + 1);
    assert_non_null(block);
    memcpy(block, text, length);
    block[length] = '\0';
    const char *cursor = block;
    status_t status = attrs_parse(ctx, "op", &table, &cursor, sample);
    *out_used = (size_t)(cursor - block);
    free(block);
    return status;
}

static const char *const seeds[] = {"padding=[1,-2]",
                                    "post=[\"sum\",\"clamp(0,6)\",\"elu(-1e-5)\"]",
                                    "mode=\"a\\\"b\\\\\\n\\u00e9\"",
                                    "slope=-12.5e-03",
                                    "dims=[1,2,3,4,5,6,7,8,9,10,11,12]",
                                    "dtype=bf16",
                                    "ceil_mode=false",
                                    "end=-9223372036854775808",
                                    "mode=\"\\ud83d\\ude00\""};
#define N_SEEDS (sizeof seeds / sizeof *seeds)

static void truncated_text_is_refused_or_read_to_its_end(void **state)
{
    (void)state;
    for (size_t s = 0; s < N_SEEDS; s++)
        for (size_t length = 0; length < strlen(seeds[s]); length++) {
            sample_t sample = defaults();
            size_t used;
            status_t status = parse_exact(seeds[s], length, &sample, &used);
            assert_int_equal(used, status == STATUS_OK ? length : 0);
            assert_true(status == STATUS_OK || status == STATUS_INVALID_ARGUMENT);
        }
}

static void deep_and_long_text_is_refused(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    char *text = malloc(LENGTH);
    assert_non_null(text);
    const char *const begins[] = {"dims=",   "dims=[", "dims=[1",  "post=[\"", "post=[\"clamp(0",
                                  "mode=\"", "end=",   "slope=0.", "dtype=",   "x"};
    const char fills[] = "[1,\"\\a(0.";
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++)
        for (size_t f = 0; f < sizeof fills - 1; f++) {
            memset(text, fills[f], LENGTH);
            memcpy(text, begins[b], strlen(begins[b]));
            sample_t sample = defaults();
            size_t used;
            status_t status = parse_exact(text, LENGTH, &sample, &used);
            assert_true(status == STATUS_INVALID_ARGUMENT || used <= LENGTH);
        }
    free(text);
}

/* Mutations of valid text: rejected, or parsed to something that prints and parses again.
 * TEST_ATTRS_MUTATIONS sets their number. */
static void mutated_text_is_refused_or_reads_back(void **state)
{
    (void)state;
    const char *value = getenv("TEST_ATTRS_MUTATIONS");
    int64_t n = value ? strtoll(value, NULL, 10) : 20000;
    uint64_t random = 88172645463325252u;
    int64_t n_accepted = 0;
    for (int64_t i = 0; i < n; i++) {
        char text[256];
        size_t length = strlen(strcpy(text, seeds[i % (int64_t)N_SEEDS]));
        for (int m = 0; m < 1 + i % 4; m++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            const char bytes[] = "[]\",\\u0123456789()-.einfanstrue \n\x80\xC3";
            char byte = bytes[random >> 8 & 31];
            text[random % length] = (random >> 40 & 7) ? byte : (char)(random >> 48);
        }
        sample_t sample = defaults();
        size_t used;
        status_t status = parse_exact(text, strlen(text), &sample, &used);
        if (status == STATUS_OK) assert_reads_back(&sample);
        assert_true(status == STATUS_OK || status == STATUS_INVALID_ARGUMENT);
        n_accepted += status == STATUS_OK;
    }
    assert_true(n_accepted > n / 100 && n_accepted < n);
}

static status_t print_much(context_t *context)
{
    sample_t sample = defaults();
    sample.dims = ATTRS_INTS(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, INT64_MIN);
    sample.mode = 2;
    sample.slope = 0.1;
    sample.post.n = POST_MAX;
    for (int i = 0; i < POST_MAX; i++)
        sample.post.op[i] = (post_op_t){POST_ELTWISE, ELTWISE_HARDSIGMOID, 0.1, DBL_MAX};
    text_t text = text_begin(context);
    attrs_print(&table, &sample, &text);
    status_t status = text_status(&text);
    text_clear(&text);
    return status;
}

static void refused_memory_is_reported_by_the_text(void **state)
{
    (void)state;
    check_every_allocation(print_much);
}

static void the_first_number_stands_for_the_zeros_behind_it(void **state)
{
    (void)state;
    sample_t sample = defaults();
    sample.stride[0] = 3;
    sample.stride[1] = 0;
    sample.padding[0] = 2;
    sample_t normal;
    attrs_normalize(&table, &sample, &normal);
    assert_int_equal(normal.stride[1], 3);
    assert_int_equal(normal.padding[1], 0);
    assert_prints(&normal, " stride=[3,3] padding=[2,0]");
    sample = normal;
    sample.stride[0] = 0;
    attrs_normalize(&table, &sample, &normal);
    assert_int_equal(normal.stride[0], 1);
    assert_int_equal(normal.stride[1], 3);
}

static void values_that_no_attribute_has_are_named(void **state)
{
    (void)state;
    sample_t sample = defaults();
    CHECK_OK(ctx, attrs_check(ctx, "op", &table, &sample));
    sample.mode = 3;
    CHECK_FAILS(ctx, attrs_check(ctx, "op", &table, &sample), STATUS_INVALID_ARGUMENT,
                "op: mode is 3, must be 0 to 2");
    sample = defaults();
    sample.dims.n = TENSOR_MAX_RANK + 1;
    CHECK_FAILS(ctx, attrs_check(ctx, "op", &table, &sample), STATUS_INVALID_ARGUMENT,
                "op: dims has 13 numbers, must be 0 to 12");
    sample = defaults();
    sample.post = (post_ops_t){.n = 1, .op = {{.kind = (post_kind_t)40}}};
    CHECK_FAILS(ctx, attrs_check(ctx, "op", &table, &sample), STATUS_INVALID_ARGUMENT,
                "op: post-op 0 is of kind 40");
}

#define IN_FIXTURE(test) cmocka_unit_test_setup_teardown(test, setup, fixture_teardown)

static void lists_of_numbers_are_read_printed_and_compared(void **state)
{
    (void)state;
    static const attr_field_t field = {"scales", ATTR_FLOATS, false, 0, 0, 0, NULL};
    static const attr_table_t floats_table = {sizeof(floats_t), 1, &field};
    floats_t floats, same = {.n = 2, .values = {1.5, -0.25, 7}};
    const char *text = "scales=[1.5, -0.25]", *wrong = "scales=[1,x]", *none = "scales=3";
    attrs_init(&floats_table, &floats);
    assert_int_equal(floats.n, 0);
    CHECK_OK(ctx, attrs_parse(ctx, "resize", &floats_table, &text, &floats));
    assert_string_equal(text, "");
    assert_true(floats.n == 2 && floats.values[0] == 1.5 && floats.values[1] == -0.25);
    assert_true(attrs_equal(&floats_table, &floats, &same));
    assert_true(attrs_hash(&floats_table, &floats, 1) == attrs_hash(&floats_table, &same, 1));
    same.values[1] = 0.25;
    assert_false(attrs_equal(&floats_table, &floats, &same));
    text_t printed = text_begin(ctx);
    attrs_print(&floats_table, &floats, &printed);
    assert_string_equal(text_string(&printed), " scales=[1.5,-0.25]");
    text_clear(&printed);
    CHECK_FAILS(ctx, attrs_parse(ctx, "resize", &floats_table, &wrong, &floats),
                STATUS_INVALID_ARGUMENT, "a list of at most 12 numbers is needed");
    CHECK_FAILS(ctx, attrs_parse(ctx, "resize", &floats_table, &none, &floats),
                STATUS_INVALID_ARGUMENT, "a list of at most 12 numbers is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FIXTURE(an_initialised_struct_has_the_defaults),
        IN_FIXTURE(normalizing_nothing_gives_the_defaults),
        IN_FIXTURE(normalizing_replaces_zeros_only_where_they_stand_for_the_default),
        cmocka_unit_test(equal_attributes_have_equal_bytes_after_normalising),
        IN_FIXTURE(every_attribute_takes_part_in_equality_and_hash),
        IN_FIXTURE(struct_padding_and_what_lies_behind_a_list_do_not_matter),
        IN_FIXTURE(minus_zero_equals_zero_and_nan_equals_itself),
        IN_FIXTURE(zeros_that_stand_for_the_default_equal_it),
        IN_FIXTURE(post_ops_take_as_many_operands_as_there_are_sums_adds_and_muls),
        IN_FIXTURE(printing_omits_defaults_and_puts_a_space_before_the_rest),
        IN_FIXTURE(printing_gives_every_kind_its_literal),
        IN_FIXTURE(structs_out_of_bounds_print_without_reading_there),
        IN_FIXTURE(what_is_printed_reads_back),
        IN_FIXTURE(reading_skips_blanks_and_stops_behind_the_literal),
        IN_FIXTURE(reading_takes_every_kind),
        IN_FIXTURE(reading_takes_post_ops_in_order),
        IN_FIXTURE(strings_have_the_escapes_of_json),
        IN_FIXTURE(strings_that_are_no_json_are_refused),
        IN_FIXTURE(an_unknown_attribute_is_named_with_those_there_are),
        IN_FIXTURE(text_that_is_no_attribute_is_refused),
        IN_FIXTURE(a_literal_of_another_kind_is_named_with_what_is_needed),
        IN_FIXTURE(a_name_that_is_none_of_the_choices_is_refused_with_them),
        IN_FIXTURE(numbers_that_do_not_fit_are_refused),
        IN_FIXTURE(zero_is_refused_where_it_is_no_legal_value),
        IN_FIXTURE(wrong_post_ops_are_refused_by_name),
        IN_FIXTURE(a_long_literal_is_cut_between_characters_in_its_message),
        IN_FIXTURE(truncated_text_is_refused_or_read_to_its_end),
        IN_FIXTURE(deep_and_long_text_is_refused),
        IN_FIXTURE(refused_memory_is_reported_by_the_text),
        IN_FIXTURE(the_first_number_stands_for_the_zeros_behind_it),
        IN_FIXTURE(values_that_no_attribute_has_are_named),
        IN_FIXTURE(mutated_text_is_refused_or_reads_back),
        IN_FIXTURE(lists_of_numbers_are_read_printed_and_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
