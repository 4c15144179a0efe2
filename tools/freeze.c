/* tessera freeze: a model becomes a file that maps straight back in. */
#include <stdio.h>
#include <string.h>

#include "tensor/try_impl.h"
#include "tools/command.h"
#include "tools/session.h"

#define NAME "freeze"

typedef struct options {
    session_options_t session;
    const char *output, *preserve;
    bool keep_numerics;
    args_list_t preserved; /* ends in NULL */
} options_t;

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera freeze zoo:resnet50 -o resnet50.tessera",
    .about =
        "Makes attributes constants, folds and fuses operators, packs weights for this machine,\n"
        "and saves the result. The file runs on other machines, too, where weights are packed\n"
        "again unless tessera append has added what these run with."};

static status_t freeze_model(session_t *session, const options_t *options)
{
    context_t *ctx = session->ctx;
    freeze_options_t how = {
        .preserved = options->preserved.items,
        .keep_numerics = options->keep_numerics,
    };
    runner_t runner = {.ctx = ctx, .mode = MODE_FROZEN};
    tensor_t *out[METHOD_MAX_OUTPUTS] = {NULL};
    int n_out = 0;
    REQUIRE(ctx, session->model.kind != MODEL_FROZEN, "%s is frozen already", session->model.spec);
    TRY(mode_freeze(ctx, &session->model, &how, &runner.module));
    for (int i = 0; i < session->model.n_inputs; i++)
        runner.in[runner.n_in++] = tensor_retain(session->model.inputs[i].tensor);
    /* A run makes the plan whose packed weights are saved. */
    status_t status = mode_run(&runner, &n_out, out);
    if (status == STATUS_OK) mode_release_outputs(n_out, out);
    if (status == STATUS_OK) status = freeze_save(ctx, runner.module, options->output);
    if (status == STATUS_OK) session_print_size(options->output);
    mode_clear(&runner);
    return status;
}

/* What the table of options cannot say. preserve is room for the names. */
static bool check_options(options_t *options, const char *spec, char *preserve, size_t capacity)
{
    if (!session_check_model(NAME, spec, &options->session)) return false;
    if (options->output == NULL || model_kind(options->output) != MODEL_FROZEN) {
        args_usage_error(NAME, "-o %s, must be FILE.tessera",
                         options->output != NULL ? options->output : "is missing");
        return false;
    }
    if (options->preserve == NULL) return true;
    snprintf(preserve, capacity, "%s", options->preserve);
    if (strlen(options->preserve) < capacity && args_split(preserve, &options->preserved) &&
        options->preserved.n < ARGS_MAX) {
        options->preserved.items[options->preserved.n] = NULL;
        return true;
    }
    args_usage_error(NAME, "--preserve %s, must be names with commas between", options->preserve);
    return false;
}

int command_freeze(int argc, char **argv)
{
    options_t options = {.output = NULL};
    args_list_t operands;
    char preserve[2048];
    int code;
    const args_option_t table[] = {
        {"-o", ARGS_TEXT, &options.output, "FILE.tessera", "where to save it", 0, 0},
        {"--preserve", ARGS_TEXT, &options.preserve, "A,B",
         "attributes and methods that stay beside forward", 0, 0},
        {"--no-optimize-numerics", ARGS_FLAG, &options.keep_numerics, NULL,
         "leave out what may change the last bits, as folding batch norm", 0, 0},
        SESSION_OPTIONS(options.session),
    };
    int n_options = (int)(sizeof table / sizeof *table);
    if (!args_parse(&command, table, n_options, argc, argv, &operands, &code)) return code;
    if (!check_options(&options, operands.items[0], preserve, sizeof preserve)) return EXIT_USAGE;
    session_t session;
    if (!session_begin(NAME, operands.items[0], &options.session, &session)) return EXIT_FAILED;
    bool is_done = session_check(NAME, session.ctx, freeze_model(&session, &options));
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
