#include "tensor/text/datum.h"

#include <inttypes.h>
#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/tensor_impl.h"

typedef struct entry {
    char *key; /* dicts only; else NULL */
    datum_t *item;
} entry_t;

/* A dict with more entries finds keys with a hash table; a smaller one compares all keys. */
#define LINEAR_MAX 16

struct datum {
    atomic_int n_references;
    datum_kind_t kind;
    allocator_t allocator;
    union {
        tensor_t *tensor;
        int64_t integer;
        double number;
        bool truth;
        char *string;
        struct {
            entry_t *entries;
            int n;
            int capacity;
            hash_table_t by_key; /* items: index + 1 of an entry; empty up to LINEAR_MAX entries */
        } list;
    };
};

const char *datum_kind_name(datum_kind_t kind)
{
    switch (kind) {
    case DATUM_NONE: return "none";
    case DATUM_TENSOR: return "tensor";
    case DATUM_INT: return "int";
    case DATUM_FLOAT: return "float";
    case DATUM_BOOL: return "bool";
    case DATUM_STRING: return "string";
    case DATUM_LIST: return "list";
    case DATUM_TUPLE: return "tuple";
    case DATUM_DICT: return "dict";
    }
    return "unknown";
}

/* ---- constructors ---- */

static status_t make(context_t *ctx, datum_kind_t kind, datum_t **out_datum)
{
    datum_t *datum = NULL;
    TRY(context_get_zeroed(ctx, sizeof *datum, "a datum", &datum));
    atomic_init(&datum->n_references, 1);
    datum->kind = kind;
    datum->allocator = *context_allocator(ctx);
    *out_datum = datum;
    return STATUS_OK;
}

status_t datum_none(context_t *ctx, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_none", out_datum));
    return make(ctx, DATUM_NONE, out_datum);
}

status_t datum_tensor(context_t *ctx, tensor_t *tensor, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_tensor", out_datum));
    if (tensor == NULL) return context_null(ctx, "datum_tensor", "tensor");
    datum_t *datum = NULL;
    TRY(make(ctx, DATUM_TENSOR, &datum));
    datum->tensor = tensor_hold(tensor);
    *out_datum = datum;
    return STATUS_OK;
}

status_t datum_int(context_t *ctx, int64_t value, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_int", out_datum));
    datum_t *datum = NULL;
    TRY(make(ctx, DATUM_INT, &datum));
    datum->integer = value;
    *out_datum = datum;
    return STATUS_OK;
}

status_t datum_float(context_t *ctx, double value, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_float", out_datum));
    datum_t *datum = NULL;
    TRY(make(ctx, DATUM_FLOAT, &datum));
    datum->number = value;
    *out_datum = datum;
    return STATUS_OK;
}

status_t datum_bool(context_t *ctx, bool value, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_bool", out_datum));
    datum_t *datum = NULL;
    TRY(make(ctx, DATUM_BOOL, &datum));
    datum->truth = value;
    *out_datum = datum;
    return STATUS_OK;
}

status_t datum_string(context_t *ctx, const char *value, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_string", out_datum));
    if (value == NULL) return context_null(ctx, "datum_string", "value");
    datum_t *datum = NULL;
    TRY(make(ctx, DATUM_STRING, &datum));
    status_t status = context_string(ctx, value, &datum->string);
    GIVE(status, out_datum, datum, datum_release(datum));
}

static bool has_items(const datum_t *datum)
{
    return datum != NULL &&
           (datum->kind == DATUM_LIST || datum->kind == DATUM_TUPLE || datum->kind == DATUM_DICT);
}

static uint64_t hash_of(const char *key)
{
    return hash_bytes(key, strlen(key), 0);
}

/* A key to find in by_key. */
typedef struct wanted {
    const datum_t *dict;
    const char *key;
} wanted_t;

static bool has_key(const void *item, const void *key)
{
    const wanted_t *wanted = key;
    return strcmp(wanted->dict->list.entries[(uintptr_t)item - 1].key, wanted->key) == 0;
}

/* If the dict has more than LINEAR_MAX entries, adds the keys that are not yet in the hash
 * table. */
static status_t index_keys(context_t *ctx, datum_t *dict)
{
    if (dict->kind != DATUM_DICT || dict->list.n <= LINEAR_MAX) return STATUS_OK;
    for (size_t i = dict->list.by_key.n; i < (size_t)dict->list.n; i++)
        TRY(hash_put(ctx, &dict->list.by_key, hash_of(dict->list.entries[i].key),
                     (void *)(uintptr_t)(i + 1)));
    return STATUS_OK;
}

