/* Small modules for tests of freezing: one line per member, methods as text. */
#ifndef TESSERA_TESTS_MINI_H
#define TESSERA_TESTS_MINI_H

#include "freeze/freeze.h"

/* Text of a method with one input f32[2], and of lines that read and set the attribute at a
 * path. */
#define MINI_METHOD(name, body) "graph " name "(%self : module, %x : f32[2]) {\n" body "}\n"
#define MINI_GET(value, path) "%" value " = getattr(%self) name=\"" path "\"\n"
#define MINI_SET(path, value) "setattr(%self, %" value ") name=\"" path "\"\n"

/* A NULL-terminated list of paths. */
#define MINI_PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

module_t *mini_module(context_t *ctx, const char *type);
/* The result is borrowed from the parent. */
module_t *mini_child(context_t *ctx, module_t *parent, const char *name, const char *type);
void mini_define(context_t *ctx, module_t *module, const char *text);

void mini_int(context_t *ctx, module_t *module, const char *name, int64_t value);
void mini_bool(context_t *ctx, module_t *module, const char *name, bool value);
/* Takes ownership of the value. */
void mini_put(context_t *ctx, module_t *module, const char *name, datum_t *value);
/* Adds a parameter f32[2] with this value in every element; the result is borrowed. */
tensor_t *mini_tensor(context_t *ctx, module_t *module, const char *name, double value);

/* The caller releases the values that these make. A list, tuple or dict takes ownership of its
 * items; the keys of a dict are "0", "1", ... */
datum_t *mini_number(context_t *ctx, int64_t value);
datum_t *mini_text(context_t *ctx, const char *value);
datum_t *mini_wrap(context_t *ctx, tensor_t *tensor);
datum_t *mini_items(context_t *ctx, datum_kind_t kind, int n, datum_t *const *items);
#define MINI_LIST(ctx, n, ...) mini_items((ctx), DATUM_LIST, (n), (datum_t *const[]){__VA_ARGS__})
#define MINI_TUPLE(ctx, n, ...) mini_items((ctx), DATUM_TUPLE, (n), (datum_t *const[]){__VA_ARGS__})
#define MINI_DICT(ctx, n, ...) mini_items((ctx), DATUM_DICT, (n), (datum_t *const[]){__VA_ARGS__})

/* Freezes; `preserved` are methods and attributes to keep, or NULL. */
module_t *mini_freeze(context_t *ctx, module_t *module, const char *const *preserved);

/* Returns true if the module has a member of any kind at this path. */
bool mini_has(const module_t *module, const char *path);
/* Counts attributes, parameters and buffers of the module and its children, except `training` and
 * the attribute that marks frozen modules. */
int mini_n_left(context_t *ctx, module_t *module);

/* Runs a method on f32[2] filled with x. Returns its first result: a number, or a tensor's first
 * element. */
double mini_run(context_t *ctx, module_t *module, const char *method, double x);
/* Checks that all results of the method are equal in both modules. */
void mini_same(context_t *ctx, module_t *a, module_t *b, const char *method, double x);

/* Returns true if the text of a graph or plan method contains this part. */
bool mini_says(context_t *ctx, module_t *module, const char *method, const char *part);
void mini_explains(context_t *ctx, module_t *frozen, const char *expected);

/* Saves and loads the module. */
module_t *mini_reload(context_t *ctx, module_t *frozen);

#endif
