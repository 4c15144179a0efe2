/* Macros for failures and internal invariants in library code. */
#ifndef TESSERA_TENSOR_STATUS_IMPL_H
#define TESSERA_TENSOR_STATUS_IMPL_H

#include "tensor/base/try_impl.h"
#include "tensor/context.h"

/* Checks an internal invariant; traps in debug builds. */
#ifdef NDEBUG
#define INVARIANT(cond) ((void)sizeof(!(cond)))
#else
#define INVARIANT(cond) ((cond) ? (void)0 : __builtin_trap())
#endif

#endif
