/* Items, their names, and how known items are stored in the module. */
#include "io/onnx/node_impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/file/file.h"
#include "tensor/scope_impl.h"
#include "tensor/tensor_impl.h"

/* ---- creating ---- */

static status_t add_item(onnx_t *onnx, const onnx_item_t *item, item_t *out_item)
{
    TRY(context_grow(onnx->ctx, &onnx->items, &onnx->items_capacity, onnx->n_items + 1,
                     sizeof *onnx->items));
    onnx->items[onnx->n_items] = *item;
    *out_item = onnx->n_items++;
    return STATUS_OK;
}

status_t onnx_item_take(onnx_t *onnx, const char *name, tensor_t *tensor, item_t *out_item)
{
    onnx_item_t item = {
        .name = name, .known = tensor, .call = -1, .value = VALUE_NONE, .transposed = ITEM_NONE};
    status_t status = add_item(onnx, &item, out_item);
    if (status != STATUS_OK) tensor_drop(tensor);
    return status;
}

status_t onnx_value(onnx_t *onnx, const char *name, const tensor_info_t *info, item_t *out_item)
{
    onnx_item_t item = {
        .name = name, .info = *info, .call = -1, .value = VALUE_NONE, .transposed = ITEM_NONE};
    return add_item(onnx, &item, out_item);
}

void onnx_cut_items(onnx_t *onnx, int first)
{
    for (int i = first; i < onnx->n_items; i++) {
        tensor_drop(onnx->items[i].known);
        context_put(onnx->ctx, onnx->items[i].symbols);
    }
    if (first >= onnx->n_items) return;
    onnx->n_items = first;
    for (int i = 0; i < first; i++)
        if (onnx->items[i].transposed >= first) onnx->items[i].transposed = ITEM_NONE;
}

status_t onnx_number(onnx_t *onnx, double number, item_t *out_item)
{
    tensor_t *tensor = NULL;
    TRY(tensor_number(onnx->ctx, number, &tensor));
    scope_take(onnx->ctx, tensor);
    return onnx_item_take(onnx, NULL, tensor, out_item);
}

status_t onnx_integer(onnx_t *onnx, int64_t number, item_t *out_item)
{
    tensor_t *tensor = NULL;
    TRY(tensor_integer(onnx->ctx, number, &tensor));
    scope_take(onnx->ctx, tensor);
    return onnx_item_take(onnx, NULL, tensor, out_item);
}

status_t onnx_vector(onnx_t *onnx, const char *name, int n, const int64_t *elements,
                     item_t *out_item)
{
    tensor_t *tensor = NULL;
    bool has_symbols = false;
    for (int i = 0; i < n; i++) has_symbols = has_symbols || sym_is(elements[i]);
    if (has_symbols) {
        const tensor_info_t info = info_dense(DTYPE_S64, 1, (int64_t[]){n});
        TRY(onnx_value(onnx, name, &info, out_item));
        return onnx_set_symbols(onnx, *out_item, false, elements);
    }
    TRY(tensor_from(onnx->ctx, DTYPE_S64, 1, (int64_t[]){n}, elements, &tensor));
    scope_take(onnx->ctx, tensor);
    return onnx_item_take(onnx, name, tensor, out_item);
}

const tensor_info_t *onnx_info(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    return item->known != NULL ? tensor_info(item->known) : &item->info;
}

tensor_t *onnx_tensor_of(const onnx_t *onnx, item_t item)
{
    return onnx->items[item].known;
}

/* ---- symbols ---- */

status_t onnx_set_symbols(onnx_t *onnx, item_t index, bool is_live, const int64_t *symbols)
{
    onnx_item_t *item = &onnx->items[index];
    const size_t bytes = (size_t)info_numel(&item->info) * sizeof *symbols;
    TRY(context_get(onnx->ctx, bytes + 1, "symbols", &item->symbols));
    if (bytes > 0) memcpy(item->symbols, symbols, bytes);
    item->is_live = is_live;
    return STATUS_OK;
}

int64_t onnx_unknown_size(onnx_t *onnx)
{
    char name[ONNX_NAME_MAX];
    snprintf(name, sizeof name, "_u%d", onnx->n_unknown++);
    return sym_name(onnx->ctx, name, SYM_NO_HINT, 0, INT64_MAX / 16);
}

static int64_t unknown_element(onnx_t *onnx, dtype_t dtype)
{
    char name[ONNX_NAME_MAX];
    const bool is_short = dtype == DTYPE_S32;
    snprintf(name, sizeof name, "_e%d", onnx->n_unknown++);
    return sym_name(onnx->ctx, name, SYM_NO_HINT, is_short ? INT32_MIN : -(INT64_MAX / 16),
                    is_short ? INT32_MAX : INT64_MAX / 16);
}

