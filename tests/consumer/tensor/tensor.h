/* A user's own header that has the same name as one of Tessera's. */
#ifndef TENSOR_TENSOR_H
#define TENSOR_TENSOR_H

typedef struct my_tensor {
    int rank;
} my_tensor_t;

/* Names that test frameworks and other projects use, too. */
#define TRY(x) x
#define FAIL() return 1
#define REQUIRE(x) (void)(x)
#define INVARIANT(x) (void)(x)

#endif
