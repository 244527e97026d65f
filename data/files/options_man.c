/* The manual as a man page (roff with the man macros) and as a completion script for bash. */
#include "data/files/options_help.h"
#include <ctype.h>
#include <string.h>

enum { WIDTH = 76 }; // of the lines of roff; man breaks them again

/* Writes `length` bytes of text so that roff prints them unchanged. */
static void put_roff(FILE *file, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\\')
            fputs("\\e", file);
        else if (text[i] == '-')
            fputs("\\-", file);
        else if (text[i] == '^')
            fputs("\\(ha", file);
        else if (text[i] == '~')
            fputs("\\(ti", file);
        else
            fputc(text[i], file);
    }
}

/* Writes text in lines. A line ends after a sentence, so that roff can space it. A word that would
   start a request at the start of a line is escaped. */
static void put_text(FILE *file, const char *text) {
    size_t column = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        size_t length = strcspn(word, " ");
        bool sentence = length > 1 && word[length - 1] == '.' && word[length];
        if (column && column + 1 + length > WIDTH) {
            fputc('\n', file);
            column = 0;
        }
        if (column) fputc(' ', file);
        if (!column && (*word == '.' || *word == '\'')) fputs("\\&", file);
        put_roff(file, word, length);
        column += length + 1;
        if (sentence) fputc('\n', file);
        if (sentence) column = 0;
        word += length;
    }
    if (column) fputc('\n', file);
}

/* Writes a form such as "--name=N": what is typed literally in bold, placeholders in italics. */
static void put_form(FILE *file, const struct option *o) {
    char form[OPTION_FORM];
    option_form(o, form);
    bool placeholder = o->kind != OPTION_SWITCH && (o->kind != OPTION_CHOICE || o->metavar);
    char *equals = strchr(form, '=');
    if (equals) *equals = 0;
    fputs("\\fB", file);
    put_roff(file, form, strlen(form));
    if (equals) {
        fprintf(file, "=%s", placeholder ? "\\fI" : "");
        put_roff(file, equals + 1, strlen(equals + 1));
    }
    fputs("\\fR\n", file);
}

/* Writes the list at the end of the topic with this heading. */
static void put_entries(const struct manual *m, const struct option *heading, FILE *file) {
    char text[OPTION_NOTE], title[OPTION_FORM];
    const char *name;
    for (int64_t i = 0; m->entry && (name = m->entry(heading->name, i, text, sizeof text)); i++) {
        if (!i) {
            options_list_title(m->table, heading->name, title);
            fprintf(file, ".PP\n%s\n", title);
        }
        fputs(".TP\n.B ", file);
        put_roff(file, name, strlen(name));
        fputc('\n', file);
        put_text(file, text);
    }
}

void options_man(const struct manual *m, FILE *file) {
    char text[OPTION_NOTE], upper[64];
    const struct option *heading = NULL;
    size_t length = strlen(m->installed);
    for (size_t i = 0; i <= length && i < sizeof upper; i++)
        upper[i] = (char)toupper((unsigned char)m->installed[i]);
    fprintf(file, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", upper,
            m->version);
    put_roff(file, m->installed, length);
    fprintf(file, " \\- %s\n.SH SYNOPSIS\n.B ", m->purpose);
    put_roff(file, m->installed, length);
    fputs("\n[\\fIOPTION\\fR]... [\\fICORPUS\\fR]\n.SH DESCRIPTION\n", file);
    put_text(file, m->introduction);
    fputs(".SH OPTIONS\n", file);
    for (const struct option *o = m->table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) {
            fprintf(file, ".SS %s\n", o->help);
            heading = o;
            continue;
        }
        fputs(".TP\n", file);
        put_form(file, o);
        option_describe(m, o, text);
        put_text(file, text);
        if (heading && (o[1].kind == OPTION_HEADING || o[1].kind == OPTION_END))
            put_entries(m, heading, file);
    }
    for (const char *const(*section)[2] = m->sections; section && (*section)[0]; section++) {
        fprintf(file, ".SH %s\n", (*section)[0]);
        for (const char *line = (*section)[1]; *line; line += *line == '\n') {
            snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
            if (line != (*section)[1]) fputs(".br\n", file);
            put_text(file, text);
            line += strcspn(line, "\n");
        }
    }
}

/* Writes the words that complete a value. */
static void put_values(const struct option *table, const struct option *o, FILE *file) {
    const char *separator = "";
    for (int64_t i = 0; o->kind == OPTION_CHOICE && option_choice_name(o, i); i++, separator = " ")
        fprintf(file, "%s%s", separator, option_choice_name(o, i));
    if (o->kind == OPTION_SWITCH) fputs("on off", file);
    if (o->kind == OPTION_HELP) {
        fputs("all", file);
        for (const struct option *h = table; h->kind != OPTION_END; h++)
            if (h->kind == OPTION_HEADING) fprintf(file, " %s", h->name);
    }
}

/* How compgen completes file names as the value: "-f", "-d", or "" if it is no file. */
static const char *files_of(const struct option *o) {
    if (!o->metavar || !option_is_text(o)) return "";
    return strstr(o->metavar, "FILE") ? "-f" : strstr(o->metavar, "DIR") ? "-d" : "";
}

static const char completion_end[] =
    "    --*) return ;;\n"
    "    esac\n"
    "    if [[ -z $name && $word == -* ]]; then\n"
    "        values=$options\n"
    "    elif [[ -z $name ]]; then\n"
    "        files=-f\n"
    "    fi\n"
    "    while IFS= read -r reply; do\n"
    "        COMPREPLY+=(\"$prefix$reply\")\n"
    "    done < <(compgen -W \"$values\" -- \"$word\"; [[ -z $files ]] || compgen $files -- "
    "\"$word\")\n"
    "    if [[ -n $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n";

void options_completion(const struct manual *m, FILE *file) {
    char function[64];
    snprintf(function, sizeof function, "_%s", m->installed);
    for (char *c = function; *c; c++)
        if (*c == '-') *c = '_';
    fprintf(
        file,
        "# bash completion for %s and ./%s; made by %s --help=completion.\n"
        "%s() {\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} before='' name='' prefix='' values='' files=''\n"
        "    local reply options='",
        m->installed, m->command, m->command, function);
    for (const struct option *o = m->table; o->kind != OPTION_END; o++) {
        if (o->kind == OPTION_HEADING) continue;
        bool valued = option_takes_value(o) || (o->kind == OPTION_ALIAS && o->metavar);
        fprintf(file, "%s--%s%s", o == m->table + 1 ? "" : " ", o->name, valued ? "=" : "");
    }
    fputs("'\n"
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
          "    case $name in\n"
          "    '') ;;\n",
          file);
    for (const struct option *o = m->table; o->kind != OPTION_END; o++) {
        bool words = o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH || o->kind == OPTION_HELP;
        const char *files = files_of(o);
        if (o->kind == OPTION_FLAG || o->kind == OPTION_STOP ||
            (o->kind == OPTION_ALIAS && !o->metavar)) {
            fprintf(file, "    --%s) name='' ;;\n", o->name); // a corpus may follow
        } else if (words || *files) {
            fprintf(file, "    --%s) values='", o->name);
            put_values(m->table, o, file);
            fprintf(file, "'%s%s", *files ? " files=" : "", files);
            if (o->kind == OPTION_SWITCH) // without a value it is on, and a corpus may follow
                fprintf(file, "; [[ $before != --%s ]] || files=-f", o->name);
            fputs(" ;;\n", file);
        }
    }
    fputs(completion_end, file);
    fprintf(file, "complete -F %s %s %s\n", function, m->installed, m->command);
}