status_t onnx_name_elements(onnx_t *onnx, item_t index)
{
    enum { MAX_NAMED = 16 };
    const tensor_info_t *info = &onnx->items[index].info;
    int64_t symbols[MAX_NAMED];
    const bool is_integer = info->dtype == DTYPE_S64 || info->dtype == DTYPE_S32;
    if (!is_integer || info->rank > 1 || (info->rank == 1 && sym_is(info->sizes[0])) ||
        info_numel(info) > MAX_NAMED)
        return STATUS_OK;
    for (int64_t i = 0; i < info_numel(info); i++) symbols[i] = unknown_element(onnx, info->dtype);
    return onnx_set_symbols(onnx, index, true, symbols);
}

bool onnx_hint_info(const onnx_t *onnx, const tensor_info_t *info, tensor_info_t *out_info)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < info->rank; d++) {
        sizes[d] = sym_hint(onnx->ctx, info->sizes[d]);
        if (sizes[d] == SYM_NONE) return false;
    }
    *out_info = info_dense(info->dtype, info->rank, sizes);
    out_info->is_number = info->is_number;
    return true;
}

/* ---- sizes of an operand ---- */

typedef struct dims {
    int n;
    int64_t sizes[TENSOR_MAX_RANK], names[TENSOR_MAX_RANK]; /* "#0", "#1", ... */
    int64_t given[TENSOR_MAX_RANK];
} dims_t;

/* Replaces the symbol of a size with the operand's dimension of this size. */
static bool put_dim(void *user, int name, const char *text, int64_t *out_value)
{
    const dims_t *dims = user;
    (void)text;
    for (int d = 0; d < dims->n; d++) {
        if (dims->given[d] != name) continue;
        *out_value = dims->names[d];
        return true;
    }
    return false;
}

static bool is_unknown(void *user, int name, const char *text)
{
    (void)user, (void)name;
    return *text == '_';
}

static bool note_name(void *user, int name, const char *text)
{
    (void)text;
    *(int64_t *)user = name;
    return true;
}

int64_t onnx_by_operand(onnx_t *onnx, item_t operand, int64_t symbol)
{
    context_t *ctx = onnx->ctx;
    dims_t dims = {.n = onnx_info(onnx, operand)->rank};
    for (int d = 0; d < dims.n; d++) {
        const int64_t size = onnx_info(onnx, operand)->sizes[d];
        char name[16];
        snprintf(name, sizeof name, "#%d", d);
        dims.names[d] = sym_name(ctx, name, SYM_NO_HINT, 0, INT64_MAX / 16);
        dims.given[d] = -1;
        char text[ONNX_NAME_MAX];
        if (onnx_is_symbol(size) && *sym_text(ctx, size, sizeof text, text) == '_' &&
            strpbrk(text, "+-*/%(") == NULL)
            (void)sym_any_name(onnx->space, size, note_name, &dims.given[d]);
    }
    int64_t value = SYM_NONE;
    scope_attempt(ctx);
    status_t status = sym_put(ctx, onnx->space, symbol, onnx->space, put_dim, &dims, &value);
    (void)scope_attempt_end(ctx, status, status != STATUS_OK);
    const bool is_found = status == STATUS_OK &&
                          !sym_any_name(onnx->space, value, is_unknown, NULL);
    return is_found ? value : SYM_NONE;
}

bool onnx_is_known(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    return item->known != NULL || (item->symbols != NULL && !item->is_live);
}

/* ---- sequences and optionals ---- */

bool onnx_is_special(const onnx_t *onnx, item_t index)
{
    const onnx_item_t *item = &onnx->items[index];
    return item->is_sequence || item->is_optional || item->is_none;
}

bool onnx_is_listed(const onnx_t *onnx, item_t index, int *out_n, const item_t **out_items)
{
    const onnx_item_t *item = &onnx->items[index];
    if (!item->is_sequence || item->is_optional || item->call < 0) return false;
    const onnx_noted_t *call = &onnx->calls[item->call];
    if (call->kind != ONNX_CALL_BUILTIN || !call->is_known) return false;
    *out_n = call->n_in;
    *out_items = call->in;
    return true;
}

tensor_info_t onnx_element_info(const onnx_t *onnx, item_t index)
{
    const tensor_info_t *info = onnx_info(onnx, index);
    tensor_info_t element = {.dtype = info->dtype, .rank = info->rank};
    for (int d = 0; d < info->rank; d++) element.sizes[d] = info->sizes[d];
    return element;
}

