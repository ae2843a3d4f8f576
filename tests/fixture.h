/* fixture.h: a small model on the CPU and a picture for it, for tests of whole plans. */
#ifndef FOVEA_TESTS_FIXTURE_H
#define FOVEA_TESTS_FIXTURE_H

#include <fovea/plans.h>

#define FIXTURE_WIDTH 101 /* no multiple of the model's patch of 14 */
#define FIXTURE_HEIGHT 75

/* A checkpoint of tests/data with registers and a resized position table. */
extern const char fixture_model[];

/* Reproducible pixels, FIXTURE_WIDTH x FIXTURE_HEIGHT, RGB. */
extern uint8_t fixture_pixels[FIXTURE_HEIGHT * FIXTURE_WIDTH * 3];
void fixture_draw(void);

/* Each fails the test unless it succeeds. */
fovea_device *fixture_device(uint32_t threads);
fovea_model *fixture_load(void);
fovea_plan *fixture_plan(const fovea_model *model, fovea_device *device, const char *attention,
                         fovea_schedule schedule);

/* Options of fixture_plan. */
fovea_plan_options fixture_options(const char *attention, fovea_schedule schedule);

/* Runs the picture; returns output 0, to be freed, and its number of values. */
float *fixture_run(fovea_plan *plan, size_t *values);

#endif
