/* Writing and reading JSON (RFC 8259). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* `text` with quotes as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void json_string(FILE *file, const char *text);

/* A position in a JSON text, which is the header of a safetensors file. Each function skips blanks,
   reads what it is named after, and moves the position after it. If the text has something else
   there, it dies with status 1, and the message names the file and the byte. */
struct json {
    char *start, *next, *end;
    const char *path;
};

void json_take(struct json *json, char c); // a bracket, a comma, a colon
bool json_done(struct json *json);         // whether only blanks are left

/* A string as UTF-8, terminated by 0; \u0000 is refused. It is decoded in place, since it is never
   longer than its JSON form. */
char *json_text(struct json *json);

/* A whole number from 0 to 2^53 - 1, the range in which JSON numbers are exact for every reader. */
uint64_t json_count(struct json *json);

/* Whether another member or element follows: called after '{' or '[' (with `first`) and after each
   member or element. Reads the comma, or the closing bracket and returns false. */
bool json_more(struct json *json, char closing, bool first);
