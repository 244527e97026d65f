/* Words for the shell. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stddef.h>

/* Writes the word to `text` (size bytes) in a form that a POSIX shell reads back: unchanged if it
   is plain, otherwise in single quotes. Returns the length; a longer text is cut to size - 1
   bytes. */
size_t quote_word(const char *word, char *text, size_t size);

#endif
