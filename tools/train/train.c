/* tessera train: trains a model on arrays or images. */
#include "tools/train/train.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/support/command.h"
#include "tools/support/options.h"
#include "tools/support/session.h"

#define NAME "train"
#define PATH_MAX_BYTES 4096

static const args_command_t command = {
    .name = NAME,
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .example =
        "tessera train zoo:resnet18 --data pictures --epochs 5 --shuffle -o trained.safetensors",
    .about =
        "Trains a model on arrays (x.npy, y.npy), or on a folder of PNG and JPEG images with a\n"
        "subfolder for each class. Weights, gradients and the optimizer's state stay blocked\n"
        "from the first step to the last; in the output file they are row-major. On a terminal\n"
        "a bar shows loss, accuracy and the remaining time.",
    .more =
        "losses: " TRAIN_CRITERIA "\n"
        "  the first two need classes, one integer for each item; the others need numbers with\n"
        "  the sizes of the model's output\n"
        "bytes of x.npy and of images are scaled to 0..1; the seed sets the order, flips and\n"
        "  crops\n"
        "the file has weights under their names, and the optimizer's state. --resume continues\n"
        "  from it as if training had not stopped; --steps and --epochs count from the first\n"
        "  start\n"
        "mpirun -n 2 tessera train ...: each process trains on its part of every batch, and the\n"
        "  first one writes the file. If one fails, all end with exit code 1\n"
        "a loss that is not finite ends the run with exit code 1, and no file is written"};

/* ---- command line ---- */

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static bool check_data(const train_settings_t *settings)
{
    if (settings->data == NULL) {
        args_usage_error(NAME, "--data is missing, X.npy or a folder of classes");
        return false;
    }
    bool needs_labels = !is_folder(settings->data);
    if (needs_labels == (settings->labels != NULL)) return true;
    args_usage_error(
        NAME,
        needs_labels
            ? "--data %s needs --labels Y.npy"
            : "--data %s is a folder, whose subfolders are the labels; --labels must be absent",
        settings->data);
    return false;
}

static bool check_names(const train_settings_t *settings)
{
    const train_recipe_t *recipe = &settings->recipe;
    if (train_find_criterion(recipe->loss) == NULL) {
        args_usage_error(NAME, "--loss %s, must be " TRAIN_CRITERIA, recipe->loss);
        return false;
    }
    if (!train_is_optimizer(recipe->optimizer)) {
        args_usage_error(NAME, "--optimizer %s, must be " TRAIN_OPTIMIZERS, recipe->optimizer);
        return false;
    }
    if (recipe->momentum >= 0 && strcmp(recipe->optimizer, "sgd") != 0) {
        args_usage_error(NAME, "--momentum needs --optimizer sgd, not %s", recipe->optimizer);
        return false;
    }
    if (train_find_schedule(settings->schedule) == NULL) {
        args_usage_error(NAME, "--schedule %s, must be " TRAIN_SCHEDULES, settings->schedule);
        return false;
    }
    return true;
}

static bool check(train_settings_t *settings, const char *mode)
{
    if (model_kind(settings->spec) != MODEL_ZOO && model_kind(settings->spec) != MODEL_ONNX) {
        args_usage_error(NAME, "\"%s\" is not a model to train, must be zoo:NAME or file.onnx",
                         settings->spec);
        return false;
    }
    settings->recipe.mode = TRAIN_EAGER;
    if (mode != NULL && strcmp(mode, "planned") == 0)
        settings->recipe.mode = TRAIN_PLANNED;
    else if (mode != NULL && strcmp(mode, "eager") != 0) {
        args_usage_error(NAME, "--mode %s, must be eager or planned", mode);
        return false;
    }
    if (settings->recipe.memory_limit > 0 && settings->recipe.mode != TRAIN_PLANNED) {
        args_usage_error(NAME, "--memory-limit needs --mode planned");
        return false;
    }
    if (settings->n_steps > 0 && settings->n_epochs > 0) {
        args_usage_error(NAME, "--steps and --epochs are both given, one is enough");
        return false;
    }
    if (settings->save_every > 0 && settings->output == NULL) {
        args_usage_error(NAME, "--save-every needs -o FILE.safetensors");
        return false;
    }
    if (settings->n_steps == 0 && settings->n_epochs == 0) settings->n_epochs = 1;
    return check_data(settings) && check_names(settings);
}

