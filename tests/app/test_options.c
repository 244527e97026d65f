/* Options: the mechanism of model/options/options.h on a table of one option of each kind. On the
   command line, in files as --config reads them and as a run stores them, and as JSON. */
#include "data/die.h"
#include "model/options/config.h"
#include "tests/command.h"
#include "tests/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(options, .init = folder_enter, .fini = folder_leave);

struct settings {
    int64_t count, chosen, colour, lit, loud, stop;
    double rate, fraction;
    const char *file, *title, *config;
};

static const char *const colours[] = {"red", "green", "blue", NULL};

#define AT(member)       .offset = offsetof(struct settings, member)
#define RANGE(low, high) .min = low, .max = high

static const struct option settings_table[] = {
    {"page", OPTION_HEADING, .help = "A heading"},
    {"file", OPTION_TEXT, AT(file), .role = OPTION_OPERAND, .metavar = "FILE",
     .help = "what to read"},
    {"title", OPTION_TEXT, AT(title), .help = "a text"},
    {"count", OPTION_INT, AT(count), "3", RANGE(-5, 1000), .help = "how many"},
    {"chosen", OPTION_INT, AT(chosen), "auto", RANGE(0, 9), .help = "a digit"},
    {"rate", OPTION_REAL, AT(rate), "0.25", RANGE(0, 10), .help = "how fast"},
    {"fraction", OPTION_REAL, AT(fraction), "auto", RANGE(0, 1), .help = "a part"},
    {"colour", OPTION_CHOICE, AT(colour), "green", .names = colours, .help = "of the page"},
    {"blue", OPTION_ALIAS, .start = "colour=blue", .help = "--colour=blue"},
    {"lit", OPTION_SWITCH, AT(lit), "on", .help = "whether it shines"},
    {"loud", OPTION_FLAG, AT(loud), .scope = OPTION_OF_CALL, .help = "with noise"},
    {"config", OPTION_TEXT, AT(config), .role = OPTION_FILE, .scope = OPTION_OF_CALL,
     .metavar = "FILE", .help = "options"},
    {"stop", OPTION_FLAG, AT(stop), .role = OPTION_STOP, .scope = OPTION_OF_CALL,
     .help = "nothing after it is read"},
    {.kind = OPTION_END},
};

/* The settings after the command line "program WORDS". The settings and their texts are valid until
   the next call. */
static struct settings *settings_parse(const char *words) {
    static char line[4096], *argv[64] = {"program"};
    static struct settings s;
    snprintf(line, sizeof line, "%s", words);
    s = (struct settings){0};
    options_start(settings_table, &s);
    options_arguments(settings_table, &s, 1 + split(line, argv + 1, 63), argv);
    return &s;
}

static void settings_parse_child(void *words) {
    settings_parse(words);
}

/* Fails unless these words are refused as wrong usage, with a message that holds `part`. */
static void settings_expect_wrong(const char *words, const char *part) {
    expect_refusal(call(settings_parse_child, (void *)words), STATUS_USAGE, part);
}

Test(options, values_after_an_equals_sign_or_a_blank) {
    for (int form = 0; form < 2; form++) {
        char words[] = "--count=-5 --chosen=9 --rate=1e-3 --fraction=1 --colour=red --lit=off "
                       "--title=a=b --file=x";
        for (char *c = words; form && *c; c++)
            if (!strncmp(c, "--", 2)) *strchr(c, '=') = ' ';
        const struct settings *s = settings_parse(words);
        cr_expect(s->count == -5 && s->chosen == 9 && s->colour == 0 && s->lit == 0);
        cr_expect(s->rate == 1e-3 && s->fraction == 1);
        cr_expect_str_eq(s->title, "a=b");
        cr_expect_str_eq(s->file, "x");
    }
}

/* A switch alone is on, an alias stands for a value, the later one counts, and nothing after a stop
   is read. */
