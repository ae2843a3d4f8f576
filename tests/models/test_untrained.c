/* test_untrained.c: tests that a plan reports an attention that the weights were not trained with,
 * and reports nothing if they were, or if the attention is close to softmax. */
#include <fovea/plans.h>

#include "tests/models/small_checkpoint.h"

#define CONFIG                                                                                     \
    "{\"model_type\": \"dinov2\", \"patch_size\": 4, \"hidden_size\": 64, "                        \
    "\"num_attention_heads\": 2, \"num_hidden_layers\": 2, \"image_size\": 12%s}"

static fovea_model *trained_with(const char *attention)
{
    char section[128] = "", config[512];
    if (attention)
        snprintf(section, sizeof section, ", \"fovea\": {\"attention\": %s}", attention);
    snprintf(config, sizeof config, CONFIG, section);
    return load_lines(dinov2, config);
}

/* Checks that the plan's note about untrained weights contains all of the words. */
static void notes(const fovea_model *m, const char *attention, const char *const *words)
{
    fovea_device *device;
    fovea_plan *plan;
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    fovea_plan_info info = FOVEA_PLAN_INFO_INIT;
    o.frame.width = o.frame.height = 24;
    o.attention = attention;
    o.dry = 1;
    assert_int_equal(fovea_device_open(&device, "cpu", NULL), FOVEA_OK);
    if (fovea_plan_create(&plan, m, device, &o) != FOVEA_OK)
        fail_msg("%s: %s", attention, fovea_error());
    assert_int_equal(fovea_plan_query(plan, &info), FOVEA_OK);
    if (!words[0] && info.untrained)
        fail_msg("%s: %s", attention ? attention : "own", info.untrained);
    for (size_t i = 0; words[i]; i++)
        if (!info.untrained || !strstr(info.untrained, words[i]))
            fail_msg("%s: no \"%s\" in \"%s\"", attention, words[i],
                     info.untrained ? info.untrained : "");
    fovea_plan_free(plan);
    fovea_device_close(device);
}

#define SAYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING ((const char *const[]){NULL})

static void softmax_weights(void **state)
{
    (void)state;
    fovea_model *m = trained_with(NULL);
    notes(m, NULL, NOTHING);
    notes(m, "softmax", NOTHING);
    notes(m, "foveated", NOTHING);
    notes(m, "foveated:6+softmax@1", NOTHING);
    notes(m, "linear",
          SAYS("linear:elu1 attention", "all blocks", "with softmax", "0.36", "foveated gave",
               "fovea linearise", "\"fovea\": {\"attention\""));
    notes(m, "softmax+mala@1", SAYS("mala attention", "1 of 2 blocks", "0.5"));
    notes(m, "linear+mala@1", SAYS("linear:elu1 and other attention", "all blocks"));
    /* Gates without weights are 1, so the reported loss is that of the underlying attention. */
    notes(m, "sla-linear", SAYS("sla-linear:elu1", "0.36"));
    fovea_model_free(m);
}

static void trained_weights(void **state)
{
    (void)state;
    fovea_model *m = trained_with("\"linear+softmax@0\"");
    notes(m, NULL, NOTHING);
    notes(m, "linear+softmax@0", NOTHING);
    notes(m, "linear+foveated@0", NOTHING);
    notes(m, "sla-linear+softmax@0", NOTHING);
    notes(m, "linear", SAYS("linear:elu1 attention", "1 of 2 blocks", "with softmax"));
    notes(m, "softmax",
          SAYS("softmax attention", "1 of 2 blocks", "with linear:elu1", "Leave the option out"));
    fovea_model_free(m);
    m = trained_with("[\"sla-linear\", \"mala\"]");
    notes(m, NULL, NOTHING);
    notes(m, "linear+mala@1", SAYS("linear:elu1 attention", "1 of 2 blocks", "with sla-linear"));
    notes(m, "sla-linear+mala-paper@1", SAYS("mala-paper", "with mala"));
    fovea_model_free(m);
}

static void random_weights(void **state)
{
    (void)state;
    fovea_model *m = load("synthetic:deit-ti");
    notes(m, "linear", NOTHING);
    fovea_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_weights),
        cmocka_unit_test(trained_weights),
        cmocka_unit_test(random_weights),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
