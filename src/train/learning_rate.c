/* learning_rate.c: the learning rate of each step: a linear warm-up, then the schedule. */
#include <math.h>

#include "train/trainer.h"

double fv_trainer_rate(const fovea_trainer_options *o, uint64_t step)
{
    if (step < o->warm_up)
        return (double)o->lr * (double)(step + 1) / o->warm_up;
    const double lr = (double)o->lr, end = (double)o->lr_end;
    const double all = o->steps > o->warm_up ? o->steps - o->warm_up : 1;
    double done = (double)(step - o->warm_up) / all;
    done = done < 1 ? done : 1;
    switch (o->schedule) {
    case FOVEA_LR_CONSTANT:
        return lr;
    case FOVEA_LR_LINEAR:
        return end + (lr - end) * (1 - done);
    case FOVEA_LR_COSINE:
        break;
    }
    return end + (lr - end) * (1 + cos(acos(-1) * done)) / 2;
}
