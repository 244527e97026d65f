#include "data/files/options_help.h"
#include "data/die.h"
#include "data/files/suggest.h"
#include <string.h>

enum { WIDTH = 79 };

void option_form(const struct option *o, char *form) {
    const char *value = o->metavar                                             ? o->metavar
                        : o->kind == OPTION_INT                                ? "N"
                        : o->kind == OPTION_REAL                               ? "X"
                        : o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH ? option_choices(o)
                                                                               : "TEXT";
    if (o->kind == OPTION_HELP)
        snprintf(form, OPTION_FORM, "-%c, --%s[=%s]", o->letter, o->name, value);
    else if (option_takes_value(o) || (o->kind == OPTION_ALIAS && o->metavar))
        snprintf(form, OPTION_FORM, "--%s=%s", o->name, value);
    else
        snprintf(form, OPTION_FORM, "--%s", o->name);
}

void option_describe(const struct manual *m, const struct option *o, char *text) {
    char needs[OPTION_FORM] = "";
    size_t used = (size_t)snprintf(text, OPTION_NOTE, "%s", o->help);
    if (m->needs) m->needs(o, needs, sizeof needs);
    if (*needs) used += (size_t)snprintf(text + used, OPTION_NOTE - used, "; only %s", needs);
    if (option_takes_value(o) && o->start)
        used += (size_t)snprintf(text + used, OPTION_NOTE - used, "; default %s", o->start);
    if (o->kind == OPTION_INT)
        snprintf(text + used, OPTION_NOTE - used, ", range %.0f to %.0f", o->min, o->max);
    if (o->kind == OPTION_REAL)
        snprintf(text + used, OPTION_NOTE - used, ", range %g to %g", o->min, o->max);
}

/* Writes `text` in lines of at most WIDTH columns, of which the first `indent` are blank. The
   cursor is already at column `indent` of the first line. */
static void put_wrapped(FILE *file, const char *text, size_t indent) {
    size_t column = indent;
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        for (size_t n = WIDTH - indent; length > WIDTH - indent && n; n--)
            if (word[n - 1] == '|') length = n; // A|B|..., longer than a line
        bool first = column == indent;
        if (!first && column + 1 + length > WIDTH) {
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

static void put_row(FILE *file, const char *form, const char *text, size_t indent) {
    if (strlen(form) + 3 > indent)
        fprintf(file, "  %s\n%*s", form, (int)indent, "");
    else
        fprintf(file, "  %-*s", (int)indent - 2, form);
    put_wrapped(file, text, indent);
}

static void put_option(const struct manual *m, const struct option *o, FILE *file) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    option_form(o, form);
    option_describe(m, o, text);
    put_row(file, form, text, 28);
}

void options_list_title(const struct option *table, const char *topic, char *text) {
    const struct option *o = options_find(table, topic); // the option that takes the names
    snprintf(text, OPTION_FORM, "%s is one of:", o && o->metavar ? o->metavar : "It");
}

/* The rows after a heading, up to the next one, and the list at the end of the topic. */
static void put_topic(const struct manual *m, const struct option *heading, FILE *file) {
    char text[OPTION_NOTE], title[OPTION_FORM];
    fprintf(file, "%s:\n", heading->help);
    for (const struct option *o = heading + 1; o->kind != OPTION_HEADING && o->kind != OPTION_END;
         o++)
        put_option(m, o, file);
    const char *name;
    for (int64_t i = 0; m->entry && (name = m->entry(heading->name, i, text, sizeof text)); i++) {
        if (!i) {
            options_list_title(m->table, heading->name, title);
            fprintf(file, "\n  %s\n", title);
        }
        put_row(file, name, text, 28);
    }
}

/* The values of a choice, for a form that shows a placeholder instead. */
static void put_values(const struct option *o, FILE *file) {
    char text[OPTION_NOTE];
    size_t used = (size_t)snprintf(text, sizeof text, "Values:");
    for (int64_t i = 0; option_choice_name(o, i) && used < sizeof text; i++) {
        const char *synonym = o->synonym ? o->synonym(i) : NULL;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s", i ? "," : "",
                                 option_choice_name(o, i));
        if (synonym && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " (%s)", synonym);
    }
    fputs("\n  ", file);
    put_wrapped(file, text, 2);
}

/* The names of all topics, separated by blanks. */
static void topics_text(const struct option *table, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "all");
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_HEADING && used < size)
            used += (size_t)snprintf(text + used, size - used, " %s", o->name);
}

static void put_first_page(const struct manual *m, FILE *file) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    fprintf(file, "Usage: %s [OPTION]... [CORPUS]\n", m->command);
    put_wrapped(file, m->introduction, 0);
    fputc('\n', file);
    for (const struct option *o = m->table; o->kind != OPTION_END; o++) {
        if (!o->basic) continue;
        option_form(o, form);
        int length = (int)strcspn(o->help, ";");
        bool told = option_takes_value(o) && o->start;
        snprintf(text, sizeof text, "%.*s%s%s", length, o->help, told ? "; default " : "",
                 told ? o->start : "");
        put_row(file, form, text, 24);
    }
    fputs("\nMore: --help=TOPIC, --help=OPTION for one option, --help=all. Topics:\n  ", file);
    topics_text(m->table, text, sizeof text);
    put_wrapped(file, text + strlen("all "), 2);
}

static _Noreturn void unknown_topic(const struct option *table, const char *topic) {
    struct suggestions found = {0};
    char topics[256], near[256];
    topics_text(table, topics, sizeof topics);
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->name) suggest_consider(&found, topic, o->name);
    const char *hint = suggest_text(&found, "", NULL, near, sizeof near);
    die(STATUS_USAGE, "--help=%s: no such topic or option (%s%stopics: %s)", topic,
        hint ? hint : "", hint ? " " : "", topics);
}

void options_help(const struct manual *m, const char *topic, FILE *file) {
    const struct option *heading = m->table;
    while (heading->kind != OPTION_END &&
           !(heading->kind == OPTION_HEADING && !strcmp(heading->name, topic)))
        heading++;
    const struct option *o = options_find(m->table, topic);
    if (!*topic) {
        put_first_page(m, file);
    } else if (!strcmp(topic, "man")) {
        options_man(m, file);
    } else if (!strcmp(topic, "completion")) {
        options_completion(m, file);
    } else if (!strcmp(topic, "all")) {
        fprintf(file, "Usage: %s [OPTION]... [CORPUS]\n", m->command);
        put_wrapped(file, m->introduction, 0);
        for (heading = m->table; heading->kind != OPTION_END; heading++) {
            if (heading->kind != OPTION_HEADING) continue;
            fputc('\n', file);
            put_topic(m, heading, file);
        }
    } else if (heading->kind == OPTION_HEADING) {
        put_topic(m, heading, file);
    } else if (o) {
        put_option(m, o, file);
        if (o->kind == OPTION_CHOICE && o->metavar) put_values(o, file);
    } else {
        unknown_topic(m->table, topic);
    }
}
