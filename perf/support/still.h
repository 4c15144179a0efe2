/* Primitives that stand still: what a run takes then is all that lies above them. */
#ifndef TESSERA_PERF_STILL_H
#define TESSERA_PERF_STILL_H

#include <stdbool.h>

/* From here on dnnl_primitive_execute returns success at once and computes nothing; false has it
 * compute again. For the whole process. */
void still_set(bool is_still);

#endif
