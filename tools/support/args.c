#include "tools/support/args.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/support/bar.h"
#include "tools/support/print.h"
#include "tools/support/stop.h"

int args_usage_error(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error("tessera %s: ", command);
    print_error_list(format, arguments);
    print_error("\nsee: tessera %s --help\n", command);
    va_end(arguments);
    return EXIT_USAGE;
}

/* ---- misspelt words ---- */

#define WORD_MAX 32

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Returns the number of edits that turn a into b (the Damerau-Levenshtein distance, as optimal
 * string alignment), or WORD_MAX if a word is too long. rows[i][j] is the number of edits between
 * the first i letters of a and the first j letters of b. */
static int count_edits(const char *a, const char *b)
{
    int rows[WORD_MAX][WORD_MAX], n = (int)strlen(a), m = (int)strlen(b);
    if (n >= WORD_MAX || m >= WORD_MAX) return WORD_MAX;
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            rows[i][j] = i + j;
            if (i == 0 || j == 0) continue;
            bool is_same = a[i - 1] == b[j - 1];
            bool is_exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            rows[i][j] = min(min(rows[i - 1][j], rows[i][j - 1]) + 1,
                             rows[i - 1][j - 1] + (is_same ? 0 : 1));
            if (is_exchanged) rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1);
        }
    return rows[n][m];
}

const char *args_nearer(const char *word, const char *best, const char *name)
{
    int allowed = (int)(strlen(word) / 3);
    if (best != NULL) allowed = min(allowed, count_edits(word, best) - 1);
    return count_edits(word, name) <= allowed ? name : best;
}

const char *args_hint(const char *name, char *out_text)
{
    out_text[0] = '\0';
    if (name != NULL) snprintf(out_text, ARGS_HINT_MAX, "; did you mean %s?", name);
    return out_text;
}

/* ---- parsing ---- */

bool args_split(char *text, args_list_t *out_list)
{
    out_list->n = 0;
    for (char *at = text; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) *comma = '\0';
        if (*at == '\0' || out_list->n == ARGS_MAX) return false;
        out_list->items[out_list->n++] = at;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return true;
}

/* An option that every command has. */
static const args_option_t quiet = {"--quiet", ARGS_FLAG, NULL, NULL, "no progress on the terminal",
                                    0,         0};

static void print_option(const args_option_t *option)
{
    char left[40];
    if (option->help == NULL) return;
    snprintf(left, sizeof left, "%s%s%s", option->name, option->metavar != NULL ? " " : "",
             option->metavar != NULL ? option->metavar : "");
    print("  %-26s%s\n", left, option->help);
}

static void print_help(const args_command_t *command, const args_option_t *options, int n_options)
{
    print("%s\n\nusage: tessera %s%s%s [options]\n\n%s\n\noptions:\n", command->example,
          command->name, command->operands[0] != '\0' ? " " : "", command->operands,
          command->about);
    for (int i = 0; i < n_options; i++) print_option(&options[i]);
    for (int i = 0; i < STOP_OPTIONS; i++) print_option(&stop_options[i]);
    print_option(&quiet);
    if (command->more != NULL) print("\n%s\n", command->more);
}

/* Reads "512M": a whole number that K, M or G (2^10, 2^20, 2^30) may follow. */
static bool read_bytes(const char *value, int64_t *out_bytes)
{
    static const char units[] = "KMG";
    char *end = NULL;
    const long long number = strtoll(value, &end, 10);
    const char *unit = *end != '\0' ? strchr(units, *end) : NULL;
    const int shift = unit != NULL ? 10 * (int)(unit - units + 1) : 0;
    if (end == value || errno != 0 || end[unit != NULL] != '\0' || number < 0 ||
        number > (INT64_MAX >> shift))
        return false;
    *out_bytes = (int64_t)number << shift;
    return true;
}

