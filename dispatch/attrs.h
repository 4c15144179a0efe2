/* Tables that describe the fields of operators' attribute structs. With a table, the functions here
 * print, parse, compare and hash the attributes of any operator. */
#ifndef TESSERA_DISPATCH_ATTRS_H
#define TESSERA_DISPATCH_ATTRS_H

#include "dispatch/post.h"
#include "tensor/info.h"
#include "tensor/text/datum.h"

/* A list of integers: sizes, dims. */
typedef struct ints {
    int n;
    int64_t values[TENSOR_MAX_RANK];
} ints_t;

/* Example: ATTRS_INTS(14, 14). C only: C++ has no compound literals. */
#ifndef __cplusplus
#define ATTRS_INTS(...)                                                                            \
    (ints_t)                                                                                       \
    {                                                                                              \
        (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                                 \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#endif

/* A list of floating-point numbers: scales. */
typedef struct floats {
    int n;
    double values[TENSOR_MAX_RANK];
} floats_t;

typedef enum attr_kind {
    ATTR_BOOL,   /* bool */
    ATTR_INT,    /* int64_t */
    ATTR_FLOAT,  /* double */
    ATTR_DTYPE,  /* dtype_t */
    ATTR_NAME,   /* int, printed as one of `names` */
    ATTR_ARRAY,  /* int64_t[length] */
    ATTR_INTS,   /* ints_t */
    ATTR_FLOATS, /* floats_t */
    ATTR_POST,   /* post_ops_t */
    ATTR_FORMAT  /* format_t, printed as its text in quotes */
} attr_kind_t;

/* One field of an attribute struct. If zero_is_default, zero is not a legal value, but means the
 * default `initial`. In such an array, a zero after a first element that is not zero means the
 * first element: stride {2, 0} is {2, 2}. */
typedef struct attr_field {
    const char *name;
    attr_kind_t kind;
    bool zero_is_default;
    uint16_t offset;
    uint16_t length;          /* ATTR_ARRAY only */
    double initial;           /* default of each element */
    const char *const *names; /* ATTR_NAME only: NULL-terminated */
} attr_field_t;

typedef struct attr_table {
    size_t bytes; /* size of the struct; 0: no attributes */
    int n_fields;
    const attr_field_t *fields;
} attr_table_t;

/* Sets all attributes to their defaults. */
void attrs_init(const attr_table_t *table, void *out_attrs) TESSERA_API(attrs_init);

/* Copies attributes and replaces zeros that mean defaults; attrs NULL means all defaults. Unused
 * list elements, and the padding between fields, become zero. So memcmp finds equal attributes
 * equal. attrs and out_attrs must not overlap. */
void attrs_normalize(const attr_table_t *table, const void *attrs, void *out_attrs)
    TESSERA_API(attrs_normalize);

/* Checks that every value is legal for its attribute's kind. Fails with INVALID_ARGUMENT if, for
 * example, the value of an enumeration is out of range or a list is too long; the message names the
 * attribute. */
status_t attrs_check(context_t *ctx, const char *op, const attr_table_t *table, const void *attrs)
    TESSERA_API(attrs_check);

/* Returns the attribute of kind ATTR_POST; NULL if the table has none. */
const post_ops_t *attrs_post(const attr_table_t *table, const void *attrs) TESSERA_API(attrs_post);

bool attrs_equal(const attr_table_t *table, const void *a, const void *b) TESSERA_API(attrs_equal);
uint64_t attrs_hash(const attr_table_t *table, const void *attrs, uint64_t seed)
    TESSERA_API(attrs_hash);

/* Appends each attribute that differs from its default, after a space: " padding=[1,1]
 * groups=32". */
void attrs_print(const attr_table_t *table, const void *attrs, text_t *text)
    TESSERA_API(attrs_print);

/* Reads one `name=literal` at *cursor and advances the cursor past it. Fails with INVALID_ARGUMENT
 * if the attribute is unknown or the literal has the wrong kind; the message contains the name. */
status_t attrs_parse(context_t *ctx, const char *op, const attr_table_t *table, const char **cursor,
                     void *attrs) TESSERA_API(attrs_parse);

#endif
