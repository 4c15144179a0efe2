#include "tools/support/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/support/print.h"

/* The separator of cells. text_escape removes this byte from cells. */
#define CELL_END '\x1f'

void table_begin(context_t *ctx, table_t *out_table, int n_columns, const char *const *columns)
{
    *out_table = (table_t){.n_columns = n_columns, .text = text_begin(ctx)};
    for (int i = 0; i < n_columns; i++) out_table->is_number[i] = columns[i][0] == '>';
    for (int i = 0; i < n_columns; i++) table_cell(out_table, "%s", columns[i] + 1);
}

void table_cell(table_t *table, const char *format, ...)
{
    char given[1024], cell[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(given, sizeof given, format, arguments);
    va_end(arguments);
    text_escape(given, cell, sizeof cell);
    for (char *at = cell; *at != '\0'; at++)
        if (*at == '\n' || *at == '\t') *at = ' ';
    int *width = &table->width[table->n_cells++ % table->n_columns];
    int length = (int)strlen(cell);
    if (length > *width) *width = length;
    text_append(&table->text, "%s%c", cell, CELL_END);
}

status_t table_print(table_t *table)
{
    const char *at = text_string(&table->text);
    for (int i = 0; *at != '\0'; i++) {
        int column = i % table->n_columns;
        const char *end = strchr(at, CELL_END);
        int length = (int)(end - at), padding = table->width[column] - length;
        bool is_last = column == table->n_columns - 1;
        if (table->is_number[column])
            print("%*s%.*s", padding, "", length, at);
        else
            print("%.*s%*s", length, at, is_last ? 0 : padding, "");
        print(is_last ? "\n" : "  ");
        at = end + 1;
    }
    status_t status = text_status(&table->text);
    text_clear(&table->text);
    return status;
}
