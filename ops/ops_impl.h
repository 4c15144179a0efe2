/* The definitions behind ops.def. */
#ifndef TESSERA_OPS_OPS_IMPL_H
#define TESSERA_OPS_OPS_IMPL_H

#include "ops/ops.h"

#define OP(name) extern const opdef_t op_def_##name;
#include "ops/ops.def"
#undef OP

#endif
