#include "dispatch/attrs.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tensor/hash_impl.h"
#include "tensor/literal_impl.h"

/* Longest array that is read, and how much of what was given a message shows. */
#define ARRAY_MAX 32
#define SHOWN_MAX 80

/* ---- fields as sequences of elements ---- */

static void *at(const attr_field_t *field, void *attrs)
{
    return (char *)attrs + field->offset;
}

static const void *at_const(const attr_field_t *field, const void *attrs)
{
    return (const char *)attrs + field->offset;
}

/* Zero in a way that flushed denormals do not disturb. */
static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits << 1 == 0 ? 0 : bits;
}

/* The nearest integer type value: a default may be INT64_MAX, which a double rounds up. */
static int64_t integral(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

static int bounded(int n, int max)
{
    return n < 0 ? 0 : n > max ? max : n;
}

static int post_n(const post_ops_t *post)
{
    return post == NULL ? 0 : bounded(post->n, POST_MAX);
}

/* Integers or floats in a field: none in ATTR_POST and ATTR_FORMAT. */
static int n_elements(const attr_field_t *field, const void *attrs)
{
    switch (field->kind) {
    case ATTR_ARRAY: return field->length;
    case ATTR_INTS: return bounded(((const ints_t *)at_const(field, attrs))->n, TENSOR_MAX_RANK);
    case ATTR_FLOATS:
        return bounded(((const floats_t *)at_const(field, attrs))->n, TENSOR_MAX_RANK);
    case ATTR_POST:
    case ATTR_FORMAT: return 0;
    default: return 1;
    }
}

static int64_t load_integer(const attr_field_t *field, const void *attrs, int i)
{
    const void *from = at_const(field, attrs);
    switch (field->kind) {
    case ATTR_BOOL: return *(const unsigned char *)from != 0;
    case ATTR_DTYPE: return (int64_t)((const dtype_t *)from)[0];
    case ATTR_NAME: return *(const int *)from;
    case ATTR_INTS: return ((const ints_t *)from)->values[i];
    default: return ((const int64_t *)from)[i];
    }
}

static void store_integer(const attr_field_t *field, void *attrs, int i, int64_t value)
{
    void *to = at(field, attrs);
    switch (field->kind) {
    case ATTR_BOOL: *(bool *)to = value != 0; return;
    case ATTR_DTYPE: *(dtype_t *)to = (dtype_t)value; return;
    case ATTR_NAME: *(int *)to = (int)value; return;
    case ATTR_INTS: ((ints_t *)to)->values[i] = value; return;
    default: ((int64_t *)to)[i] = value; return;
    }
}

/* The elements with zeros that stand for the default replaced: by the first element of an array
 * where that is given, so stride {2} is {2, 2}, else by the initial value. */
static int64_t integer_at(const attr_field_t *field, const void *attrs, int i)
{
    int64_t value = load_integer(field, attrs, i);
    if (value != 0 || !field->zero_is_default) return value;
    int64_t first = field->kind == ATTR_ARRAY ? load_integer(field, attrs, 0) : 0;
    return first != 0 ? first : integral(field->initial);
}

static double float_at(const attr_field_t *field, const void *attrs, int i)
{
    const void *from = at_const(field, attrs);
    double value = field->kind == ATTR_FLOATS ? ((const floats_t *)from)->values[i]
                                              : *(const double *)from;
    return bits_of(value) == 0 && field->zero_is_default ? field->initial : value;
}

/* ---- fields as sequences of words, of which equality and hash are made ---- */

/* Lists have their length as first word, a post-op is three words; a format is its kind, then
 * dimensions in order or strides, then blocks. */
static int n_words(const attr_field_t *field, const void *attrs)
{
    const format_t *format = at_const(field, attrs);
    if (field->kind == ATTR_FORMAT) return 1 + format->rank + format->n_blocks;
    if (field->kind == ATTR_INTS || field->kind == ATTR_FLOATS) return 1 + n_elements(field, attrs);
    if (field->kind == ATTR_POST) return 1 + 3 * post_n(at_const(field, attrs));
    return n_elements(field, attrs);
}

/* What a post-op does not look at is no part of it. */
static uint64_t post_word(const post_ops_t *post, int i)
{
    if (i == 0) return (uint64_t)post->n;
    const post_op_t *op = &post->op[(i - 1) / 3];
    bool is_eltwise = op->kind == POST_ELTWISE;
    int n_parameters = is_eltwise ? eltwise_parameters(op->eltwise) : 0;
    switch ((i - 1) % 3) {
    case 0: return (uint64_t)op->kind << 32 | (is_eltwise ? (uint64_t)op->eltwise : 0);
    case 1: return n_parameters > 0 ? bits_of(op->alpha) : 0;
    default: return n_parameters > 1 ? bits_of(op->beta) : 0;
    }
}

static uint64_t format_word(const format_t *format, int i)
{
    if (i == 0) return (uint64_t)format->kind | (uint64_t)format->rank << 8;
    if (i > format->rank) {
        int b = i - 1 - format->rank;
        return (uint64_t)format->block_dims[b] << 16 | format->block_sizes[b];
    }
    return format->kind == FORMAT_TAG ? format->order[i - 1] : (uint64_t)format->strides[i - 1];
}

static uint64_t word(const attr_field_t *field, const void *attrs, int i)
{
    switch (field->kind) {
    case ATTR_FORMAT: return format_word(at_const(field, attrs), i);
    case ATTR_FLOAT: return bits_of(float_at(field, attrs, 0));
    case ATTR_FLOATS:
        if (i == 0) return (uint64_t)n_elements(field, attrs);
        return bits_of(float_at(field, attrs, i - 1));
    case ATTR_POST: return post_word(at_const(field, attrs), i);
    case ATTR_INTS:
        if (i == 0) return (uint64_t)((const ints_t *)at_const(field, attrs))->n;
        return (uint64_t)integer_at(field, attrs, i - 1);
    default: return (uint64_t)integer_at(field, attrs, i);
    }
}

static bool is_default(const attr_field_t *field, const void *attrs)
{
    if (field->kind == ATTR_INTS || field->kind == ATTR_FLOATS || field->kind == ATTR_POST ||
        field->kind == ATTR_FORMAT)
        return word(field, attrs, 0) == 0;
    uint64_t initial = field->kind == ATTR_FLOAT ? bits_of(field->initial)
                                                 : (uint64_t)integral(field->initial);
    for (int i = 0; i < n_words(field, attrs); i++)
        if (word(field, attrs, i) != initial) return false;
    return true;
}

const post_ops_t *attrs_post(const attr_table_t *table, const void *attrs)
{
    for (int f = 0; f < table->n_fields && attrs != NULL; f++)
        if (table->fields[f].kind == ATTR_POST) return at_const(&table->fields[f], attrs);
    return NULL;
}

void attrs_init(const attr_table_t *table, void *out_attrs)
{
    if (table->bytes == 0) return;
    memset(out_attrs, 0, table->bytes);
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (field->kind == ATTR_FLOAT)
            *(double *)at(field, out_attrs) = field->initial;
        else
            for (int i = 0; i < n_elements(field, out_attrs); i++)
                store_integer(field, out_attrs, i, integral(field->initial));
    }
}

