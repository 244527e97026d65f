/* Writing and reading JSON (RFC 8259). */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* `text` with quotes as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void json_string(FILE *file, const char *text);

/* A place in a JSON text. Each function takes what stands there, blanks before it skipped, and
   moves behind it; if it is not there, it returns false (or NULL) and says in `problem` what is
   missing, `at` staying where that was found out. */
struct json {
    char *at, *end;
    const char *problem;
};

bool json_take(struct json *json, char c); // a bracket, a comma, a colon
bool json_done(struct json *json);         // whether nothing but blanks is left

/* A string as UTF-8 ended by 0, without \u0000. Written over the string itself, which is never
   shorter. */
char *json_text(struct json *json);

/* A whole number from 0 to 2^53 - 1, which every reader of JSON tells from its neighbours. */
bool json_count(struct json *json, uint64_t *count);

/* After '{' or '[' (first) or a member or element of it: whether another one follows. False at the
   closing bracket, which is taken, and, with a `problem`, where neither is. */
bool json_more(struct json *json, char closing, bool first);

#endif
