/* A folder of the test's own, and processes that run in it: commands, ./train among them, and calls that
   may die. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Fixtures of a suite: each test works in a fresh folder, which is removed with its content at the
   end. text_enter() also puts a text of 2000 characters into it, text.txt; corpora_enter() that,
   and 100 items of 1 to 6 letters, items.txt. */
void folder_enter(void);
void text_enter(void);
void corpora_enter(void);
void folder_leave(void);

/* The formatted text, held (support.h). */
char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Files of that folder. The text of a file, which must exist, is held and ends with a NUL. */
void file_put(const char *name, const char *text, size_t bytes);
char *file_text(const char *name, size_t *bytes);
bool file_there(const char *name);
size_t files_in(const char *folder);

/* How a process ended: its exit status (128 + the number of the signal that killed it) and what it
   printed. */
struct ending {
    int status;
    char out[65536], err[32768];
};

/* A process, to do something while it runs. */
struct process {
    pid_t id;
    FILE *out, *err; // unnamed files that receive its output
};

/* Waits for its end. */
struct ending process_end(struct process process);

/* Calls the function in a child process, which may die. */
struct ending call(void (*function)(void *), void *context);

/* Runs a command of bash, in which $TRAIN is the program. */
struct process bash_start(const char *command);
struct ending bash(const char *command);

/* Fails unless it succeeded. */
void expect_done(struct ending ending);

/* Fails unless the process ended with this status, printed nothing to standard output, and printed
   one line "train: ..." that contains `part` to standard error. */
void expect_refusal(struct ending ending, int status, const char *part);

/* Fails unless the text contains the part. */
void expect_part(const char *text, const char *part);

/* Options that make a run very short. If an option is given twice, the last one counts. */
#define TINY                                                                                       \
    "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --sample=0 "    \
    "--log-interval=1 --eval-interval=250 --warmup-iters=0 "
