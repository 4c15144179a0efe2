#include "tensor/counters.h"

#include "tensor/context_impl.h"

const char *cause_name(reorder_cause_t cause)
{
    switch (cause) {
    case CAUSE_WEIGHT: return "weight";
    case CAUSE_INPUT: return "input";
    case CAUSE_OUTPUT: return "output";
    case CAUSE_MISMATCH: return "mismatch";
    case CAUSE_USER: return "user";
    case CAUSE_GRADIENT: return "gradient";
    case CAUSE_COUNT: break;
    }
    return "unknown";
}

void counters_read(const context_t *ctx, counters_t *out_counters)
{
    if (ctx != NULL && out_counters != NULL) *out_counters = *context_counters_now(ctx);
}

void counters_reset(context_t *ctx)
{
    if (ctx == NULL) return;
    counters_t *counters = context_counters(ctx);
    *counters = (counters_t){
        .cache_entries = counters->cache_entries,
        .cache_bytes = counters->cache_bytes,
        .plan_bytes = counters->plan_bytes,
    };
}

void counters_take(context_t *ctx, context_t *worker)
{
    counters_t *to = context_counters(ctx);
    const counters_t *from = context_counters_now(worker);
    to->to_mkldnn += from->to_mkldnn;
    to->to_dense += from->to_dense;
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        to->reorders[cause] += from->reorders[cause];
        to->copies[cause] += from->copies[cause];
    }
    to->reorder_bytes += from->reorder_bytes;
    to->reorder_ns += from->reorder_ns;
    to->operators += from->operators;
    to->primitives_built += from->primitives_built;
    to->cache_hits += from->cache_hits;
    to->cache_misses += from->cache_misses;
    to->weights_packed += from->weights_packed;
    to->weights_mapped += from->weights_mapped;
    to->models_imported += from->models_imported;
    to->models_mapped += from->models_mapped;
    to->tensor_bytes += from->tensor_bytes;
    counters_reset(worker);
}

uint64_t counters_weight_reorders(const counters_t *counters)
{
    return counters != NULL ? counters->reorders[CAUSE_WEIGHT] : 0;
}

uint64_t counters_gradient_reorders(const counters_t *counters)
{
    return counters != NULL ? counters->reorders[CAUSE_GRADIENT] : 0;
}

uint64_t counters_activation_reorders(const counters_t *counters)
{
    if (counters == NULL) return 0;
    uint64_t sum = 0;
    for (int cause = 0; cause < CAUSE_COUNT; cause++)
        if (cause != CAUSE_WEIGHT && cause != CAUSE_GRADIENT) sum += counters->reorders[cause];
    return sum;
}

uint64_t counters_copies(const counters_t *counters)
{
    if (counters == NULL) return 0;
    uint64_t sum = 0;
    for (int cause = 0; cause < CAUSE_COUNT; cause++) sum += counters->copies[cause];
    return sum;
}