static bool set_value(const args_command_t *command, const args_option_t *option, const char *value)
{
    char *end = NULL;
    errno = 0;
    switch (option->kind) {
    case ARGS_FLAG: *(bool *)option->out = true; return true;
    case ARGS_TEXT: *(const char **)option->out = value; return true;
    case ARGS_INTEGER: {
        long long number = strtoll(value, &end, 10);
        if (end != value && *end == '\0' && errno == 0 && number >= option->min &&
            number <= option->max) {
            *(int64_t *)option->out = number;
            return true;
        }
        args_usage_error(command->name, "%s %s, must be a whole number from %lld to %lld",
                         option->name, value, (long long)option->min, (long long)option->max);
        return false;
    }
    case ARGS_NUMBER: {
        double number = strtod(value, &end);
        if (end != value && *end == '\0' && isfinite(number) && number >= (double)option->min) {
            *(double *)option->out = number;
            return true;
        }
        args_usage_error(command->name, "%s %s, must be a number, at least %lld", option->name,
                         value, (long long)option->min);
        return false;
    }
    case ARGS_BYTES: {
        int64_t bytes = 0;
        if (read_bytes(value, &bytes) && bytes >= option->min) {
            *(int64_t *)option->out = bytes;
            return true;
        }
        args_usage_error(command->name,
                         "%s %s, must be bytes, at least %lld, e.g. 1000000, 512M or 2G",
                         option->name, value, (long long)option->min);
        return false;
    }
    case ARGS_REPEATED: break;
    }
    args_list_t *list = option->out;
    if (list->n == ARGS_MAX) {
        args_usage_error(command->name, "%s is given more than %d times", option->name, ARGS_MAX);
        return false;
    }
    list->items[list->n++] = value;
    return true;
}

/* Finds the option named in `argument`. *out_value is the text after a `=`, or NULL. */
static const args_option_t *find_option(const args_option_t *options, int n_options,
                                        const char *argument, const char **out_value)
{
    size_t length = strcspn(argument, "=");
    bool is_long = strncmp(argument, "--", 2) == 0;
    if (!is_long) length = strlen(argument);
    for (int i = 0; i < n_options; i++) {
        if (strlen(options[i].name) != length || strncmp(options[i].name, argument, length) != 0)
            continue;
        *out_value = argument[length] == '=' ? argument + length + 1 : NULL;
        return &options[i];
    }
    return NULL;
}

static bool check_operands(const args_command_t *command, const args_list_t *operands)
{
    if (operands->n < command->min_operands) {
        args_usage_error(command->name, "%s is missing", command->operands);
        return false;
    }
    if (operands->n > command->max_operands) {
        args_usage_error(command->name, "\"%s\" is an extra operand",
                         operands->items[command->max_operands]);
        return false;
    }
    return true;
}

/* Parses the option at argv[*at], and sets *at to the index of its last word. If the option is
 * wrong, prints a message and returns false. */
static bool parse_option(const args_command_t *command, const args_option_t *options, int n_options,
                         int argc, char **argv, int *at)
{
    const char *argument = argv[*at], *value = NULL;
    const args_option_t *option = find_option(options, n_options, argument, &value);
    if (option == NULL) option = find_option(stop_options, STOP_OPTIONS, argument, &value);
    if (option == NULL) {
        const char *nearest = NULL;
        char name[WORD_MAX], hint[ARGS_HINT_MAX];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
        for (int i = 0; i < n_options; i++)
            if (options[i].help != NULL) nearest = args_nearer(name, nearest, options[i].name);
        nearest = args_nearer(name, nearest, quiet.name);
        for (int i = 0; i < STOP_OPTIONS; i++)
            nearest = args_nearer(name, nearest, stop_options[i].name);
        args_usage_error(command->name, "there is no option %s%s", argument,
                         args_hint(nearest, hint));
        return false;
    }
    if (option->kind == ARGS_FLAG) {
        if (value == NULL) return set_value(command, option, NULL);
        args_usage_error(command->name, "%s takes no value", option->name);
        return false;
    }
    if (value == NULL && *at + 1 < argc) value = argv[++*at];
    if (value == NULL) {
        args_usage_error(command->name, "%s needs a value: %s %s", option->name, option->name,
                         option->metavar);
        return false;
    }
    return set_value(command, option, value);
}

bool args_parse(const args_command_t *command, const args_option_t *options, int n_options,
                int argc, char **argv, args_list_t *out_operands, int *out_code)
{
    bool only_operands = false;
    out_operands->n = 0;
    *out_code = EXIT_USAGE;
    for (int i = 1; i < argc; i++) {
        if (!only_operands && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            print_help(command, options, n_options);
            *out_code = EXIT_DONE;
            return false;
        }
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strcmp(argv[i], quiet.name) == 0) {
            bar_set_quiet();
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!parse_option(command, options, n_options, argc, argv, &i)) return false;
        } else if (out_operands->n < ARGS_MAX) {
            out_operands->items[out_operands->n++] = argv[i];
        }
    }
    if (!check_operands(command, out_operands)) return false;
    stop_at_limits(command->name);
    return true;
}
