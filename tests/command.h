/* The program run as a person would run it, in a folder that only the test has. */
#ifndef COMMAND_H
#define COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Fixtures of a suite: each test works in a fresh folder, which goes with what is in it. */
void folder_enter(void);
void folder_leave(void);

/* Files of that folder. What file_text() returns ends with a 0 and lives as long as the test; NULL
   if there is no such file. */
void file_put(const char *name, const char *text, size_t bytes);
char *file_text(const char *name, size_t *bytes);
bool file_there(const char *name);
size_t files_in(const char *folder);

/* A text of `characters` ASCII characters to learn from. */
void corpus_put_tiny(const char *name, size_t characters);

/* `items` lines of 1 to 6 letters. */
void items_put(const char *name, size_t items);

/* How something ended: its exit status (128 + the signal that killed it) and what it printed. */
struct ending {
    int status;
    char out[32768], err[32768];
};

/* How and with what a program is run; all 0: as usual. */
struct surroundings {
    const char *input;  // a file for standard input
    const char *output; // a file for standard output, which then is not captured
    size_t file_limit;  // a write behind so many bytes fails, as on a full disk
};

/* Runs ./train with the blank-separated arguments of the format, or with a list that ends with
   NULL. A run that lasts a minute is killed. */
struct ending train(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct ending train_in(struct surroundings surroundings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct ending train_with(const char *const *arguments);

/* The same in two halves, to do something while it runs. process_wait() returns as soon as `file`
   has so many lines, or when the process ended without. */
struct process {
    pid_t id;
    FILE *out, *err; // nameless files that take what it prints
};

struct process train_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
void process_wait(struct process process, const char *file, int lines);

void pause_for(long microseconds);

/* Waits for its end, which a signal (if not 0) hastens. */
struct ending process_end(struct process process, int number);

/* A run that gets a signal as soon as its log has a row. */
struct ending train_interrupted(int number, const char *log, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Starts a script of scripts/ with the arguments behind its name, a list that ends with NULL. */
struct process script_start(const char *const *words);

/* Calls the function in a process of its own, which may die. */
struct ending call(void (*function)(void *), void *context);

/* Fails unless it ended with this status, nothing on standard output, and on standard error one
   line "train: ..." that holds `part`. */
void expect_refusal(const struct ending *ending, int status, const char *part);

/* The line at blanks, at most most - 1 of them, a NULL behind; changes the line. */
int split(char *line, char **words, int most);

/* Options that make a run take no time. The last of two equal ones counts. */
#define TINY                                                                                       \
    "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --sample=0 "    \
    "--log-interval=1 --warmup-iters=0 "

#endif
