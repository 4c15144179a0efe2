/* Counters of changes of layout (transitions), reorders and copies, by cause.
 *
 * A reorder rewrites a tensor's bytes in another order. For each reorder, oneDNN prints one line in
 * its verbose output. Reorders by Tessera's own loops are counted separately, as copies. */
#ifndef TESSERA_TENSOR_COUNTERS_H
#define TESSERA_TENSOR_COUNTERS_H

#include "tensor/context.h"

typedef enum reorder_cause {
    CAUSE_WEIGHT,   /* a parameter is converted to an operator's format */
    CAUSE_INPUT,    /* a dense tensor becomes mkldnn */
    CAUSE_OUTPUT,   /* an mkldnn tensor becomes dense */
    CAUSE_MISMATCH, /* an operator needs another format than its input has */
    CAUSE_USER,     /* the program requests it, for example with convert_reorder */
    CAUSE_GRADIENT, /* a gradient is converted to the format of its weight */
    CAUSE_COUNT
} reorder_cause_t;

const char *cause_name(reorder_cause_t cause) TESSERA_API(cause_name);

typedef struct counters {
    uint64_t to_mkldnn; /* transitions, including those that moved no bytes */
    uint64_t to_dense;
    uint64_t reorders[CAUSE_COUNT]; /* by oneDNN */
    uint64_t copies[CAUSE_COUNT];   /* by Tessera's own loops */
    uint64_t reorder_bytes;         /* read plus written, for reorders and copies */
    uint64_t reorder_ns;
    uint64_t operators;        /* run by dispatch or a plan */
    uint64_t primitives_built; /* by oneDNN */
    uint64_t cache_hits;       /* calls whose prepared operator was in the cache */
    uint64_t cache_misses;
    uint64_t cache_entries; /* at present */
    uint64_t cache_bytes;   /* at present, estimated */
    uint64_t weights_packed;
    uint64_t weights_mapped;  /* packed forms that were found in the store */
    uint64_t models_imported; /* from ONNX */
    uint64_t models_mapped;   /* frozen models that were found in the store */
    uint64_t plans_built;     /* compiled graphs: one for each set of input sizes of a method */
    uint64_t plans_evicted;   /* least recently used plans, dropped to save memory */
    uint64_t tensor_bytes;    /* bytes allocated for tensors by this context in total */
    uint64_t plan_bytes;      /* at present, estimated, of the method that built the last plan: its
                                 plans except the two used last, with packed weights that only these
                                 plans read */
} counters_t;

/* counters_read copies the context's counters. counters_reset sets them to zero, except those
 * marked "at present". */
void counters_read(const context_t *ctx, counters_t *out_counters) TESSERA_API(counters_read);
void counters_reset(context_t *ctx) TESSERA_API(counters_reset);

/* Return the number of reorders with cause weight, with cause gradient, and with any other cause.
 * counters_copies returns the number of copies, whatever their cause. */
uint64_t counters_weight_reorders(const counters_t *counters) TESSERA_API(counters_weight_reorders);
uint64_t counters_gradient_reorders(const counters_t *counters)
    TESSERA_API(counters_gradient_reorders);
uint64_t counters_activation_reorders(const counters_t *counters)
    TESSERA_API(counters_activation_reorders);
uint64_t counters_copies(const counters_t *counters) TESSERA_API(counters_copies);

#endif