void onnx_set_element(onnx_t *onnx, item_t index, const tensor_info_t *element)
{
    onnx->items[index].info = *element;
}

tensor_info_t onnx_join_elements(const tensor_info_t *a, const tensor_info_t *b)
{
    tensor_info_t element = *a;
    if (a->dtype == DTYPE_NONE) element.dtype = b->dtype;
    if (b->rank == ONNX_RANK_NONE) return element;
    if (a->rank == ONNX_RANK_NONE) {
        const dtype_t dtype = element.dtype;
        element = *b;
        element.dtype = dtype;
        return element;
    }
    if (a->rank != b->rank) element.rank = ONNX_RANK_ANY;
    for (int d = 0; d < element.rank; d++)
        if (a->sizes[d] != b->sizes[d]) element.sizes[d] = -1;
    return element;
}

bool onnx_same_elements(const tensor_info_t *a, const tensor_info_t *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) return false;
    return a->rank <= 0 || shape_equal(a->rank, a->sizes, b->rank, b->sizes);
}

/* ---- names ---- */

static onnx_name_t *find_name(const onnx_t *onnx, const char *name)
{
    size_t mask = (size_t)onnx->names_capacity - 1;
    size_t i = (size_t)file_checksum(name, strlen(name), 0) & mask;
    while (onnx->names[i].name != NULL && strcmp(onnx->names[i].name, name) != 0)
        i = (i + 1) & mask;
    return &onnx->names[i];
}

static status_t grow_names(onnx_t *onnx)
{
    onnx_name_t *old = onnx->names, *names = NULL;
    int n = onnx->names_capacity, capacity = n > 0 ? 2 * n : 64;
    TRY(context_get_zeroed(onnx->ctx, (size_t)capacity * sizeof *names, "names", &names));
    onnx->names = names;
    onnx->names_capacity = capacity;
    for (int i = 0; i < n; i++)
        if (old[i].name != NULL) *find_name(onnx, old[i].name) = old[i];
    context_put(onnx->ctx, old);
    return STATUS_OK;
}

status_t onnx_bind(onnx_t *onnx, const char *name, item_t item)
{
    if (2 * onnx->n_names >= onnx->names_capacity) TRY(grow_names(onnx));
    TRY(context_grow(onnx->ctx, &onnx->bound, &onnx->bound_capacity, onnx->n_bound + 1,
                     sizeof *onnx->bound));
    onnx_name_t *entry = find_name(onnx, name);
    const bool is_bound = entry->name != NULL && entry->item != ITEM_NONE;
    if (is_bound && entry->at >= onnx->first_bound)
        FAIL(onnx->ctx, STATUS_CORRUPT, "value \"%s\" is made twice", name);
    onnx->bound[onnx->n_bound] = (onnx_name_t){name, is_bound ? entry->item : ITEM_NONE, entry->at};
    onnx->n_names += entry->name == NULL;
    *entry = (onnx_name_t){name, item, onnx->n_bound++};
    return STATUS_OK;
}

void onnx_unbind(onnx_t *onnx, int n_bound)
{
    while (onnx->n_bound > n_bound) {
        const onnx_name_t *before = &onnx->bound[--onnx->n_bound];
        *find_name(onnx, before->name) = *before;
    }
}

item_t onnx_find(const onnx_t *onnx, const char *name)
{
    if (onnx->names_capacity == 0) return ITEM_NONE;
    const onnx_name_t *entry = find_name(onnx, name);
    return entry->name != NULL ? entry->item : ITEM_NONE;
}

/* ---- the module's tree ---- */

#define MAX_STEPS 16 /* maximum number of names in a dotted path */

/* True if the name is taken. "forward" is reserved for the method. */
static bool has_member(const module_t *module, const char *name)
{
    member_kind_t kind;
    if (strcmp(name, "forward") == 0) return true;
    for (int i = 0; i < module_n_members(module); i++)
        if (strcmp(module_member(module, i, &kind), name) == 0) return true;
    return false;
}

/* True if the path can be added: its last name is free, and the others are children or free. */
static bool is_free_path(const module_t *module, char *path)
{
    int n_steps = 1;
    for (char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        if (dot == path || ++n_steps > MAX_STEPS) return false;
        *dot = '\0';
        const module_t *child = module != NULL ? module_child(module, path) : NULL;
        bool is_clash = module != NULL && child == NULL && has_member(module, path);
        *dot = '.';
        if (is_clash) return false;
        module = child;
    }
    return *path != '\0' && (module == NULL || !has_member(module, path));
}

