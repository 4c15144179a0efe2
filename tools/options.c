#include "tools/options.h"

#include <stddef.h>

static const args_option_t options[OPTION_COUNT] = {
    [OPTION_BATCH] = {"--batch", ARGS_INTEGER, NULL, "N",
                      "images at a time, where the model leaves it open (1)", 1, 65536},
    [OPTION_SHAPE] = {"--shape", ARGS_REPEATED, NULL, "NAME=1x3x320x480",
                      "sizes of an input, where the model leaves them open; may be repeated", 0, 0},
    [OPTION_INPUT] = {"--input", ARGS_REPEATED, NULL, "NAME=FILE.npy",
                      "an input that is not drawn; may be repeated", 0, 0},
    [OPTION_SEED] = {"--seed", ARGS_INTEGER, NULL, "N", "seed of inputs that are not given (0)", 0,
                     INT32_MAX},
    [OPTION_THREADS] = {"--threads", ARGS_INTEGER, NULL, "N",
                        "threads (TESSERA_THREADS, else cores)", 1, 1024},
    [OPTION_MODE] = {"--mode", ARGS_TEXT, NULL, "MODE", "how to run it, see below", 0, 0},
    [OPTION_MODES] = {"--modes", ARGS_TEXT, NULL, "A,B", "modes, in this order (all)", 0, 0},
    [OPTION_TOLERANCE] = {"--tolerance", ARGS_NUMBER, NULL, "T",
                          "exit with 3 above max |a-b| / max |b|, b what is compared with", 0, 0},
    [OPTION_JSON] = {"--json", ARGS_FLAG, NULL, NULL, "print one JSON object in place of the table",
                     0, 0},
    [OPTION_MEMORY] = {"--memory-limit", ARGS_BYTES, NULL, "BYTES",
                       "of a planned step's arena, as 512M or 2G: the backward pass makes\n"
                       "                            activations again, which takes time (none)",
                       0, 0},
    [OPTION_LOAD] = {"--load", ARGS_TEXT, NULL, "mapped|copied",
                     "constants of a file.tessera: mapped, or copied into huge pages (mapped)", 0,
                     0},
    [OPTION_UNCHECKED] = {"--unchecked", ARGS_FLAG, NULL, NULL,
                          "without checksums of the constants of a file.tessera, if it is trusted",
                          0, 0},
};

args_option_t option_of(option_t option, void *out)
{
    args_option_t made = options[option];
    made.out = out;
    return made;
}
