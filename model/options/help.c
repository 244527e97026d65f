/* --help and its pages, the lists of kinds and the man page, from the table of options. */
#include "model/options/help.h"
#include "data/die.h"
#include "data/format.h"
#include "data/streams.h"
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 79 };

static const char introduction[] =
    "Train a character-level Transformer on a text and log its loss. CORPUS is a UTF-8 "
    "file, or - for standard input; by default a built-in grammar writes one.";

static const char *const examples[] = {
    "--norm=rms --postln --learning-rate=3e-3 --out=runs/try CORPUS",
    "--norm='gamma * x / (1 + abs(x))' CORPUS",
    "--generate=runs/try --prompt=\"ROMEO:\"",
};

bool help_is_valued(const struct option *o) {
    return option_takes_value(o) || (o->kind == OPTION_ALIAS && o->metavar);
}

/* How an option is typed, "--name=N", in `form` (OPTION_FORM). */
static void put_form(const struct option *o, char *form) {
    const char *value = o->metavar               ? o->metavar
                        : o->kind == OPTION_INT  ? "N"
                        : o->kind == OPTION_REAL ? "X"
                                                 : option_choices(o);
    snprintf(form, OPTION_FORM,
             o->role == OPTION_HELP   ? "-h, --%s[=%s]"
             : o->role == OPTION_BARE ? "--%s[=%s]"
             : help_is_valued(o)      ? "--%s=%s"
                                      : "--%s",
             o->name, value);
}

/* The whole description of an option, in `text` (OPTION_NOTE). */
static void describe(const struct option *o, char *text) {
    const char *before = "; ";
    snprintf(text, OPTION_NOTE, "%s", o->help);
    for (int i = 0; o->needs[i]; i++) {
        if (o->needs[i]->usual) continue;
        format_add(text, OPTION_NOTE, "%s%s", before, o->needs[i]->text);
        before = ", ";
    }
    if (option_takes_value(o) && o->start) format_add(text, OPTION_NOTE, "; default %s", o->start);
    if (o->kind == OPTION_INT)
        format_add(text, OPTION_NOTE, ", range %.0f to %.0f", o->min, o->max);
    if (o->kind == OPTION_REAL) format_add(text, OPTION_NOTE, ", range %g to %g", o->min, o->max);
}

/* Writes `text` in lines of at most 79 columns, the first from the column where the cursor is, the
   others from column `indent` on. */
static void put_hanging(const char *text, size_t start, size_t indent) {
    size_t column = start;
    for (const char *word = text + strspn(text, " "); *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        for (size_t n = WIDTH - indent; length > WIDTH - indent && n; n--)
            if (word[n - 1] == '|') length = n; // A|B|..., longer than a line
        bool first = column == start;
        if (!first && column + 1 + length > WIDTH) {
            printf("\n%*s", (int)indent, "");
            start = column = indent;
            first = true;
        }
        printf("%s%.*s", first ? "" : " ", (int)length, word);
        column += length + !first;
        word += length;
    }
    putchar('\n');
}

/* The same if the cursor is at column `indent`. */
static void put_wrapped(const char *text, size_t indent) {
    put_hanging(text, indent, indent);
}

/* Writes a text so that roff prints it unchanged, with its lines. */
static void put_roff(const char *text) {
    static const char *const escape[256] = {['\\'] = "\\e",  ['-'] = "\\-",   ['^'] = "\\(ha",
                                            ['~'] = "\\(ti", ['"'] = "\\(dq", ['\n'] = "\n.br\n"};
    if (*text == '.' || *text == '\'') fputs("\\&", stdout); // no request
    for (; *text; text++) {
        const char *escaped = escape[(unsigned char)*text];
        fputs(escaped ? escaped : (char[]){*text, 0}, stdout);
    }
}

static void put_paragraph(bool roff, const char *text, size_t indent) {
    if (!roff) return put_wrapped(text, indent);
    put_roff(text);
    putchar('\n');
}

