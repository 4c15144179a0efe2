/* Steps of optimizers.
 *
 * This folder contains the loops of train/: updates of parameters, and the norm and scaling of
 * gradients (gradients_impl.h). */
#ifndef TESSERA_KERNELS_OPTIMIZER_UPDATE_IMPL_H
#define TESSERA_KERNELS_OPTIMIZER_UPDATE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/isa_impl.h"

typedef enum update_kind { UPDATE_SGD, UPDATE_ADAM, UPDATE_RMSPROP } update_kind_t;

#define UPDATE_MAX_STATES 3

/* The update of n elements, which have the same order in all arrays. state[] is in the order of the
 * state names of the optimizer's kind; a state is NULL if the options do not use it. */
typedef struct update {
    float *parameter;
    const float *gradient;
    float *state[UPDATE_MAX_STATES];
    int64_t n;
    float decay;  /* weight decay: decay * parameter is added to the gradient */
    float shrink; /* the parameter is first multiplied by this; 1: unchanged */
    float rate;
    float momentum;
    float blend;        /* 1 - dampening: factor of the gradient in SGD's momentum */
    float gain1, gain2; /* 1 - beta1, 1 - beta2, computed in double */
    float beta2;        /* alpha for RMSprop */
    float eps;
    float root; /* sqrt(1 - beta2^t) */
    bool is_nesterov;
} update_t;

/* Runs all updates; their elements are divided among the threads. */
void update_run(update_kind_t kind, int n_threads, int n, const update_t *updates);

/* Updates n elements, from `first` on, with the n elements of `gradient`, on the calling thread. */
void update_part(update_kind_t kind, const update_t *update, int64_t first, int64_t n,
                 const float *gradient);

/* Loops of one ISA, which update elements [first, last). */
typedef void update_loop_t(const update_t *update, int64_t first, int64_t last);
typedef struct update_loops {
    update_loop_t *sgd, *sgd_momentum;         /* the second has state[0] */
    update_loop_t *adam, *adam_amsgrad;        /* the second has state[2] */
    update_loop_t *rmsprop, *rmsprop_centered; /* the second has state[2] */
} update_loops_t;
ISA_EXTERN(const update_loops_t, update_loops);

#endif
