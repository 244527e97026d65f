#include "data/files/suggest.h"
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 40 }; // a longer name is never suggested and has no suggestion
enum { RANK_NONE = 100 };

/* `name` in lower case with '-' for '_'; false if it is empty or too long. */
static bool normalize(char normal[NAME_MAX_LENGTH + 1], const char *name) {
    size_t length = strlen(name);
    if (!length || length > NAME_MAX_LENGTH) return false;
    for (size_t i = 0; i <= length; i++)
        normal[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    return true;
}

static size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Letters to insert, delete, replace or swap with their neighbour to turn a into b (optimal string
   alignment, Damerau 1964). */
static size_t distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), d[NAME_MAX_LENGTH + 1][NAME_MAX_LENGTH + 1];
    for (size_t i = 0; i <= n; i++) d[i][0] = i;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            d[i][j] = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = min(d[i][j], min(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][m];
}

/* Whether each word of a is the start of the word of b at the same place. '-' separates words. */
static bool starts_words(const char *a, const char *b) {
    while (*a && *b) {
        size_t length = strcspn(a, "-");
        if (!length || strncmp(a, b, length) != 0) return false;
        a += length;
        b += strcspn(b, "-");
        if (!*a) return true;
        a++;
        b += *b == '-';
    }
    return false;
}

/* Whether a consists of the first letters of b's words, and b has two words or more. */
static bool initials(const char *a, const char *b) {
    size_t words = 0;
    for (; *b; b += *b == '-') {
        if (*a != *b) return false;
        a++, words++;
        b += strcspn(b, "-");
    }
    return !*a && words > 1;
}

/* Whether a is the last word or words of b, which has more. */
static bool ends_words(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b);
    return m > n && b[m - n - 1] == '-' && !strcmp(b + m - n, a);
}

/* How unlikely `name` is as the meaning of what was typed, RANK_NONE if it is too far from it. The
   shorter the name, the fewer mistakes are allowed. */
static int rank_of(const char *typed, const char *name) {
    char a[NAME_MAX_LENGTH + 1], b[NAME_MAX_LENGTH + 1];
    if (!normalize(a, typed) || !normalize(b, name)) return RANK_NONE;
    size_t length = strlen(a), changes = distance(a, b);
    if (changes == 0) return 1;
    if (length > 1 && (changes == 1 || ends_words(a, b))) return 2;
    if (starts_words(a, b) || initials(a, b)) return 3;
    if (changes == 2 && length > 4) return 4;
    for (const char *word = strchr(b, '-'); length > 2 && word; word = strchr(word + 1, '-'))
        if (starts_words(a, word + 1)) return 5;
    if (changes == 3 && length > 7) return 6;
    return RANK_NONE;
}

void suggest_consider(struct suggestions *found, const char *typed, const char *name) {
    int rank = rank_of(typed, name);
    if (rank == RANK_NONE || (found->count && rank > found->rank)) return;
    if (!found->count || rank < found->rank) *found = (struct suggestions){.rank = rank};
    for (int i = 0; i < found->count && i < SUGGESTIONS; i++)
        if (!strcmp(found->name[i], name)) return;
    if (found->count < SUGGESTIONS) found->name[found->count] = name;
    found->count++;
}

const char *suggest_text(const struct suggestions *found, const char *before, const char *otherwise,
                         char *text, size_t size) {
    if (!found->count || found->count > SUGGESTIONS) return otherwise;
    size_t used = (size_t)snprintf(text, size, "did you mean ");
    for (int i = 0; i < found->count && used < size; i++) {
        const char *separator = i == 0 ? "" : i + 1 < found->count ? ", " : " or ";
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s%s", separator, before, found->name[i]);
    }
    if (used < size) snprintf(text + used, size - used, "?");
    return text;
}
