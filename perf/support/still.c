/* A function that a program defines replaces oneDNN's, for calls inside the library too. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "still.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <oneapi/dnnl/dnnl.h>

typedef dnnl_status_t (*execute_t)(const_dnnl_primitive_t primitive, dnnl_stream_t stream,
                                   int n_arguments, const dnnl_exec_arg_t *arguments);

static bool stands_still;

void still_set(bool is_still)
{
    stands_still = is_still;
}

static execute_t find_execute(void)
{
    void *symbol = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    execute_t execute = NULL;
    if (symbol == NULL) abort();
    memcpy(&execute, &symbol, sizeof execute);
    return execute;
}

__attribute__((visibility("default"))) dnnl_status_t
dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t stream, int n_arguments,
                       const dnnl_exec_arg_t *arguments)
{
    static execute_t execute;
    if (stands_still) return dnnl_success;
    if (execute == NULL) execute = find_execute();
    return execute(primitive, stream, n_arguments, arguments);
}
