/* The learning rate of each step. */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdint.h>

enum { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT };

struct schedule {
    int64_t kind;          // SCHEDULE_...
    int64_t warmup, decay; // steps of warm-up; the step at which decay ends
    double rate, rate_min; // after warm-up; from step `decay` on
};

/* The learning rate of update number `step`, counted from 0. */
double schedule_rate(const struct schedule *schedule, int64_t step);

#endif
