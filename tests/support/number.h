/* Numbers for the tensors of tests. */
#ifndef TESSERA_TESTS_NUMBER_H
#define TESSERA_TESTS_NUMBER_H

#include <stdint.h>

/* Returns element i: never 0, and seldom equal to its neighbours. `shake` is the relative size of a
 * small change to each number. */
static inline double number_of(int64_t i, double shake)
{
    double number = (double)(i % 5 - 2) + 0.25 * (double)(i % 3 + 1);
    return number * (1.0 + shake * (double)(i * 7 % 5 - 2) / 2.0);
}

#endif
