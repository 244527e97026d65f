/* The learning rate of each step. A kind of schedule is a row of schedule.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DECAY_LINEAR, DECAY_SQRT }; // the course of wsd's decay

struct schedule {
    int64_t kind;          // an index of schedule_kinds
    int64_t warmup, decay; // steps of warm-up; the step at which decay ends
    double rate, rate_min; // after warm-up; from step `decay` on
    double fraction;       // of wsd: the fraction of the steps before `decay` in which it decays
    int64_t shape;         // of wsd: DECAY_...
};

struct schedule_kind {
    const char *name;    // as in --schedule=NAME
    const char *formula; // in a line
    const char *source;  // the paper, in a line
    // The fraction of rate - rate_min that is left after x, in [0, 1], of the decay; NULL: there is
    // no decay.
    double (*remaining)(const struct schedule *schedule, double x);
    bool stable;   // the rate is constant until then, so decay may be planned later
    bool from_end; // where decay begins depends on where it ends
};

extern const struct schedule_kind schedule_kinds[]; // the last row has no name

/* The learning rate of update number `step`, counted from 0. */
double schedule_rate(const struct schedule *schedule, int64_t step);

/* The first step that decays, not before warm-up ends. */
int64_t schedule_begin(const struct schedule *schedule);

/* Whether the schedule has a constant phase that has not ended before this step. */
bool schedule_is_stable(const struct schedule *schedule, int64_t step);
