/* cuda_plans.c: the CUDA programs that plans of the ViT family ask for, against those that are
 * compiled when the library is built (cuda/fallback.txt).
 *
 *   cuda_plans DEVICE           whether each is among them; without DEVICE's driver: skipped
 *   cuda_plans DEVICE --list    the lines of fallback.txt that it takes
 *
 * Plans are dry: nothing is compiled or run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda_sources.h"
#include "gpu/gpu_host.h"
#include "tests/devices/dry_launch.h"

/* Blocks of each width of a head, and whole models for what is before and behind them. */
static const char *const blocks[] = {"synthetic:block-768x24x4", "synthetic:block-768x12x4",
                                     "synthetic:block-768x8x4", "synthetic:block-768x6x4"};
static const char *const models[] = {"synthetic:vit-b16", "synthetic:dinov2-s",
                                     "synthetic:dinov2-g", "synthetic:clip-b16",
                                     "synthetic:siglip-b16"};
/* Devices without tensor cores have the first two. */
static const char *const attentions[] = {"softmax", "linear:elu1", "mala"};
static const uint32_t sizes[] = {518, 1036};

enum { MOST = 4096 };
static char *lines[MOST];
static int count, passed, failed;
static bool listing;

static const char *type_of(const fv_operand *o)
{
    static const char *const types[] = {
        [FV_F32] = "f32", [FV_F16] = "f16", [FV_BF16] = "bf16", [FV_U8] = "u8"};
    return o->ref.space == FV_SPACE_NONE ? "-" : types[o->type];
}

/* " -DFV_GROUP=..." up to the kernel's own macros, which are what follows the last operand's. */
static void print_line(const fv_launch *l, const char *options)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    const char *own = strstr(options, " -DFV_HAS8=") + strlen(" -DFV_HAS8=0");
    printf("%s %s %d %u %u %u ", code->program, dry_mechanism(l->kernel->mech),
           l->kernel->needs & FV_NEED_CUDA_MMA ? 80 : 75, code->group, l->args.prob.flags,
           l->args.prob.epi);
    for (int o = 0; o < FV_OPERANDS; o++)
        printf("%s%s", o ? "," : "", type_of(&l->operand[o]));
    for (const char *at = own; (at = strstr(at, " -D")); at += 3)
        printf(" %.*s", (int)strcspn(at + 3, " "), at + 3);
    printf("\n");
}

static bool is_embedded(const fv_launch *l, const char *options)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    const fv_cuda_ptx *e = fv_cuda_ptx_list;
    while (e->program &&
           (strcmp(e->program, code->program) != 0 ||
            strcmp(e->mechanism, l->kernel->mech ? dry_mechanism(l->kernel->mech) : "") != 0 ||
            strcmp(e->options, options) != 0))
        e++;
    return e->program != NULL;
}

static void judge(const fv_launch *l)
{
    const fv_gpu_code *code = l->kernel->code.gpu;
    fv_gpu_text options = {.length = 0};
    char line[2048];
    fv_gpu_specialise(&options, l, code->group);
    snprintf(line, sizeof line, "%s %s%s", code->program, dry_mechanism(l->kernel->mech),
             options.text);
    for (int i = 0; i < count; i++)
        if (strcmp(lines[i], line) == 0)
            return;
    if (count == MOST)
        abort();
    lines[count++] = strdup(line);
    if (listing) {
        print_line(l, options.text);
        return;
    }
    const bool good = is_embedded(l, options.text);
    passed += good;
    failed += !good;
    if (!good)
        printf("FAIL %s: not in fallback.txt: %s\n", l->kernel->name, line);
}

static void walk(fovea_device *device, fovea_model *model, const char *attention, uint32_t size,
                 fovea_dtype type, const fovea_preprocess *preprocess)
{
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan *plan;
    options.frame.width = options.frame.height = size;
    options.preprocess = preprocess;
    options.attention = attention;
    options.dry = 1;
    options.weights = options.activations = type;
    if (fovea_plan_create(&plan, model, device, &options) != FOVEA_OK) {
        printf("FAIL a plan: %s\n", fovea_error());
        failed++;
        return;
    }
    for (uint32_t i = 0; i < plan->b.steps; i++) {
        fv_launch l;
        if (plan->b.step[i].dead)
            continue;
        dry_launch(plan, &plan->b.step[i], &l);
        judge(&l);
    }
    fovea_plan_free(plan);
}

static void walk_all(fovea_device *device, const char *name, const char *const *attention,
                     size_t attention_count)
{
    fovea_model *model;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    if (fovea_model_load(&model, name) != FOVEA_OK) {
        printf("FAIL %s: %s\n", name, fovea_error());
        failed++;
        return;
    }
    for (size_t a = 0; a < attention_count; a++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            walk(device, model, attention[a], sizes[s], FOVEA_DTYPE_F32, NULL);
            walk(device, model, attention[a], sizes[s], FOVEA_DTYPE_F16, NULL);
        }
    /* A photograph, in the size that the model was trained with. */
    fovea_model_preprocess(model, &rule);
    walk(device, model, attention[0], 640, FOVEA_DTYPE_F32, &rule);
    walk(device, model, attention[0], 640, FOVEA_DTYPE_F16, &rule);
    fovea_model_free(model);
}

int main(int argc, char **argv)
{
    fovea_device *device;
    listing = argc == 3 && strcmp(argv[2], "--list") == 0;
    if (argc < 2)
        return 1;
    if (!listing && !fv_cuda_ptx_list->program) {
        printf("skipped: this library was built without nvcc\n0 passed, 0 failed, 1 skipped\n");
        return 77;
    }
    if (fovea_device_open(&device, argv[1], NULL) != FOVEA_OK) {
        printf("skipped: %s\n0 passed, 0 failed, 1 skipped\n", fovea_error());
        return 77;
    }
    int kernels;
    uint32_t features;
    device->backend->kernels(device->device, &kernels, &features);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        walk_all(device, blocks[i], attentions, features & FV_NEED_CUDA_MMA ? 3 : 2);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        walk_all(device, models[i], attentions, 1);
    fovea_device_close(device);
    for (int i = 0; i < count; i++)
        free(lines[i]);
    if (!listing)
        printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
