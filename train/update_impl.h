/* The loops of a step: pointers and sizes only. */
#ifndef TESSERA_TRAIN_UPDATE_IMPL_H
#define TESSERA_TRAIN_UPDATE_IMPL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum update_kind { UPDATE_SGD, UPDATE_ADAM, UPDATE_RMSPROP } update_kind_t;

#define UPDATE_MAX_STATES 3

/* What happens to n elements that lie in the same order in all arrays. States are those of the
 * kind, in the order of their names; NULL: the options ask for none. */
typedef struct update {
    float *parameter;
    const float *gradient;
    float *state[UPDATE_MAX_STATES];
    int64_t n;
    float decay;  /* times the parameter, is added to the gradient; 0: nothing is */
    float shrink; /* the parameter is multiplied by it first; 1: it is not */
    float rate;
    float momentum;
    float blend;        /* of the gradient in SGD's momentum: 1 - dampening */
    float gain1, gain2; /* 1 - beta1, 1 - beta2, taken in double */
    float beta2;        /* RMSprop's alpha */
    float eps;
    float root; /* sqrt(1 - beta2^t) */
    bool is_nesterov;
} update_t;

/* All of them in one parallel region. */
void update_run(update_kind_t kind, int n_threads, int n, const update_t *updates);

/* n elements from `first` on, whose gradient lies elsewhere, on the calling thread. */
void update_part(update_kind_t kind, const update_t *update, int64_t first, int64_t n,
                 const float *gradient);

#endif
