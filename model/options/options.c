/* Reads options: from a file, whose lines are "name = value", and from the command line.
   options_print.c writes them. */
#include "model/options/options.h"
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/file.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct option *find(const struct option *table, const char *name, size_t length) {
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && strlen(o->name) == length &&
            !memcmp(o->name, name, length))
            return o;
    return NULL;
}

const struct option *options_find(const struct option *table, const char *name) {
    return find(table, name, strlen(name));
}

size_t options_place(const struct option *const *list, const struct option *option) {
    size_t place = 0;
    while (list[place] && list[place] != option) place++;
    return place;
}

void options_add(const struct option **list, const struct option *const *options) {
    for (; *options; options++) {
        const size_t place = options_place(list, *options);
        if (place == KIND_OPTIONS_MAX)
            die(STATUS_USAGE, "--%s: kinds have too many options (raise KIND_OPTIONS_MAX)",
                (*options)->name);
        list[place] = *options;
    }
}

/* The option that an alias stands for; any other row itself. */
static const struct option *meant(const struct option *table, const struct option *o) {
    return o->kind == OPTION_ALIAS ? find(table, o->start, strcspn(o->start, "=")) : o;
}

/* The value that an alias gives, "pre" if it is short for "placement=pre"; NULL for other rows. */
static const char *fixed_value(const struct option *o) {
    const char *equals = o->kind == OPTION_ALIAS ? strchr(o->start, '=') : NULL;
    return equals ? equals + 1 : NULL;
}

/* Dies: no option has this name. `where` is "--" on the command line, "FILE:LINE: " in a file. */
static _Noreturn void unknown(const struct option *table, const char *where, const char *name) {
    struct suggestions found = {0};
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING) suggestions_consider(&found, name, "--", o->name);
    die(STATUS_USAGE, "%s%s: no such option (%s)", where, name,
        suggestions_text(&found, "--help=all lists them"));
}

static _Noreturn void refuse(const struct option *o, const char *where, const char *value) {
    const char *automatic = o->start && !strcmp(o->start, "auto") ? ", or auto" : "";
    if (o->kind == OPTION_INT)
        die(STATUS_USAGE, "%s%s=%s: must be a whole number from %.0f to %.0f%s", where, o->name,
            value, o->min, o->max, automatic);
    if (o->kind == OPTION_REAL)
        die(STATUS_USAGE, "%s%s=%s: must be a number from %g to %g%s", where, o->name, value,
            o->min, o->max, automatic);
    if (o->kind == OPTION_TEXT) die(STATUS_USAGE, "%s%s: must not be empty", where, o->name);
    struct suggestions found = {0};
    struct option_choice choice;
    for (int64_t i = 0; (choice = option_choice_of(o, i)).name; i++) {
        suggestions_consider(&found, value, "", choice.name);
        if (choice.full_name) suggestions_consider(&found, value, "", choice.full_name);
    }
    const char *near = suggestions_text(&found, NULL);
    die(STATUS_USAGE, "%s%s=%s: must be one of %s%s%s%s", where, o->name, value, option_choices(o),
        near ? " (" : "", near ? near : "", near ? ")" : "");
}

static bool is_switch(const char *value) {
    return !strcmp(value, "on") || !strcmp(value, "off");
}

/* Reads a number, which must be whole for an INT, as digits or as in 2.5e3; false if it is none. */
static bool parse_number(const char *text, bool integer, long double *number) {
    char *end;
    if (isspace((unsigned char)*text)) return false;
    if (integer && text[strspn(text, "0123456789+-.eE")]) return false; // it accepts more: 0x1p3
    errno = 0;
    *number = integer ? strtold(text, &end) : (long double)strtod(text, &end);
    return end != text && !*end && errno != ERANGE && !(integer && *number != truncl(*number));
}

static void set_number(const struct option *o, void *settings, const char *where,
                       const char *value) {
    const bool integer = o->kind == OPTION_INT;
    const bool automatic = !strcmp(value, "auto") && o->start && !strcmp(o->start, "auto");
    long double number = OPTION_AUTO;
    if (!automatic &&
        (!parse_number(value, integer, &number) || !(number >= o->min && number <= o->max)))
        refuse(o, where, value);
    if (integer)
        option_data_of(o, settings)->integer = (int64_t)number;
    else
        option_data_of(o, settings)->real = (double)number;
}

