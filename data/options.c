#include "options.h"
#include "crc32.h"
#include "die.h"
#include "notice.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Changes of one letter that turn a into b (Levenshtein 1966); names here are short. */
static size_t distance(const char *a, const char *b) {
    enum { LONGEST = 40 };
    size_t n = strlen(b), row[LONGEST + 1];
    if (n > LONGEST || strlen(a) > LONGEST) return SIZE_MAX;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

static const struct option *find(const struct option *table, const char *name, size_t length) {
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && strlen(o->name) == length &&
            !memcmp(o->name, name, length))
            return o;
    return NULL;
}

/* Dies; `where` is "--" on the command line, "FILE:LINE: " in a file. */
static _Noreturn void unknown(const struct option *table, const char *where, const char *name) {
    const char *near = NULL;
    size_t least = 4; // farther names are no help
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && distance(name, o->name) < least) {
            least = distance(name, o->name);
            near = o->name;
        }
    if (near) die(STATUS_USAGE, "%s%s: no such option (did you mean --%s?)", where, name, near);
    die(STATUS_USAGE, "%s%s: no such option (--help lists them)", where, name);
}

static _Noreturn void refuse(const struct option *o, const char *where, const char *value) {
    const char *automatic = o->start && !strcmp(o->start, "auto") ? ", or auto" : "";
    if (o->kind == OPTION_INT)
        die(STATUS_USAGE, "%s%s=%s: must be a whole number from %.0f to %.0f%s", where, o->name,
            value, o->least, o->most, automatic);
    if (o->kind == OPTION_REAL)
        die(STATUS_USAGE, "%s%s=%s: must be a number from %g to %g%s", where, o->name, value,
            o->least, o->most, automatic);
    if (option_is_text(o)) die(STATUS_USAGE, "%s%s: must not be empty", where, o->name);
    die(STATUS_USAGE, "%s%s=%s: must be one of %s", where, o->name, value, option_choices(o));
}

static bool is_switch(const char *value) {
    return !strcmp(value, "on") || !strcmp(value, "off");
}

static void set(const struct option *table, const struct option *o, void *settings,
                const char *where, const char *value) {
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_STOP:
        *option_int(o, settings) = 1;
        return;
    case OPTION_TEXT:
    case OPTION_OPERAND:
    case OPTION_FILE:
        if (!*value) refuse(o, where, value);
        *option_text(o, settings) = value;
        return;
    case OPTION_INT:
    case OPTION_REAL: {
        bool whole = o->kind == OPTION_INT;
        double number;
        int64_t integer = 0;
        if (!strcmp(value, "auto") && o->start && !strcmp(o->start, "auto")) {
            number = OPTION_AUTO;
            integer = OPTION_AUTO;
            end = "";
        } else {
            if (whole) integer = strtoll(value, &end, 10);
            number = whole ? (double)integer : strtod(value, &end);
            if (end == value || isspace((unsigned char)*value) || errno == ERANGE ||
                (whole ? integer < (int64_t)o->least || integer > (int64_t)o->most
                       : !(number >= o->least && number <= o->most)))
                refuse(o, where, value);
        }
        if (*end) refuse(o, where, value);
        if (whole)
            *option_int(o, settings) = integer;
        else
            *option_real(o, settings) = number;
        return;
    }
    case OPTION_SWITCH:
        if (!is_switch(value)) refuse(o, where, value);
        *option_int(o, settings) = !strcmp(value, "on");
        return;
    case OPTION_CHOICE:
        for (int64_t i = 0; o->choice(i); i++)
            if (!strcmp(o->choice(i), value)) {
                *option_int(o, settings) = i;
                return;
            }
        refuse(o, where, value);
    case OPTION_ALIAS: {
        const char *equals = strchr(o->start, '=');
        set(table, find(table, o->start, equals - o->start), settings, where, equals + 1);
        return;
    }
    case OPTION_END:
    case OPTION_HEADING:
        return;
    }
}

/* The text of a value in a config file: as it stands, or between quotes with \ before " and \.
   Changes `value`; NULL if a quote is missing. */
