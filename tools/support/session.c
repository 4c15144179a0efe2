#include "tools/support/session.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/sizes.h"
#include "tools/support/stop.h"

static double read_clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

double session_now_ms(void)
{
    return read_clock_ms(CLOCK_MONOTONIC);
}

double session_cpu_ms(void)
{
    return read_clock_ms(CLOCK_PROCESS_CPUTIME_ID);
}

void session_print_size(const char *path)
{
    struct stat file;
    bar_end();
    if (stat(path, &file) == 0) print("%s: %.1f MB\n", path, (double)file.st_size / 1e6);
}

bool session_check(const char *command, context_t *ctx, status_t status)
{
    if (status == STATUS_OK) return true;
    if (stop_tell(ctx != NULL ? context_error(ctx) : NULL)) return false;
    bar_end();
    fflush(stdout);
    print_error("tessera %s: %s\n", command,
                ctx != NULL ? context_error(ctx) : status_name(status));
    return false;
}

/* Reports --load and --unchecked without a frozen file. */
static bool check_loading(const char *command, const char *spec, const model_options_t *options)
{
    char hint[ARGS_HINT_MAX];
    const char *load = options->load;
    if (load == NULL && !options->is_unchecked) return true;
    if (model_kind(spec) != MODEL_FROZEN) {
        args_usage_error(command, "%s applies to file.tessera, not to \"%s\"",
                         load != NULL ? "--load" : "--unchecked", spec);
        return false;
    }
    if (load == NULL || strcmp(load, MODEL_MAPPED) == 0 || strcmp(load, MODEL_COPIED) == 0)
        return true;
    const char *nearest = args_nearer(load, NULL, MODEL_MAPPED);
    args_usage_error(command, "--load %s, must be " MODEL_MAPPED " or " MODEL_COPIED "%s", load,
                     args_hint(args_nearer(load, nearest, MODEL_COPIED), hint));
    return false;
}

bool session_check_model(const char *command, const char *spec, const session_options_t *options)
{
    const args_list_t *shapes = &options->model.shapes;
    if (model_kind(spec) == MODEL_NONE) {
        args_usage_error(
            command, "\"%s\" is not a model, must be file.onnx, file.tessera or zoo:NAME", spec);
        return false;
    }
    for (int i = 0; i < shapes->n; i++) {
        sizes_t sizes;
        if (sizes_parse(shapes->items[i], &sizes)) continue;
        args_usage_error(command, "--shape %s, must be NAME=1x3x320x480, sizes from 1",
                         shapes->items[i]);
        return false;
    }
    return check_loading(command, spec, &options->model);
}

const char *session_nearest_mode(const char *name)
{
    const char *nearest = NULL;
    for (int mode = 0; mode < MODE_COUNT; mode++)
        nearest = args_nearer(name, nearest, mode_name((run_mode_t)mode));
    return nearest;
}

bool session_find_mode(const char *command, const char *spec, const char *text,
                       run_mode_t *out_mode)
{
    char hint[ARGS_HINT_MAX];
    *out_mode = mode_default(spec);
    if (text == NULL || mode_parse(text, out_mode)) return true;
    args_usage_error(command, "--mode %s, must be dense, nhwc, mkldnn, graph or frozen%s", text,
                     args_hint(session_nearest_mode(text), hint));
    return false;
}

void session_only_mode(session_options_t *options, run_mode_t mode)
{
    options->model.is_frozen = mode == MODE_FROZEN;
}

bool session_begin(const char *command, const char *spec, const session_options_t *options,
                   session_t *out_session)
{
    *out_session = (session_t){.ctx = NULL};
    context_options_t context_options = {.n_threads = (int)options->n_threads};
    double begin = session_now_ms();
    status_t status = stop_create(&context_options, &out_session->ctx);
    if (!session_check(command, NULL, status)) return false;
    context_t *ctx = out_session->ctx;
    bar_follow(ctx, NULL);
    status = model_load(ctx, spec, &options->model, &out_session->model);
    out_session->load_ms = session_now_ms() - begin;
    if (status == STATUS_OK) status = model_fill_inputs(ctx, &out_session->model, &options->model);
    bar_end();
    if (session_check(command, ctx, status)) return true;
    session_end(out_session);
    return false;
}

bool session_clone(const char *command, const session_t *session, session_t *out_session)
{
    *out_session = (session_t){.model = session->model};
    for (int i = 0; i < session->model.n_inputs; i++)
        tensor_retain(session->model.inputs[i].tensor);
    out_session->model.module = NULL;
    context_options_t options = {.n_threads = context_threads(session->ctx)};
    status_t status = stop_create(&options, &out_session->ctx);
    bar_follow(out_session->ctx, NULL);
    if (status == STATUS_OK && freeze_is_frozen(session->model.module))
        out_session->model.module = module_retain(session->model.module);
    else if (status == STATUS_OK)
        status = module_clone(out_session->ctx, session->model.module, &out_session->model.module);
    if (session_check(command, out_session->ctx, status)) return true;
    session_end(out_session);
    return false;
}

bool session_prepare(const char *command, session_t *session, run_mode_t mode)
{
    context_t *ctx = session->ctx;
    double begin = session_now_ms();
    status_t status = mode_prepare(ctx, &session->model, mode, &session->runner);
    session->prepare_ms = session_now_ms() - begin;
    bar_end();
    return session_check(command, ctx, status);
}

void session_end(session_t *session)
{
    mode_clear(&session->runner);
    model_clear(&session->model);
    stop_destroy(session->ctx);
    session->ctx = NULL;
}
