/* The calls that a context made last, as they were written: found by comparing the bytes of their
 * attributes and the stamps of their inputs, without normalising or hashing either.
 *
 * A table of fixed size in front of the cache of prepared operators: a call that is not found here
 * is looked up there. Two spellings of one call (stride 0 and stride 1) are two calls here, with
 * one entry in the cache. */
#ifndef TESSERA_DISPATCH_RECENT_IMPL_H
#define TESSERA_DISPATCH_RECENT_IMPL_H

#include "dispatch/select_impl.h"

#define RECENT_CALLS 64 /* a power of two */
#define RECENT_INPUTS 4
#define RECENT_ATTRS 128 /* bytes */

/* A call as it is written. Inputs that are absent have stamp 0. */
typedef struct recent_key {
    const opdef_t *op;
    const void *attrs;
    size_t n_bytes; /* of attrs that have a meaning; 0: attrs are NULL, or the operator has none */
    weight_use_t weights;
    policy_t policy;
    int n_threads;
    int n_in;
    uint64_t stamps[RECENT_INPUTS];
} recent_key_t;

typedef struct recent_call {
    cache_entry_t *entry; /* NULL: the place is free */
    recent_key_t key;     /* its attrs point to nothing: the bytes are here */
    char attrs[RECENT_ATTRS];
} recent_call_t;

typedef struct recent {
    recent_call_t calls[RECENT_CALLS];
} recent_t;

/* The key of a call; false where it is not kept here: too many inputs, or attributes too long, or
 * an input has no stamp. */
bool recent_key(const cache_call_t *call, recent_key_t *out_key);

/* The entry of the call, or NULL. */
cache_entry_t *recent_find(const recent_t *recent, const recent_key_t *key);

/* Keeps a call, in place of another. */
void recent_keep(recent_t *recent, const recent_key_t *key, cache_entry_t *entry);

/* Drops all calls of an entry that leaves the cache. */
void recent_forget(recent_t *recent, const cache_entry_t *entry);

#endif
