/* XXH64 of libxxhash, compiled in: the library itself need not be there when a program runs. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tensor/file.h"

uint64_t file_checksum(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH64(bytes, n_bytes, seed);
}
