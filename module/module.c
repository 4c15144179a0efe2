#include "module/module_impl.h"
#include "tensor/base/references_impl.h"
#include "tensor/tensor_impl.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MAX 512

static const char *const kind_names[] = {"parameter", "buffer", "attribute", "child", "method"};

static atomic_uint_fast64_t n_changes;

uint64_t module_changes(void)
{
    return atomic_load(&n_changes);
}

/* ---- creation and release ---- */

/* Allocates from the module's allocator; on failure sets the context's error and returns NULL. */
static void *get(context_t *ctx, const module_t *module, size_t bytes)
{
    void *block = allocator_get(&module->allocator, bytes);
    if (block == NULL)
        (void)context_fail(ctx, STATUS_OUT_OF_MEMORY,
                           "module: %zu bytes for members, the allocator refused", bytes);
    return block;
}

static status_t copy_name(context_t *ctx, const module_t *module, const char *name, char **out_name)
{
    size_t bytes = strlen(name) + 1;
    char *copy = get(ctx, module, bytes);
    if (copy == NULL) return STATUS_OUT_OF_MEMORY;
    memcpy(copy, name, bytes);
    *out_name = copy;
    return STATUS_OK;
}

static void drop_value(const member_t *member)
{
    switch (member->kind) {
    case MEMBER_PARAMETER:
    case MEMBER_BUFFER: tensor_drop(member->is.tensor); break;
    case MEMBER_ATTRIBUTE: datum_release(member->is.datum); break;
    case MEMBER_CHILD: module_release(member->is.child); break;
    case MEMBER_METHOD:
        if (member->is.method.class_->release != NULL)
            member->is.method.class_->release(member->is.method.state);
        break;
    }
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void module_lock(module_t *module)
{
    pthread_mutex_lock(&module->lock);
}

void module_unlock(module_t *module)
{
    pthread_mutex_unlock(&module->lock);
}

status_t module_make(context_t *ctx, const char *type_name, module_t **out_module)
{
    if (type_name == NULL) return context_null(ctx, "module_create", "type_name");
    module_t *module = NULL;
    TRY(context_get_zeroed(ctx, sizeof *module, "a module", &module));
    atomic_init(&module->n_references, 1);
    atomic_init(&module->runs_dense, false);
    init_lock(&module->lock);
    module->allocator = *context_allocator(ctx);
    status_t status = copy_name(ctx, module, type_name, &module->type);
    GIVE(status, out_module, module, module_release(module));
}

status_t module_create(context_t *ctx, const char *type_name, module_t **out_module)
{
    TRY(context_output(ctx, "module_create", out_module));
    module_t *module = NULL;
    datum_t *training = NULL;
    TRY(module_make(ctx, type_name, &module));
    status_t status = datum_bool(ctx, false, &training);
    if (status == STATUS_OK) status = module_set_attribute(ctx, module, "training", training);
    datum_release(training);
    GIVE(status, out_module, module, module_release(module));
}

module_t *module_retain(module_t *module)
{
    if (module != NULL) references_add(&module->n_references);
    return module;
}

void module_release(module_t *module)
{
    if (module == NULL) return;
    if (!references_drop(&module->n_references)) return;
    allocator_t allocator = module->allocator;
    for (int i = module->n_members - 1; i >= 0; i--) {
        drop_value(&module->members[i]);
        allocator_put(&allocator, module->members[i].name);
    }
    allocator_put(&allocator, module->members);
    allocator_put(&allocator, module->type);
    pthread_mutex_destroy(&module->lock);
    allocator_put(&allocator, module);
}

/* ---- lookup ---- */

static member_t *find_here(const module_t *module, const char *name, size_t length)
{
    for (int i = 0; i < module->n_members; i++) {
        const char *candidate = module->members[i].name;
        if (strncmp(candidate, name, length) == 0 && candidate[length] == '\0')
            return &module->members[i];
    }
    return NULL;
}

/* Returns the child whose name is the first of the path, and advances *path to the next name.
 * Returns NULL if the path has only one name, or if there is no such child. */
static module_t *descend(const module_t *module, const char **path)
{
    const char *dot = strchr(*path, '.');
    if (dot == NULL) return NULL;
    const member_t *member = find_here(module, *path, (size_t)(dot - *path));
    if (member == NULL || member->kind != MEMBER_CHILD) return NULL;
    *path = dot + 1;
    return member->is.child;
}

/* Follows the path from child to child. Names contain no dots, so only the last name is that of the
 * member. */
const member_t *module_find_owned(module_t **module, const char *path, member_kind_t kind)
{
    while (*module != NULL && path != NULL) {
        const member_t *member = find_here(*module, path, strlen(path));
        if (member != NULL && member->kind == kind) return member;
        *module = descend(*module, &path);
    }
    return NULL;
}

const member_t *module_find(const module_t *module, const char *path, member_kind_t kind)
{
    module_t *owner;
    memcpy(&owner, &module, sizeof owner);
    return module_find_owned(&owner, path, kind);
}

/* Makes a text such as "conv1, bn1, ..." with as many names of this kind as fit. */
static const char *list_names(const module_t *module, member_kind_t kind, char *out_text)
{
    static const char more[] = ", ...";
    size_t length = 0;
    out_text[0] = '\0';
    for (int i = 0; i < module->n_members; i++) {
        if (module->members[i].kind != kind) continue;
        const char *name = module->members[i].name;
        if (length + strlen(name) + sizeof ", " + sizeof more > NAMES_MAX) {
            memcpy(out_text + length, more, sizeof more);
            return out_text;
        }
        length += (size_t)snprintf(out_text + length, NAMES_MAX - length, "%s%s",
                                   length > 0 ? ", " : "", name);
    }
    return length > 0 ? out_text : "none";
}

status_t module_no_member(context_t *ctx, const module_t *module, const char *path,
                          member_kind_t kind)
{
    if (path == NULL) return context_null(ctx, "module", "name");
    const module_t *below = NULL;
    while ((below = descend(module, &path)) != NULL) module = below;
    const char *dot = strchr(path, '.');
    if (dot != NULL) kind = MEMBER_CHILD;
    char names[NAMES_MAX];
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "module: \"%.*s\" is no %s of %s, it has %s",
         (int)(dot != NULL ? dot - path : (ptrdiff_t)strlen(path)), path, kind_names[kind],
         module->type, list_names(module, kind, names));
}

