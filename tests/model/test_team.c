/* A leader and its helpers compute each part of a job once, whoever takes it. */
#include "model/math/team.h"
#include "tests/support.h"
#include <stdatomic.h>

enum { PARTS = 50, JOBS = 3000, THREADS = 4 };

struct count {
    int done[PARTS]; // how often each part was computed
    size_t parts;
    atomic_bool strange; // a thread's number, or the number of parts, is not as promised
};

static void count_part(void *argument, size_t part, size_t parts, size_t thread) {
    struct count *count = argument;
    count->done[part]++;
    if (parts != count->parts || part >= parts || thread >= THREADS) count->strange = true;
}

/* Jobs of 1 to PARTS parts; each must be done when team_share() returns. */
static void lead(void *argument) {
    size_t *wrong = argument;
    if (omp_get_num_threads() != 1 || omp_get_thread_num() != 0) ++*wrong;
    for (size_t job = 0; job < JOBS; job++) {
        struct count count = {.parts = 1 + job % PARTS};
        team_share(count_part, &count, count.parts);
        for (size_t part = 0; part < PARTS; part++)
            *wrong += count.done[part] != (part < count.parts);
        *wrong += count.strange;
    }
}

Test(team, helpers_take_each_part_once) {
    for (int run = 0; run < 3; run++)
        for (int threads = 2; threads <= THREADS; threads++) {
            size_t wrong = 0;
            team_lead(threads, lead, &wrong);
            cr_expect(wrong == 0, "%zu parts on %d threads", wrong, threads);
        }
}

static void whole_job(void *argument, size_t part, size_t parts, size_t thread) {
    int *calls = argument;
    *calls += part == 0 && parts == 1 && thread == 0;
}

static void share_alone(void *argument) {
    team_share(whole_job, argument, PARTS);
}

Test(team, a_job_without_helpers_is_one_part) {
    int calls = 0;
    team_share(whole_job, &calls, PARTS);
    team_lead(1, share_alone, &calls);
    cr_expect(calls == 2);
}
