/* A reader that takes what it expects next, and names the byte at which the text has something
   else. */
#include "data/files/json.h"
#include "data/die.h"
#include "data/text/utf8.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void json_string(FILE *file, const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t bytes = strlen(text);
    fputc('"', file);
    for (size_t offset = 0; offset < bytes;) {
        int32_t code = utf8_decode(c, bytes, &offset);
        if (code < 0) offset++, code = UTF8_REPLACEMENT;
        if (code == '"' || code == '\\') fputc('\\', file);
        if (code < ' ' || code == 127)
            fprintf(file, "\\u%04x", (unsigned)code);
        else
            utf8_put((uint32_t)code, file);
    }
    fputc('"', file);
}

static _Noreturn void refuse(const struct json *json, const char *problem) {
    die(STATUS_MACHINE, "%s: not a valid safetensors file: byte %zu of the header: %s", json->path,
        (size_t)(json->next - json->start), problem);
}

bool json_done(struct json *json) {
    while (json->next < json->end && *json->next && strchr(" \t\r\n", *json->next)) json->next++;
    return json->next == json->end;
}

static bool next_is(struct json *json, char c) {
    return !json_done(json) && *json->next == c;
}

void json_take(struct json *json, char c) {
    char expected[] = "expected {";
    expected[strlen(expected) - 1] = c;
    if (!next_is(json, c)) refuse(json, expected);
    json->next++;
}

bool json_more(struct json *json, char closing, bool first) {
    bool closed = next_is(json, closing);
    if (!closed && !first && !next_is(json, ','))
        refuse(json, "neither a comma nor the end of a list");
    json->next += closed || !first;
    return !closed;
}

/* Four hexadecimal digits, or -1. */
static int32_t hexadecimal(struct json *json) {
    char digits[5] = "";
    for (int i = 0; i < 4; i++) {
        if (json->next == json->end || !isxdigit((unsigned char)*json->next)) return -1;
        digits[i] = *json->next++;
    }
    return (int32_t)strtol(digits, NULL, 16);
}

/* The code point after "\u", which may be a pair of surrogates; -1 if it is invalid. */
static int32_t escaped(struct json *json) {
    int32_t code = hexadecimal(json);
    if (code < 0xd800 || code >= 0xe000) return code;
    if (code >= 0xdc00 || json->end - json->next < 6 || memcmp(json->next, "\\u", 2)) return -1;
    json->next += 2;
    int32_t low = hexadecimal(json);
    if (low < 0xdc00 || low >= 0xe000) return -1;
    return 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
}

char *json_text(struct json *json) {
    json_take(json, '"');
    char *text = json->next, *to = text;
    while (json->next < json->end && *json->next != '"') {
        int32_t code;
        if (*json->next == '\\' && json->end - json->next >= 2) {
            static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
            char mark = json->next[1];
            const char *found = mark ? strchr(marks, mark) : NULL;
            json->next += 2;
            code = found ? meant[found - marks] : mark == 'u' ? escaped(json) : -1;
            if (code <= 0) refuse(json, "an invalid escape");
        } else {
            size_t length = 0;
            code =
                utf8_decode((unsigned char *)json->next, (size_t)(json->end - json->next), &length);
            if (code < ' ')
                refuse(json, code < 0 ? "not UTF-8" : "a control character in a string");
            json->next += length;
        }
        to += utf8_encode((uint32_t)code, to);
    }
    if (json->next == json->end) refuse(json, "an unterminated string");
    json->next++;
    *to = 0;
    return text;
}

uint64_t json_count(struct json *json) {
    uint64_t count = 0;
    json_done(json);
    const char *first = json->next;
    for (; json->next < json->end && isdigit((unsigned char)*json->next); json->next++) {
        count = count * 10 + (uint64_t)(*json->next - '0');
        if (count >> 53) refuse(json, "a number that is too large");
    }
    if (json->next == first) refuse(json, "expected a whole number");
    if (*first == '0' && json->next - first > 1) refuse(json, "a number that starts with 0");
    return count;
}