static char *unquoted(char *value) {
    if (*value != '"') return value;
    char *to = value, *from = value + 1;
    for (; *from && *from != '"'; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    if (*from != '"' || from[1]) return NULL;
    *to = 0;
    return value;
}

struct text {
    struct text *before;
    char value[];
};

/* A copy of a text that a file gave. It stays in use, so it lives as long as the program. */
static const char *kept(const char *value) {
    static struct text *last;
    struct text *text = malloc(sizeof *text + strlen(value) + 1);
    if (!text) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    strcpy(text->value, value);
    text->before = last;
    last = text;
    return text->value;
}

bool options_load(const struct option *table, void *settings, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) die(STATUS_MACHINE, "config: %s: %s", path, strerror(errno));
    char *line = NULL, where[512], seal[64] = "";
    size_t size = 0;
    ssize_t length;
    uint32_t crc = 0; // of the lines before
    bool changed = false;
    for (int number = 1; (length = getline(&line, &size, file)) >= 0; number++) {
        snprintf(where, sizeof where, "%.480s:%d: ", path, number);
        if (strlen(line) != (size_t)length)
            die(STATUS_USAGE, "%sa NUL byte (not a config file?)", where);
        if (*seal || !strncmp(line, OPTIONS_SEAL, strlen(OPTIONS_SEAL))) {
            snprintf(seal, sizeof seal, OPTIONS_SEAL "%08x\n", crc);
            changed |= strcmp(line, seal) != 0;
        }
        crc = crc32_of(crc, line, (size_t)length);
        while (length > 0 && isspace((unsigned char)line[length - 1])) line[--length] = 0;
        bool marked = number == 1 && !strncmp(line, "\xef\xbb\xbf", 3); // a byte order mark
        char *name = line + (marked ? 3 : 0);
        name += strspn(name, " \t");
        if (!*name || *name == '#' || *name == ';' || *name == '[') continue;
        char *equals = strchr(name, '=');
        if (!equals || equals == name) die(STATUS_USAGE, "%smust be \"name = value\"", where);
        char *name_end = equals, *value = equals + 1 + strspn(equals + 1, " \t");
        while (name_end > name && isspace((unsigned char)name_end[-1])) name_end--;
        *name_end = 0;
        const struct option *o = find(table, name, strlen(name));
        if (!o) unknown(table, where, name);
        if (o->scope == OPTION_OF_CALL || !option_takes_value(o))
            die(STATUS_USAGE, "%s%s: stands on the command line only", where, name);
        value = unquoted(value);
        if (!value) die(STATUS_USAGE, "%s%s: the quotes do not match", where, name);
        set(table, o, settings, where, option_is_text(o) ? kept(value) : value);
    }
    free(line);
    if (ferror(file)) die(STATUS_MACHINE, "config: %s: %s", path, strerror(errno));
    fclose(file);
    return !changed;
}

void options_read(const struct option *table, void *settings, const char *path) {
    if (!options_load(table, settings, path))
        notice("%s was changed after the program wrote it: its checksum differs", path);
}

/* Goes through argv: with `files` only to read the files that OPTION_FILE names, so that they stand
   before all else, then without to set every option. */
static void read_arguments(const struct option *table, void *settings, int argc, char **argv,
                           bool files) {
    bool named = true; // until "--"
    const char *operand = NULL;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (named && !strcmp(argument, "--")) {
            named = false;
            continue;
        }
        if (!named || argument[0] != '-' || !argument[1]) {
            if (operand)
                die(STATUS_USAGE, "%s: one corpus is enough, and %s was given already", argument,
                    operand);
            for (const struct option *o = table; !files && o->kind != OPTION_END; o++)
                if (o->kind == OPTION_OPERAND) set(table, o, settings, "", argument);
            operand = argument;
            continue;
        }
        if (argument[1] != '-')
            die(STATUS_USAGE, "%s: options begin with -- (--help lists them)", argument);
        const char *name = argument + 2, *equals = strchr(name, '=');
        size_t length = equals ? (size_t)(equals - name) : strlen(name);
        const struct option *o = find(table, name, length);
        if (!o) {
            char text[64];
            snprintf(text, sizeof text, "%.*s", (int)length, name);
            unknown(table, "--", text);
        }
        if (!option_takes_value(o) && equals) die(STATUS_USAGE, "--%s: takes no value", o->name);
        const char *value = equals ? equals + 1 : NULL;
        bool valued = i + 1 < argc && (o->kind != OPTION_SWITCH || is_switch(argv[i + 1]));
        if (o->kind == OPTION_SWITCH && !value && !valued) value = "on";
        if (option_takes_value(o) && !value) {
            if (++i == argc) die(STATUS_USAGE, "--%s: needs a value (--%s=...)", o->name, o->name);
            value = argv[i];
        }
        if (!files || o->kind == OPTION_FILE) set(table, o, settings, "--", value);
        if (o->kind == OPTION_OPERAND && operand)
            die(STATUS_USAGE, "--%s=%s: one corpus is enough, and %s was given already", o->name,
                value, operand);
        if (o->kind == OPTION_OPERAND) operand = value;
        if (files && o->kind == OPTION_FILE) options_read(table, settings, value);
        if (o->kind == OPTION_STOP) return;
    }
}

void options_start(const struct option *table, void *settings) {
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (option_is_text(o))
            *option_text(o, settings) = o->start;
        else if (o->start && o->kind != OPTION_ALIAS)
            set(table, o, settings, "--", o->start);
    }
}

void options_arguments(const struct option *table, void *settings, int argc, char **argv) {
    read_arguments(table, settings, argc, argv, true);
    read_arguments(table, settings, argc, argv, false);
}

bool options_set(const struct option *table, void *settings, const char *where, const char *name,
                 const char *value) {
    const struct option *o = find(table, name, strlen(name));
    if (!o || o->scope == OPTION_OF_CALL || !option_takes_value(o)) return false;
    set(table, o, settings, where, option_is_text(o) ? kept(value) : value);
    return true;
}

void options_agree(const struct option *table, const void *stored, const void *settings,
                   enum option_scope scope, const char *where) {
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        bool bound = o->scope == OPTION_OF_MODEL || o->scope == scope;
        char was[64], is[64];
        const char *before = bound ? option_value(o, stored, was, sizeof was) : NULL;
        const char *now = bound ? option_value(o, settings, is, sizeof is) : NULL;
        if (before && now && strcmp(before, now) != 0)
            die(STATUS_USAGE, "--%s=%s: contradicts --%s=%s of %s", o->name, now, o->name, before,
                where);
    }
}
