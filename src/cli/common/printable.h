/* printable.h: makes text from files and folders safe to print on a terminal. */
#ifndef FOVEA_CLI_PRINTABLE_H
#define FOVEA_CLI_PRINTABLE_H

/* Replaces control characters, which a terminal would execute, including those encoded in UTF-8. */
static inline void cli_make_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0))
            *c = '?';
}

#endif
