/* A recursive descent parser of RFC 8259: each function takes the first byte of a construct and
   returns the byte after it, or NULL if the construct is malformed. */
#include "tests/json.h"
#include <ctype.h>
#include <stddef.h>
#include <string.h>

static const char *value(const char *at);

static const char *blanks(const char *at) {
    return at + strspn(at, " \t\r\n");
}

static const char *string(const char *at) {
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < ' ') return NULL;
        if (*at != '\\') continue;
        at++;
        if (*at == 'u') {
            for (int digit = 0; digit < 4; digit++)
                if (!isxdigit((unsigned char)*++at)) return NULL;
        } else if (!*at || !strchr("\"\\/bfnrt", *at)) {
            return NULL;
        }
    }
    return at + 1;
}

static const char *digits(const char *at) {
    size_t count = strspn(at, "0123456789");
    return count ? at + count : NULL;
}

static const char *number(const char *at) {
    if (*at == '-') at++;
    if (*at == '0' && isdigit((unsigned char)at[1])) return NULL;
    at = digits(at);
    if (at && *at == '.') at = digits(at + 1);
    if (at && (*at == 'e' || *at == 'E')) {
        at++;
        if (*at == '+' || *at == '-') at++;
        at = digits(at);
    }
    return at;
}

/* "name": value */
static const char *member(const char *at) {
    at = string(at);
    if (!at) return NULL;
    at = blanks(at);
    return *at == ':' ? value(blanks(at + 1)) : NULL;
}

static const char *list(const char *at, const char *(*item)(const char *), char end) {
    at = blanks(at + 1);
    if (*at == end) return at + 1;
    while ((at = item(at))) {
        at = blanks(at);
        if (*at == end) return at + 1;
        if (*at != ',') return NULL;
        at = blanks(at + 1);
    }
    return NULL;
}

static const char *value(const char *at) {
    static const char *const words[] = {"true", "false", "null"};
    for (int i = 0; i < 3; i++)
        if (!strncmp(at, words[i], strlen(words[i]))) return at + strlen(words[i]);
    return *at == '{'   ? list(at, member, '}')
           : *at == '[' ? list(at, value, ']')
           : *at == '"' ? string(at)
                        : number(at);
}

bool json_valid(const char *text) {
    const char *end = value(blanks(text));
    return end && !*blanks(end);
}

const char *json_member(const char *object, const char *name) {
    const char *at = blanks(object);
    if (*at != '{') return NULL;
    at = blanks(at + 1);
    while (at && *at == '"') {
        const char *end = string(at), *inside = end ? blanks(end) : NULL;
        if (!inside || *inside != ':') return NULL;
        inside = blanks(inside + 1);
        if ((size_t)(end - at) == strlen(name) + 2 && !strncmp(at + 1, name, strlen(name)))
            return inside;
        at = value(inside);
        if (at) at = blanks(at);
        if (at && *at == ',') at = blanks(at + 1);
    }
    return NULL;
}

bool json_is(const char *at, const char *text) {
    if (!at) return false;
    size_t length = strlen(text);
    if (*at == '"') return !strncmp(at + 1, text, length) && at[1 + length] == '"';
    const char *end = value(at);
    return end && (size_t)(end - at) == length && !strncmp(at, text, length);
}
