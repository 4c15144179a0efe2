/* Frozen ONNX models in the store: the second start maps what the first one has frozen, computes
 * the same bits, and never takes a model of other bytes, options or sizes. */
#define _XOPEN_SOURCE 700

#include "tests/support/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "freeze/freeze.h"
#include "module/module.h"
#include "tensor/store/store.h"
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/scratch.h"

enum { C = 64, N_WEIGHT = C * C * 9, N_X = C * 28 * 28, MAX_BATCH = 3 };

static char store[PATH_MAX], path[PATH_MAX], data_path[PATH_MAX];

/* A store of its own for each test. */
static void new_store(void)
{
    static int serial;
    snprintf(store, sizeof store, "%s/store%d", scratch, serial++);
    snprintf(path, sizeof path, "%s/net.onnx", scratch);
    snprintf(data_path, sizeof data_path, "%s/net.data", scratch);
}

static void write_file(const char *name, const void *bytes, size_t n_bytes)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n_bytes, file), n_bytes);
    fclose(file);
}

static void fill(int seed, float *weight)
{
    for (int i = 0; i < N_WEIGHT; i++)
        weight[i] = (float)((i * 7 + seed * 31) % 201 - 100) / 4096.0F;
}

/* y = relu(conv(x, w)), with a weight that depends on the seed, in the file or outside of it. The
 * first size of x is open. */
static void write_model(int seed, bool is_external)
{
    static float weight[N_WEIGHT];
    Onnx__StringStringEntryProto entry, *list[] = {&entry};
    char key[] = "location", value[] = "net.data";
    size_t n_bytes = 0;
    fill(seed, weight);
    begin_model(13, DIMS(-1, C, 28, 28));
    maker_open(&maker, 0, "N");
    Onnx__TensorProto *w = maker_initializer(&maker, "w", FLOAT, DIMS(C, C, 3, 3), weight,
                                             is_external ? 0 : sizeof weight);
    if (is_external) {
        onnx__string_string_entry_proto__init(&entry);
        entry.key = key;
        entry.value = value;
        w->has_raw_data = false;
        w->has_data_location = true;
        w->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
        w->n_external_data = 1;
        w->external_data = list;
        write_file(data_path, weight, sizeof weight);
    }
    maker_ints(maker_node(&maker, "Conv", "", "x w", "a"), "pads", DIMS(1, 1, 1, 1));
    maker_node(&maker, "Relu", "", "a", "y");
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    write_file(path, bytes, n_bytes);
    free(bytes);
}

static context_t *with_store(const char *where)
{
    context_t *ctx = NULL;
    assert_int_equal(context_create(&(context_options_t){.n_threads = 2, .store = where}, &ctx),
                     STATUS_OK);
    return ctx;
}

/* The result of a run, and the counters after it. */
typedef struct start {
    float y[MAX_BATCH * N_X];
    counters_t counters;
} start_t;

static void run(context_t *ctx, module_t *frozen, int64_t batch, float *out_y)
{
    tensor_t *x = NULL, *y = NULL;
    context_seed(ctx, 5);
    CHECK_OK(ctx, tensor_randn(ctx, DTYPE_F32, SHAPE(batch, C, 28, 28), &x));
    CHECK_OK(ctx, module_forward(ctx, frozen, x, &y));
    CHECK_OK(ctx, tensor_read(ctx, y, out_y, (size_t)(batch * N_X) * sizeof *out_y));
    tensor_release(x);
    tensor_release(y);
}

/* Opens the file with a context of its own, and runs it. */
static void start(const char *where, const onnx_options_t *options,
                  const freeze_options_t *freezing, int64_t batch, start_t *out)
{
    context_t *ctx = with_store(where);
    module_t *frozen = NULL;
    CHECK_OK(ctx, onnx_load_frozen(ctx, path, options, freezing, &frozen));
    assert_true(freeze_is_frozen(frozen));
    run(ctx, frozen, batch, out->y);
    counters_read(ctx, &out->counters);
    assert_string_equal(context_error(ctx), "");
    module_release(frozen);
    context_destroy(ctx);
}

static void check_imported(const start_t *start)
{
    assert_int_equal(start->counters.models_imported, 1);
    assert_int_equal(start->counters.models_mapped, 0);
}

static void check_mapped(const start_t *start)
{
    assert_int_equal(start->counters.models_imported, 0);
    assert_int_equal(start->counters.models_mapped, 1);
    assert_int_equal(start->counters.weights_packed, 0);
    assert_int_equal(counters_weight_reorders(&start->counters), 0);
    assert_int_equal(start->counters.copies[CAUSE_WEIGHT], 0);
}

