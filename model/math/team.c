/* The parallel region, a barrier that sleeps, and helpers.

   OpenMP's own barrier spins for milliseconds before it sleeps. On a machine with other work, the
   late thread may be waiting for the very processor on which this one spins; then a step of 10 ms
   takes 150 ms (PERFORMANCE.md). So this barrier spins only for the time by which running threads
   usually differ, then sleeps for short times, which frees the processor.

   Helpers claim parts of the leader's job one at a time, as the leader does. A helper that sleeps,
   or that has no processor, claims none, and the leader does not wait for it. So helpers cost
   little where the machine has other work. Which thread computes a part does not change bits. */
#include "model/math/team.h"
#include <stdatomic.h>
#include <stdint.h>
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
    if (threads == 1) {
        work(argument);
    } else {
#pragma omp parallel num_threads(threads)
        work(argument);
    }
    profile_lap(PROFILE_WAIT);
}

/* One turn of waiting: `turns` counts those so far. */
static void wait_turn(int *turns) {
    if ((*turns)++ < SPINS)
        relax();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP}, NULL);
}

void team_wait(void) {
    unsigned before = atomic_load(&generation);
    if (atomic_fetch_add(&arrived, 1) + 1 == (unsigned)omp_get_num_threads()) {
        atomic_store(&arrived, 0);
        atomic_store(&generation, before + 1);
        return;
    }
    for (int turns = 0; atomic_load(&generation) == before;) wait_turn(&turns);
}

/* The leader's job. `state` is the job's number (32 bits), how many parts it has, and how many of
   them are claimed (16 bits each). A thread reads the state and the job, then claims the next part
   by a compare-and-exchange of the state. If it succeeds, a part was still to be claimed, so the
   leader had not changed the job in between. */
static struct {
    atomic_int helpers;
    atomic_ullong state;
    _Atomic(team_job *) job;
    _Atomic(void *) argument;
    atomic_size_t done; // finished parts
} shared;

static size_t parts_of(unsigned long long state) {
    return state >> 16 & UINT16_MAX;
}

static size_t claimed_of(unsigned long long state) {
    return state & UINT16_MAX;
}

/* Takes parts while there are any. Returns the state that had none left. */
static unsigned long long take_parts(void) {
    for (;;) {
        unsigned long long state = atomic_load(&shared.state);
        team_job *job = atomic_load(&shared.job);
        void *argument = atomic_load(&shared.argument);
        if (claimed_of(state) == parts_of(state)) return state;
        if (!atomic_compare_exchange_strong(&shared.state, &state, state + 1)) continue;
        job(argument, claimed_of(state), parts_of(state));
        atomic_fetch_add(&shared.done, 1);
    }
}

static void help(void) {
    while (atomic_load(&shared.helpers)) {
        unsigned long long state = take_parts();
        for (int turns = 0; atomic_load(&shared.state) == state && atomic_load(&shared.helpers);)
            wait_turn(&turns);
    }
}

void team_lead(int threads, team_work *work, void *argument) {
    if (threads == 1) {
        work(argument);
        return;
    }
    atomic_store(&shared.helpers, threads - 1);
#pragma omp parallel num_threads(threads)
    if (omp_get_thread_num() > 0) {
        help();
    } else {
#pragma omp parallel num_threads(1)
        work(argument);
        atomic_store(&shared.helpers, 0);
    }
}

void team_share(team_job *job, void *argument, size_t parts) {
    if (!atomic_load(&shared.helpers)) {
        job(argument, 0, 1);
        return;
    }
    unsigned long long number = (atomic_load(&shared.state) >> 32) + 1;
    atomic_store(&shared.job, job);
    atomic_store(&shared.argument, argument);
    atomic_store(&shared.done, 0);
    atomic_store(&shared.state, number << 32 | parts << 16);
    take_parts();
    for (int turns = 0; atomic_load(&shared.done) < parts;) wait_turn(&turns);
}
