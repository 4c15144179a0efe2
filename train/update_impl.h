/* The loops of a step; they see only pointers and sizes. */
#ifndef TESSERA_TRAIN_UPDATE_IMPL_H
#define TESSERA_TRAIN_UPDATE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum update_kind { UPDATE_SGD, UPDATE_ADAM, UPDATE_RMSPROP } update_kind_t;

#define UPDATE_MAX_STATES 3

/* The update of n elements, which have the same order in all arrays. States are in the order of the
 * kind's state names; NULL: not used with these options. */
typedef struct update {
    float *parameter;
    const float *gradient;
    float *state[UPDATE_MAX_STATES];
    int64_t n;
    float decay;  /* weight decay: decay times the parameter is added to the gradient */
    float shrink; /* factor applied to the parameter first; 1: none */
    float rate;
    float momentum;
    float blend;        /* factor of the gradient in SGD's momentum: 1 - dampening */
    float gain1, gain2; /* 1 - beta1, 1 - beta2, computed in double */
    float beta2;        /* alpha for RMSprop */
    float eps;
    float root; /* sqrt(1 - beta2^t) */
    bool is_nesterov;
} update_t;

/* Runs all updates in one parallel region. */
void update_run(update_kind_t kind, int n_threads, int n, const update_t *updates);

/* Updates n elements from `first` on, with gradients in a separate array, on the calling thread. */
void update_part(update_kind_t kind, const update_t *update, int64_t first, int64_t n,
                 const float *gradient);

#endif
