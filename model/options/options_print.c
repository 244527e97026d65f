/* The table of options as text: values, config files, JSON, names that may have been meant. */
#include "data/crc32.h"
#include "data/die.h"
#include "data/files/json.h"
#include "data/format.h"
#include "model/options/options.h"
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

union option_data *option_data_of(const struct option *o, const void *settings) {
    return (union option_data *)((char *)settings + o->offset);
}

bool option_takes_value(const struct option *o) {
    return o->kind >= OPTION_SWITCH && o->kind <= OPTION_TEXT;
}

const char *option_choices(const struct option *o) {
    static char list[256];
    const char *name;
    if (o->kind == OPTION_SWITCH) return "on|off";
    list[0] = 0;
    for (int64_t i = 0; (name = option_choice_of(o, i).name); i++)
        format_add(list, sizeof list, "%s%s", i ? "|" : "", name);
    return list;
}

struct option_choice option_choice_of(const struct option *o, int64_t i) {
    int64_t named = 0;
    while (o->names && o->names[named] && named < i) named++;
    if (o->names && o->names[named]) return (struct option_choice){.name = o->names[i]};
    return o->choice ? o->choice(i - named) : (struct option_choice){0};
}

int64_t option_index(const struct option *o, const char *name) {
    struct option_choice choice;
    for (int64_t i = 0; (choice = option_choice_of(o, i)).name; i++)
        if (!strcmp(choice.name, name) || (choice.full_name && !strcmp(choice.full_name, name)))
            return i;
    return -1;
}

bool option_is_auto(const struct option *o, const void *settings) {
    const union option_data *data = option_data_of(o, settings);
    if (!o->start || strcmp(o->start, "auto") != 0) return false;
    if (o->kind == OPTION_CHOICE) return data->integer == option_index(o, "auto");
    return o->kind == OPTION_REAL ? data->real == OPTION_AUTO : data->integer == OPTION_AUTO;
}

const char *option_value(const struct option *o, const void *settings, char *text, size_t size) {
    const union option_data *data = option_data_of(o, settings);
    if (option_is_auto(o, settings)) return "auto";
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_SWITCH: return data->integer ? "on" : "off";
    case OPTION_INT: snprintf(text, size, "%lld", (long long)data->integer); return text;
    case OPTION_REAL:
        for (int digits = 6; digits <= 17; digits++) { // until the same number is read back
            snprintf(text, size, "%.*g", digits, data->real);
            if (strtod(text, NULL) == data->real) break;
        }
        return text;
    case OPTION_CHOICE: return option_choice_of(o, data->integer).name;
    case OPTION_TEXT: return data->text;
    default: return NULL;
    }
}

bool option_is_active(const struct option *o, const void *settings) {
    const struct condition *const *need = o->needs;
    while (*need && (*need)->holds(settings, o)) need++;
    return !*need;
}

void option_lacks(const struct option *o, const void *settings, char *text, size_t size) {
    text[0] = 0;
    for (const struct condition *const *need = o->needs; *need; need++)
        if (!(*need)->holds(settings, o))
            format_add(text, size, "%s%s", *text ? ", " : "", (*need)->text);
}

bool option_is_stored(const struct option *o) {
    return o->scope != OPTION_OF_CALL && option_takes_value(o);
}

void options_write(const struct option *table, const void *settings, const char *notes,
                   FILE *file) {
    char *lines = NULL, text[64];
    size_t length = 0;
    FILE *memory = open_memstream(&lines, &length);
    if (!memory) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        const char *value =
            option_is_stored(o) ? option_value(o, settings, text, sizeof text) : NULL;
        const char *quote = o->kind == OPTION_TEXT ? "\"" : "";
        if (!value) continue;
        fprintf(memory, "%s = %s", o->name, quote);
        for (; *value; value++) {
            if (*value == '"' || *value == '\\' || *value == '\n') fputc('\\', memory);
            fputc(*value == '\n' ? 'n' : *value, memory);
        }
        fprintf(memory, "%s\n", quote);
    }
    fputs(notes, memory);
    if (fclose(memory)) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    fwrite(lines, 1, length, file);
    fprintf(file, OPTIONS_CHECKSUM "%08x\n", crc32_of(0, lines, length));
    free(lines);
}

void option_write_json(const struct option *o, const void *settings, FILE *file) {
    char text[64];
    const char *value = option_value(o, settings, text, sizeof text);
    const bool number = o->kind == OPTION_INT || o->kind == OPTION_REAL;
    if (o->kind == OPTION_SWITCH || o->kind == OPTION_FLAG)
        fputs(strcmp(value, "on") ? "false" : "true", file);
    else if (!value || (number && strcmp(value, "auto") != 0))
        fputs(value ? value : "null", file);
    else
        json_string(file, value);
}

void options_write_json(const struct option *table, const void *settings, FILE *file) {
    const char *separator = "";
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (!option_is_stored(o)) continue;
        fprintf(file, "%s\n    \"%s\": ", separator, o->name);
        option_write_json(o, settings, file);
        separator = ",";
    }
}

static void put_member(FILE *file, const char *name, const char *text) {
    if (!text) return;
    fprintf(file, ", \"%s\": ", name);
    json_string(file, text);
}

