/* Tables on stdout. A column is as wide as its widest cell. */
#ifndef TESSERA_TOOLS_SUPPORT_TABLE_H
#define TESSERA_TOOLS_SUPPORT_TABLE_H

#include <tessera.h>

#define TABLE_MAX_COLUMNS 16

/* Call table_begin, then table_cell row by row, then table_print. */
typedef struct table {
    int n_columns;
    int n_cells;
    int width[TABLE_MAX_COLUMNS];
    bool is_number[TABLE_MAX_COLUMNS];
    text_t text; /* cells, each followed by a separator */
} table_t;

/* A column's text is '<' (align left) or '>' (align right), followed by its heading. */
void table_begin(context_t *ctx, table_t *out_table, int n_columns, const char *const *columns);
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the table, and empties it. OUT_OF_MEMORY if a cell could not be stored. */
status_t table_print(table_t *table);

#endif
