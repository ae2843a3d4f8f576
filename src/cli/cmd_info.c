/* cmd_info.c: `fovea info`: devices, what the backends found, kernels. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

enum { DEVICES = 32 };

static void show_devices(void)
{
    fovea_device_info list[DEVICES];
    size_t n = fovea_device_list(list, DEVICES);
    char memory[32];
    for (size_t i = 0; i < n && i < DEVICES; i++) {
        const fovea_device_info *d = &list[i];
        const bool cpu = strcmp(d->id, "cpu") == 0;
        printf("%-8s %s\n         %s%s%u %s", d->id, d->name, d->features, *d->features ? ", " : "",
               d->units, cpu ? "processors" : "compute units");
        if (d->clusters > 1)
            printf(" in %u clusters, %u big", d->clusters, d->big);
        printf(", %s", cli_bytes(memory, sizeof memory, d->memory));
        if (d->max_buffer)
            printf(", buffers up to %s", cli_bytes(memory, sizeof memory, d->max_buffer));
        if (d->group_limit)
            printf(", work-groups up to %u", d->group_limit);
        if (!cpu)
            printf(", %s of local memory",
                   d->local_memory ? cli_bytes(memory, sizeof memory, d->local_memory) : "nothing");
        putchar('\n');
        if (*d->driver)
            printf("         driver %s\n", d->driver);
        if (*d->quirks)
            printf("         %s\n", d->quirks);
    }
    const char *remark;
    for (size_t i = 0; (remark = fovea_backend_remark(i)); i++)
        printf("%s\n", remark);
}

static void show_kernels(void)
{
    fovea_kernel_info k;
    printf("\n%-34s %-14s %-9s %-9s %s\n", "kernel", "op", "mechanism", "isa", "usable here");
    for (size_t i = 0; fovea_kernel_list(i, &k); i++)
        printf("%-34s %-14s %-9s %-9s %s\n", k.name, k.op, k.mechanism, k.isa,
               k.usable ? "yes" : "no");
}

static json_t *describe(bool kernels, bool models)
{
    fovea_device_info list[DEVICES];
    size_t n = fovea_device_list(list, DEVICES);
    json_t *devices = json_array(), *remarks = json_array();
    for (size_t i = 0; i < n && i < DEVICES; i++) {
        const fovea_device_info *d = &list[i];
        json_array_append_new(
            devices,
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:s, s:I, s:i, s:s}", "id", d->id,
                      "name", d->name, "features", d->features, "processors", (int)d->units,
                      "clusters", (int)d->clusters, "big", (int)d->big, "memory",
                      (json_int_t)d->memory, "max_buffer", (json_int_t)d->max_buffer, "driver",
                      d->driver, "local_memory", (json_int_t)d->local_memory, "group_limit",
                      (int)d->group_limit, "quirks", d->quirks));
    }
    const char *remark;
    for (size_t i = 0; (remark = fovea_backend_remark(i)); i++)
        json_array_append_new(remarks, json_string(remark));
    json_t *root = json_pack("{s:s, s:o, s:o, s:o}", "schema", "fovea.info/1", "build", cli_build(),
                             "devices", devices, "remarks", remarks);
    json_t *table = json_array(), *names = json_array();
    fovea_kernel_info k;
    for (size_t i = 0; kernels && fovea_kernel_list(i, &k); i++)
        json_array_append_new(table, json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", k.name, "op",
                                               k.op, "mechanism", k.mechanism, "isa", k.isa,
                                               "usable", k.usable));
    const char *name;
    for (size_t i = 0; models && (name = fovea_model_synthetic(i)); i++)
        json_array_append_new(names, json_string(name));
    json_object_set_new(root, "kernels", table);
    json_object_set_new(root, "models", names);
    return root;
}

int cli_info(const cli_command *self, int argc, char **argv)
{
    cli_common common = {0};
    bool kernels = false, models = false;
    const cli_option own[] = {
        {"kernels", 0, NULL, "list the kernels, and which of them this machine can run", CLI_FLAG,
         &kernels},
        {"models", 0, NULL, "list the names that synthetic: takes", CLI_FLAG, &models},
        {NULL, 0, NULL, NULL, CLI_FLAG, NULL},
    };
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    if (first < argc)
        return cli_fail(CLI_USAGE, "info takes no argument \"%s\"", argv[first]);
    if (common.json) {
        cli_print_json(describe(kernels, models));
        return CLI_OK;
    }
    printf("fovea %s\n", fovea_version());
    show_devices();
    if (kernels)
        show_kernels();
    const char *name;
    for (size_t i = 0; models && (name = fovea_model_synthetic(i)); i++)
        printf("%ssynthetic:%s\n", i ? "" : "\n", name);
    return CLI_OK;
}
