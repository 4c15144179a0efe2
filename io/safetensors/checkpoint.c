#include "io/safetensors/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors/safetensors_impl.h"
#include "module/state_dict.h"
#include "tensor/scope.h"
#include "train/optimizer_impl.h"

#define VERSION "1"
#define OWN "tessera." /* prefix of the library's own metadata keys */
#define KEY_VERSION OWN "checkpoint"
#define KEY_OPTIMIZER OWN "optimizer"
#define KEY_RANDOM OWN "random"
#define PREFIX "optimizer" /* names of the optimizer's state begin with it and a dot */

#define RANDOM_WORDS 4
#define RANDOM_DIGITS 16 /* hexadecimal digits of each word */

static bool begins_with(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* ---- saving ---- */

static status_t put_text(context_t *ctx, datum_t *dict, const char *key, const char *text)
{
    datum_t *value = NULL;
    TRY(datum_string(ctx, text, &value));
    FINISH(datum_put(ctx, dict, key, value), datum_release(value));
}

static status_t put_random(context_t *ctx, datum_t *dict)
{
    char text[RANDOM_WORDS * RANDOM_DIGITS + 1];
    const uint64_t *words = context_random_state(ctx);
    for (int i = 0; i < RANDOM_WORDS; i++)
        snprintf(text + i * RANDOM_DIGITS, RANDOM_DIGITS + 1, "%016" PRIx64, words[i]);
    return put_text(ctx, dict, KEY_RANDOM, text);
}

static status_t list_metadata(context_t *ctx, const optimizer_t *optimizer, const datum_t *metadata,
                              datum_t *dict)
{
    TRY(put_text(ctx, dict, KEY_VERSION, VERSION));
    if (optimizer != NULL) TRY(put_text(ctx, dict, KEY_OPTIMIZER, optimizer_kind(optimizer)));
    TRY(put_random(ctx, dict));
    REQUIRE(ctx, metadata == NULL || datum_kind(metadata) == DATUM_DICT,
            "checkpoint_save: metadata is %s, must be a dict of strings",
            datum_kind_name(datum_kind(metadata)));
    for (int i = 0; metadata != NULL && i < datum_length(metadata); i++) {
        const char *key = datum_key(metadata, i);
        REQUIRE(ctx, !begins_with(key, OWN),
                "checkpoint_save: metadata \"%.100s\", keys that begin with \"" OWN
                "\" are the library's",
                key);
        TRY(datum_put(ctx, dict, key, datum_item(metadata, i)));
    }
    return STATUS_OK;
}

/* Lists the module's state dict and the optimizer's state in their current layouts. Saving converts
 * each tensor to row-major order just before it writes that tensor. */
static status_t list_tensors(context_t *ctx, module_t *module, const optimizer_t *optimizer,
                             datum_t **out_dict)
{
    TRY(module_state_dict(ctx, module, out_dict));
    for (int i = 0; i < datum_length(*out_dict); i++)
        REQUIRE(ctx, !begins_with(datum_key(*out_dict, i), PREFIX "."),
                "checkpoint_save: \"%.100s\", names that begin with \"" PREFIX
                ".\" are the optimizer's",
                datum_key(*out_dict, i));
    return optimizer != NULL ? optimizer_put_state(ctx, optimizer, PREFIX, false, *out_dict)
                             : STATUS_OK;
}

status_t checkpoint_save(context_t *ctx, module_t *module, const optimizer_t *optimizer,
                         const char *path, const datum_t *metadata)
{
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, "checkpoint_save", "module");
    if (path == NULL) return context_null(ctx, "checkpoint_save", "path");
    datum_t *tensors = NULL, *texts = NULL;
    status_t status = datum_dict(ctx, 0, NULL, NULL, &texts);
    if (status == STATUS_OK) status = list_metadata(ctx, optimizer, metadata, texts);
    if (status == STATUS_OK) status = list_tensors(ctx, module, optimizer, &tensors);
    if (status == STATUS_OK) status = safetensors_save(ctx, path, tensors, texts);
    datum_release(tensors);
    datum_release(texts);
    return status;
}

