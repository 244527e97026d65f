/* The learning rate, with x = (step - warmup) / (decay - warmup):

     step < warmup     rate (step + 1) / (warmup + 1)
     cosine            rate_min + (rate - rate_min) (1 + cos(pi x)) / 2
     linear            rate_min + (rate - rate_min) (1 - x)
     step >= decay     rate_min
     constant          rate, in every step after warm-up

   Loshchilov and Hutter 2017, equation 5 (arXiv:1608.03983). */
#include "model/optimizer/schedule.h"
#include <math.h>

double schedule_rate(const struct schedule *s, int64_t step) {
    if (step < s->warmup) return s->rate * (double)(step + 1) / (double)(s->warmup + 1);
    if (s->kind == SCHEDULE_CONSTANT) return s->rate;
    if (step >= s->decay) return s->rate_min;
    double x = (double)(step - s->warmup) / (double)(s->decay - s->warmup);
    double remaining = s->kind == SCHEDULE_COSINE ? 0.5 * (1 + cos(3.141592653589793 * x)) : 1 - x;
    return s->rate_min + remaining * (s->rate - s->rate_min);
}
