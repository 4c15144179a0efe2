/* Numbers that tests give to what they make. */
#ifndef TESSERA_TESTS_NUMBER_H
#define TESSERA_TESTS_NUMBER_H

#include <stdint.h>

/* Element i of a run: none is 0, few are alike, and each is a little different from what it is
 * without shaking. */
static inline double number_of(int64_t i, double shake)
{
    double number = (double)(i % 5 - 2) + 0.25 * (double)(i % 3 + 1);
    return number * (1.0 + shake * (double)(i * 7 % 5 - 2) / 2.0);
}

#endif
