#include "module/state_dict.h"

#include <string.h>

#include "module/module_impl.h"
#include "tensor/convert/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tensor/text/text.h"

/* A parameter or buffer of the module and its new value. */
typedef struct entry {
    char *key;
    module_t *owner; /* the module of which it is a member */
    const char *name;
    member_kind_t kind;
    tensor_t *tensor; /* borrowed from the module */
    tensor_t *value;  /* new value, contiguous, with the tensor's dtype; NULL: none */
} entry_t;

typedef struct entries {
    entry_t *items;
    int n;
    int capacity;
} entries_t;

static void clear(context_t *ctx, entries_t *entries)
{
    for (int i = 0; i < entries->n; i++) context_put(ctx, entries->items[i].key);
    context_put(ctx, entries->items);
}

static status_t list(context_t *ctx, void *user, const char *path, module_t *module)
{
    entries_t *entries = user;
    for (int i = 0; i < module->n_members; i++) {
        const member_t *member = &module->members[i];
        bool is_state = member->kind == MEMBER_PARAMETER || member->kind == MEMBER_BUFFER;
        if (!is_state || member->is.tensor == NULL) continue;
        TRY(context_grow(ctx, &entries->items, &entries->capacity, entries->n + 1,
                         sizeof *entries->items));
        char *key = NULL;
        TRY(tree_join(ctx, path, member->name, &key));
        entries->items[entries->n++] = (entry_t){
            key, module, member->name, member->kind, member->is.tensor, NULL};
    }
    return STATUS_OK;
}

/* ---- export ---- */

static status_t put(context_t *ctx, datum_t *dict, const entry_t *entry)
{
    tensor_t *plain = NULL;
    datum_t *value = NULL;
    TRY(to_dense(ctx, entry->tensor, &plain));
    TRY(datum_tensor(ctx, plain, &value));
    FINISH(datum_put(ctx, dict, entry->key, value), datum_release(value));
}

/* Runs in a scope, which releases the tensors that to_dense creates. */
status_t module_state_dict(context_t *ctx, module_t *module, datum_t **out_dict)
{
    TRY(context_output(ctx, "module_state_dict", out_dict));
    if (module == NULL) return context_null(ctx, "module_state_dict", "module");
    entries_t entries = {0};
    datum_t *dict = NULL;
    TRY(scope_begin(ctx));
    status_t status = module_walk(ctx, module, list, &entries);
    if (status == STATUS_OK) status = datum_dict(ctx, 0, NULL, NULL, &dict);
    for (int i = 0; i < entries.n && status == STATUS_OK; i++)
        status = put(ctx, dict, &entries.items[i]);
    status_t ended = scope_end(ctx);
    if (status == STATUS_OK) status = ended;
    clear(ctx, &entries);
    GIVE(status, out_dict, dict, datum_release(dict));
}

/* ---- import ---- */

/* True for counters of batches, because older files do not contain them, and inference does not
 * read them. */
static bool may_be_absent(const char *key)
{
    static const char name[] = "num_batches_tracked";
    const char *dot = strrchr(key, '.');
    return strcmp(dot != NULL ? dot + 1 : key, name) == 0;
}

/* Finds the new value of a tensor. If the dict has several keys of the same tensor, the last one of
 * the module's order counts. */
static const datum_t *find_value(const datum_t *dict, const entries_t *entries,
                                 const entry_t *entry)
{
    const datum_t *value = NULL;
    for (int i = 0; i < entries->n; i++) {
        if (entries->items[i].tensor != entry->tensor) continue;
        const datum_t *found = datum_find(dict, entries->items[i].key);
        if (found != NULL) value = found;
    }
    return value;
}

static bool has_key(const entries_t *entries, const char *key, int hint)
{
    if (hint < entries->n && strcmp(entries->items[hint].key, key) == 0) return true;
    for (int i = 0; i < entries->n; i++)
        if (strcmp(entries->items[i].key, key) == 0) return true;
    return false;
}

