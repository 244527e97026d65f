/* Lines of a text file, of limited length: a file that is something else takes no memory. */
#ifndef LINE_H
#define LINE_H

#include <stdio.h>
#include <sys/types.h>

/* Reads a line into `text` (`size` bytes), with its newline if it has one and a NUL after it.
   Returns its length: 0 at the end of the file, or if reading failed (ferror()); -1 if the line does
   not fit. A line may hold NULs. */
ssize_t line_read(FILE *file, char *text, size_t size);

#endif
