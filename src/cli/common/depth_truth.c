/* depth_truth.c: see depth_truth.h. */
#include "cli/common/depth_truth.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char images[] = "images", depths[] = "depth";

/* Returns the length of a path without '/' at its end. */
static int length(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return (int)n;
}

static char *folder_in(const char *path, const char *name)
{
    struct stat st;
    char *folder = cli_text("%.*s/%s", length(path), path, name);
    if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
        return folder;
    free(folder);
    return NULL;
}

char *depth_truth_pictures(const char *path)
{
    char *truth = folder_in(path, depths), *pictures = truth ? folder_in(path, images) : NULL;
    free(truth);
    return pictures;
}

char *depth_truth_path(const char *path, const char *picture)
{
    const int folder = length(path);
    /* relative to the folder of pictures */
    const char *in = picture + folder + 1 + strlen(images) + 1;
    const char *dot = strrchr(cli_file_name(in), '.');
    return cli_text("%.*s/%s/%.*s.png", folder, path, depths,
                    dot ? (int)(dot - in) : (int)strlen(in), in);
}

/* Maps pixels of a depth picture to cells of the model's output along one axis: the centre of pixel
 * i is at from + step * i cells. */
typedef struct axis {
    double from, step; /* in cells; 0 is the centre of cell 0 */
} axis;

static axis axis_of(uint32_t pixels, uint32_t frame, double left, double covered, uint32_t cells)
{
    const double per = cells / covered, scale = (double)frame / pixels;
    return (axis){(0.5 * scale - left) * per - 0.5, scale * per};
}

size_t depth_truth_pairs(double *found, double *truth, const cli_image *picture, double scale,
                         const depth_output *of)
{
    const fovea_plan_info *v = of->plan;
    const uint32_t columns = of->columns, rows = of->rows;
    const axis x = axis_of(picture->width, of->width, v->left, v->scale_x * v->width, columns);
    const axis y = axis_of(picture->height, of->height, v->top, v->scale_y * v->height, rows);
    const uint16_t *depth = (const uint16_t *)(const void *)picture->rgb;
    double *grid = cli_alloc((size_t)columns * rows, sizeof *grid);
    size_t n = 0;
    for (size_t i = 0; i < (size_t)columns * rows; i++)
        grid[i] = of->data[i];
    for (uint32_t j = 0; j < picture->height; j++)
        for (uint32_t i = 0; i < picture->width; i++) {
            const uint16_t unit = depth[(size_t)j * picture->width + i];
            const double at_x = x.from + x.step * i, at_y = y.from + y.step * j;
            if (unit == 0 || at_x < -0.5 || at_y < -0.5 || at_x > columns - 0.5 ||
                at_y > rows - 0.5)
                continue;
            truth[n] = unit / scale;
            found[n++] = cli_sample(grid, columns, rows, at_x, at_y);
        }
    free(grid);
    return n;
}
