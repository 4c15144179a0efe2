#define _GNU_SOURCE /* for O_NOFOLLOW */

/* The table of known hashes: a file with a set-associative hash table. The key is a hash of a
 * file_range_t. It selects a set of WAYS records, one of which may have the key. Processes need no
 * lock, because each record has a checksum: a record that is damaged, or that two processes wrote
 * at the same time, is not found. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tensor/file/file_hash_impl.h"
#include "tensor/store/store_impl.h"

#define MEMO_NAME "tessera-store-hashes"

enum { SETS = 2048, WAYS = 4 };

typedef struct record {
    uint64_t range[2], hash[2];
    uint64_t check[2]; /* hash of the other members */
} record_t;

int store_open_memo(int folder)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    struct stat about;
    const int file = openat(folder, MEMO_NAME, flags, S_IRUSR | S_IWUSR);
    if (file < 0) return -1;
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && store_is_private(&about)) return file;
    close(file);
    return -1;
}

static void hash(const store_t *store, const void *bytes, size_t n_bytes, uint64_t *out_hash)
{
    file_hash_keyed(bytes, n_bytes, store->secret, STORE_SECRET, out_hash);
}

static bool is_valid(const store_t *store, const record_t *record)
{
    uint64_t check[2];
    hash(store, record, offsetof(record_t, check), check);
    return memcmp(check, record->check, sizeof check) == 0;
}

/* Reads the set that a key selects; records after the end of the file are zero. Returns the set's
 * offset in the file. */
static off_t read_set(const store_t *store, const uint64_t *range, record_t *out_records)
{
    const off_t at = (off_t)(range[0] % SETS * WAYS * sizeof *out_records);
    memset(out_records, 0, WAYS * sizeof *out_records);
    if (pread(store->memo, out_records, WAYS * sizeof *out_records, at) < 0)
        memset(out_records, 0, WAYS * sizeof *out_records);
    return at;
}

bool store_recall(const store_t *store, const file_range_t *range, uint64_t *out_hash)
{
    record_t records[WAYS];
    uint64_t name[2];
    if (store->memo < 0) return false;
    hash(store, range, sizeof *range, name);
    (void)read_set(store, name, records);
    for (int i = 0; i < WAYS; i++) {
        if (memcmp(records[i].range, name, sizeof name) != 0 || !is_valid(store, &records[i]))
            continue;
        memcpy(out_hash, records[i].hash, sizeof records[i].hash);
        return true;
    }
    return false;
}

/* False if the process's limit of file sizes (RLIMIT_FSIZE) is below the size of the table: a write
 * beyond this limit would end the process. */
static bool may_be_written(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= SETS * WAYS * sizeof(record_t));
}

void store_note(const store_t *store, const file_range_t *range, const uint64_t *value)
{
    record_t records[WAYS], record = {.hash = {value[0], value[1]}};
    if (store->memo < 0 || !may_be_written()) return;
    hash(store, range, sizeof *range, record.range);
    hash(store, &record, offsetof(record_t, check), record.check);
    const off_t at = read_set(store, record.range, records);
    int way = 0;
    while (way < WAYS && is_valid(store, &records[way]) &&
           memcmp(records[way].range, record.range, sizeof record.range) != 0)
        way++;
    if (way == WAYS) way = (int)(record.range[1] % WAYS);
    /* If this fails, such as on a full disk, the hash is computed again next time. */
    (void)!pwrite(store->memo, &record, sizeof record, at + (off_t)((size_t)way * sizeof record));
}

/* ---- files that were checked ---- */

bool store_is_checked(context_t *ctx, const file_mapping_t *mapping, uint64_t checks)
{
    const store_t *store = store_of(ctx);
    file_range_t range;
    uint64_t known[2];
    return store != NULL && file_range(mapping, file_bytes(mapping), file_size(mapping), &range) &&
           store_recall(store, &range, known) && known[0] == checks;
}

void store_set_checked(context_t *ctx, const file_mapping_t *mapping, uint64_t checks)
{
    const store_t *store = store_of(ctx);
    file_range_t range;
    if (store != NULL && file_range(mapping, file_bytes(mapping), file_size(mapping), &range))
        store_note(store, &range, (uint64_t[]){checks, 0});
}
