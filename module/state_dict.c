#include "module/state_dict.h"

#include <string.h>

#include "module/module_impl.h"
#include "tensor/convert.h"
#include "tensor/scope.h"
#include "tensor/tensor_impl.h"
#include "tensor/text.h"

/* A parameter or buffer that is there, and the value it is to get. */
typedef struct entry {
    char *key;
    tensor_t *tensor;      /* borrowed from the module */
    const tensor_t *value; /* load: contiguous and of the tensor's dtype */
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
        entries->items[entries->n++] = (entry_t){key, member->is.tensor, NULL};
    }
    return STATUS_OK;
}

/* ---- out ---- */

static status_t put(context_t *ctx, datum_t *dict, const entry_t *entry)
{
    tensor_t *plain = NULL;
    datum_t *value = NULL;
    TRY(to_dense(ctx, entry->tensor, &plain));
    TRY(datum_tensor(ctx, plain, &value));
    status_t status = datum_put(ctx, dict, entry->key, value);
    datum_release(value);
    return status;
}

/* The scope takes what to_dense gives out. */
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
    if (status != STATUS_OK) {
        datum_release(dict);
        return status;
    }
    *out_dict = dict;
    return STATUS_OK;
}

/* ---- in ---- */

/* Counts of batches that training saw: older files do not have them, and inference does not look.
 */
static bool may_be_absent(const char *key)
{
    static const char name[] = "num_batches_tracked";
    const char *dot = strrchr(key, '.');
    return strcmp(dot != NULL ? dot + 1 : key, name) == 0;
}

static status_t check_entry(context_t *ctx, const module_t *module, const datum_t *dict,
                            const entry_t *entry)
{
    const datum_t *value = datum_find(dict, entry->key);
    if (value == NULL) return STATUS_OK;
    REQUIRE(ctx, datum_kind(value) == DATUM_TENSOR,
            "load_state_dict: \"%s\" is %s, must be a tensor", entry->key,
            datum_kind_name(datum_kind(value)));
    const tensor_t *given = datum_as_tensor(value);
    char is[128], wants[128];
    REQUIRE(
        ctx,
        shape_equal(tensor_rank(given), tensor_sizes(given), tensor_rank(entry->tensor),
                    tensor_sizes(entry->tensor)),
        "load_state_dict: \"%s\" is %s, %s has %s", entry->key,
        shape_text(tensor_rank(given), tensor_sizes(given), is, sizeof is), module_type(module),
        shape_text(tensor_rank(entry->tensor), tensor_sizes(entry->tensor), wants, sizeof wants));
    return STATUS_OK;
}

static bool has_key(const entries_t *entries, const char *key, int hint)
{
    if (hint < entries->n && strcmp(entries->items[hint].key, key) == 0) return true;
    for (int i = 0; i < entries->n; i++)
        if (strcmp(entries->items[i].key, key) == 0) return true;
    return false;
}

/* Names in a sentence, as many as can be read. */
typedef struct sentence {
    text_t text;
    int n;
} sentence_t;
#define MOST_NAMES 12

static void add_name(sentence_t *sentence, const char *name)
{
    if (++sentence->n > MOST_NAMES) return;
    if (sentence->n > 1) text_append(&sentence->text, ", ");
    text_append_quoted(&sentence->text, name);
}

static void end_sentence(sentence_t *sentence)
{
    if (sentence->n > MOST_NAMES)
        text_append(&sentence->text, " and %d more", sentence->n - MOST_NAMES);
}