/* ---- setters ---- */

/* Follows the path to the module that has the member; *path becomes the name of the member. */
static status_t find_owner(context_t *ctx, module_t **module, const char **path)
{
    if (*module == NULL) return context_null(ctx, "module", "module");
    if (*path == NULL) return context_null(ctx, "module", "name");
    module_t *below = NULL;
    while ((below = descend(*module, path)) != NULL) *module = below;
    if (strchr(*path, '.') != NULL) return module_no_member(ctx, *module, *path, MEMBER_CHILD);
    return STATUS_OK;
}

static status_t check_name(context_t *ctx, const module_t *module, const char *name,
                           member_kind_t kind)
{
    REQUIRE(ctx, name[0] != '\0', "module: a %s of %s without a name, it needs one",
            kind_names[kind], module->type);
    const member_t *taken = find_here(module, name, strlen(name));
    REQUIRE(ctx, taken == NULL || taken->kind == kind,
            "module: %s \"%s\" of %s, the name belongs to another kind of member: %s",
            kind_names[kind], name, module->type, taken == NULL ? "none" : kind_names[taken->kind]);
    return STATUS_OK;
}

static status_t grow_members(context_t *ctx, module_t *module)
{
    if (module->n_members < module->capacity) return STATUS_OK;
    int capacity = module->capacity > 0 ? module->capacity * 2 : 8;
    member_t *members = get(ctx, module, (size_t)capacity * sizeof *members);
    if (members == NULL) return STATUS_OUT_OF_MEMORY;
    if (module->n_members > 0)
        memcpy(members, module->members, (size_t)module->n_members * sizeof *members);
    allocator_put(&module->allocator, module->members);
    module->members = members;
    module->capacity = capacity;
    return STATUS_OK;
}

static status_t put(context_t *ctx, module_t *module, const member_t *member)
{
    const uint64_t change = atomic_fetch_add(&n_changes, 1) + 1;
    const char *path = member->name;
    TRY(find_owner(ctx, &module, &path));
    TRY(check_name(ctx, module, path, member->kind));
    member_t *taken = find_here(module, path, strlen(path));
    if (taken != NULL) {
        member_t old = *taken;
        taken->is = member->is;
        taken->change = change;
        drop_value(&old);
        return STATUS_OK;
    }
    TRY(grow_members(ctx, module));
    char *name = NULL;
    TRY(copy_name(ctx, module, path, &name));
    member_t *added = &module->members[module->n_members++];
    *added = *member;
    added->name = name;
    added->change = change;
    return STATUS_OK;
}

status_t module_put_take(context_t *ctx, module_t *module, const member_t *member)
{
    status_t status = put(ctx, module, member);
    if (status != STATUS_OK) drop_value(member);
    return status;
}

/* A member whose name is only read. The field `name` is not const; memcpy stores a const pointer in
 * it without a cast. */
static member_t member_of(member_kind_t kind, const char *name)
{
    member_t member = {.kind = kind};
    memcpy(&member.name, &name, sizeof name);
    return member;
}

