/* A space of symbolic integers: memory, handles, nodes (one for each expression), names. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/base/references_impl.h"
#include "tensor/hash_impl.h"
#include "tensor/sym/sym_impl.h"

#define CHUNK_FIRST 4096
#define CHUNK_LARGEST 262144
#define CHUNK_HEAD ((sizeof(sym_chunk_t) + 15) / 16 * 16)

#define CHECK_MASK ((UINT64_C(1) << SYM_NUMBER_AT) - 1)

/* ---- failures ---- */

int64_t sym_fail(sym_space_t *space, status_t status, const char *format, ...)
{
    if (space->status != STATUS_OK) return SYM_NONE;
    space->status = status;
    int n = space->origin[0] != '\0'
                ? snprintf(space->message, sizeof space->message, "%s: ", space->origin)
                : 0;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(space->message + n, sizeof space->message - (size_t)n, format, arguments);
    va_end(arguments);
    return SYM_NONE;
}

int64_t sym_limit(sym_space_t *space, const char *what, int limit)
{
    return sym_fail(space, STATUS_UNSUPPORTED, "symbolic sizes have more than %d %s", limit, what);
}

/* ---- memory ---- */

static void *refused(sym_space_t *space, size_t bytes)
{
    sym_fail(space, STATUS_OUT_OF_MEMORY,
             "out of memory: %zu bytes for symbolic sizes, the allocator refused", bytes);
    return NULL;
}

void *sym_get(sym_space_t *space, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    sym_chunk_t *chunk = space->chunks;
    if (chunk == NULL || bytes > chunk->bytes - chunk->used) {
        size_t wanted = CHUNK_FIRST;
        if (chunk != NULL) wanted = chunk->bytes < CHUNK_LARGEST ? chunk->bytes * 2 : CHUNK_LARGEST;
        if (wanted < bytes + CHUNK_HEAD) wanted = bytes + CHUNK_HEAD;
        chunk = allocator_get(&space->allocator, wanted);
        if (chunk == NULL) return refused(space, wanted);
        *chunk = (sym_chunk_t){space->chunks, CHUNK_HEAD, wanted};
        space->chunks = chunk;
    }
    void *block = (char *)chunk + chunk->used;
    chunk->used += bytes;
    return block;
}

bool sym_grow(sym_space_t *space, void *items, int *capacity, int needed, size_t item_bytes)
{
    void *old = NULL;
    memcpy(&old, items, sizeof old);
    if (needed <= *capacity) return true;
    const int wanted = needed < 8 ? 8 : 2 * needed;
    void *block = sym_get(space, (size_t)wanted * item_bytes);
    if (block == NULL) return false;
    if (old != NULL) memcpy(block, old, (size_t)*capacity * item_bytes);
    memcpy(items, &block, sizeof block);
    *capacity = wanted;
    return true;
}

status_t sym_space_create(context_t *ctx, sym_space_t **out_space)
{
    static atomic_uint_fast64_t n_spaces;
    sym_space_t *space = NULL;
    TRY(context_output(ctx, "sym_space_create", out_space));
    TRY(sym_state_make(ctx));
    TRY(context_get_zeroed(ctx, sizeof *space, "a space of symbolic sizes", &space));
    atomic_init(&space->n_references, 1);
    space->allocator = *context_allocator(ctx);
    space->lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    space->salt = hash_mix(1, atomic_fetch_add(&n_spaces, 1));
    space->stamp = 1;
    *out_space = space;
    return STATUS_OK;
}

void sym_space_retain(sym_space_t *space)
{
    if (space != NULL) references_add(&space->n_references);
}

void sym_space_release(sym_space_t *space)
{
    if (space == NULL || !references_drop(&space->n_references)) return;
    const allocator_t allocator = space->allocator;
    while (space->chunks != NULL) {
        sym_chunk_t *next = space->chunks->next;
        allocator_put(&allocator, space->chunks);
        space->chunks = next;
    }
    if (space->table != NULL) allocator_put(&allocator, space->table);
    pthread_mutex_destroy(&space->lock);
    allocator_put(&allocator, space);
}

/* ---- handles ---- */

/* The chunk that contains a node. Chunk k starts with node SYM_FIRST_CHUNK * (2^k - 1). */
static int chunk_of(uint64_t number)
{
    return 63 - __builtin_clzll(number / SYM_FIRST_CHUNK + 1);
}

static sym_node_t *node_at(const sym_space_t *space, uint64_t number)
{
    const int k = chunk_of(number);
    sym_node_t *nodes = atomic_load_explicit(&space->nodes[k], memory_order_acquire);
    return nodes + (number - (((UINT64_C(1) << k) - 1) * SYM_FIRST_CHUNK));
}

/* Makes the handle of a node. Handles are not divisible by 2, 3, 5, 7 or 11, so code that tests by
 * mistake whether a handle is divisible usually finds that it is not. */
