#include "module/placement_impl.h"

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "module/layers/layers_impl.h"
#include "module/module_impl.h"

#define BEFORE "dense2mkldnn_"
#define BEHIND "mkldnn2dense_"
#define PATH_MAX_BYTES 512

/* One call of an operator. */
typedef struct call {
    char *path;
    bool is_mkldnn; /* its first result is in mkldnn layout */
} call_t;

struct placement {
    observer_t observer;
    char path[PATH_MAX_BYTES];
    bool is_cut; /* `path` was too long and was truncated */
    call_t *calls;
    int n, capacity;
    module_t **changed; /* Sequentials into which conversion layers were inserted */
    int n_changed, changed_capacity;
};

/* ---- watching ---- */

static status_t note_call(context_t *ctx, void *user, const op_event_t *event)
{
    placement_t *placement = user;
    TRY(context_grow(ctx, &placement->calls, &placement->capacity, placement->n + 1,
                     sizeof *placement->calls));
    call_t *call = &placement->calls[placement->n];
    TRY(context_string(ctx, placement->path, &call->path));
    call->is_mkldnn = event->n_out > 0 && tensor_layout(event->out[0]) == LAYOUT_MKLDNN;
    placement->n++;
    return STATUS_OK;
}

static void enter(context_t *ctx, void *user, const char *name)
{
    (void)ctx;
    placement_t *placement = user;
    size_t length = strlen(placement->path), room = sizeof placement->path - length;
    int n = snprintf(placement->path + length, room, "%s.", name);
    placement->is_cut = placement->is_cut || n < 0 || (size_t)n >= room;
}

static void leave(context_t *ctx, void *user, const char *name)
{
    (void)ctx;
    placement_t *placement = user;
    size_t length = strlen(placement->path), less = strlen(name) + 1;
    if (!placement->is_cut && length >= less) placement->path[length - less] = '\0';
}

status_t placement_begin(context_t *ctx, placement_t **out_placement)
{
    placement_t *placement = NULL;
    TRY(context_get_zeroed(ctx, sizeof *placement, "the layouts of layers", &placement));
    placement->observer = (observer_t){
        .user = placement, .op_end = note_call, .module_enter = enter, .module_leave = leave};
    *out_placement = placement;
    return STATUS_OK;
}

status_t placement_watch(context_t *ctx, placement_t *placement)
{
    return dispatch_add_observer(ctx, &placement->observer);
}

void placement_unwatch(context_t *ctx, placement_t *placement)
{
    dispatch_remove_observer(ctx, &placement->observer);
}

void placement_end(context_t *ctx, placement_t *placement)
{
    if (placement == NULL) return;
    for (int i = 0; i < placement->n; i++) context_put(ctx, placement->calls[i].path);
    CONTEXT_PUT(ctx, placement->calls, placement->changed, placement);
}

/* True if the first and the last operator that a layer called returned mkldnn tensors. `path` is
 * the layer's path, followed by a dot. */
static bool computes_in_mkldnn(const placement_t *placement, const char *path)
{
    const call_t *first = NULL, *last = NULL;
    for (int i = 0; i < placement->n; i++) {
        const call_t *call = &placement->calls[i];
        if (strncmp(call->path, path, strlen(path)) != 0) continue;
        if (first == NULL) first = call;
        last = call;
    }
    return first != NULL && first->is_mkldnn && last->is_mkldnn;
}

/* ---- insertion ---- */

static bool is_sequential(const module_t *module)
{
    const member_t *forward = module_find(module, "forward", MEMBER_METHOD);
    return forward != NULL && module_c_forward(forward) == layer_forward_children;
}

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* True for a layer that `insert` has inserted. Checks name and type, because users may add
 * conversion layers under other names. */
static bool is_placed(const member_t *member)
{
    if (member->kind != MEMBER_CHILD) return false;
    const char *type = module_type(member->is.child);
    return (has_prefix(member->name, BEFORE) && strcmp(type, "Dense2Mkldnn") == 0) ||
           (has_prefix(member->name, BEHIND) && strcmp(type, "Mkldnn2Dense") == 0);
}

static bool has_placed(const module_t *module)
{
    for (int i = 0; i < module->n_members; i++)
        if (is_placed(&module->members[i])) return true;
    return false;
}

typedef status_t (*maker_t)(context_t *ctx, module_t **out_module);

/* Inserts a new layer as member `at`. Its name is the prefix followed by the name of the
 * neighbouring layer. */