/* ---- loading: reads and checks everything; after that nothing can fail ---- */

typedef struct checkpoint {
    const safetensors_t *file;
    const char *path;
    datum_t *weights; /* by name */
    datum_t *state;   /* the optimizer's state, by name without the prefix; NULL if not requested */
    datum_t *metadata;
    uint64_t random[RANDOM_WORDS];
} checkpoint_t;

static status_t check_kind(context_t *ctx, const checkpoint_t *checkpoint,
                           const optimizer_t *optimizer)
{
    const char *kind = safetensors_metadata(checkpoint->file, KEY_OPTIMIZER);
    if (optimizer == NULL) return STATUS_OK;
    REQUIRE(ctx, kind != NULL, "checkpoint_load: %s was saved without an optimizer, %s is given",
            checkpoint->path, optimizer_kind(optimizer));
    REQUIRE(ctx, strcmp(kind, optimizer_kind(optimizer)) == 0,
            "checkpoint_load: %s was saved with optimizer %.40s, %s is given", checkpoint->path,
            kind, optimizer_kind(optimizer));
    return STATUS_OK;
}

static bool parse_random(const char *text, uint64_t *words)
{
    static const char digits[] = "0123456789abcdef";
    if (text == NULL || strlen(text) != RANDOM_WORDS * RANDOM_DIGITS ||
        strspn(text, digits) != RANDOM_WORDS * RANDOM_DIGITS)
        return false;
    for (int i = 0; i < RANDOM_WORDS; i++) {
        words[i] = 0;
        for (int k = 0; k < RANDOM_DIGITS; k++) {
            const char *digit = strchr(digits, text[i * RANDOM_DIGITS + k]);
            words[i] = words[i] << 4 | (uint64_t)(digit - digits);
        }
    }
    return (words[0] | words[1] | words[2] | words[3]) != 0;
}

static status_t read_metadata(context_t *ctx, checkpoint_t *checkpoint,
                              const optimizer_t *optimizer)
{
    const safetensors_t *file = checkpoint->file;
    const char *version = safetensors_metadata(file, KEY_VERSION);
    REQUIRE(ctx, version != NULL,
            "checkpoint_load: %s is no checkpoint, \"" KEY_VERSION "\" is missing in its metadata",
            checkpoint->path);
    if (strcmp(version, VERSION) != 0)
        FAIL(ctx, STATUS_UNSUPPORTED,
             "checkpoint_load: %s is a checkpoint of version %.20s, this library reads " VERSION,
             checkpoint->path, version);
    if (!parse_random(safetensors_metadata(file, KEY_RANDOM), checkpoint->random))
        FAIL(ctx, STATUS_CORRUPT,
             "checkpoint_load: %s, \"" KEY_RANDOM "\" is no state of random "
             "numbers",
             checkpoint->path);
    TRY(check_kind(ctx, checkpoint, optimizer));
    for (int i = 0; i < safetensors_n_metadata(file); i++) {
        const char *key = safetensors_metadata_key(file, i);
        if (!begins_with(key, OWN))
            TRY(put_text(ctx, checkpoint->metadata, key, safetensors_metadata(file, key)));
    }
    return STATUS_OK;
}

static status_t put_tensor(context_t *ctx, const safetensors_t *file, const char *name,
                           const char *key, datum_t *dict)
{
    tensor_t *tensor = NULL;
    datum_t *value = NULL;
    TRY(safetensors_tensor(ctx, file, name, &tensor)); /* the open scope releases it */
    TRY(datum_tensor(ctx, tensor, &value));
    FINISH(datum_put(ctx, dict, key, value), datum_release(value));
}