static void check_equal(const start_t *a, const start_t *b, int64_t batch)
{
    assert_memory_equal(a->y, b->y, (size_t)(batch * N_X) * sizeof *a->y);
}

static start_t a, b, right;

/* Waits until the identities of the files may be recorded. */
static void settle(void)
{
    sleep(3);
}

static int count_files(const char *end, char *out_path)
{
    int n = 0;
    DIR *entries = opendir(store);
    if (entries == NULL) return 0;
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        const size_t length = strlen(entry->d_name), n_end = strlen(end);
        if (length < n_end || strcmp(entry->d_name + length - n_end, end) != 0) continue;
        if (out_path != NULL) snprintf(out_path, PATH_MAX, "%.200s/%.200s", store, entry->d_name);
        n++;
    }
    closedir(entries);
    return n;
}

static void the_second_start_maps_the_model(void **state)
{
    (void)state;
    new_store();
    for (int is_external = 0; is_external < 2; is_external++) {
        write_model(is_external, is_external == 1);
        start("off", NULL, NULL, 1, &right);
        check_imported(&right);
        start(store, NULL, NULL, 1, &a); /* finds no record: the file is young */
        check_imported(&a);
        check_equal(&a, &right, 1);
        assert_int_equal(count_files(".source", NULL), is_external);
        start(store, NULL, NULL, 1, &b);
        check_mapped(&b);
        check_equal(&b, &right, 1);
        settle();
        for (int i = 0; i < 3; i++) { /* the first of these adds the record, the others use it */
            start(store, NULL, NULL, 1, &b);
            check_mapped(&b);
            check_equal(&b, &right, 1);
            assert_int_equal(count_files(".source", NULL), is_external + 1);
        }
        assert_int_equal(count_files(".model", NULL), is_external + 1);
    }
}

/* The module is like the imported one: names, open sizes, several batches, and saving. */
static void a_mapped_model_takes_other_sizes(void **state)
{
    module_value_t value;
    module_t *frozen = NULL;
    (void)state;
    new_store();
    write_model(3, false);
    start(store, NULL, NULL, 1, &a);
    start("off", NULL, NULL, 3, &right);
    start(store, NULL, NULL, 3, &b);
    assert_int_equal(b.counters.models_mapped, 1);
    check_equal(&b, &right, 3);
    context_t *ctx = with_store(store);
    CHECK_OK(ctx, onnx_load_frozen(ctx, path, NULL, NULL, &frozen));
    CHECK_OK(ctx, module_input(ctx, frozen, "forward", 0, &value));
    assert_string_equal(value.name, "x");
    assert_string_equal(value.dims[0], "N");
    assert_int_equal(value.sizes[0], -1);
    assert_int_equal(value.made[0], 1);
    module_release(frozen);
    context_destroy(ctx);
}

static void other_options_are_other_models(void **state)
{
    const int64_t sizes[] = {2, C, 28, 28};
    const onnx_shape_t shape = {"x", 4, sizes};
    const onnx_options_t imports[] = {{.batch = 2}, {.n_shapes = 1, .shapes = &shape}};
    const freeze_options_t freezings[] = {
        {.dtype = DTYPE_BF16}, {.keep_numerics = true}, {.rounding_error = 1e-9}};
    (void)state;
    new_store();
    write_model(4, false);
    start(store, NULL, NULL, 1, &a);
    for (int i = 0; i < 2; i++) {
        start(store, &imports[i], NULL, 2, &a);
        check_imported(&a);
        start(store, &imports[i], NULL, 2, &b);
        check_mapped(&b);
        check_equal(&a, &b, 2);
    }
    for (int i = 0; i < 3; i++) {
        start("off", NULL, &freezings[i], 1, &right);
        start(store, NULL, &freezings[i], 1, &a);
        check_imported(&a);
        start(store, NULL, &freezings[i], 1, &b);
        check_mapped(&b);
        check_equal(&b, &right, 1);
    }
    assert_int_equal(count_files(".model", NULL), 6);
    start(store, &(onnx_options_t){.batch = 1}, &(freeze_options_t){.plans = 1}, 1, &b);
    check_mapped(&b); /* 1 is the default batch, and plans are no part of the result */
}

