/* Memory measurement for the programs in perf/. */
#ifndef TESSERA_PERF_RESIDENT_H
#define TESSERA_PERF_RESIDENT_H

#include <stdbool.h>

/* Returns the resident memory of this process in MB; 0 if unknown. */
double resident_mb(void);

/* Runs `body`, which fills n numbers, in a separate process, so that memory of this process does
 * not count. False if `body` returns false, or if no process could be created. */
typedef bool (*resident_body_t)(const void *user, double *out_numbers);
bool resident_apart(resident_body_t body, const void *user, int n, double *out_numbers);

#endif
