/* --help and its topics, the man page and the completion, all of which are made from the table of
   options. What --help says about an option, and what every row of the program's table must
   hold. */
#include "data/die.h"
#include "model/options/config.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cli_help, .init = folder_enter, .fini = folder_leave);

/* The number of lines; fails if one is longer than `columns`. */
static int lines_of(const char *text, size_t columns) {
    int lines = 0;
    for (; *text; text += strcspn(text, "\n") + 1, lines++)
        cr_expect(strcspn(text, "\n") <= columns, "%.*s", (int)strcspn(text, "\n"), text);
    return lines;
}

/* True if the text contains the name as a word of its own. */
static int times(const char *text, const char *word) {
    int count = 0;
    size_t length = strlen(word);
    static const char within[] = "abcdefghijklmnopqrstuvwxyz-";
    for (const char *found = text; (found = strstr(found, word)); found += length)
        count += (found == text || !strchr(within, found[-1])) &&
                 (!found[length] || !strchr(within, found[length]));
    return count;
}

Test(cli_help, the_first_page_fits_a_screen) {
    const char *first = output_of("--help");
    cr_expect(lines_of(first, 79) <= 33, "%d lines", lines_of(first, 79));
    cr_expect(!strncmp(first, "Usage: train [OPTION]... [CORPUS]\n", 34));
    cr_expect_str_eq(output_of("-h"), first);
    int basic = 0, topics = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        cr_expect(!o->basic || strstr(first, say("  --%s", o->name)), "--%s is missing", o->name);
        cr_expect(o->kind != OPTION_HEADING || times(first, o->name), "no topic %s", o->name);
        basic += o->basic;
        topics += o->kind == OPTION_HEADING;
    }
    cr_expect(basic >= 12 && topics >= 7);
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        cr_expect(times(first, (*kind)->name), "no norm %s", (*kind)->name);
    for (const struct placement *p = placements; p->name; p++)
        cr_expect(times(first, p->name), "no placement %s", p->name);
}

Test(cli_help, each_topic_has_its_options_and_all_has_each_topic) {
    const char *help = output_of("--help=all"), *page = NULL;
    lines_of(help, 79);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) {
            page = output_of("--help=%s", o->name);
            expect_part(help, page);
        } else {
            expect_part(page, say(o->role == OPTION_HELP ? "--%s[" : "\n  --%s", o->name));
        }
    }
    cr_expect_str_eq(output_of("--help logging"), output_of("--help=logging"));
    expect_part(output_of("--help --logging"), "Usage");
}

Test(cli_help, the_norms_are_listed_once) {
    const char *help = output_of("--help=all"), *page = output_of("--help=norm");
    static const char *const rare[] = {"groupnorm", "instancenorm", "rmsnorm", "identity"};
    expect_part(help, "\n  derf, dynamicerf ");
    for (size_t i = 0; i < sizeof rare / sizeof *rare; i++)
        cr_expect(times(help, rare[i]) == 1, "%s: %d times", rare[i], times(help, rare[i]));
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        expect_part(page, say("\n  %s", (*kind)->name));
    expect_part(page, "options: dyt-alpha");
}

