/* Attribute values: defaults, comparison, copies. */
#include <stddef.h>

#include "dispatch/attrs_impl.h"
#include "tensor/hash_impl.h"

/* ---- fields as sequences of elements ---- */

/* Converts a default to int64_t with saturation, because INT64_MAX is rounded up in a double. */
static int64_t integral(double value)
{
    if (value >= 0x1p63) return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

int attrs_n_elements(const attr_field_t *field, const void *attrs)
{
    switch (field->kind) {
    case ATTR_ARRAY: return field->length;
    case ATTR_INTS:
        return attrs_bounded(((const ints_t *)attrs_field_const(field, attrs))->n, TENSOR_MAX_RANK);
    case ATTR_FLOATS:
        return attrs_bounded(((const floats_t *)attrs_field_const(field, attrs))->n,
                             TENSOR_MAX_RANK);
    case ATTR_POST:
    case ATTR_FORMAT: return 0;
    default: return 1;
    }
}

static int64_t load_integer(const attr_field_t *field, const void *attrs, int i)
{
    const void *from = attrs_field_const(field, attrs);
    switch (field->kind) {
    case ATTR_BOOL: return *(const unsigned char *)from != 0;
    case ATTR_DTYPE: return (int64_t)((const dtype_t *)from)[0];
    case ATTR_NAME: return *(const int *)from;
    case ATTR_INTS: return ((const ints_t *)from)->values[i];
    default: return ((const int64_t *)from)[i];
    }
}

void attrs_set_integer(const attr_field_t *field, void *attrs, int i, int64_t value)
{
    void *to = attrs_field(field, attrs);
    switch (field->kind) {
    case ATTR_BOOL: *(bool *)to = value != 0; return;
    case ATTR_DTYPE: *(dtype_t *)to = (dtype_t)value; return;
    case ATTR_NAME: *(int *)to = (int)value; return;
    case ATTR_INTS: ((ints_t *)to)->values[i] = value; return;
    default: ((int64_t *)to)[i] = value; return;
    }
}

/* Replaces a zero that means the default: by the first element of its array if that is not zero
 * (stride {2, 0} is {2, 2}), else by field->initial. */
int64_t attrs_integer(const attr_field_t *field, const void *attrs, int i)
{
    int64_t value = load_integer(field, attrs, i);
    if (value != 0 || !field->zero_is_default) return value;
    int64_t first = field->kind == ATTR_ARRAY ? load_integer(field, attrs, 0) : 0;
    return first != 0 ? first : integral(field->initial);
}

double attrs_float(const attr_field_t *field, const void *attrs, int i)
{
    const void *from = attrs_field_const(field, attrs);
    double value = field->kind == ATTR_FLOATS ? ((const floats_t *)from)->values[i]
                                              : *(const double *)from;
    return attrs_float_bits(value) == 0 && field->zero_is_default ? field->initial : value;
}

/* ---- fields as sequences of words, for equality and hash ---- */

/* Number of words of a field. A list has its length, then its elements; a post-op has three words;
 * a format has its kind, then order or strides, then blocks. */
static int n_words(const attr_field_t *field, const void *attrs)
{
    const format_t *format = attrs_field_const(field, attrs);
    if (field->kind == ATTR_FORMAT) return 1 + format->rank + format->n_blocks;
    if (field->kind == ATTR_INTS || field->kind == ATTR_FLOATS)
        return 1 + attrs_n_elements(field, attrs);
    if (field->kind == ATTR_POST) return 1 + 3 * attrs_n_post(attrs_field_const(field, attrs));
    return attrs_n_elements(field, attrs);
}

/* Word i of a list of post-ops; 0 for a parameter that the post-op does not use. */
static uint64_t post_word(const post_ops_t *post, int i)
{
    if (i == 0) return (uint64_t)post->n;
    const post_op_t *op = &post->op[(i - 1) / 3];
    bool is_eltwise = op->kind == POST_ELTWISE;
    int n_parameters = is_eltwise ? eltwise_parameters(op->eltwise) : 0;
    switch ((i - 1) % 3) {
    case 0: return (uint64_t)op->kind << 32 | (is_eltwise ? (uint64_t)op->eltwise : 0);
    case 1: return n_parameters > 0 ? attrs_float_bits(op->alpha) : 0;
    default: return n_parameters > 1 ? attrs_float_bits(op->beta) : 0;
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
    case ATTR_FORMAT: return format_word(attrs_field_const(field, attrs), i);
    case ATTR_FLOAT: return attrs_float_bits(attrs_float(field, attrs, 0));
    case ATTR_FLOATS:
        if (i == 0) return (uint64_t)attrs_n_elements(field, attrs);
        return attrs_float_bits(attrs_float(field, attrs, i - 1));
    case ATTR_POST: return post_word(attrs_field_const(field, attrs), i);
    case ATTR_INTS:
        if (i == 0) return (uint64_t)((const ints_t *)attrs_field_const(field, attrs))->n;
        return (uint64_t)attrs_integer(field, attrs, i - 1);
    default: return (uint64_t)attrs_integer(field, attrs, i);
    }
}

bool attrs_is_default(const attr_field_t *field, const void *attrs)
{
    if (field->kind == ATTR_INTS || field->kind == ATTR_FLOATS || field->kind == ATTR_POST ||
        field->kind == ATTR_FORMAT)
        return word(field, attrs, 0) == 0;
    uint64_t initial = field->kind == ATTR_FLOAT ? attrs_float_bits(field->initial)
                                                 : (uint64_t)integral(field->initial);
    for (int i = 0; i < n_words(field, attrs); i++)
        if (word(field, attrs, i) != initial) return false;
    return true;
}

const post_ops_t *attrs_post(const attr_table_t *table, const void *attrs)
{
    if (table == NULL) return NULL;
    for (int f = 0; f < table->n_fields && attrs != NULL; f++)
        if (table->fields[f].kind == ATTR_POST) return attrs_field_const(&table->fields[f], attrs);
    return NULL;
}

void attrs_init(const attr_table_t *table, void *out_attrs)
{
    if (table == NULL || table->bytes == 0 || out_attrs == NULL) return;
    memset(out_attrs, 0, table->bytes);
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (field->kind == ATTR_FLOAT)
            *(double *)attrs_field(field, out_attrs) = field->initial;
        else
            for (int i = 0; i < attrs_n_elements(field, out_attrs); i++)
                attrs_set_integer(field, out_attrs, i, integral(field->initial));
    }
}

