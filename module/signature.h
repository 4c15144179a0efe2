/* Signatures: name, dtype and sizes of a method's arguments and results.
 *
 * Methods of imported, traced, parsed, frozen and loaded modules run graphs, which contain their
 * signature. A C method has a signature only if module_describe sets one, as the zoo's networks
 * do. */
#ifndef TESSERA_MODULE_SIGNATURE_H
#define TESSERA_MODULE_SIGNATURE_H

#include "module/module.h"

/* One argument or result of a method. */
typedef struct module_value {
    const char *name;                  /* in the model's file, else in the graph; may be NULL */
    datum_kind_t kind;                 /* DATUM_NONE: not known; other fields are for tensors */
    dtype_t dtype;                     /* DTYPE_NONE: not known */
    int rank;                          /* -1: not known */
    int64_t sizes[TENSOR_MAX_RANK];    /* -1: any size */
    const char *dims[TENSOR_MAX_RANK]; /* names of sizes of -1, or NULL; equal names: equal sizes */
    int64_t made[TENSOR_MAX_RANK];     /* when traced or imported; -1: not known */
} module_value_t;

/* The number of arguments or results of a method; -1 if it is not known, or if there is no such
 * method. `method` may be a path. */
int module_n_inputs(const module_t *module, const char *method) TESSERA_API(module_n_inputs);
int module_n_outputs(const module_t *module, const char *method) TESSERA_API(module_n_outputs);

/* Describe argument or result `index`. The texts belong to the method or the module, and are valid
 * until the method or the module is changed.
 *
 * INVALID_ARGUMENT  no such method; index out of range
 * UNSUPPORTED       a C method without a signature (see module_describe) */
status_t module_input(context_t *ctx, const module_t *module, const char *method, int index,
                      module_value_t *out_value) TESSERA_API(module_input);
status_t module_output(context_t *ctx, const module_t *module, const char *method, int index,
                       module_value_t *out_value) TESSERA_API(module_output);

/* Checks whether a method accepts tensors of these dtypes and sizes, without running it. Layouts do
 * not matter. If this function fails, a call fails with the same message, unless the method can
 * make a graph for these sizes (onnx_keep). If it returns OK, a call can still fail for another
 * reason, such as an index out of range.
 *
 *   forward: input x is f32[3,4], the graph was made for f32[1,4]
 *
 * in  [n_in]; NULL: this argument is not checked, for example because it is a list
 *
 * INVALID_ARGUMENT  no such method; the number of arguments, a dtype or a size does not match
 * UNSUPPORTED       a C method, which checks its arguments when it runs */
status_t module_check_inputs(context_t *ctx, const module_t *module, const char *method, int n_in,
                             const tensor_info_t *const *in) TESSERA_API(module_check_inputs);

/* Sets the signature of a C method, for module_input and module_output; calls are not checked
 * against it. Values and their texts are copied.
 *
 * INVALID_ARGUMENT  no such method, or not a C method; a rank or a number out of range */
status_t module_describe(context_t *ctx, module_t *module, const char *method, int n_in,
                         const module_value_t *in, int n_out, const module_value_t *out)
    TESSERA_API(module_describe);

#endif