Test(cli_help, one_option) {
    static const char *const pages[][2] = {
        {"norm-attn", "  --norm-attn=auto|NORM"},
        {"norm-attn", "Values: auto, none (identity), ln (layernorm), rms (rmsnorm), bn"},
        {"dropout", "default 0, range 0 to 0.99"},
        {"norm-groups", "--norm=gn|ts; default"},
        {"mix-fraction", "--placement=mix; default 0.25"},
        {"grammar-seed", "--corpus; default 1"}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        expect_part(output_of("--help=%s", pages[i][0]), pages[i][1]);
    cr_expect(lines_of(output_of("--help=dropout"), 79) == 1);
}

Test(cli_help, unknown_topics) {
    static const char *const cases[][2] = {
        {"--help=nrom", "--help=nrom: no such topic or option (did you mean norm?)"},
        {"--help=trainig", "did you mean training?"},
        {"--help=drop-out", "did you mean dropout?"},
        {"--help=rms", "--help=rms: is a value of --norm (see --help=norm)"},
        {"--help=xyzzy", "(--help lists the topics)"},
        {"--help=", "--help: must not be empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_refuses(STATUS_USAGE, cases[i][1], "%s", cases[i][0]);
    }
}

Test(cli_help, whoever_stops_reading_is_no_failure) {
    // the reader ends before the first byte
    expect_done(bash("set -o pipefail; { sleep 0.2; \"$TRAIN\" --help=all; } | true"));
}

Test(cli_help, the_man_page_has_every_option) {
    const char *page = output_of("--help=man");
    cr_expect(!strncmp(page, ".TH NORMLAB 1 ", 14));
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char form[128] = "\\-\\-", *to = form + 4;
        for (const char *c = o->name; *c; c++) to = stpcpy(to, *c == '-' ? "\\-" : (char[]){*c, 0});
        expect_part(page, o->kind == OPTION_HEADING ? say(".SS %s", o->help) : form);
    }
}

Test(cli_help, groff_formats_the_man_page) {
    if (bash("command -v groff").status) skip("cli_help", "no groff (apt-get install groff-base)");
    struct ending ending = bash("\"$TRAIN\" --help=man | groff -man -ww -Tascii");
    expect_part(ending.out, "NORM is one of:");
    cr_expect_str_eq(ending.err, "");
}

/* The completions of the last word, one per line. */
static const char *completed(const char *words) {
    struct ending ending =
        bash(say("eval \"$(\"$TRAIN\" --help=completion)\"; "
                 "COMP_WORDS=(train %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _normlab; "
                 "printf '%%s\\n' \"${COMPREPLY[@]}\"",
                 words));
    expect_done(ending);
    return say("%s%s", ending.out, ending.err);
}

Test(cli_help, completion) {
    static const struct {
        const char *words, *completed;
    } cases[] = {{"--norm-f", "--norm-ffn=\n--norm-final=\n"},
                 {"--norm = p", "pn-v\npn\nprepbn\n"},
                 {"--norm p", "pn-v\npn\nprepbn\n"},
                 {"--norm=p", "--norm=pn-v\n--norm=pn\n--norm=prepbn\n"},
                 {"--placement = re", "reordered\nresidual\nrezero\n"},
                 {"--qk-norm = o", "off\non\n"},
                 {"--pos", "--position=\n--postln\n"},
                 {"--qui", "--quiet\n"},
                 {"--items = of", "off\n"},
                 {"--help = pla", "placement\n"},
                 {"--seed = 1", "\n"},
                 {"--lr = 1", "\n"},
                 {"po", "poem one.txt\npoems\n"},
                 {"--quiet po", "poem one.txt\npoems\n"},
                 {"--items po", "poem one.txt\npoems\n"},
                 {"--config = po", "poem one.txt\npoems\n"},
                 {"--out = po", "poems\n"},
                 {"--norm = bn po", "poem one.txt\npoems\n"}};
    file_put("poem one.txt", "x", 1);
    cr_assert(system("mkdir poems") == 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_expect_str_eq(completed(cases[i].words), cases[i].completed, "%s", cases[i].words);
    const char *norms = completed("--norm = \"\"");
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        cr_expect(times(norms, (*kind)->name), "%s", (*kind)->name);
    const char *options = completed("--");
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char *name = say("--%s", o->name);
        cr_expect(o->kind == OPTION_HEADING || strstr(options, name), "%s", name);
    }
}

/* Fails unless --help=NAME says all that the row says. */
static void expect_help(const struct option *o) {
    const char *line = "", *page = output_of("--help=%s", o->name);
    char *text = strstr(page, say("  --%s", o->name)), *rest, *next;
    cr_assert(text, "--%s is not in the help", o->name);
    if ((next = strstr(text, "\n  --"))) *next = 0; // a topic has the same name
    for (char *word = strtok_r(text, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        line = say("%s%s ", line, word);
    expect_part(line, o->help);
    if (o->start && o->kind != OPTION_ALIAS) expect_part(line, say("; default %s", o->start));
    const char *range = strstr(line, ", range ");
    cr_expect((o->kind == OPTION_INT || o->kind == OPTION_REAL) == !!range, "%s", line);
    if (range) {
        double ends[2] = {NAN, NAN};
        sscanf(range, ", range %lf to %lf", &ends[0], &ends[1]);
        cr_expect(ends[0] == o->min && ends[1] == o->max, "%s", line);
    }
    for (int64_t i = 0; o->kind == OPTION_CHOICE && !o->metavar && option_choice_of(o, i).name; i++)
        expect_part(line, option_choice_of(o, i).name);
}

Test(options, every_option_of_the_program_has_help) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING && o->role != OPTION_HELP) expect_help(o);
    static const char *const starts[] = {"--seed=N ", "--out=DIR ", "--bias=on|off ",
                                         "--schedule=cosine|linear|constant|wsd"};
    for (int i = 0; i < 4; i++) expect_part(output_of("--help=all"), starts[i]);
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
