#define _POSIX_C_SOURCE 200809L

#include "tests/support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/data/npy.h"
#include "module/layers/layers.h"
#include "module/state_dict.h"

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tessera_npy_folder_XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"0.weight.npy", "0.bias.npy", "1.weight.npy", "1.bias.npy",
                                        "extra.npy",    "notes.txt",  ".hidden.npy"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(path_of(names[i]));
    return rmdir(folder);
}

static void put_text(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static module_t *make_net(context_t *ctx, uint64_t seed)
{
    module_t *net = NULL, *layer = NULL;
    context_seed(ctx, seed);
    CHECK_OK(ctx, layer_sequential(ctx, &net));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(ctx, layer_linear(ctx, 4, 4, true, &layer));
        CHECK_OK(ctx, layer_append_take(ctx, net, layer));
    }
    return net;
}

static void a_state_dict_goes_out_and_comes_back(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, 1), *other = make_net(ctx, 2);
    datum_t *dict = NULL, *loaded = NULL;
    double difference = 1;
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict));
    CHECK_OK(ctx, npy_save_folder(ctx, folder, dict));
    CHECK_OK(ctx, npy_save_folder(ctx, folder, dict)); /* replaces the files */
    put_text("notes.txt", "not an array");
    put_text(".hidden.npy", "not one of ours");
    CHECK_OK(ctx, npy_load_folder(ctx, folder, &loaded));
    assert_int_equal(datum_length(loaded), 4);
    assert_string_equal(datum_key(loaded, 0), "0.bias"); /* names are sorted */
    assert_string_equal(datum_key(loaded, 3), "1.weight");
    CHECK_OK(ctx, module_load_state_dict(ctx, other, loaded));
    CHECK_OK(ctx, tensor_max_rel_diff(ctx, module_parameter(other, "1.weight"),
                                      module_parameter(net, "1.weight"), &difference));
    assert_float_equal(difference, 0, 0);
    datum_release(loaded);
    datum_release(dict);
    module_release(other);
    module_release(net);
}

static void names_that_are_missing_or_unknown_are_all_told(void **state)
{
    context_t *ctx = fixture_context(state);
    module_t *net = make_net(ctx, 1);
    datum_t *dict = NULL, *loaded = NULL;
    tensor_t *extra = NULL;
    CHECK_OK(ctx, module_state_dict(ctx, net, &dict));
    CHECK_OK(ctx, npy_save_folder(ctx, folder, dict));
    unlink(path_of("0.bias.npy"));
    unlink(path_of("1.weight.npy"));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1), &extra));
    CHECK_OK(ctx, npy_save(ctx, path_of("extra.npy"), extra));
    CHECK_OK(ctx, npy_load_folder(ctx, folder, &loaded));
    CHECK_FAILS(ctx, module_load_state_dict(ctx, net, loaded), STATUS_INVALID_ARGUMENT,
                "load_state_dict: \"0.bias\", \"1.weight\" are missing, Sequential needs them; "
                "\"extra\" is unknown, Sequential has no such parameter or buffer");
    tensor_release(extra);
    datum_release(loaded);
    datum_release(dict);
    module_release(net);
}

static void folders_that_hold_no_arrays_are_refused(void **state)
{
    context_t *ctx = fixture_context(state);
    datum_t *dict = NULL;
    CHECK_FAILS(ctx, npy_load_folder(ctx, folder, &dict), STATUS_INVALID_ARGUMENT,
                "has no .npy file, one for each tensor");
    CHECK_FAILS(ctx, npy_load_folder(ctx, "/nonexistent", &dict), STATUS_IO,
                "npy_load_folder: /nonexistent: No such file");
    put_text("extra.npy", "no array");
    CHECK_FAILS(ctx, npy_load_folder(ctx, folder, &dict), STATUS_CORRUPT, "extra.npy");
    CHECK_FAILS(ctx, npy_load_folder(ctx, path_of("extra.npy"), &dict), STATUS_IO,
                "Not a directory");
    assert_null(dict);
}

static void invalid_names_and_other_values_are_not_saved(void **state)
{
    context_t *ctx = fixture_context(state);
    static const char *const keys[] = {"", ".hidden", "../up", "a/b"};
    datum_t *number = NULL, *tensor = NULL, *dict = NULL;
    tensor_t *x = NULL;
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(1), &x));
    CHECK_OK(ctx, datum_tensor(ctx, x, &tensor));
    CHECK_OK(ctx, datum_int(ctx, 1, &number));
    for (int i = 0; i < 4; i++) {
        CHECK_OK(ctx, datum_dict(ctx, 1, &keys[i], &tensor, &dict));
        CHECK_FAILS(ctx, npy_save_folder(ctx, folder, dict), STATUS_INVALID_ARGUMENT,
                    "a name without a slash that does not begin with a point");
        datum_release(dict);
    }
    CHECK_OK(ctx, datum_dict(ctx, 1, (const char *const[]){"n"}, &number, &dict));
    CHECK_FAILS(ctx, npy_save_folder(ctx, folder, dict), STATUS_INVALID_ARGUMENT,
                "npy_save_folder: \"n\" is int, must be a tensor");
    datum_release(dict);
    CHECK_OK(ctx, datum_dict(ctx, 1, (const char *const[]){"extra"}, &tensor, &dict));
    CHECK_FAILS(ctx, npy_save_folder(ctx, "/nonexistent/folder", dict), STATUS_IO,
                "npy_save_folder: /nonexistent/folder: No such file");
    CHECK_FAILS(ctx, npy_save_folder(ctx, folder, number), STATUS_INVALID_ARGUMENT,
                "npy_save_folder: a int, must be a dict");
    datum_release(dict);
    datum_release(number);
    datum_release(tensor);
    tensor_release(x);
}

#define FOLDER_TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

static int setup(void **state)
{
    return make_folder(state) != 0 ? -1 : fixture_setup(state);
}

static int teardown(void **state)
{
    int failed = remove_folder(state);
    return fixture_teardown(state) != 0 || failed != 0 ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(a_state_dict_goes_out_and_comes_back),
        FOLDER_TEST(names_that_are_missing_or_unknown_are_all_told),
        FOLDER_TEST(folders_that_hold_no_arrays_are_refused),
        FOLDER_TEST(invalid_names_and_other_values_are_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