static status_t fail_names(context_t *ctx, const module_t *module, const sentence_t *missing,
                           const sentence_t *unknown)
{
    const char *type = module_type(module);
    TRY(text_status(&missing->text));
    TRY(text_status(&unknown->text));
    const char *absent = text_string(&missing->text), *left = text_string(&unknown->text);
    const bool is_one = missing->n == 1, is_left_one = unknown->n == 1;
    if (missing->n > 0 && unknown->n > 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "load_state_dict: %s %s missing, %s needs %s; %s %s unknown, %s has no such parameter "
             "or buffer",
             absent, is_one ? "is" : "are", type, is_one ? "it" : "them", left,
             is_left_one ? "is" : "are", type);
    REQUIRE(ctx, missing->n == 0, "load_state_dict: %s %s missing, %s needs %s", absent,
            is_one ? "is" : "are", type, is_one ? "it" : "them");
    REQUIRE(ctx, unknown->n == 0,
            "load_state_dict: %s %s unknown, %s has no such parameter or buffer", left,
            is_left_one ? "is" : "are", type);
    return STATUS_OK;
}

static status_t check_names(context_t *ctx, const module_t *module, const datum_t *dict,
                            const entries_t *entries)
{
    sentence_t missing = {text_begin(ctx), 0}, unknown = {text_begin(ctx), 0};
    for (int i = 0; i < entries->n; i++) {
        const char *key = entries->items[i].key;
        if (datum_find(dict, key) == NULL && !may_be_absent(key)) add_name(&missing, key);
    }
    for (int i = 0; i < datum_length(dict); i++)
        if (!has_key(entries, datum_key(dict, i), i)) add_name(&unknown, datum_key(dict, i));
    end_sentence(&missing);
    end_sentence(&unknown);
    status_t status = fail_names(ctx, module, &missing, &unknown);
    text_clear(&missing.text);
    text_clear(&unknown.text);
    return status;
}

static status_t check(context_t *ctx, const module_t *module, const datum_t *dict,
                      const entries_t *entries)
{
    for (int i = 0; i < entries->n; i++) TRY(check_entry(ctx, module, dict, &entries->items[i]));
    return check_names(ctx, module, dict, entries);
}

/* Everything that can fail is done before the first value is written. */
static status_t prepare(context_t *ctx, const datum_t *dict, entry_t *entry)
{
    const datum_t *given = datum_find(dict, entry->key);
    if (given == NULL) return STATUS_OK;
    tensor_t *value = datum_as_tensor(given);
    void *bytes = NULL;
    TRY(to_dense(ctx, value, &value));
    TRY(tensor_cast(ctx, value, tensor_dtype(entry->tensor), &value));
    TRY(tensor_contiguous(ctx, value, &value));
    entry->value = value;
    return tensor_writable(ctx, entry->tensor, &bytes);
}

static status_t load(context_t *ctx, const entry_t *entry)
{
    if (entry->value == NULL) return STATUS_OK;
    const tensor_info_t *info = tensor_info(entry->tensor);
    if (info->layout != LAYOUT_DENSE || !info_is_contiguous(info))
        return tensor_copy(ctx, entry->tensor, entry->value);
    void *bytes = NULL;
    TRY(storage_restore(ctx, entry->value->storage, CAUSE_USER));
    TRY(tensor_writable(ctx, entry->tensor, &bytes));
    if (info_bytes(info) > 0) memmove(bytes, tensor_bytes(entry->value), info_bytes(info));
    return STATUS_OK;
}

status_t module_load_state_dict(context_t *ctx, module_t *module, const datum_t *dict)
{
    if (module == NULL) return context_null(ctx, "module_load_state_dict", "module");
    if (dict == NULL) return context_null(ctx, "module_load_state_dict", "dict");
    REQUIRE(ctx, datum_kind(dict) == DATUM_DICT, "load_state_dict: a %s, must be a dict",
            datum_kind_name(datum_kind(dict)));
    entries_t entries = {0};
    TRY(scope_begin(ctx));
    status_t status = module_walk(ctx, module, list, &entries);
    if (status == STATUS_OK) status = check(ctx, module, dict, &entries);
    for (int i = 0; i < entries.n && status == STATUS_OK; i++)
        status = prepare(ctx, dict, &entries.items[i]);
    for (int i = 0; i < entries.n && status == STATUS_OK; i++)
        status = load(ctx, &entries.items[i]);
    status_t ended = scope_end(ctx);
    clear(ctx, &entries);
    return status != STATUS_OK ? status : ended;
}
