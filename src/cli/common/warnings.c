/* warnings.c: what whoever runs a plan should hear of it and of its pictures, on stderr. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/cli.h"

const char *cli_products_hint(const cli_common *c)
{
    if (c->compute || c->dtype)
        return NULL;
    return "products are float32; `fovea tune MODEL --accuracy 0.9995 PICTURE...` finds out "
           "whether "
           "bf16 or int8 is faster and keeps the features, and `--compute auto` then uses it";
}

void cli_tell_products(const cli_common *c)
{
    const char *hint = cli_products_hint(c);
    if (hint && isatty(STDERR_FILENO))
        cli_tell("%s", hint);
}

void cli_tell_untrained(const fovea_plan_info *plan)
{
    static char *last; /* for the life of the program */
    if (!plan->untrained || (last && strcmp(last, plan->untrained) == 0))
        return;
    free(last);
    last = cli_text("%s", plan->untrained);
    cli_tell("warning: %s", last);
}

char *cli_preprocess_text(const fovea_preprocess *p, const fovea_model_info *info)
{
    char text[512] = "";
    fovea_preprocess_text(p, text, sizeof text);
    return cli_text("%s, %s", info->preprocess_source, text);
}

void cli_tell_preprocess(const fovea_preprocess *p, const fovea_model_info *info)
{
    char *text = cli_preprocess_text(p, info);
    if (info->preprocess_assumed)
        cli_tell("warning: %s", text);
    else
        cli_tell("%s", text);
    free(text);
}
