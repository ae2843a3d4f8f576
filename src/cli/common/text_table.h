/* text_table.h: rows of cells, aligned for a terminal or as Markdown. */
#ifndef FOVEA_CLI_TEXT_TABLE_H
#define FOVEA_CLI_TEXT_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/common/cli.h"

enum { TABLE_COLUMNS = 20 };

typedef struct text_table {
    char **cell; /* row by row, headings first */
    size_t columns, cells;
} text_table;

/* Starts a table with these headings, ended by NULL. A heading that begins with '<' aligns its
 * column left; other columns are aligned right. */
void table_begin(text_table *t, const char *const *heads);
/* Sets the next cell of the current row. */
void table_put(text_table *t, const char *format, ...) CLI_PRINTF(2, 3);
/* Writes the table, followed by an empty line, and frees it. */
void table_end(text_table *t, FILE *to, bool markdown);

#endif
