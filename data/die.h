/* Errors and notes on standard error, the exit statuses of the program, and memory outside of
   arenas. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
    STATUS_OK = 0,       // done
    STATUS_MACHINE = 1,  // a file, memory or the machine failed
    STATUS_USAGE = 2,    // wrong usage or impossible values
    STATUS_DIVERGED = 3, // training produced NaN or infinity
};

/* With several processes: prints the line and ends the others, if they do not end by themselves.
   NULL: this process is alone. */
extern void (*die_end)(int status, const char *line);

/* Prints "train: " and the formatted message as one line on standard error, then exits with
   `status`. The message says what: why (hint), e.g. "corpus: x.txt: No such file or directory". */
_Noreturn void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A note that is not an error, such as "note: x.ini was changed": one line without "note: " and
   newline. The same line is shown only once. Notes are held back until it is known whether --quiet
   silences them; if the program ends with an error before that, they are not shown. */
void notice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Shows the notes held back and from now on each note at once; if not `shown`, drops all of
   them. */
void notice_start(bool shown);

/* Allocates `count` objects of `size` bytes, zeroed. Dies with status 1 if there is not enough
   memory; `what` names its purpose in the message, as in "the corpus". The caller frees it. */
void *memory_take(size_t count, size_t size, const char *what);

/* Resizes the memory to `count` objects, as realloc() does: new objects are not zeroed, and
   `memory` may be NULL. Dies as memory_take() does. */
void *memory_grow(void *memory, size_t count, size_t size, const char *what);

/* Opens a file for reading. A failure dies with status 1 and names it after `what`. */
FILE *file_open(const char *what, const char *path);

/* A formatted text, in memory that the caller frees. Dies as memory_take() does. */
char *memory_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
