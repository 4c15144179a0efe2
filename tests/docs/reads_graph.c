/* Fails unless all graphs of a file are valid and print to text that parses to the same graph. */
#include <stdio.h>
#include <string.h>
#include <tessera.h>

/* Fails if the graph prints differently after it was printed and parsed once. */
static status_t read_again(context_t *ctx, const graph_t *graph)
{
    graph_t *again = NULL;
    text_t text = text_begin(ctx), second = text_begin(ctx);
    status_t status = graph_print(ctx, graph, NULL, &text);
    if (status == STATUS_OK) status = graph_parse(ctx, text_string(&text), NULL, &again);
    if (status == STATUS_OK) status = graph_print(ctx, again, NULL, &second);
    if (status == STATUS_OK && strcmp(text_string(&text), text_string(&second)) != 0)
        status = context_fail(ctx, STATUS_INVALID_ARGUMENT, "graph: prints otherwise once read");
    graph_release(again);
    text_clear(&second);
    text_clear(&text);
    return status;
}

int main(int argc, char **argv)
{
    static char text[65536];
    const char *at = text;
    context_t *ctx = NULL;
    status_t status = STATUS_OK;
    int n = 0;
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (file == NULL || context_create(NULL, &ctx)) return 2;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    while (status == STATUS_OK) {
        graph_t *graph = NULL;
        status = graph_parse_next(ctx, &at, NULL, &graph);
        if (graph == NULL) break;
        if (status == STATUS_OK) status = graph_verify(ctx, graph);
        if (status == STATUS_OK) status = read_again(ctx, graph);
        graph_release(graph);
        n++;
    }
    if (status != STATUS_OK) fprintf(stderr, "%s\n", context_error(ctx));
    context_destroy(ctx);
    return status != STATUS_OK || n == 0;
}