static void set_times_of(const char *name, const struct stat *about)
{
    const struct timespec times[] = {about->st_atim, about->st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

/* Overwrites a file in place. Its name, size and time of modification stay the same. */
static void a_changed_file_is_imported_again(void **state)
{
    (void)state;
    for (int is_external = 0; is_external < 2; is_external++) {
        struct stat about;
        const char *changed = is_external == 1 ? data_path : path;
        new_store();
        write_model(5, is_external == 1);
        settle();
        for (int i = 0; i < 2; i++) start(store, NULL, NULL, 1, &a);
        check_mapped(&a);
        assert_int_equal(count_files(".source", NULL), 1);
        assert_int_equal(stat(changed, &about), 0);
        write_model(6, is_external == 1);
        set_times_of(changed, &about);
        start("off", NULL, NULL, 1, &right);
        assert_memory_not_equal(a.y, right.y, N_X * sizeof *a.y);
        start(store, NULL, NULL, 1, &b);
        check_imported(&b);
        check_equal(&b, &right, 1);
        write_model(5, is_external == 1); /* the old bytes again: found by content */
        start(store, NULL, NULL, 1, &b);
        check_mapped(&b);
        check_equal(&b, &a, 1);
    }
}

static void a_changed_module_is_not_stored(void **state)
{
    (void)state;
    new_store();
    write_model(7, false);
    for (int i = 0; i < 5; i++) {
        module_t *frozen = NULL;
        freeze_tuned_t tuned;
        context_t *other = NULL;
        datum_t *datum = NULL;
        const tensor_info_t x = info_dense(DTYPE_F32, 4, (int64_t[]){1, C, 28, 28});
        context_t *ctx = with_store(store);
        CHECK_OK(ctx, onnx_load_frozen(ctx, path, NULL, NULL, &frozen));
        if (i == 0) {
            CHECK_OK(ctx,
                     freeze_tune_for(ctx, frozen, 1, (const tensor_info_t *[]){&x}, 0.05, &tuned));
        } else if (i == 1) {
            CHECK_OK(ctx, datum_int(ctx, 3, &datum));
            CHECK_OK(ctx, module_set_attribute(ctx, frozen, "more", datum));
            datum_release(datum);
        } else if (i == 2) {
            CHECK_OK(ctx, module_remove(ctx, frozen, module_member(frozen, 1, NULL)));
        } else if (i == 3) {
            CHECK_OK(ctx, context_set_threads(ctx, 1));
        } else { /* a context with other arithmetic runs it first */
            const context_options_t options = {
                .n_threads = 2, .store = store, .flush_denormals = true};
            assert_int_equal(context_create(&options, &other), STATUS_OK);
        }
        run(other != NULL ? other : ctx, frozen, 1, a.y);
        module_release(frozen);
        context_destroy(other);
        context_destroy(ctx);
        assert_int_equal(count_files(".model", NULL), 0);
    }
}

/* Whatever happens to an entry, the model is right. */
static void damaged_entries_are_made_again(void **state)
{
    static const char *const ends[] = {".model", ".source"};
    char entry[PATH_MAX];
    (void)state;
    new_store();
    write_model(8, false);
    settle();
    start(store, NULL, NULL, 1, &right);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(count_files(ends[i % 2], entry), 1);
        struct stat about;
        assert_int_equal(stat(entry, &about), 0);
        FILE *file = fopen(entry, "r+b");
        const long at = (long)((unsigned long)(i * 7919 + 13) * 104729UL %
                               (unsigned long)about.st_size);
        if (i % 8 == 7) {
            assert_int_equal(ftruncate(fileno(file), at), 0);
        } else {
            fseek(file, at, SEEK_SET);
            const int byte = fgetc(file);
            fseek(file, at, SEEK_SET);
            fputc(byte ^ 1 << i % 7, file);
        }
        fclose(file);
        start(store, NULL, NULL, 1, &a);
        check_equal(&a, &right, 1);
        assert_int_equal(a.counters.models_imported, i % 2 == 0);
    }
}

/* Processes that are killed at any time leave nothing that is wrong. */
static void killed_processes_do_no_harm(void **state)
{
    (void)state;
    new_store();
    write_model(9, false);
    start("off", NULL, NULL, 1, &right);
    for (int i = 0; i < (IS_SANITIZED ? 5 : 40); i++) {
        context_t *cleaner = with_store(store);
        if (i % 4 == 0) CHECK_OK(cleaner, store_trim(cleaner, 0, NULL));
        context_destroy(cleaner);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            start(store, NULL, NULL, 1, &a);
            _exit(0);
        }
        usleep((useconds_t)(i * 2500 % 60000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (i % 2 == 0) continue;
        start(store, NULL, NULL, 1, &b);
        check_equal(&b, &right, 1);
    }
    for (int i = 0; i < 2; i++) start(store, NULL, NULL, 1, &b);
    check_mapped(&b);
    check_equal(&b, &right, 1);
}

static void processes_may_open_a_file_at_once(void **state)
{
    pid_t children[4];
    (void)state;
    new_store();
    write_model(10, false);
    start("off", NULL, NULL, 1, &right);
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0) continue;
        start(store, NULL, NULL, 1, &a);
        _exit(memcmp(a.y, right.y, N_X * sizeof *a.y) != 0);
    }
    for (int i = 0; i < 4; i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    start(store, NULL, NULL, 1, &b);
    check_mapped(&b);
    assert_int_equal(count_files(".model", NULL), 1);
}

/* A model from memory is found by its bytes; tensors in the options are not stored. */
static void bytes_are_found_too(void **state)
{
    static float weight[N_WEIGHT];
    size_t n_bytes = 0;
    (void)state;
    new_store();
    write_model(11, false);
    uint8_t *bytes = maker_pack(&maker, &n_bytes);
    for (int i = 0; i < 3; i++) {
        context_t *ctx = with_store(store);
        module_t *frozen = NULL;
        tensor_t *w = NULL;
        fill(12, weight);
        CHECK_OK(ctx, tensor_from(ctx, DTYPE_F32, 4, (int64_t[]){C, C, 3, 3}, weight, &w));
        const onnx_options_t given = {.n_tensors = 1, .tensors = &(onnx_tensor_t){"w", w}};
        CHECK_OK(ctx, onnx_load_frozen_bytes(ctx, bytes, n_bytes, i == 2 ? &given : NULL, NULL,
                                             &frozen));
        run(ctx, frozen, 1, a.y);
        counters_read(ctx, &a.counters);
        assert_int_equal(a.counters.models_mapped, i == 1);
        tensor_release(w);
        module_release(frozen);
        context_destroy(ctx);
        assert_int_equal(count_files(".model", NULL), 1);
    }
    free(bytes);
}

static void failures_are_those_of_an_import(void **state)
{
    module_t *frozen = NULL;
    (void)state;
    new_store();
    context_t *ctx = with_store(store);
    CHECK_FAILS(ctx, onnx_load_frozen(ctx, "/none.onnx", NULL, NULL, &frozen), STATUS_IO,
                "/none.onnx, No such file");
    write_file(path, "no model", 8);
    CHECK_FAILS(ctx, onnx_load_frozen(ctx, path, NULL, NULL, &frozen), STATUS_CORRUPT, "onnx");
    assert_null(frozen);
    context_destroy(ctx);
}

/* A model in memory with external data, and options that freezing refuses, fail with the store as
 * without it. */
static void refusals_are_those_without_the_store(void **state)
{
    static uint8_t bytes[1 << 20];
    (void)state;
    new_store();
    write_model(13, true);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t n_bytes = fread(bytes, 1, sizeof bytes, file);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 3; i++) {
        context_t *ctx = with_store(i == 0 ? "off" : store);
        module_t *frozen = NULL;
        CHECK_FAILS(ctx, onnx_load_frozen_bytes(ctx, bytes, n_bytes, NULL, NULL, &frozen),
                    STATUS_UNSUPPORTED, "");
        assert_null(frozen);
        CHECK_FAILS(ctx,
                    onnx_load_frozen(ctx, path, NULL, &(freeze_options_t){.plans = -1}, &frozen),
                    STATUS_INVALID_ARGUMENT, "plans");
        assert_null(frozen);
        if (i == 1) start(store, NULL, NULL, 1, &a);
        context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_start_maps_the_model),
        cmocka_unit_test(a_mapped_model_takes_other_sizes),
        cmocka_unit_test(other_options_are_other_models),
        cmocka_unit_test(a_changed_file_is_imported_again),
        cmocka_unit_test(a_changed_module_is_not_stored),
        cmocka_unit_test(damaged_entries_are_made_again),
        cmocka_unit_test(killed_processes_do_no_harm),
        cmocka_unit_test(processes_may_open_a_file_at_once),
        cmocka_unit_test(bytes_are_found_too),
        cmocka_unit_test(failures_are_those_of_an_import),
        cmocka_unit_test(refusals_are_those_without_the_store),
    };
    return cmocka_run_group_tests(tests, scratch_begin, scratch_end);
}
