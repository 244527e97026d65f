/* The pages of --help, the man page and the bash completion, from the table of options. */
#include "data/die.h"
#include "data/format.h"
#include "model/lab/help.h"
#include <ctype.h>
#include <string.h>

enum { WIDTH = 79 };

static const char introduction[] =
    "Train a character-level Transformer on a text and log its loss. CORPUS is a UTF-8 "
    "file or - (standard input). The default is text of a built-in grammar.";

/* Whether "--name=" is typed. */
static bool is_valued(const struct option *o) {
    return option_takes_value(o) || (o->kind == OPTION_ALIAS && o->metavar);
}

/* How an option is typed, "--name=N", in `form` (OPTION_FORM). */
static void put_form(const struct option *o, char *form) {
    const char *value = o->metavar                                             ? o->metavar
                        : o->kind == OPTION_INT                                ? "N"
                        : o->kind == OPTION_REAL                               ? "X"
                        : o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH ? option_choices(o)
                                                                               : "TEXT";
    if (o->kind == OPTION_HELP)
        snprintf(form, OPTION_FORM, "-%c, --%s[=%s]", o->letter, o->name, value);
    else if (is_valued(o))
        snprintf(form, OPTION_FORM, "--%s=%s", o->name, value);
    else
        snprintf(form, OPTION_FORM, "--%s", o->name);
}

/* The whole description of an option, in `text` (OPTION_NOTE). */
static void describe(const struct option *o, char *text) {
    char needs[OPTION_FORM];
    snprintf(text, OPTION_NOTE, "%s", o->help);
    config_condition(o, needs, sizeof needs);
    if (*needs) format_add(text, OPTION_NOTE, "; only %s", needs);
    if (option_takes_value(o) && o->start) format_add(text, OPTION_NOTE, "; default %s", o->start);
    if (o->kind == OPTION_INT)
        format_add(text, OPTION_NOTE, ", range %.0f to %.0f", o->min, o->max);
    if (o->kind == OPTION_REAL) format_add(text, OPTION_NOTE, ", range %g to %g", o->min, o->max);
}

void help_wrapped(FILE *file, const char *text, size_t indent) {
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

/* Writes a text so that roff prints it unchanged, with its lines. */
static void put_roff(FILE *file, const char *text) {
    static const char *const escape[256] = {['\\'] = "\\e",  ['-'] = "\\-",   ['^'] = "\\(ha",
                                            ['~'] = "\\(ti", ['"'] = "\\(dq", ['\n'] = "\n.br\n"};
    if (*text == '.' || *text == '\'') fputs("\\&", file); // no request
    for (; *text; text++) {
        const char *escaped = escape[(unsigned char)*text];
        fputs(escaped ? escaped : (char[]){*text, 0}, file);
    }
}

/* Prints an option or an entry of a list with its description; with `roff` for the man page. */
static void put_row(FILE *file, bool roff, const char *form, const char *text, size_t indent) {
    if (roff) {
        const char *value = strchr(form, '=');
        char name[OPTION_FORM];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(form, "="), form);
        fputs(".TP\n.BI \"", file);
        put_roff(file, name);
        fputs(value ? "=\" \"" : "\"\n", file);
        if (value) put_roff(file, value + 1);
        fputs(value ? "\"\n" : "", file);
        put_roff(file, text);
        fputc('\n', file);
        return;
    }
    if (strlen(form) + 3 > indent)
        fprintf(file, "  %s\n%*s", form, (int)indent, "");
    else
        fprintf(file, "  %-*s", (int)indent - 2, form);
    help_wrapped(file, text, indent);
}

static void put_option(const struct option *o, bool roff, FILE *file) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    put_form(o, form);
    describe(o, text);
    put_row(file, roff, form, text, 28);
}

