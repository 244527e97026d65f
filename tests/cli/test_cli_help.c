/* --help and its topics, the man page and the completion, all of which are made from the table of
   options. What --help says about an option, and what every row of the program's table must hold. */
#define _GNU_SOURCE // popen
#include "data/die.h"
#include "model/lab/help.h"
#include "tests/command.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cli_help, .init = folder_enter, .fini = folder_leave);

static char *help(const char *option) {
    struct ending ending = train("%s", option);
    cr_assert(ending.status == 0 && !*ending.err, "%s: %d: %s", option, ending.status, ending.err);
    return say("%s", ending.out);
}

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
    for (const char *at = text; (at = strstr(at, word)); at += length)
        count +=
            (at == text || !strchr(within, at[-1])) && (!at[length] || !strchr(within, at[length]));
    return count;
}

Test(cli_help, the_first_page_fits_a_screen) {
    const char *first = help("--help");
    cr_expect(lines_of(first, 79) <= 23, "%d lines", lines_of(first, 79)); // and the shell's prompt
    cr_expect(!strncmp(first, "Usage: train [OPTION]... [CORPUS]\n", 34));
    cr_expect_str_eq(help("-h"), first);
    int basic = 0, topics = 0;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        cr_expect(!o->basic || strstr(first, say("  --%s", o->name)), "--%s is missing", o->name);
        cr_expect(o->kind != OPTION_HEADING || times(first, o->name), "no topic %s", o->name);
        basic += o->basic;
        topics += o->kind == OPTION_HEADING;
    }
    cr_expect(basic >= 12 && topics >= 7);
    cr_expect(lines_of(first, 79) == 7 + basic, "an option takes two lines:\n%s", first);
}

Test(cli_help, each_topic_has_its_options_and_all_has_each_topic) {
    const char *all = help("--help=all");
    lines_of(all, 79);
    const struct option *heading = NULL;
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) heading = o;
        char *argument = say("--help=%s", heading->name);
        const char *page = help(argument);
        cr_expect(strstr(all, page), "%s is not in --help=all", argument);
        char *form = say(o->letter ? "--%s[" : "\n  --%s", o->name);
        cr_expect(o->kind == OPTION_HEADING || strstr(page, form), "%s lacks --%s", argument,
                  o->name);
    }
    const char *two_words = help("--help watching");
    cr_expect_str_eq(help("--help=watching"), two_words);
    cr_expect(strstr(help("--help --watching"), "Usage"));
}

Test(cli_help, the_norms_are_listed_once) {
    const char *all = help("--help=all");
    static const char *const rare[] = {"derf", "groupnorm", "instancenorm", "rmsnorm", "identity"};
    cr_expect(strstr(all, "\n  derf, dynamicerf "));
    for (size_t i = 1; i < sizeof rare / sizeof *rare; i++)
        cr_expect(times(all, rare[i]) == 1, "%s: %d times", rare[i], times(all, rare[i]));
    const char *page = help("--help=norm");
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++) {
        cr_expect(strstr(page, say("\n  %s", (*kind)->name)), "%s", (*kind)->name);
    }
    cr_expect(strstr(page, "options: dyt-alpha"));
}

Test(cli_help, one_option) {
    const char *page = help("--help=norm-attn");
    cr_expect(!strncmp(page, "  --norm-attn=auto|NORM", 23), "%s", page);
    cr_expect(strstr(page, "Values: auto, none (identity), ln (layernorm), bn"), "%s", page);
    page = help("--help=dropout");
    cr_expect(lines_of(page, 79) == 1 && strstr(page, "default 0, range 0 to 0.99"), "%s", page);
    cr_expect(strstr(help("--help=norm-groups"), "--norm=gn|ts; default"));
    cr_expect(strstr(help("--help=mix-fraction"), "--placement=mix; default 0.25"));
    cr_expect(strstr(help("--help=grammar-seed"), "--corpus; default 1"));
}

