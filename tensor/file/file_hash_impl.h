/* Hashes of bytes: file_checksum (file.h) of bytes that arrive in pieces, and hashes with a key. */
#ifndef TESSERA_TENSOR_FILE_FILE_HASH_IMPL_H
#define TESSERA_TENSOR_FILE_FILE_HASH_IMPL_H

#include <stddef.h>
#include <stdint.h>

/* State of XXH64; only checksum.c knows its real type. */
typedef struct file_hash {
    uint64_t state[16];
} file_hash_t;

/* Computes a hash of 128 bits (XXH3) that nobody can predict without the key, which is n_key random
 * bytes, at least 136. */
void file_hash_keyed(const void *bytes, size_t n_bytes, const void *key, size_t n_key,
                     uint64_t *out_hash);

/* The same of bytes that arrive in pieces; the key must stay valid until the end. */
typedef struct file_keyed {
    _Alignas(64) uint64_t state[72];
} file_keyed_t;

void file_keyed_begin(file_keyed_t *hash, const void *key, size_t n_key);
void file_keyed_add(file_keyed_t *hash, const void *bytes, size_t n_bytes);
void file_keyed_end(const file_keyed_t *hash, uint64_t *out_hash);

void file_hash_begin(file_hash_t *hash);
void file_hash_add(file_hash_t *hash, const void *bytes, size_t n_bytes);
uint64_t file_hash_end(const file_hash_t *hash);

#endif
