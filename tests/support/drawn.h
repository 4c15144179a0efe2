/* Numbers that follow from a name: what stands for trained weights, in C and in Python (draw.py).
 */
#ifndef TESSERA_TESTS_DRAWN_H
#define TESSERA_TESTS_DRAWN_H

#include <stdint.h>

/* Element i is shift + scale * d, rounded to f32 once, where d of [-1, 1) follows from the key and
 * i alone. */
void drawn_fill(const char *key, double shift, double scale, int64_t n, float *out_elements);

#endif
