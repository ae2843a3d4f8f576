/* teacher_features.c: caches the teacher's features of pictures. Pictures come in a new random
 * order each time, so the oldest entry is as likely to be needed as any other. Nothing is therefore
 * evicted. */
#include "train/teacher_features.h"

#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "run/run.h"

#define MOST (UINT32_C(1) << 28) /* pictures */

/* Returns the bytes for a number of pictures. Each has rows, a key, and up to four slots of the
 * hash table. */
static uint64_t bytes_of(uint64_t floats, uint64_t pictures)
{
    const uint64_t each = floats * sizeof(float) + sizeof(fv_picture_key) + 4 * sizeof(uint32_t);
    return fv_size_mul(each, pictures);
}

fovea_status fv_teacher_features_take(fv_teacher_features *f, uint64_t floats, uint64_t bytes)
{
    const uint64_t capacity = bytes / bytes_of(floats, 1);
    if (capacity == 0)
        return fv_fail(FOVEA_EINVAL,
                       "teacher_memory is %llu bytes, but the features of one picture need %llu; "
                       "increase it, or set it to 0 to keep none",
                       (unsigned long long)bytes, (unsigned long long)bytes_of(floats, 1));
    f->floats = floats;
    f->capacity = capacity < MOST ? (uint32_t)capacity : MOST;
    f->places = 2;
    while (f->places < 2 * f->capacity)
        f->places *= 2;
    FV_TRY(FV_MEM_ARRAY(&f->rows, fv_size_mul(floats, f->capacity), FV_MEM_ARENA,
                        "the teacher's features"));
    FV_TRY(FV_MEM_ARRAY(&f->key, f->capacity, FV_MEM_ARENA, "the teacher's features"));
    return FV_MEM_ARRAY(&f->place, f->places, FV_MEM_ARENA, "the teacher's features");
}

void fv_teacher_features_free(fv_teacher_features *f)
{
    fv_mem_free(f->rows);
    fv_mem_free(f->key);
    fv_mem_free(f->place);
}

uint64_t fv_teacher_features_bytes(const fv_teacher_features *f)
{
    return f->capacity * (f->floats * sizeof *f->rows + sizeof *f->key) +
           f->places * sizeof *f->place;
}

static void add_row(fv_picture_key *key, const char *row, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, row + i, bytes - i < sizeof word ? bytes - i : sizeof word);
        key->sum[0] = fv_checksum_mix(key->sum[0], word);
        key->sum[1] = fv_checksum_mix(key->sum[1], ~word << 31 | ~word >> 33);
    }
}

fovea_status fv_teacher_features_key(fv_picture_key *out, const fovea_plan *p,
                                     const fovea_frame *frame)
{
    uint64_t stride;
    FV_TRY(fv_frame_plane(p, frame, 0, &stride));
    const fv_value *v = &p->graph.value[0];
    *out = (fv_picture_key){{1, 2}};
    for (uint32_t y = 0; y < v->rows; y++)
        add_row(out, (const char *)frame->pixels[0] + y * stride, fv_value_stride(v));
    return FOVEA_OK;
}

/* Returns the slot of a picture's index, or the slot where it would be stored. Half of the slots
 * are always free. */
static uint32_t *place_of(const fv_teacher_features *f, const fv_picture_key *key)
{
    uint32_t at = (uint32_t)key->sum[0] & (f->places - 1);
    while (f->place[at] && memcmp(&f->key[f->place[at] - 1], key, sizeof *key) != 0)
        at = (at + 1) & (f->places - 1);
    return &f->place[at];
}

const float *fv_teacher_features_find(const fv_teacher_features *f, const fv_picture_key *key)
{
    const uint32_t number = *place_of(f, key);
    return number ? f->rows + (number - 1) * f->floats : NULL;
}

void fv_teacher_features_keep(fv_teacher_features *f, const fv_picture_key *key, const float *rows)
{
    if (f->kept == f->capacity)
        return;
    f->key[f->kept] = *key;
    memcpy(f->rows + f->kept * f->floats, rows, (size_t)f->floats * sizeof *rows);
    *place_of(f, key) = ++f->kept;
}
