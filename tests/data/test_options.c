/* The mechanism of data/files/options.h on a table of the test's own, then what every row of the
   program's table must hold. */
#include "data/die.h"
#include "data/files/options_help.h"
#include "model/lab/help.h"
#include "tests/command.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    int64_t count, chosen, colour, lit, loud, stop;
    double rate, share;
    const char *file, *title, *config;
};

static const char *colour(int64_t i) {
    static const char *const names[] = {"red", "green", "blue", NULL};
    return names[i];
}

#define AT(member)       .offset = offsetof(struct settings, member)
#define RANGE(low, high) .least = low, .most = high

static const struct option table[] = {
    {"page", OPTION_HEADING, .help = "A heading"},
    {"file", OPTION_OPERAND, AT(file), .metavar = "FILE", .help = "what to read"},
    {"title", OPTION_TEXT, AT(title), .help = "a text"},
    {"count", OPTION_INT, AT(count), "3", RANGE(-5, 1000), .help = "how many"},
    {"chosen", OPTION_INT, AT(chosen), "auto", RANGE(0, 9), .help = "a digit"},
    {"rate", OPTION_REAL, AT(rate), "0.25", RANGE(0, 10), .help = "how fast"},
    {"share", OPTION_REAL, AT(share), "auto", RANGE(0, 1), .help = "a part"},
    {"colour", OPTION_CHOICE, AT(colour), "green", .choice = colour, .help = "of the page"},
    {"blue", OPTION_ALIAS, .start = "colour=blue", .help = "--colour=blue"},
    {"lit", OPTION_SWITCH, AT(lit), "on", .help = "whether it shines"},
    {"loud", OPTION_FLAG, AT(loud), .scope = OPTION_OF_CALL, .help = "with noise"},
    {"config", OPTION_FILE, AT(config), .scope = OPTION_OF_CALL, .metavar = "FILE",
     .help = "options"},
    {"stop", OPTION_STOP, AT(stop), .scope = OPTION_OF_CALL, .help = "nothing behind it is read"},
    {.kind = OPTION_END},
};

TestSuite(options, .init = folder_enter, .fini = folder_leave);

/* The settings after "PROGRAM words", with texts that last. */
static struct settings *parse(const char *words) {
    static char line[4096], *argv[64] = {"program"};
    static struct settings s;
    snprintf(line, sizeof line, "%s", words);
    s = (struct settings){0};
    options_start(table, &s);
    options_arguments(table, &s, 1 + split(line, argv + 1, 63), argv);
    return &s;
}

static void parse_in_child(void *words) {
    parse(words);
}

static void expect_wrong(const char *words, const char *part) {
    struct ending ending = call(parse_in_child, (void *)words);
    expect_refusal(&ending, STATUS_USAGE, part);
}

Test(options, defaults) {
    const struct settings *s = parse("");
    cr_expect(s->count == 3 && s->chosen == OPTION_AUTO && s->colour == 1 && s->lit == 1);
    cr_expect(s->rate == 0.25 && s->share == OPTION_AUTO);
    cr_expect(!s->loud && !s->stop && !s->file && !s->title && !s->config);
}

Test(options, values_behind_an_equals_sign_or_a_blank) {
    for (int form = 0; form < 2; form++) {
        char words[] = "--count=-5 --chosen=9 --rate=1e-3 --share=1 --colour=red --lit=off "
                       "--title=a=b --file=x";
        for (char *c = words; form && *c; c++)
            if (!strncmp(c, "--", 2)) *strchr(c, '=') = ' ';
        const struct settings *s = parse(words);
        cr_expect(s->count == -5 && s->chosen == 9 && s->colour == 0 && s->lit == 0);
        cr_expect(s->rate == 1e-3 && s->share == 1);
        cr_expect_str_eq(s->title, "a=b");
        cr_expect_str_eq(s->file, "x");
    }
}

Test(options, the_later_one_counts) {
    const struct settings *s =
        parse("--count=1 --colour=blue --lit=off --count=2 --colour=red --lit");
    cr_expect(s->count == 2 && s->colour == 0 && s->lit == 1);
}

Test(options, flags_aliases_and_auto) {
    const struct settings *s = parse("--loud --blue --chosen=auto --share auto");
    cr_expect(s->loud == 1 && s->colour == 2 && s->chosen == OPTION_AUTO);
    cr_expect(s->share == OPTION_AUTO);
}

Test(options, operands) {
    cr_expect_str_eq(parse("--count 4 name")->file, "name");
    cr_expect_str_eq(parse("- --count=4")->file, "-");
    cr_expect_str_eq(parse("--count=4 -- --loud")->file, "--loud");
    cr_expect(parse("-- --loud")->loud == 0);
    expect_wrong("one two", "two: one corpus is enough, and one was given already");
    expect_wrong("-- one --", "--: one corpus is enough");
}

Test(options, nothing_behind_a_stop_is_read) {
    cr_expect(parse("--stop --nonsense --count=x")->stop == 1);
    expect_wrong("--nonsense --stop", "--nonsense");
}