/* Sets an option that is not an alias. */
static void set(const struct option *o, void *settings, const char *where, const char *value) {
    switch (o->kind) {
    case OPTION_TEXT:
        if (value && !*value) refuse(o, where, value);
        option_data_of(o, settings)->text = value ? value : "";
        return;
    case OPTION_INT:
    case OPTION_REAL: set_number(o, settings, where, value); return;
    case OPTION_FLAG:
    case OPTION_SWITCH:
        if (!is_switch(value)) refuse(o, where, value);
        option_data_of(o, settings)->integer = !strcmp(value, "on");
        return;
    case OPTION_CHOICE:
        if (option_index(o, value) < 0) {
            const char *added = o->add ? o->add(o->name, value) : NULL;
            if (!added) refuse(o, where, value);
            value = added;
        }
        option_data_of(o, settings)->integer = option_index(o, value);
        return;
    default: return;
    }
}

/* The text of a value in a config file: the text itself, or the text between quotes, with \ before
   " and \. Changes `value`; NULL if a quote is missing. */
static char *unquoted(char *value) {
    if (*value != '"') return value;
    char *to = value, *from = value + 1;
    for (; *from && *from != '"'; from++) {
        const bool escaped = *from == '\\' && from[1];
        if (escaped) from++;
        *to++ = escaped && *from == 'n' ? '\n' : *from;
    }
    if (*from != '"' || from[1]) return NULL;
    *to = 0;
    return value;
}

struct kept_text {
    struct kept_text *before;
    char value[];
};

/* A copy of a text from a file. Settings point to it, so it is kept until the program ends. */
static const char *kept(const char *value) {
    static struct kept_text *last;
    struct kept_text *text = memory_take(1, sizeof *text + strlen(value) + 1, "the options");
    strcpy(text->value, value);
    text->before = last;
    last = text;
    return text->value;
}

enum { LINE_BYTES = 1 << 14, FILE_BYTES = 1 << 18 }; // that a file of options may have

bool options_read(const struct option *table, void *settings, const char *path) {
    FILE *file = file_open("config", path);
    char line[LINE_BYTES], where[512], checksum[64] = "";
    ssize_t length;
    size_t bytes = 0;
    uint32_t crc = 0; // of the lines before
    bool changed = false;
    for (int number = 1; (length = file_line(file, line, sizeof line)) != 0; number++) {
        snprintf(where, sizeof where, "%.480s:%d: ", path, number);
        if (length < 0 || (bytes += (size_t)length) > FILE_BYTES)
            die(STATUS_USAGE, "config: %s: is too large for a file of options", path);
        if (strlen(line) != (size_t)length)
            die(STATUS_USAGE, "%sa NUL byte (not a config file?)", where);
        if (*checksum || !strncmp(line, OPTIONS_CHECKSUM, strlen(OPTIONS_CHECKSUM))) {
            snprintf(checksum, sizeof checksum, OPTIONS_CHECKSUM "%08x\n", crc);
            changed |= strcmp(line, checksum) != 0;
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
        if (!fixed_value(o)) o = meant(table, o);
        if (!option_is_stored(o))
            die(STATUS_USAGE, "%s%s: is allowed on the command line only", where, name);
        value = unquoted(value);
        if (!value) die(STATUS_USAGE, "%s%s: the quotes do not match", where, name);
        set(o, settings, where, o->kind == OPTION_TEXT ? kept(value) : value);
    }
    if (ferror(file)) die(STATUS_MACHINE, "config: %s: %s", path, strerror(errno));
    fclose(file);
    if (changed) notice("%s was changed after the program wrote it: its checksum differs", path);
    return !changed;
}

/* One argument: the option that it gives, and the value. */
struct argument {
    const struct option *option;
    const char *word, *value; // the word of argv; NULL for --help without a topic
    bool fixed;               // the name stands for the value too, as --preln does
};

/* How far argv has been read. */
struct reader {
    const struct option *table;
    int argc, next;
    char **argv;
    bool operands; // "--" was read: the rest are operands
};

/* The row that "--name", "--name=value" or "-h" names. */
static const struct option *named_row(const struct option *table, const char *argument) {
    const struct option *o;
    if (argument[1] != '-') {
        for (o = table; o->kind != OPTION_END; o++)
            if (o->role == OPTION_HELP && !strcmp(argument, "-h")) return o;
        if (find(table, argument + 1, strcspn(argument + 1, "=")))
            die(STATUS_USAGE, "%s: options start with -- (did you mean -%s?)", argument, argument);
        die(STATUS_USAGE, "%s: options start with -- (--help=all lists them)", argument);
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    o = options_find(table, name);
    if (!o) unknown(table, "--", name);
    return o;
}

static bool is_topic(const struct option *table, const char *word) {
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->name && !strcmp(o->name, word)) return true;
    return !strcmp(word, "all");
}

/* Whether the value of the option may be left out. */
static bool is_optional(const struct option *o) {
    return o->kind == OPTION_SWITCH || o->role == OPTION_HELP || o->role == OPTION_BARE;
}

/* The value of such an option, from the next argument if that is one of its values: a word of a
   switch, a topic of --help. Otherwise what the name alone stands for. */
static const char *optional_value(struct reader *r, const struct option *o) {
    const char *word = r->next < r->argc ? r->argv[r->next] : "-";
    const bool given = o->kind == OPTION_SWITCH ? is_switch(word)
                       : o->role == OPTION_HELP ? is_topic(r->table, word)
                                                : option_index(o, word) >= 0;
    if (given) return r->argv[r->next++];
    return o->kind == OPTION_SWITCH ? "on"
           : o->role == OPTION_HELP ? NULL
                                    : option_choice_of(o, 1).name;
}

/* Reads the next argument; false at the end. An option that stops ends the arguments. */
static bool next_argument(struct reader *r, struct argument *a) {
    if (r->next < r->argc && !r->operands && !strcmp(r->argv[r->next], "--")) {
        r->operands = true;
        r->next++;
    }
    if (r->next >= r->argc) return false;
    const char *word = r->argv[r->next++];
    *a = (struct argument){.option = r->table, .word = word, .value = word};
    if (r->operands || word[0] != '-' || !word[1]) {
        while (a->option->role != OPTION_OPERAND) a->option++;
        return true;
    }
    const struct option *row = named_row(r->table, word), *o = a->option = meant(r->table, row);
    const char *fixed = fixed_value(row), *equals = strchr(word, '=');
    const bool takes = !fixed && option_takes_value(o);
    a->fixed = fixed != NULL;
    if (equals && !takes) die(STATUS_USAGE, "--%s: takes no value", row->name);
    if (takes && !equals && !is_optional(o) && r->next == r->argc)
        die(STATUS_USAGE, "--%s: needs a value (--%s=...)", row->name, row->name);
    if (!takes)
        a->value = fixed ? fixed : "on";
    else if (equals)
        a->value = equals + 1;
    else
        a->value = is_optional(o) ? optional_value(r, o) : r->argv[r->next++];
    if (o->role == OPTION_STOP || o->role == OPTION_HELP) r->next = r->argc;
    return true;
}

/* Dies if an argument before `later` rules it out: `later` is a second operand, or it contradicts an
   alias for a value, such as --preln. `r` starts at the first argument; `end` is the one after
   `later`. */
static void check_repeated(struct reader r, const struct argument *later, int end) {
    struct argument earlier;
    const struct option *o = later->option;
    while (next_argument(&r, &earlier) && r.next < end) {
        if (earlier.option != o) continue;
        if (o->role == OPTION_OPERAND)
            die(STATUS_USAGE, "%s: is a second corpus (give only one; the first is %s)",
                later->word, earlier.value);
        if ((earlier.fixed || later->fixed) &&
            option_index(o, earlier.value) != option_index(o, later->value))
            die(STATUS_USAGE, "%s: contradicts %s (give one of them)", later->word, earlier.word);
    }
}

void options_start(const struct option *table, void *settings) {
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->start && o->kind != OPTION_ALIAS) set(o, settings, "--", o->start);
}

