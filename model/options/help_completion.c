/* The bash completion of ./train, from the table of options. */
#include "model/options/help.h"
#include <string.h>

/* The script before and after the names of the options, and after the words and files that complete
   their values. */
static const char before_names[] =
    "# bash completion for normlab and ./train; made by train --help=completion.\n"
    "_normlab() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before='' name='' prefix='' values='' files=''\n"
    "    local options='";
static const char after_names[] =
    "'\n"
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
    "    *) name='' ;;\n"
    "    esac\n"
    "    if [[ -z $name && $word == -* ]]; then\n"
    "        values=$options\n"
    "    elif [[ -z $name || $before == \"$name\" && $values == 'on|off' ]]; then\n"
    "        files=-f # a corpus may follow\n"
    "    fi\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"${values//|/ }\" -- \"$word\"\n"
    "                             [[ -z $files ]] || compgen $files -- \"$word\")\n"
    "    COMPREPLY=(\"${COMPREPLY[@]/#/$prefix}\")\n"
    "    if [[ -n $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
    "        compopt -o nospace 2>/dev/null\n"
    "    fi\n"
    "}\n"
    "complete -F _normlab normlab train\n";

void help_put_completion(void) {
    char topics[OPTION_FORM];
    help_topics(topics, sizeof topics);
    fputs(before_names, stdout);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++)
        if (o->kind != OPTION_HEADING)
            printf("--%s%s ", o->name, help_is_valued(o) && o->role != OPTION_HELP ? "=" : "");
    fputs(after_names, stdout);
    for (const struct option *o = config_options; o->kind != OPTION_END; o++) {
        if (!help_is_valued(o)) continue;
        const char *names = o->metavar && o->kind == OPTION_TEXT ? o->metavar : "";
        const bool chosen = o->kind == OPTION_CHOICE || o->kind == OPTION_SWITCH;
        printf("    --%s) values='%s' files=%s ;;\n", o->name,
               o->role == OPTION_HELP ? topics
               : chosen               ? option_choices(o)
                                      : "",
               strstr(names, "FILE")  ? "-f"
               : strstr(names, "DIR") ? "-d"
                                      : "");
    }
    fputs(after_values, stdout);
}