Test(options, unknown_names) {
    expect_wrong("--cuont=3", "--cuont: no such option (did you mean --count?)");
    expect_wrong("--Colour=red", "did you mean --colour?");
    expect_wrong("--coun=3", "did you mean --count?");
    expect_wrong("--counts=3", "did you mean --count?");
    expect_wrong("--something-else", "--something-else: no such option (--help=all lists them)");
    expect_wrong("--=3", "no such option");
    expect_wrong("-c", "-c: options begin with --");
}

Test(options, a_switch_alone_is_on) {
    cr_expect(parse("--lit=off --lit")->lit == 1);
    cr_expect(parse("--lit --count=2")->lit == 1 && parse("--lit --count=2")->count == 2);
    cr_expect(parse("--lit off")->lit == 0 && parse("--lit off --lit on")->lit == 1);
    struct settings *s = parse("--lit=off --lit poem.txt");
    cr_expect(s->lit == 1);
    cr_expect_str_eq(s->file, "poem.txt");
}

Test(options, wrong_values) {
    expect_wrong("--count=1001", "--count=1001: must be a whole number from -5 to 1000");
    expect_wrong("--count=-6", "from -5 to 1000");
    expect_wrong("--count=1.5", "--count=1.5");
    expect_wrong("--count=auto", "--count=auto");
    expect_wrong("--chosen=-1", "from 0 to 9, or auto");
    expect_wrong("--rate=10.001", "--rate=10.001: must be a number from 0 to 10");
    expect_wrong("--rate=nan", "--rate=nan");
    expect_wrong("--share=-1", "from 0 to 1, or auto");
    expect_wrong("--colour=pink", "--colour=pink: must be one of red|green|blue");
    expect_wrong("--lit=yes", "--lit=yes: must be one of on|off");
    expect_wrong("--title=", "--title: must not be empty");
    expect_wrong("--loud=on", "--loud: takes no value");
    expect_wrong("--count", "--count: needs a value");
}

static void write_config(const struct settings *s) {
    FILE *file = fopen("config.ini", "w");
    cr_assert(file);
    options_write(table, s, file);
    cr_assert(fclose(file) == 0);
}

Test(options, a_file_written_and_read_is_the_same) {
    struct settings s = *parse("--count=-2 --rate=0.1 --share=auto --chosen=7 --colour=blue "
                               "--lit=off --loud");
    static const char *const titles[] = {"plain",
                                         "two words",
                                         " blanks around ",
                                         "\"quoted\"",
                                         "back\\slash",
                                         "end\\",
                                         "\\n",
                                         "# no comment",
                                         "[no section]",
                                         "; neither",
                                         "a = b",
                                         "tab\there",
                                         "line\nbreak",
                                         "line\r\nbreak",
                                         "\"",
                                         "\\\"",
                                         "\xe4\xb8\xad\xe6\x96\x87",
                                         "auto"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++) {
        s.title = s.file = titles[i];
        write_config(&s);
        const struct settings *read = parse("--config=config.ini");
        cr_expect(read->count == -2 && read->chosen == 7 && read->colour == 2 && !read->lit);
        cr_expect(read->rate == 0.1 && read->share == OPTION_AUTO);
        cr_expect(read->loud == 0, "what belongs to the call was kept");
        cr_assert(read->title && read->file, "%s: is lost", titles[i]);
        cr_expect_str_eq(read->title, titles[i]);
        cr_expect_str_eq(read->file, titles[i]);
    }
}

Test(options, reals_are_written_in_full) {
    static const double reals[] = {
        0, 1, 0.1, 1 / 3.0, 1e-20, 6.02214076e-23, 9.999999999999998, 0x1.fffffffffffffp-3};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        struct settings s = *parse("");
        s.rate = reals[i];
        write_config(&s);
        cr_expect(parse("--config=config.ini")->rate == reals[i], "%.17g", reals[i]);
    }
    char text[64];
    struct settings s = {.rate = 0.1};
    const struct option *rate = table;
    while (!rate->name || strcmp(rate->name, "rate") != 0) rate++;
    cr_expect_str_eq(option_value(rate, &s, text, sizeof text), "0.1");
}

static void put(const char *text) {
    file_put("config.ini", text, strlen(text));
}

Test(options, what_a_file_may_look_like) {
    put("# a comment\r\n\r\n[section]\n; another\n  count=5\n\tcolour =red  \n"
        "title = \"a \\\"b\\\"\"\nrate= 2");
    const struct settings *s = parse("--config config.ini");
    cr_expect(s->count == 5 && s->colour == 0 && s->rate == 2);
    cr_expect_str_eq(s->title, "a \"b\"");
}

