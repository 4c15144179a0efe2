/* Replaces oneDNN's primitives by no-ops. The time that a run still takes is overhead. */
#ifndef TESSERA_PERF_STILL_H
#define TESSERA_PERF_STILL_H

#include <stdbool.h>

/* true: dnnl_primitive_execute computes nothing and returns success. false: it computes again.
 * Affects the entire process. */
void still_set(bool is_still);

#endif