static status_t insert(context_t *ctx, module_t *module, int at, const char *prefix,
                       const char *beside, maker_t make)
{
    char *name = NULL;
    module_t *layer = NULL;
    size_t bytes = strlen(prefix) + strlen(beside) + 1;
    TRY(context_get(ctx, bytes, "a name", &name));
    snprintf(name, bytes, "%s%s", prefix, beside);
    status_t status = STATUS_OK;
    if (module_find(module, name, MEMBER_CHILD) != NULL)
        status = context_fail(
            ctx, STATUS_INVALID_ARGUMENT,
            "module_mkldnn: transition \"%s\", %s already has a layer of that name", name,
            module_type(module));
    if (status == STATUS_OK) status = make(ctx, &layer);
    if (status == STATUS_OK) status = module_set_child(ctx, module, name, layer);
    module_release(layer);
    context_put(ctx, name);
    TRY(status);
    int last = module->n_members - 1;
    const member_t added = module->members[last];
    memmove(&module->members[at + 1], &module->members[at],
            (size_t)(last - at) * sizeof *module->members);
    module->members[at] = added;
    return STATUS_OK;
}

/* Inserts conversion layers around each sequence of mkldnn layers. Works from the last layer to the
 * first, so that the indices of earlier members stay valid. */
static status_t place_here(context_t *ctx, module_t *module, const bool *is_mkldnn)
{
    int end = -1; /* index of the last layer of the current sequence; -1: none */
    for (int i = module->n_members - 1; i >= 0; i--) {
        if (!is_mkldnn[i]) continue;
        if (end < 0) end = i;
        int before = i - 1;
        while (before >= 0 && module->members[before].kind != MEMBER_CHILD) before--;
        if (before >= 0 && is_mkldnn[before]) continue;
        TRY(insert(ctx, module, end + 1, BEHIND, module->members[end].name, layer_mkldnn_to_dense));
        TRY(insert(ctx, module, i, BEFORE, module->members[i].name, layer_dense_to_mkldnn));
        end = -1;
    }
    return STATUS_OK;
}

/* Inserts layers into a Sequential and into nested ones. `path` is the path of `module` followed by
 * a dot, or empty. */
static status_t place(context_t *ctx, placement_t *placement, module_t *module, const char *path)
{
    const int n = module->n_members;
    bool *is_mkldnn = NULL;
    status_t status = STATUS_OK;
    if (!is_sequential(module) || has_placed(module)) return STATUS_OK;
    TRY(context_get_zeroed(ctx, (size_t)n * sizeof *is_mkldnn, "layers", &is_mkldnn));
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        char below[PATH_MAX_BYTES];
        if (module->members[i].kind != MEMBER_CHILD) continue;
        snprintf(below, sizeof below, "%s%s.", path, module->members[i].name);
        is_mkldnn[i] = computes_in_mkldnn(placement, below);
        if (!is_mkldnn[i]) status = place(ctx, placement, module->members[i].is.child, below);
    }
    if (status == STATUS_OK)
        status = context_grow(ctx, &placement->changed, &placement->changed_capacity,
                              placement->n_changed + 1, sizeof *placement->changed);
    if (status == STATUS_OK) {
        placement->changed[placement->n_changed++] = module;
        status = place_here(ctx, module, is_mkldnn);
    }
    context_put(ctx, is_mkldnn);
    return status;
}

status_t placement_check(context_t *ctx, const module_t *module)
{
    if (is_sequential(module)) return STATUS_OK;
    FAIL(ctx, STATUS_UNSUPPORTED,
         "module_mkldnn: transitions in %s, only a Sequential can have them", module_type(module));
}

static void remove_here(context_t *ctx, module_t *module)
{
    for (int i = module->n_members - 1; i >= 0; i--)
        if (is_placed(&module->members[i]))
            (void)module_remove(ctx, module, module->members[i].name);
}

status_t placement_apply(context_t *ctx, placement_t *placement, module_t *module)
{
    if (placement->is_cut)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "module_mkldnn: transitions below a path of more than %d bytes", PATH_MAX_BYTES);
    status_t status = place(ctx, placement, module, "");
    for (int i = 0; i < placement->n_changed && status != STATUS_OK; i++)
        remove_here(ctx, placement->changed[i]);
    return status;
}

void placement_remove(context_t *ctx, module_t *module)
{
    remove_here(ctx, module);
    for (int i = 0; i < module->n_members; i++)
        if (module->members[i].kind == MEMBER_CHILD)
            placement_remove(ctx, module->members[i].is.child);
}
