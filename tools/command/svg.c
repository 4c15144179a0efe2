#include "tools/command/svg.h"

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tensor/base/try_impl.h"

extern char **environ;

/* Runs dot, with the file as its standard input. */
static status_t run_dot(context_t *ctx, int input, const char *path)
{
    char *arguments[] = {(char[]){"dot"}, (char[]){"-Tsvg"}, (char[]){"-o"}, (char *)path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = 0;
    int code = 0, error = posix_spawn_file_actions_init(&actions);
    if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (error == 0) error = posix_spawnp(&child, "dot", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        FAIL(ctx, STATUS_UNSUPPORTED, "--svg %s: there is no dot in PATH, it is part of Graphviz",
             path);
    if (error != 0) FAIL(ctx, STATUS_IO, "--svg %s: dot: %s", path, strerror(error));
    while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
        FAIL(ctx, STATUS_IO, "--svg %s: dot failed", path);
    return STATUS_OK;
}

status_t svg_write(context_t *ctx, const char *dot, const char *path)
{
    FILE *file = tmpfile();
    if (file == NULL) FAIL(ctx, STATUS_IO, "--svg %s: %s", path, strerror(errno));
    status_t status = STATUS_OK;
    if (fputs(dot, file) < 0 || fflush(file) != 0)
        status = context_fail(ctx, STATUS_IO, "--svg %s: %s", path, strerror(errno));
    rewind(file);
    if (status == STATUS_OK) status = run_dot(ctx, fileno(file), path);
    fclose(file);
    return status;
}
