/* Names of the sizes that a file leaves open. */
#include "io/onnx/onnx_impl.h"

#include <stdio.h>
#include <string.h>

#include "tensor/text/literal_impl.h"

static bool is_taken(const onnx_t *onnx, const char *name)
{
    for (int i = 0; i < onnx->n_open; i++)
        if (strcmp(onnx->open[i].name, name) == 0) return true;
    return false;
}

/* Makes a valid name for the graph from a name in the file: "2*N" becomes "N2_N". A size without a
 * name is called N if it is in dimension 0, else D1, D2, ... after its dimension. */
static void choose_name(const onnx_t *onnx, const char *param, int dim, char *out_name)
{
    char stem[ONNX_NAME_MAX - 16];
    if (param == NULL && dim == 0)
        snprintf(stem, sizeof stem, "N");
    else if (param == NULL)
        snprintf(stem, sizeof stem, "D%d", dim);
    else
        snprintf(stem, sizeof stem, "%s%.40s", literal_is_letter(*param) ? "" : "N", param);
    for (char *c = stem; *c != '\0'; c++)
        if (!literal_is_name(*c)) *c = '_';
    snprintf(out_name, ONNX_NAME_MAX, "%s", stem);
    for (int number = 1; is_taken(onnx, out_name); number++)
        snprintf(out_name, ONNX_NAME_MAX, "%s_%d", stem, number);
}

int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size)
{
    for (int i = 0; i < onnx->n_open; i++) {
        const onnx_open_t *open = &onnx->open[i];
        bool is_it = param != NULL ? open->param != NULL && strcmp(open->param, param) == 0
                                   : open->param == NULL && open->dim == dim &&
                                         (size == 0 || open->size == 0 || open->size == size);
        if (is_it) return i;
    }
    if (onnx->n_open == ONNX_MAX_OPEN) return ONNX_NOT_OPEN;
    onnx_open_t *open = &onnx->open[onnx->n_open];
    *open = (onnx_open_t){.param = param, .dim = dim};
    choose_name(onnx, param, dim, open->name);
    return onnx->n_open++;
}
