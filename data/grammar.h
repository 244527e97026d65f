/* The built-in corpus: English-like sentences of a small probabilistic grammar. See grammar.c. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

/* Writes a text of exactly `length` ASCII characters, the same for the same `seed`; the last sentence
   is cut off where the length is reached. The caller frees it; NULL if memory runs out. */
char *grammar_text(uint64_t seed, size_t length);

/* The exact entropy rate of the endless text, in nats per character: no model can have a lower
   expected loss. */
double grammar_entropy(void);

#endif
