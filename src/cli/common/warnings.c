/* warnings.c: what whoever runs a plan should hear of it, on stderr. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

void cli_tell_untrained(const fovea_plan_info *plan)
{
    static char *last; /* for the life of the program */
    if (!plan->untrained || (last && strcmp(last, plan->untrained) == 0))
        return;
    free(last);
    last = cli_text("%s", plan->untrained);
    cli_tell("warning: %s", last);
}
