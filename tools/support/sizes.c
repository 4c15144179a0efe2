#include "tools/support/sizes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"

bool sizes_parse(const char *argument, sizes_t *out_sizes)
{
    const char *equals = strrchr(argument, '=');
    if (equals == NULL || equals == argument) return false;
    *out_sizes = (sizes_t){.name = argument, .name_length = (size_t)(equals - argument)};
    for (const char *at = equals + 1;; at++) {
        char *end = NULL;
        errno = 0;
        long long size = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        if (size < 1 || errno != 0 || out_sizes->rank == TENSOR_MAX_RANK) return false;
        out_sizes->sizes[out_sizes->rank++] = size;
        if (*end == '\0') return true;
        if (*end != 'x') return false;
        at = end;
    }
}

static bool is_same_input(const char *a, const char *b)
{
    sizes_t one, other;
    return sizes_parse(a, &one) && sizes_parse(b, &other) && one.name_length == other.name_length &&
           strncmp(one.name, other.name, one.name_length) == 0;
}

/* Counts the --shape options for the same input as option `index`. *out_rank is the number of those
 * before it. */
static int count_of(const args_list_t *shapes, int index, int *out_rank)
{
    int n = 0;
    for (int i = 0; i < shapes->n; i++) {
        if (i == index) *out_rank = n;
        n += is_same_input(shapes->items[i], shapes->items[index]);
    }
    return n;
}

int sizes_n_sets(const args_list_t *shapes, const char **out_wrong)
{
    int n_sets = 1, rank = 0;
    for (int i = 0; i < shapes->n; i++) {
        const int n = count_of(shapes, i, &rank);
        if (n > n_sets) n_sets = n;
    }
    for (int i = 0; i < shapes->n; i++) {
        const int n = count_of(shapes, i, &rank);
        *out_wrong = shapes->items[i];
        if (n != 1 && n != n_sets) return 0;
    }
    return n_sets;
}

args_list_t sizes_set(const args_list_t *shapes, int set)
{
    args_list_t chosen = {.n = 0};
    for (int i = 0; i < shapes->n; i++) {
        int rank = 0;
        const int n = count_of(shapes, i, &rank);
        if (n == 1 || rank == set) chosen.items[chosen.n++] = shapes->items[i];
    }
    return chosen;
}

int64_t sizes_batch(const args_list_t *shapes)
{
    int64_t batch = 0;
    for (int i = 0; i < shapes->n; i++) {
        sizes_t sizes;
        if (!sizes_parse(shapes->items[i], &sizes)) return 0;
        if (i > 0 && sizes.sizes[0] != batch) return 0;
        batch = sizes.sizes[0];
    }
    return batch;
}

/* ---- which sizes are open ---- */

/* Returns the name of an open size, "?" for one without a name, or NULL for a fixed size. */
static const char *find_open(context_t *ctx, const model_t *model, int input, int d)
{
    module_value_t value;
    if (module_input(ctx, model->module, "forward", input, &value) != STATUS_OK) return NULL;
    if (d >= value.rank || value.sizes[d] >= 0) return NULL;
    return value.dims[d] != NULL ? value.dims[d] : "?";
}

/* Sets a size, and all sizes of the same name. */
static void set_size(context_t *ctx, model_t *model, int input, int d, int64_t size)
{
    const char *name = find_open(ctx, model, input, d);
    model->inputs[input].info.sizes[d] = size;
    if (name == NULL || strcmp(name, "?") == 0) return;
    for (int i = 0; i < model->n_inputs; i++)
        for (int j = 0; j < model->inputs[i].info.rank; j++) {
            const char *other = find_open(ctx, model, i, j);
            if (other != NULL && strcmp(other, name) == 0) model->inputs[i].info.sizes[j] = size;
        }
}

/* ---- applying options ---- */

/* Applies sizes to an input. Messages begin with `asked`, such as "--shape x=2x3". */
static status_t ask(context_t *ctx, model_t *model, int input, const char *asked, int rank,
                    const int64_t *sizes)
{
    const tensor_info_t *info = &model->inputs[input].info;
    char text[INFO_TEXT_MAX];
    REQUIRE(ctx, info->dtype != DTYPE_NONE,
            "%s, but shape and type of input %s are unknown, pass --input %s=FILE.npy", asked,
            model->inputs[input].name, model->inputs[input].name);
    REQUIRE(ctx, rank == info->rank, "%s, but input %s has %d dimensions: %s", asked,
            model->inputs[input].name, info->rank, info_text(info, text));
    for (int d = 0; d < rank; d++) {
        bool is_right = sizes[d] == info->sizes[d] || find_open(ctx, model, input, d) != NULL;
        REQUIRE(ctx, is_right, "%s, but size %d of input %s is fixed to %" PRId64 ": %s", asked, d,
                model->inputs[input].name, info->sizes[d], info_text(info, text));
    }
    for (int d = 0; d < rank; d++)
        if (sizes[d] != info->sizes[d]) set_size(ctx, model, input, d, sizes[d]);
    REQUIRE(ctx, shape_equal(rank, sizes, info->rank, info->sizes),
            "%s, but sizes of input %s with the same name must be equal: %s", asked,
            model->inputs[input].name, info_text(info, text));
    return STATUS_OK;
}

