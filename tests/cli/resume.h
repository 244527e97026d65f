/* What the suites on resuming share. */
#ifndef RESUME_H
#define RESUME_H

#include "tests/command.h"

/* A run in which everything has state: dropout, accumulation, running statistics and the end of
   their warm-up, a schedule, log rows and evaluations at other steps than checkpoints. */
#define LIVELY                                                                                     \
    TINY "--quiet --dropout=0.2 --grad-accum=2 --warmup-iters=3 --lr-decay-iters=12 "              \
         "--learning-rate=0.01 --eval-interval=4 --eval-iters=3 --log-interval=2 --sample=20 "     \
         "--pn-warmup=5 --prepbn-steps=20 "

#define PROBED "--probe-interval=3 "

/* A run of hundreds of milliseconds that saves a checkpoint often. */
#define LONG                                                                                       \
    TINY "--quiet --norm=bn --dropout=0.1 --max-iters=1500 --warmup-iters=10 --eval-interval=500 " \
         "--eval-iters=3 --log-interval=7 --checkpoint-interval=60 --sample=20 "

/* Fails unless two folders hold the same files to the last bit, and the same log except for its
   times. */
void resume_expect_same(const char *one, const char *other);

#endif
