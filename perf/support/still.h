/* Replaces primitives by no-ops: the rest of a run's time is overhead above them. */
#ifndef TESSERA_PERF_STILL_H
#define TESSERA_PERF_STILL_H

#include <stdbool.h>

/* true: dnnl_primitive_execute returns success at once and computes nothing. false: it computes
 * again. Affects the process. */
void still_set(bool is_still);

#endif
