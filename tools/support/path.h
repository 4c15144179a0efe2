/* The path of the module that currently runs. Observers update it. */
#ifndef TESSERA_TOOLS_SUPPORT_PATH_H
#define TESSERA_TOOLS_SUPPORT_PATH_H

#include <string.h>

/* Start with zeros. Names that do not fit are left out of the text. */
typedef struct path {
    char text[256];
    int n_cut; /* number of names left out */
} path_t;

static inline void path_enter(path_t *path, const char *name)
{
    size_t length = strlen(path->text), more = strlen(name), dot = length > 0;
    if (path->n_cut > 0 || length + dot + more >= sizeof path->text) {
        path->n_cut++;
        return;
    }
    if (dot > 0) path->text[length] = '.';
    memcpy(path->text + length + dot, name, more + 1);
}

static inline void path_leave(path_t *path, const char *name)
{
    size_t length = strlen(path->text), less = strlen(name);
    if (path->n_cut > 0) {
        path->n_cut--;
        return;
    }
    if (length > less) less++;
    path->text[length > less ? length - less : 0] = '\0';
}

#endif
