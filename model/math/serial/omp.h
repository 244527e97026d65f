/* OpenMP's functions for a compiler without OpenMP (make OPENMP=, make web): there is one thread.

   The pragmas for threads are then comments, so each parallel region is run once, by this thread. */
#pragma once

static inline int omp_get_max_threads(void) {
    return 1;
}

static inline int omp_get_num_procs(void) {
    return 1;
}

static inline int omp_get_num_threads(void) {
    return 1;
}

static inline int omp_get_thread_num(void) {
    return 0;
}

static inline void omp_set_num_threads(int threads) {
    (void)threads;
}
