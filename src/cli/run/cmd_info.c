/* cmd_info.c: `fovea info`: lists devices, what the backends found, and kernels. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/common/cli.h"
#include "cli/common/hub.h"

enum { DEVICES = 32 };

struct devices {
    fovea_device_info list[DEVICES];
    char problem[DEVICES][512]; /* why a device could not be opened, or "" */
    size_t n;
};

/* Finds and opens all devices, because only an open device knows which of its features work.
 * --isa or FOVEA_ISA limits the CPU. */
static int find_devices(struct devices *out, const cli_common *common)
{
    cli_settings settings;
    fovea_device *device;
    CLI_TRY(cli_settle(&settings, common));
    for (out->n = 0; out->n < DEVICES; out->n++) {
        fovea_device_info *info = &out->list[out->n];
        const bool cpu = out->n == 0;
        info->struct_size = sizeof *info;
        if (!fovea_device_list(out->n, info))
            break;
        settings.device = info->id;
        if (cpu)
            CLI_TRY(cli_open_device(&device, &settings));
        else if (fovea_device_open(&device, info->id, NULL) != FOVEA_OK) {
            snprintf(out->problem[out->n], sizeof *out->problem, "%s", fovea_error());
            continue;
        }
        fovea_device_describe(device, info);
        fovea_device_close(device);
    }
    return CLI_OK;
}

/* Describes the instructions that the device has for products of bfloat16 and int8. */
static const char *products(const fovea_device_info *d)
{
    return d->bf16 && d->int8 ? "products of bfloat16 and int8 by dedicated instructions"
           : d->bf16 ? "products of bfloat16 by dedicated instructions, of int8 by wider ones"
           : d->int8 ? "products of int8 by dedicated instructions, of bfloat16 by wider ones"
                     : "products of bfloat16 and int8 by wider instructions";
}

static void show_devices(const struct devices *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const fovea_device_info *d = &all->list[i];
        const bool cpu = strcmp(d->id, "cpu") == 0;
        printf("%-8s %s\n", d->id, d->name);
        if (*all->problem[i])
            printf("         cannot be opened: %s\n", all->problem[i]);
        if (*d->compiler)
            printf("         compiler %s\n", d->compiler);
        if (*d->skipped)
            printf(
                "         not compiled: %s; the driver's compiler did not return from them at an "
                "earlier start;\n"
                "         fovea cache list says more, fovea cache retry lets them be tried again\n",
                d->skipped);
        printf("         %s%s%u %s", d->features, *d->features ? ", " : "", d->units,
               cpu ? "processors" : "compute units");
        if (d->core_kinds > 1)
            printf(" in %u clusters, %u big", d->core_kinds, d->performance_cores);
        printf(", %s", cli_bytes(d->memory).text);
        if (d->max_buffer)
            printf(", buffers up to %s", cli_bytes(d->max_buffer).text);
        if (d->group_limit)
            printf(", work-groups up to %u", d->group_limit);
        if (!cpu)
            printf(", %s of local memory",
                   d->local_memory ? cli_bytes(d->local_memory).text : "nothing");
        printf("\n         %s\n", products(d));
        if (*d->driver)
            printf("         driver %s\n", d->driver);
        if (*d->imports)
            printf("         imports %s\n", d->imports);
        if (*d->quirks)
            printf("         %s\n", d->quirks);
    }
    const char *status;
    for (size_t i = 0; (status = fovea_backend_status(i)); i++)
        printf("%s\n", status);
}

static void show_kernels(void)
{
    fovea_kernel_info k = FOVEA_KERNEL_INFO_INIT;
    printf("\n%-34s %-14s %-9s %-9s %s\n", "kernel", "op", "mechanism", "isa", "usable here");
    for (size_t i = 0; fovea_kernel_list(i, &k); i++)
        printf("%-34s %-14s %-9s %-9s %s\n", k.name, k.op, k.mechanism, k.isa,
               k.usable ? "yes" : "no");
}

static void show_attentions(void)
{
    const char *name;
    putchar('\n');
    for (size_t i = 0; (name = fovea_model_attention(i)); i++)
        puts(name);
    puts(
        "sla-NAME            any but softmax, weighed by a gate on queries and one on keys\n"
        "NAME+OTHER@0-3      NAME, but OTHER in the blocks 0 to 3; @5 is one block, @8- all from 8 "
        "on,\n                    and +OTHER@BLOCKS may be repeated\n"
        "retention, gla, delta-rule, gated-delta-rule: causal, for operators (fovea bench "
        "attention)");
}

/* Returns all texts in one of the library's lists, or an empty array if `wanted` is false. */
static json_t *texts(const char *(*at)(size_t), bool wanted)
{
    json_t *list = json_array();
    const char *text;
    for (size_t i = 0; wanted && (text = at(i)); i++)
        json_array_append_new(list, json_string(text));
    return list;
}