/* The meaningful part of a list: its length as given, and the values that there is room for. */
static void copy_list(const void *from, void *to, int n, size_t values_at, size_t value_bytes)
{
    memcpy(to, from, sizeof(int));
    memcpy((char *)to + values_at, (const char *)from + values_at,
           (size_t)bounded(n, TENSOR_MAX_RANK) * value_bytes);
}

static void copy_post(const post_ops_t *from, post_ops_t *to)
{
    to->n = from->n;
    for (int i = 0; i < post_n(from); i++) {
        to->op[i].kind = from->op[i].kind;
        to->op[i].eltwise = from->op[i].eltwise;
        to->op[i].alpha = from->op[i].alpha;
        to->op[i].beta = from->op[i].beta;
    }
}

/* As integer_at, for all of an array: eager calls do this each time. */
static void copy_array(const attr_field_t *field, const int64_t *from, int64_t *to)
{
    int64_t instead = field->zero_is_default && from[0] == 0 ? integral(field->initial) : from[0];
    for (int i = 0; i < field->length; i++)
        to[i] = from[i] == 0 && field->zero_is_default ? instead : from[i];
}

/* Writes what a field means and nothing else, so that equal attributes have equal bytes. */
static void copy_field(const attr_field_t *field, const void *attrs, void *out_attrs)
{
    const void *from = at_const(field, attrs);
    void *to = at(field, out_attrs);
    switch (field->kind) {
    case ATTR_FLOAT: *(double *)to = float_at(field, attrs, 0); return;
    case ATTR_ARRAY: copy_array(field, from, to); return;
    case ATTR_INTS:
        copy_list(from, to, *(const int *)from, offsetof(ints_t, values), sizeof(int64_t));
        return;
    case ATTR_FLOATS:
        copy_list(from, to, *(const int *)from, offsetof(floats_t, values), sizeof(double));
        return;
    case ATTR_POST: copy_post(from, to); return;
    case ATTR_FORMAT: *(format_t *)to = *(const format_t *)from; return;
    default:
        for (int i = 0; i < n_elements(field, attrs); i++)
            store_integer(field, out_attrs, i, integer_at(field, attrs, i));
    }
}

