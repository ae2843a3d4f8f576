/* vit_stage.c: emits the features of a stage from the rows after a block of a ViT. */
#include "models/layer.h"
#include "models/vit/vit.h"

fv_view fv_vit_emit_stage(const fv_vit *v, fv_builder *b, fv_view x, bool normed)
{
    return normed ? fv_layer_norm(b, "norm of a stage", &v->post, x, v->eps,
                                  fv_grid_tokens(&b->options->grid))
                  : x;
}