/* Adds an item and copies the key. On success takes over the caller's reference to the item. */
static status_t add_take(context_t *ctx, datum_t *to, const char *key, datum_t *item)
{
    TRY(context_grow(ctx, &to->list.entries, &to->list.capacity, to->list.n + 1, sizeof(entry_t)));
    char *copy = NULL;
    TRY(context_string(ctx, key, &copy));
    to->list.entries[to->list.n++] = (entry_t){copy, item};
    status_t status = index_keys(ctx, to);
    if (status == STATUS_OK) return STATUS_OK;
    to->list.n--;
    context_put(ctx, copy);
    return status;
}

static status_t add(context_t *ctx, datum_t *to, const char *key, datum_t *item)
{
    status_t status = add_take(ctx, to, key, datum_retain(item));
    if (status != STATUS_OK) datum_release(item);
    return status;
}

static entry_t *find_entry(const datum_t *dict, const char *key)
{
    if (dict->list.by_key.n > 0) {
        const wanted_t wanted = {dict, key};
        const uintptr_t place = (uintptr_t)hash_find(&dict->list.by_key, hash_of(key), has_key,
                                                     &wanted);
        return place > 0 ? &dict->list.entries[place - 1] : NULL;
    }
    for (int i = 0; i < dict->list.n; i++)
        if (strcmp(dict->list.entries[i].key, key) == 0) return &dict->list.entries[i];
    return NULL;
}

static void replace(entry_t *entry, datum_t *item)
{
    datum_t *old = entry->item;
    entry->item = datum_retain(item);
    datum_release(old);
}

static status_t fill(context_t *ctx, const char *op, datum_t *datum, int n, const char *const *keys,
                     datum_t *const *items)
{
    for (int i = 0; i < n; i++) {
        const char *key = keys != NULL ? keys[i] : NULL;
        if (items[i] == NULL) return context_null(ctx, op, "an item");
        if (keys != NULL && key == NULL) return context_null(ctx, op, "a key");
        entry_t *present = key != NULL ? find_entry(datum, key) : NULL;
        if (present != NULL)
            replace(present, items[i]);
        else
            TRY(add(ctx, datum, key, items[i]));
    }
    return STATUS_OK;
}

static status_t make_filled(context_t *ctx, const char *op, datum_kind_t kind, int n,
                            const char *const *keys, datum_t *const *items, datum_t **out_datum)
{
    REQUIRE(ctx, n >= 0, "%s: %d items, must be >= 0", op, n);
    if (n > 0 && items == NULL) return context_null(ctx, op, "items");
    if (n > 0 && kind == DATUM_DICT && keys == NULL) return context_null(ctx, op, "keys");
    datum_t *datum = NULL;
    TRY(make(ctx, kind, &datum));
    status_t status = fill(ctx, op, datum, n, keys, items);
    GIVE(status, out_datum, datum, datum_release(datum));
}

status_t datum_list(context_t *ctx, int n, datum_t *const *items, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_list", out_datum));
    return make_filled(ctx, "datum_list", DATUM_LIST, n, NULL, items, out_datum);
}

status_t datum_tuple(context_t *ctx, int n, datum_t *const *items, datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_tuple", out_datum));
    return make_filled(ctx, "datum_tuple", DATUM_TUPLE, n, NULL, items, out_datum);
}

status_t datum_dict(context_t *ctx, int n, const char *const *keys, datum_t *const *items,
                    datum_t **out_datum)
{
    TRY(context_output(ctx, "datum_dict", out_datum));
    return make_filled(ctx, "datum_dict", DATUM_DICT, n, keys, items, out_datum);
}

datum_t *datum_retain(datum_t *datum)
{
    if (datum != NULL) references_add(&datum->n_references);
    return datum;
}

void datum_release(datum_t *datum)
{
    if (datum == NULL || !references_drop(&datum->n_references)) return;
    allocator_t allocator = datum->allocator;
    if (datum->kind == DATUM_TENSOR) tensor_drop(datum->tensor);
    if (datum->kind == DATUM_STRING) allocator_put(&allocator, datum->string);
    if (has_items(datum)) {
        for (int i = 0; i < datum->list.n; i++) {
            allocator_put(&allocator, datum->list.entries[i].key);
            datum_release(datum->list.entries[i].item);
        }
        allocator_put(&allocator, datum->list.by_key.slots);
        allocator_put(&allocator, datum->list.entries);
    }
    allocator_put(&allocator, datum);
}

/* ---- queries ---- */

datum_kind_t datum_kind(const datum_t *datum)
{
    return datum != NULL ? datum->kind : DATUM_NONE;
}

tensor_t *datum_as_tensor(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_TENSOR ? datum->tensor : NULL;
}