/* Sets the option, and those of the words "name=value" that its choice sets. */
static void set_all(const struct option *table, const struct option *o, void *settings,
                    const char *value) {
    char name[32], word[32];
    set(o, settings, "--", value);
    const bool chosen = o->kind == OPTION_CHOICE;
    const char *words =
        chosen ? option_choice_of(o, option_data_of(o, settings)->integer).sets : NULL;
    for (int length; words && sscanf(words, " %31[^=]=%31s%n", name, word, &length) == 2;
         words += length)
        set_all(table, options_find(table, name), settings, word);
}

void options_arguments(const struct option *table, void *settings, int argc, char **argv) {
    const struct reader start = {.table = table, .argc = argc, .next = 1, .argv = argv};
    struct argument a;
    for (struct reader r = start; next_argument(&r, &a);) {
        if (a.option->role != OPTION_FILE) continue;
        set(a.option, settings, "--", a.value);
        options_read(table, settings, a.value);
    }
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        for (struct reader r = start; option_choice_of(o, 0).sets && next_argument(&r, &a);)
            if (a.option == o) set_all(table, o, settings, a.value);
    for (struct reader r = start; next_argument(&r, &a);) {
        set(a.option, settings, "--", a.value);
        check_repeated(start, &a, r.next);
    }
}

bool options_given(const struct option *table, const struct option *option, int argc, char **argv) {
    struct argument a;
    struct reader r = {.table = table, .argc = argc, .next = 1, .argv = argv};
    while (next_argument(&r, &a))
        if (a.option == option) return true;
    return false;
}

bool options_set(const struct option *table, void *settings, const char *where, const char *name,
                 const char *value) {
    const struct option *o = find(table, name, strlen(name));
    if (!o || !option_is_stored(o)) return false;
    set(o, settings, where, o->kind == OPTION_TEXT ? kept(value) : value);
    return true;
}
