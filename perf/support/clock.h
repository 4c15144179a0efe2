/* Wall time for the programs of perf/. */
#ifndef TESSERA_PERF_CLOCK_H
#define TESSERA_PERF_CLOCK_H

/* Nanoseconds, monotonic. */
double clock_ns(void);

/* Of n times, which it sorts: the first is then the least. */
double clock_median(int n, double *times);

#endif
