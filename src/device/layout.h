/* layout.h: the memory layouts of frames, indexed by fovea_layout. */
#ifndef FOVEA_DEVICE_LAYOUT_H
#define FOVEA_DEVICE_LAYOUT_H

#include <fovea/video.h>

enum fv_layout_kind { FV_LAYOUT_RGB, FV_LAYOUT_GREY, FV_LAYOUT_YUV };

/* Samples of a component: the first is at byte `offset` of each row, and the stride is `step`
 * bytes. */
typedef struct fv_component {
    uint8_t plane, step, offset;
} fv_component;

typedef struct fv_layout {
    const char *name;
    enum fv_layout_kind kind;
    fovea_pixel_format format; /* format of the converted frames */
    uint8_t planes, bits;
    uint8_t right, down;       /* chroma samples cover 2^right pixels of a row, and 2^down rows */
    fv_component component[3]; /* R, G, B or Y, U, V */
} fv_layout;

enum { FV_LAYOUTS = FOVEA_LAYOUT_I411 + 1 }; /* one more than the last fovea_layout */
extern const fv_layout fv_layouts[FV_LAYOUTS];

#endif
