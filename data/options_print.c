/* The table of options as text: values, config files, JSON, --help. */
#include "crc32.h"
#include "die.h"
#include "json.h"
#include "options.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int64_t *option_int(const struct option *o, void *settings) {
    return (int64_t *)((char *)settings + o->offset);
}

double *option_real(const struct option *o, void *settings) {
    return (double *)((char *)settings + o->offset);
}

const char **option_text(const struct option *o, void *settings) {
    return (const char **)((char *)settings + o->offset);
}

bool option_is_text(const struct option *o) {
    return o->kind == OPTION_TEXT || o->kind == OPTION_OPERAND || o->kind == OPTION_FILE;
}

bool option_takes_value(const struct option *o) {
    return option_is_text(o) || o->kind == OPTION_SWITCH || o->kind == OPTION_INT ||
           o->kind == OPTION_REAL || o->kind == OPTION_CHOICE;
}

const char *option_choices(const struct option *o) {
    static char list[256];
    if (o->kind == OPTION_SWITCH) return "on|off";
    size_t used = 0;
    list[0] = 0;
    for (int64_t i = 0; o->choice(i) && used < sizeof list; i++)
        used += snprintf(list + used, sizeof list - used, "%s%s", i ? "|" : "", o->choice(i));
    return list;
}

const char *option_value(const struct option *o, const void *settings, char *text, size_t size) {
    void *s = (void *)settings;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_STOP:
    case OPTION_SWITCH:
        snprintf(text, size, "%s", *option_int(o, s) ? "on" : "off");
        return text;
    case OPTION_INT:
        if (*option_int(o, s) == OPTION_AUTO && !strcmp(o->start, "auto")) return "auto";
        snprintf(text, size, "%lld", (long long)*option_int(o, s));
        return text;
    case OPTION_REAL:
        if (*option_real(o, s) == OPTION_AUTO && !strcmp(o->start, "auto")) return "auto";
        for (int digits = 6; digits <= 17; digits++) { // the fewest that read back as the same
            snprintf(text, size, "%.*g", digits, *option_real(o, s));
            if (strtod(text, NULL) == *option_real(o, s)) break;
        }
        return text;
    case OPTION_CHOICE:
        return o->choice(*option_int(o, s));
    case OPTION_TEXT:
    case OPTION_OPERAND:
    case OPTION_FILE:
        return *option_text(o, s);
    case OPTION_ALIAS:
    case OPTION_HEADING:
    case OPTION_END:
        break;
    }
    return NULL;
}

static bool of_run(const struct option *o) {
    return o->scope != OPTION_OF_CALL && option_takes_value(o);
}

static void put_options(const struct option *table, const void *settings, FILE *file) {
    char text[64];
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        const char *value = of_run(o) ? option_value(o, settings, text, sizeof text) : NULL;
        if (!value) continue;
        fprintf(file, "%s = ", o->name);
        if (option_is_text(o)) {
            fputc('"', file);
            for (const char *c = value; *c; c++) {
                if (*c == '"' || *c == '\\' || *c == '\n') fputc('\\', file);
                fputc(*c == '\n' ? 'n' : *c, file);
            }
            fputs("\"\n", file);
        } else {
            fprintf(file, "%s\n", value);
        }
    }
}

void options_write(const struct option *table, const void *settings, FILE *file) {
    char *lines = NULL;
    size_t length = 0;
    FILE *memory = open_memstream(&lines, &length);
    if (memory) put_options(table, settings, memory);
    if (!memory || fclose(memory)) die(STATUS_MACHINE, "memory: %s", strerror(errno));
    fwrite(lines, 1, length, file);
    fprintf(file, OPTIONS_SEAL "%08x\n", crc32_of(0, lines, length));
    free(lines);
}

void options_write_json(const struct option *table, const void *settings, FILE *file) {
    char text[64];
    const char *separator = "";
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (!of_run(o)) continue;
        const char *value = option_value(o, settings, text, sizeof text);
        bool number = o->kind == OPTION_INT || o->kind == OPTION_REAL;
        fprintf(file, "%s\n    \"%s\": ", separator, o->name);
        if (!value)
            fputs("null", file);
        else if (o->kind == OPTION_SWITCH)
            fputs(*value == 'o' && value[1] == 'n' ? "true" : "false", file);
        else if (number && strcmp(value, "auto") != 0)
            fputs(value, file);
        else
            json_string(file, value);
        separator = ",";
    }
}

/* `text` in lines of at most 79 columns behind the first `indent`, where the line stands already.
 */
static void put_wrapped(FILE *file, const char *text, size_t indent) {
    size_t column = indent;
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        bool first = column == indent;
        if (!first && column + 1 + length > 79) {
            fprintf(file, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        fprintf(file, "%s%.*s", first ? "" : " ", (int)length, word);
        column += length + !first;
        word += length;
    }
    fputc('\n', file);
}

void options_help(const struct option *table, FILE *file) {
    enum { INDENT = 28 };
    for (const struct option *o = table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) {
            fprintf(file, "\n%s:\n", o->help);
            continue;
        }
        char form[256], text[512];
        const char *value = o->metavar               ? o->metavar
                            : o->kind == OPTION_INT  ? "N"
                            : o->kind == OPTION_REAL ? "X"
                            : o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH
                                ? option_choices(o)
                                : "TEXT";
        if (option_takes_value(o))
            snprintf(form, sizeof form, "--%s=%s", o->name, value);
        else
            snprintf(form, sizeof form, "--%s", o->name);
        size_t used = snprintf(text, sizeof text, "%s", o->help);
        if (option_takes_value(o) && o->start)
            used += snprintf(text + used, sizeof text - used, "; default %s", o->start);
        if (o->kind == OPTION_INT)
            snprintf(text + used, sizeof text - used, ", range %.0f to %.0f", o->least, o->most);
        if (o->kind == OPTION_REAL)
            snprintf(text + used, sizeof text - used, ", range %g to %g", o->least, o->most);
        if (strlen(form) + 3 > INDENT)
            fprintf(file, "  %s\n%*s", form, INDENT, "");
        else
            fprintf(file, "  %-*s", INDENT - 2, form);
        put_wrapped(file, text, INDENT);
    }
}
