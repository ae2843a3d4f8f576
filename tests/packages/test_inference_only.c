/* test_inference_only.c: a program that links only libfovea runs a model. The process contains no
 * training function, and the library no training kernel. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fovea/fovea.h>

static int passed, failed;

static void check(const char *what, int good)
{
    if (good) {
        passed++;
        return;
    }
    failed++;
    printf("FAIL %s: %s\n", what, fovea_error());
}

static int runs(void)
{
    static unsigned char pixels[64 * 64 * 3];
    fovea_device *device = NULL;
    fovea_model *model = NULL;
    fovea_plan *plan = NULL;
    fovea_output_info info = FOVEA_OUTPUT_INFO_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    const fovea_frame frame = {.pixels = {pixels}};
    float *data = NULL;
    options.frame.width = options.frame.height = 64;
    int good = !fovea_device_open(&device, "cpu", NULL) &&
               !fovea_model_load(&model, "synthetic:vit-ti16") &&
               !fovea_plan_create(&plan, model, device, &options) &&
               fovea_plan_output(plan, 0, &info);
    const size_t n = good ? (size_t)(info.rows * info.columns) : 0;
    good = n > 0 && (data = malloc(n * sizeof *data)) &&
           !fovea_run(plan, &frame, &(fovea_output){data, n * sizeof *data}, 1);
    for (size_t i = 0; good && i < n; i++)
        good = isfinite(data[i]);
    free(data);
    fovea_plan_free(plan);
    fovea_model_free(model);
    fovea_device_close(device);
    return good;
}

/* Returns the number of kernels, or 0 if one of them is for training. */
static size_t kernels(void)
{
    fovea_kernel_info info = FOVEA_KERNEL_INFO_INIT;
    size_t n = 0;
    while (fovea_kernel_list(n, &info)) {
        if (strstr(info.op, "grad") || strstr(info.op, "loss"))
            return 0;
        n++;
    }
    return n;
}

int main(void)
{
    check("a model runs", runs());
    check("the library has kernels, and none of training", kernels() > 0);
    check("libfovea is loaded", dlsym(RTLD_DEFAULT, "fovea_run") != NULL);
    check("libfovea-train is not", dlsym(RTLD_DEFAULT, "fovea_trainer_create") == NULL);
    printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