/* Returns the bytes of a model's weights: of the files in its folder that are safetensors. */
static double weights_of(const char *folder)
{
    double bytes = 0;
    struct dirent *entry;
    DIR *in = opendir(folder);
    while (in && (entry = readdir(in))) {
        struct stat st;
        char *path = cli_text("%s/%s", folder, entry->d_name);
        if (cli_ends_with(path, ".safetensors") && stat(path, &st) == 0)
            bytes += (double)st.st_size;
        free(path);
    }
    if (in)
        closedir(in);
    return bytes;
}

static void add_cached(void *list, const char *name, const char *folder)
{
    json_array_append_new(list, json_pack("{s:s, s:o, s:I}", "name", name, "folder",
                                          cli_json_text(folder), "bytes",
                                          (json_int_t)weights_of(folder)));
}

static void show_cached(void *ctx, const char *name, const char *folder)
{
    bool *any = ctx;
    printf("%s%s, %.3g MB of weights in the cache\n", *any ? "" : "\n", name,
           weights_of(folder) / 1e6);
    *any = true;
}

static json_t *describe(const struct devices *all, bool kernels, bool models, bool attentions)
{
    json_t *devices = json_array();
    for (size_t i = 0; i < all->n; i++) {
        const fovea_device_info *d = &all->list[i];
        json_array_append_new(
            devices,
            json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:I, s:I, s:s, s:I, s:i, s:s, s:b, s:b, s:s, "
                      "s:s, s:s, s:s}",
                      "id", d->id, "name", d->name, "features", d->features, "processors",
                      (int)d->units, "clusters", (int)d->core_kinds, "big",
                      (int)d->performance_cores, "memory", (json_int_t)d->memory, "max_buffer",
                      (json_int_t)d->max_buffer, "driver", d->driver, "local_memory",
                      (json_int_t)d->local_memory, "group_limit", (int)d->group_limit, "quirks",
                      d->quirks, "bf16", d->bf16, "int8", d->int8, "imports", d->imports,
                      "compiler", d->compiler, "skipped", d->skipped, "problem", all->problem[i]));
    }
    json_t *root = json_pack("{s:s, s:o, s:o, s:o}", "schema", "fovea.info/1", "build", cli_build(),
                             "devices", devices, "remarks", texts(fovea_backend_status, true));
    json_t *table = json_array();
    fovea_kernel_info k = FOVEA_KERNEL_INFO_INIT;
    for (size_t i = 0; kernels && fovea_kernel_list(i, &k); i++)
        json_array_append_new(table, json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", k.name, "op",
                                               k.op, "mechanism", k.mechanism, "isa", k.isa,
                                               "usable", k.usable));
    json_object_set_new(root, "kernels", table);
    json_object_set_new(root, "models", texts(fovea_model_synthetic, models));
    json_t *cached = json_array();
    if (models)
        hub_each(add_cached, cached);
    json_object_set_new(root, "cached", cached);
    json_object_set_new(root, "attentions", texts(fovea_model_attention, attentions));
    return root;
}

int cli_info(const cli_command *self, int argc, char **argv)
{
    cli_common common = {0};
    bool kernels = false, models = false, attentions = false;
    struct devices devices;
    const cli_option own[] = {
        {"kernels", 0, NULL, "list the kernels, and which of them run on this machine", &kernels},
        {"models", 0, NULL,
         "list the models that synthetic:NAME accepts, and those of the hub that are in the cache",
         &models},
        {"attentions", 0, NULL,
         "list the attentions that --attention accepts, and how they combine", &attentions},
        {NULL},
    };
    int first, code = cli_parse(&first, self, &common, own, argc, argv);
    if (code || !first)
        return code;
    if (first < argc)
        return cli_fail(CLI_USAGE, "info takes no argument \"%s\"", argv[first]);
    CLI_TRY(find_devices(&devices, &common));
    if (common.json) {
        cli_print_json(describe(&devices, kernels, models, attentions));
        return CLI_OK;
    }
    printf("fovea %s\n", fovea_version());
    show_devices(&devices);
    if (kernels)
        show_kernels();
    const char *name;
    for (size_t i = 0; models && (name = fovea_model_synthetic(i)); i++)
        printf("%ssynthetic:%s\n", i ? "" : "\n", name);
    if (models)
        puts("after the name of a mavit, nalaformer, pola or swin: -fpn, -upernet, -retinanet, "
             "-mask2former, -mask-rcnn, -cascade-rcnn");
    bool any = false;
    if (models)
        hub_each(show_cached, &any);
    if (attentions)
        show_attentions();
    return CLI_OK;
}
