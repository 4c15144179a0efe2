/* tessera freeze: freezes a model and saves it as a file that is mapped when it is loaded. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/base/try_impl.h"
#include "tools/command/accuracy.h"
#include "tools/command/examples.h"
#include "tools/support/bar.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/sizes.h"

#define NAME "freeze"

/* Value of those open sizes of an ONNX file that no --shape sets. Weights are packed for this size.
 * If a node depends on the size, the graph gets a guard, and the command prints it. */
#define OPEN_SIZE 64

typedef struct options {
    session_options_t session;
    const char *output, *preserve, *dtype_text, *calibrate, *calibration_text;
    dtype_t dtype;
    calibration_t calibration;
    double percentile;
    double max_error; /* -1: no limit */
    double min_agreement;
    args_list_t kept; /* NULL-terminated */
    bool keep_numerics;
    double rounding_error; /* -1: the default of freeze_options_t */
    double tune_seconds;   /* -1: no tuning */
    args_list_t preserved; /* NULL-terminated */
    args_list_t shapes;    /* all sets of sizes; session.model has the first one */
    int n_sets;
} options_t;

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example = "tessera freeze zoo:resnet50 -o resnet50.tessera",
    .more =
        "If an ONNX file leaves sizes open, and no --shape sets them, 64 is used, and 1 for the\n"
        "  batch. The file accepts other sizes, too, unless a guard of its graph refuses them.\n"
        "  Guards are printed.\n"
        "\n"
        "If an input has several --shape, these are several sets of sizes: the k-th --shape of\n"
        "  each input is in set k, and an input with one --shape has it in every set. The file\n"
        "  has a plan for each set, and another graph for each set that no earlier graph\n"
        "  accepts. Weights are stored once. A run uses the first graph that accepts its sizes.\n"
        "\n"
        "Freezing needs only sizes and types of inputs. The model runs only on values from\n"
        "  --input or --calibrate, never on random ones. With such values --dtype bf16 and s8\n"
        "  measure their error, and --tune compares whole runs; without values --tune measures\n"
        "  single kernels. If sizes depend on values, the part of the graph that has these\n"
        "  sizes is planned when the file first runs.\n"
        "\n"
        "With --dtype s8, convolutions, linear layers and matmuls read 8-bit integers. Their\n"
        "  scales come from the examples in DIR, about a hundred typical inputs. If the model\n"
        "  has one input, each file is an example; for inputs a and b the files are a.0.npy and\n"
        "  b.0.npy, a.1.npy and b.1.npy, and so on.",
    .about = "Turns attributes into constants, folds and fuses operators, packs weights for this\n"
             "machine, and saves the result. The file also runs on other machines; they pack the\n"
             "weights again, unless tessera append has added weights for them."};

static bool is_narrow(const options_t *options)
{
    return options->dtype == DTYPE_BF16 || options->dtype == DTYPE_S8;
}

/* Returns true if the user gave values for all inputs. freeze never uses random values. */
static bool has_values(const model_t *model)
{
    bool has_all = true;
    for (int i = 0; i < model->n_inputs; i++) has_all &= model->inputs[i].tensor != NULL;
    return has_all;
}

/* Lists dtypes and sizes of all inputs. Returns false if those of an input are unknown. */
static bool list_infos(const model_t *model, const tensor_info_t **infos)
{
    for (int i = 0; i < model->n_inputs; i++) {
        infos[i] = &model->inputs[i].info;
        if (infos[i]->dtype == DTYPE_NONE) return false;
        for (int d = 0; d < infos[i]->rank; d++)
            if (infos[i]->sizes[d] < 0) return false;
    }
    return true;
}