Test(options, words_without_values) {
    const struct settings *s =
        settings_parse("--count=1 --lit=off --loud --blue --count=2 --chosen=auto --lit poem.txt");
    cr_expect(s->count == 2 && s->colour == 2 && s->lit == 1 && s->loud == 1);
    cr_expect(s->chosen == OPTION_AUTO);
    cr_expect_str_eq(s->file, "poem.txt");
    cr_expect(settings_parse("--lit off")->lit == 0);
    cr_expect(settings_parse("--stop --nonsense --count=x")->stop == 1);
    settings_expect_wrong("--nonsense --stop", "--nonsense");
}

Test(options, operands) {
    cr_expect_str_eq(settings_parse("--count 4 name")->file, "name");
    cr_expect_str_eq(settings_parse("- --count=4")->file, "-");
    cr_expect_str_eq(settings_parse("--count=4 -- --loud")->file, "--loud");
    cr_expect(settings_parse("-- --loud")->loud == 0);
    settings_expect_wrong("one two", "two: is a second corpus (give only one; the first is one)");
    settings_expect_wrong("-- one --", "--: is a second corpus");
}

static void write_config(const struct settings *s) {
    FILE *file = fopen("config.ini", "w");
    cr_assert(file);
    options_write(settings_table, s, "# a note\n", file);
    cr_assert(fclose(file) == 0);
}

Test(options, a_file_written_and_read_is_the_same) {
    struct settings s = *settings_parse("--count=-2 --fraction=auto --chosen=7 --colour=blue "
                                        "--lit=off --loud");
    static const char *const titles[] = {" blanks around ", "\"quoted\"",    "end\\",
                                         "# no comment",    "line\r\nbreak", "\\\"",
                                         "\u4e2d\u6587",    "auto"};
    static const double rates[] = {
        0, 1, 0.1, 1 / 3.0, 1e-20, 6.02214076e-23, 9.999999999999998, 0x1.fffffffffffffp-3};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        s.title = s.file = titles[i];
        s.rate = rates[i];
        write_config(&s);
        cr_expect(i != 2 || strstr(file_text("config.ini", NULL), "rate = 0.1\n"));
        const struct settings *read = settings_parse("--config=config.ini");
        cr_expect(read->count == -2 && read->chosen == 7 && read->colour == 2 && !read->lit);
        cr_expect(read->rate == rates[i] && read->fraction == OPTION_AUTO);
        cr_expect(read->loud == 0, "an option of the call alone was stored");
        cr_assert(read->title && read->file, "%s: is lost", titles[i]);
        cr_expect_str_eq(read->title, titles[i]);
        cr_expect_str_eq(read->file, titles[i]);
    }
}

static void put(const char *text) {
    file_put("config.ini", text, strlen(text));
}

Test(options, what_a_file_may_look_like) {
    put("# a comment\r\n\r\n[section]\n; another\n  count=5\n\tcolour =red  \n"
        "title = \"a \\\"b\\\"\"\nrate= 2");
    const struct settings *s = settings_parse("--config config.ini");
    cr_expect(s->count == 5 && s->colour == 0 && s->rate == 2);
    cr_expect_str_eq(s->title, "a \"b\"");
}

Test(options, the_command_line_overrides_a_file) {
    put("count = 5\ncolour = red\nfile = \"of the file\"\n");
    const struct settings *s = settings_parse("--count=6 --blue here --config=config.ini");
    cr_expect(s->count == 6 && s->colour == 2);
    cr_expect_str_eq(s->file, "here");
}

