#include "model/lab/process.h"
#include "data/die.h"
#include "model/math/ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- standard streams ---- */

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

/* ---- SIGINT and SIGTERM: training finishes its step, saves, and ends ---- */

int interrupt_signal;
static volatile sig_atomic_t caught;

int interrupt_now(void) {
    return interrupt_signal = ranks_largest(caught);
}

static void note(int number) {
    if (!caught) caught = number;
    signal(SIGINT, SIG_DFL);
}

void interrupt_catch(void) {
    signal(SIGINT, note);
    signal(SIGTERM, note);
}

void interrupt_release(void) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
}
