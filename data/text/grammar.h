/* The text of the built-in corpus: English-like sentences from a small probabilistic grammar. See
   grammar.c. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>
#include <stdint.h>

/* One row of a grammar: what <head> may be replaced by. `bodies` are alternatives separated by '|',
   each with this weight. The probability of an alternative is its weight divided by the sum of the
   weights of all alternatives of the head, in all rows. A body is literal text, except for <name>,
   which is a head, and '^', which makes the next character a capital. Derivations start with the
   head of the first row. */
struct grammar_rule {
    const char *head;
    unsigned weight;
    const char *bodies;
};

/* The built-in grammar. One derivation is one sentence and the gap after it. */
extern const struct grammar_rule grammar_rules[];
extern const size_t grammar_rule_count;

/* A text of exactly `length` ASCII characters, terminated by 0. It depends on `seed` alone: of two
   texts of one seed, the longer one starts with the shorter one. The last sentence is cut off at
   the end. The caller frees the text; NULL if memory runs out. */
char *grammar_text(uint64_t seed, size_t length);

/* The exact entropy rate of the endless text, in nats per character: no model can have a lower
   expected loss. */
double grammar_entropy(void);

/* The same two for any grammar. A text is a sequence of independent derivations. The grammar must
   not have derivations that write nothing for ever. The entropy is that of the derivations; it is
   that of the text if each text has only one derivation. It is NaN if the expected length of a
   derivation is 0, or if that from any head is infinite. */
char *grammar_text_of(const struct grammar_rule *rules, size_t count, uint64_t seed, size_t length);
double grammar_entropy_of(const struct grammar_rule *rules, size_t count);

#endif