static status_t tune(context_t *ctx, const model_t *model, const tensor_info_t *const *infos,
                     double seconds, module_t *frozen)
{
    const tensor_t *in[MODEL_MAX_INPUTS] = {NULL};
    freeze_tuned_t tuned;
    for (int i = 0; i < model->n_inputs; i++) in[i] = model->inputs[i].tensor;
    TRY(has_values(model) ? freeze_tune(ctx, frozen, model->n_inputs, in, seconds, &tuned)
                          : freeze_tune_for(ctx, frozen, model->n_inputs, infos, seconds, &tuned));
    bar_end();
    print("tuned: %d operators measured, ", tuned.n_measured);
    if (tuned.is_kept && !(tuned.ratio > 0.0))
        print("kept; with --input for every input whole runs are compared, too\n");
    else
        print("%.3f of the time by estimates, %s\n", tuned.ratio,
              tuned.is_kept ? "kept" : "not kept");
    return STATUS_OK;
}

/* Makes the plan whose packed weights will be saved. Dtypes and sizes are enough; nothing runs. */
static status_t make_plan(context_t *ctx, const model_t *model, const options_t *options,
                          module_t *frozen)
{
    const tensor_info_t *infos[MODEL_MAX_INPUTS];
    const bool has_infos = list_infos(model, infos);
    REQUIRE(ctx, has_infos || options->tune_seconds <= 0.0,
            "--tune, but shapes and types of the inputs of %s are unknown, pass --input",
            model->spec);
    if (!has_infos) return STATUS_OK;
    if (options->tune_seconds > 0.0) TRY(tune(ctx, model, infos, options->tune_seconds, frozen));
    return plan_warm_for(ctx, frozen, "forward", model->n_inputs, infos);
}

/* Data for all attempts to freeze with examples. */
typedef struct trial {
    session_t *session;
    const options_t *options;
    int n;
    const tensor_t *const *const *examples;
    accuracy_t *accuracy;
} trial_t;

/* The freeze options, without those that need examples. */
static freeze_options_t plain_options(const options_t *options)
{
    return (freeze_options_t){
        .preserved = options->preserved.items,
        .keep_numerics = options->keep_numerics,
        .dtype = options->dtype,
        .keep_f32 = options->kept.items,
        .rounding_error = fmax(options->rounding_error, 0),
        .has_rounding_error = options->rounding_error >= 0,
    };
}

static status_t freeze_once(const trial_t *trial, const char *const *kept, module_t **out_frozen,
                            agreement_t *agreement)
{
    const options_t *options = trial->options;
    session_t *session = trial->session;
    module_t *frozen = NULL;
    freeze_options_t how = plain_options(options);
    how.keep_f32 = kept;
    how.n_examples = trial->n;
    how.examples = trial->examples;
    how.calibration = options->calibration;
    how.percentile = options->percentile;
    how.max_error = fmax(options->max_error, 0);
    how.has_max_error = options->max_error >= 0;
    how.report = accuracy_note;
    how.report_user = trial->accuracy;
    TRY(mode_freeze(session->ctx, &session->model, &how, &frozen));
    status_t status = make_plan(session->ctx, &session->model, options, frozen);
    if (status == STATUS_OK && trial->n > 0)
        status = accuracy_compare(session->ctx, frozen, &session->model, trial->examples,
                                  trial->accuracy, agreement);
    if (status == STATUS_OK)
        *out_frozen = frozen;
    else
        module_release(frozen);
    return status;
}

static bool is_enough(const options_t *options, const agreement_t *agreement)
{
    return (double)agreement->n_same >= options->min_agreement * (double)agreement->n_rows;
}

/* Keeps more and more layers in f32, those with the largest errors first, until the scores agree.
 * The number of these layers doubles each time. `kept` has an element for each layer. */