static status_t set_tensor(context_t *ctx, module_t *module, member_kind_t kind, const char *name,
                           tensor_t *tensor)
{
    member_t member = member_of(kind, name);
    member.is.tensor = tensor_hold(tensor);
    return module_put_take(ctx, module, &member);
}

status_t module_set_parameter(context_t *ctx, module_t *module, const char *name, tensor_t *tensor)
{
    return set_tensor(ctx, module, MEMBER_PARAMETER, name, tensor);
}

status_t module_set_buffer(context_t *ctx, module_t *module, const char *name, tensor_t *tensor)
{
    if (tensor == NULL) return context_null(ctx, "module_set_buffer", "tensor");
    return set_tensor(ctx, module, MEMBER_BUFFER, name, tensor);
}

status_t module_set_attribute(context_t *ctx, module_t *module, const char *name, datum_t *value)
{
    if (value == NULL) return context_null(ctx, "module_set_attribute", "value");
    member_t member = member_of(MEMBER_ATTRIBUTE, name);
    member.is.datum = datum_retain(value);
    return module_put_take(ctx, module, &member);
}

static status_t stands_in(context_t *ctx, const module_t *module, const module_t *tree,
                          bool *out_stands)
{
    tree_t below = {0};
    *out_stands = false;
    TRY(tree_collect(ctx, tree, &below));
    for (int i = 0; i < below.n; i++) *out_stands |= below.items[i].module == module;
    tree_clear(ctx, &below);
    return STATUS_OK;
}

status_t module_set_child(context_t *ctx, module_t *module, const char *name, module_t *child)
{
    if (child == NULL) return context_null(ctx, "module_set_child", "child");
    TRY(find_owner(ctx, &module, &name));
    bool is_circle = false;
    TRY(stands_in(ctx, module, child, &is_circle));
    REQUIRE(ctx, !is_circle,
            "module: child \"%s\" of %s contains the module itself, a tree must not have cycles",
            name, module->type);
    member_t member = member_of(MEMBER_CHILD, name);
    member.is.child = module_retain(child);
    return module_put_take(ctx, module, &member);
}

status_t module_set_method_take(context_t *ctx, module_t *module, const char *method,
                                const method_class_t *class_, void *state)
{
    if (class_ == NULL) return context_null(ctx, "module_set_method_take", "class_");
    member_t member = member_of(MEMBER_METHOD, method);
    member.is.method.class_ = class_;
    member.is.method.state = state;
    return module_put_take(ctx, module, &member);
}

status_t module_remove(context_t *ctx, module_t *module, const char *name)
{
    TRY(find_owner(ctx, &module, &name));
    member_t *member = find_here(module, name, strlen(name));
    REQUIRE(ctx, member != NULL, "module: \"%s\" is no member of %s, nothing to remove", name,
            module->type);
    atomic_fetch_add(&n_changes, 1);
    member_t old = *member;
    int n_after = --module->n_members - (int)(member - module->members);
    memmove(member, member + 1, (size_t)n_after * sizeof *member);
    drop_value(&old);
    allocator_put(&module->allocator, old.name);
    return STATUS_OK;
}

/* ---- queries ---- */

const char *module_type(const module_t *module)
{
    return module != NULL ? module->type : NULL;
}

tensor_t *module_parameter(const module_t *module, const char *path)
{
    const member_t *member = module_find(module, path, MEMBER_PARAMETER);
    return member != NULL ? member->is.tensor : NULL;
}

tensor_t *module_buffer(const module_t *module, const char *path)
{
    const member_t *member = module_find(module, path, MEMBER_BUFFER);
    return member != NULL ? member->is.tensor : NULL;
}

datum_t *module_attribute(const module_t *module, const char *path)
{
    const member_t *member = module_find(module, path, MEMBER_ATTRIBUTE);
    return member != NULL ? member->is.datum : NULL;
}

module_t *module_child(const module_t *module, const char *path)
{
    const member_t *member = module_find(module, path, MEMBER_CHILD);
    return member != NULL ? member->is.child : NULL;
}

const method_class_t *module_method(const module_t *module, const char *name, void **out_state)
{
    const member_t *member = module_find(module, name, MEMBER_METHOD);
    if (member == NULL) return NULL;
    if (out_state != NULL) *out_state = member->is.method.state;
    return member->is.method.class_;
}

int module_n_members(const module_t *module)
{
    return module != NULL ? module->n_members : 0;
}

const char *module_member(const module_t *module, int index, member_kind_t *out_kind)
{
    if (index < 0 || index >= module_n_members(module)) return NULL;
    if (out_kind != NULL) *out_kind = module->members[index].kind;
    return module->members[index].name;
}

bool module_is_training(const module_t *module)
{
    const datum_t *training = module_attribute(module, "training");
    return training != NULL && datum_kind(training) == DATUM_BOOL && datum_as_bool(training);
}
