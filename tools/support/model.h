/* The MODEL operand: a module, the names of its inputs and outputs, and tensors for the inputs. */
#ifndef TESSERA_TOOLS_SUPPORT_MODEL_H
#define TESSERA_TOOLS_SUPPORT_MODEL_H

#include <tessera.h>

#include "tools/support/args.h"

#define MODEL_MAX_INPUTS 32
#define MODEL_NAME_MAX 1024 /* ONNX sets no limit; some exporters write full paths */

typedef enum model_kind { MODEL_NONE, MODEL_ZOO, MODEL_ONNX, MODEL_FROZEN } model_kind_t;

/* Returns the kind of model that an operand names, judged by its form; MODEL_NONE: no model. */
model_kind_t model_kind(const char *spec);

typedef struct model_input {
    char name[MODEL_NAME_MAX];
    tensor_info_t info; /* DTYPE_NONE: unknown */
    int64_t bound;      /* random integers are 0 to bound - 1 */
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

/* Options for inputs and loading; zeros are the defaults. */
typedef struct model_options {
    int64_t batch; /* 0: the model's own batch, or 1 if the model leaves it open */
    int64_t seed;
    args_list_t inputs; /* "NAME=FILE.npy" */
    args_list_t shapes; /* "NAME=1x3x320x480" */
    const char *load;   /* for a frozen file: MODEL_MAPPED (or NULL), or MODEL_COPIED */
    bool is_unchecked;
    bool draws_none;   /* inputs that are not given get no tensor, instead of random values */
    int64_t open_size; /* value of an ONNX file's open sizes that no option sets; 0: error */
    bool is_frozen;    /* an ONNX file is frozen, or its frozen module is taken from the store */
} model_options_t;

/* Loads `file.onnx`, `file.tessera` or `zoo:NAME`, and lists its inputs. INVALID_ARGUMENT: the
 * model cannot have the requested sizes. */
status_t model_load(context_t *ctx, const char *spec, const model_options_t *options,
                    model_t *out_model);
void model_clear(model_t *model);

/* Loads the inputs given in files, and fills the others with random values unless draws_none is
 * set: floats are standard normal, integers are uniform in a legal range. Each input has its own
 * random sequence, so giving one input does not change the others. */
status_t model_fill_inputs(context_t *ctx, model_t *model, const model_options_t *options);

/* Returns the first size of the first input; 1 if there is none. The inputs must have tensors. */
int64_t model_batch(const model_t *model);

/* Writes the name of output `index` to out_name, which has MODEL_NAME_MAX bytes. */
const char *model_output_name(const module_t *module, int index, int n_outputs, char *out_name);

#endif
