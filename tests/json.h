/* Just enough JSON to see that a file is well-formed and to find what it says. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>

/* True if the full text is one JSON value (RFC 8259) with blanks around it. */
bool json_valid(const char *text);

/* The value of a member of the object at the start of `object`, or NULL if there is no such
   member. */
const char *json_member(const char *object, const char *name);

/* True if the value is this string or, where `text` has no quotes, this number or word. */
bool json_is(const char *value, const char *text);

#endif
