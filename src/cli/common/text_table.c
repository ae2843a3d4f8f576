/* text_table.c: aligns rows of cells for a terminal or as Markdown. */
#include "cli/common/text_table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void add(text_table *t, char *text)
{
    t->cell = cli_grow(t->cell, t->cells, sizeof *t->cell);
    t->cell[t->cells++] = text;
}

void table_begin(text_table *t, const char *const *heads)
{
    *t = (text_table){.columns = 0};
    for (; heads[t->columns]; t->columns++)
        add(t, cli_text("%s", heads[t->columns]));
    assert(t->columns <= TABLE_COLUMNS);
}

void table_put(text_table *t, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(t, cli_text("%s", text));
}

/* Returns the number of characters: bytes of UTF-8 that are not continuation bytes. */
static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

static void write_cell(FILE *to, const char *text, bool left, size_t width)
{
    const int gap = (int)(width - characters(text));
    if (left)
        fprintf(to, "%s%*s", text, gap, "");
    else
        fprintf(to, "%*s%s", gap, "", text);
}

void table_end(text_table *t, FILE *to, bool markdown)
{
    size_t width[TABLE_COLUMNS] = {0};
    bool left[TABLE_COLUMNS];
    for (size_t i = 0; i < t->columns; i++) {
        left[i] = t->cell[i][0] == '<';
        if (left[i])
            memmove(t->cell[i], t->cell[i] + 1, strlen(t->cell[i]));
    }
    for (size_t i = 0; i < t->cells; i++) {
        const size_t n = characters(t->cell[i]);
        width[i % t->columns] = n > width[i % t->columns] ? n : width[i % t->columns];
    }
    for (size_t i = 0; i < t->cells; i++) {
        const size_t column = i % t->columns;
        fputs(markdown ? "| " : column ? "  " : "", to);
        write_cell(to, t->cell[i], left[column], width[column]);
        fputs(markdown ? " " : "", to);
        if (column + 1 == t->columns)
            fputs(markdown ? "|\n" : "\n", to);
        for (size_t k = 0; markdown && i + 1 == t->columns && k < t->columns; k++)
            fprintf(to, "|%s%s", left[k] ? "---" : "---:", k + 1 == t->columns ? "|\n" : "");
        free(t->cell[i]);
    }
    fputc('\n', to);
    free(t->cell);
}
