/* Options in files: as --config reads them, as a run stores them, and as JSON. */
#include "data/die.h"
#include "tests/command.h"
#include "tests/data/settings.h"
#include "tests/json.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_config(const struct settings *s) {
    FILE *file = fopen("config.ini", "w");
    cr_assert(file);
    options_write(settings_table, s, file);
    cr_assert(fclose(file) == 0);
}

Test(options, a_file_written_and_read_is_the_same) {
    struct settings s =
        *settings_parse("--count=-2 --rate=0.1 --fraction=auto --chosen=7 --colour=blue "
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
        const struct settings *read = settings_parse("--config=config.ini");
        cr_expect(read->count == -2 && read->chosen == 7 && read->colour == 2 && !read->lit);
        cr_expect(read->rate == 0.1 && read->fraction == OPTION_AUTO);
        cr_expect(read->loud == 0, "an option of the call alone was stored");
        cr_assert(read->title && read->file, "%s: is lost", titles[i]);
        cr_expect_str_eq(read->title, titles[i]);
        cr_expect_str_eq(read->file, titles[i]);
    }
}

Test(options, reals_are_written_in_full) {
    static const double reals[] = {
        0, 1, 0.1, 1 / 3.0, 1e-20, 6.02214076e-23, 9.999999999999998, 0x1.fffffffffffffp-3};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        struct settings s = *settings_parse("");
        s.rate = reals[i];
        write_config(&s);
        cr_expect(settings_parse("--config=config.ini")->rate == reals[i], "%.17g", reals[i]);
    }
    char text[64];
    struct settings s = {.rate = 0.1};
    const struct option *rate = settings_table;
    while (!rate->name || strcmp(rate->name, "rate") != 0) rate++;
    cr_expect_str_eq(option_value(rate, &s, text, sizeof text), "0.1");
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

/* A file that repeats this text is no file of options, however much memory there is. */
static void expect_too_large(const char *text, size_t bytes) {
    char *all = malloc(bytes);
    for (size_t i = 0; i < bytes; i++) all[i] = text[i % strlen(text)];
    file_put("config.ini", all, bytes);
    free(all);
    settings_expect_wrong("--config=config.ini", "config.ini: is larger than a file of options");
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
                 {"loud = on\n", "config.ini:1: loud: is allowed on the command line only"},
                 {"config = \"x\"\n", "config.ini:1: config: is allowed on the command line only"},
                 {"blue = on\n", "config.ini:1: blue: is allowed on the command line only"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put(wrong[i].text);
        settings_expect_wrong("--config=config.ini", wrong[i].part);
    }
    file_put("config.ini", "count\0 = 4\n", 11);
    settings_expect_wrong("--config=config.ini", "config.ini:1: a NUL byte");
    expect_too_large("count = 3", 1 << 15);   // a line
    expect_too_large("count = 3\n", 1 << 19); // a file
    struct ending ending = call(settings_parse_child, (void *)"--config=missing.ini");
    expect_refusal(&ending, STATUS_MACHINE, "missing.ini: No such file");
    ending = call(settings_parse_child, (void *)"--config=.");
    expect_refusal(&ending, STATUS_MACHINE, "config: .: ");
    settings_expect_wrong("--config=", "--config: must not be empty");
}

Test(options, json) {
    struct settings s = *settings_parse("--rate=1e-3 --colour=blue --lit=off --loud");
    s.title = "a \"b\" \\ \n \x01 \xe4\xb8\xad";
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    fputc('{', file);
    options_write_json(settings_table, &s, file);
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
