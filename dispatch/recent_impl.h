/* The latest calls of a context, as their callers wrote them. A call is found by comparing the
 * bytes of its attributes and the stamps of its inputs, without normalising or hashing.
 *
 * This is a table of fixed size in front of the cache of prepared operators, which is searched on
 * a miss. Two spellings of one call (stride 0 and stride 1) are two calls here, but one entry
 * there. */
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
    size_t n_bytes; /* leading bytes of attrs that carry information; 0: attrs are NULL, or the
                       operator has none */
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

/* Makes the key of a call. False if the call cannot be kept here: too many inputs, attributes too
 * long, or an input without a stamp. */
bool recent_key(const cache_call_t *call, recent_key_t *out_key);

/* Returns the entry of the call, or NULL. */
cache_entry_t *recent_find(const recent_t *recent, const recent_key_t *key);

/* Stores a call, replacing the one in its slot. */
void recent_keep(recent_t *recent, const recent_key_t *key, cache_entry_t *entry);

/* Drops all calls of an entry that is removed from the cache. */
void recent_forget(recent_t *recent, const cache_entry_t *entry);

#endif
