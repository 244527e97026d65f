/* Standard output that was closed, or cannot be written, is an error. */
#include "data/streams.h"
#include "data/die.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool output_closed;

void streams_open(void) {
    int number;
    output_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0;
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) open("/dev/null", O_WRONLY); // so that reading fails
    do number = open("/dev/null", O_RDWR);
    while (number >= 0 && number <= STDERR_FILENO);
    if (number > STDERR_FILENO) close(number);
}

void streams_expect_output(void) {
    if (output_closed)
        die(STATUS_MACHINE, "standard output: is closed (send it to a file, or to /dev/null)");
}

void streams_flush(void) {
    if (fflush(stdout) || ferror(stdout))
        die(STATUS_MACHINE, "standard output: %s", strerror(errno));
}
