/* Files that exist completely or not at all: they are written to a temporary name, synced and
   renamed, and then their folder is synced. A kill or a power failure at any moment leaves the old
   file or the new one. A failure dies with status 1 (2 if the name is too long) and names the file
   after `what`. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* A file that is being written to `stream`. */
struct new_file {
    FILE *stream;
    const char *what; // not owned
    char path[4096], temporary[4096], folder[4096];
};

struct new_file file_create_at(const char *what, const char *path);

/* Creates a file that is not kept. */
struct new_file file_create_nowhere(void);

/* Gives the file its name. If that fails, what was written is removed. */
void file_commit(struct new_file *file);

/* Dies if file_create_at() or file_commit() would fail for a reason that is known before there is
   anything to write: the folder is missing or may not be written, or the name belongs to something
   other than a regular file. */
void file_check(const char *what, const char *path);

/* Extends a CRC-32 to the next bytes of an open file. Returns false if they cannot be read (errno
   is set) or the file is shorter (errno is 0). */
bool file_crc32(FILE *file, uint64_t bytes, uint32_t *crc32);

/* The CRC-32 of the file at `path` in *crc32; false if it is not a regular file or cannot be
   read. */
bool file_checksum(const char *path, uint32_t *crc32);

/* Whether both paths lead to the same existing file. */
bool file_same(const char *path, const char *other);

/* Creates the folder and its parents, as mkdir -p. With `fresh`, returns false if it exists. */
bool file_make_folder(const char *what, char *folder, bool fresh);

/* Writes a file or folder through to the disk. Returns false and sets errno if that fails. What
   cannot be synced at all, such as a pipe or a file on a file system without this service, counts
   as done. */
bool file_sync(int descriptor);

/* Reads a line into `text` (`size` bytes), with its newline if it has one and a NUL after it, so
   that a file that is something else takes no memory. Returns its length: 0 at the end of the file,
   or if reading failed (ferror()); -1 if the line does not fit. A line may hold NULs. */
ssize_t file_line(FILE *file, char *text, size_t size);