/* The faults of a dict are listed in a text, with "; " between the kinds of faults, and at most
 * MOST_NAMES names of each kind. */
#define MOST_NAMES 12

static void begin_clause(text_t *faults)
{
    if (faults->length > 0) text_append(faults, "; ");
}

/* True if the dict has no value for this key, or if the value has the shape of the tensor. */
static bool is_fitting(const entry_t *entry, const datum_t *value)
{
    if (value == NULL) return true;
    if (datum_kind(value) != DATUM_TENSOR) return false;
    const tensor_t *given = datum_as_tensor(value);
    return shape_equal(tensor_rank(given), tensor_sizes(given), tensor_rank(entry->tensor),
                       tensor_sizes(entry->tensor));
}

static void tell_value(text_t *faults, const module_t *module, const entry_t *entry,
                       const datum_t *value)
{
    begin_clause(faults);
    text_append_quoted(faults, entry->key);
    if (datum_kind(value) != DATUM_TENSOR) {
        text_append(faults, " is %s, must be a tensor", datum_kind_name(datum_kind(value)));
        return;
    }
    const tensor_t *given = datum_as_tensor(value);
    char is[128], wants[128];
    text_append(
        faults, " is %s, %s has %s",
        shape_text(tensor_rank(given), tensor_sizes(given), is, sizeof is), module_type(module),
        shape_text(tensor_rank(entry->tensor), tensor_sizes(entry->tensor), wants, sizeof wants));
}

static void check_values(text_t *faults, const module_t *module, const datum_t *dict,
                         const entries_t *entries)
{
    int n = 0;
    for (int i = 0; i < entries->n; i++) {
        const entry_t *entry = &entries->items[i];
        const datum_t *value = datum_find(dict, entry->key);
        if (!is_fitting(entry, value) && n++ < MOST_NAMES) tell_value(faults, module, entry, value);
    }
    if (n > MOST_NAMES) text_append(faults, " and %d more do not fit", n - MOST_NAMES);
}

/* Appends one name to a list that will read `"a", "b" and 3 more are`. */
static void tell_name(text_t *faults, const char *name, int *n)
{
    if (++*n > MOST_NAMES) return;
    if (*n == 1)
        begin_clause(faults);
    else
        text_append(faults, ", ");
    text_append_quoted(faults, name);
}

static void end_names(text_t *faults, int n)
{
    if (n > MOST_NAMES) text_append(faults, " and %d more", n - MOST_NAMES);
    text_append(faults, " %s", n == 1 ? "is" : "are");
}

static void check_names(text_t *faults, const module_t *module, const datum_t *dict,
                        const entries_t *entries)
{
    int n_missing = 0, n_unknown = 0;
    for (int i = 0; i < entries->n; i++) {
        const entry_t *entry = &entries->items[i];
        if (datum_find(dict, entry->key) == NULL && !may_be_absent(entry->key) &&
            find_value(dict, entries, entry) == NULL)
            tell_name(faults, entry->key, &n_missing);
    }
    if (n_missing > 0) {
        end_names(faults, n_missing);
        text_append(faults, " missing, %s needs %s", module_type(module),
                    n_missing == 1 ? "it" : "them");
    }
    for (int i = 0; i < datum_length(dict); i++)
        if (!has_key(entries, datum_key(dict, i), i))
            tell_name(faults, datum_key(dict, i), &n_unknown);
    if (n_unknown == 0) return;
    end_names(faults, n_unknown);
    text_append(faults, " unknown, %s has no such parameter or buffer", module_type(module));
}

static status_t check(context_t *ctx, const module_t *module, const datum_t *dict,
                      const entries_t *entries, bool is_strict)
{
    text_t faults = text_begin(ctx);
    check_values(&faults, module, dict, entries);
    if (is_strict) check_names(&faults, module, dict, entries);
    status_t status = text_status(&faults);
    if (status == STATUS_OK && faults.length > 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT, "load_state_dict: %s",
                              text_string(&faults));
    text_clear(&faults);
    return status;
}

