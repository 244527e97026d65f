/* What a mistyped name may have meant: the likeliest of all names, by edit distance and as an
   abbreviation. */
#ifndef SUGGEST_H
#define SUGGEST_H

#include <stddef.h>

enum { SUGGESTIONS = 6 };

struct suggestions {
    const char *name[SUGGESTIONS]; // the likeliest so far, all of the same rank
    int count, rank;               // `count` goes beyond SUGGESTIONS if there are more
};

/* Adds `name` if it is as likely as those found so far, and starts again from it if it is more
   likely. Start with {0}. The name must outlive the suggestions. */
void suggest_consider(struct suggestions *found, const char *typed, const char *name);

/* "did you mean --a, --b or --c?" in `text` (size bytes), `before` ("--") in front of each name;
   `otherwise` if there is no name or there are too many. */
const char *suggest_text(const struct suggestions *found, const char *before, const char *otherwise,
                         char *text, size_t size);

#endif