int64_t datum_as_int(const datum_t *datum)
{
    switch (datum_kind(datum)) {
    case DATUM_INT: return datum->integer;
    case DATUM_BOOL: return datum->truth ? 1 : 0;
    default: return 0;
    }
}

double datum_as_float(const datum_t *datum)
{
    if (datum_kind(datum) == DATUM_FLOAT) return datum->number;
    return (double)datum_as_int(datum);
}

bool datum_as_bool(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_BOOL && datum->truth;
}

const char *datum_as_string(const datum_t *datum)
{
    return datum_kind(datum) == DATUM_STRING ? datum->string : NULL;
}

int datum_length(const datum_t *datum)
{
    return has_items(datum) ? datum->list.n : 0;
}

datum_t *datum_item(const datum_t *datum, int index)
{
    if (index < 0 || index >= datum_length(datum)) return NULL;
    return datum->list.entries[index].item;
}

const char *datum_key(const datum_t *datum, int index)
{
    if (index < 0 || index >= datum_length(datum)) return NULL;
    return datum->list.entries[index].key;
}

datum_t *datum_find(const datum_t *datum, const char *key)
{
    if (datum_kind(datum) != DATUM_DICT || key == NULL) return NULL;
    entry_t *entry = find_entry(datum, key);
    return entry != NULL ? entry->item : NULL;
}

/* ---- modification ---- */

static bool reaches(const datum_t *from, const datum_t *target)
{
    if (from == target) return true;
    for (int i = 0; i < datum_length(from); i++)
        if (reaches(from->list.entries[i].item, target)) return true;
    return false;
}

/* Checks a change. Fails if the container would contain itself: it could then be neither released
 * nor printed. */
static status_t check_change(context_t *ctx, const char *op, datum_kind_t kind,
                             const datum_t *container, const datum_t *item)
{
    if (container == NULL) return context_null(ctx, op, datum_kind_name(kind));
    if (item == NULL) return context_null(ctx, op, "item");
    REQUIRE(ctx, container->kind == kind, "%s: a %s was given, needs a %s", op,
            datum_kind_name(container->kind), datum_kind_name(kind));
    REQUIRE(ctx, !reaches(item, container),
            "%s: the item contains the %s, which cannot contain itself", op, datum_kind_name(kind));
    return STATUS_OK;
}

status_t datum_append(context_t *ctx, datum_t *list, datum_t *item)
{
    TRY(check_change(ctx, "datum_append", DATUM_LIST, list, item));
    return add(ctx, list, NULL, item);
}

status_t datum_set(context_t *ctx, datum_t *list, int index, datum_t *item)
{
    TRY(check_change(ctx, "datum_set", DATUM_LIST, list, item));
    REQUIRE(ctx, index >= 0 && index < list->list.n,
            "datum_set: index %d of a list of %d, out of range", index, list->list.n);
    replace(&list->list.entries[index], item);
    return STATUS_OK;
}

status_t datum_put(context_t *ctx, datum_t *dict, const char *key, datum_t *item)
{
    TRY(check_change(ctx, "datum_put", DATUM_DICT, dict, item));
    if (key == NULL) return context_null(ctx, "datum_put", "key");
    entry_t *present = find_entry(dict, key);
    if (present == NULL) return add(ctx, dict, key, item);
    replace(present, item);
    return STATUS_OK;
}

/* ---- copies and comparison ---- */

static status_t clone_tensor(context_t *ctx, const datum_t *datum, datum_t **out_copy)
{
    tensor_t *tensor = NULL;
    TRY(tensor_duplicate(ctx, datum->tensor, &tensor));
    FINISH(datum_tensor(ctx, tensor, out_copy), tensor_drop(tensor));
}

static status_t clone_items(context_t *ctx, const datum_t *datum, datum_t *copy)
{
    for (int i = 0; i < datum->list.n; i++) {
        datum_t *item = NULL;
        TRY(datum_clone(ctx, datum->list.entries[i].item, &item));
        status_t status = add_take(ctx, copy, datum->list.entries[i].key, item);
        if (status != STATUS_OK) {
            datum_release(item);
            return status;
        }
    }
    return STATUS_OK;
}

status_t datum_clone(context_t *ctx, const datum_t *datum, datum_t **out_copy)
{
    TRY(context_output(ctx, "datum_clone", out_copy));
    if (datum == NULL) return context_null(ctx, "datum_clone", "datum");
    if (datum->kind == DATUM_TENSOR) return clone_tensor(ctx, datum, out_copy);
    if (!has_items(datum)) {
        *out_copy = datum_retain((datum_t *)(uintptr_t)datum);
        return STATUS_OK;
    }
    datum_t *copy = NULL;
    TRY(make(ctx, datum->kind, &copy));
    status_t status = clone_items(ctx, datum, copy);
    GIVE(status, out_copy, copy, datum_release(copy));
}

