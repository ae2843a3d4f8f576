/* interrupt.h: Ctrl-C during long work: what was begun is finished and kept. */
#ifndef FOVEA_CLI_INTERRUPT_H
#define FOVEA_CLI_INTERRUPT_H

/* From here on the first SIGINT or SIGTERM is only noted, and answered with a line: "finishing this
 * `unit`; once more: at once". The second one ends the program. `unit` is static text. */
void interrupt_catch(const char *unit);
/* Exit code of the signal that came, 128 + its number; 0: none has. */
int interrupt_code(void);

#endif
