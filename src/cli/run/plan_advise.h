/* plan_advise.h: `fovea plan --advise`: what a device carries: sizes, attentions and precisions
 * with their time and memory. */
#ifndef FOVEA_CLI_PLAN_ADVISE_H
#define FOVEA_CLI_PLAN_ADVISE_H

#include "cli/common/cli.h"

/* The limits of --budget; 0: none. */
typedef struct advise_budget {
    double seconds;
    double bytes; /* of a plan and its weights */
} advise_budget;

/* Parses a list such as "30ms,200MiB". */
int advise_budget_read(advise_budget *out, const char *text);
/* Prints the combinations of --size, --attention and --compute, or where an option is not given of
 * the usual values. */
int advise(const cli_session *s, const cli_common *common, const advise_budget *budget,
           const char *model);

#endif
