/* The latest calls of a context, in a hash table of fixed size that is searched before the cache of
 * prepared operators. Two calls of an operator are equal if their attributes have the same bytes,
 * their inputs the same stamps (numbers that identify a tensor's metadata, see tensor_stamp), and
 * policy, weight use and number of threads are the same.
 *
 * The cache is slower, because it first replaces attributes that mean a default, and hashes infos.
 * But calls with stride 1 and with stride 0, which means the default 1, have one entry in the
 * cache; here they are two calls. */
#ifndef TESSERA_DISPATCH_RECENT_IMPL_H
#define TESSERA_DISPATCH_RECENT_IMPL_H

#include "dispatch/select_impl.h"

#define RECENT_CALLS 64 /* a power of two */
#define RECENT_INPUTS 4
#define RECENT_ATTRS 128 /* bytes */

/* A call as its caller wrote it. Absent inputs have stamp 0. */
typedef struct recent_key {
    const opdef_t *op;
    const void *attrs;
    size_t n_bytes; /* leading bytes of attrs to compare (attrs_given_bytes); 0: attrs is NULL, or
                       the operator has no attributes */
    weight_use_t weights;
    policy_t policy;
    int n_threads;
    int n_in;
    uint64_t stamps[RECENT_INPUTS];
} recent_key_t;

typedef struct recent_call {
    cache_entry_t *entry; /* NULL: the slot is free */
    recent_key_t key;     /* attrs is not used: the bytes are in the next field */
    char attrs[RECENT_ATTRS];
} recent_call_t;

typedef struct recent {
    recent_call_t calls[RECENT_CALLS];
} recent_t;

/* Makes the key of a call. False if the call cannot be stored: it has too many inputs or too long
 * attributes, or an input that is present has no stamp yet. */
bool recent_key(const cache_call_t *call, recent_key_t *out_key);

/* Returns the entry of the call, or NULL. */
cache_entry_t *recent_find(const recent_t *recent, const recent_key_t *key);

/* Stores a call. It replaces the call in its slot, which is a hash of the key. */
void recent_keep(recent_t *recent, const recent_key_t *key, cache_entry_t *entry);

/* Drops all calls of an entry that is removed from the cache. */
void recent_forget(recent_t *recent, const cache_entry_t *entry);

#endif
