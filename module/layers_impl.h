/* What the zoo and composite modules need of layers beyond their constructors. */
#ifndef TESSERA_MODULE_LAYERS_IMPL_H
#define TESSERA_MODULE_LAYERS_IMPL_H

#include "module/layers.h"

/* How a new tensor is filled: normal with deviation `a`, uniform in [a, b), or all `a`. Elements
 * follow from one draw of the context's random numbers and their own number, by integer arithmetic
 * and one rounding, so they are the same on every machine. */
typedef enum fill { FILL_NORMAL, FILL_UNIFORM, FILL_VALUE } fill_t;

status_t layer_fill(context_t *ctx, tensor_t *tensor, fill_t fill, double a, double b);

/* A new f32 tensor as parameter, or as buffer. */
status_t layer_parameter(context_t *ctx, module_t *module, const char *name, int rank,
                         const int64_t *sizes, fill_t fill, double a, double b);
status_t layer_buffer(context_t *ctx, module_t *module, const char *name, int rank,
                      const int64_t *sizes, fill_t fill, double a, double b);

/* Deviation of new biases. */
#define LAYER_BIAS_DEVIATION 0.05

/* A module of a type with a forward, and what `init` puts in; init may be NULL. */
typedef status_t (*layer_init_t)(context_t *ctx, module_t *module, const void *user);
status_t layer_build(context_t *ctx, const char *type, forward_t forward, layer_init_t init,
                     const void *user, module_t **out_module);

/* What forwards read: attributes, which whoever looks at a module can change. Of sizes there is one
 * for each spatial dimension; they stay zero where the attribute is not there. INVALID_ARGUMENT
 * names an attribute that is not there, or of another kind. */
#define LAYER_MAX_SPATIAL 3
status_t layer_one_input(context_t *ctx, const module_t *self, int n_in);
status_t layer_read_int(context_t *ctx, const module_t *self, const char *name, int64_t *out);
status_t layer_read_float(context_t *ctx, const module_t *self, const char *name, double *out);
status_t layer_read_bool(context_t *ctx, const module_t *self, const char *name, bool *out);
status_t layer_read_sizes(context_t *ctx, const module_t *self, const char *name, int64_t *out);
/* At most so many ints; *out_n is how many there are. */
status_t layer_read_ints(context_t *ctx, const module_t *self, const char *name, int most,
                         int *out_n, int64_t *out);

/* Puts the first of LAYER_MAX_SPATIAL numbers where one is 0, or where that is 0, too, the default:
 * 1 if defaults are NULL. */
void layer_replace_zeros(int64_t *values, const int64_t *defaults);

/* Attributes of plain C values. */
status_t layer_set_int(context_t *ctx, module_t *module, const char *name, int64_t value);
status_t layer_set_float(context_t *ctx, module_t *module, const char *name, double value);
status_t layer_set_bool(context_t *ctx, module_t *module, const char *name, bool value);
status_t layer_set_sizes(context_t *ctx, module_t *module, const char *name, int n,
                         const int64_t *values);

/* The children in order: the forward of Sequential, and of modules that are one in torchvision. */
status_t layer_forward_children(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out);

/* A child that is taken over, also on failure; NULL passes on the context's failure. */
status_t layer_child_take(context_t *ctx, module_t *module, const char *name, module_t *child);

#endif
