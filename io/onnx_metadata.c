/* The metadata of ONNX files, also for modules that a build without protobuf-c loads. */
#include "io/onnx/onnx.h"

const char *onnx_metadata(const module_t *module, const char *key)
{
    const datum_t *dict = module != NULL ? module_attribute(module, ONNX_METADATA) : NULL;
    const bool is_dict = dict != NULL && datum_kind(dict) == DATUM_DICT;
    const datum_t *value = is_dict && key != NULL ? datum_find(dict, key) : NULL;
    return value != NULL && datum_kind(value) == DATUM_STRING ? datum_as_string(value) : NULL;
}
