/* Attributes of operators as data: from one table follow text, hash, equality and importers. */
#ifndef TESSERA_DISPATCH_ATTRS_H
#define TESSERA_DISPATCH_ATTRS_H

#include "dispatch/post.h"
#include "tensor/datum.h"
#include "tensor/info.h"

TESSERA_BEGIN

/* Integers whose number varies: sizes, dims. */
typedef struct ints {
    int n;
    int64_t values[TENSOR_MAX_RANK];
} ints_t;

/* ATTRS_INTS(14, 14). C only: C++ has no compound literals. */
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

/* The same of floating numbers: scales. */
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

/* zero_is_default: zero is not a legal value, and stands in a struct for the first element of its
 * array where that is not zero (stride {2} of two dimensions is {2, 2}), else for `initial`. */
typedef struct attr_field {
    const char *name;
    attr_kind_t kind;
    bool zero_is_default;
    uint16_t offset;
    uint16_t length;          /* ATTR_ARRAY */
    double initial;           /* of every element */
    const char *const *names; /* ATTR_NAME: NULL-terminated */
} attr_field_t;

typedef struct attr_table {
    size_t bytes; /* of the struct; 0: no attributes */
    int n_fields;
    const attr_field_t *fields;
} attr_table_t;

/* Fills a struct with the defaults. */
void attrs_init(const attr_table_t *table, void *out_attrs) TESSERA_API(attrs_init);

/* A copy in which zeros that stand for defaults are replaced; attrs NULL means all defaults. Bytes
 * between the fields, and behind the end of a list, are zero, so that what is given alike is equal
 * by memcmp. The two do not overlap. */
void attrs_normalize(const attr_table_t *table, const void *attrs, void *out_attrs)
    TESSERA_API(attrs_normalize);

/* Refuses what no value of the attribute's kind is, and names it: an enumeration out of range, more
 * integers or post-ops than there is room for. INVALID_ARGUMENT. */
status_t attrs_check(context_t *ctx, const char *op, const attr_table_t *table, const void *attrs)
    TESSERA_API(attrs_check);

/* The attribute of kind ATTR_POST; NULL where the table has none. */
const post_ops_t *attrs_post(const attr_table_t *table, const void *attrs) TESSERA_API(attrs_post);

bool attrs_equal(const attr_table_t *table, const void *a, const void *b) TESSERA_API(attrs_equal);
uint64_t attrs_hash(const attr_table_t *table, const void *attrs, uint64_t seed)
    TESSERA_API(attrs_hash);

/* " padding=[1,1] groups=32": every attribute that is not at its default, each with a space before;
 * nothing else. */
void attrs_print(const attr_table_t *table, const void *attrs, text_t *text)
    TESSERA_API(attrs_print);

/* Reads one `name=literal` at *cursor and moves it behind. INVALID_ARGUMENT names the attribute
 * that op lacks, or the literal that does not fit. */
status_t attrs_parse(context_t *ctx, const char *op, const attr_table_t *table, const char **cursor,
                     void *attrs) TESSERA_API(attrs_parse);

TESSERA_END

#endif
