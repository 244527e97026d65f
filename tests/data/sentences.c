#include "tests/data/sentences.h"
#include "data/text/grammar.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

const char *sentence_end(const char *text) {
    for (const char *c = text; *c; c++)
        if (strchr(".?!", *c) && (c[1] == ' ' || (c[1] == '\n' && c[2]))) {
            c++;
            return c + strspn(c, " \n");
        }
    return NULL;
}

void sentence_each(uint64_t seed, size_t length,
                   void (*visit)(const char *sentence, size_t length)) {
    char *text = grammar_text(seed, length);
    size_t count = 0;
    const char *at = text;
    for (const char *end; (end = sentence_end(at)); at = end, count++)
        visit(at, (size_t)(end - at));
    cr_assert(count > length / 200 && (size_t)(at - text) + 5000 > length, "%zu sentences", count);
    free(text);
}
