/* masters.c: makes the master weights: float32 copies of the trained tensors. */
#include "train/masters.h"

#include <string.h>

#include "checkpoint/source.h"
#include "platform/os/os.h"

/* Alignment of tensors in floats: every tensor begins at a cache line. */
#define ALIGN 16

static void list(fv_masters *m, const fv_source *s)
{
    for (uint32_t i = 0; s && i < s->made; i++)
        m->master[m->count++].tensor = &s->tensor[i];
    for (struct fv_put *p = s ? s->put : NULL; p; p = p->next)
        m->master[m->count++].tensor = &p->tensor;
    for (uint32_t i = 0; s && i < s->files; i++)
        for (uint32_t k = 0; k < s->file[i]->count; k++)
            m->master[m->count++].tensor = &s->file[i]->tensor[k];
}

fovea_status fv_masters_list(fv_masters *m, const fovea_model *model)
{
    /* the trained model is saved as a whole, so all of its files must be open */
    FV_TRY(fv_source_open_all(model->source));
    const uint64_t count = (uint64_t)model->source->count +
                           (model->segmentation_source ? model->segmentation_source->count : 0);
    FV_TRY(FV_MEM_ARRAY(&m->master, count, FV_MEM_MODEL, "the trainer's tensors"));
    list(m, model->source);
    list(m, model->segmentation_source);
    return FOVEA_OK;
}

void fv_masters_free(fv_masters *m)
{
    for (size_t i = 0; i < sizeof m->block / sizeof *m->block; i++)
        fv_mem_free(m->block[i]);
    fv_mem_free(m->master);
}

fv_master *fv_masters_of(const fv_masters *m, const fv_tensor *tensor)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (m->master[i].tensor == tensor)
            return &m->master[i];
    return NULL;
}

fv_master *fv_masters_find(const fv_masters *m, const char *name)
{
    for (uint32_t i = 0; i < m->count; i++)
        if (strcmp(m->master[i].tensor->name, name) == 0)
            return &m->master[i];
    return NULL;
}

bool fv_masters_want(const fv_masters *m, const fv_weight *w)
{
    for (uint32_t i = 0; i < w->parts; i++) {
        const fv_master *x = fv_masters_of(m, w->part[i].tensor);
        if (x && x->wanted)
            return true;
    }
    return false;
}

static uint64_t padded_floats(const fv_tensor *t)
{
    return (t->elements + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t fv_masters_floats(const fv_masters *m)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->master[i].trained)
            all = fv_size_add(all, padded_floats(m->master[i].tensor));
    return all;
}

fovea_status fv_masters_take(fv_masters *m, bool averages)
{
    uint64_t at = 0;
    const uint64_t all = fv_masters_floats(m);
    m->floats = 0;
    for (uint32_t i = 0; i < m->count; i++)
        if (m->master[i].trained)
            m->floats += m->master[i].tensor->elements;
    m->padded_floats = all;
    for (int i = 0; i < 4 + averages; i++)
        FV_TRY(FV_MEM_ARRAY(&m->block[i], all, FV_MEM_MODEL, "the trained weights"));
    for (uint32_t i = 0; i < m->count; i++) {
        fv_master *x = &m->master[i];
        fv_tensor *t = x->tensor;
        if (!x->trained)
            continue;
        x->weight = m->block[0] + at;
        x->gradient = m->block[1] + at;
        x->first = m->block[2] + at;
        x->second = m->block[3] + at;
        x->average = averages ? m->block[4] + at : NULL;
        at += padded_floats(t);
        fv_tensor_read(t, 0, t->elements, x->weight);
        if (t->file) /* the file's mapped weights are not read again */
            fv_os_release_pages(t->data, t->elements * fv_file_types[t->dtype].bytes);
        if (averages)
            memcpy(x->average, x->weight, (size_t)t->elements * sizeof(float));
        t->data = x->weight;
        t->dtype = FV_FILE_F32;
        t->file = NULL;
    }
    return FOVEA_OK;
}
