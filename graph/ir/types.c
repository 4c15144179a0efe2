/* Creates, compares, joins and prints types. */
#include <inttypes.h>
#include <string.h>

#include "graph/ir/graph_impl.h"

static const graph_type_t plain_types[] = {
    [TYPE_UNKNOWN] = {.kind = TYPE_UNKNOWN}, [TYPE_TENSOR] = {.kind = TYPE_TENSOR},
    [TYPE_INT] = {.kind = TYPE_INT},         [TYPE_FLOAT] = {.kind = TYPE_FLOAT},
    [TYPE_BOOL] = {.kind = TYPE_BOOL},       [TYPE_STRING] = {.kind = TYPE_STRING},
    [TYPE_NONE] = {.kind = TYPE_NONE},       [TYPE_MODULE] = {.kind = TYPE_MODULE},
};

const graph_type_t *type_plain(type_kind_t kind)
{
    return kind < TYPE_LIST ? &plain_types[kind] : &plain_types[TYPE_UNKNOWN];
}

/* Only the kind stays: sizes, items and whether a value may be none may change between
 * iterations. */
const graph_type_t *type_carried(int index, const graph_type_t *carried)
{
    if (index == 0) return type_plain(TYPE_INT);
    bool changes = carried->is_optional || carried->kind == TYPE_NONE;
    return type_plain(changes ? TYPE_UNKNOWN : carried->kind);
}

bool type_is_static(const graph_type_t *type)
{
    if (type->kind != TYPE_TENSOR || !type->has_info) return false;
    for (int d = 0; d < type->info.rank; d++)
        if (type->info.sizes[d] < 0) return false;
    return true;
}

/* ---- creating ---- */

/* Number of parts of a type, or `most` + 1 if it has more than `most`. */
static int count_parts(const graph_type_t *type, int most)
{
    int n = 1;
    for (int i = 0; i < type->n_items && n <= most; i++)
        n += count_parts(&type->items[i], most - n);
    return n;
}

bool type_is_small(const graph_type_t *type)
{
    return count_parts(type, GRAPH_MAX_PARTS) <= GRAPH_MAX_PARTS;
}

/* Depth of nested types. Types in graphs are small or copies, so the recursion ends. */
static int count_levels(const graph_type_t *type)
{
    int most = 0;
    for (int i = 0; i < type->n_items; i++) {
        int levels = count_levels(&type->items[i]);
        if (levels > most) most = levels;
    }
    return most + 1;
}

/* Computes contiguous strides; unknown sizes count as 1. */
static void dense_strides(const tensor_info_t *info, int64_t *out_strides)
{
    int64_t sizes[TENSOR_MAX_RANK];
    for (int d = 0; d < info->rank; d++) sizes[d] = info->sizes[d] < 0 ? 1 : info->sizes[d];
    shape_strides(info->rank, sizes, out_strides);
}

/* Normalises a type: a dense tensor gets explicit strides; a number becomes a tensor of rank 0. */
static void normalize_info(graph_type_t *type)
{
    tensor_info_t *info = &type->info;
    info->is_number = false;
    for (int d = 0; d < info->rank; d++)
        if (info->sizes[d] < 0) info->sizes[d] = -1;
    if (info->layout != LAYOUT_DENSE || info->format.kind == FORMAT_STRIDED) return;
    format_t format = {.kind = FORMAT_STRIDED, .rank = (uint8_t)info->rank};
    if (info->format.kind == FORMAT_TAG && type_is_static(type))
        format_strides(&info->format, info->sizes, format.strides);
    else
        dense_strides(info, format.strides);
    info->format = format;
}

static status_t copy_dims(context_t *ctx, graph_t *graph, const graph_type_t *type,
                          const char *const **out_dims)
{
    bool has_names = false;
    for (int d = 0; d < type->info.rank && type->dims != NULL; d++)
        has_names = has_names || type->dims[d] != NULL;
    *out_dims = NULL;
    if (!has_names) return STATUS_OK;
    const char **dims = NULL;
    TRY(graph_get(ctx, graph, (size_t)type->info.rank * sizeof *dims, &dims));
    for (int d = 0; d < type->info.rank; d++)
        TRY(graph_string(ctx, graph, type->dims[d], &dims[d]));
    *out_dims = dims;
    return STATUS_OK;
}

