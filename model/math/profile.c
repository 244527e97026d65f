/* One timer for the program, since one model is trained at a time. Only the team's first
   thread writes. */
#include "model/math/profile.h"
#include <omp.h>

const char *const profile_name[PROFILE_PARTS] = {
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
static double seconds[PROFILE_PARTS], last; // `last`: when the previous lap ended

void profile_start(void) {
    for (int i = 0; i < PROFILE_PARTS; i++) seconds[i] = 0;
    profile_resume();
}

void profile_resume(void) {
    last = omp_get_wtime();
    profile_on = true;
}

void profile_stop(void) {
    profile_on = false;
}

void profile_add(enum profile_part part) {
    if (omp_get_thread_num() != 0) return;
    double now = omp_get_wtime();
    seconds[part] += now - last;
    last = now;
}

double profile_seconds(enum profile_part part) {
    return seconds[part];
}

void profile_print(FILE *file, double steps) {
    double sum = 0;
    for (int i = 0; i < PROFILE_PARTS; i++) sum += seconds[i];
    fprintf(file, "%-24s %10s %9s\n", "operation", "ms/step", "fraction");
    for (int i = 0; i < PROFILE_PARTS; i++)
        if (seconds[i] > 0)
            fprintf(file, "%-24s %10.4f %8.1f%%\n", profile_name[i], 1e3 * seconds[i] / steps,
                    100 * seconds[i] / sum);
    fprintf(file, "%-24s %10.4f\n", "all", 1e3 * sum / steps);
}
