/* The zoo: nine networks with torchvision's parameter names. Weights are random (He initialisation,
 * from a seed). Running means and variances are random too, not 0 and 1, so that batch norms have
 * an effect. No files are read.
 *
 * For tests, all widths (numbers of channels) can be divided, which makes small networks. */
#ifndef TESSERA_MODULE_ZOO_H
#define TESSERA_MODULE_ZOO_H

#include "module/module.h"

typedef struct zoo_options {
    int64_t n_classes; /* 0 means 1000 */
    int64_t divide;    /* divisor of all widths, which stay at least 8; 0: 1 */
    uint64_t seed;     /* 0 means 1 */
} zoo_options_t;

/* Creates a network by name. Its input is f32[N, 3, size, size]; *out_size receives the usual size
 * (224). Other heights and widths work unless the result of some layer would be empty. Fails with
 * INVALID_ARGUMENT if the name is unknown; the message lists the names. options may be NULL. */
status_t zoo_create(context_t *ctx, const char *name, const zoo_options_t *options,
                    module_t **out_module, int64_t *out_size) TESSERA_API(zoo_create);

/* The names of the networks, NULL-terminated. */
const char *const *zoo_names(void) TESSERA_API(zoo_names);

status_t zoo_resnet50(context_t *ctx, module_t **out_module) TESSERA_API(zoo_resnet50);
status_t zoo_alexnet(context_t *ctx, module_t **out_module) TESSERA_API(zoo_alexnet);

#endif
