/* Ablations whose runs are counted and held until the test releases them, without clocks. TRAIN
   names a script that records every run of the grid in `begun` (name, process, and whether by --out
   or --resume), waits for a file `go`, and then becomes the real program. Trials, whose folders are
   elsewhere, are not held. */
#ifndef HELD_H
#define HELD_H

#include "tests/command.h"
#include "tests/scripts.h"

/* The words of TINY and a corpus. */
#define RUN                                                                                        \
    "--n-layer=1", "--n-head=2", "--n-embd=8", "--block-size=8", "--batch-size=2",                 \
        "--max-iters=4", "--sample=0", "--log-interval=1", "--eval-interval=250",                  \
        "--warmup-iters=0", "text.txt"

#define START(...)  script_start((const char *const[]){"ablate.sh", __VA_ARGS__, NULL})
#define ABLATE(...) process_end(START(__VA_ARGS__), 0)

/* A fixture: a folder with text.txt and the script. */
void held_enter(void);

/* From here on runs are counted and held until held_release(). */
void held_start(void);
void held_release(void);

/* Hides GNU parallel behind a program like that of Debian's moreutils. */
void hide_gnu_parallel(void);

/* The number of lines of a file, 0 if it is not there. held_wait() waits until the file has `count`
   lines. */
int held_lines(const char *name);
void held_wait(const char *name, int count);

/* The process of a run that has started. */
pid_t held_process(const char *name);

/* Fails unless the run's summary has this exit reason, or the script ended with this status. */
void expect_exit_reason(const char *run, const char *reason);
void expect_status(const struct ending *ending, int status);

#endif
