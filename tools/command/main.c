/* tessera: runs, measures, freezes and explains models. Each subcommand has its own file. */
#define _POSIX_C_SOURCE 200809L

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tessera.h>

#include "tools/support/bar.h"
#include "tools/support/command.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
} command_t;

static const command_t commands[] = {
    {"run", command_run, "run a model once; save, compare or verify its outputs"},
    {"bench", command_bench, "measure a model in each mode: time, reorders, memory"},
    {"train", command_train, "train a model on arrays or images, with blocked weights"},
    {"generate", command_generate, "continue a text, or chat, with a language model"},
    {"freeze", command_freeze, "fold, fuse and pack a model into a .tessera file"},
    {"append", command_append, "prepare a .tessera file for another kind of machine"},
    {"cache", command_cache, "list, check or clear the weights and models that processes share"},
    {"graph", command_graph, "print a model's graph, or the result of each pass"},
    {"explain", command_explain, "show for each operator what runs, in which format, and why"},
    {"profile", command_profile, "show where time is spent: a table, JSON, a trace or a page"},
    {"diff", command_diff, "find the first node whose result differs between two modes"},
    {"audit", command_audit, "count the reorders in a oneDNN verbose log of any program"},
    {"info", command_info,
     "print versions, threads, environment, operators; or a .safetensors or .gguf file"},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_usage(FILE *file)
{
    fprintf(file, "tessera bench zoo:resnet50\n\nusage: tessera COMMAND [options]\n\ncommands:\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(file, "  %-8s %s\n", commands[i].name, commands[i].about);
    fprintf(file,
            "\nMODEL is file.onnx, file.tessera or zoo:NAME; for generate and bench also file.gguf."
            "\nDetails: tessera help COMMAND."
            "\nexit codes: 0 done, 1 failed, 2 wrong usage, 3 outputs differ, "
            "130 interrupted\n");
}

/* Returns NULL, after printing a message, if there is no such command. */
static const command_t *find_command(const char *name)
{
    const char *nearest = NULL;
    char hint[ARGS_HINT_MAX];
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(name, commands[i].name) == 0) return &commands[i];
        nearest = args_nearer(name, nearest, commands[i].name);
    }
    nearest = args_nearer(name, nearest, "help");
    print_error("tessera: there is no command \"%s\"%s\nsee: tessera help\n", name,
                args_hint(nearest, hint));
    return NULL;
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Prints the help of tessera or, for `tessera help COMMAND`, of a command. */
static int help(int argc, char **argv)
{
    char option[] = "--help";
    if (argc == 1 || is_help(argv[1])) {
        print_usage(stdout);
        return EXIT_DONE;
    }
    if (argc > 2) return args_usage_error("help", "\"%s\" is an extra operand", argv[2]);
    const command_t *command = find_command(argv[1]);
    return command != NULL ? command->run(2, (char *[]){argv[1], option, NULL}) : EXIT_USAGE;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (is_help(argv[1])) return help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        print("tessera %s\n", tessera_version_text());
        return EXIT_DONE;
    }
    const command_t *command = find_command(argv[1]);
    return command != NULL ? command->run(argc - 1, argv + 1) : EXIT_USAGE;
}

/* After each oneDNN primitive, OpenMP threads wait in a loop for milliseconds, on cores that our
 * own threads need. For commands that repeat runs, this shortens the wait. OpenMP reads the
 * variable when it is loaded, so the program must be restarted, which takes milliseconds. Commands
 * that run once are not restarted. */
static void shorten_spin(int argc, char **argv)
{
    static const char *const names[] = {"bench", "generate", "profile", "train"};
    bool repeats = false;
    for (size_t i = 0; i < sizeof names / sizeof *names && argc > 1; i++)
        repeats |= strcmp(argv[1], names[i]) == 0;
    if (!repeats || getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL) return;
    if (setenv("GOMP_SPINCOUNT", "2000", 1) == 0) (void)execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    shorten_spin(argc, argv);
    /* With SIGXFSZ ignored, a write beyond the limit of the file size fails instead of killing the
     * process, and the partial file is removed. */
    signal(SIGXFSZ, SIG_IGN);
    stop_on_interrupt();
    int code = stop_exit_code(run_command(argc, argv));
    bar_end();
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    print_error("tessera: stdout cannot be written\n");
    return code == EXIT_DONE ? EXIT_FAILED : code;
}
