/* stages.h - LinMU's three stages, or all at once, within so many steps. Include mamba_mix.h before. */
#ifndef STAGES_H
#define STAGES_H

/* The last n of LinMU's stages with `total` steps among them, and rates times `rate`. One stage
   alone learns all, with the weight of L_hid and the rate of the first. The teacher decodes
   nothing (L_seq), and students have been calibrated before. */
static inline mmix_distill_config stages_of(size_t n, size_t total, double rate)
{
    const mmix_distill_config three = mmix_distill_config_linmu();
    mmix_distill_config c = three;
    c.stages = n;
    c.calibrate = 0;
    for (size_t i = 0; i < n; i++) {
        mmix_stage *s = &c.stage[i];
        *s = three.stage[3 - n + i];
        s->sequence = 0;
        s->steps = total * (i + 1) / n - total * i / n;
        s->warmup = s->steps / 20 + 1;
        if (n == 1) {
            s->hidden = three.stage[0].hidden;
            s->lr = three.stage[0].lr;
        }
        s->lr *= rate;
    }
    return c;
}

#endif
