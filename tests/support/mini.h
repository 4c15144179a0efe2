/* Small modules for tests of freezing: members in a line each, methods as text. */
#ifndef TESSERA_TESTS_MINI_H
#define TESSERA_TESTS_MINI_H

#include "freeze/freeze.h"

/* A method of one tensor f32[2], and reading and setting an attribute by its path. */
#define MINI_METHOD(name, body) "graph " name "(%self : module, %x : f32[2]) {\n" body "}\n"
#define MINI_GET(value, path) "%" value " = getattr(%self) name=\"" path "\"\n"
#define MINI_SET(path, value) "setattr(%self, %" value ") name=\"" path "\"\n"

/* NULL-terminated paths. */
#define MINI_PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

module_t *mini_module(context_t *ctx, const char *type);
/* Borrowed from the parent. */
module_t *mini_child(context_t *ctx, module_t *parent, const char *name, const char *type);
void mini_define(context_t *ctx, module_t *module, const char *text);

void mini_int(context_t *ctx, module_t *module, const char *name, int64_t value);
void mini_bool(context_t *ctx, module_t *module, const char *name, bool value);
/* Takes over the value. */
void mini_put(context_t *ctx, module_t *module, const char *name, datum_t *value);
/* A parameter f32[2] of this value; borrowed. */
tensor_t *mini_tensor(context_t *ctx, module_t *module, const char *name, double value);

/* Values that the caller releases. The list, tuple or dict takes over its items; keys "0", "1". */
datum_t *mini_number(context_t *ctx, int64_t value);
datum_t *mini_text(context_t *ctx, const char *value);
datum_t *mini_wrap(context_t *ctx, tensor_t *tensor);
datum_t *mini_items(context_t *ctx, datum_kind_t kind, int n, datum_t *const *items);
#define MINI_LIST(ctx, n, ...) mini_items((ctx), DATUM_LIST, (n), (datum_t *const[]){__VA_ARGS__})
#define MINI_TUPLE(ctx, n, ...) mini_items((ctx), DATUM_TUPLE, (n), (datum_t *const[]){__VA_ARGS__})
#define MINI_DICT(ctx, n, ...) mini_items((ctx), DATUM_DICT, (n), (datum_t *const[]){__VA_ARGS__})

/* preserved may be NULL. */
module_t *mini_freeze(context_t *ctx, module_t *module, const char *const *preserved);

/* Any member. */
bool mini_has(const module_t *module, const char *path);
/* Attributes, parameters and buffers of the module and below, but for `training` and the mark. */
int mini_n_left(context_t *ctx, module_t *module);

/* The first result of a method of f32[2], every element x: a number, or the tensor's first. */
double mini_run(context_t *ctx, module_t *module, const char *method, double x);
/* All results of the method are the same in both. */
void mini_same(context_t *ctx, module_t *a, module_t *b, const char *method, double x);

/* The text of a graph or plan method has this part, or not. */
bool mini_says(context_t *ctx, module_t *module, const char *method, const char *part);
void mini_explains(context_t *ctx, module_t *frozen, const char *expected);

/* What is saved and loaded again. */
module_t *mini_reload(context_t *ctx, module_t *frozen);

#endif