static status_t freeze_more(const trial_t *trial, accuracy_t *all, const char **kept,
                            module_t **frozen, agreement_t *agreement)
{
    const options_t *options = trial->options;

    for (int n = 1; !is_enough(options, agreement); n *= 2) {
        const int n_more = n < all->n_layers ? n : all->n_layers;
        bar_end();
        print("top-1 agreement with f32 %.4f: the %d layers of the largest errors stay f32\n",
              (double)agreement->n_same / (double)agreement->n_rows, n_more);
        for (int i = 0; i < n_more; i++) kept[options->kept.n + i] = accuracy_worst(all, i);
        module_release(*frozen);
        *frozen = NULL;
        accuracy_forget(trial->accuracy);
        TRY(freeze_once(trial, kept, frozen, agreement));
        trial->accuracy->n_kept += n_more;
        if (n_more == all->n_layers && !is_enough(options, agreement))
            FAIL(trial->session->ctx, STATUS_UNSUPPORTED,
                 "--min-agreement %g, the scores agree in %lld of %lld rows with all layers in f32",
                 options->min_agreement, (long long)agreement->n_same,
                 (long long)agreement->n_rows);
    }
    return STATUS_OK;
}

/* Freezes with the options. With --min-agreement, repeats that with more layers in f32 until the
 * scores agree. */
static status_t freeze_until(const trial_t *trial, module_t **out_frozen, agreement_t *agreement)
{
    const options_t *options = trial->options;
    context_t *ctx = trial->session->ctx;
    TRY(freeze_once(trial, options->kept.items, out_frozen, agreement));
    if (options->min_agreement <= 0.0) return STATUS_OK;
    REQUIRE(ctx, agreement->n_rows > 0,
            "--min-agreement %g, the model returns no scores f32[rows,classes]",
            options->min_agreement);
    if (is_enough(options, agreement)) return STATUS_OK;
    accuracy_t all = {.n_layers = trial->accuracy->n_layers, .layers = trial->accuracy->layers};
    const char **kept = calloc((size_t)options->kept.n + (size_t)all.n_layers + 1, sizeof *kept);
    trial->accuracy->layers = NULL;
    trial->accuracy->n_layers = 0;
    for (int i = 0; kept != NULL && i < options->kept.n; i++) kept[i] = options->kept.items[i];
    status_t status = kept == NULL ? context_fail(ctx, STATUS_OUT_OF_MEMORY, "no memory for paths")
                                   : freeze_more(trial, &all, kept, out_frozen, agreement);
    free((void *)kept);
    free(all.layers);
    return status;
}

/* ---- other sizes ---- */

/* Freezes the model for another set of sizes, and adds the graph to `frozen`. */
static status_t add_graph(context_t *ctx, model_t *model, const options_t *options,
                          module_t *frozen)
{
    module_t *other = NULL;
    const freeze_options_t how = plain_options(options);
    REQUIRE(ctx,
            options->dtype != DTYPE_S8 && options->max_error < 0.0 && options->min_agreement <= 0.0,
            "%s: a --shape needs a separate graph, for which %s cannot be measured: make a file "
            "for each",
            model->spec, options->dtype == DTYPE_S8 ? "--dtype s8" : "the error of layers");
    TRY(mode_freeze(ctx, model, &how, &other));
    status_t status = freeze_add(ctx, frozen, other);
    module_release(other);
    return status;
}

static bool takes(context_t *ctx, const model_t *model, const module_t *frozen)
{
    const tensor_info_t *infos[MODEL_MAX_INPUTS];
    if (!list_infos(model, infos)) return true;
    const status_t status = module_check_inputs(ctx, frozen, "forward", model->n_inputs, infos);
    if (status != STATUS_OK) context_clear_error(ctx);
    return status == STATUS_OK;
}

/* Adds a plan for each further set of sizes, and a graph if no graph so far accepts the sizes. */
static status_t add_sets(session_t *session, const options_t *options, module_t *frozen)
{
    context_t *ctx = session->ctx;
    for (int set = 1; set < options->n_sets; set++) {
        model_options_t model_options = options->session.model;
        model_t model = {.n_inputs = 0};
        model_options.shapes = sizes_set(&options->shapes, set);
        TRY(model_load(ctx, session->model.spec, &model_options, &model));
        status_t status = STATUS_OK;
        if (!takes(ctx, &model, frozen)) status = add_graph(ctx, &model, options, frozen);
        if (status == STATUS_OK) status = make_plan(ctx, &model, options, frozen);
        model_clear(&model);
        TRY(status);
    }
    return STATUS_OK;
}

