/* What module_describe says of a method in C, kept with it. */
#ifndef TESSERA_MODULE_SIGNATURE_IMPL_H
#define TESSERA_MODULE_SIGNATURE_IMPL_H

#include "module/signature.h"

typedef struct signature {
    allocator_t allocator;
    int n_in, n_out;
    module_value_t values[]; /* of arguments, then of results; their texts lie behind them */
} signature_t;

status_t signature_create(context_t *ctx, int n_in, const module_value_t *in, int n_out,
                          const module_value_t *out, signature_t **out_signature);
void signature_release(signature_t *signature);

/* As method_class_t.describe; of NULL *out_n stays as it is. */
status_t signature_describe(const signature_t *signature, bool is_output, int index, int *out_n,
                            module_value_t *out_value);

#endif