/* Prints an option or an entry of a list with its description; with `roff` for the man page. */
static void put_row(bool roff, const char *form, const char *text, size_t indent) {
    if (roff) {
        fputs(".TP\n.B \"", stdout);
        put_roff(form);
        fputs("\"\n", stdout);
    } else if (strlen(form) + 3 > indent) {
        printf("  %s\n%*s", form, (int)indent, "");
    } else {
        printf("  %-*s", (int)indent - 2, form);
    }
    put_paragraph(roff, text, indent);
}

static void put_option(const struct option *o, bool roff) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    put_form(o, form);
    describe(o, text);
    put_row(roff, form, text, 28);
}

/* The lists of kinds: the page of --help, the option that chooses one of them, and the symbols in
   their formulas. */
static const struct list {
    const char *page, *option, *symbols;
} lists[] = {{"norms", "norm",
              "In formulas, x and y are a token's input and output at one channel, and C is the "
              "number of channels. mean_c, var_c, rms_c and sum_c are over the token's channels, "
              "in gn over those of a group. mean_n, var_n and rms_n are over all tokens of the "
              "batch, for each channel; running statistics replace them in evaluation. What "
              "begins with y = is a description, in which mean_t and var_t are over the tokens "
              "of a sequence. gamma and beta are learned for each "
              "channel, like what is declared after a semicolon with its initial value; [1]: one "
              "number. eps is --norm-eps. --norm and other options also take a formula that you "
              "write: --norm='gamma * x / (1 + abs(x))'."},
             {"placements", "placement",
              "A formula is the residual stream x after a sub-layer F (attention or MLP). N is a "
              "norm, l = 1, ..., L the layer, C the number of channels, and the head the output "
              "layer."},
             {"connections", "connection",
              "A formula is the residual stream x after a sub-layer with input u (x unless given) "
              "and output f. a and b are constant factors of the placement, usually 1. N is a "
              "norm, C the number of channels, and the head the output layer."},
             {"optimizers", "optimizer",
              "In formulas, w is a weight, g its gradient, lr the learning rate, mu the momentum, "
              "and decay --weight-decay, or 0 for biases and norms. m and v are initially 0."},
             {"schedules", "schedule",
              "Formulas hold after linear warm-up. lr is --learning-rate, and min --min-lr. x "
              "rises from 0 at the start of the decay to 1 at --lr-decay-iters."},
             {0}};

/* The list on this page, or of the kinds of this option; without a page if there is none. */
static const struct list *list_find(const char *name) {
    const struct list *list = lists;
    while (list->page && strcmp(list->page, name) != 0 && strcmp(list->option, name) != 0) list++;
    return list;
}

/* Adds to the formula of kind i, a norm or an optimizer, which options it uses. */
static void add_uses(const struct option *o, int64_t i, char *text, size_t size) {
    const char *before = "; options: ";
    if (!strcmp(o->name, "norm") && norm_kinds[i]->statistics && !norm_kinds[i]->causal)
        format_add(text, size, "; batch statistics");
    for (const struct option *used = config_options; used->kind != OPTION_END; used++) {
        if (used->kind == OPTION_HEADING || !config_uses(o, i, used)) continue;
        format_add(text, size, "%s%s", before, used->name);
        before = " ";
    }
}

/* The values of a choice that has a list, with their formulas, and the symbols in these. */
static void put_kinds(const struct option *choosing, const struct list *list, bool roff) {
    char name[64], text[OPTION_NOTE];
    struct option_choice kind;
    printf(roff ? ".PP\n%s is one of:\n" : "  %s is one of:\n", choosing->metavar);
    for (int64_t i = 0; (kind = option_choice_of(choosing, i)).name; i++) {
        snprintf(name, sizeof name, "%s%s%s", kind.name, kind.full_name ? ", " : "",
                 kind.full_name ? kind.full_name : "");
        snprintf(text, sizeof text, "%s", kind.formula);
        add_uses(choosing, i, text, sizeof text);
        put_row(roff, name, text, 28);
    }
    fputs(roff ? ".PP\n" : "  ", stdout);
    put_paragraph(roff, list->symbols, 2);
    if (!roff) putchar('\n');
}