/* Unless --curve names a file, the curve is saved next to the weights. */
static void find_curve(train_settings_t *settings, char *out_path)
{
    static const char end[] = ".safetensors";
    if (settings->curve != NULL || settings->output == NULL) return;
    size_t n = strlen(settings->output), m = strlen(end);
    if (n > m && strcmp(settings->output + n - m, end) == 0) n -= m;
    snprintf(out_path, PATH_MAX_BYTES, "%.*s.svg", (int)n, settings->output);
    settings->curve = out_path;
}

static bool parse(int argc, char **argv, train_settings_t *settings, int *out_code)
{
    const char *mode = NULL;
    args_list_t operands;
    train_recipe_t *recipe = &settings->recipe;
    const args_option_t table[] = {
        {"--data", ARGS_TEXT, &settings->data, "X.npy|DIR",
         "inputs, or a folder with a subfolder of images for each class", 0, 0},
        {"--labels", ARGS_TEXT, &settings->labels, "Y.npy", "a target for each item", 0, 0},
        {"--loss", ARGS_TEXT, &recipe->loss, "L", "the loss, see below (cross_entropy)", 0, 0},
        {"--optimizer", ARGS_TEXT, &recipe->optimizer, "O", TRAIN_OPTIMIZERS " (sgd)", 0, 0},
        {"--lr", ARGS_NUMBER, &recipe->lr, "F", "learning rate (sgd: 0.01, else 0.001)", 0, 0},
        {"--momentum", ARGS_NUMBER, &recipe->momentum, "F", "momentum of sgd (0)", 0, 0},
        {"--weight-decay", ARGS_NUMBER, &recipe->weight_decay, "F", "weight decay (0; adamw: 0.01)",
         0, 0},
        {"--schedule", ARGS_TEXT, &settings->schedule, "S",
         TRAIN_SCHEDULES " of the learning rate (constant)", 0, 0},
        {"--batch", ARGS_INTEGER, &settings->batch, "N", "batch size (32)", 1, 65536},
        {"--steps", ARGS_INTEGER, &settings->n_steps, "N", "total number of batches", 1, INT32_MAX},
        {"--epochs", ARGS_INTEGER, &settings->n_epochs, "N", "passes over the data (1)", 1,
         INT32_MAX},
        {"--shuffle", ARGS_FLAG, &settings->shuffle, NULL, "shuffle the items in each epoch", 0, 0},
        {"--flip", ARGS_FLAG, &settings->flip, NULL,
         "flip images left to right, with probability 1/2", 0, 0},
        {"--crop", ARGS_INTEGER, &settings->crop_padding, "N",
         "pad images by N pixels and crop them at random", 1, 4096},
        {"--seed", ARGS_INTEGER, &settings->seed, "N",
         "seed of initial weights and of the order (0)", 0, INT32_MAX},
        {"--mode", ARGS_TEXT, &mode, "MODE", "eager, or planned: each step is one plan (eager)", 0,
         0},
        option_of(OPTION_MEMORY, &recipe->memory_limit),
        {"--bf16-gradients", ARGS_FLAG, &settings->bf16_gradients, NULL,
         "exchange gradients between processes in bf16: half the bytes", 0, 0},
        option_of(OPTION_THREADS, &settings->n_threads),
        {"--resume", ARGS_TEXT, &settings->resume, "FILE", "continue from a file that -o wrote", 0,
         0},
        {"-o", ARGS_TEXT, &settings->output, "FILE",
         "output file for weights and optimizer state, .safetensors", 0, 0},
        {"--save-every", ARGS_INTEGER, &settings->save_every, "N",
         "also write the file of -o every N steps", 1, INT32_MAX},
        {"--curve", ARGS_TEXT, &settings->curve, "FILE",
         "write the losses as SVG (default: next to -o)", 0, 0},
        option_of(OPTION_JSON, &settings->as_json),
    };
    if (!args_parse(&command, table, (int)(sizeof table / sizeof table[0]), argc, argv, &operands,
                    out_code))
        return false;
    *out_code = EXIT_USAGE;
    settings->spec = operands.items[0];
    return check(settings, mode);
}

int command_train(int argc, char **argv)
{
    char curve[PATH_MAX_BYTES];
    int code;
    train_settings_t settings = {.batch = 32,
                                 .schedule = "constant",
                                 .recipe = {.loss = "cross_entropy",
                                            .optimizer = "sgd",
                                            .lr = -1,
                                            .momentum = -1,
                                            .weight_decay = -1}};
    train_record_t record = {0};
    if (!parse(argc, argv, &settings, &code)) return code;
    find_curve(&settings, curve);
    bool is_done = train_run(&settings, &record);
    train_record_clear(&record);
    return is_done ? EXIT_DONE : EXIT_FAILED;
}
