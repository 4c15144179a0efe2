/* Memory of the programs of perf/. */
#ifndef TESSERA_PERF_RESIDENT_H
#define TESSERA_PERF_RESIDENT_H

#include <stdbool.h>

/* What of this process is in memory, MB; 0 where that is not told. */
double resident_mb(void);

/* Has `body` fill n numbers in a process of its own, so that no memory is left from before. False
 * if it gave false, or there was no process to be had. */
typedef bool (*resident_body_t)(const void *user, double *out_numbers);
bool resident_apart(resident_body_t body, const void *user, int n, double *out_numbers);

#endif
