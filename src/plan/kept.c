/* kept.c: reads, writes and clears the states that are kept from frame to frame. They are one
 * sequence of bytes, which contains the banks one after the other. */
#include "plan/plan.h"

/* A transfer of states: read to `to`, or written from `from`. */
typedef struct transfer {
    char *to;
    const char *from; /* if both are NULL, zeros are written */
    uint64_t left;
} transfer;

static fovea_status move(const fovea_plan *p, transfer t)
{
    const fv_backend *be = p->device->backend;
    const fv_plan_candidate *c = &p->chosen;
    const uint32_t end = c->first_bank[FV_REGION_KEPT + 1];
    for (uint32_t i = c->first_bank[FV_REGION_KEPT]; i < end && t.left; i++) {
        fv_bank *b = &c->bank[i];
        const uint64_t n = b->size < t.left ? b->size : t.left;
        FV_TRY(t.to ? be->read(p->device->device, &b->mem, t.to, n)
                    : be->write(p->device->device, &b->mem, t.from, n));
        t.to = t.to ? t.to + n : NULL;
        t.from = t.from ? t.from + n : NULL;
        t.left -= n;
    }
    return FOVEA_OK;
}

fovea_status fv_plan_kept_reset(const fovea_plan *p)
{
    return move(p, (transfer){.left = fv_plan_kept_bytes(p)});
}

fovea_status fv_plan_kept_read(const fovea_plan *p, void *out, uint64_t bytes)
{
    return move(p, (transfer){.to = out, .left = bytes});
}

fovea_status fv_plan_kept_write(const fovea_plan *p, const void *in, uint64_t bytes)
{
    return move(p, (transfer){.from = in, .left = bytes});
}
