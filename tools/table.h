/* Tables on stdout: columns as wide as their widest cell, numbers to the right. */
#ifndef TESSERA_TOOLS_TABLE_H
#define TESSERA_TOOLS_TABLE_H

#include <tessera.h>

#define TABLE_MAX_COLUMNS 16

/* Begin with table_begin; fill row by row, cell by cell; print. */
typedef struct table {
    int n_columns;
    int n_cells;
    int width[TABLE_MAX_COLUMNS];
    bool is_number[TABLE_MAX_COLUMNS];
    text_t text; /* cells, a zero byte behind each */
} table_t;

/* Column names, the first character telling how it is set: '<' left, '>' right; "" for no header
 * line. */
void table_begin(context_t *ctx, table_t *out_table, int n_columns, const char *const *columns);
void table_cell(table_t *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints and empties it; OUT_OF_MEMORY if a cell found no room. */
status_t table_print(table_t *table);

#endif
