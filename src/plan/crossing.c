/* crossing.c: the bytes that cross a cut, and the cut with the fewest. */
#include "base/num.h"
#include "plan/sweep.h"

bool fv_reads_finished(const fv_use *u)
{
    return u->view.id >= 0 && (u->kind == FV_KIND_WHOLE || u->kind == FV_KIND_STATE);
}

static bool reads_rows(const fv_builder *b, uint32_t i, fv_id id)
{
    const fv_step *s = &b->step[i];
    for (uint32_t k = 0; !s->dead && k < FV_OPERANDS; k++)
        if (k != s->out && s->use[k].view.id == id &&
            (s->use[k].kind == FV_KIND_ROW || s->use[k].kind == FV_KIND_LOCAL))
            return true;
    return false;
}

/* Bytes per row of the values that were written before `cut` and are read row by row in [cut, end].
 */
static uint64_t crossing(const fv_builder *b, uint32_t cut, uint32_t end)
{
    uint64_t bytes = 0;
    for (uint32_t i = cut; i <= end; i++) {
        for (uint32_t k = 0; !b->step[i].dead && k < FV_OPERANDS; k++) {
            const fv_id id = b->step[i].use[k].view.id;
            if (id < 0 || b->value[id].kind == FV_VALUE_INPUT || b->value[id].first_step >= cut ||
                !reads_rows(b, i, id))
                continue;
            bool counted = false;
            for (uint32_t j = cut; j < i; j++)
                counted |= reads_rows(b, j, id);
            for (uint32_t o = 0; o < k; o++)
                counted |= b->step[i].use[o].view.id == id;
            if (!counted)
                bytes += b->value[id].cols * fv_type_size(b->value[id].type);
        }
    }
    return bytes;
}

uint32_t fv_sweep_best_cut(const fv_builder *b, uint32_t after, uint32_t at, uint32_t to)
{
    uint32_t best = at;
    uint64_t least_bytes = UINT64_MAX;
    for (uint32_t cut = after + 1; cut <= at; cut++) {
        if (b->step[cut].dead)
            continue;
        uint64_t bytes = crossing(b, cut, to);
        if (bytes < least_bytes) {
            least_bytes = bytes;
            best = cut;
        }
    }
    return best;
}