static status_t read_tensor(context_t *ctx, checkpoint_t *checkpoint, const module_t *module,
                            const safetensors_info_t *info)
{
    if (begins_with(info->name, PREFIX "."))
        return checkpoint->state == NULL
                   ? STATUS_OK
                   : put_tensor(ctx, checkpoint->file, info->name, info->name + strlen(PREFIX "."),
                                checkpoint->state);
    const tensor_t *own = module_parameter(module, info->name);
    if (own == NULL) own = module_buffer(module, info->name);
    REQUIRE(ctx, own == NULL || tensor_dtype(own) == info->dtype,
            "checkpoint_load: %s, \"%.100s\" is of type %s, the module has %s", checkpoint->path,
            info->name, info->type, dtype_name(tensor_dtype(own)));
    return put_tensor(ctx, checkpoint->file, info->name, info->name, checkpoint->weights);
}

/* Puts the file's path in front of an INVALID_ARGUMENT message. */
static status_t name_file(context_t *ctx, status_t status, const char *path)
{
    if (status != STATUS_INVALID_ARGUMENT) return status;
    char message[1024];
    snprintf(message, sizeof message, "%s", context_error(ctx));
    return context_fail(ctx, status, "checkpoint_load: %s: %s", path, message);
}

/* Loads the weights, then the optimizer's state if the weights were loaded. */
static status_t load(context_t *ctx, const checkpoint_t *checkpoint, module_t *module,
                     optimizer_t *optimizer)
{
    optimizer_loaded_t loaded = {0};
    if (optimizer != NULL)
        TRY(name_file(ctx, optimizer_read_state(ctx, optimizer, checkpoint->state, &loaded),
                      checkpoint->path));
    status_t status = module_load_state_dict(ctx, module, checkpoint->weights);
    status = name_file(ctx, status, checkpoint->path);
    if (status == STATUS_OK) {
        memcpy(context_random_state(ctx), checkpoint->random, sizeof checkpoint->random);
        if (optimizer != NULL) optimizer_take_state(optimizer, &loaded);
    }
    if (optimizer != NULL) optimizer_drop_state(ctx, &loaded);
    return status;
}

static status_t read_and_load(context_t *ctx, checkpoint_t *checkpoint, module_t *module,
                              optimizer_t *optimizer)
{
    TRY(datum_dict(ctx, 0, NULL, NULL, &checkpoint->weights));
    TRY(datum_dict(ctx, 0, NULL, NULL, &checkpoint->metadata));
    if (optimizer != NULL) TRY(datum_dict(ctx, 0, NULL, NULL, &checkpoint->state));
    TRY(read_metadata(ctx, checkpoint, optimizer));
    for (int i = 0; i < safetensors_count(checkpoint->file); i++)
        TRY(read_tensor(ctx, checkpoint, module, safetensors_info(checkpoint->file, i)));
    return load(ctx, checkpoint, module, optimizer);
}

static status_t load_file(context_t *ctx, const safetensors_t *file, const char *path,
                          module_t *module, optimizer_t *optimizer, datum_t **out_metadata)
{
    checkpoint_t checkpoint = {.file = file, .path = path};
    TRY(scope_begin(ctx));
    status_t status = read_and_load(ctx, &checkpoint, module, optimizer);
    status_t ended = scope_end(ctx);
    if (status == STATUS_OK) status = ended;
    datum_release(checkpoint.weights);
    datum_release(checkpoint.state);
    if (status == STATUS_OK && out_metadata != NULL)
        *out_metadata = checkpoint.metadata;
    else
        datum_release(checkpoint.metadata);
    return status;
}

status_t checkpoint_load(context_t *ctx, module_t *module, optimizer_t *optimizer, const char *path,
                         datum_t **out_metadata)
{
    if (out_metadata != NULL) *out_metadata = NULL;
    if (ctx == NULL) return STATUS_INVALID_ARGUMENT;
    if (module == NULL) return context_null(ctx, "checkpoint_load", "module");
    if (path == NULL) return context_null(ctx, "checkpoint_load", "path");
    safetensors_t *file = NULL;
    TRY(safetensors_open(ctx, path, &file));
    FINISH(load_file(ctx, file, path, module, optimizer, out_metadata), safetensors_close(file));
}
