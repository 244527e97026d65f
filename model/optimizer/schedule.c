/* The learning rate, with x = (step - begin) / (decay - begin):

     step < warmup          rate (step + 1) / (warmup + 1)
     step < begin           rate
     begin <= step < decay  rate_min + remaining(x) (rate - rate_min)
     step >= decay          rate_min

   A kind says what remains. Decay begins after warm-up, or in `constant` never. That of wsd takes a
   fraction of the steps before it ends. */
#include "model/optimizer/schedule.h"
#include <math.h>

static double cosine(const struct schedule *s, double x) {
    return 0.5 * (1 + cos(3.141592653589793 * x));
}

static double linear(const struct schedule *s, double x) {
    return 1 - x;
}

static double shaped(const struct schedule *s, double x) {
    return 1 - (s->shape == DECAY_SQRT ? sqrt(x) : x);
}

const struct schedule_kind schedule_kinds[] = {
    {.name = "cosine",
     .formula = "min + (lr - min) (1 + cos(pi x)) / 2, x from 0 to 1",
     .source = "Loshchilov and Hutter 2017, equation 5 (arXiv:1608.03983)",
     .remaining = cosine},
    {.name = "linear",
     .formula = "min + (lr - min) (1 - x), x from 0 to 1",
     .source = "Defazio et al. 2023 (arXiv:2310.07831)",
     .remaining = linear},
    {.name = "constant",
     .formula = "lr",
     .source = "for runs without a decay, or whose decay is decided later",
     .stable = true},
    {.name = "wsd",
     .formula = "lr, then min + (lr - min) (1 - x) or min + (lr - min) (1 - sqrt(x)), x from 0 to "
                "1 in the last --decay-fraction of the updates",
     .source = "Hu et al. 2024, MiniCPM (arXiv:2404.06395); 1 - sqrt(x): Hagele et al. 2024 "
               "(arXiv:2405.18392)",
     .remaining = shaped,
     .stable = true,
     .from_end = true},
    {0},
};

int64_t schedule_begin(const struct schedule *s) {
    const struct schedule_kind *kind = &schedule_kinds[s->kind];
    if (!kind->remaining) return INT64_MAX;
    if (!kind->from_end) return s->warmup;
    const int64_t begin = s->decay - (int64_t)llround(s->fraction * (double)s->decay);
    return begin > s->warmup ? begin : s->warmup;
}

double schedule_rate(const struct schedule *s, int64_t step) {
    const int64_t begin = schedule_begin(s);
    if (step < s->warmup) return s->rate * (double)(step + 1) / (double)(s->warmup + 1);
    if (step < begin) return s->rate;
    if (step >= s->decay) return s->rate_min;
    double x = (double)(step - begin) / (double)(s->decay - begin);
    double remaining = schedule_kinds[s->kind].remaining(s, x);
    return s->rate_min + remaining * (s->rate - s->rate_min);
}

bool schedule_is_stable(const struct schedule *s, int64_t step) {
    return schedule_kinds[s->kind].stable && step <= schedule_begin(s);
}
