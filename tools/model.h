/* MODEL of a command line: a module, its inputs and outputs by name, and tensors to run it on. */
#ifndef TESSERA_TOOLS_MODEL_H
#define TESSERA_TOOLS_MODEL_H

#include <tessera.h>

#include "tools/args.h"

#define MODEL_MAX_INPUTS 32
#define MODEL_NAME_MAX 1024 /* ONNX has no bound; some exporters write whole paths */

typedef enum model_kind { MODEL_NONE, MODEL_ZOO, MODEL_ONNX, MODEL_FROZEN } model_kind_t;

/* What a spec names, by its form alone; MODEL_NONE: it is no model. */
model_kind_t model_kind(const char *spec);

typedef struct model_input {
    char name[MODEL_NAME_MAX];
    tensor_info_t info; /* dtype NONE: not known */
    int64_t bound;      /* integers are drawn from [0, bound) */
    tensor_t *tensor;
} model_input_t;

typedef struct model {
    const char *spec; /* as on the command line */
    model_kind_t kind;
    module_t *module;
    int n_inputs;
    model_input_t inputs[MODEL_MAX_INPUTS];
} model_t;

#define MODEL_MAPPED "mapped"
#define MODEL_COPIED "copied"

/* Options about inputs and loading; zeroed is the default. */
typedef struct model_options {
    int64_t batch; /* 0: what the model has, 1 where it is free */
    int64_t seed;
    args_list_t inputs; /* "NAME=FILE.npy" */
    args_list_t shapes; /* "NAME=1x3x320x480" */
    const char *load;   /* of a frozen file: MODEL_MAPPED, as NULL, or MODEL_COPIED */
    bool is_unchecked;
    bool draws_none;   /* inputs that are not given have no tensor */
    int64_t open_size; /* of an ONNX file, for sizes that nothing says; 0: such a size is refused */
} model_options_t;

/* Loads `file.onnx`, `file.tessera` or `zoo:NAME` and finds its inputs. INVALID_ARGUMENT for
 * sizes that the model cannot have. */
status_t model_load(context_t *ctx, const char *spec, const model_options_t *options,
                    model_t *out_model);
void model_clear(model_t *model);

/* Reads and draws (unless draws_none) the inputs' tensors: floating ones standard normal, integers
 * uniform in a legal range, each by numbers of its own, so that giving one leaves the others as
 * they are. */
status_t model_fill_inputs(context_t *ctx, model_t *model, const model_options_t *options);

/* The first size of the first input, whose tensors are filled; 1 where there is none. */
int64_t model_batch(const model_t *model);

/* Name of output `index`, in a buffer of MODEL_NAME_MAX bytes. */
const char *model_output_name(const module_t *module, int index, int n_outputs, char *out_name);

#endif
