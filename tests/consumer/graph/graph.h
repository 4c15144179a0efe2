/* A user's own header that has the same name as one of Tessera's. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

typedef struct my_graph {
    int n_nodes;
} my_graph_t;

#endif