static int64_t make_handle(const sym_space_t *space, uint64_t number)
{
    uint64_t check = hash_mix(space->salt, number) & CHECK_MASK;
    int64_t handle = 0;
    bool is_coprime = false;
    while (!is_coprime) {
        handle = SYM_HANDLE_BASE + (int64_t)(number << SYM_NUMBER_AT | check);
        is_coprime = handle % 2 != 0 && handle % 3 != 0 && handle % 5 != 0 && handle % 7 != 0 &&
                     handle % 11 != 0;
        check = hash_mix(space->salt, check) & CHECK_MASK;
    }
    return handle;
}

sym_node_t *sym_find(const sym_space_t *space, int64_t handle)
{
    const uint64_t number = sym_number(handle);
    const int n_nodes = atomic_load_explicit(&((sym_space_t *)(uintptr_t)space)->n_nodes,
                                             memory_order_acquire);
    if (handle < SYM_HANDLE_BASE || number >= (uint64_t)n_nodes) return NULL;
    sym_node_t *node = node_at(space, number);
    return node->handle == handle ? node : NULL;
}

/* ---- nodes ---- */

static uint64_t hash_of(sym_kind_t kind, int part, int n, const int64_t *operands)
{
    uint64_t hash = hash_mix((uint64_t)kind, (uint64_t)part);
    for (int i = 0; i < n; i++) hash = hash_mix(hash, (uint64_t)operands[i]);
    return hash;
}

static bool grow_table(sym_space_t *space)
{
    const size_t n_slots = space->n_slots > 0 ? 2 * space->n_slots : 256;
    uint32_t *table = allocator_get(&space->allocator, n_slots * sizeof *table);
    if (table == NULL) return refused(space, n_slots * sizeof *table) != NULL;
    memset(table, 0, n_slots * sizeof *table);
    for (int i = 0; i < atomic_load(&space->n_nodes); i++) {
        size_t at = node_at(space, (uint64_t)i)->hash & (n_slots - 1);
        while (table[at] != 0) at = (at + 1) & (n_slots - 1);
        table[at] = (uint32_t)i + 1;
    }
    if (space->table != NULL) allocator_put(&space->allocator, space->table);
    space->table = table;
    space->n_slots = n_slots;
    return true;
}

static bool is_node(const sym_node_t *node, sym_kind_t kind, int part, int n,
                    const int64_t *operands)
{
    return node->kind == kind && node->part == part && node->n == n &&
           memcmp(node->operands, operands, (size_t)n * sizeof *operands) == 0;
}

sym_node_t *sym_look_up(sym_space_t *space, sym_kind_t kind, int part, int n,
                        const int64_t *operands)
{
    if (space->n_slots == 0) return NULL;
    const uint64_t hash = hash_of(kind, part, n, operands);
    for (size_t at = hash & (space->n_slots - 1); space->table[at] != 0;
         at = (at + 1) & (space->n_slots - 1)) {
        sym_node_t *node = node_at(space, space->table[at] - 1);
        if (node->hash == hash && is_node(node, kind, part, n, operands)) return node;
    }
    return NULL;
}

static bool make_room(sym_space_t *space)
{
    const int n = atomic_load(&space->n_nodes);
    if (n >= SYM_MAX_NODES) return sym_limit(space, "expressions", SYM_MAX_NODES) != SYM_NONE;
    if (2 * ((size_t)n + 1) > space->n_slots && !grow_table(space)) return false;
    const int k = chunk_of((uint64_t)n);
    if (atomic_load(&space->nodes[k]) != NULL) return true;
    const size_t bytes = (sizeof(sym_node_t) * SYM_FIRST_CHUNK) << k;
    sym_node_t *nodes = sym_get(space, bytes);
    if (nodes == NULL) return false;
    memset(nodes, 0, bytes);
    atomic_store_explicit(&space->nodes[k], nodes, memory_order_release);
    return true;
}

static bool measure(sym_space_t *space, sym_node_t *node)
{
    unsigned depth = 0, weight = 1;
    for (int i = 0; i < node->n; i++) {
        const sym_node_t *operand = sym_is(node->operands[i]) && node->kind != SYM_REAL
                                        ? sym_find(space, node->operands[i])
                                        : NULL;
        if (operand == NULL) continue;
        if (operand->depth > depth) depth = operand->depth;
        weight += operand->weight;
    }
    node->depth = (uint8_t)(depth + 1);
    node->weight = (uint16_t)weight;
    if (depth + 1 > SYM_MAX_DEPTH)
        return sym_limit(space, "nested expressions", SYM_MAX_DEPTH) != SYM_NONE;
    if (weight > SYM_MAX_WEIGHT) return sym_limit(space, "operands", SYM_MAX_WEIGHT) != SYM_NONE;
    return true;
}

/* Sets the value of an operand for the hints; returns false if it has none. */
static bool hint_of(void *user, int64_t operand, sym_value_t *out_value)
{
    const sym_node_t *node = sym_is(operand) ? sym_find(user, operand) : NULL;
    *out_value = node != NULL ? node->hint : (sym_value_t){operand, (double)operand};
    return node != NULL ? node->has_hint : operand != SYM_NONE;
}