Test(cli_help, unknown_topics) {
    static const char *const cases[][2] = {
        {"--help=nrom",
         "--help=nrom: no such topic or option (did you mean norm? topics: all data"},
        {"--help=trainig", "did you mean training?"},
        {"--help=drop-out", "did you mean dropout?"},
        {"--help=rms", "--help=rms: is a value of --norm (see --help=norm)"},
        {"--help=xyzzy", "(topics: all data model norm placement"},
        {"--help=", "--help: must not be empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_refuses(STATUS_USAGE, cases[i][1], "%s", cases[i][0]);
    }
}

/* The status and output of a shell command, in which $TRAIN is the program. */
static int shell(const char *command, char *out, size_t size) {
    FILE *pipe = popen(command, "r");
    cr_assert(pipe != NULL);
    size_t used = fread(out, 1, size - 1, pipe);
    out[used] = 0;
    return pclose(pipe);
}

Test(cli_help, whoever_stops_reading_is_no_failure) {
    static const char *const options[] = {"--help", "--help=all", "--help=man", "--list-norms"};
    char command[512], out[4096];
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        // the reader ends before the first byte
        snprintf(command, sizeof command,
                 "bash -c 'set -o pipefail; { sleep 0.2; \"$TRAIN\" %s 2>&1; } | true; echo $?'",
                 options[i]);
        cr_expect(shell(command, out, sizeof out) == 0);
        cr_expect_str_eq(out, "0\n", "%s: %s", options[i], out);
    }
}

Test(cli_help, the_man_page_has_every_option) {
    char out[1 << 16];
    const char *page = help("--help=man");
    cr_expect(!strncmp(page, ".TH NORMLAB-TRAIN 1 ", 20));
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char form[128] = ".SS ", *to = form + 4;
        if (o->kind != OPTION_HEADING) to = stpcpy(form, "\\-\\-");
        for (const char *c = o->kind == OPTION_HEADING ? o->help : o->name; *c; c++)
            to = stpcpy(to, *c == '-' && o->kind != OPTION_HEADING ? "\\-" : (char[]){*c, 0});
        cr_expect(strstr(page, form), "no %s", form);
    }
    for (const char *line = page; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        static const char *const requests[] = {".TH ", ".nh", ".ad l", ".SH ", ".SS ",
                                               ".TP",  ".B ", ".BI ",  ".PP",  ".br"};
        bool known = *line != '.' && *line != '\'';
        for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
            known |= !strncmp(line, requests[i], strlen(requests[i]));
        cr_expect(known, "%.*s", (int)strcspn(line, "\n"), line);
    }
    if (system("command -v groff >/dev/null")) return;
    cr_expect(shell("\"$TRAIN\" --help=man | groff -man -ww -Tascii 2>&1 >man.txt", out,
                    sizeof out) == 0);
    cr_expect_str_eq(out, "", "groff warns: %s", out);
    cr_expect(strstr(file_text("man.txt", NULL), "NORM is one of:"));
}

/* The completions of the last word, one per line. */
static const char *completed(const char *words, const char *breaks) {
    static char out[32768];
    char command[1024];
    snprintf(command, sizeof command,
             "bash -c 'eval \"$(\"$TRAIN\" --help=completion)\"; COMP_WORDBREAKS=\"%s\"; "
             "COMP_WORDS=(train %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _normlab_train; "
             "printf \"%%s\\n\" \"${COMPREPLY[@]}\"' 2>&1",
             breaks, words);
    cr_assert(shell(command, out, sizeof out) == 0, "%s", out);
    return out;
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
        cr_expect_str_eq(completed(cases[i].words, " ="), cases[i].completed, "%s: %s",
                         cases[i].words, completed(cases[i].words, " ="));
    const char *norms = completed("--norm = \"\"", " =");
    for (const struct norm_kind *const *kind = norm_kinds; *kind; kind++)
        cr_expect(times(norms, (*kind)->name), "%s", (*kind)->name);
    const char *options = completed("--", " =");
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        char *name = say("--%s", o->name);
        cr_expect(o->kind == OPTION_HEADING || strstr(options, name), "%s", name);
    }
}

/* What --help says about an option, as one line with single blanks, in a static buffer. */
static const char *help_line(const struct option *option) {
    static char line[1024];
    char *text = NULL;
    size_t size, length = strlen(option->name);
    FILE *file = open_memstream(&text, &size);
    help_page("all", file);
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
    for (int64_t i = 0; o->kind == OPTION_CHOICE && !o->metavar && option_choice(o, i).name; i++)
        cr_expect(strstr(line, option_choice(o, i).name), "--%s: no %s: %s", o->name,
                  option_choice(o, i).name, line);
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
