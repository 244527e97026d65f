/* Words for the shell. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stddef.h>

/* The word in `text` (size bytes) as a POSIX shell reads it back: as it stands if it is plain, else
   between single quotes. Returns its length; what has no room is cut. */
size_t quote_word(const char *word, char *text, size_t size);

#endif