/* Finds the entry's new value, makes it dense and contiguous, and casts it to the tensor's
 * dtype. */
static status_t convert(context_t *ctx, const datum_t *dict, const entries_t *entries,
                        entry_t *entry)
{
    const datum_t *given = find_value(dict, entries, entry);
    if (given == NULL) return STATUS_OK;
    tensor_t *value = datum_as_tensor(given);
    TRY(to_dense(ctx, value, &value));
    TRY(tensor_cast(ctx, value, tensor_dtype(entry->tensor), &value));
    TRY(tensor_contiguous(ctx, value, &value));
    entry->value = value;
    return STATUS_OK;
}

/* True if the new elements are written to the existing tensor. module_assign_state_dict does this
 * only for an mkldnn tensor, which keeps its format. */
static bool is_written(const entry_t *entry, bool is_assigned)
{
    return !is_assigned || tensor_layout(entry->tensor) != LAYOUT_DENSE;
}

/* Prepares the new value of an entry: all that can fail, before the first value is written. */
static status_t prepare(context_t *ctx, const datum_t *dict, const entries_t *entries,
                        entry_t *entry, bool is_assigned)
{
    void *bytes = NULL;
    TRY(convert(ctx, dict, entries, entry));
    if (entry->value == NULL) return STATUS_OK;
    if (is_written(entry, is_assigned)) return tensor_writable(ctx, entry->tensor, &bytes);
    storage_set_packable(entry->value->storage, storage_is_packable(entry->tensor->storage));
    return STATUS_OK;
}

static status_t write_value(context_t *ctx, const entry_t *entry)
{
    const tensor_info_t *info = tensor_info(entry->tensor);
    if (info->layout != LAYOUT_DENSE || !info_is_contiguous(info))
        return tensor_copy(ctx, entry->tensor, entry->value);
    void *bytes = NULL;
    TRY(storage_restore(ctx, entry->value->storage, CAUSE_USER));
    TRY(tensor_writable(ctx, entry->tensor, &bytes));
    if (info_bytes(info) > 0) memmove(bytes, tensor_bytes(entry->value), info_bytes(info));
    return STATUS_OK;
}

static status_t load_entry(context_t *ctx, const entry_t *entry, bool is_assigned)
{
    if (entry->value == NULL) return STATUS_OK;
    if (is_written(entry, is_assigned)) return write_value(ctx, entry);
    return entry->kind == MEMBER_PARAMETER
               ? module_set_parameter(ctx, entry->owner, entry->name, entry->value)
               : module_set_buffer(ctx, entry->owner, entry->name, entry->value);
}

static status_t load(context_t *ctx, module_t *module, const datum_t *dict, bool is_strict,
                     bool is_assigned)
{
    if (module == NULL) return context_null(ctx, "load_state_dict", "module");
    if (dict == NULL) return context_null(ctx, "load_state_dict", "dict");
    REQUIRE(ctx, datum_kind(dict) == DATUM_DICT, "load_state_dict: a %s, must be a dict",
            datum_kind_name(datum_kind(dict)));
    entries_t entries = {0};
    TRY(scope_begin(ctx));
    status_t status = module_walk(ctx, module, list, &entries);
    if (status == STATUS_OK) status = check(ctx, module, dict, &entries, is_strict);
    for (int i = 0; i < entries.n && status == STATUS_OK; i++)
        status = prepare(ctx, dict, &entries, &entries.items[i], is_assigned);
    for (int i = 0; i < entries.n && status == STATUS_OK; i++)
        status = load_entry(ctx, &entries.items[i], is_assigned);
    status_t ended = scope_end(ctx);
    clear(ctx, &entries);
    return status != STATUS_OK ? status : ended;
}

status_t module_load_state_dict(context_t *ctx, module_t *module, const datum_t *dict)
{
    return load(ctx, module, dict, true, false);
}

status_t module_assign_state_dict(context_t *ctx, module_t *module, const datum_t *dict,
                                  bool is_strict)
{
    return load(ctx, module, dict, is_strict, true);
}
