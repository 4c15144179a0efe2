/* Helpers that the zoo and composite modules share with the layers.
 *
 * The folder module/layers contains the layers: plain ones, convolutions, norms, activations,
 * recurrent and transformer layers, and how their weights are filled. */
#ifndef TESSERA_MODULE_LAYERS_LAYERS_IMPL_H
#define TESSERA_MODULE_LAYERS_LAYERS_IMPL_H

#include "module/layers/layers.h"

/* How a new tensor is filled: with normally distributed numbers of standard deviation `a`, with
 * uniform numbers in [a, b), or with `a`. An element is computed from its index and one random
 * number per tensor. The computation needs only integers and one rounding, so all machines get the
 * same values. */
typedef enum fill { FILL_NORMAL, FILL_UNIFORM, FILL_VALUE } fill_t;

status_t layer_fill(context_t *ctx, tensor_t *tensor, fill_t fill, double a, double b);

/* Create an f32 tensor and set it as parameter or as buffer. */
status_t layer_parameter(context_t *ctx, module_t *module, const char *name, int rank,
                         const int64_t *sizes, fill_t fill, double a, double b);
status_t layer_buffer(context_t *ctx, module_t *module, const char *name, int rank,
                      const int64_t *sizes, fill_t fill, double a, double b);

/* Standard deviation of new biases. */
#define LAYER_BIAS_DEVIATION 0.05

/* Creates a module of the given type. `init` (or NULL) adds its members; afterwards `forward`
 * becomes its method "forward". */
typedef status_t (*layer_init_t)(context_t *ctx, module_t *module, const void *user);
status_t layer_build(context_t *ctx, const char *type, forward_t forward, layer_init_t init,
                     const void *user, module_t **out_module);

/* Functions for forwards. layer_one_input fails unless n_in is 1. The others read attributes, and
 * check them, because users may have changed them: they fail with INVALID_ARGUMENT if an attribute
 * is absent or has the wrong kind; the message names it. layer_read_sizes reads one size for each
 * spatial dimension; if the attribute is absent, it leaves the sizes unchanged. */
#define LAYER_MAX_SPATIAL 3
status_t layer_one_input(context_t *ctx, const module_t *self, int n_in);
status_t layer_read_int(context_t *ctx, const module_t *self, const char *name, int64_t *out);
status_t layer_read_float(context_t *ctx, const module_t *self, const char *name, double *out);
status_t layer_read_bool(context_t *ctx, const module_t *self, const char *name, bool *out);
status_t layer_read_sizes(context_t *ctx, const module_t *self, const char *name, int64_t *out);
/* Reads a list of ints and sets *out_n to its length. Fails if there are more than `most`. */
status_t layer_read_ints(context_t *ctx, const module_t *self, const char *name, int most,
                         int *out_n, int64_t *out);

/* Replaces each 0 among the LAYER_MAX_SPATIAL values: by the first value, or, if the first value is
 * 0, by the dimension's default. If defaults is NULL, all defaults are 1. */
void layer_replace_zeros(int64_t *values, const int64_t *defaults);

/* Set attributes from C values. */
status_t layer_set_int(context_t *ctx, module_t *module, const char *name, int64_t value);
status_t layer_set_float(context_t *ctx, module_t *module, const char *name, double value);
status_t layer_set_bool(context_t *ctx, module_t *module, const char *name, bool value);
status_t layer_set_sizes(context_t *ctx, module_t *module, const char *name, int n,
                         const int64_t *values);

/* Runs the children in order. This is the forward of Sequential, and of modules that derive from
 * Sequential in torchvision. */
status_t layer_forward_children(context_t *ctx, module_t *self, int n_in, const tensor_t *const *in,
                                int *n_out, tensor_t **out);

/* Sets a child and takes ownership of it, also on failure. A child may be NULL if its constructor
 * failed; then this returns that failure (the first error of the context). */
status_t layer_child_take(context_t *ctx, module_t *module, const char *name, module_t *child);

#endif