void attrs_normalize(const attr_table_t *table, const void *attrs, void *out_attrs)
{
    if (table->bytes == 0) return;
    if (attrs == NULL) {
        attrs_init(table, out_attrs);
        return;
    }
    INVARIANT(attrs != out_attrs);
    memset(out_attrs, 0, table->bytes);
    for (int f = 0; f < table->n_fields; f++) copy_field(&table->fields[f], attrs, out_attrs);
}

static status_t check_name(context_t *ctx, const char *op, const attr_field_t *field, int64_t value)
{
    int n = 0;
    while (field->names[n] != NULL) n++;
    REQUIRE(ctx, value >= 0 && value < n, "%s: %s is %lld, must be 0 to %d (%s to %s)", op,
            field->name, (long long)value, n - 1, field->names[0], field->names[n - 1]);
    return STATUS_OK;
}

static status_t check_post(context_t *ctx, const char *op, const post_ops_t *post)
{
    REQUIRE(ctx, post->n >= 0 && post->n <= POST_MAX, "%s: %d post-ops, must be 0 to %d", op,
            post->n, POST_MAX);
    for (int i = 0; i < post->n; i++) {
        const post_op_t *at = &post->op[i];
        REQUIRE(ctx, at->kind >= POST_SUM && at->kind <= POST_ELTWISE,
                "%s: post-op %d is of kind %d, must be 0 to %d", op, i, (int)at->kind,
                (int)POST_ELTWISE);
        REQUIRE(ctx,
                at->kind != POST_ELTWISE ||
                    (at->eltwise > ELTWISE_NONE && at->eltwise < ELTWISE_COUNT),
                "%s: post-op %d is elementwise function %d, must be 1 to %d", op, i,
                (int)at->eltwise, ELTWISE_COUNT - 1);
    }
    return STATUS_OK;
}

status_t attrs_check(context_t *ctx, const char *op, const attr_table_t *table, const void *attrs)
{
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (field->kind == ATTR_NAME)
            TRY(check_name(ctx, op, field, load_integer(field, attrs, 0)));
        if (field->kind == ATTR_POST) TRY(check_post(ctx, op, at_const(field, attrs)));
        if (field->kind == ATTR_DTYPE) {
            int64_t dtype = load_integer(field, attrs, 0);
            REQUIRE(ctx, dtype >= DTYPE_NONE && dtype < DTYPE_COUNT,
                    "%s: %s is %lld, which is no element type", op, field->name, (long long)dtype);
        }
        if (field->kind == ATTR_INTS) {
            int n = ((const ints_t *)at_const(field, attrs))->n;
            REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "%s: %s has %d numbers, must be 0 to %d",
                    op, field->name, n, TENSOR_MAX_RANK);
        }
    }
    return STATUS_OK;
}

