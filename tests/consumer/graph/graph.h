/* A user's own header, of a name that one of Tessera's has, too. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

typedef struct my_graph {
    int n_nodes;
} my_graph_t;

#endif
