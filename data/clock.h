/* The time that all durations are measured in. It only moves forward; omp_get_wtime() may be the
   time of day, which somebody can put back. */
#pragma once

#include <time.h>

/* Seconds since a moment that stays the same while the program runs. */
static inline double clock_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