/* A heading, the list of the topic, and the rows up to the next heading. */
static void put_topic(const struct option *heading, bool roff) {
    const struct list *list = list_find(heading->name);
    printf(roff ? ".SS %s\n" : "%s:\n", heading->help);
    if (list->page) put_kinds(options_find(config_options, heading->name), list, roff);
    for (const struct option *o = heading + 1; o->kind != OPTION_HEADING && o->kind != OPTION_END;
         o++)
        put_option(o, roff);
}

static void put_topics(bool roff) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind != OPTION_HEADING) continue;
        if (!roff) putchar('\n');
        put_topic(o, roff);
    }
}

/* The values of a choice, for a form that shows a placeholder instead. */
static void put_values(const struct option *o) {
    char text[OPTION_NOTE] = "Values:";
    struct option_choice choice;
    for (int64_t i = 0; (choice = option_choice_of(o, i)).name; i++) {
        format_add(text, sizeof text, "%s %s", i ? "," : "", choice.name);
        if (choice.full_name) format_add(text, sizeof text, " (%s)", choice.full_name);
    }
    fputs("\n  ", stdout);
    put_wrapped(text, 2);
}

void help_topics(char *text, size_t size) {
    snprintf(text, size, "all");
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_HEADING) format_add(text, size, " %s", o->name);
}

/* A title, and the names of an option's values. */
static void put_names(const char *title, const char *option) {
    const struct option *o = options_find(config_options, option);
    char text[OPTION_NOTE];
    struct option_choice choice;
    snprintf(text, sizeof text, "%s", title);
    for (int64_t i = 0; (choice = option_choice_of(o, i)).name; i++)
        format_add(text, sizeof text, " %s", choice.name);
    put_hanging(text, 0, 2);
}

static void put_first_page(void) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    fputs("Usage: train [OPTION]... [CORPUS]\n", stdout);
    put_wrapped(introduction, 0);
    putchar('\n');
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        printf("  ./train %s\n", examples[i]);
    putchar('\n');
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!o->basic) continue;
        put_form(o, form);
        snprintf(text, sizeof text, "%.*s", (int)strcspn(o->help, ";"), o->help);
        if (option_takes_value(o) && o->start)
            format_add(text, sizeof text, "; default %s", o->start);
        put_row(false, form, text, 24);
    }
    putchar('\n');
    put_names("Norms:", "norm");
    put_names("Placements:", "placement");
    puts("More: --help=OPTION, --help=all, or --help=TOPIC, which is one of");
    help_topics(text, sizeof text);
    fputs("  ", stdout);
    put_wrapped(text + strlen("all "), 2);
}

/* The topic may be a value of an option, such as the name of a norm. */
static _Noreturn void unknown_topic(const char *topic) {
    struct suggestions found = {0};
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        struct option_choice choice;
        for (int64_t i = 0; o->kind == OPTION_CHOICE && (choice = option_choice_of(o, i)).name; i++)
            if (!strcmp(topic, choice.name))
                die(STATUS_USAGE, "--help=%s: is a value of --%s (see --help=%s)", topic, o->name,
                    o->name);
        if (o->kind != OPTION_HEADING || !options_find(config_options, o->name))
            suggestions_consider(&found, topic, "", o->name);
    }
    die(STATUS_USAGE, "--help=%s: no such topic or option (%s)", topic,
        suggestions_text(&found, "--help lists the topics"));
}

static const char conditions[] = "An option marked \"only with X\" does nothing without X, and one "
                                 "marked \"not with X\" does nothing with X; ./train then says so. "
                                 "X need only hold for a part of the model: "
                                 "--norm-ffn=bn counts as --norm=bn.";

