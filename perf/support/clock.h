/* Wall time for the programs in perf/. */
#ifndef TESSERA_PERF_CLOCK_H
#define TESSERA_PERF_CLOCK_H

/* Returns monotonic time in nanoseconds. */
double clock_ns(void);

/* Returns the median of n times. Sorts them, so the first is then the shortest. */
double clock_median(int n, double *times);

#endif