bool attrs_equal(const attr_table_t *table, const void *a, const void *b)
{
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        int n = n_words(field, a);
        if (n != n_words(field, b)) return false;
        for (int i = 0; i < n; i++)
            if (word(field, a, i) != word(field, b, i)) return false;
    }
    return true;
}

uint64_t attrs_hash(const attr_table_t *table, const void *attrs, uint64_t seed)
{
    uint64_t hash = seed;
    for (int f = 0; f < table->n_fields; f++)
        for (int i = 0; i < n_words(&table->fields[f], attrs); i++)
            hash = hash_mix(hash, word(&table->fields[f], attrs, i));
    return hash;
}

/* ---- printing ---- */

/* Whole numbers without point: "clamp(0,6)". */
static void print_parameter(text_t *text, double value)
{
    bool is_small = bits_of(value) == 0 ? !signbit(value) : fabs(value) >= 1 && fabs(value) < 1e15;
    if (is_small && value == trunc(value))
        text_append(text, "%" PRId64, (int64_t)value);
    else
        text_append_float(text, value);
}

static void print_post_op(text_t *text, const post_op_t *op)
{
    if (op->kind != POST_ELTWISE) {
        text_append(text, "\"%s\"", (unsigned)op->kind < POST_ELTWISE ? post_name(op->kind) : "?");
        return;
    }
    int n_parameters = eltwise_parameters(op->eltwise);
    text_append(text, "\"%s", eltwise_name(op->eltwise));
    for (int i = 0; i < n_parameters; i++) {
        text_append(text, i == 0 ? "(" : ",");
        print_parameter(text, i == 0 ? op->alpha : op->beta);
    }
    text_append(text, n_parameters > 0 ? ")\"" : "\"");
}

static const char *name_at(const attr_field_t *field, int64_t index)
{
    for (int64_t i = 0; field->names[i] != NULL; i++)
        if (i == index) return field->names[i];
    return "?";
}

static void print_list(const attr_field_t *field, const void *attrs, text_t *text)
{
    const post_ops_t *post = at_const(field, attrs);
    int n = field->kind == ATTR_POST ? post_n(post) : n_elements(field, attrs);
    text_append(text, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) text_append(text, ",");
        if (field->kind == ATTR_POST)
            print_post_op(text, &post->op[i]);
        else if (field->kind == ATTR_FLOATS)
            text_append_float(text, float_at(field, attrs, i));
        else
            text_append(text, "%" PRId64, integer_at(field, attrs, i));
    }
    text_append(text, "]");
}

static void print_value(const attr_field_t *field, const void *attrs, text_t *text)
{
    switch (field->kind) {
    case ATTR_BOOL: text_append(text, integer_at(field, attrs, 0) ? "true" : "false"); return;
    case ATTR_INT: text_append(text, "%" PRId64, integer_at(field, attrs, 0)); return;
    case ATTR_FLOAT: text_append_float(text, float_at(field, attrs, 0)); return;
    case ATTR_DTYPE: {
        dtype_t dtype = (dtype_t)integer_at(field, attrs, 0);
        text_append(text, "%s", dtype == DTYPE_NONE ? "none" : dtype_name(dtype));
        return;
    }
    case ATTR_NAME: text_append_quoted(text, name_at(field, integer_at(field, attrs, 0))); return;
    case ATTR_FORMAT: {
        char format[FORMAT_TEXT_MAX];
        text_append_quoted(text, format_text(at_const(field, attrs), format));
        return;
    }
    default: print_list(field, attrs, text); return;
    }
}

void attrs_print(const attr_table_t *table, const void *attrs, text_t *text)
{
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (is_default(field, attrs)) continue;
        text_append(text, " %s=", field->name);
        print_value(field, attrs, text);
    }
}

/* ---- reading ---- */

/* rule: what the field's literal has to be, for messages. */
typedef struct reader {
    context_t *ctx;
    const char *op;
    const attr_field_t *field;
    const char *literal;
    const char *at;
    char rule[256];
} reader_t;