/* Stores an ONNX model in the file, for sizes that no graph accepts. Measured errors, and scales of
 * integers, hold only for the graphs that were measured. */
static status_t keep_model(const session_t *session, const options_t *options, module_t *frozen)
{
    const freeze_options_t how = plain_options(options);
    const bool is_measured = options->dtype == DTYPE_S8 || options->max_error >= 0.0 ||
                             options->min_agreement > 0.0;
    const bool preserves = how.preserved != NULL && how.preserved[0] != NULL;
    if (session->model.kind != MODEL_ONNX || is_measured || preserves) return STATUS_OK;
    return onnx_keep(session->ctx, frozen, session->model.spec, NULL, &how);
}

/* Prints "graph 2 of 2: H % 8 == 0, W >= 32"; nothing for a single graph without guards. */
static status_t print_guards(context_t *ctx, const module_t *frozen)
{
    const int n = plan_n_graphs(frozen, "forward");
    status_t status = STATUS_OK;
    for (int i = 0; i < n && status == STATUS_OK; i++) {
        text_t text = text_begin(ctx);
        status = graph_guards(ctx, plan_graph_at(frozen, "forward", i), &text);
        const char *guards = text_string(&text);
        if (status == STATUS_OK && (n > 1 || guards[0] != '\0'))
            print("graph %d of %d: %s\n", i + 1, n, guards[0] != '\0' ? guards : "no guards");
        text_clear(&text);
    }
    return status;
}

static status_t freeze_on(session_t *session, const options_t *options, int n,
                          const tensor_t *const *const *examples, accuracy_t *accuracy)
{
    const trial_t trial = {session, options, n, examples, accuracy};
    agreement_t agreement = {0.0, 0, 0};
    module_t *frozen = NULL;
    status_t status = freeze_until(&trial, &frozen, &agreement);
    if (status == STATUS_OK && n > 0) accuracy_print(options->dtype, accuracy, &agreement);
    if (status == STATUS_OK) status = add_sets(session, options, frozen);
    if (status == STATUS_OK) status = keep_model(session, options, frozen);
    if (status == STATUS_OK) status = freeze_save(session->ctx, frozen, options->output);
    if (status == STATUS_OK) session_print_size(options->output);
    if (status == STATUS_OK) status = print_guards(session->ctx, frozen);
    module_release(frozen);
    return status;
}

/* Options that measure errors need values of the inputs. */
static status_t check_values(context_t *ctx, const options_t *options, int n)
{
    const bool has_bound = options->max_error >= 0.0 || options->min_agreement > 0.0;
    if (n > 0 || !is_narrow(options)) return STATUS_OK;
    REQUIRE(ctx, !has_bound, "%s, needs values: --input of every input, or --calibrate DIR",
            options->max_error >= 0.0 ? "--max-layer-error" : "--min-agreement");
    print("%s: errors are not measured; that needs --input of every input, or --calibrate DIR\n",
          dtype_name(options->dtype));
    return STATUS_OK;
}

static status_t freeze_model(session_t *session, const options_t *options)
{
    context_t *ctx = session->ctx;
    const tensor_t *given[MODEL_MAX_INPUTS + 1] = {NULL};
    const tensor_t *const *const inputs[] = {given};
    const tensor_t *const *const *of_each = inputs;
    examples_t examples = {0};
    accuracy_t accuracy = {.n = 0};
    int n = is_narrow(options) && has_values(&session->model) ? 1 : 0;
    REQUIRE(ctx, session->model.kind != MODEL_FROZEN, "%s is frozen already", session->model.spec);
    for (int i = 0; i < session->model.n_inputs; i++) given[i] = session->model.inputs[i].tensor;
    if (options->calibrate != NULL) {
        TRY(examples_load(ctx, &session->model, options->calibrate, &examples));
        n = examples.n;
        of_each = examples.of_each;
    }
    status_t status = check_values(ctx, options, n);
    if (status == STATUS_OK && n > 0)
        status = accuracy_begin(ctx, &session->model, n, of_each, &accuracy);
    if (status == STATUS_OK) status = freeze_on(session, options, n, of_each, &accuracy);
    accuracy_end(&accuracy);
    examples_clear(&examples);
    return status;
}

