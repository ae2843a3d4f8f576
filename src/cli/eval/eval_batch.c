/* eval_batch.c: reads consecutive pictures of the same size, which run together. */
#include <stdlib.h>

#include "cli/eval/eval.h"

void eval_batch_begin(eval_batch *b, uint32_t most)
{
    *b = (eval_batch){.most = most};
    b->slot = cli_alloc(most, sizeof *b->slot);
    b->frame = cli_alloc(most, sizeof *b->frame);
}

static void drop(eval_slot *s)
{
    if (!s->code)
        dataset_picture_free(&s->picture);
}

static void empty(eval_batch *b)
{
    for (uint32_t i = 0; i < b->slots; i++)
        drop(&b->slot[i]);
    b->slots = 0;
    b->frames = 0;
}

void eval_batch_end(eval_batch *b)
{
    empty(b);
    if (b->prefetched)
        drop(&b->next);
    free(b->slot);
    free(b->frame);
}

static eval_slot read_slot(const dataset *d, size_t index)
{
    eval_slot s = {.code = CLI_OK};
    const int code = dataset_read(&s.picture, d, index);
    s.code = code == CLI_INPUT ? EVAL_SKIP : code;
    return s;
}

/* Adds a picture as a frame. Returns false if its size differs from the size of the batch. */
static bool add_frame(eval_batch *b, const dataset_picture *p)
{
    if (b->frames > 0 && (p->width != b->width || p->height != b->height))
        return false;
    b->width = p->width;
    b->height = p->height;
    b->frame[b->frames++] = (fovea_frame){.pixels = {p->rgb}};
    return true;
}

void eval_batch_read(eval_batch *b, const dataset *d, size_t index, bool strict)
{
    bool go_on = true;
    empty(b);
    while (go_on && b->slots < b->most && index + b->slots < d->n) {
        if (!b->prefetched)
            b->next = read_slot(d, index + b->slots);
        b->prefetched = !b->next.code && !add_frame(b, &b->next.picture);
        if (b->prefetched)
            return;
        b->slot[b->slots++] = b->next;
        go_on = !b->next.code || (b->next.code == EVAL_SKIP && !strict);
    }
}
