/* Counters: every transition, reorder and copy, by cause.
 *
 * A reorder is any pass that rewrites a tensor's bytes in another order. Those by oneDNN equal the
 * reorder lines of its verbose output one for one; those by our own loops are the copies. */
#ifndef TESSERA_TENSOR_COUNTERS_H
#define TESSERA_TENSOR_COUNTERS_H

#include "tensor/context.h"

TESSERA_BEGIN

typedef enum reorder_cause {
    CAUSE_WEIGHT,   /* a parameter goes into the format an operator wants */
    CAUSE_INPUT,    /* a dense tensor enters mkldnn */
    CAUSE_OUTPUT,   /* an mkldnn tensor leaves to dense */
    CAUSE_MISMATCH, /* two formats meet */
    CAUSE_USER,     /* asked for by name */
    CAUSE_GRADIENT, /* a gradient goes into the format of the weight it is for */
    CAUSE_COUNT
} reorder_cause_t;

const char *cause_name(reorder_cause_t cause) TESSERA_API(cause_name);

typedef struct counters {
    uint64_t to_mkldnn; /* transitions, also those that moved no bytes */
    uint64_t to_dense;
    uint64_t reorders[CAUSE_COUNT]; /* by oneDNN */
    uint64_t copies[CAUSE_COUNT];   /* by our own loops */
    uint64_t reorder_bytes;         /* read plus written, reorders and copies */
    uint64_t reorder_ns;
    uint64_t operators;        /* run by dispatch or a plan */
    uint64_t primitives_built; /* by oneDNN */
    uint64_t cache_hits;       /* of prepared operators */
    uint64_t cache_misses;
    uint64_t cache_entries; /* now */
    uint64_t cache_bytes;   /* now, an estimate */
    uint64_t weights_packed;
    uint64_t plans_built;   /* one for each set of inputs that a method had no plan for */
    uint64_t plans_evicted; /* the least recently used, for want of room */
    uint64_t tensor_bytes;  /* allocated for tensors through this context, in sum */
    uint64_t plan_bytes;    /* now, an estimate: of plans beyond those of the last two sizes, and of
                               forms of weights that these alone read, for the method that built the
                               last plan */
} counters_t;

/* A copy of the context's counters, and back to zero (but for what tells the present). */
void counters_read(const context_t *ctx, counters_t *out_counters) TESSERA_API(counters_read);
void counters_reset(context_t *ctx) TESSERA_API(counters_reset);

/* Sums over causes: weight; gradient; all others. Copies are of any cause. */
uint64_t counters_weight_reorders(const counters_t *counters) TESSERA_API(counters_weight_reorders);
uint64_t counters_gradient_reorders(const counters_t *counters)
    TESSERA_API(counters_gradient_reorders);
uint64_t counters_activation_reorders(const counters_t *counters)
    TESSERA_API(counters_activation_reorders);
uint64_t counters_copies(const counters_t *counters) TESSERA_API(counters_copies);

TESSERA_END

#endif