Test(options, wrong_files) {
    static const struct {
        const char *text, *part;
    } wrong[] = {{"count = 3\ncuont = 4\n", "config.ini:2: cuont: no such option"},
                 {"cuont = 4\n", "did you mean --count?"},
                 {"\n\ncount 4\n", "config.ini:3: must be \"name = value\""},
                 {"count = 4 # four\n", "config.ini:1: count=4 # four: must be a whole number"},
                 {"title = \"open\n", "config.ini:1: title: the quotes do not match"},
                 {"title = \"a\" b\n", "config.ini:1: title: the quotes do not match"},
                 {"title = \"\"\n", "config.ini:1: title: must not be empty"},
                 {"loud = on\n", "config.ini:1: loud: is allowed on the command line only"},
                 {"blue = on\n", "config.ini:1: blue: is allowed on the command line only"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put(wrong[i].text);
        settings_expect_wrong("--config=config.ini", wrong[i].part);
    }
    file_put("config.ini", "count\0 = 4\n", 11);
    settings_expect_wrong("--config=config.ini", "config.ini:1: a NUL byte");
    enum { TOO_MUCH = 1 << 19 }; // of one line, and of many
    static char text[TOO_MUCH];
    for (int lines = 0; lines < 2; lines++) {
        for (size_t i = 0; i < TOO_MUCH; i++)
            text[i] = lines && i % 10 == 9 ? '\n' : "count = 33"[i % 10];
        file_put("config.ini", text, lines ? TOO_MUCH : TOO_MUCH / 16);
        settings_expect_wrong("--config=config.ini",
                              "config.ini: is too large for a file of options");
    }
    expect_refusal(call(settings_parse_child, (void *)"--config=missing.ini"), STATUS_MACHINE,
                   "missing.ini: No such file");
    expect_refusal(call(settings_parse_child, (void *)"--config=."), STATUS_MACHINE, "config: .: ");
    settings_expect_wrong("--config=", "--config: must not be empty");
}

Test(options, json) {
    const struct settings *s = settings_parse("--rate=1e-3 --colour=blue --lit=off --loud");
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    options_write_json(settings_table, s, file);
    fclose(file);
    cr_expect_str_eq(text, "\n    \"file\": null,\n    \"title\": null,\n    \"count\": 3,"
                           "\n    \"chosen\": \"auto\",\n    \"rate\": 0.001,"
                           "\n    \"fraction\": \"auto\",\n    \"colour\": \"blue\","
                           "\n    \"lit\": false");
    free(text);
}

/* Names are unique and plain, and no two values share a place. */
Test(options, the_program_s_table) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) continue;
        cr_expect(strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(o->name));
        cr_expect(o->name[0] != '-' && strlen(o->name) <= 24, "--%s", o->name);
        for (const struct option *p = config_options; p < o; p++) {
            if (p->kind == OPTION_HEADING) continue;
            cr_expect(strcmp(p->name, o->name) != 0, "--%s twice", o->name);
            cr_expect(o->kind == OPTION_ALIAS || p->kind == OPTION_ALIAS || p->offset != o->offset,
                      "--%s and --%s", o->name, p->name);
        }
    }
}

/* The default and both ends of every range are accepted, stored in a file, and read back. */
static void expect_stored(const struct option *o, double value) {
    static struct config config, read;
    char text[64], again[64];
    char *argument = say("--%s=%.*g", o->name, o->kind == OPTION_INT ? 19 : 17, value);
    config_start(&config);
    options_arguments(config_options, &config, 2, (char *[]){"train", argument, NULL});
    option_value(o, &config, text, sizeof text);
    cr_expect(strtod(text, NULL) == value, "%s became %s", argument, text);
    if (o->scope == OPTION_OF_CALL) return;
    FILE *file = fopen("config.ini", "w");
    options_write(config_options, &config, "", file);
    fclose(file);
    config_start(&read);
    options_read(config_options, &read, "config.ini");
    cr_expect_str_eq(option_value(o, &read, again, sizeof again), text);
}

Test(options, the_program_s_ranges_hold_their_ends_and_defaults) {
    static struct config config;
    char text[64];
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        config_start(&config);
        if (o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH)
            cr_expect_str_eq(option_value(o, &config, text, sizeof text), o->start);
        if (o->kind != OPTION_INT && o->kind != OPTION_REAL) continue;
        expect_stored(o, o->min);
        expect_stored(o, o->max);
        if (!strcmp(o->start, "auto")) continue;
        expect_stored(o, strtod(o->start, NULL));
        cr_expect(strtod(option_value(o, &config, text, sizeof text), NULL) ==
                      strtod(o->start, NULL),
                  "--%s", o->name);
    }
}
