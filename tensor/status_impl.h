/* How library code leaves a function that cannot go on, and what must hold of itself. */
#ifndef TESSERA_TENSOR_STATUS_IMPL_H
#define TESSERA_TENSOR_STATUS_IMPL_H

#include "tensor/context.h"
#include "tensor/try_impl.h"

/* A rule about ourselves. */
#ifdef NDEBUG
#define INVARIANT(cond) ((void)sizeof(!(cond)))
#else
#define INVARIANT(cond) ((cond) ? (void)0 : __builtin_trap())
#endif

#endif
