/* The zoo: nine networks with torchvision's parameter names, seeded He weights, and non-trivial
 * batch-norm statistics. It reads no files.
 *
 * Widths can be divided to get small networks for tests. */
#ifndef TESSERA_MODULE_ZOO_H
#define TESSERA_MODULE_ZOO_H

#include "module/module.h"

TESSERA_BEGIN

typedef struct zoo_options {
    int64_t n_classes; /* 0: 1000 */
    int64_t divide;    /* divides all widths, which stay at least 8; 0: 1 */
    uint64_t seed;     /* 0: 1 */
} zoo_options_t;

/* Creates a network by name. Its input is f32[N, 3, size, size], where *out_size is the usual size
 * (224). Other heights and widths work as long as no layer's result is empty. INVALID_ARGUMENT
 * lists the names. options may be NULL. */
status_t zoo_create(context_t *ctx, const char *name, const zoo_options_t *options,
                    module_t **out_module, int64_t *out_size) TESSERA_API(zoo_create);

/* The names, NULL-terminated. */
const char *const *zoo_names(void) TESSERA_API(zoo_names);

status_t zoo_resnet50(context_t *ctx, module_t **out_module) TESSERA_API(zoo_resnet50);
status_t zoo_alexnet(context_t *ctx, module_t **out_module) TESSERA_API(zoo_alexnet);

TESSERA_END

#endif
