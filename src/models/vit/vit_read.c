/* vit_read.c: reads the roles of a ViT from the names and shapes of a checkpoint's tensors.
 *
 * Sizes are read from config.json, or from the tensors if config.json does not have them. Each
 * tensor is then checked against the sizes. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "checkpoint/wrappers.h"
#include "models/nearest.h"
#include "models/segmentation.h"
#include "models/vit/dpt_head.h"
#include "models/vit/vit_reader.h"

/* Refuses models that differ from a ViT in ways that tensors do not show. */
static fovea_status refuse_unlike(const fv_vit_reader *r)
{
    for (const fv_vit_unlike *u = fv_vit_unlikes; u->begin; u++)
        if (fv_begins_with(r->type, u->begin) && strstr(r->type, u->part))
            return fv_fail(FOVEA_ENOTSUP, "%s: \"architecture\" is %.60s, which has %s",
                           r->config->file, r->type, u->what);
    return FOVEA_OK;
}

/* ---- names of tensors ---- */

/* Returns whether find_scheme tries a root. */
static bool is_usual_root(const char *root)
{
    for (const char *const *p = fv_vit_prefixes; *p; p++)
        if (fv_ends_with(root, *p) &&
            fv_wrappers_keep(root, strlen(root) - strlen(*p)) != FV_KEPT_NOWHERE)
            return true;
    return false;
}

/* Finds the kind of a scheme whose prefix tokens are those under a root. Returns false if the
 * scheme has no such kind. */
static bool kind_of(enum fv_vit_kind *out, const fv_vit_names *n, const fv_tensor_reader *t)
{
    const bool cls = n->cls && fv_reader_lists(t, "", n->cls, "");
    const bool pre = n->pre && fv_reader_lists(t, "", n->pre, "weight");
    for (uint32_t k = 0; k <= FV_VIT_EVA; k++) {
        const uint16_t parts = fv_vit_kinds[k].parts;
        const bool fits = n->origin != FV_VIT_HF || ((parts & FV_VIT_HAS_CLASS) != 0) == cls;
        if (!(n->kinds >> k & 1) || !fits || (parts & FV_VIT_HAS_PRE_NORM && !pre))
            continue;
        *out = (enum fv_vit_kind)k;
        if (k == FV_VIT_DINOV2 && n->reg && fv_reader_lists(t, "", n->reg, ""))
            *out = FV_VIT_REGISTERS;
        return true;
    }
    return false;
}

static bool has_mark(const fv_vit_names *n, const fv_tensor_reader *t)
{
    bool found = !n->marks[0];
    for (int i = 0; i < 3 && n->marks[i]; i++)
        found = found || fv_reader_lists(t, "", n->marks[i], "");
    return found;
}

/* Finds the first scheme that fits the names of tensors under any root. */
static bool find_nearest(const fv_vit_names **out, enum fv_vit_kind *kind, fv_tensor_reader *t)
{
    for (const fv_vit_names *n = fv_vit_schemes; n->patch; n++) {
        char first[128], block[64];
        snprintf(block, sizeof block, n->block, 0);
        snprintf(first, sizeof first, "%s%sweight", block, n->ln1);
        if (!fv_reader_nearest(t->root, t, n->patch, first) || !has_mark(n, t) ||
            !kind_of(kind, n, t))
            continue;
        *out = n;
        return true;
    }
    return false;
}

bool fv_vit_nearest(fv_nearest *out, const fv_source *source)
{
    fv_tensor_reader t = {.source = source};
    const fv_vit_names *n;
    enum fv_vit_kind kind;
    if (!find_nearest(&n, &kind, &t))
        return false;
    out->type = fv_vit_kinds[kind].name;
    out->prefixed = !is_usual_root(t.root + strlen(source->prefix));
    memcpy(out->root, t.root, sizeof out->root);
    return true;
}

