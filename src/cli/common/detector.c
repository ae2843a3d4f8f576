/* detector.c: what boxes are made of, and where they are in a photograph. */
#include <math.h>
#include <string.h>

#include "cli/common/cli.h"

bool cli_makes_boxes(const fovea_model *model, const char *name)
{
    if (cli_output_name(model, "pred_boxes"))
        return strcmp(name, "pred_boxes") == 0 || strcmp(name, "logits") == 0;
    return strncmp(name, "cls.", 4) == 0 || strncmp(name, "box.", 4) == 0;
}

/* From a corner in the picture that was run to one in the frame. */
static double placed(float at, double first, double scale, uint32_t side)
{
    return fmin(fmax(first + (double)at * scale, 0), side);
}

void cli_place_box(double out[4], const fovea_detection *box, const fovea_plan_info *info,
                   uint32_t width, uint32_t height)
{
    out[0] = placed(box->x1, info->left, info->scale_x, width);
    out[1] = placed(box->y1, info->top, info->scale_y, height);
    out[2] = placed(box->x2, info->left, info->scale_x, width) - out[0];
    out[3] = placed(box->y2, info->top, info->scale_y, height) - out[1];
}