static status_t find_input(context_t *ctx, const model_t *model, const sizes_t *sizes,
                           int *out_input)
{
    char names[512] = "";
    for (int i = 0; i < model->n_inputs; i++) {
        const char *name = model->inputs[i].name;
        size_t length = strlen(names);
        *out_input = i;
        if (strlen(name) == sizes->name_length && strncmp(name, sizes->name, strlen(name)) == 0)
            return STATUS_OK;
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", name);
    }
    FAIL(ctx, STATUS_INVALID_ARGUMENT, "%s has no input \"%.*s\", there are: %s", model->spec,
         (int)sizes->name_length, sizes->name, names);
}

static status_t apply_shape(context_t *ctx, model_t *model, const char *argument)
{
    sizes_t sizes;
    char asked[256];
    int input = 0;
    REQUIRE(ctx, sizes_parse(argument, &sizes), "--shape %s, must be NAME=1x3x320x480", argument);
    TRY(find_input(ctx, model, &sizes, &input));
    snprintf(asked, sizeof asked, "--shape %s", argument);
    return ask(ctx, model, input, asked, sizes.rank, sizes.sizes);
}

/* Sets the batch: the first size of the first input. */
static status_t apply_batch(context_t *ctx, model_t *model, int64_t batch)
{
    const tensor_info_t *info = model->n_inputs > 0 ? &model->inputs[0].info : NULL;
    if (info == NULL || info->dtype == DTYPE_NONE || info->rank == 0)
        FAIL(ctx, STATUS_INVALID_ARGUMENT,
             "%s: --batch %" PRId64 ", but its first input has no batch dimension", model->spec,
             batch);
    REQUIRE(ctx, info->sizes[0] == batch || find_open(ctx, model, 0, 0) != NULL,
            "%s: --batch %" PRId64 ", but the file's batch is fixed to %" PRId64, model->spec,
            batch, info->sizes[0]);
    if (info->sizes[0] != batch) set_size(ctx, model, 0, 0, batch);
    return STATUS_OK;
}

/* Checks that no later option has changed a requested size by setting an equally named size. */
static status_t check_agreement(context_t *ctx, const model_t *model, const args_list_t *shapes,
                                int64_t batch)
{
    for (int i = 0; i < shapes->n; i++) {
        sizes_t sizes;
        int input = 0;
        sizes_parse(shapes->items[i], &sizes);
        TRY(find_input(ctx, model, &sizes, &input));
        const tensor_info_t *info = &model->inputs[input].info;
        REQUIRE(ctx, shape_equal(sizes.rank, sizes.sizes, info->rank, info->sizes),
                "--shape %s, but another --shape sets a size of the same name differently",
                shapes->items[i]);
    }
    REQUIRE(ctx, batch == 0 || model->inputs[0].info.sizes[0] == batch,
            "--batch %" PRId64 ", but --shape says %" PRId64, batch,
            model->inputs[0].info.sizes[0]);
    return STATUS_OK;
}

/* If no option sets an open first size, it becomes 1, a batch of 1. */
status_t sizes_apply(context_t *ctx, model_t *model, const args_list_t *shapes, int64_t batch)
{
    for (int i = 0; i < model->n_inputs; i++) {
        const tensor_info_t *info = &model->inputs[i].info;
        if (info->dtype != DTYPE_NONE && info->rank > 0 && info->sizes[0] < 0)
            set_size(ctx, model, i, 0, 1);
    }
    if (batch > 0) TRY(apply_batch(ctx, model, batch));
    for (int i = 0; i < shapes->n; i++) TRY(apply_shape(ctx, model, shapes->items[i]));
    return check_agreement(ctx, model, shapes, batch);
}

status_t sizes_take(context_t *ctx, model_t *model, int input, const tensor_info_t *given)
{
    char text[INFO_TEXT_MAX], asked[MODEL_NAME_MAX + INFO_TEXT_MAX + 32];
    snprintf(asked, sizeof asked, "input %s: %s was given", model->inputs[input].name,
             info_text(given, text));
    return ask(ctx, model, input, asked, given->rank, given->sizes);
}

status_t sizes_check_given(context_t *ctx, const model_t *model, const args_list_t *shapes,
                           int64_t batch)
{
    char text[INFO_TEXT_MAX];
    for (int i = 0; i < shapes->n; i++) {
        sizes_t sizes;
        int input = 0;
        sizes_parse(shapes->items[i], &sizes);
        TRY(find_input(ctx, model, &sizes, &input));
        const tensor_info_t *info = &model->inputs[input].info;
        REQUIRE(ctx, shape_equal(sizes.rank, sizes.sizes, info->rank, info->sizes),
                "--shape %s, but the inputs that are given make it %s", shapes->items[i],
                info_text(info, text));
    }
    REQUIRE(ctx, batch == 0 || model->inputs[0].info.sizes[0] == batch,
            "--batch %" PRId64 ", but the inputs that are given make input %s %s", batch,
            model->inputs[0].name, info_text(&model->inputs[0].info, text));
    return STATUS_OK;
}
