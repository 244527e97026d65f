# shellcheck shell=bash
# The list of runs of --grid=FILE: functions of ablate.sh, on its variables.
# shellcheck disable=SC2034,SC2154 # ablate.sh sets and reads them
#
# FILE has one run a line: a name, then options of ./train. Words may be in single quotes, as in a
# folder's grid.txt; a word that starts with # begins a comment. The list is data, not a script: its
# words are taken apart here, and quoted again before a shell sees them.

split_line() { # sets the array $words: the words of the line $1; fails if a quote is not closed
    local rest=$1 word
    local blanks=$'^[ \t]+' plain=$'^[^ \t\'\\\\]+' quoted_part="^'([^']*)'" escaped=$'^\\\\(.)'
    words=()
    while :; do
        [[ ! $rest =~ $blanks ]] || rest=${rest:${#BASH_REMATCH[0]}}
        case $rest in '' | '#'*) return 0 ;; esac
        word=''
        while [[ -n $rest && ! $rest =~ $blanks ]]; do
            if [[ $rest =~ $plain ]]; then
                word+=${BASH_REMATCH[0]}
            elif [[ $rest =~ $quoted_part || $rest =~ $escaped ]]; then
                word+=${BASH_REMATCH[1]}
            else
                return 1
            fi
            rest=${rest:${#BASH_REMATCH[0]}}
        done
        words+=("$word")
    done
}

declare -A in_common=() # the options after --
note_common() {         # note_common WORD...
    local word
    for word; do
        word=${word#--}
        own_names "${word%%=*}"
        in_common[$own]=1
    done
}

check_word() { # check_word WHERE WORD: refuses what a run in a list cannot have
    local name=${2#--}
    own_names "${name%%=*}"
    case $2 in
    --out | --out=* | --resume | --resume=* | --generate | --generate=* | --evaluate | --evaluate=*)
        die 2 "$1: $2: not for a run of a list, which is trained in a folder of its name"
        ;;
    --) die 2 "$1: --: what every run gets belongs after -- of the command" ;;
    --?*) [ -z "${in_common[$own]-}" ] || die 2 "$1: --$own: is after -- too" ;;
    -*) die 2 "$1: $2: is not an option of ./train by its long name, nor a corpus" ;;
    esac
}

# Sets the comma list $differing: the options, other than the seed, that not every run has with one value.
declare -A first_value=() times_given=()
note_value() { # note_value WORD: a word of a run
    local name=corpus
    case $1 in --*) name=${1#--} ;; esac
    own_names "${name%%=*}"
    times_given[$own]=$((${times_given[$own]-0} + 1))
    [ -n "${first_value[$own]+set}" ] || first_value[$own]=${1#--*=}
    [ "${first_value[$own]}" = "${1#--*=}" ] || times_given[$own]=-${#lines[@]}
}

find_differing() {
    local name
    differing=''
    while read -r name; do
        [ "$name" = seed ] || [ "${times_given[$name]}" = ${#lines[@]} ] || differing+=${differing:+, }$name
    done < <(printf '%s\n' "${!times_given[@]}" | LC_ALL=C sort)
}

# Reads the list $1 as the names, lines and variants of the runs. The runs NAME-s1, NAME-s2, ... are
# expected to take the same time: they count as one variant.
read_list() {
    local line where word text stem at=0
    local -A seen=() variant_of=()
    if [ ! -r "$1" ] || [ -d "$1" ]; then
        die 1 "$1: cannot be read (--grid=FILE: one run a line, a name and options)"
    fi
    names=() lines=() variants=() variant_names=()
    while IFS= read -r line || [ -n "$line" ]; do
        at=$((at + 1))
        where="$1, line $at"
        case ${line//$'\t'/} in *[[:cntrl:]]*) die 2 "$where: holds a control character" ;; esac
        split_line "$line" || die 2 "$where: a quote is not closed"
        [ ${#words[@]} -gt 0 ] || continue
        word=${words[0]}
        [[ $word =~ ^[A-Za-z0-9][A-Za-z0-9._+=%-]*$ ]] ||
            die 2 "$where: '$word' is no name for a run's folder (letters, digits and ._+=%-)"
        [ ${#word} -le 200 ] || die 2 "$where: its name is too long for a file's"
        [ -z "${seen[$word]-}" ] || die 2 "$where: '$word' is the name of line ${seen[$word]} too"
        seen[$word]=$at
        names+=("$word")
        text=$word stem=$word
        [[ ! $word =~ ^(.+)-s[0-9]+$ ]] || stem=${BASH_REMATCH[1]}
        for word in "${words[@]:1}"; do
            check_word "$where" "$word"
            note_value "$word"
            quote "$word"
            text+=" $quoted"
        done
        lines+=("$text$common")
        if [ -z "${variant_of[$stem]-}" ]; then
            variant_of[$stem]=${#variant_names[@]}
            variant_names+=("$stem")
        fi
        variants+=("${variant_of[$stem]}")
    done <"$1"
    [ ${#lines[@]} -gt 0 ] || die 2 "$1: has no run"
    find_differing
}

# Refuses a run whose name the folder has with other options.
check_listed() {
    local line name
    local -A listed=()
    [ -e "$folder/grid.txt" ] || return 0
    for line in "${lines[@]}"; do listed[${line%% *}]=$line; done
    while IFS= read -r line; do
        name=${line%% *}
        [ -z "${listed[$name]-}" ] || [ "${listed[$name]}" = "$line" ] ||
            die 2 "$grid: $name: $folder has this run with other options (another name, or another --out)"
    done <"$folder/grid.txt"
}

# Sets expected[VARIANT] without a trial: to the known time, else the mean of those known, else 1 for
# all, which makes their time unknown until a run has ended.
expect_known() {
    local i mean
    know_times
    mean=$(printf '%s\n' "${known[@]}" | awk 'NF { sum += $1; n++ } END { printf "%.3f", n ? sum / n : 1 }')
    [ ${#known[@]} -gt 0 ] || unknown=1
    for i in "${todo[@]}"; do expected[variants[i]]=${known[${variant_names[variants[i]]}]-$mean}; done
}
