/* A FIFO is opened without waiting, then watched for a writer; after that, reading waits as
   usual. */
#include "data/input.h"
#include "data/die.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WAIT = 2000 }; // milliseconds

/* A FIFO that was opened without waiting. Where nothing arrives in time, reading tells a writer that
   is slow (EAGAIN) from none (the end of the file). A byte that arrives at that moment is put into
   *early. */
static bool has_writer(int descriptor, int *early) {
    char byte;
    if (poll(&(struct pollfd){.fd = descriptor, .events = POLLIN}, 1, WAIT) > 0) return true;
    const ssize_t count = read(descriptor, &byte, 1);
    if (count == 1) *early = (unsigned char)byte;
    return count != 0;
}

FILE *input_open(const char *what, const char *path) {
    struct stat status;
    int early = EOF;
    FILE *file = NULL;
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor >= 0 && !fstat(descriptor, &status)) {
        if (S_ISFIFO(status.st_mode) && !has_writer(descriptor, &early))
            die(STATUS_MACHINE, "%s: %s: nobody writes to this FIFO (start the writer first)", what,
                path);
        fcntl(descriptor, F_SETFL, O_RDONLY); // from now on, reading waits
        file = fdopen(descriptor, "r");
    }
    if (!file) die(STATUS_MACHINE, "%s: %s: %s", what, path, strerror(errno));
    if (early != EOF) ungetc(early, file);
    return file;
}