/* Fails with FOVEA_EFORMAT because no scheme of the kind fits. */
static fovea_status fail_unknown(const fv_vit_reader *r)
{
    fv_tensor_reader t = {.source = r->t.source};
    const fv_vit_names *n;
    enum fv_vit_kind kind;
    const char *name = fv_vit_kinds[r->kind].name;
    if (!find_nearest(&n, &kind, &t))
        return fv_fail(FOVEA_EFORMAT,
                       "%s contains none of the tensor names of a %s; is \"model_type\" in %s "
                       "correct? One of its tensors is \"%.160s\"",
                       r->t.source->name, name, r->config->file,
                       r->t.source->count ? r->t.source->by_name[0]->name : "");
    if (n->kinds >> r->kind & 1)
        return fv_fail(
            FOVEA_EFORMAT,
            "%s: the tensors of a %s have the prefix \"%s\"; add --prefix %s, or \"fovea\": "
            "{\"prefix\": \"%s\"} to %s",
            r->t.source->name, name, t.root, t.root, t.root, r->config->file);
    return fv_fail(FOVEA_EFORMAT,
                   "%s contains none of the tensor names of a %s, but those of a %s; is "
                   "\"model_type\" correct? \"fovea\": {\"model_type\": \"%s\"} in %s overrides it",
                   r->t.source->name, name, fv_vit_kinds[kind].name, fv_vit_kinds[kind].name,
                   r->config->file);
}

static fovea_status find_scheme(fv_vit_reader *r)
{
    const char *const known[] = {r->prefix, NULL};
    for (r->n = fv_vit_schemes; r->n->patch; r->n++)
        for (const char *const *p = *known ? known : fv_vit_prefixes; *p; p++) {
            const char *const *mark = r->n->marks;
            bool marked = !mark[0];
            if (!(r->n->kinds >> r->kind & 1) ||
                !fv_reader_unwrap(&r->t, *p, r->n->patch, "weight"))
                continue;
            for (int i = 0; i < 3 && mark[i]; i++)
                marked = marked || fv_reader_find(&r->t, *p, mark[i], "");
            r->prefix = *p;
            if (marked)
                return FOVEA_OK;
        }
    return fail_unknown(r);
}

/* Checks that all tensors were read whose names begin with the first word of `name`, a name of the
 * scheme. */
static fovea_status check_word(fv_vit_reader *r, const char *name)
{
    char words[96];
    if (!name || !strchr(name, '.'))
        return FOVEA_OK;
    snprintf(words, sizeof words, "%s%.*s", r->prefix, (int)strcspn(name, ".") + 1, name);
    fv_reader_ignore(&r->t, words, "mask_token");
    return fv_reader_all_used(&r->t, words);
}

/* Refuses unread tensors of the encoder, except those of blocks that are left out. In files of timm
 * and of DINOv2's authors, tensors outside the encoder belong to heads. */
static fovea_status check_tensors(fv_vit_reader *r)
{
    const fv_vit_names *n = r->n;
    if (n->origin == FV_VIT_TIMM || n->origin == FV_VIT_DINO) {
        fv_reader_leave(&r->t, r->prefix, "head");
        fv_reader_ignore(&r->t, r->prefix, "mask_token");
        fv_reader_ignore(&r->t, r->prefix, "blocks");
        fv_reader_ignore(&r->t, r->prefix, "local_cls_norm"); /* DINOv3: used only in training */
        return fv_reader_all_used(&r->t, r->prefix);
    }
    char blocks[96];
    snprintf(blocks, sizeof blocks, "%s%.*s", r->prefix, (int)strcspn(n->block, "%"), n->block);
    fv_reader_ignore(&r->t, blocks, ""); /* blocks that are read were checked */
    const char *const names[] = {n->patch, n->pre, n->post, n->pooler, n->map_proj};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        FV_TRY(check_word(r, names[i]));
    return FOVEA_OK;
}

fovea_status fv_vit_list_blocks(fovea_model *m, const fv_vit *v)
{
    for (uint32_t i = 0; i <= v->depth; i++)
        FV_TRY(fv_model_add_output(m, "hidden%u", i));
    for (uint32_t i = 0; i < 2 * v->depth; i++)
        if (!v->block[i / 2].windowed)
            FV_TRY(fv_model_add_output(m, "block%u.%c", i / 2, i % 2 ? 'k' : 'q'));
    return FOVEA_OK;
}

static fovea_status list_outputs(fovea_model *m)
{
    const fv_vit *v = m->roles;
    FV_TRY(FV_MEM_ARRAY(&m->outputs, 3 * v->depth + 10, FV_MEM_MODEL, "list of outputs"));
    if (v->head != FV_HEAD_NONE)
        FV_TRY(fv_model_add_output(m, "logits"));
    FV_TRY(fv_model_add_output(m, "last_hidden_state"));
    if (v->pool != FV_POOL_NONE)
        FV_TRY(fv_model_add_output(m, "pooler_output"));
    if (m->dpt_head)
        FV_TRY(fv_model_add_output(m, "%s", fv_dpt_head_output(m->dpt_head)));
    if (v->summaries) {
        FV_TRY(fv_model_add_output(m, "summary"));
        FV_TRY(fv_model_add_output(m, "features"));
    }
    if (fv_weight_present(&v->embeds.w))
        FV_TRY(fv_model_add_output(m, "image_embeds"));
    if (v->merger.side)
        FV_TRY(fv_model_add_output(m, "merged_patches"));
    return fv_vit_list_blocks(m, v);
}