Test(options, the_command_line_overrides_a_file) {
    put("count = 5\ncolour = red\nfile = \"of the file\"\n");
    const struct settings *s = parse("--count=6 --blue here --config=config.ini");
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
                 {"count =\n", "config.ini:1: count=: must be a whole number"},
                 {"title = \"open\n", "config.ini:1: title: the quotes do not match"},
                 {"title = \"a\" b\n", "config.ini:1: title: the quotes do not match"},
                 {"title = \"\"\n", "config.ini:1: title: must not be empty"},
                 {"loud = on\n", "config.ini:1: loud: stands on the command line only"},
                 {"config = \"x\"\n", "config.ini:1: config: stands on the command line only"},
                 {"blue = on\n", "config.ini:1: blue: stands on the command line only"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put(wrong[i].text);
        expect_wrong("--config=config.ini", wrong[i].part);
    }
    file_put("config.ini", "count\0 = 4\n", 11);
    expect_wrong("--config=config.ini", "config.ini:1: a NUL byte");
    struct ending ending = call(parse_in_child, (void *)"--config=missing.ini");
    expect_refusal(&ending, STATUS_MACHINE, "missing.ini: No such file");
    ending = call(parse_in_child, (void *)"--config=.");
    expect_refusal(&ending, STATUS_MACHINE, "config: .: ");
    expect_wrong("--config=", "--config: must not be empty");
}

Test(options, json) {
    struct settings s = *parse("--rate=1e-3 --colour=blue --lit=off --loud");
    s.title = "a \"b\" \\ \n \x01 \xe4\xb8\xad";
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    fputc('{', file);
    options_write_json(table, &s, file);
    fputs("\n}\n", file);
    fclose(file);
    cr_expect(json_valid(text), "%s", text);
    cr_expect(json_is(json_member(text, "count"), "3"));
    cr_expect(json_is(json_member(text, "rate"), "0.001"));
    cr_expect(json_is(json_member(text, "chosen"), "auto"));
    cr_expect(json_is(json_member(text, "colour"), "blue"));
    cr_expect(json_is(json_member(text, "lit"), "false"));
    cr_expect(json_is(json_member(text, "file"), "null"));
    cr_expect(json_is(json_member(text, "title"), "a \\\"b\\\" \\\\ \\u000a \\u0001 \xe4\xb8\xad"));
    cr_expect(!json_member(text, "loud") && !json_member(text, "blue"));
    free(text);
}

/* What --help says on an option, as one line with single blanks, in a buffer of the function. */
static const char *help_line(const struct manual *manual, const struct option *option) {
    static char line[1024];
    char *text = NULL;
    size_t size, length = strlen(option->name);
    FILE *file = open_memstream(&text, &size);
    options_help(manual, "all", file);
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

/* That the line says all that the row says. */
static void expect_help(const struct manual *manual, const struct option *o) {
    const char *line = help_line(manual, o);
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
        cr_expect(strtod(range + 8, &end) == o->least, "--%s: least: %s", o->name, line);
        cr_assert(!strncmp(end, " to ", 4));
        cr_expect(strtod(end + 4, &end) == o->most, "--%s: most: %s", o->name, line);
        cr_expect(!*end);
    }
    for (int64_t i = 0; o->kind == OPTION_CHOICE && !o->metavar && option_choice_name(o, i); i++)
        cr_expect(strstr(line, option_choice_name(o, i)), "--%s: no %s: %s", o->name,
                  option_choice_name(o, i), line);
}

Test(options, help) {
    const struct manual manual = {.table = table, .command = "x", .introduction = "It is a test."};
    for (const struct option *o = table; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING) expect_help(&manual, o);
    cr_expect(strstr(help_line(&manual, &table[1]), "--file=FILE "));
    cr_expect(strstr(help_line(&manual, &table[2]), "--title=TEXT "));
    cr_expect(strstr(help_line(&manual, &table[3]), "--count=N "));
    cr_expect(strstr(help_line(&manual, &table[7]), "--colour=red|green|blue "));
}

static bool has_value(const struct option *o) {
    return o->kind == OPTION_INT || o->kind == OPTION_REAL || o->kind == OPTION_CHOICE ||
           o->kind == OPTION_SWITCH;
}

Test(options, every_option_of_the_program_has_help) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && o->kind != OPTION_HELP) expect_help(&help_manual, o);
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
            cr_expect(o->least < o->most, "--%s", o->name);
            cr_expect(strtod(o->start, NULL) >= o->least && strtod(o->start, NULL) <= o->most);
            cr_expect(strtod(value, NULL) == strtod(o->start, NULL), "--%s", o->name);
        }
    }
}

/* Both ends of every range are taken, kept in a file, and read back as they are. */
Test(options, the_program_s_ranges_hold_their_ends) {
    for (int end = 0; end < 2; end++)
        for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
            if (o->kind != OPTION_INT && o->kind != OPTION_REAL) continue;
            static struct config config, read;
            char argument[128], value[64], text[64], again[64];
            snprintf(value, sizeof value, "%.*g", o->kind == OPTION_INT ? 19 : 17,
                     end ? o->most : o->least);
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
