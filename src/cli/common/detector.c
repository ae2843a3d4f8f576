/* detector.c: finds the outputs that boxes are computed from, and the position of boxes in a
 * photograph. */
#include <math.h>
#include <string.h>

#include "cli/common/cli.h"

bool cli_makes_boxes(const fovea_model *model, const char *name)
{
    if (cli_output_name(model, "pred_boxes"))
        return strcmp(name, "pred_boxes") == 0 || strcmp(name, "pred_scores") == 0 ||
               strcmp(name, "logits") == 0;
    return strncmp(name, "cls.", 4) == 0 || strncmp(name, "box.", 4) == 0;
}

size_t cli_most_masks(const fovea_model_info *info)
{
    return info->boxes ? info->boxes : info->masks;
}

static double within(float at, uint32_t side)
{
    return fmin(fmax((double)at, 0), side);
}

void cli_place_box(double out[4], const fovea_detection *box, uint32_t width, uint32_t height)
{
    out[0] = within(box->x1, width);
    out[1] = within(box->y1, height);
    out[2] = within(box->x2, width) - out[0];
    out[3] = within(box->y2, height) - out[1];
}
