/* Small networks that several tests run, as modules with a graph. */
#ifndef TESSERA_TESTS_NETS_H
#define TESSERA_TESTS_NETS_H

#include "module/module.h"

/* conv 7x7 stride 2, relu, grouped conv, relu, flatten, linear: f32[N,3,32,32] to f32[N,10]. The
 * graph's types are for N = 1. */
module_t *net_grouped(context_t *ctx);

/* conv, batch norm, relu, and a residual addition. */
module_t *net_residual(context_t *ctx);
/* Maps x [batch, 96, 32, 32]: y = conv2d(x), two more convolutions of y, the sum of their result
 * and y, relu, max_pool2d. The sum overwrites y. */
module_t *net_sum(context_t *ctx, int64_t batch);

/* The forward function of a module with children embedding, layers, norm and fc: they run in this
 * order, and fc reads the mean over the steps. */
status_t net_forward_transformer(context_t *ctx, module_t *self, int n_in,
                                 const tensor_t *const *in, int *n_out, tensor_t **out);

/* Makes a random input of net_grouped and net_residual. */
tensor_t *net_input(context_t *ctx, int64_t batch);

/* Checks that each image of y equals the module's result for that image of x alone. */
void net_compare(context_t *ctx, module_t *module, const tensor_t *x, const tensor_t *y);

#endif
