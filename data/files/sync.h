/* Writes files through to the disk, so that they survive a power failure. */
#ifndef SYNC_H
#define SYNC_H

#include <stdbool.h>

/* Both return false and set errno if writing fails. What cannot be synced at all, such as a pipe or
   a file on a file system without this service, counts as done. */
bool sync_file(int descriptor);

/* The entries of a folder: a new or renamed file is safe only after this. */
bool sync_folder(const char *path);

#endif