static status_t copy_into(context_t *ctx, graph_t *graph, const graph_type_t *type, int depth,
                          graph_type_t *out_copy)
{
    REQUIRE(ctx, depth < GRAPH_MAX_NESTING, "type: nested more than %d deep", GRAPH_MAX_NESTING);
    *out_copy = (graph_type_t){.kind = type->kind, .is_optional = type->is_optional};
    if (type->kind == TYPE_UNKNOWN) out_copy->is_optional = false;
    if (type->kind == TYPE_TENSOR && type->has_info && type->info.dtype != DTYPE_NONE) {
        REQUIRE(ctx, type->info.rank >= 0 && type->info.rank <= TENSOR_MAX_RANK,
                "type: rank %d, must be 0 to %d", type->info.rank, TENSOR_MAX_RANK);
        out_copy->has_info = true;
        out_copy->info = type->info;
        normalize_info(out_copy);
        TRY(copy_dims(ctx, graph, type, &out_copy->dims));
    }
    if (type->kind < TYPE_LIST) return STATUS_OK;
    int n = type->n_items;
    REQUIRE(ctx, type->kind != TYPE_LIST || n == 1, "type: a list has %d item types, must be 1", n);
    REQUIRE(ctx, type->kind != TYPE_DICT || n == 2, "type: a dict has %d item types, must be 2", n);
    graph_type_t *items = NULL;
    TRY(graph_get(ctx, graph, (size_t)n * sizeof *items, &items));
    for (int i = 0; i < n; i++) TRY(copy_into(ctx, graph, &type->items[i], depth + 1, &items[i]));
    out_copy->n_items = n;
    out_copy->items = items;
    return STATUS_OK;
}

status_t type_copy(context_t *ctx, graph_t *graph, const graph_type_t *type,
                   const graph_type_t **out_type)
{
    if (type == NULL || (type->kind < TYPE_LIST && !type->is_optional && !type->has_info)) {
        *out_type = type_plain(type != NULL ? type->kind : TYPE_UNKNOWN);
        return STATUS_OK;
    }
    graph_type_t *copy = NULL;
    TRY(graph_get(ctx, graph, sizeof *copy, &copy));
    TRY(copy_into(ctx, graph, type, 0, copy));
    *out_type = copy;
    return STATUS_OK;
}

status_t type_of_info(context_t *ctx, graph_t *graph, const tensor_info_t *info,
                      const graph_type_t **out_type)
{
    graph_type_t type = {.kind = TYPE_TENSOR, .has_info = true, .info = *info};
    return type_copy(ctx, graph, &type, out_type);
}

status_t type_of_items(context_t *ctx, graph_t *graph, type_kind_t kind, int n,
                       const graph_type_t *const *items, const graph_type_t **out_type)
{
    int n_parts = 1;
    *out_type = type_plain(TYPE_UNKNOWN);
    for (int i = 0; i < n && n_parts <= GRAPH_MAX_PARTS; i++)
        n_parts += count_parts(items[i], GRAPH_MAX_PARTS);
    if (n_parts > GRAPH_MAX_PARTS) return STATUS_OK;
    graph_type_t *type = NULL, *copies = NULL;
    TRY(graph_get(ctx, graph, sizeof *type, &type));
    TRY(graph_get(ctx, graph, (size_t)n * sizeof *copies, &copies));
    for (int i = 0; i < n; i++) copies[i] = *items[i];
    *type = (graph_type_t){.kind = kind, .n_items = n, .items = copies};
    if (count_levels(type) <= GRAPH_MAX_NESTING) *out_type = type;
    return STATUS_OK;
}

/* ---- types of constants ---- */

static status_t type_of_level(context_t *ctx, graph_t *graph, const datum_t *datum, int depth,
                              const graph_type_t **out_type);

static status_t type_of_entries(context_t *ctx, graph_t *graph, const datum_t *datum, int depth,
                                const graph_type_t **out_type)
{
    const graph_type_t *types[GRAPH_MAX_PARTS] = {NULL, type_plain(TYPE_UNKNOWN)};
    const graph_type_t *item = NULL;
    int n = datum_length(datum);
    datum_kind_t kind = datum_kind(datum);
    REQUIRE(ctx, kind != DATUM_DICT || n <= GRAPH_MAX_DICT,
            "constant: a dict with %d keys, at most %d are allowed", n, GRAPH_MAX_DICT);
    for (int i = 0; i < n; i++) {
        TRY(type_of_level(ctx, graph, datum_item(datum, i), depth + 1, &item));
        if (kind == DATUM_TUPLE && i < GRAPH_MAX_PARTS)
            types[i] = item;
        else if (kind != DATUM_TUPLE && i == 0)
            types[1] = item;
        else if (kind != DATUM_TUPLE && item != types[1])
            TRY(type_join(ctx, graph, types[1], item, &types[1]));
    }
    if (kind == DATUM_LIST) return type_of_items(ctx, graph, TYPE_LIST, 1, &types[1], out_type);
    if (kind == DATUM_DICT) {
        types[0] = type_plain(TYPE_STRING);
        return type_of_items(ctx, graph, TYPE_DICT, 2, types, out_type);
    }
    *out_type = type_plain(TYPE_UNKNOWN);
    if (n > GRAPH_MAX_PARTS) return STATUS_OK;
    return type_of_items(ctx, graph, TYPE_TUPLE, n, types, out_type);
}

