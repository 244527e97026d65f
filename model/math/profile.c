/* One timer for the program, since one model is trained at a time. Only the team's first
   thread writes times; each thread counts its own products. */
#include "model/math/profile.h"
#include "data/clock.h"
#include "model/math/real.h"
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

static size_t barriers;

// A cache line per thread; threads beyond the limit of --threads are not counted.
enum { COUNTED = 1024 };
static struct {
    _Alignas(64) double multiply_adds;
    double numbers; // of the matrices
} products[COUNTED];

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
    barriers += operation == PROFILE_WAIT;
}

void profile_add_product(size_t M, size_t N, size_t K) {
    int thread = omp_get_thread_num();
    if (thread >= COUNTED) return;
    products[thread].multiply_adds += (double)(M * N * K);
    products[thread].numbers += (double)(M * K + K * N + M * N);
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

    double total = 0, largest = 0, numbers = 0;
    for (int i = 0; i < COUNTED; i++) {
        total += products[i].multiply_adds;
        numbers += products[i].numbers;
        if (products[i].multiply_adds > largest) largest = products[i].multiply_adds;
    }
    fprintf(file, "%-24s %10.1f\n", "barriers", (double)barriers / steps);
    fprintf(file, "%-24s %10.1f\n", "MiB in products", numbers * sizeof(real) / 1048576 / steps);
    fprintf(file, "%-24s %10s %8.1f%%\n", "busiest thread", "",
            total > 0 ? 100 * largest / total : 0);
}
