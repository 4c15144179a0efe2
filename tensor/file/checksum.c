/* XXH64 and XXH3 from libxxhash, inlined, so that programs do not need the library at run time. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "tensor/file/file.h"
#include "tensor/file/file_hash_impl.h"

uint64_t file_checksum(const void *bytes, size_t n_bytes, uint64_t seed)
{
    return XXH64(bytes, bytes != NULL ? n_bytes : 0, seed);
}

void file_hash_keyed(const void *bytes, size_t n_bytes, const void *key, size_t n_key,
                     uint64_t *out_hash)
{
    const XXH128_hash_t hash = XXH3_128bits_withSecret(bytes, n_bytes, key, n_key);
    out_hash[0] = hash.low64;
    out_hash[1] = hash.high64;
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(file_keyed_t), "a state fits");

void file_keyed_begin(file_keyed_t *hash, const void *key, size_t n_key)
{
    (void)XXH3_128bits_reset_withSecret((XXH3_state_t *)(void *)hash->state, key, n_key);
}

void file_keyed_add(file_keyed_t *hash, const void *bytes, size_t n_bytes)
{
    (void)XXH3_128bits_update((XXH3_state_t *)(void *)hash->state, bytes, n_bytes);
}

void file_keyed_end(const file_keyed_t *hash, uint64_t *out_hash)
{
    const XXH128_hash_t all = XXH3_128bits_digest((const XXH3_state_t *)(const void *)hash->state);
    out_hash[0] = all.low64;
    out_hash[1] = all.high64;
}

_Static_assert(sizeof(XXH64_state_t) <= sizeof(file_hash_t), "a state fits");

static XXH64_state_t *state_of(file_hash_t *hash)
{
    return (XXH64_state_t *)(void *)hash->state;
}

void file_hash_begin(file_hash_t *hash)
{
    (void)XXH64_reset(state_of(hash), 0);
}

void file_hash_add(file_hash_t *hash, const void *bytes, size_t n_bytes)
{
    (void)XXH64_update(state_of(hash), bytes, n_bytes);
}

uint64_t file_hash_end(const file_hash_t *hash)
{
    return XXH64_digest((const XXH64_state_t *)(const void *)hash->state);
}
