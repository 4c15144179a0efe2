/* Loads and saves a module's weights. */
#include "io/safetensors/safetensors_impl.h"
#include "module/state_dict.h"

/* Adds `none` instead of the tensor for a name that the module does not have. The error message of
 * module_assign_state_dict needs only the name. */
static status_t put_unknown(context_t *ctx, const char *name, datum_t *dict)
{
    datum_t *none = NULL;
    TRY(datum_none(ctx, &none));
    FINISH(datum_put(ctx, dict, name, none), datum_release(none));
}

static status_t load(context_t *ctx, module_t *module, const safetensors_t *file, bool is_strict)
{
    datum_t *dict = NULL;
    TRY(datum_dict(ctx, 0, NULL, NULL, &dict));
    status_t status = STATUS_OK;
    for (int i = 0; i < safetensors_count(file) && status == STATUS_OK; i++) {
        const char *name = safetensors_info(file, i)->name;
        bool is_known = module_parameter(module, name) != NULL ||
                        module_buffer(module, name) != NULL;
        if (is_known)
            status = safetensors_put(ctx, file, name, dict);
        else if (is_strict)
            status = put_unknown(ctx, name, dict);
    }
    if (status == STATUS_OK) status = module_assign_state_dict(ctx, module, dict, is_strict);
    if (status == STATUS_INVALID_ARGUMENT)
        status = context_fail(ctx, status, "module_load_safetensors: %s: %s", file->path,
                              context_error(ctx));
    datum_release(dict);
    return status;
}

status_t module_load_safetensors(context_t *ctx, module_t *module, const char *path, bool is_strict)
{
    if (module == NULL) return context_null(ctx, "module_load_safetensors", "module");
    safetensors_t *file = NULL;
    TRY(safetensors_open(ctx, path, &file));
    FINISH(load(ctx, module, file, is_strict), safetensors_close(file));
}

status_t module_save_safetensors(context_t *ctx, module_t *module, const char *path,
                                 const datum_t *metadata)
{
    datum_t *dict = NULL;
    TRY(module_state_dict(ctx, module, &dict));
    FINISH(safetensors_save(ctx, path, dict, metadata), datum_release(dict));
}
