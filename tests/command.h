/* Runs ./train as a person would, in a folder of the test's own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* Fixtures of a suite: each test works in a fresh folder, which is removed with its content at the
   end. text_enter() also puts a text of 2000 characters into it, text.txt; corpora_enter() that,
   and 100 items, items.txt. */
void folder_enter(void);
void text_enter(void);
void corpora_enter(void);
void folder_leave(void);

/* Ends the test, which cannot run here, and prints the line that scripts/upkeep/run_tests.sh
   counts. */
void skip(const char *suite, const char *why);

/* The formatted text, held (support.h). */
char *say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Files of that folder. The text of a file, which must exist, is held and ends with a NUL. */
void file_put(const char *name, const char *text, size_t bytes);
char *file_text(const char *name, size_t *bytes);
bool file_there(const char *name);
size_t files_in(const char *folder);

/* A text of `characters` ASCII characters to learn from. */
void corpus_put_tiny(const char *name, size_t characters);

/* `items` lines of 1 to 6 letters. */
void items_put(const char *name, size_t items);

/* How a process ended: its exit status (128 + the number of the signal that killed it) and what it
   printed. */
struct ending {
    int status;
    char out[65536], err[32768];
};

/* Where a program runs; all 0: as usual. */
struct surroundings {
    const char *input;  // a file for standard input
    const char *output; // a file for standard output, which is then not captured
    size_t file_limit;  // a write beyond this many bytes fails, as on a full disk
};

/* Runs ./train with the arguments of the format, separated by blanks, or with a list that ends with
   NULL. A run that takes a minute is killed. */
#define train(...)            process_end(train_start(__VA_ARGS__), 0)
#define train_in(around, ...) process_end(train_line_start(around, say(__VA_ARGS__)), 0)
struct ending train_with(const char *const *arguments);

/* Runs it, fails unless it succeeds, and returns what it printed, held: to standard output, with
   nothing on standard error; or to standard error. */
#define output_of(...)   expect_output(train(__VA_ARGS__))
#define messages_of(...) expect_messages(train(__VA_ARGS__))
char *expect_output(struct ending ending);
char *expect_messages(struct ending ending);

/* Runs it, which must refuse as expect_refusal() says. */
#define train_refuses(status, part, ...) expect_refusal(train(__VA_ARGS__), status, part)

/* The same in two steps, to do something while it runs. process_wait() returns as soon as `file`
   has `lines` lines, or when the process has ended. */
struct process {
    pid_t id;
    FILE *out, *err; // unnamed files that receive its output
};

#define train_start(...) train_line_start((struct surroundings){0}, say(__VA_ARGS__))
struct process train_line_start(struct surroundings surroundings, char *line);
void process_wait(struct process process, const char *file, int lines);

void pause_for(long microseconds);

/* Waits for its end, after sending it the signal `number` unless that is 0. */
struct ending process_end(struct process process, int number);

/* Starts a run and sends it a signal as soon as its log has a row. */
#define train_interrupted(number, log, ...) interrupt(train_start(__VA_ARGS__), number, log)
struct ending interrupt(struct process process, int number, const char *log);

/* Calls the function in a child process, which may die. */
struct ending call(void (*function)(void *), void *context);

/* Runs a command of bash, in which $TRAIN is the program. */
struct process bash_start(const char *command);
struct ending bash(const char *command);

/* Fails unless it succeeded. */
void expect_done(struct ending ending);

/* Fails unless the process ended with this status, printed nothing to standard output, and printed
   one line "train: ..." that contains `part` to standard error. Returns that line, held. */
const char *expect_refusal(struct ending ending, int status, const char *part);

/* Fails unless the text contains the part. */
void expect_part(const char *text, const char *part);

/* Options that make a run very short. If an option is given twice, the last one counts. */
#define TINY                                                                                       \
    "--n-layer=1 --n-head=2 --n-embd=8 --block-size=8 --batch-size=2 --max-iters=4 --sample=0 "    \
    "--log-interval=1 --eval-interval=250 --warmup-iters=0 "
