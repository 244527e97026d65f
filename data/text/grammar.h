/* The built-in corpus: English-like sentences of a small probabilistic grammar. See grammar.c. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

/* One row of a grammar: what <head> may be replaced by. `bodies` are alternatives separated by '|',
   each of this weight: its probability is the weight over the sum of the weights of all the head's
   alternatives, in whatever rows. A body is text as it is written, but for <name>, which stands for
   a head, and '^', which makes the next character a capital. The first row's head is the start. */
struct grammar_rule {
    const char *head;
    unsigned weight;
    const char *bodies;
};

/* The built-in grammar; its start is one sentence with the gap behind it. */
extern const struct grammar_rule grammar_rules[];
extern const size_t grammar_rule_count;

/* Writes a text of exactly `length` ASCII characters and a 0 behind it, the same for the same
   `seed`; a longer text begins with the shorter one. The last sentence is cut off where the length
   is reached. The caller frees it; NULL if memory runs out. */
char *grammar_text(uint64_t seed, size_t length);

/* The exact entropy rate of the endless text, in nats per character: no model can have a lower
   expected loss. */
double grammar_entropy(void);

/* The same two for any grammar. A text is one derivation of the start after the other, each
   independent of the others; one that writes nothing for ever, or never ends without writing, is
   the caller's mistake. The entropy is that of derivations, so that of the text if the text has
   only one; it is NaN if the expected length from the start is 0 or from any head infinite. */
char *grammar_text_of(const struct grammar_rule *rules, size_t count, uint64_t seed, size_t length);
double grammar_entropy_of(const struct grammar_rule *rules, size_t count);

#endif
