/* Command lines: a table of options determines parsing, messages and help.
 *
 * Options may come before, between and after operands. `--name VALUE` and `--name=VALUE` are the
 * same. All words after `--` are operands. Every command has --quiet. Errors are printed on
 * stderr. */
#ifndef TESSERA_TOOLS_SUPPORT_ARGS_H
#define TESSERA_TOOLS_SUPPORT_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes of the command. */
#define EXIT_DONE 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define EXIT_DIFFERS 3 /* it ran, but its outputs differ from the expected ones */

#define ARGS_MAX 64

/* Values of an option or operand that may be repeated. */
typedef struct args_list {
    int n;
    const char *items[ARGS_MAX];
} args_list_t;

typedef enum args_kind {
    ARGS_FLAG,    /* bool, set to true */
    ARGS_TEXT,    /* const char * */
    ARGS_INTEGER, /* int64_t in min..max */
    ARGS_NUMBER,  /* double, at least min */
    ARGS_BYTES,   /* int64_t from min up: 1000, 64K, 512M or 2G */
    ARGS_REPEATED /* args_list_t */
} args_kind_t;

typedef struct args_option {
    const char *name; /* "--batch", or "-o" */
    args_kind_t kind;
    void *out;
    const char *metavar; /* e.g. "N"; NULL for flags */
    const char *help;    /* NULL: the option works but help does not list it */
    int64_t min, max;
} args_option_t;

typedef struct args_command {
    const char *name;     /* "bench" */
    const char *operands; /* "MODEL" */
    int min_operands, max_operands;
    const char *example; /* a command line that can be used as it is */
    const char *about;   /* description, in sentences */
    const char *more;    /* text after the options, or NULL */
} args_command_t;

/* Parses a command line; argv[0] is the name of the command. If it returns true, the command should
 * run. Otherwise help or a message has been printed, and *out_code is the exit code. */
bool args_parse(const args_command_t *command, const args_option_t *options, int n_options,
                int argc, char **argv, args_list_t *out_operands, int *out_code);

/* Prints "tessera <command>: <message>" on stderr; returns EXIT_USAGE. */
int args_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns `best` or `name`: the one that is closer to a misspelt word. NULL if neither is close. A
 * close word differs by at most a third of its letters: inserted, missing, changed or exchanged. To
 * search a list, begin with best = NULL. */
const char *args_nearer(const char *word, const char *best, const char *name);

/* Writes "; did you mean NAME?", or "" for NULL, to out_text, which has ARGS_HINT_MAX bytes. */
#define ARGS_HINT_MAX 96
const char *args_hint(const char *name, char *out_text);

/* Splits "a,b" in place. Returns false if there are too many items or an item is empty. */
bool args_split(char *text, args_list_t *out_list);

#endif
