#include "kernels/attention/decode_impl.h"

#include <math.h>
#include <string.h>

static const decode_loops_t *const tables[ISA_COUNT] = ISA_TABLE(decode);

void decode_run(const decode_part_t *part, isa_t isa)
{
    tables[isa]->run(part);
}

void decode_cap(isa_t isa, int64_t n, float cap, float *row)
{
    tables[isa]->cap(n, cap, row);
}

void decode_join(const decode_join_t *join)
{
    float largest = -INFINITY, all = 0.0f;
    for (int64_t i = 0; i < join->n_parts; i++) {
        const float found = join->largest[i * join->step];
        if (found > largest || isnan(found)) largest = found;
    }
    memset(join->out, 0, (size_t)join->n * sizeof *join->out);
    for (int64_t i = 0; i < join->n_parts && largest != -INFINITY; i++) {
        const float *sums = join->sums + i * join->stride;
        const float factor = expf(join->largest[i * join->step] - largest);
        if (factor == 0.0f) continue; /* 0 times NaN is NaN */
        all += factor * join->all[i * join->step];
        for (int64_t v = 0; v < join->n; v++) join->out[v] += factor * sums[v];
    }
    for (int64_t v = 0; v < join->n && largest != -INFINITY; v++) join->out[v] /= all;
}
