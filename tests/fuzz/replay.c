/* Used instead of libFuzzer: runs a target on all files in the given folders. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_MAX (1 << 20)

static void replay(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "rb");
    FUZZ_CHECK(file != NULL, "%s", path);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    fprintf(stderr, "%s\n", path);
    /* A copy of the exact size, so that sanitizers detect reads beyond its end. */
    uint8_t *copy = malloc(n > 0 ? n : 1);
    FUZZ_CHECK(copy != NULL, "%zu bytes", n);
    for (size_t i = 0; i < n; i++) copy[i] = bytes[i];
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static int replay_folder(const char *folder)
{
    int n = 0;
    char path[4096];
    DIR *dir = opendir(folder);
    FUZZ_CHECK(dir != NULL, "%s", folder);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        replay(path);
        n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) n += replay_folder(argv[i]);
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1;
}
