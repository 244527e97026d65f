/* The text of the built-in corpus: English-like sentences from a small probabilistic grammar. See
   grammar.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* One row of a grammar: what <head> may be replaced by. `bodies` are alternatives separated by '|',
   each with this weight. Rows of one head follow one another. The probability of an alternative is
   its weight divided by the sum of the weights of all alternatives of the head, in all rows. A body
   is literal text, except for <name>, which is a head, and '^', which makes the next character a
   capital. Derivations start with the head of the first row. */
struct grammar_rule {
    const char *head;
    unsigned weight;
    const char *bodies;
};

/* The built-in grammar. One derivation is one sentence and the gap after it. */
extern const struct grammar_rule grammar_rules[];
extern const size_t grammar_rule_count;

/* The exact entropy rate of its endless text, in nats per character: no model can have a lower
   expected loss. */
#define GRAMMAR_ENTROPY 0.52736565975610139

/* A text of exactly `length` ASCII characters, terminated by 0: a sequence of independent
   derivations of the grammar. The text depends on `seed` alone: of two texts of one seed, the
   longer one starts with the shorter one. The last derivation is cut off at the end. The caller
   frees the text. */
char *grammar_text(uint64_t seed, size_t length);
