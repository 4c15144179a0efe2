/* Functions that read the fields of attribute structs as sequences of elements: "padding" of a
 * conv2d is two integers, "scales" of a resize is a list of floats. Printing, parsing, hashing and
 * comparing attributes use them. */
#ifndef TESSERA_DISPATCH_ATTRS_IMPL_H
#define TESSERA_DISPATCH_ATTRS_IMPL_H

#include <stddef.h>
#include <string.h>

#include "dispatch/attrs.h"
#include "tensor/status_impl.h"

static inline void *attrs_field(const attr_field_t *field, void *attrs)
{
    return (char *)attrs + field->offset;
}

static inline const void *attrs_field_const(const attr_field_t *field, const void *attrs)
{
    return (const char *)attrs + field->offset;
}

/* The bits of a number, or 0 for 0.0 and -0.0. The test for zero uses integers, because a denormal
 * that the CPU flushes would compare equal to zero. */
static inline uint64_t attrs_float_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits << 1 == 0 ? 0 : bits;
}

static inline int attrs_bounded(int n, int max)
{
    return n < 0 ? 0 : n > max ? max : n;
}

/* Number of post-ops in a list that may be NULL. */
static inline int attrs_n_post(const post_ops_t *post)
{
    return post == NULL ? 0 : attrs_bounded(post->n, POST_MAX);
}

/* Number of integers or floats in a field; 0 for ATTR_POST and ATTR_FORMAT. */
int attrs_n_elements(const attr_field_t *field, const void *attrs);

/* Element i, with defaults filled in: for stride {2} elements 0 and 1 are both 2. */
int64_t attrs_integer(const attr_field_t *field, const void *attrs, int i);
double attrs_float(const attr_field_t *field, const void *attrs, int i);

void attrs_set_integer(const attr_field_t *field, void *attrs, int i, int64_t value);

/* Number of leading bytes of an attribute struct, as the caller wrote it, that have a meaning.
 * Usually all; but if the struct ends in an empty list of post-ops, the bytes after that list's
 * length have none. Structs with equal leading bytes are the same attributes. */
static inline size_t attrs_given_bytes(const attr_table_t *table, const void *attrs)
{
    if (table->n_fields == 0) return table->bytes;
    const attr_field_t *last = &table->fields[table->n_fields - 1];
    if (last->kind != ATTR_POST || last->offset + sizeof(post_ops_t) != table->bytes ||
        attrs_n_post(attrs_field_const(last, attrs)) > 0)
        return table->bytes;
    return last->offset + offsetof(post_ops_t, n) + sizeof(int);
}

bool attrs_is_default(const attr_field_t *field, const void *attrs);

#endif
