/* interrupt.h: on Ctrl-C during long work the program finishes the current unit of work and keeps
 * its result. */
#ifndef FOVEA_CLI_INTERRUPT_H
#define FOVEA_CLI_INTERRUPT_H

/* Records the first SIGINT or SIGTERM and prints "finishing this `unit`; interrupt again to stop at
 * once". The second one ends the program. */
void interrupt_catch(const char *unit);
/* 128 + the number of the recorded signal; 0: none. */
int interrupt_code(void);

#endif
