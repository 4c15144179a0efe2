/* Attributes as text: prints and parses `name=literal`. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "dispatch/attrs_impl.h"
#include "tensor/context_impl.h"
#include "tensor/text/literal_impl.h"

/* Length of the longest array that can be read, and of the longest part of the input that a message
 * shows. */
#define ARRAY_MAX 32
#define SHOWN_MAX 80

/* ---- printing ---- */

/* Prints whole numbers without a decimal point: "clamp(0,6)". */
static void print_parameter(text_t *text, double value)
{
    bool is_small = attrs_float_bits(value) == 0 ? !signbit(value)
                                                 : fabs(value) >= 1 && fabs(value) < 1e15;
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
    const post_ops_t *post = attrs_field_const(field, attrs);
    int n = field->kind == ATTR_POST ? attrs_n_post(post) : attrs_n_elements(field, attrs);
    text_append(text, "[");
    for (int i = 0; i < n; i++) {
        if (i > 0) text_append(text, ",");
        if (field->kind == ATTR_POST)
            print_post_op(text, &post->op[i]);
        else if (field->kind == ATTR_FLOATS)
            text_append_float(text, attrs_float(field, attrs, i));
        else
            text_append(text, "%" PRId64, attrs_integer(field, attrs, i));
    }
    text_append(text, "]");
}

static void print_value(const attr_field_t *field, const void *attrs, text_t *text)
{
    switch (field->kind) {
    case ATTR_BOOL: text_append(text, attrs_integer(field, attrs, 0) ? "true" : "false"); return;
    case ATTR_INT: text_append(text, "%" PRId64, attrs_integer(field, attrs, 0)); return;
    case ATTR_FLOAT: text_append_float(text, attrs_float(field, attrs, 0)); return;
    case ATTR_DTYPE: {
        dtype_t dtype = (dtype_t)attrs_integer(field, attrs, 0);
        text_append(text, "%s", dtype == DTYPE_NONE ? "none" : dtype_name(dtype));
        return;
    }
    case ATTR_NAME:
        text_append_quoted(text, name_at(field, attrs_integer(field, attrs, 0)));
        return;
    case ATTR_FORMAT: {
        char format[FORMAT_TEXT_MAX];
        text_append_quoted(text, format_text(attrs_field_const(field, attrs), format));
        return;
    }
    default: print_list(field, attrs, text); return;
    }
}

void attrs_print(const attr_table_t *table, const void *attrs, text_t *text)
{
    if (table == NULL || attrs == NULL || text == NULL) return;
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (attrs_is_default(field, attrs)) continue;
        text_append(text, " %s=", field->name);
        print_value(field, attrs, text);
    }
}

/* ---- parsing ---- */

/* State of parsing one attribute. rule: text for messages that says which literals the field
 * accepts. */
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
    return scan == LITERAL_RANGE ? misfit(reader, "a number does not fit in 64 bits")
                                 : misfit_rule(reader);
}

/* Parses the parameters after an elementwise function's name: "(0,6)". */
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
        return misfit(reader, "\"%s\" is not a post-op", name);
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

/* Receives the items of a list "[item,item]", at most `max`. Exactly one of the pointers is set. */
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
    memcpy(attrs_field(reader->field, attrs), &post, sizeof post);
    return STATUS_OK;
}

/* Parses the value of an ATTR_ARRAY field (with as many items as the array) or of an ATTR_INTS
 * field. */
static status_t read_list(reader_t *reader, void *attrs)
{
    const attr_field_t *field = reader->field;
    INVARIANT(field->kind == ATTR_INTS || field->length <= ARRAY_MAX);
    int64_t values[ARRAY_MAX] = {0};
    int max = field->kind == ATTR_INTS ? TENSOR_MAX_RANK : attrs_bounded(field->length, ARRAY_MAX);
    items_t items = {.max = max, .integers = values};
    TRY(read_items(reader, &items));
    const int n = items.n;
    if (field->kind == ATTR_ARRAY && n != field->length) return misfit_rule(reader);
    for (int i = 0; i < n; i++)
        if (values[i] == 0 && field->zero_is_default)
            return misfit(reader, "zero is not a legal value");
    if (field->kind == ATTR_INTS) memset(attrs_field(field, attrs), 0, sizeof(ints_t));
    if (field->kind == ATTR_INTS) ((ints_t *)attrs_field(field, attrs))->n = n;
    for (int i = 0; i < n; i++) attrs_set_integer(field, attrs, i, values[i]);
    return STATUS_OK;
}

static status_t read_floats(reader_t *reader, void *attrs)
{
    floats_t floats = {0};
    items_t items = {.max = TENSOR_MAX_RANK, .floats = floats.values};
    TRY(read_items(reader, &items));
    floats.n = items.n;
    memcpy(attrs_field(reader->field, attrs), &floats, sizeof floats);
    return STATUS_OK;
}

static status_t read_float(reader_t *reader, void *attrs)
{
    double value;
    literal_t scan = literal_float(&reader->at, &value);
    if (scan != LITERAL_OK) return misfit_scan(reader, scan);
    if (reader->field->zero_is_default && attrs_float_bits(value) == 0)
        return misfit(reader, "zero is not a legal value");
    *(double *)attrs_field(reader->field, attrs) = value;
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
    attrs_set_integer(field, attrs, 0, value);
    return STATUS_OK;
}

static status_t read_format(reader_t *reader, void *attrs)
{
    char text[LITERAL_MAX];
    format_t format;
    if (!literal_string(&reader->at, text)) return misfit_rule(reader);
    TRY(format_parse(reader->ctx, text, &format));
    *(format_t *)attrs_field(reader->field, attrs) = format;
    return STATUS_OK;
}

/* Appends ", name" to a list of names in a message, cut at capacity. */
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
    const size_t length = literal_name_length(name);
    int shown = length < SHOWN_MAX ? (int)length : SHOWN_MAX;
    REQUIRE(reader->ctx, length > 0, "%s: \"%.*s\" is not an attribute, name=literal is needed",
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
    FAIL(reader->ctx, STATUS_INVALID_ARGUMENT,
         "%s: attribute \"%.*s\" is unknown, the operator has %s", reader->op, shown, name,
         table->n_fields > 0 ? list : "none");
}

status_t attrs_parse(context_t *ctx, const char *op, const attr_table_t *table, const char **cursor,
                     void *attrs)
{
    if (op == NULL) return context_null(ctx, "attrs_parse", "op");
    if (table == NULL) return context_null(ctx, "attrs_parse", "table");
    if (cursor == NULL || *cursor == NULL) return context_null(ctx, "attrs_parse", "cursor");
    if (attrs == NULL && table->n_fields > 0) return context_null(ctx, "attrs_parse", "attrs");
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
