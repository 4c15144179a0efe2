/* The zoo: nine networks with torchvision's parameter names, seeded He weights, and batch-norm
 * statistics that are not trivial. No files are read.
 *
 * Widths can be divided, for tests under sanitizers. */
#ifndef TESSERA_MODULE_ZOO_H
#define TESSERA_MODULE_ZOO_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct zoo_options {
    int64_t n_classes; /* 0: 1000 */
    int64_t divide;    /* widths divided by this, at least 8 each; 0: 1 */
    uint64_t seed;     /* 0: 1 */
} zoo_options_t;

/* A network by name; the input it is made for is f32[N, 3, size, size] with the size given (224),
 * and other heights and widths do as long as no layer's result is empty.
 * INVALID_ARGUMENT lists the names. options may be NULL. */
status_t zoo_create(context_t *ctx, const char *name, const zoo_options_t *options,
                    module_t **out_module, int64_t *out_size) TESSERA_API(zoo_create);

/* Names in order, NULL-terminated. */
const char *const *zoo_names(void) TESSERA_API(zoo_names);

status_t zoo_resnet50(context_t *ctx, module_t **out_module) TESSERA_API(zoo_resnet50);
status_t zoo_alexnet(context_t *ctx, module_t **out_module) TESSERA_API(zoo_alexnet);

TESSERA_END

#endif
