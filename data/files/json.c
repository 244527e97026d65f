#include "data/files/json.h"
#include "data/text/utf8.h"
#include <string.h>

void json_string(FILE *file, const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    size_t bytes = strlen(text);
    fputc('"', file);
    for (size_t at = 0; at < bytes;) {
        int32_t code = utf8_decode(c, bytes, &at);
        if (code < 0) at++, code = 0xfffd;
        if (code == '"' || code == '\\') fputc('\\', file);
        if (code < ' ' || code == 127)
            fprintf(file, "\\u%04x", (unsigned)code);
        else
            utf8_put((uint32_t)code, file);
    }
    fputc('"', file);
}

static bool fail(struct json *json, const char *problem) {
    json->problem = problem;
    return false;
}

static void skip_blanks(struct json *json) {
    while (json->at < json->end && *json->at && strchr(" \t\r\n", *json->at)) json->at++;
}

bool json_done(struct json *json) {
    skip_blanks(json);
    return json->at == json->end;
}

static bool next_is(struct json *json, char c) {
    return !json_done(json) && *json->at == c;
}

bool json_take(struct json *json, char c) {
    static const char *const problem[128] = {
        ['{'] = "expected {", ['}'] = "expected }", ['['] = "expected [",
        [']'] = "expected ]", [':'] = "expected :", ['"'] = "expected \""};
    if (!next_is(json, c)) return fail(json, problem[(unsigned char)c & 127]);
    json->at++;
    return true;
}

bool json_more(struct json *json, char closing, bool first) {
    if (next_is(json, closing)) {
        json->at++;
        return false;
    }
    if (first) return true;
    if (!next_is(json, ',')) return fail(json, "neither a comma nor the end of a list");
    json->at++;
    return true;
}

/* Four hexadecimal digits, or -1. */
static int32_t hexadecimal(struct json *json) {
    int32_t code = 0;
    for (int i = 0; i < 4; i++, json->at++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = json->at < json->end && *json->at ? strchr(digits, *json->at) : NULL;
        if (!digit) return -1;
        ptrdiff_t value = digit - digits;
        code = code << 4 | (int32_t)(value < 16 ? value : value - 6);
    }
    return code;
}

/* The code point after "\u", which may be a pair of surrogates; -1 if it is invalid. */
static int32_t escaped(struct json *json) {
    int32_t code = hexadecimal(json);
    if (code < 0xd800 || code >= 0xe000) return code;
    if (code >= 0xdc00 || json->end - json->at < 6 || memcmp(json->at, "\\u", 2)) return -1;
    json->at += 2;
    int32_t low = hexadecimal(json);
    if (low < 0xdc00 || low >= 0xe000) return -1;
    return 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
}

char *json_text(struct json *json) {
    if (!json_take(json, '"')) return NULL;
    char *text = json->at, *to = text;
    while (json->at < json->end && *json->at != '"') {
        int32_t code;
        if (*json->at == '\\' && json->end - json->at >= 2) {
            static const char marks[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
            char mark = json->at[1];
            const char *found = mark ? strchr(marks, mark) : NULL;
            json->at += 2;
            code = found ? meant[found - marks] : mark == 'u' ? escaped(json) : -1;
            if (code <= 0) {
                fail(json, "an invalid escape");
                return NULL;
            }
        } else {
            size_t at = 0;
            code = utf8_decode((unsigned char *)json->at, (size_t)(json->end - json->at), &at);
            if (code < ' ') {
                fail(json, code < 0 ? "not UTF-8" : "a control character in a string");
                return NULL;
            }
            json->at += at;
        }
        to += utf8_encode((uint32_t)code, to);
    }
    if (json->at == json->end) {
        fail(json, "an unterminated string");
        return NULL;
    }
    json->at++;
    *to = 0;
    return text;
}

bool json_count(struct json *json, uint64_t *count) {
    skip_blanks(json);
    const char *first = json->at;
    for (*count = 0; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++) {
        *count = *count * 10 + (uint64_t)(*json->at - '0');
        if (*count >> 53) return fail(json, "a number that is too large");
    }
    if (json->at == first) return fail(json, "expected a whole number");
    if (*first == '0' && json->at - first > 1) return fail(json, "a number that starts with 0");
    return true;
}
