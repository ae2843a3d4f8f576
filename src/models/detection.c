/* detection.c: names the outputs from which boxes are decoded. */
#include "models/detection.h"

#include <stdio.h>

#include "graph/graph.h"

static fv_detection_name name_of(const fv_detection *d, const char *of_queries,
                                 const char *of_regions, const char *kind, uint32_t level)
{
    fv_detection_name name;
    if (d->of_queries || d->of_regions)
        snprintf(name.text, sizeof name.text, "%s", d->of_queries ? of_queries : of_regions);
    else
        snprintf(name.text, sizeof name.text, "%s.%u", kind, level);
    return name;
}

fv_detection_name fv_detection_logits(const fv_detection *d, uint32_t level)
{
    return name_of(d, "logits", "pred_scores", "cls", level);
}

fv_detection_name fv_detection_boxes(const fv_detection *d, uint32_t level)
{
    return name_of(d, "pred_boxes", "pred_boxes", "box", level);
}

bool fv_detection_wanted(const fv_detection *d, const fv_graph *g)
{
    for (uint32_t i = 0; i < d->levels; i++)
        if (!fv_graph_wanted(g, fv_detection_logits(d, i).text) ||
            !fv_graph_wanted(g, fv_detection_boxes(d, i).text))
            return false;
    return true;
}