void fv_vit_describe(fovea_model_info *info, const fv_vit *v)
{
    info->width = v->width;
    info->depth = v->depth;
    info->heads = v->heads;
    info->linear = v->linear;
    info->patch = v->patch;
    info->prefix = v->prefix;
}

static fovea_status fill_info(fv_vit_reader *r)
{
    fovea_model_info *info = &r->t.m->info;
    fv_vit_describe(info, r->v);
    info->classes = r->v->classifier.w.rows;
    fovea_preprocess *p = &r->t.m->preprocess;
    const enum fv_processor own = r->known->processor;
    *p = fv_processor_default(own ? own : fv_vit_kinds[r->kind].processor, info->native_width,
                              info->native_height);
    if (p->patch)
        p->patch = r->v->patch;
    if (r->n->origin != FV_VIT_TIMM)
        return FOVEA_OK;
    fovea_preprocess family = *p;
    *p = fv_processor_default(FV_PROCESSOR_TIMM, info->native_width, info->native_height);
    if (r->kind != FV_VIT_DEIT && !fv_begins_with(r->type, "beitv2_")) {
        memcpy(p->mean, family.mean, sizeof p->mean);
        memcpy(p->std, family.std, sizeof p->std);
    }
    return fv_processor_read_timm(p, &r->t.m->timm_transform, r->config);
}

fovea_status fv_vit_read_encoder(fv_vit_reader *r)
{
    FV_TRY(find_scheme(r));
    FV_TRY(fv_vit_read_sizes(r));
    FV_TRY(fv_vit_read_block_form(r));
    FV_TRY(fv_vit_read_embedding(r));
    FV_TRY(fv_vit_read_bias(r));
    FV_TRY(fv_vit_read_blocks(r));
    FV_TRY(fv_vit_read_windows(r));
    FV_TRY(fv_vit_read_pool(r));
    FV_TRY(fv_vit_read_head(r));
    FV_TRY(fv_vit_read_embeds(r));
    FV_TRY(fv_vit_read_merger(r));
    FV_TRY(check_tensors(r));
    return fill_info(r);
}

fovea_status fv_vit_read(fovea_model *m, const fv_source *source, const fv_config *config)
{
    fv_vit_reader r = {.t = {.m = m, .source = source, .config = config->file}, .config = config};
    FV_TRY(fv_config_tower(&r.vision, config));
    FV_TRY(fv_config_type(&r.type, config));
    r.known = fv_vit_find_type(r.type);
    if (!r.known) { /* a tower of a larger model */
        FV_TRY(fv_config_type(&r.type, &r.vision));
        r.known = fv_vit_find_type(r.type);
    }
    assert(r.known);
    r.kind = r.known->kind;
    FV_TRY(refuse_unlike(&r));
    bool fits = strlen(r.type) < sizeof m->info.type;
    snprintf(m->info.type, sizeof m->info.type, "%s", fits ? r.type : fv_vit_kinds[r.kind].name);
    FV_TRY(fv_config_section(&r.own, config, "fovea"));
    if (!r.vision.object)
        r.vision = *config;
    FV_TRY(fv_fields_check(config, &r.vision, &r.own, r.known->fields));
    FV_TRY(fv_mem_alloc(&m->roles, sizeof(fv_vit), FV_MEM_MODEL, "roles"));
    r.v = m->roles;
    FV_TRY(fv_vit_read_encoder(&r));
    FV_TRY(fv_dpt_head_read(m, source, config, r.v));
    if (!m->dpt_head)
        FV_TRY(fv_segmentation_read(m, source, config->file, &r.v->width, 1));
    return list_outputs(m);
}

void fv_vit_release(fovea_model *m)
{
    fv_vit *v = m->roles;
    fv_dpt_head_release(m);
    if (v)
        fv_mem_free(v->block);
    fv_mem_free(v);
    m->roles = NULL;
}