/* Sections at the end of the man page. */
static const char *const sections[][2] = {
    {"EXIT STATUS",
     "0: done\n1: a file, memory or the machine failed\n2: wrong usage or impossible values\n"
     "3: training diverged; the log is kept\n"
     "129, 130, 143: interrupted by SIGHUP, SIGINT or SIGTERM, after a checkpoint was saved"},
    {"FILES",
     "A run's folder holds config.ini (every option), log.csv (losses, in nats per character), "
     "model.safetensors (the weights), checkpoint.safetensors (what --resume needs), summary.json, "
     "sample.txt and, with --probe-interval, probes.csv, with --sample-interval samples.txt."}};

static void put_man(void) {
    fputs(".TH NORMLAB 1 \"\" \"normlab " VERSION "\" \"User Commands\"\n.nh\n.ad l\n"
          ".SH NAME\nnormlab \\- train a small Transformer with any normalization in any "
          "placement\n.SH SYNOPSIS\n.B normlab\n[\\fIOPTION\\fR]... [\\fICORPUS\\fR]\n"
          ".SH DESCRIPTION\n",
          stdout);
    put_paragraph(true, introduction, 0);
    puts(".SH OPTIONS");
    put_paragraph(true, conditions, 0);
    put_topics(true);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        printf(".SH %s\n", sections[i][0]);
        put_paragraph(true, sections[i][1], 0);
    }
    puts(".SH EXAMPLES");
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        put_paragraph(true, "normlab ", 0);
        put_paragraph(true, examples[i], 0);
        puts(".br");
    }
}

/* The reader of standard output has closed it. */
static void reader_left(int number) {
    _exit(STATUS_OK);
}

/* Programs take every line without an indent for a name. A formula may go on below,
   indented by 14. */
static void put_list(const struct list *list) {
    const struct option *o = options_find(config_options, list->option);
    struct option_choice kind;
    for (int64_t i = 0; (kind = option_choice_of(o, i)).name; i++) {
        if (!kind.formula) continue;
        printf("%-11s ", kind.name);
        put_hanging(kind.formula, 12, 14);
        printf("%-11s ", "");
        put_wrapped(kind.source, 12);
    }
    printf("\n%-11s ", "");
    put_wrapped(list->symbols, 12);
}

/* For programs. */
static void put_json(void) {
    fputs("{\"options\":\n", stdout);
    options_table_json(config_options, stdout);
    puts("}");
}

static void put_all(void) {
    fputs("Usage: train [OPTION]... [CORPUS]\n", stdout);
    put_wrapped(introduction, 0);
    put_wrapped(conditions, 0);
    put_topics(false);
}

static void put_page(const char *topic) {
    static const struct {
        const char *name;
        void (*put)(void);
    } pages[] = {{"", put_first_page},
                 {"all", put_all},
                 {"man", put_man},
                 {"completion", help_put_completion},
                 {"json", put_json}};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (!strcmp(pages[i].name, topic)) return pages[i].put();
    const struct list *list = list_find(topic);
    const struct option *o = options_find(config_options, topic), *heading = config_options;
    while (heading->kind != OPTION_END &&
           !(heading->kind == OPTION_HEADING && !strcmp(heading->name, topic)))
        heading++;
    if (heading->kind == OPTION_HEADING) {
        put_topic(heading, false);
    } else if (o) {
        put_option(o, false);
        if (o->kind == OPTION_CHOICE && o->metavar) put_values(o);
    } else if (list->page) {
        put_list(list);
    } else {
        unknown_topic(topic);
    }
}

bool help_answer(const struct config *config) {
    if (!config->help && !config->version) return false;
    streams_expect_output();
    signal(SIGPIPE, reader_left);
    if (config->version)
        puts("normlab " VERSION);
    else
        put_page(config->help);
    streams_flush();
    return true;
}
