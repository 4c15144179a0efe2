#define _POSIX_C_SOURCE 200809L

/* tessera cache: lists, checks and removes the files of the store of packed weights. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tensor/base/try_impl.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/session.h"
#include "tools/support/stop.h"
#include "tools/support/table.h"

#define NAME "cache"

static const args_command_t command = {
    .name = NAME,
    .operands = "[list|verify|clear]",
    .min_operands = 0,
    .max_operands = 1,
    .example = "tessera cache verify --limit 1G",
    .about =
        "Lists the files of the store (TESSERA_STORE), in which processes share packed weights\n"
        "and ONNX models: the weight and its format, or the model; the size; and when the file\n"
        "was last used. verify reads all bytes and removes damaged files; clear removes all\n"
        "files. If a file is removed, the weight is packed again, or the model imported again,\n"
        "when it is needed."};

typedef struct listing {
    table_t table;
    bool has_table;
    int n_files;
    double n_bytes;
} listing_t;

static status_t add_entry(void *user, const store_entry_t *entry)
{
    listing_t *listing = user;
    char when[32] = "?";
    const time_t used = (time_t)entry->used;
    struct tm local;
    listing->n_files++;
    listing->n_bytes += (double)entry->n_bytes;
    if (!listing->has_table) return STATUS_OK;
    if (localtime_r(&used, &local) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M", &local);
    table_cell(&listing->table, "%s", when);
    table_cell(&listing->table, "%.1f", (double)entry->n_bytes / 1e6);
    table_cell(&listing->table, "%s", entry->is_whole ? entry->text : "damaged");
    return STATUS_OK;
}

static status_t print_store(context_t *ctx, const char *path, bool has_table)
{
    static const char *const columns[] = {"<used", ">MB", "<content"};
    listing_t listing = {.has_table = has_table};
    if (has_table) table_begin(ctx, &listing.table, 3, columns);
    const status_t status = store_list(ctx, false, add_entry, &listing);
    if (has_table) TRY(table_print(&listing.table));
    TRY(status);
    print("%s: %d files, %.1f MB\n", path, listing.n_files, listing.n_bytes / 1e6);
    return STATUS_OK;
}

static status_t clean(context_t *ctx, const char *action, int64_t limit)
{
    int n_removed = 0, n_old = 0;
    const bool is_checked = strcmp(action, "verify") == 0,
               is_cleared = strcmp(action, "clear") == 0;
    if (is_checked) TRY(store_verify(ctx, &n_removed));
    if (is_checked) print("%d damaged files removed\n", n_removed);
    if (limit > 0 || is_cleared) TRY(store_trim(ctx, is_cleared ? 0 : limit, &n_old));
    if (limit > 0 || is_cleared) print("%d files removed\n", n_old);
    return STATUS_OK;
}

static bool run(const char *action, int64_t limit)
{
    context_t *ctx = NULL;
    status_t status = stop_create(NULL, &ctx);
    const char *path = status == STATUS_OK ? store_path(ctx) : NULL;
    if (status == STATUS_OK && path == NULL)
        print("there is no store: it is off, or its folder cannot be used (TESSERA_STORE)\n");
    if (path != NULL) {
        status = clean(ctx, action, limit);
        if (status == STATUS_OK) status = print_store(ctx, path, strcmp(action, "list") == 0);
    }
    const bool is_done = session_check(NAME, ctx, status);
    stop_destroy(ctx);
    return is_done;
}

int command_cache(int argc, char **argv)
{
    int64_t limit = 0;
    args_list_t operands;
    int code;
    const args_option_t table[] = {
        {"--limit", ARGS_BYTES, &limit, "BYTES",
         "removes the least recently used files, until the others have\n"
         "                            at most this size, such as 1G (none)",
         1, INT64_MAX},
    };
    if (!args_parse(&command, table, 1, argc, argv, &operands, &code)) return code;
    const char *action = operands.n > 0 ? operands.items[0] : "list";
    if (strcmp(action, "list") != 0 && strcmp(action, "verify") != 0 &&
        strcmp(action, "clear") != 0)
        return args_usage_error(NAME, "\"%s\", must be list, verify or clear", action);
    return run(action, limit) ? EXIT_DONE : EXIT_FAILED;
}
