/* Command lines: a table of options gives parsing, messages and help.
 *
 * Options may stand before, between and behind operands; `--name VALUE` and `--name=VALUE` are the
 * same; `--` ends options. Every command has --quiet. A wrong command line is told on stderr. */
#ifndef TESSERA_TOOLS_ARGS_H
#define TESSERA_TOOLS_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit codes of the command. */
#define EXIT_DONE 0
#define EXIT_FAILED 1
#define EXIT_USAGE 2
#define EXIT_DIFFERS 3 /* it ran; what came out is not what it had to be */

#define ARGS_MAX 64

/* What an option or operand may be given several times fills. */
typedef struct args_list {
    int n;
    const char *items[ARGS_MAX];
} args_list_t;

typedef enum args_kind {
    ARGS_FLAG,    /* bool, becomes true */
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
    const char *metavar; /* "N"; NULL for flags */
    const char *help;    /* NULL: works, but help does not tell of it */
    int64_t min, max;
} args_option_t;

typedef struct args_command {
    const char *name;     /* "bench" */
    const char *operands; /* "MODEL" */
    int min_operands, max_operands;
    const char *example; /* a command line that works */
    const char *about;   /* sentences */
    const char *more;    /* stands behind the options; NULL: nothing */
} args_command_t;

/* argv[0] is the command's name. Gives true if the command shall run; else *out_code is what to
 * exit with, help or a message having been printed. */
bool args_parse(const args_command_t *command, const args_option_t *options, int n_options,
                int argc, char **argv, args_list_t *out_operands, int *out_code);

/* "tessera <command>: <message>" on stderr; gives EXIT_USAGE. */
int args_usage_error(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The one of two names that a misspelt word may mean: the nearer by insertions, deletions, changed
 * and exchanged letters, of which a third of the word's length is allowed. `best` may be NULL, and
 * NULL is given when neither is near: begin with NULL, and go through the names. */
const char *args_nearer(const char *word, const char *best, const char *name);

/* "; did you mean NAME?", or nothing for NULL; out_text has room for ARGS_HINT_MAX. */
#define ARGS_HINT_MAX 96
const char *args_hint(const char *name, char *out_text);

/* Splits "a,b" in place into items of the list; false when there are too many or an empty one. */
bool args_split(char *text, args_list_t *out_list);

#endif
