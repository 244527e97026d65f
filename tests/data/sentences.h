/* The sentences of a text of the built-in grammar. */
#ifndef SENTENCES_H
#define SENTENCES_H

#include <stddef.h>
#include <stdint.h>

/* The end of the sentence at `text`, with the gap: after the space or the line ends that follow a
   full stop, question mark or exclamation mark. NULL if the sentence is cut off. */
const char *sentence_end(const char *text);

/* Calls `visit` for each whole sentence of a text of this seed and length. */
void sentence_each(uint64_t seed, size_t length,
                   void (*visit)(const char *sentence, size_t length));

#endif
