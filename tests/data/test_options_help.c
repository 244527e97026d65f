/* What --help says about an option, and what every row of the program's table must hold. */
#include "data/files/options_help.h"
#include "model/lab/help.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What --help says about an option, as one line with single blanks, in a static buffer. */
static const char *help_line(const struct option *option) {
    static char line[1024];
    char *text = NULL;
    size_t size, length = strlen(option->name);
    FILE *file = open_memstream(&text, &size);
    options_help(&help_manual, "all", file);
    fclose(file);
    *line = 0;
    for (char *at = text; (at = strstr(at, "\n  --")); at++) {
        if (strncmp(at + 5, option->name, length) || !strchr("= \n", at[5 + length])) continue;
        char *next = strstr(at + 1, "\n  --"), *heading = strstr(at + 1, "\n\n"), *rest;
        if (next) *next = 0;
        if (heading) *heading = 0;
        for (char *word = strtok_r(at, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
            strcat(strcat(line, *line ? " " : ""), word);
        break;
    }
    free(text);
    return line;
}

/* Fails unless the line says all that the row says. */
static void expect_help(const struct option *o) {
    const char *line = help_line(o);
    cr_expect(*line, "--%s is not in the help", o->name);
    cr_expect(strstr(line, o->help), "--%s: no explanation: %s", o->name, line);
    char part[256];
    bool ranged = o->kind == OPTION_INT || o->kind == OPTION_REAL;
    if (o->start && o->kind != OPTION_ALIAS) {
        snprintf(part, sizeof part, "; default %s", o->start);
        cr_expect(strstr(line, part), "--%s: no default: %s", o->name, line);
    }
    const char *range = strstr(line, ", range ");
    cr_expect(ranged == !!range, "--%s: range: %s", o->name, line);
    if (range) {
        char *end;
        cr_expect(strtod(range + 8, &end) == o->min, "--%s: minimum: %s", o->name, line);
        cr_assert(!strncmp(end, " to ", 4));
        cr_expect(strtod(end + 4, &end) == o->max, "--%s: maximum: %s", o->name, line);
        cr_expect(!*end);
    }
    for (int64_t i = 0; o->kind == OPTION_CHOICE && !o->metavar && option_choice_name(o, i); i++)
        cr_expect(strstr(line, option_choice_name(o, i)), "--%s: no %s: %s", o->name,
                  option_choice_name(o, i), line);
}

static bool has_value(const struct option *o) {
    return o->kind == OPTION_INT || o->kind == OPTION_REAL || o->kind == OPTION_CHOICE ||
           o->kind == OPTION_SWITCH;
}

Test(options, every_option_of_the_program_has_help) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && o->kind != OPTION_HELP) expect_help(o);
    static const char *const names[] = {"seed", "out", "bias", "schedule"};
    static const char *const starts[] = {"--seed=N ", "--out=DIR ", "--bias=on|off ",
                                         "--schedule=cosine|linear|constant|wsd "};
    for (int i = 0; i < 4; i++) {
        const char *line = help_line(options_find(config_options, names[i]));
        cr_expect(!strncmp(line, starts[i], strlen(starts[i])), "%s", line);
    }
}

Test(options, the_program_s_names_are_unique_and_plain) {
    size_t count = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++, count++) {
        if (o->kind == OPTION_HEADING) continue;
        cr_expect(strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(o->name));
        cr_expect(o->name[0] != '-' && strlen(o->name) <= 24, "--%s", o->name);
        for (const struct option *p = config_options; p < o; p++)
            cr_expect(p->kind == OPTION_HEADING || strcmp(p->name, o->name) != 0, "--%s twice",
                      o->name);
    }
    cr_expect(count > 30);
}

Test(options, the_program_s_values_have_places_of_their_own) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING || o->kind == OPTION_ALIAS) continue;
        cr_expect(o->offset + 8 <= sizeof(struct config) && o->offset % 8 == 0, "--%s", o->name);
        for (const struct option *p = config_options; p < o; p++)
            cr_expect(p->kind == OPTION_HEADING || p->kind == OPTION_ALIAS ||
                          p->offset != o->offset,
                      "--%s and --%s", o->name, p->name);
    }
}

Test(options, the_program_s_defaults_are_in_range) {
    static struct config config;
    char text[64];
    config_start(&config);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!has_value(o)) continue;
        cr_assert(o->start, "--%s has no default", o->name);
        const char *value = option_value(o, &config, text, sizeof text);
        if (o->kind != OPTION_INT && o->kind != OPTION_REAL) {
            cr_expect_str_eq(value, o->start);
        } else if (strcmp(o->start, "auto") != 0) {
            cr_expect(o->min < o->max, "--%s", o->name);
            cr_expect(strtod(o->start, NULL) >= o->min && strtod(o->start, NULL) <= o->max);
            cr_expect(strtod(value, NULL) == strtod(o->start, NULL), "--%s", o->name);
        }
    }
}

/* Both ends of every range are accepted, stored in a file, and read back unchanged. */
Test(options, the_program_s_ranges_hold_their_ends) {
    for (int end = 0; end < 2; end++)
        for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
            if (o->kind != OPTION_INT && o->kind != OPTION_REAL) continue;
            static struct config config, read;
            char argument[128], value[64], text[64], again[64];
            snprintf(value, sizeof value, "%.*g", o->kind == OPTION_INT ? 19 : 17,
                     end ? o->max : o->min);
            snprintf(argument, sizeof argument, "--%s=%s", o->name, value);
            config_start(&config);
            options_arguments(config_options, &config, 2, (char *[]){"train", argument, NULL});
            option_value(o, &config, text, sizeof text);
            cr_expect(strtod(text, NULL) == strtod(value, NULL), "%s became %s", argument, text);
            if (o->scope == OPTION_OF_CALL) continue;
            FILE *file = fopen("config.ini", "w");
            options_write(config_options, &config, file);
            fclose(file);
            config_start(&read);
            options_arguments(config_options, &read, 2,
                              (char *[]){"train", "--config=config.ini", NULL});
            option_value(o, &read, again, sizeof again);
            cr_expect_str_eq(again, text);
        }
}
