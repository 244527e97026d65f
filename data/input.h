/* Opens a file that the user names, such as a corpus. */
#ifndef INPUT_H
#define INPUT_H

#include <stdio.h>

/* Opens the file for reading; a failure dies with status 1 and names it after `what`. Opening a FIFO
   waits for a program that writes to it. Here that wait ends after two seconds, with a message, so
   that a FIFO without a writer does not stop the program forever. */
FILE *input_open(const char *what, const char *path);

#endif
