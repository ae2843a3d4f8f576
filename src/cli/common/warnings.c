/* warnings.c: tells users on stderr what they should know about a plan and about preprocessing. */
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

/* Prints and frees `text`, unless it equals the one printed last; *last is never freed. */
static void tell_once(char **last, char *text)
{
    if (*last && strcmp(*last, text) == 0) {
        free(text);
        return;
    }
    free(*last);
    *last = text;
    cli_tell("%s", text);
}

char *cli_products_text(const fovea_plan_info *plan)
{
    static const char tuning[] =
        "`fovea tune MODEL --accuracy 0.9995 PICTURE...` finds out whether";
    static const char *const names[] = {"float32", "bfloat16", "int8"}; /* by fovea_compute */
    const bool wide = plan->compute == FOVEA_COMPUTE_F32;
    const char *name = names[plan->compute], *from = plan->compute_source;
    if (strcmp(from, "forced") == 0)
        return NULL;
    if (strcmp(from, "storage") == 0)
        return cli_text(
            "matrix products are computed in float32 with every storage type of --dtype");
    if (strcmp(from, "device") != 0)
        return cli_text("products are %s, as tuned%s%s", name,
                        strcmp(from, "prior") == 0 ? " at another size" : "",
                        wide ? "" : "; use --compute f32 for float32");
    return wide ? cli_text("products are float32, because this device has no fast instructions for "
                           "bfloat16; %s bf16 or int8 is faster and preserves the features",
                           tuning)
                : cli_text("products are %s, for which this device has instructions; --compute f32 "
                           "makes them float32, and %s int8 is faster and preserves the features",
                           name, tuning);
}

void cli_tell_products(const fovea_plan_info *plan)
{
    static char *last;
    char *text = cli_products_text(plan);
    if (text)
        tell_once(&last, text);
}

void cli_tell_untrained(const fovea_plan_info *plan)
{
    static char *last;
    if (plan->untrained)
        tell_once(&last, cli_text("warning: %s", plan->untrained));
}

/* Share of a plan's time below which no warning is printed; merging a few rows takes that much. */
#define REFERENCE_SHARE 0.005

char *cli_reference_text(const fovea_plan_info *plan)
{
    const double share = plan->seconds > 0 ? plan->reference_seconds / plan->seconds : 0;
    return share < REFERENCE_SHARE
               ? NULL
               : cli_text("steps with %.0f %% of the estimated time have no optimised kernel and "
                          "use the plain C reference; `fovea plan MODEL --steps` marks them",
                          100 * share);
}

void cli_tell_reference(const fovea_plan_info *plan)
{
    static char *last;
    char *text = cli_reference_text(plan);
    if (text)
        tell_once(&last, cli_text("warning: %s", text));
    free(text);
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