/* The rows after a heading, up to the next one, and the list at the end of the topic. */
static void put_topic(const struct option *heading, bool roff, FILE *file) {
    char name[64], text[OPTION_NOTE];
    struct option_choice kind;
    fprintf(file, roff ? ".SS %s\n" : "%s:\n", heading->help);
    for (const struct option *o = heading + 1; o->kind != OPTION_HEADING && o->kind != OPTION_END;
         o++)
        put_option(o, roff, file);
    const struct option *choosing = options_find(config_options, heading->name);
    if (!choosing || !option_choice(choosing, 0).formula) return;
    fprintf(file, roff ? ".PP\n%s is one of:\n" : "\n  %s is one of:\n", choosing->metavar);
    for (int64_t i = 0; (kind = option_choice(choosing, i)).name; i++) {
        snprintf(name, sizeof name, "%s%s%s", kind.name, kind.full_name ? ", " : "",
                 kind.full_name ? kind.full_name : "");
        snprintf(text, sizeof text, "%s", kind.formula);
        help_uses(choosing, i, text, sizeof text);
        put_row(file, roff, name, text, 28);
    }
    fputs(roff ? ".PP\n" : "  ", file);
    if (roff)
        put_roff(file, help_symbols(heading->name));
    else
        help_wrapped(file, help_symbols(heading->name), 2);
    if (roff) fputc('\n', file);
}

/* The values of a choice, for a form that shows a placeholder instead. */
static void put_values(const struct option *o, FILE *file) {
    char text[OPTION_NOTE] = "Values:";
    struct option_choice choice;
    for (int64_t i = 0; (choice = option_choice(o, i)).name; i++) {
        format_add(text, sizeof text, "%s %s", i ? "," : "", choice.name);
        if (choice.full_name) format_add(text, sizeof text, " (%s)", choice.full_name);
    }
    fputs("\n  ", file);
    help_wrapped(file, text, 2);
}

/* The names of all topics, separated by blanks. */
static void topics_text(char *text, size_t size) {
    snprintf(text, size, "all");
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_HEADING) format_add(text, size, " %s", o->name);
}

static void put_first_page(FILE *file) {
    char form[OPTION_FORM], text[OPTION_NOTE];
    fputs("Usage: train [OPTION]... [CORPUS]\n", file);
    help_wrapped(file, introduction, 0);
    fputc('\n', file);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!o->basic) continue;
        put_form(o, form);
        int length = (int)strcspn(o->help, ";");
        bool told = option_takes_value(o) && o->start;
        snprintf(text, sizeof text, "%.*s%s%s", length, o->help, told ? "; default " : "",
                 told ? o->start : "");
        put_row(file, false, form, text, 24);
    }
    fputs("\nMore: --help=TOPIC, --help=OPTION for one option, --help=all. Topics:\n  ", file);
    topics_text(text, sizeof text);
    help_wrapped(file, text + strlen("all "), 2);
}

/* Dies if the topic is a value of an option, such as the name of a norm. */
static void refuse_value(const char *topic) {
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        struct option_choice choice;
        for (int64_t i = 0; o->kind == OPTION_CHOICE && (choice = option_choice(o, i)).name; i++)
            if (!strcmp(topic, choice.name))
                die(STATUS_USAGE, "--help=%s: is a value of --%s (see --help=%s)", topic, o->name,
                    o->name);
    }
}

static _Noreturn void unknown_topic(const char *topic) {
    refuse_value(topic);
    struct suggestions found = {0};
    char topics[256];
    topics_text(topics, sizeof topics);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->name && (o->kind != OPTION_HEADING || !options_find(config_options, o->name)))
            suggest_consider(&found, topic, "", o->name);
    const char *hint = suggest_text(&found);
    die(STATUS_USAGE, "--help=%s: no such topic or option (%s%stopics: %s)", topic,
        hint ? hint : "", hint ? " " : "", topics);
}

static const char conditions[] = "\"Only with\" and \"only without\" introduce conditions: unless "
                                 "all of them hold, the option has no effect. The condition "
                                 "--NAME=A|B holds if this option, or one that overrides it in a "
                                 "part of the model, is A or B.";

/* Sections at the end of the man page. */
static const char *const sections[][2] = {
    {"EXIT STATUS",
     "0: done\n1: a file, memory or the machine failed\n2: wrong usage or impossible values\n"
     "3: training diverged; the log is kept\n"
     "130, 143: interrupted by SIGINT or SIGTERM, after a checkpoint was saved"},
    {"FILES",
     "A run's folder holds config.ini (every option), log.csv (losses, in nats per character), "
     "model.safetensors (the weights), checkpoint.safetensors (what --resume needs), summary.json, "
     "sample.txt and, with --probe-interval, probes.csv, with --sample-interval samples.txt."},
    {"EXAMPLES", "normlab-train --norm=rms --postln --learning-rate=3e-3 --out=runs/try CORPUS\n"
                 "normlab-train --resume=runs/try\n"
                 "normlab-train --generate=runs/try --prompt=\"ROMEO:\""}};