/* Compares the bits of elements, so a NaN equals itself, and 0 differs from -0. */
static bool equal_tensors(context_t *ctx, const tensor_t *a, const tensor_t *b)
{
    const tensor_info_t *info = &a->info;
    if (a == b) return true;
    if (info->dtype != b->info.dtype ||
        !shape_equal(info->rank, info->sizes, b->info.rank, b->info.sizes))
        return false;
    size_t n_bytes = (size_t)info_numel(info) * dtype_size(info->dtype);
    if (n_bytes == 0) return true;
    if (info->layout == LAYOUT_DENSE && info_is_contiguous(info) &&
        b->info.layout == LAYOUT_DENSE && info_is_contiguous(&b->info))
        return storage_restore(ctx, a->storage, CAUSE_USER) == STATUS_OK &&
               storage_restore(ctx, b->storage, CAUSE_USER) == STATUS_OK &&
               memcmp(tensor_bytes(a), tensor_bytes(b), n_bytes) == 0;
    void *bytes_a = NULL, *bytes_b = NULL;
    bool is_equal = context_get(ctx, n_bytes, "a comparison", &bytes_a) == STATUS_OK &&
                    context_get(ctx, n_bytes, "a comparison", &bytes_b) == STATUS_OK &&
                    tensor_read(ctx, a, bytes_a, n_bytes) == STATUS_OK &&
                    tensor_read(ctx, b, bytes_b, n_bytes) == STATUS_OK &&
                    memcmp(bytes_a, bytes_b, n_bytes) == 0;
    CONTEXT_PUT(ctx, bytes_a, bytes_b);
    return is_equal;
}

/* Compares lists, tuples or dicts. The order of a dict's keys does not matter. */
static bool equal_items(context_t *ctx, const datum_t *a, const datum_t *b)
{
    if (a->list.n != b->list.n) return false;
    for (int i = 0; i < a->list.n; i++) {
        const entry_t *entry = &a->list.entries[i];
        const datum_t *other = a->kind == DATUM_DICT ? datum_find(b, entry->key)
                                                     : b->list.entries[i].item;
        if (other == NULL || !datum_equal(ctx, entry->item, other)) return false;
    }
    return true;
}

bool datum_equal(context_t *ctx, const datum_t *a, const datum_t *b)
{
    if (a == b) return true;
    if (a == NULL || b == NULL || a->kind != b->kind) return false;
    switch (a->kind) {
    case DATUM_NONE: return true;
    case DATUM_TENSOR: return equal_tensors(ctx, a->tensor, b->tensor);
    case DATUM_INT: return a->integer == b->integer;
    case DATUM_FLOAT: return memcmp(&a->number, &b->number, sizeof a->number) == 0;
    case DATUM_BOOL: return a->truth == b->truth;
    case DATUM_STRING: return strcmp(a->string, b->string) == 0;
    case DATUM_LIST:
    case DATUM_TUPLE:
    case DATUM_DICT: return equal_items(ctx, a, b);
    }
    return false;
}

/* ---- printing ---- */

static void print_items(const datum_t *datum, const char *open, const char *close, text_t *text)
{
    text_append(text, "%s", open);
    for (int i = 0; i < datum->list.n; i++) {
        if (i > 0) text_append(text, ", ");
        if (datum->kind == DATUM_DICT) {
            text_append_quoted(text, datum->list.entries[i].key);
            text_append(text, ": ");
        }
        datum_print(datum->list.entries[i].item, text);
    }
    text_append(text, "%s", close);
}

void datum_print(const datum_t *datum, text_t *text)
{
    if (text == NULL) return;
    switch (datum_kind(datum)) {
    case DATUM_NONE: text_append(text, "none"); return;
    case DATUM_TENSOR: text_append(text, "%s", tensor_text(datum->tensor)); return;
    case DATUM_INT: text_append(text, "%" PRId64, datum->integer); return;
    case DATUM_FLOAT: text_append_float(text, datum->number); return;
    case DATUM_BOOL: text_append(text, "%s", datum->truth ? "true" : "false"); return;
    case DATUM_STRING: text_append_quoted(text, datum->string); return;
    case DATUM_LIST: print_items(datum, "[", "]", text); return;
    case DATUM_TUPLE: print_items(datum, "(", ")", text); return;
    case DATUM_DICT: print_items(datum, "{", "}", text); return;
    }
}