TESSERA_PRINTF(2, 3) static status_t misfit(const reader_t *reader, const char *format, ...)
{
    char rule[(size_t)2 * LITERAL_MAX + sizeof reader->rule];
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(rule, sizeof rule, format, arguments);
    va_end(arguments);
    int length = literal_length(reader->literal, SHOWN_MAX);
    bool is_cut = literal_length(reader->literal, INT_MAX) > length;
    FAIL(reader->ctx, STATUS_INVALID_ARGUMENT, "%s: %s=%.*s%s, %s", reader->op, reader->field->name,
         length, reader->literal, is_cut ? "..." : "", written < 0 ? reader->rule : rule);
}

static status_t misfit_rule(const reader_t *reader)
{
    return misfit(reader, "%s", reader->rule);
}

static status_t misfit_scan(const reader_t *reader, literal_t scan)
{
    return scan == LITERAL_RANGE ? misfit(reader, "a number does not fit 64 bits")
                                 : misfit_rule(reader);
}

/* The parameters behind an elementwise function's name: "(0,6)". */
static bool scan_parameters(const char **cursor, int n, double *out_values)
{
    for (int i = 0; i < n; i++) {
        if (*(*cursor)++ != (i == 0 ? '(' : ',')) return false;
        literal_skip_blanks(cursor);
        if (literal_float(cursor, &out_values[i]) != LITERAL_OK) return false;
        literal_skip_blanks(cursor);
    }
    return n == 0 || *(*cursor)++ == ')';
}

static status_t read_post_op(reader_t *reader, post_op_t *out_op)
{
    char string[LITERAL_MAX];
    if (!literal_string(&reader->at, string)) return misfit_rule(reader);
    char name[LITERAL_MAX] = "";
    size_t length = 0;
    for (; literal_is_word(string[length]); length++) name[length] = string[length];
    name[length] = '\0';
    post_op_t op = {.kind = POST_ELTWISE, .eltwise = eltwise_parse(name)};
    for (int kind = POST_SUM; kind < POST_ELTWISE; kind++)
        if (strcmp(name, post_name((post_kind_t)kind)) == 0) op.kind = (post_kind_t)kind;
    if (op.kind == POST_ELTWISE && op.eltwise == ELTWISE_NONE)
        return misfit(reader, "\"%s\" is no post-op", name);
    int n = eltwise_parameters(op.eltwise);
    double values[2] = {0, 0};
    const char *rest = string + length;
    if (!scan_parameters(&rest, n, values) || *rest != '\0')
        return misfit(reader, "\"%s\" takes %d number%s", name, n, n == 1 ? "" : "s");
    op.alpha = values[0];
    op.beta = values[1];
    *out_op = op;
    return STATUS_OK;
}

static status_t read_integer(reader_t *reader, int64_t *out_value)
{
    literal_t scan = literal_integer(&reader->at, out_value);
    return scan == LITERAL_OK ? STATUS_OK : misfit_scan(reader, scan);
}

/* "[item,item]" of at most max items, into one of integers, floats and post-ops. */
typedef struct items {
    int max, n;
    int64_t *integers;
    double *floats;
    post_op_t *ops;
} items_t;

static status_t read_item(reader_t *reader, const items_t *items)
{
    if (items->ops != NULL) return read_post_op(reader, &items->ops[items->n]);
    if (items->integers != NULL) return read_integer(reader, &items->integers[items->n]);
    literal_t scan = literal_float(&reader->at, &items->floats[items->n]);
    return scan == LITERAL_OK ? STATUS_OK : misfit_scan(reader, scan);
}

static status_t read_items(reader_t *reader, items_t *items)
{
    if (*reader->at != '[') return misfit_rule(reader);
    reader->at++;
    literal_skip_blanks(&reader->at);
    while (*reader->at != ']') {
        if (items->n > 0) {
            if (*reader->at != ',') return misfit_rule(reader);
            reader->at++;
            literal_skip_blanks(&reader->at);
        }
        if (items->n == items->max) return misfit_rule(reader);
        TRY(read_item(reader, items));
        literal_skip_blanks(&reader->at);
        items->n++;
    }
    reader->at++;
    return literal_continues(*reader->at) ? misfit_rule(reader) : STATUS_OK;
}