/* Adds a node that is not in the table yet. */
static sym_node_t *add_node(sym_space_t *space, const sym_node_t *given)
{
    if (!make_room(space)) return NULL;
    const int number = atomic_load(&space->n_nodes);
    sym_node_t *node = node_at(space, (uint64_t)number);
    *node = *given;
    int64_t *operands = sym_get(space, ((size_t)node->n + 1) * sizeof *operands);
    if (operands == NULL) return NULL;
    if (node->n > 0) memcpy(operands, given->operands, (size_t)node->n * sizeof *operands);
    node->operands = operands;
    if (!measure(space, node)) return NULL;
    if (node->kind != SYM_NAME && node->kind != SYM_REAL)
        node->has_hint = sym_evaluate(node, hint_of, space, &node->hint);
    node->handle = make_handle(space, (uint64_t)number);
    if (node->kind >= SYM_REAL) sym_real_range(space, node);
    size_t at = node->hash & (space->n_slots - 1);
    while (space->table[at] != 0) at = (at + 1) & (space->n_slots - 1);
    space->table[at] = (uint32_t)number + 1;
    atomic_store_explicit(&space->n_nodes, number + 1, memory_order_release);
    return node;
}

#define KNOWS_NOTHING ((sym_known_t){SYM_LOWEST, SYM_HIGHEST, 1, 0})

sym_node_t *sym_intern(sym_space_t *space, sym_kind_t kind, int part, int n,
                       const int64_t *operands)
{
    sym_node_t *node = sym_look_up(space, kind, part, n, operands);
    if (node != NULL) return node;
    sym_node_t given = {.hash = hash_of(kind, part, n, operands),
                        .kind = (uint8_t)kind,
                        .part = (uint8_t)part,
                        .name = -1,
                        .n = n,
                        .operands = operands,
                        .fact = KNOWS_NOTHING};
    if (kind == SYM_REAL) {
        given.has_hint = true;
        given.hint.integer = SYM_NONE;
        memcpy(&given.hint.real, operands, sizeof given.hint.real);
    }
    return add_node(space, &given);
}

/* ---- names ---- */

sym_node_t *sym_find_name(sym_space_t *space, const char *text)
{
    for (int i = 0; i < space->n_names; i++)
        if (strcmp(space->names[i]->text, text) == 0) return space->names[i];
    return NULL;
}

sym_node_t *sym_new_name(sym_space_t *space, const char *text, int64_t hint, int64_t min,
                         int64_t max)
{
    const size_t bytes = strlen(text) + 1;
    const int64_t number = space->n_names;
    if (number >= INT16_MAX) {
        sym_limit(space, "names", INT16_MAX);
        return NULL;
    }
    char *copy = sym_get(space, bytes);
    if (copy == NULL || !sym_grow(space, &space->names, &space->name_capacity, space->n_names + 1,
                                  sizeof(sym_node_t *)))
        return NULL;
    memcpy(copy, text, bytes);
    const sym_node_t given = {.hash = hash_of(SYM_NAME, 0, 1, &number),
                              .kind = SYM_NAME,
                              .has_hint = hint != SYM_NO_HINT,
                              .name = (int16_t)number,
                              .text = copy,
                              .hint = {hint, (double)hint},
                              .fact = {min, max, 1, 0}};
    sym_node_t *node = add_node(space, &given);
    if (node != NULL) space->names[space->n_names++] = node;
    return node;
}

/* ---- order ---- */

/* Compares names for sorting: names such as "#1" come after names such as "H". */
static int compare_names(const char *a, const char *b)
{
    if ((*a == '#') != (*b == '#')) return *a == '#' ? 1 : -1;
    return strcmp(a, b);
}

static int compare_nodes(const sym_space_t *space, const sym_node_t *a, const sym_node_t *b)
{
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->part != b->part) return a->part < b->part ? -1 : 1;
    if (a->kind == SYM_NAME) return compare_names(a->text, b->text);
    if (a->kind == SYM_REAL) return a->operands[0] < b->operands[0] ? -1 : 1;
    for (int i = 0; i < a->n && i < b->n; i++) {
        const int order = sym_compare(space, a->operands[i], b->operands[i]);
        if (order != 0) return order;
    }
    return a->n < b->n ? -1 : 1;
}

int sym_compare(const sym_space_t *space, int64_t a, int64_t b)
{
    if (a == b) return 0;
    if (!sym_is(a) || !sym_is(b))
        return sym_is(a) != sym_is(b) ? (sym_is(b) ? -1 : 1) : (a < b ? -1 : 1);
    return compare_nodes(space, sym_find(space, a), sym_find(space, b));
}

bool sym_contains(const sym_space_t *space, int64_t a, int64_t atom)
{
    if (a == atom) return true;
    const sym_node_t *node = sym_is(a) ? sym_find(space, a) : NULL;
    if (node == NULL || node->kind == SYM_REAL) return false;
    for (int i = 0; i < node->n; i++)
        if (sym_contains(space, node->operands[i], atom)) return true;
    return false;
}
