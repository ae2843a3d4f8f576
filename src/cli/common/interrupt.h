/* interrupt.h: on Ctrl-C during long work, the program finishes the current unit of work and keeps
 * its result. */
#ifndef FOVEA_CLI_INTERRUPT_H
#define FOVEA_CLI_INTERRUPT_H

/* Starts to record SIGINT and SIGTERM. The first signal prints "finishing this `unit`; interrupt
 * again to stop at once". The second one ends the program. */
void interrupt_catch(const char *unit);
/* Returns 128 + the number of the recorded signal, or 0 if there was none. */
int interrupt_code(void);

#endif
