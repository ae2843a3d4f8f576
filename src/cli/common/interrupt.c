/* interrupt.c: records the first signal that asks the program to stop. */
#include "cli/common/interrupt.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t caught; /* number of the signal; 0 for none */
static char answer[96];

static void note(int number)
{
    caught = number;
    if (write(STDERR_FILENO, answer, strlen(answer)) < 0)
        return; /* stderr is closed, which is not another reason to stop */
}

void interrupt_catch(const char *unit)
{
    const struct sigaction once = {.sa_handler = note, .sa_flags = (int)SA_RESETHAND};
    snprintf(answer, sizeof answer, "%sfovea: finishing this %s; interrupt again to stop at once\n",
             isatty(STDERR_FILENO) ? "\n" : "", unit); /* the terminal has printed ^C */
    sigaction(SIGINT, &once, NULL);
    sigaction(SIGTERM, &once, NULL);
}

int interrupt_code(void)
{
    return caught ? 128 + caught : 0;
}
