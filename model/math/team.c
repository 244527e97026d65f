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
#include <stdbool.h>
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

/* The leader's job: `claimed` of its parts are claimed, `done` of them are finished. */
static struct {
    atomic_int helpers;
    team_job *job;
    void *argument;
    atomic_size_t parts, claimed, done;
} shared;

/* Claims and computes a part, if there is one. */
static bool take_part(void) {
    team_job *job;
    void *argument;
    size_t part, parts;
    if (shared.claimed == shared.parts) return false;
#pragma omp critical(team_claim)
    {
        job = shared.job, argument = shared.argument;
        part = shared.claimed, parts = shared.parts;
        if (part < parts) shared.claimed++;
    }
    if (part == parts) return false;
    job(argument, part, parts);
    shared.done++;
    return true;
}

static void help(void) {
    for (int turns = 0; shared.helpers;)
        if (take_part())
            turns = 0;
        else
            wait_turn(&turns);
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
#pragma omp critical(team_claim)
    {
        shared.job = job, shared.argument = argument;
        shared.done = shared.claimed = 0;
        shared.parts = parts;
    }
    while (take_part()) {
    }
    for (int turns = 0; shared.done < parts;) wait_turn(&turns);
}
