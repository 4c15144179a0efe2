#include "dispatch/recent_impl.h"

#include <string.h>

#include "dispatch/attrs_impl.h"

bool recent_key(const cache_call_t *call, recent_key_t *out_key)
{
    const opdef_t *op = call->op;
    const void *attrs = call->given;
    const int n_in = call->n_in;
    const tensor_t *const *in = call->in;
    if (n_in < 0 || n_in > RECENT_INPUTS || in == NULL) return false;
    size_t n_bytes = attrs != NULL ? attrs_given_bytes(&op->attrs, attrs) : 0;
    if (n_bytes > RECENT_ATTRS) return false;
    *out_key = (recent_key_t){op,           attrs,           n_bytes, call->weights,
                              call->policy, call->n_threads, n_in,    {0}};
    for (int i = 0; i < n_in; i++) {
        if (in[i] == NULL) continue;
        out_key->stamps[i] = tensor_stamp(in[i]);
        if (out_key->stamps[i] == 0) return false;
    }
    return true;
}

/* The slot in which a key's call is stored: a hash of the key. It is a sum of products, which the
 * CPU can compute in parallel. */
static size_t place_of(const recent_key_t *key)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t sum = (uint64_t)(uintptr_t)key->op * odd, word = 0, factor = odd;
    for (int i = 0; i < key->n_in; i++) sum += key->stamps[i] * (factor += 2);
    for (size_t at = 0; at + sizeof word <= key->n_bytes; at += sizeof word) {
        memcpy(&word, (const char *)key->attrs + at, sizeof word);
        sum += word * (factor += 2);
    }
    return (size_t)(sum >> 32) & (RECENT_CALLS - 1);
}

static bool is_call(const recent_call_t *call, const recent_key_t *key)
{
    if (call->entry == NULL || call->key.op != key->op || call->key.n_bytes != key->n_bytes ||
        call->key.policy != key->policy || call->key.weights != key->weights ||
        call->key.n_threads != key->n_threads || call->key.n_in != key->n_in)
        return false;
    for (int i = 0; i < RECENT_INPUTS; i++)
        if (call->key.stamps[i] != key->stamps[i]) return false;
    return key->n_bytes == 0 || memcmp(call->attrs, key->attrs, key->n_bytes) == 0;
}

cache_entry_t *recent_find(const recent_t *recent, const recent_key_t *key)
{
    const recent_call_t *call = &recent->calls[place_of(key)];
    return is_call(call, key) ? call->entry : NULL;
}

void recent_keep(recent_t *recent, const recent_key_t *key, cache_entry_t *entry)
{
    recent_call_t *call = &recent->calls[place_of(key)];
    call->entry = entry;
    call->key = *key;
    call->key.attrs = NULL;
    if (key->n_bytes > 0) memcpy(call->attrs, key->attrs, key->n_bytes);
}

void recent_forget(recent_t *recent, const cache_entry_t *entry)
{
    for (int i = 0; i < RECENT_CALLS; i++)
        if (recent->calls[i].entry == entry) recent->calls[i].entry = NULL;
}
