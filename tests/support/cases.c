#include "tests/support/cases.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/ops.h"

#define MAX_OPS 512
#define MAX_LINE 512

typedef struct list {
    int n;
    char **cases; /* NULL-terminated */
} list_t;

static list_t lists[MAX_OPS]; /* lists[i]: the cases of ops_at(i) */

static void stop(const char *what, const char *text)
{
    fprintf(stderr, "tests/ops/cases: %s: %s\n", what, text);
    abort();
}

static void add(list_t *list, const char *text)
{
    list->cases = realloc(list->cases, (size_t)(list->n + 2) * sizeof *list->cases);
    if (list->cases == NULL || (list->cases[list->n] = strdup(text)) == NULL)
        stop("no memory", text);
    list->cases[++list->n] = NULL;
}

/* Adds a case, or a case for each name of the attribute before "=*". */
static void add_each(const opdef_t *op, list_t *list, const char *text)
{
    const char *star = strstr(text, "=*"), *name = star;
    if (star == NULL) {
        add(list, text);
        return;
    }
    while (name > text && name[-1] != ' ') name--;
    const size_t length = (size_t)(star - name);
    for (int f = 0; f < op->attrs.n_fields; f++) {
        const attr_field_t *field = &op->attrs.fields[f];
        if (strlen(field->name) != length || memcmp(field->name, name, length) != 0) continue;
        for (int i = 0; field->names != NULL && field->names[i] != NULL; i++) {
            char each[2 * MAX_LINE];
            snprintf(each, sizeof each, "%.*s=\"%s\"%s", (int)(star - text), text, field->names[i],
                     star + 2);
            add(list, each);
        }
        return;
    }
    stop("no attribute with names", text);
}

static bool is_named(const opdef_t *op, const char *word)
{
    if (*word != '~') return strcmp(op->name, word) == 0;
    const opdef_t *model = ops_find(word + 1);
    return model != NULL && model->spec == op->spec;
}

/* Marks the operators that a line names. Returns true if it is the last such line of the list. */
static bool read_names(char *line, bool *is_marked)
{
    bool is_last = false;
    for (char *word = strtok(line, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        int n = 0;
        char *end = word + strlen(word) - 1;
        if (*end == ':') is_last = true, *end = '\0';
        for (int i = 0; i < ops_count(); i++)
            if (is_named(ops_at(i), word)) is_marked[i] = true, n++;
        if (n == 0) stop("no such operator", word);
    }
    return is_last;
}

static void read_file(const char *path)
{
    char line[MAX_LINE];
    bool is_marked[MAX_OPS] = {false}, is_in_cases = true;
    FILE *file = fopen(path, "r");
    if (file == NULL) stop("cannot be read", path);
    while (fgets(line, sizeof line, file) != NULL) {
        if (*line == '#' || *line == '\n') continue;
        if (*line != ' ') {
            if (is_in_cases) memset(is_marked, 0, sizeof is_marked);
            is_in_cases = read_names(line, is_marked);
            continue;
        }
        if (!is_in_cases) stop("a case before the colon", line);
        line[strcspn(line, "\n")] = '\0';
        for (int i = 0; i < ops_count(); i++)
            if (is_marked[i]) add_each(ops_at(i), &lists[i], line + strspn(line, " "));
    }
    fclose(file);
}

static void read_all(void)
{
    glob_t files;
    if (ops_count() > MAX_OPS || glob(TESSERA_SOURCE_DIR "/tests/ops/cases/*.txt", 0, NULL, &files))
        stop("no files", TESSERA_SOURCE_DIR);
    for (size_t i = 0; i < files.gl_pathc; i++) read_file(files.gl_pathv[i]);
    globfree(&files);
}

const char *const *cases_of(const opdef_t *op)
{
    static const char *const none[] = {NULL};
    static bool is_read = false;
    if (!is_read) read_all();
    is_read = true;
    for (int i = 0; i < ops_count(); i++)
        if (ops_at(i) == op && lists[i].n > 0) return (const char *const *)lists[i].cases;
    return none;
}
