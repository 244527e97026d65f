/* NAME is written as NAME.tmp, synced, renamed to NAME, and then its folder is synced. */
#include "data/files/file.h"
#include "data/crc32.h"
#include "data/die.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct new_file name_file(const char *what, const char *path) {
    struct new_file file = {.what = what};
    const char *slash = strrchr(path, '/');
    int length = slash == path ? 1 : slash ? (int)(slash - path) : 1; // of the folder
    if ((size_t)snprintf(file.temporary, sizeof file.temporary, "%s.tmp", path) >=
        sizeof file.temporary)
        die(STATUS_USAGE, "%s: %s: the name is too long", what, path);
    snprintf(file.path, sizeof file.path, "%s", path);
    snprintf(file.folder, sizeof file.folder, "%.*s", length, slash ? path : ".");
    return file;
}

static _Noreturn void refuse(const char *what, const char *path, int why) {
    die(STATUS_MACHINE, "%s: %s: %s", what, path, strerror(why));
}

struct new_file file_create_at(const char *what, const char *path) {
    struct new_file file = name_file(what, path);
    unlink(file.temporary); // opening a FIFO of this name would wait for a reader
    file.stream = fopen(file.temporary, "wb");
    if (!file.stream) refuse(what, file.temporary, errno);
    return file;
}

struct new_file file_create_nowhere(void) {
    struct new_file file = {.what = "run", .stream = fopen("/dev/null", "wb")};
    if (!file.stream) refuse(file.what, "/dev/null", errno);
    return file;
}

bool file_sync(int descriptor) {
    return !fsync(descriptor) || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

/* Syncs the entries of a folder: a new or renamed file is safe only after this. A folder that cannot
   be opened or synced at all, as on a share of another system, counts as done. */
static bool sync_folder(const char *path) {
    static const int unsupported[] = {EACCES, EPERM, EBADF, EISDIR, ENOSYS};
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = descriptor >= 0 && file_sync(descriptor);
    const int why = errno;
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        done |= unsupported[i] == why;
    if (descriptor >= 0) close(descriptor);
    errno = why;
    return done;
}

void file_commit(struct new_file *file) {
    if (!file->path[0]) {
        fclose(file->stream);
        return;
    }
    bool failed = fflush(file->stream) || ferror(file->stream) ||
                  !file_sync(fileno(file->stream)) || rename(file->temporary, file->path);
    int why = errno;
    fclose(file->stream); // nothing is left to write
    if (failed) {
        unlink(file->temporary);
        refuse(file->what, file->path, why);
    }
    if (!sync_folder(file->folder)) refuse(file->what, file->folder, errno);
}

void file_check(const char *what, const char *path) {
    const struct new_file file = name_file(what, path);
    struct stat status;
    if (access(file.folder, W_OK | X_OK)) refuse(what, path, errno);
    if (stat(path, &status)) {
        if (errno != ENOENT) refuse(what, path, errno);
    } else if (!S_ISREG(status.st_mode)) {
        die(STATUS_MACHINE, "%s: %s: is not a regular file", what, path);
    }
}

bool file_crc32(FILE *file, uint64_t bytes, uint32_t *crc32) {
    char piece[1 << 16];
    errno = 0;
    for (size_t count; bytes; bytes -= count) {
        count = fread(piece, 1, bytes < sizeof piece ? bytes : sizeof piece, file);
        if (!count) return false;
        *crc32 = crc32_of(*crc32, piece, count);
    }
    return true;
}

bool file_checksum(const char *path, uint32_t *crc32) {
    struct stat status;
    if (stat(path, &status) || !S_ISREG(status.st_mode)) return false;
    FILE *file = fopen(path, "rb");
    *crc32 = 0;
    bool complete = file && file_crc32(file, (uint64_t)status.st_size, crc32);
    if (file) fclose(file);
    return complete;
}

bool file_same(const char *path, const char *other) {
    struct stat one, two;
    return !stat(path, &one) && !stat(other, &two) && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}

bool file_make_folder(const char *what, char *folder, bool fresh) {
    struct stat status;
    int failed = 0;
    for (char *slash = folder; slash;) {
        slash = strchr(slash + 1, '/');
        if (slash) *slash = 0;
        failed = mkdir(folder, 0777) ? errno : 0;
        if (slash) *slash = '/';
        if (failed && failed != EEXIST && failed != EISDIR)
            die(STATUS_MACHINE, "%s: %s: cannot be created: %s", what, folder, strerror(failed));
    }
    if (failed && !fresh && (stat(folder, &status) || !S_ISDIR(status.st_mode)))
        die(STATUS_MACHINE, "%s: %s: cannot be created: a file has this name", what, folder);
    return !failed || !fresh;
}

ssize_t file_line(FILE *file, char *text, size_t size) {
    size_t length = 0;
    int byte = 0;
    while (byte != '\n' && length + 1 < size && (byte = getc_unlocked(file)) != EOF)
        text[length++] = (char)byte;
    text[length] = 0;
    if (length + 1 < size || byte == '\n') return (ssize_t)length;
    return getc_unlocked(file) == EOF ? (ssize_t)length : -1;
}