static bool find_calibration(options_t *options)
{
    static const struct {
        const char *name;
        calibration_t calibration;
    } names[] = {{"percentile", CALIBRATION_PERCENTILE},
                 {"entropy", CALIBRATION_ENTROPY},
                 {"minmax", CALIBRATION_MINMAX}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, options->calibration_text) == 0) {
            options->calibration = names[i].calibration;
            return true;
        }
    return false;
}

/* Checks the options that need --dtype s8. --calibrate may also be used with bf16. */
static bool check_calibration(options_t *options)
{
    const bool is_s8 = options->dtype == DTYPE_S8;
    const char *alone = options->calibration_text != NULL ? "--calibration"
                        : options->percentile > 0.0       ? "--percentile"
                                                          : NULL;
    if (options->calibrate != NULL && !is_narrow(options))
        args_usage_error(NAME, "--calibrate needs --dtype s8 or bf16");
    else if (!is_s8 && alone != NULL)
        args_usage_error(NAME, "%s needs --dtype s8", alone);
    else if (is_s8 && options->calibrate == NULL)
        args_usage_error(NAME, "--dtype s8 needs --calibrate DIR");
    else if (options->calibration_text != NULL && !find_calibration(options))
        args_usage_error(NAME, "--calibration %s, must be percentile, entropy or minmax",
                         options->calibration_text);
    else if (options->percentile > 100.0)
        args_usage_error(NAME, "--percentile %g, must be at most 100", options->percentile);
    else
        return true;
    return false;
}

static bool check_dtype(options_t *options)
{
    const char *text = options->dtype_text;
    const bool has_bound = options->max_error >= 0.0 || options->min_agreement > 0.0;
    if (text == NULL && (options->kept.n > 0 || has_bound)) {
        args_usage_error(NAME, "%s needs --dtype",
                         options->kept.n > 0         ? "--keep-f32"
                         : options->max_error >= 0.0 ? "--max-layer-error"
                                                     : "--min-agreement");
        return false;
    }
    if (options->min_agreement > 1.0) {
        args_usage_error(NAME, "--min-agreement %g, must be at most 1", options->min_agreement);
        return false;
    }
    if (options->kept.n == ARGS_MAX) {
        args_usage_error(NAME, "--keep-f32 is given %d times or more", ARGS_MAX);
        return false;
    }
    if (text == NULL) return true;
    options->dtype = dtype_parse(text);
    if (options->dtype == DTYPE_F32 || is_narrow(options)) {
        if (options->dtype == DTYPE_F32) options->max_error = -1.0, options->min_agreement = 0.0;
        if (options->dtype == DTYPE_F32 || !options->keep_numerics) return true;
        args_usage_error(NAME, "--dtype %s must not be combined with --no-optimize-numerics", text);
        return false;
    }
    args_usage_error(NAME, "--dtype %s, must be f32, bf16 or s8", text);
    return false;
}

/* If --shape is repeated for an input, splits the options into sets of sizes. */
static bool check_shapes(options_t *options)
{
    const char *wrong = NULL;
    args_list_t *first = &options->session.model.shapes;
    options->shapes = *first;
    options->n_sets = sizes_n_sets(&options->shapes, &wrong);
    if (options->n_sets == 0) {
        args_usage_error(NAME, "--shape %s, an input needs one --shape, or one for each set",
                         wrong);
        return false;
    }
    *first = sizes_set(&options->shapes, 0);
    return true;
}

/* Does the checks that the table of options cannot express. `preserve` is a buffer for the
 * names. */