static status_t type_of_level(context_t *ctx, graph_t *graph, const datum_t *datum, int depth,
                              const graph_type_t **out_type)
{
    REQUIRE(ctx, depth < GRAPH_MAX_NESTING, "constant: nested more than %d deep",
            GRAPH_MAX_NESTING);
    type_kind_t kind = TYPE_UNKNOWN;
    switch (datum_kind(datum)) {
    case DATUM_NONE: kind = TYPE_NONE; break;
    case DATUM_INT: kind = TYPE_INT; break;
    case DATUM_FLOAT: kind = TYPE_FLOAT; break;
    case DATUM_BOOL: kind = TYPE_BOOL; break;
    case DATUM_STRING: kind = TYPE_STRING; break;
    case DATUM_TENSOR:
        return type_of_info(ctx, graph, tensor_info(datum_as_tensor(datum)), out_type);
    case DATUM_LIST:
    case DATUM_TUPLE:
    case DATUM_DICT: return type_of_entries(ctx, graph, datum, depth, out_type);
    }
    *out_type = type_plain(kind);
    return STATUS_OK;
}

status_t type_of_datum(context_t *ctx, graph_t *graph, const datum_t *datum,
                       const graph_type_t **out_type)
{
    return type_of_level(ctx, graph, datum, 0, out_type);
}

/* ---- comparing ---- */

static bool same_format(const tensor_info_t *a, const tensor_info_t *b, bool is_static)
{
    const format_t *x = &a->format, *y = &b->format;
    if (is_static || x->kind == FORMAT_ANY) {
        if (x->kind == FORMAT_ANY || y->kind == FORMAT_ANY) return x->kind == y->kind;
        return format_same(x, y, a->sizes);
    }
    if (x->kind != y->kind || x->rank != y->rank || x->n_blocks != y->n_blocks) return false;
    if (x->kind == FORMAT_STRIDED)
        return memcmp(x->strides, y->strides, x->rank * sizeof *x->strides) == 0;
    return memcmp(x->order, y->order, x->rank) == 0 &&
           memcmp(x->block_dims, y->block_dims, x->n_blocks) == 0 &&
           memcmp(x->block_sizes, y->block_sizes, x->n_blocks * sizeof *x->block_sizes) == 0;
}

static bool equal_infos(const graph_type_t *a, const graph_type_t *b)
{
    if (a->has_info != b->has_info) return false;
    if (!a->has_info) return true;
    if (a->info.dtype != b->info.dtype || a->info.layout != b->info.layout ||
        !shape_equal(a->info.rank, a->info.sizes, b->info.rank, b->info.sizes))
        return false;
    for (int d = 0; d < a->info.rank; d++) {
        const char *x = type_dim_name(a, d), *y = type_dim_name(b, d);
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0)) return false;
    }
    return same_format(&a->info, &b->info, type_is_static(a));
}

bool type_equal(const graph_type_t *a, const graph_type_t *b)
{
    if (a == b) return true;
    if (a->kind != b->kind || a->is_optional != b->is_optional || a->n_items != b->n_items)
        return false;
    if (a->kind == TYPE_TENSOR && !equal_infos(a, b)) return false;
    for (int i = 0; i < a->n_items; i++)
        if (!type_equal(&a->items[i], &b->items[i])) return false;
    return true;
}

static bool infos_fit(const graph_type_t *a, const graph_type_t *b, bool *out_formats_only)
{
    const tensor_info_t *x = &a->info, *y = &b->info;
    if (!a->has_info || !b->has_info) return true;
    if (x->dtype != y->dtype || x->rank != y->rank) return false;
    for (int d = 0; d < x->rank; d++)
        if (x->sizes[d] >= 0 && y->sizes[d] >= 0 && x->sizes[d] != y->sizes[d]) return false;
    bool fits = x->layout == y->layout;
    if (fits && x->layout == LAYOUT_MKLDNN && x->format.kind != FORMAT_ANY &&
        y->format.kind != FORMAT_ANY)
        fits = same_format(x, y, type_is_static(a));
    *out_formats_only = !fits;
    return fits;
}

