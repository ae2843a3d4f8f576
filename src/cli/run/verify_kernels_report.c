/* verify_kernels_report.c: `fovea verify` without a model: checks every kernel of a device. */
#include <stdio.h>
#include <string.h>

#include <fovea/verification.h>

#include "cli/run/verify.h"

typedef struct report {
    uint32_t right, wrong, missed;
    json_t *list; /* NULL to print text */
} report;

static const char *verdict(const fovea_kernel_check *c)
{
    return c->cases == 0 ? "not reached" : c->failed ? "WRONG" : "ok";
}

static void show(const fovea_kernel_check *c)
{
    printf("%-34s %-12s %-9s %5u %10llu  %8.1e %7.1f %%  %s\n", c->kernel, c->op, c->mechanism,
           c->cases, (unsigned long long)c->values, c->rel, 100 * c->error, verdict(c));
    if (c->failed)
        printf("    %u of %u cases, first %s: %s\n", c->failed, c->cases, c->problem, c->text);
    fflush(stdout);
}

static json_t *describe(const fovea_kernel_check *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:o, s:o, s:s, s:s, s:s}", "kernel",
                     c->kernel, "op", c->op, "mechanism", c->mechanism, "isa", c->isa, "cases",
                     (int)c->cases, "failed", (int)c->failed, "values", (json_int_t)c->values,
                     "rel", cli_json_number(c->rel), "error_of_allowed", cli_json_number(c->error),
                     "problem", c->problem, "text", c->text, "status", verdict(c));
}

static int add(const fovea_kernel_check *c, void *payload)
{
    report *r = payload;
    cli_progress_hide();
    *(c->cases == 0 ? &r->missed : c->failed ? &r->wrong : &r->right) += 1;
    if (r->list)
        json_array_append_new(r->list, describe(c));
    else
        show(c);
    return 0;
}

int verify_kernels(fovea_device *device, const char *name, bool json)
{
    fovea_device_info info = FOVEA_DEVICE_INFO_INIT;
    report r = {.list = json ? json_array() : NULL};
    fovea_device_describe(device, &info);
    if (!json)
        printf("device   %s, %s, %s\n\n%-34s %-12s %-9s %5s %10s  %8s %9s\n", info.id, info.name,
               info.features, "kernel", "op", "mechanism", "cases", "values", "rel", "of bound");
    cli_progress bar;
    cli_progress_begin(&bar, "verify");
    const int code = cli_check(fovea_device_verify(device, name, add, &r));
    cli_progress_end(&bar);
    if (json)
        cli_print_json(json_pack("{s:s, s:o, s:o, s:o, s:i, s:i, s:i}", "schema", "fovea.verify/1",
                                 "build", cli_build(), "env", cli_environment(device), "kernels",
                                 r.list, "right", (int)r.right, "wrong", (int)r.wrong,
                                 "not_reached", (int)r.missed));
    else
        printf("\n%u kernels are correct, %u are wrong, and no case reaches %u\n", r.right, r.wrong,
               r.missed);
    CLI_TRY(code);
    if (r.right + r.wrong + r.missed == 0)
        return cli_fail(
            CLI_INPUT,
            "no kernel of device %s has \"%s\" in its name; fovea info --kernels lists them",
            info.id, name);
    return r.wrong || r.missed
               ? cli_fail(CLI_WRONG, "%u kernels are wrong, and %u were not reached", r.wrong,
                          r.missed)
               : CLI_OK;
}
