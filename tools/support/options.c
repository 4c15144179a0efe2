#include "tools/support/options.h"

#include <stddef.h>

static const args_option_t options[OPTION_COUNT] = {
    [OPTION_BATCH] = {"--batch", ARGS_INTEGER, NULL, "N",
                      "batch size, if the model leaves it open (1)", 1, 65536},
    [OPTION_SHAPE] = {"--shape", ARGS_REPEATED, NULL, "NAME=1x3x320x480",
                      "sizes of an input, if the model leaves them open; may be repeated", 0, 0},
    [OPTION_INPUT] = {"--input", ARGS_REPEATED, NULL, "NAME=FILE.npy",
                      "values of an input; may be repeated", 0, 0},
    [OPTION_SEED] = {"--seed", ARGS_INTEGER, NULL, "N",
                     "seed of the random values of other inputs (0)", 0, INT32_MAX},
    [OPTION_THREADS] = {"--threads", ARGS_INTEGER, NULL, "N",
                        "number of threads (TESSERA_THREADS, else cores)", 1, 1024},
    [OPTION_MODE] = {"--mode", ARGS_TEXT, NULL, "MODE", "how to run the model, see below", 0, 0},
    [OPTION_MODES] = {"--modes", ARGS_TEXT, NULL, "A,B", "modes to run, in this order (all)", 0, 0},
    [OPTION_TOLERANCE] = {"--tolerance", ARGS_NUMBER, NULL, "T",
                          "exit with 3 if max |a-b| / max |b| is larger; b is the reference", 0, 0},
    [OPTION_JSON] = {"--json", ARGS_FLAG, NULL, NULL, "print one JSON object instead of the table",
                     0, 0},
    [OPTION_MEMORY] =
        {"--memory-limit", ARGS_BYTES, NULL, "BYTES",
         "limit of a planned step's memory, such as 512M or 2G: the backward pass\n"
         "                            computes activations again, which takes time (none)",
         0, 0},
    [OPTION_LOAD] = {"--load", ARGS_TEXT, NULL, "mapped|copied",
                     "constants of a file.tessera: mapped, or copied into huge pages (mapped)", 0,
                     0},
    [OPTION_UNCHECKED] = {"--unchecked", ARGS_FLAG, NULL, NULL,
                          "skip the checksums of the constants of a trusted file.tessera", 0, 0},
};

args_option_t option_of(option_t option, void *out)
{
    args_option_t made = options[option];
    made.out = out;
    return made;
}
