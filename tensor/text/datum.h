/* A datum is the value of an attribute, an argument or a constant.
 *
 * Datums are reference counted and have one of nine kinds. Lists and dicts can be modified, which
 * is visible through all references to them. Datums of other kinds never change, but the elements
 * of a datum's tensor may. */
#ifndef TESSERA_TENSOR_TEXT_DATUM_H
#define TESSERA_TENSOR_TEXT_DATUM_H

#include "tensor/tensor.h"
#include "tensor/text/text.h"

typedef enum datum_kind {
    DATUM_NONE,
    DATUM_TENSOR,
    DATUM_INT,
    DATUM_FLOAT,
    DATUM_BOOL,
    DATUM_STRING,
    DATUM_LIST,
    DATUM_TUPLE,
    DATUM_DICT
} datum_kind_t;

const char *datum_kind_name(datum_kind_t kind) TESSERA_API(datum_kind_name);

typedef struct datum datum_t;

/* Constructors. The caller releases the datum. Items and tensors are retained. Dict keys are
 * strings. */
status_t datum_none(context_t *ctx, datum_t **out_datum) TESSERA_API(datum_none);
status_t datum_tensor(context_t *ctx, tensor_t *tensor, datum_t **out_datum)
    TESSERA_API(datum_tensor);
status_t datum_int(context_t *ctx, int64_t value, datum_t **out_datum) TESSERA_API(datum_int);
status_t datum_float(context_t *ctx, double value, datum_t **out_datum) TESSERA_API(datum_float);
status_t datum_bool(context_t *ctx, bool value, datum_t **out_datum) TESSERA_API(datum_bool);
status_t datum_string(context_t *ctx, const char *value, datum_t **out_datum)
    TESSERA_API(datum_string);
status_t datum_list(context_t *ctx, int n, datum_t *const *items, datum_t **out_datum)
    TESSERA_API(datum_list);
status_t datum_tuple(context_t *ctx, int n, datum_t *const *items, datum_t **out_datum)
    TESSERA_API(datum_tuple);
status_t datum_dict(context_t *ctx, int n, const char *const *keys, datum_t *const *items,
                    datum_t **out_datum) TESSERA_API(datum_dict);

datum_t *datum_retain(datum_t *datum) TESSERA_API(datum_retain);
void datum_release(datum_t *datum) TESSERA_API(datum_release);

/* Queries. For a datum of the wrong kind they return NULL, 0 or false. datum_as_float also accepts
 * ints and bools, datum_as_int also accepts bools. Results are borrowed. */
datum_kind_t datum_kind(const datum_t *datum) TESSERA_API(datum_kind);
tensor_t *datum_as_tensor(const datum_t *datum) TESSERA_API(datum_as_tensor);
int64_t datum_as_int(const datum_t *datum) TESSERA_API(datum_as_int);
double datum_as_float(const datum_t *datum) TESSERA_API(datum_as_float);
bool datum_as_bool(const datum_t *datum) TESSERA_API(datum_as_bool);
const char *datum_as_string(const datum_t *datum) TESSERA_API(datum_as_string);

/* Items of a list, tuple or dict (in order of insertion). Borrowed; NULL if out of range. */
int datum_length(const datum_t *datum) TESSERA_API(datum_length);
datum_t *datum_item(const datum_t *datum, int index) TESSERA_API(datum_item);
const char *datum_key(const datum_t *datum, int index) TESSERA_API(datum_key);
datum_t *datum_find(const datum_t *datum, const char *key) TESSERA_API(datum_find);

/* Modify a list or dict. The list or dict retains the item. */
status_t datum_append(context_t *ctx, datum_t *list, datum_t *item) TESSERA_API(datum_append);
status_t datum_set(context_t *ctx, datum_t *list, int index, datum_t *item) TESSERA_API(datum_set);
status_t datum_put(context_t *ctx, datum_t *dict, const char *key, datum_t *item)
    TESSERA_API(datum_put);

/* A deep copy: new lists, dicts and tensors, including the tensors' bytes. */
status_t datum_clone(context_t *ctx, const datum_t *datum, datum_t **out_copy)
    TESSERA_API(datum_clone);

/* True if both have the same kind and value. Tensors are equal if dtype, sizes and elements are. */
bool datum_equal(context_t *ctx, const datum_t *a, const datum_t *b) TESSERA_API(datum_equal);

/* Appends the datum as a literal of the graph language; a tensor as its type, such as f32[2,3]. */
void datum_print(const datum_t *datum, text_t *text) TESSERA_API(datum_print);

#endif
