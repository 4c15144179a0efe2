/* Signatures: what a method takes and gives, by name, dtype and sizes.
 *
 * Graph methods (imported, traced, parsed, frozen, loaded) know theirs; a method in C has the one
 * that module_describe gave it, as those of the zoo have. */
#ifndef TESSERA_MODULE_SIGNATURE_H
#define TESSERA_MODULE_SIGNATURE_H

#include "module/module.h"

TESSERA_BEGIN

/* One argument or result of a method. */
typedef struct module_value {
    const char *name;                  /* that of the model's file, else the graph's; may be NULL */
    datum_kind_t kind;                 /* DATUM_NONE: not known; the rest is of tensors */
    dtype_t dtype;                     /* DTYPE_NONE: not known */
    int rank;                          /* -1: not known */
    int64_t sizes[TENSOR_MAX_RANK];    /* -1: open */
    const char *dims[TENSOR_MAX_RANK]; /* name of an open size, which is the same wherever that name
                                          stands; or NULL */
    int64_t made[TENSOR_MAX_RANK];     /* open sizes as they were when the method was traced or
                                          imported, others as in sizes; -1: not known */
} module_value_t;

/* How many arguments a method takes, and how many results it gives; -1 where that is not known or
 * there is no such method. Names of methods may be dotted. */
int module_n_inputs(const module_t *module, const char *method) TESSERA_API(module_n_inputs);
int module_n_outputs(const module_t *module, const char *method) TESSERA_API(module_n_outputs);

/* Argument and result `index`. Texts are the method's or the module's: they hold until either is
 * changed.
 *
 * INVALID_ARGUMENT  no such method; index out of range
 * UNSUPPORTED       the method is C code that module_describe said nothing of */
status_t module_input(context_t *ctx, const module_t *module, const char *method, int index,
                      module_value_t *out_value) TESSERA_API(module_input);
status_t module_output(context_t *ctx, const module_t *module, const char *method, int index,
                       module_value_t *out_value) TESSERA_API(module_output);

/* Whether a method takes tensors of these dtypes and sizes, asked before a call: layouts do not
 * matter, and nothing runs. A call that this refuses fails with the same message; one that fails
 * though this gives OK has failed for something else, as an index out of range.
 *
 *   forward: input x is f32[3,4], the graph was made for f32[1,4]
 *
 * in  [n_in]; NULL: nothing is asked of that argument, as of a list
 *
 * INVALID_ARGUMENT  no such method; another number of arguments, another dtype or size
 * UNSUPPORTED       the method is C code, which checks its arguments when it runs */
status_t module_check_inputs(context_t *ctx, const module_t *module, const char *method, int n_in,
                             const tensor_info_t *const *in) TESSERA_API(module_check_inputs);

/* Says what a method in C takes and gives; nothing is checked at calls. Values and their texts are
 * copied.
 *
 * INVALID_ARGUMENT  no such method, or it is none in C; a rank or a number out of range */
status_t module_describe(context_t *ctx, module_t *module, const char *method, int n_in,
                         const module_value_t *in, int n_out, const module_value_t *out)
    TESSERA_API(module_describe);

TESSERA_END

#endif
