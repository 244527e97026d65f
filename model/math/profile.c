/* One timer for the program, since one model is trained at a time. Only the team's first
   thread writes times. */
#include "model/math/profile.h"
#include "data/clock.h"
#include <omp.h>

const char *const profile_name[PROFILE_OPERATIONS] = {
    [PROFILE_BATCH] = "batch",
    [PROFILE_TRANSPOSE] = "transposing weights",
    [PROFILE_EMBEDDING] = "embedding",
    [PROFILE_NORM] = "norm",
    [PROFILE_FORWARD] = "linear, forward",
    [PROFILE_INPUT] = "linear, input gradient",
    [PROFILE_WEIGHT] = "linear, weight gradient",
    [PROFILE_ATTENTION] = "attention",
    [PROFILE_ELEMENTWISE] = "activation, residual",
    [PROFILE_LOSS] = "loss",
    [PROFILE_OPTIMIZER] = "optimizer",
    [PROFILE_WAIT] = "waiting for threads",
    [PROFILE_RANKS] = "ranks",
    [PROFILE_OTHER] = "other",
};

bool profile_on;
static double seconds[PROFILE_OPERATIONS], last; // `last`: when the previous lap ended

void profile_start(void) {
    last = clock_now();
    profile_on = true;
}

void profile_stop(void) {
    profile_on = false;
}

void profile_add(enum profile_operation operation) {
    if (omp_get_thread_num() != 0) return;
    double now = clock_now();
    seconds[operation] += now - last;
    last = now;
}

double profile_seconds(enum profile_operation operation) {
    return seconds[operation];
}

void profile_print(FILE *file, double steps) {
    double sum = 0;
    for (int i = 0; i < PROFILE_OPERATIONS; i++) sum += seconds[i];
    fprintf(file, "%-24s %10s %9s\n", "operation", "ms/step", "fraction");
    for (int i = 0; i < PROFILE_OPERATIONS; i++)
        if (seconds[i] > 0)
            fprintf(file, "%-24s %10.4f %8.1f%%\n", profile_name[i], 1e3 * seconds[i] / steps,
                    100 * seconds[i] / sum);
    fprintf(file, "%-24s %10.4f\n", "all", 1e3 * sum / steps);
}