static status_t read_post(reader_t *reader, void *attrs)
{
    post_ops_t post = {0};
    items_t items = {.max = POST_MAX, .ops = post.op};
    TRY(read_items(reader, &items));
    post.n = items.n;
    memcpy(at(reader->field, attrs), &post, sizeof post);
    return STATUS_OK;
}

/* An array of the field's length, or any number of integers. */
static status_t read_list(reader_t *reader, void *attrs)
{
    const attr_field_t *field = reader->field;
    INVARIANT(field->kind == ATTR_INTS || field->length <= ARRAY_MAX);
    int64_t values[ARRAY_MAX] = {0};
    int max = field->kind == ATTR_INTS ? TENSOR_MAX_RANK : bounded(field->length, ARRAY_MAX);
    items_t items = {.max = max, .integers = values};
    TRY(read_items(reader, &items));
    const int n = items.n;
    if (field->kind == ATTR_ARRAY && n != field->length) return misfit_rule(reader);
    for (int i = 0; i < n; i++)
        if (values[i] == 0 && field->zero_is_default)
            return misfit(reader, "zero is not a legal value");
    if (field->kind == ATTR_INTS) memset(at(field, attrs), 0, sizeof(ints_t));
    if (field->kind == ATTR_INTS) ((ints_t *)at(field, attrs))->n = n;
    for (int i = 0; i < n; i++) store_integer(field, attrs, i, values[i]);
    return STATUS_OK;
}

static status_t read_floats(reader_t *reader, void *attrs)
{
    floats_t floats = {0};
    items_t items = {.max = TENSOR_MAX_RANK, .floats = floats.values};
    TRY(read_items(reader, &items));
    floats.n = items.n;
    memcpy(at(reader->field, attrs), &floats, sizeof floats);
    return STATUS_OK;
}

static status_t read_float(reader_t *reader, void *attrs)
{
    double value;
    literal_t scan = literal_float(&reader->at, &value);
    if (scan != LITERAL_OK) return misfit_scan(reader, scan);
    if (reader->field->zero_is_default && bits_of(value) == 0)
        return misfit(reader, "zero is not a legal value");
    *(double *)at(reader->field, attrs) = value;
    return STATUS_OK;
}

static bool scan_bool(const char **cursor, int64_t *out_value)
{
    char name[LITERAL_MAX];
    if (!literal_word(cursor, name, sizeof name)) return false;
    *out_value = strcmp(name, "true") == 0;
    return *out_value || strcmp(name, "false") == 0;
}

static bool scan_dtype(const char **cursor, int64_t *out_value)
{
    char name[LITERAL_MAX];
    if (!literal_word(cursor, name, sizeof name)) return false;
    *out_value = (int64_t)dtype_parse(name);
    return *out_value != DTYPE_NONE || strcmp(name, "none") == 0;
}

static bool scan_name(const char **cursor, const char *const *names, int64_t *out_value)
{
    char name[LITERAL_MAX];
    if (!literal_string(cursor, name)) return false;
    for (int i = 0; names[i] != NULL; i++) {
        *out_value = i;
        if (strcmp(name, names[i]) == 0) return true;
    }
    return false;
}

static status_t read_scalar(reader_t *reader, void *attrs)
{
    const attr_field_t *field = reader->field;
    int64_t value = 0;
    bool fits = true;
    if (field->kind == ATTR_INT)
        TRY(read_integer(reader, &value));
    else if (field->kind == ATTR_BOOL)
        fits = scan_bool(&reader->at, &value);
    else if (field->kind == ATTR_DTYPE)
        fits = scan_dtype(&reader->at, &value);
    else
        fits = scan_name(&reader->at, field->names, &value);
    if (!fits) return misfit_rule(reader);
    if (value == 0 && field->zero_is_default) return misfit(reader, "zero is not a legal value");
    store_integer(field, attrs, 0, value);
    return STATUS_OK;
}

static status_t read_format(reader_t *reader, void *attrs)
{
    char text[LITERAL_MAX];
    format_t format;
    if (!literal_string(&reader->at, text)) return misfit_rule(reader);
    TRY(format_parse(reader->ctx, text, &format));
    *(format_t *)at(reader->field, attrs) = format;
    return STATUS_OK;
}

