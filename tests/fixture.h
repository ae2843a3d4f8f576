/* fixture.h: a small model on the CPU and a matching picture, for tests of whole plans. */
#ifndef FOVEA_TESTS_FIXTURE_H
#define FOVEA_TESTS_FIXTURE_H

#include <fovea/plans.h>

#define FIXTURE_WIDTH 101 /* not a multiple of the model's patch size of 14 */
#define FIXTURE_HEIGHT 75

/* A checkpoint of tests/data with registers and a resized position table. */
extern const char fixture_model[];

/* Reproducible pixels, FIXTURE_WIDTH x FIXTURE_HEIGHT, RGB. */
extern uint8_t fixture_pixels[FIXTURE_HEIGHT * FIXTURE_WIDTH * 3];
void fixture_draw(void);

/* Fails the test if the device cannot be opened. The functions below do the same for their errors.
 */
fovea_device *fixture_device(uint32_t threads);
fovea_model *fixture_load(void);
fovea_plan *fixture_plan(const fovea_model *model, fovea_device *device, const char *attention,
                         fovea_schedule schedule);

/* Returns the options that fixture_plan() uses. */
fovea_plan_options fixture_options(const char *attention, fovea_schedule schedule);

/* Runs the picture; returns output 0, which the caller frees, and sets *values to its number of
 * values. */
float *fixture_run(fovea_plan *plan, size_t *values);

#endif
