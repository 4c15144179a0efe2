/* Adds frozen modules to the store, and finds them there. */
#include "freeze/kept_impl.h"

#include <fenv.h>
#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "freeze/file_impl.h"
#include "graph/method/method_impl.h"
#include "module/module_impl.h"
#include "tensor/context_impl.h"
#include "tensor/scope_impl.h"
#include "tensor/threads/interrupt_impl.h"

/* ---- finding ---- */

/* The store has checked all bytes, so the checksums of constants are not needed. */
static status_t load(context_t *ctx, file_mapping_t *mapping, module_t **out_module)
{
    loading_t loading = {.ctx = ctx,
                         .path = "the store",
                         .tensors = {.ctx = ctx},
                         .options = {.is_unchecked = true},
                         .mapping = mapping};
    interrupt_begin(ctx, "freeze_load");
    const status_t status = file_load(&loading);
    if (status == STATUS_OK) {
        *out_module = loading.module;
        loading.module = NULL;
    }
    file_close(&loading); /* releases the mapping */
    return interrupt_end(ctx, status);
}

static bool name_model(context_t *ctx, const char *text, store_key_t *out_key)
{
    char all[KEPT_TEXT_MAX + 32];
    snprintf(all, sizeof all, "%s; %d threads", text, context_threads(ctx));
    return store_name_text(ctx, STORE_MODEL, all, out_key);
}

module_t *kept_find(context_t *ctx, const char *text)
{
    module_t *module = NULL;
    store_key_t key;
    file_mapping_t *mapping = name_model(ctx, text, &key) ? store_find_bytes(ctx, &key) : NULL;
    if (mapping == NULL) return NULL;
    scope_attempt(ctx);
    const status_t status = scope_attempt_end(ctx, load(ctx, mapping, &module), true);
    if (status != STATUS_OK && !interrupt_is_final(status) && status != STATUS_OUT_OF_MEMORY)
        store_remove(ctx, &key);
    if (status == STATUS_OK) context_counters(ctx)->models_mapped++;
    return module;
}

/* ---- adding ---- */

/* Settings that the choice of kernels and the values of constants depend on, besides the options of
 * the model. */
typedef struct setting {
    uint64_t store[2]; /* identifies the store */
    size_t cache;
    int n_threads, policy, rounding, flushes;
} setting_t;

static bool describe_setting(context_t *ctx, setting_t *out)
{
    memset(out, 0, sizeof *out);
    out->cache = context_cpu_cache(ctx);
    out->n_threads = context_threads(ctx);
    out->policy = (int)dispatch_policy(ctx);
    out->rounding = fegetround();
    out->flushes = context_flushes_denormals(ctx);
    return store_hash_bytes(ctx, "", 0, out->store);
}

/* A module that add_after_run adds to the store. */
typedef struct later {
    allocator_t allocator;
    uint64_t changes; /* module_changes() when the module was made */
    int n_members;
    setting_t setting;
    store_key_t key;
} later_t;

/* True if no member of the module has been set or removed since kept_add_later. */
static bool is_unchanged(const module_t *module, const later_t *later)
{
    for (int i = 0; i < module->n_members; i++)
        if (module->members[i].change > later->changes) return false;
    return module->n_members == later->n_members;
}

/* Makes snapshots of all parts of the file: its head and the bytes of its constants (blobs). The
 * module may free its own bytes before the store has written these. */
static status_t list_parts(image_t *image, tensor_t **parts)
{
    TRY(image_head(image, &parts[0]));
    for (int i = 0; i < image->n_blobs; i++) {
        const tensor_t *holder = image->blobs[i].holder;
        TRY(tensor_snapshot(image->ctx, holder, &holder->info, holder->offset, &parts[i + 1]));
    }
    return STATUS_OK;
}

static status_t add(context_t *ctx, module_t *frozen, const store_key_t *key)
{
    image_t image = {.ctx = ctx, .is_entry = true};
    tensor_t **parts = NULL;
    status_t status = image_of(ctx, frozen, &image);
    const int n = image.n_blobs + 1;
    if (status == STATUS_OK)
        status = context_get_zeroed(ctx, (size_t)n * sizeof *parts, "parts of a model", &parts);
    if (status == STATUS_OK) status = list_parts(&image, parts);
    if (status == STATUS_OK) store_put_all(ctx, key, n, parts);
    for (int i = 0; i < n && parts != NULL; i++) tensor_drop(parts[i]);
    context_put(ctx, parts);
    image_clear(&image);
    return status;
}

static void add_after_run(context_t *ctx, module_t *frozen, void *user)
{
    const later_t *later = user;
    setting_t setting;
    if (!is_unchanged(frozen, later) || !describe_setting(ctx, &setting) ||
        memcmp(&setting, &later->setting, sizeof setting) != 0)
        return; /* another context has run it first */
    scope_attempt(ctx);
    (void)scope_attempt_end(ctx, add(ctx, frozen, &later->key), true);
}

static void drop_later(void *user)
{
    const allocator_t allocator = ((const later_t *)user)->allocator;
    allocator_put(&allocator, user);
}

static bool has_state(const module_t *module)
{
    for (int i = 0; i < module_n_members(module); i++) {
        member_kind_t kind;
        (void)module_member(module, i, &kind);
        if (kind == MEMBER_PARAMETER || kind == MEMBER_BUFFER || kind == MEMBER_CHILD) return true;
    }
    return false;
}

void kept_add_later(context_t *ctx, module_t *frozen, const char *text)
{
    const allocator_t *allocator = context_allocator(ctx);
    if (has_state(frozen)) return;
    later_t *later = allocator_get(allocator, sizeof *later);
    if (later == NULL) return;
    *later = (later_t){
        .allocator = *allocator, .changes = module_changes(), .n_members = frozen->n_members};
    if (!describe_setting(ctx, &later->setting) || !name_model(ctx, text, &later->key)) {
        drop_later(later);
        return;
    }
    plan_watch(frozen, "forward", add_after_run, drop_later, later);
}
