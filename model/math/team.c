/* The parallel region, and a barrier that sleeps.

   OpenMP's own barrier spins for milliseconds before it sleeps. On a machine with other work, the
   late thread may be waiting for the very processor on which this one spins; then a step of 10 ms
   takes 150 ms (scripts/guides/performance.md). So this barrier spins only for the time by which running threads
   usually differ, then sleeps for short times, which frees the processor. */
#include "model/math/team.h"
#include <stdatomic.h>
#include <time.h>

enum {
    SPINS = 4000, // tens to hundreds of microseconds
    NAP = 20000,  // nanoseconds, of one sleep
};

// The barrier's state; there is one team at a time. `generation` counts the barriers passed.
static atomic_uint arrived, generation;

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void team_run(int threads, team_work *work, void *argument) {
    profile_lap(PROFILE_OTHER);
    if (threads == 1) {
        work(argument);
    } else {
#pragma omp parallel num_threads(threads)
        work(argument);
    }
    profile_lap(PROFILE_WAIT);
}

void team_wait(void) {
    unsigned before = atomic_load(&generation);
    if (atomic_fetch_add(&arrived, 1) + 1 == (unsigned)omp_get_num_threads()) {
        atomic_store(&arrived, 0);
        atomic_store(&generation, before + 1);
        return;
    }
    for (int turns = 0; atomic_load(&generation) == before; turns++)
        if (turns < SPINS)
            relax();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
}