static bool check_options(options_t *options, const char *spec, char *preserve, size_t capacity)
{
    if (!session_check_model(NAME, spec, &options->session)) return false;
    if (options->output == NULL || model_kind(options->output) != MODEL_FROZEN) {
        args_usage_error(NAME, "-o %s, must be FILE.tessera",
                         options->output != NULL ? options->output : "is missing");
        return false;
    }
    if (options->tune_seconds == 0.0 || options->tune_seconds > 1e6) {
        args_usage_error(NAME, "--tune %g, must be more than 0 and at most 1e6 seconds",
                         options->tune_seconds);
        return false;
    }
    if (!check_shapes(options) || !check_dtype(options) || !check_calibration(options))
        return false;
    if (options->preserve == NULL) return true;
    snprintf(preserve, capacity, "%s", options->preserve);
    if (strlen(options->preserve) < capacity && args_split(preserve, &options->preserved) &&
        options->preserved.n < ARGS_MAX) {
        options->preserved.items[options->preserved.n] = NULL;
        return true;
    }
    args_usage_error(NAME, "--preserve %s, must be names separated by commas", options->preserve);
    return false;
}

int command_freeze(int argc, char **argv)
{
    options_t options = {.output = NULL, .tune_seconds = -1, .max_error = -1, .rounding_error = -1};
    args_list_t operands;
    char preserve[2048];
    int code;
    const args_option_t table[] = {
        {"-o", ARGS_TEXT, &options.output, "FILE.tessera", "output file", 0, 0},
        {"--preserve", ARGS_TEXT, &options.preserve, "A,B",
         "attributes and methods to keep, in addition to forward", 0, 0},
        {"--no-optimize-numerics", ARGS_FLAG, &options.keep_numerics, NULL,
         "skip passes that may change the last bits, such as folding batch norm", 0, 0},
        {"--dtype", ARGS_TEXT, &options.dtype_text, "f32|bf16|s8",
         "type of convolutions, linear layers and matmuls (f32)", 0, 0},
        {"--calibrate", ARGS_TEXT, &options.calibrate, "DIR",
         "folder of examples: NAME.npy or NAME.NUMBER.npy; any .npy for one input", 0, 0},
        {"--calibration", ARGS_TEXT, &options.calibration_text, "KIND",
         "percentile, entropy or minmax: how ranges are cut (percentile)", 0, 0},
        {"--percentile", ARGS_NUMBER, &options.percentile, "P",
         "percentage of elements below the upper bound of a range (99.99)", 0, 0},
        {"--keep-f32", ARGS_REPEATED, &options.kept, "PATTERN",
         "paths of operators that stay f32; * matches any text; may be repeated", 0, 0},
        {"--max-layer-error", ARGS_NUMBER, &options.max_error, "E",
         "layers with a larger error, max |a-b| / max |b|, stay f32", 0, 0},
        {"--min-agreement", ARGS_NUMBER, &options.min_agreement, "A",
         "keep the worst layers in f32 until this share of top-1 scores agrees", 0, 0},
        {"--max-error", ARGS_NUMBER, &options.rounding_error, "F",
         "allowed error of Winograd, Strassen and 3-byte weights together (1e-4)", 0, 0},
        {"--tune", ARGS_NUMBER, &options.tune_seconds, "SECONDS",
         "measure kernels and formats for about this time, and choose the fastest", 0, 0},
        SESSION_OPTIONS(options.session),
    };
    int n_options = (int)(sizeof table / sizeof *table);
    if (!args_parse(&command, table, n_options, argc, argv, &operands, &code)) return code;
    if (!check_options(&options, operands.items[0], preserve, sizeof preserve)) return EXIT_USAGE;
    session_t session;
    options.session.model.draws_none = true;
    options.session.model.open_size = OPEN_SIZE;
    if (!session_begin(NAME, operands.items[0], &options.session, &session)) return EXIT_FAILED;
    bool is_done = session_check(NAME, session.ctx, freeze_model(&session, &options));
    session_end(&session);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
