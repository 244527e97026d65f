/* One way to report an error, and the exit statuses of the program. */
#ifndef DIE_H
#define DIE_H

enum {
    STATUS_OK = 0,       // done
    STATUS_MACHINE = 1,  // a file, memory or the machine failed
    STATUS_USAGE = 2,    // wrong usage or impossible values
    STATUS_DIVERGED = 3, // training produced NaN or infinity
};

/* Where several processes work together: says the line and ends the others, if they do not end by
   themselves. NULL: this process is alone. */
extern void (*die_end)(int status, const char *line);

/* Prints "train: " and the formatted message as one line on standard error, then exits with
   `status`. The message says what: why (hint), e.g. "corpus: x.txt: No such file or directory". */
_Noreturn void die(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
