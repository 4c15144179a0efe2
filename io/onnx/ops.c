/* The table of ONNX operators. */
#include "io/onnx/node_impl.h"

#include <string.h>

enum { NOW = ONNX_OPSET_LAST };

static const onnx_operator_t table[] = {
#define OPERATOR(name, first, last, min, max, function, own)                                       \
    {"", #name, first, last, min, max, onnx_import_##function, own, false},
#define MICROSOFT(name, min, max, function, own)                                                   \
    {"com.microsoft",        #name, ONNX_OPSET_FIRST,                                              \
     ONNX_OPSET_LAST,        min,   max,                                                           \
     onnx_import_##function, own,   false},
#define ML(name, min, max, function)                                                               \
    {"ai.onnx.ml", #name, ONNX_OPSET_FIRST, ONNX_OPSET_LAST, min, max, onnx_import_##function,     \
     NULL,         false},
#define ANY(name, first, last, min, max, function)                                                 \
    {"", #name, first, last, min, max, onnx_import_##function, NULL, true},
#include "io/onnx/ops.def"
#undef ANY
#undef MICROSOFT
#undef ML
#undef OPERATOR
};

const onnx_operator_t *onnx_operator(const char *domain, const char *name, int64_t opset)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0 && strcmp(table[i].domain, domain) == 0 &&
            opset >= table[i].first_opset && opset <= table[i].last_opset)
            return &table[i];
    return NULL;
}
