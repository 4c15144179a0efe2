/* The signature of a C method, as set by module_describe. */
#ifndef TESSERA_MODULE_SIGNATURE_IMPL_H
#define TESSERA_MODULE_SIGNATURE_IMPL_H

#include "module/signature.h"

typedef struct signature {
    allocator_t allocator;
    int n_in, n_out;
    module_value_t values[]; /* arguments, then results; their texts follow in memory */
} signature_t;

status_t signature_create(context_t *ctx, int n_in, const module_value_t *in, int n_out,
                          const module_value_t *out, signature_t **out_signature);
void signature_release(signature_t *signature);

/* Implements method_class_t.describe (module.h) for a C method. If the signature is NULL, leaves
 * *out_n unchanged. */
status_t signature_describe(const signature_t *signature, bool is_output, int index, int *out_n,
                            module_value_t *out_value);

#endif
