#include "model/lab/streams.h"
#include "data/die.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void streams_open(void) {
    int number;
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) open("/dev/null", O_WRONLY); // so that reading fails
    do number = open("/dev/null", O_RDWR);
    while (number >= 0 && number <= STDERR_FILENO);
    if (number > STDERR_FILENO) close(number);
}

void streams_flush(void) {
    if (fflush(stdout) || ferror(stdout))
        die(STATUS_MACHINE, "standard output: %s", strerror(errno));
}
