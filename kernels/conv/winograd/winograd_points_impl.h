/* The points of Winograd's transforms other than zero and infinity, one for each pair +-p. For a
 * side of 6, the rounding error is a third of that with points 1 and 2. All coefficients are exact
 * in f32. */
#ifndef TESSERA_KERNELS_CONV_WINOGRAD_WINOGRAD_POINTS_IMPL_H
#define TESSERA_KERNELS_CONV_WINOGRAD_WINOGRAD_POINTS_IMPL_H

#define WINOGRAD_MAX_PAIRS 3

typedef struct winograd_points {
    float point[WINOGRAD_MAX_PAIRS];
    float power[WINOGRAD_MAX_PAIRS][2 * WINOGRAD_MAX_PAIRS]; /* point^i */
    /* Coefficients of the product of (y - p^2) over all pairs, and over all but one, from y^0
     * on. */
    float all[WINOGRAD_MAX_PAIRS + 1];
    float others[WINOGRAD_MAX_PAIRS][WINOGRAD_MAX_PAIRS];
} winograd_points_t;

#define POWERS(p)                                                                                  \
    {                                                                                              \
        1, p, (p) * (p), (p) * (p) * (p), (p) * (p) * (p) * (p), (p) * (p) * (p) * (p) * (p)       \
    }
#define POINT_A 0.625f
#define POINT_B 1.5f
#define SQUARE(p) ((p) * (p))

/* Indexed by the number of pairs - 1. */
static const winograd_points_t winograd_points[WINOGRAD_MAX_PAIRS] = {
    {{1}, {POWERS(1)}, {-1, 1}, {{1}}},
    {{POINT_A, POINT_B},
     {POWERS(POINT_A), POWERS(POINT_B)},
     {SQUARE(POINT_A) * SQUARE(POINT_B), -(SQUARE(POINT_A) + SQUARE(POINT_B)), 1},
     {{-SQUARE(POINT_B), 1}, {-SQUARE(POINT_A), 1}}},
    {{0.5f, 1, 2},
     {POWERS(0.5f), POWERS(1), POWERS(2)},
     {-1, 5.25f, -5.25f, 1},
     {{4, -5, 1}, {1, -4.25f, 1}, {0.25f, -1.25f, 1}}},
};

#endif
