/* Reads tests/dispatch/eltwise_values.txt: values of the functions of eltwise.def that mpmath has
 * computed. */
#ifndef TESSERA_TESTS_ELTWISE_VALUES_H
#define TESSERA_TESTS_ELTWISE_VALUES_H

#include "dispatch/eltwise.h"

#define ELTWISE_POINTS 4

typedef struct eltwise_values {
    char name[32];
    eltwise_t eltwise;
    int n_parameters;
    double alpha, beta; /* 0 if the function does not have the parameter */
    double x[ELTWISE_POINTS], value[ELTWISE_POINTS], slope[ELTWISE_POINTS];
} eltwise_values_t;

/* The values of every function except ELTWISE_NONE, in the order of the file. source_dir is
 * TESSERA_SOURCE_DIR. Fails the test if the file lacks a function or has it twice. */
const eltwise_values_t *eltwise_values(const char *source_dir);
#define ELTWISE_FUNCTIONS (ELTWISE_COUNT - 1)

#endif
