#include "tensor/base/status.h"

const char *status_name(status_t status)
{
    switch (status) {
    case STATUS_OK: return "OK";
    case STATUS_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case STATUS_UNSUPPORTED: return "UNSUPPORTED";
    case STATUS_OUT_OF_MEMORY: return "OUT_OF_MEMORY";
    case STATUS_IO: return "IO";
    case STATUS_CORRUPT: return "CORRUPT";
    case STATUS_ONEDNN: return "ONEDNN";
    case STATUS_CANCELLED: return "CANCELLED";
    case STATUS_LIMIT: return "LIMIT";
    }
    return "UNKNOWN";
}