/* Replaces dots with '_' and adds a number until the name is free. */
static void choose_name(const module_t *module, size_t length, char *name)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '.') name[i] = '_';
    if (length == 0) name[length++] = '_', name[length] = '\0';
    for (int number = 1; has_member(module, name); number++)
        snprintf(name + length, 16, "_%d", number);
}

static status_t set_leaf(context_t *ctx, module_t *module, char *path, tensor_t *tensor,
                         bool is_buffer)
{
    for (char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        *dot = '\0';
        module_t *child = module_child(module, path);
        if (child == NULL) {
            module_t *made = NULL;
            TRY(module_create(ctx, "Module", &made));
            status_t status = module_set_child(ctx, module, path, made);
            module_release(made);
            TRY(status);
            child = made;
        }
        *dot = '.';
        module = child;
    }
    return is_buffer ? module_set_buffer(ctx, module, path, tensor)
                     : module_set_parameter(ctx, module, path, tensor);
}

status_t onnx_place(onnx_t *onnx, const char *name, tensor_t *tensor, bool is_buffer,
                    char **out_path)
{
    context_t *ctx = onnx->ctx;
    char *path = NULL;
    if (name == NULL) name = "";
    size_t length = strlen(name);
    TRY(context_get(ctx, length + 18, "a parameter's path", &path));
    memcpy(path, name, length + 1);
    if (!is_free_path(onnx->module, path)) choose_name(onnx->module, length, path);
    status_t status = set_leaf(ctx, onnx->module, path, tensor, is_buffer);
    GIVE(status, out_path, path, context_put(ctx, path));
}

/* ---- known items in the graph ---- */

static status_t add_literal(onnx_t *onnx, const tensor_t *tensor, value_t *out_value)
{
    context_t *ctx = onnx->ctx;
    datum_t *datum = NULL;
    if (dtype_is_floating(tensor_dtype(tensor))) {
        double number = 0;
        TRY(tensor_item(ctx, tensor, &number));
        TRY(datum_float(ctx, number, &datum));
    } else {
        int64_t number = 0;
        TRY(tensor_item_integer(ctx, tensor, &number));
        TRY(datum_int(ctx, number, &datum));
    }
    *out_value = graph_add_literal(onnx->builder, datum);
    datum_release(datum);
    return STATUS_OK;
}

static status_t add_constant(onnx_t *onnx, const onnx_item_t *item, value_t *out_value)
{
    datum_t *datum = NULL;
    TRY(datum_tensor(onnx->ctx, item->known, &datum));
    *out_value = graph_add_constant(onnx->builder, datum, item->name);
    datum_release(datum);
    return STATUS_OK;
}

static status_t add_attribute(onnx_t *onnx, const onnx_item_t *item, value_t *out_value)
{
    char *path = NULL;
    const bool is_buffer = item->is_state || !dtype_is_floating(tensor_dtype(item->known));
    TRY(onnx_place(onnx, item->name, item->known, is_buffer, &path));
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = *tensor_info(item->known)};
    *out_value = graph_add_getattr(onnx->builder, onnx->self, path, &type);
    context_put(onnx->ctx, path);
    return STATUS_OK;
}

/* Replaces the tensor with a copy if it is a view, or dense and not contiguous. */
static status_t settle(context_t *ctx, onnx_item_t *item)
{
    const tensor_info_t *info = tensor_info(item->known);
    const bool is_plain = info->layout == LAYOUT_MKLDNN || info_is_contiguous(info);
    if (!item->is_view && is_plain) return STATUS_OK;
    tensor_t *copy = NULL;
    TRY(tensor_duplicate(ctx, item->known, &copy));
    tensor_drop(item->known);
    item->known = copy;
    item->is_view = false;
    return STATUS_OK;
}

status_t onnx_value_of(onnx_t *onnx, item_t index, value_t *out_value)
{
    onnx_item_t *item = &onnx->items[index];
    if (item->is_none) {
        item->value = VALUE_NONE;
    } else if (item->value == VALUE_NONE && item->symbols != NULL) {
        TRY(onnx_calculate(onnx, index, &item->value));
    } else if (item->value == VALUE_NONE) {
        const tensor_info_t *info = tensor_info(item->known);
        bool has_several = dtype_is_floating(info->dtype) && info_numel(info) > 1;
        if (info->is_number) {
            TRY(add_literal(onnx, item->known, &item->value));
        } else {
            TRY(settle(onnx->ctx, item));
            TRY(item->is_weight || has_several ? add_attribute(onnx, item, &item->value)
                                               : add_constant(onnx, item, &item->value));
        }
    }
    *out_value = item->value;
    return STATUS_OK;
}