static void put_man(FILE *file) {
    fputs(".TH NORMLAB-TRAIN 1 \"\" \"normlab " VERSION "\" \"User Commands\"\n.nh\n.ad l\n"
          ".SH NAME\nnormlab\\-train \\- train a small Transformer with any normalization in any "
          "placement\n.SH SYNOPSIS\n.B normlab\\-train\n[\\fIOPTION\\fR]... [\\fICORPUS\\fR]\n"
          ".SH DESCRIPTION\n",
          file);
    put_roff(file, introduction);
    fputs("\n.SH OPTIONS\n", file);
    put_roff(file, conditions);
    fputc('\n', file);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind == OPTION_HEADING) put_topic(o, true, file);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        fprintf(file, ".SH %s\n", sections[i][0]);
        put_roff(file, sections[i][1]);
        fputc('\n', file);
    }
}

/* The script before and after the names of the options, and after the words and files that complete
   their values. */
static const char before_names[] =
    "# bash completion for normlab-train and ./train; made by train --help=completion.\n"
    "_normlab_train() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before='' name='' prefix='' values='' files=''\n"
    "    local reply options='";
static const char after_names[] =
    "'\n"
    "    COMPREPLY=()\n"
    "    ((COMP_CWORD == 0)) || before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    # bash splits --name=value at \"=\", unless COMP_WORDBREAKS lacks it\n"
    "    if [[ $word == = ]]; then\n"
    "        name=$before word=''\n"
    "    elif [[ $before == = ]]; then\n"
    "        name=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    elif [[ $word == --*=* ]]; then\n"
    "        name=${word%%=*} prefix=${word%%=*}= word=${word#*=}\n"
    "    elif [[ $word != -* && $before == --* ]]; then\n"
    "        name=$before\n"
    "    fi\n"
    "    case $name in\n";
static const char after_values[] =
    "    esac\n"
    "    if [[ -z $name && $word == -* ]]; then\n"
    "        values=$options\n"
    "    elif [[ -z $name || $before == \"$name\" && $values == 'on|off' ]]; then\n"
    "        files=-f # a corpus may follow\n"
    "    fi\n"
    "    while IFS= read -r reply; do\n"
    "        COMPREPLY+=(\"$prefix$reply\")\n"
    "    done < <(compgen -W \"${values//|/ }\" -- \"$word\"; [[ -z $files ]] || compgen $files -- "
    "\"$word\")\n"
    "    if [[ -n $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -F _normlab_train normlab-train train\n";

static void put_completion(FILE *file) {
    char topics[OPTION_FORM];
    topics_text(topics, sizeof topics);
    fputs(before_names, file);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING) fprintf(file, "--%s%s ", o->name, is_valued(o) ? "=" : "");
    fputs(after_names, file);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) continue;
        const char *names = o->metavar && option_is_text(o) ? o->metavar : "";
        fprintf(file, "    --%s) values='%s' files=%s%s ;;\n", o->name,
                o->kind == OPTION_HELP                                 ? topics
                : o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH ? option_choices(o)
                                                                       : "",
                strstr(names, "FILE")  ? "-f"
                : strstr(names, "DIR") ? "-d"
                                       : "",
                is_valued(o) || o->kind == OPTION_HELP ? "" : " name=''");
    }
    fputs(after_values, file);
}

void help_page(const char *topic, FILE *file) {
    const struct option *heading = config_options;
    while (heading->kind != OPTION_END &&
           !(heading->kind == OPTION_HEADING && !strcmp(heading->name, topic)))
        heading++;
    const struct option *o = options_find(config_options, topic);
    if (!*topic) {
        put_first_page(file);
    } else if (!strcmp(topic, "man")) {
        put_man(file);
    } else if (!strcmp(topic, "completion")) {
        put_completion(file);
    } else if (!strcmp(topic, "all")) {
        fputs("Usage: train [OPTION]... [CORPUS]\n", file);
        help_wrapped(file, introduction, 0);
        help_wrapped(file, conditions, 0);
        for (heading = config_options; heading->kind != OPTION_END; heading++) {
            if (heading->kind != OPTION_HEADING) continue;
            fputc('\n', file);
            put_topic(heading, false, file);
        }
    } else if (heading->kind == OPTION_HEADING) {
        put_topic(heading, false, file);
    } else if (o) {
        put_option(o, false, file);
        if (o->kind == OPTION_CHOICE && o->metavar) put_values(o, file);
    } else {
        unknown_topic(topic);
    }
}