/* Copies a list: its length, even if it is invalid, and its values up to the list's capacity. */
static void copy_list(const void *from, void *to, int n, size_t values_at, size_t value_bytes)
{
    memcpy(to, from, sizeof(int));
    memcpy((char *)to + values_at, (const char *)from + values_at,
           (size_t)attrs_bounded(n, TENSOR_MAX_RANK) * value_bytes);
}

static void copy_post(const post_ops_t *from, post_ops_t *to)
{
    to->n = from->n;
    for (int i = 0; i < attrs_n_post(from); i++) {
        to->op[i].kind = from->op[i].kind;
        to->op[i].eltwise = from->op[i].eltwise;
        to->op[i].alpha = from->op[i].alpha;
        to->op[i].beta = from->op[i].beta;
    }
}

/* Does the same as attrs_integer for n integers, but faster, because each call outside plans needs
 * it. */
static inline void copy_integers(const attr_field_t *field, const int64_t *from, int64_t *to, int n)
{
    if (!field->zero_is_default) {
        for (int i = 0; i < n; i++) to[i] = from[i];
        return;
    }
    int64_t instead = from[0] != 0 ? from[0] : integral(field->initial);
    for (int i = 0; i < n; i++) to[i] = from[i] != 0 ? from[i] : instead;
}

/* Copies only a field's meaningful bytes, so that equal attributes have equal bytes. */
static inline void copy_field(const attr_field_t *field, const void *attrs, void *out_attrs)
{
    const void *from = attrs_field_const(field, attrs);
    void *to = attrs_field(field, out_attrs);
    switch (field->kind) {
    case ATTR_INT: copy_integers(field, from, to, 1); return;
    case ATTR_ARRAY: copy_integers(field, from, to, field->length); return;
    case ATTR_FLOAT: *(double *)to = attrs_float(field, attrs, 0); return;
    case ATTR_INTS:
        copy_list(from, to, *(const int *)from, offsetof(ints_t, values), sizeof(int64_t));
        return;
    case ATTR_FLOATS:
        copy_list(from, to, *(const int *)from, offsetof(floats_t, values), sizeof(double));
        return;
    case ATTR_POST: copy_post(from, to); return;
    case ATTR_FORMAT: *(format_t *)to = *(const format_t *)from; return;
    default: attrs_set_integer(field, out_attrs, 0, attrs_integer(field, attrs, 0));
    }
}

void attrs_normalize(const attr_table_t *table, const void *attrs, void *out_attrs)
{
    if (table == NULL || table->bytes == 0 || out_attrs == NULL) return;
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
    if (op == NULL) return context_null(ctx, "attrs_check", "op");
    if (table == NULL || attrs == NULL) return STATUS_OK;
    for (int f = 0; f < table->n_fields; f++) {
        const attr_field_t *field = &table->fields[f];
        if (field->kind == ATTR_NAME)
            TRY(check_name(ctx, op, field, load_integer(field, attrs, 0)));
        if (field->kind == ATTR_POST) TRY(check_post(ctx, op, attrs_field_const(field, attrs)));
        if (field->kind == ATTR_DTYPE) {
            int64_t dtype = load_integer(field, attrs, 0);
            REQUIRE(ctx, dtype >= DTYPE_NONE && dtype < DTYPE_COUNT,
                    "%s: %s is %lld, not an element type", op, field->name, (long long)dtype);
        }
        if (field->kind == ATTR_INTS) {
            int n = ((const ints_t *)attrs_field_const(field, attrs))->n;
            REQUIRE(ctx, n >= 0 && n <= TENSOR_MAX_RANK, "%s: %s has %d numbers, must be 0 to %d",
                    op, field->name, n, TENSOR_MAX_RANK);
        }
    }
    return STATUS_OK;
}

bool attrs_equal(const attr_table_t *table, const void *a, const void *b)
{
    if (table == NULL || a == NULL || b == NULL) return a == b;
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
    if (table == NULL || attrs == NULL) return hash;
    for (int f = 0; f < table->n_fields; f++)
        for (int i = 0; i < n_words(&table->fields[f], attrs); i++)
            hash = hash_mix(hash, word(&table->fields[f], attrs, i));
    return hash;
}