void options_table_json(const struct option *table, FILE *file) {
    static const char *const kinds[] = {
        [OPTION_FLAG] = "flag",  [OPTION_SWITCH] = "switch", [OPTION_INT] = "integer",
        [OPTION_REAL] = "real",  [OPTION_CHOICE] = "choice", [OPTION_TEXT] = "text",
        [OPTION_ALIAS] = "alias"};
    const char *topic = "", *value;
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) topic = o->name;
        if (o->kind == OPTION_HEADING) continue;
        fputs(o == table + 1 ? "[{\"name\": " : ",\n {\"name\": ", file);
        json_string(file, o->name);
        put_member(file, "topic", topic);
        put_member(file, "kind", o->role == OPTION_HELP ? "topic" : kinds[o->kind]);
        put_member(file, o->kind == OPTION_ALIAS ? "for" : "default", o->start);
        if (o->kind == OPTION_INT || o->kind == OPTION_REAL)
            fprintf(file, ", \"min\": %.17g, \"max\": %.17g", o->min, o->max);
        for (int64_t i = 0; o->kind == OPTION_CHOICE && (value = option_choice_of(o, i).name);
             i++) {
            fputs(i ? ", " : ", \"values\": [", file);
            json_string(file, value);
        }
        if (o->kind == OPTION_CHOICE) fputc(']', file);
        for (int i = 0; o->needs[i]; i++) {
            fputs(i ? ", " : ", \"needs\": [", file);
            json_string(file, o->needs[i]->text);
        }
        if (o->needs[0]) fputc(']', file);
        if (o->watching) fputs(", \"watching\": true", file);
        if (o->scope == OPTION_OF_MODEL) fputs(", \"of_model\": true", file);
        put_member(file, "help", o->help);
        fputc('}', file);
    }
    fputs("]\n", file);
}

void options_agree(const struct option *table, const void *stored, const void *settings,
                   enum option_scope scope, const char *where, const char *hint) {
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->scope != OPTION_OF_MODEL && o->scope != scope) continue;
        char was[64], is[64];
        const char *before = option_value(o, stored, was, sizeof was);
        const char *given = option_value(o, settings, is, sizeof is);
        if (!before != !given)
            die(STATUS_USAGE, "--%s=%s: contradicts %s, which has %s --%s (%s)", o->name,
                given ? given : "", where, given ? "no" : "a", o->name, hint);
        if (given && strcmp(before, given) != 0)
            die(STATUS_USAGE, "--%s=%s: contradicts --%s=%s of %s (%s)", o->name, given, o->name,
                before, where, hint);
    }
}

/* ---- what a mistyped name may have meant ---- */

enum { NAME_MAX_LENGTH = 40 }; // a longer name is never suggested and has no suggestion

/* `name` in lower case with '-' for '_'; false if it is empty or too long. */
static bool normalize(char normal[NAME_MAX_LENGTH + 1], const char *name) {
    size_t length = strlen(name);
    if (!length || length > NAME_MAX_LENGTH) return false;
    for (size_t i = 0; i <= length; i++)
        normal[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    return true;
}

/* Letters to insert, delete, replace or swap with their neighbour to turn a into b (optimal string
   alignment, Damerau 1964). */
static int distance(const char *a, const char *b) {
    int n = (int)strlen(a), m = (int)strlen(b), d[NAME_MAX_LENGTH + 1][NAME_MAX_LENGTH + 1];
    for (int i = 0; i <= n; i++)
        for (int j = 0; j <= m; j++) {
            int least = i && j ? d[i - 1][j - 1] + (a[i - 1] != b[j - 1]) : i + j;
            if (i && j && d[i - 1][j] + 1 < least) least = d[i - 1][j] + 1;
            if (i && j && d[i][j - 1] + 1 < least) least = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < least)
                least = d[i - 2][j - 2] + 1;
            d[i][j] = least;
        }
    return d[n][m];
}

/* Whether a shortens each of b's first words, as "max-it" and "mi" do of "max-iters". '-' separates
   words. */
static bool abbreviates(const char *a, const char *b) {
    while (*a) {
        if (*a != *b) return false;
        while (*a && *a != '-' && *a == *b) a++, b++;
        a += *a == '-';
        b += strcspn(b, "-");
        b += *b == '-';
    }
    return true;
}

/* How likely `name` is as the meaning of what was typed, 0 if it is too far from it. The shorter
   the name, the fewer mistakes are allowed. */
static int likelihood(const char *typed, const char *name) {
    char a[NAME_MAX_LENGTH + 1], b[NAME_MAX_LENGTH + 1];
    if (!normalize(a, typed) || !normalize(b, name)) return 0;
    int length = (int)strlen(a), changes = distance(a, b);
    const char *end = strlen(b) > strlen(a) ? b + strlen(b) - strlen(a) : b; // as long as a
    if (changes == 0) return 6;
    if (length > 1 && (changes == 1 || (end > b && end[-1] == '-' && !strcmp(end, a)))) return 5;
    if (abbreviates(a, b)) return 4;
    if (changes == 2 && length > 4) return 3;
    for (const char *word = strchr(b, '-'); length > 2 && word; word = strchr(word + 1, '-'))
        if (abbreviates(a, word + 1)) return 2;
    return changes == 3 && length > 7;
}

void suggestions_consider(struct suggestions *found, const char *typed, const char *before,
                          const char *name) {
    const int likely = likelihood(typed, name);
    if (!likely || likely < found->likely) return;
    if (likely > found->likely) *found = (struct suggestions){.before = before, .likely = likely};
    if (found->count < SUGGESTIONS) found->name[found->count] = name;
    found->count++;
}

const char *suggestions_text(struct suggestions *found, const char *otherwise) {
    if (!found->count || found->count > SUGGESTIONS) return otherwise;
    for (int i = 0; i < found->count; i++)
        format_add(found->text, sizeof found->text, "%s%s%s",
                   !i                     ? "did you mean "
                   : i + 1 < found->count ? ", "
                                          : " or ",
                   found->before, found->name[i]);
    format_add(found->text, sizeof found->text, "?");
    return found->text;
}