bool type_fits(const graph_type_t *a, const graph_type_t *b, bool *out_formats_only)
{
    bool ignored;
    if (out_formats_only == NULL) out_formats_only = &ignored;
    *out_formats_only = false;
    if (a->kind == TYPE_UNKNOWN || b->kind == TYPE_UNKNOWN) return true;
    if (a->kind == TYPE_NONE && b->is_optional) return true;
    if (b->kind == TYPE_NONE && a->is_optional) return true;
    if (a->kind != b->kind || a->n_items != b->n_items) return false;
    if (a->kind == TYPE_TENSOR) return infos_fit(a, b, out_formats_only);
    for (int i = 0; i < a->n_items; i++)
        if (!type_fits(&a->items[i], &b->items[i], out_formats_only)) return false;
    return true;
}

static status_t make_optional(context_t *ctx, graph_t *graph, const graph_type_t *type,
                              const graph_type_t **out_type)
{
    *out_type = type;
    if (type->is_optional || type->kind == TYPE_UNKNOWN || type->kind == TYPE_NONE)
        return STATUS_OK;
    graph_type_t *copy = NULL;
    TRY(graph_get(ctx, graph, sizeof *copy, &copy));
    *copy = *type;
    copy->is_optional = true;
    *out_type = copy;
    return STATUS_OK;
}

status_t type_join(context_t *ctx, graph_t *graph, const graph_type_t *a, const graph_type_t *b,
                   const graph_type_t **out_type)
{
    *out_type = type_plain(TYPE_UNKNOWN);
    if (!type_is_small(a) || !type_is_small(b)) return STATUS_OK;
    if (a->kind == TYPE_UNKNOWN || b->kind == TYPE_UNKNOWN) return STATUS_OK;
    if (type_equal(a, b)) {
        *out_type = a;
        return STATUS_OK;
    }
    if (a->kind == TYPE_NONE) return make_optional(ctx, graph, b, out_type);
    if (b->kind == TYPE_NONE) return make_optional(ctx, graph, a, out_type);
    if (a->kind != b->kind || a->kind >= TYPE_LIST) return STATUS_OK;
    if (a->is_optional || b->is_optional)
        return make_optional(ctx, graph, type_plain(a->kind), out_type);
    *out_type = type_plain(a->kind);
    return STATUS_OK;
}

/* ---- printing ---- */

/* True unless the tensor is dense and contiguous. */
static bool prints_format(const graph_type_t *type)
{
    const tensor_info_t *info = &type->info;
    if (info->layout == LAYOUT_MKLDNN) return true;
    if (type_is_static(type)) return !info_is_contiguous(info);
    int64_t strides[TENSOR_MAX_RANK];
    dense_strides(info, strides);
    return memcmp(strides, info->format.strides, (size_t)info->rank * sizeof *strides) != 0;
}

static void print_tensor(const graph_type_t *type, text_t *text)
{
    const tensor_info_t *info = &type->info;
    if (!type->has_info) {
        text_append(text, "tensor");
        return;
    }
    text_append(text, "%s[", dtype_name(info->dtype));
    for (int d = 0; d < info->rank; d++) {
        const char *name = type_dim_name(type, d);
        text_append(text, "%s%s", d > 0 ? "," : "", name != NULL ? name : "");
        if (info->sizes[d] >= 0)
            text_append(text, "%s%" PRId64, name != NULL ? "=" : "", info->sizes[d]);
        else if (name == NULL)
            text_append(text, "?");
    }
    text_append(text, "]");
    if (!prints_format(type)) return;
    char format[FORMAT_TEXT_MAX];
    text_append(text, "%s%s", info->layout == LAYOUT_MKLDNN ? "@" : "",
                format_text(&info->format, format));
}

void type_print(const graph_type_t *type, text_t *text)
{
    static const char *const words[] = {
        [TYPE_UNKNOWN] = "?",     [TYPE_INT] = "int",       [TYPE_FLOAT] = "float",
        [TYPE_BOOL] = "bool",     [TYPE_STRING] = "string", [TYPE_NONE] = "none",
        [TYPE_MODULE] = "module", [TYPE_LIST] = "list",     [TYPE_TUPLE] = "tuple",
        [TYPE_DICT] = "dict"};
    if (type->kind == TYPE_TENSOR)
        print_tensor(type, text);
    else
        text_append(text, "%s", words[type->kind]);
    if (type->kind >= TYPE_LIST) {
        text_append(text, "<");
        for (int i = 0; i < type->n_items; i++) {
            if (i > 0) text_append(text, ",");
            type_print(&type->items[i], text);
        }
        text_append(text, ">");
    }
    if (type->is_optional) text_append(text, "?");
}
