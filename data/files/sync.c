#include "data/files/sync.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

bool sync_file(int descriptor) {
    return !fsync(descriptor) || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

bool sync_folder(const char *path) {
    int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return errno == EACCES; // a folder may be writable but not readable
    bool done = sync_file(descriptor);
    int why = errno;
    close(descriptor);
    errno = why;
    return done;
}
