/* Helpers for constructors and forwards of layers. */
#include <stdio.h>

#include "module/layers/layers_impl.h"
#include "tensor/context_impl.h"
#include "tensor/tensor_impl.h"

/* ---- attributes ---- */

status_t layer_one_input(context_t *ctx, const module_t *self, int n_in)
{
    REQUIRE(ctx, n_in == 1, "module: forward of %s with %d inputs, takes one", module_type(self),
            n_in);
    return STATUS_OK;
}

static status_t bad_attribute(context_t *ctx, const module_t *self, const char *name,
                              const char *rule)
{
    const datum_t *value = module_attribute(self, name);
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "module: attribute \"%s\" of %s is %s, must be %s", name,
         module_type(self), value != NULL ? datum_kind_name(datum_kind(value)) : "not there", rule);
}

status_t layer_read_int(context_t *ctx, const module_t *self, const char *name, int64_t *out)
{
    const datum_t *value = module_attribute(self, name);
    if (value == NULL || datum_kind(value) != DATUM_INT)
        return bad_attribute(ctx, self, name, "an int");
    *out = datum_as_int(value);
    return STATUS_OK;
}

status_t layer_read_float(context_t *ctx, const module_t *self, const char *name, double *out)
{
    const datum_t *value = module_attribute(self, name);
    datum_kind_t kind = value != NULL ? datum_kind(value) : DATUM_NONE;
    if (kind != DATUM_FLOAT && kind != DATUM_INT) return bad_attribute(ctx, self, name, "a float");
    *out = datum_as_float(value);
    return STATUS_OK;
}

status_t layer_read_bool(context_t *ctx, const module_t *self, const char *name, bool *out)
{
    const datum_t *value = module_attribute(self, name);
    if (value == NULL || datum_kind(value) != DATUM_BOOL)
        return bad_attribute(ctx, self, name, "a bool");
    *out = datum_as_bool(value);
    return STATUS_OK;
}

status_t layer_read_ints(context_t *ctx, const module_t *self, const char *name, int most,
                         int *out_n, int64_t *out)
{
    char rule[64];
    snprintf(rule, sizeof rule, "a list or tuple of at most %d ints", most);
    const datum_t *value = module_attribute(self, name);
    datum_kind_t kind = value != NULL ? datum_kind(value) : DATUM_NONE;
    if ((kind != DATUM_TUPLE && kind != DATUM_LIST) || datum_length(value) > most)
        return bad_attribute(ctx, self, name, rule);
    for (int i = 0; i < datum_length(value); i++) {
        const datum_t *item = datum_item(value, i);
        if (datum_kind(item) != DATUM_INT) return bad_attribute(ctx, self, name, rule);
        out[i] = datum_as_int(item);
    }
    *out_n = datum_length(value);
    return STATUS_OK;
}

status_t layer_read_sizes(context_t *ctx, const module_t *self, const char *name, int64_t *out)
{
    int n = 0;
    if (module_attribute(self, name) == NULL) return STATUS_OK;
    return layer_read_ints(ctx, self, name, LAYER_MAX_SPATIAL, &n, out);
}

void layer_replace_zeros(int64_t *values, const int64_t *defaults)
{
    static const int64_t ones[LAYER_MAX_SPATIAL] = {1, 1, 1};
    if (defaults == NULL) defaults = ones;
    int64_t first = values[0];
    for (int i = 0; i < LAYER_MAX_SPATIAL; i++)
        if (values[i] == 0) values[i] = first != 0 ? first : defaults[i];
}

/* ---- building ---- */

status_t layer_build(context_t *ctx, const char *type, forward_t forward, layer_init_t init,
                     const void *user, module_t **out_module)
{
    module_t *module = NULL;
    TRY(module_create(ctx, type, &module));
    status_t status = init != NULL ? init(ctx, module, user) : STATUS_OK;
    if (status == STATUS_OK) status = module_set_forward(ctx, module, "forward", forward);
    GIVE(status, out_module, module, module_release(module));
}
