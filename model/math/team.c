/* The barrier. OpenMP's own spins for milliseconds before it sleeps. On a machine that has other
   work to do, the thread waited for may be one that waits for this thread's processor, and a step
   of ten milliseconds takes a hundred and fifty (PERFORMANCE.md). So: spin for as long as threads
   that run are apart, then sleep in short naps, which give the processor to who needs it. */
#include "model/math/team.h"
#include <stdatomic.h>
#include <time.h>

enum {
    SPINS = 4000, // tens to hundreds of microseconds
    NAP = 20000,  // nanoseconds
};

static atomic_uint arrived, generation; // of the one team that there is at a time

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void team_run(int threads, team_work *work, void *argument) {
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
    for (int spins = 0; atomic_load(&generation) == before; spins++) {
        if (spins < SPINS)
            relax();
        else
            nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
    }
}