/* Appends ", name" to a list in a message; what does not fit is cut. */
static void enumerate(char *list, size_t capacity, const char *quote, const char *name)
{
    size_t length = strlen(list);
    snprintf(list + length, capacity - length, "%s%s%s%s", length > 0 ? ", " : "", quote, name,
             quote);
}

static void describe_rule(reader_t *reader)
{
    static const char *const rules[ATTR_FORMAT + 1] = {
        [ATTR_BOOL] = "true or false is needed",
        [ATTR_INT] = "an integer is needed",
        [ATTR_FLOAT] = "a number is needed",
        [ATTR_DTYPE] = "a dtype such as f32 is needed",
        [ATTR_FORMAT] = "a format such as \"aBcd16b\" is needed",
    };
    const attr_field_t *field = reader->field;
    char *rule = reader->rule;
    const size_t capacity = sizeof reader->rule;
    if (field->kind == ATTR_ARRAY) {
        snprintf(rule, capacity, "%d integer%s needed", field->length,
                 field->length == 1 ? " is" : "s are");
    } else if (field->kind == ATTR_INTS) {
        snprintf(rule, capacity, "a list of at most %d integers is needed", TENSOR_MAX_RANK);
    } else if (field->kind == ATTR_FLOATS) {
        snprintf(rule, capacity, "a list of at most %d numbers is needed", TENSOR_MAX_RANK);
    } else if (field->kind == ATTR_POST) {
        snprintf(rule, capacity, "a list of at most %d post-ops is needed", POST_MAX);
    } else if (field->kind == ATTR_NAME) {
        char list[sizeof reader->rule - 32] = "";
        for (int i = 0; field->names[i] != NULL; i++)
            enumerate(list, sizeof list, "\"", field->names[i]);
        snprintf(rule, capacity, "one of %s is needed", list);
    } else {
        snprintf(rule, capacity, "%s", rules[field->kind]);
    }
}

static status_t find_field(reader_t *reader, const attr_table_t *table)
{
    const char *name = reader->at;
    size_t length = 0;
    if (literal_is_letter(*name))
        while (literal_is_word(name[length]) || name[length] == '.') length++;
    int shown = length < SHOWN_MAX ? (int)length : SHOWN_MAX;
    REQUIRE(reader->ctx, length > 0, "%s: \"%.*s\" is no attribute, name=literal is needed",
            reader->op, literal_length(name, SHOWN_MAX), name);
    char list[512] = "";
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (strlen(field->name) == length && memcmp(field->name, name, length) == 0) {
            reader->field = field;
            reader->at += length;
            return STATUS_OK;
        }
        enumerate(list, sizeof list, "", field->name);
    }
    FAIL(reader->ctx, STATUS_INVALID_ARGUMENT, "%s: attribute \"%.*s\" is unknown, it has %s",
         reader->op, shown, name, table->n_fields > 0 ? list : "none");
}

status_t attrs_parse(context_t *ctx, const char *op, const attr_table_t *table, const char **cursor,
                     void *attrs)
{
    reader_t reader = {.ctx = ctx, .op = op, .at = *cursor};
    literal_skip_blanks(&reader.at);
    TRY(find_field(&reader, table));
    literal_skip_blanks(&reader.at);
    REQUIRE(ctx, *reader.at == '=', "%s: attribute \"%s\" has no value, name=literal is needed", op,
            reader.field->name);
    reader.at++;
    literal_skip_blanks(&reader.at);
    reader.literal = reader.at;
    describe_rule(&reader);
    switch (reader.field->kind) {
    case ATTR_FLOAT: TRY(read_float(&reader, attrs)); break;
    case ATTR_FLOATS: TRY(read_floats(&reader, attrs)); break;
    case ATTR_FORMAT: TRY(read_format(&reader, attrs)); break;
    case ATTR_POST: TRY(read_post(&reader, attrs)); break;
    case ATTR_ARRAY:
    case ATTR_INTS: TRY(read_list(&reader, attrs)); break;
    default: TRY(read_scalar(&reader, attrs)); break;
    }
    *cursor = reader.at;
    return STATUS_OK;
}
