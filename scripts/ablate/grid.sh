# shellcheck shell=bash
# The grid of an ablation: functions of ablate.sh.
# shellcheck disable=SC2154 # ablate.sh sets $train
#
# --norm=ln,bn is a list of one option. --batch-size,max-iters=1:24000,4:6000 is a tied list: its
# options vary together, and each tuple has a value for each of them. add_list reads a list, make_grid
# builds every combination of the lists.

quote() { # sets $quoted: the word $1, quoted for a shell
    quoted=$1
    case $1 in
    *[!A-Za-z0-9_./=,:+%@-]* | '') quoted="'${1//\'/\'\\\'\'}'" ;;
    esac
}

encode() { # sets $encoded: the word $1 as part of a file name; different words give different names
    local i byte
    encoded=''
    for ((i = 0; i < ${#1}; i++)); do
        byte=${1:i:1}
        case $byte in
        [._+=-]) ;;
        [[:punct:][:space:]]) printf -v byte '%%%02X' "'$byte" ;;
        esac
        encoded+=$byte
    done
}

split() { # sets the array $parts: the parts of the comma list $1
    local rest=$1, seen=,
    parts=()
    while [ -n "$rest" ]; do
        case $seen in *",${rest%%,*},"*) die 2 "$1: '${rest%%,*}' is there twice" ;; esac
        seen+=${rest%%,*},
        parts+=("${rest%%,*}")
        rest=${rest#*,}
    done
}

# assign NAMES PART: sets the array $assigned to NAME=VALUE for each name. NAMES is NAME or NAME,NAME,...;
# PART is the value, or one value for each name, separated by colons.
assign() {
    local names=$1, rest=$2: count
    assigned=()
    if [[ $1 != *,* ]]; then
        assigned=("$1=$2")
        return
    fi
    while [ -n "$names" ] && [ -n "$rest" ]; do
        assigned+=("${names%%,*}=${rest%%:*}")
        names=${names#*,} rest=${rest#*:}
    done
    if [ -n "$names$rest" ]; then
        count=${1//[!,]/}
        die 2 "--$1: '$2' needs $((${#count} + 1)) values separated by colons, one for each name"
    fi
}

declare -A values=()  # the values of each list as given, by its names
declare -A list_of=() # the names of the list that an option is in

# Other names of norms and placements, as "norm layernorm" and "placement preln", and their short names:
# ./train lists both.
declare -A short_of=()
read_short_names() {
    local topic short long
    while read -r topic short long; do short_of["$topic $long"]=$short; done < <(
        for topic in norm placement; do
            "$train" --help=$topic </dev/null 2>/dev/null |
                sed -nE "s/^  ([a-z-]+), ([a-z-]+)( .*|)$/$topic \\1 \\2/p"
        done
    )
}

shorten() { # shorten NAME=VALUE: sets $shortened, with the short name of a norm or a placement as value
    local name=${1%%=*} topic=norm
    case $name in
    norm | norm-* | *-norm) ;;
    placement | placement-*) topic=placement ;;
    *) topic='' ;;
    esac
    shortened=$1
    [ -z "$topic" ] || shortened=$name=${short_of["$topic ${1#*=}"]-${1#*=}}
}

own_names() { # sets $own: the comma list $1 with the options' own names for aliases
    own=,$1,
    own=${own//,lr,/,learning-rate,}
    own=${own#,} own=${own%,}
}

add_list() { # add_list NAMES VALUES
    local name part own word words list=''
    own_names "$1"
    set -- "$own" "$2"
    split "$1"
    for name in "${parts[@]}"; do
        case $1,$name in
        *,*,seed | *,*,seeds | *,*,out | *,*,jobs | *,*,sshlogin) die 2 "--$1: --$name cannot vary together with others" ;;
        esac
        [ "${list_of[$name]-$1}" = "$1" ] || die 2 "--$name: is in two lists, --${list_of[$name]} and --$1"
        list_of[$name]=$1
    done
    [ -n "$2" ] || die 2 "--$1: needs values (--$1=A,B,...)"
    [ ${#short_of[@]} -gt 0 ] || read_short_names
    split "$2"
    for part in "${parts[@]}"; do
        assign "$1" "$part"
        words=''
        for word in "${assigned[@]}"; do
            shorten "$word"
            words+=:${shortened#*=}
        done
        list+=,${words:1}
    done
    split "${list:1}"
    values[$1]=${list:1}
}

# Sets variant_names and variant_options: each variant's part of a run's name, and its options. The name
# consists of the values, starting with norm and placement, and is the same whether lists were tied or not.
# Sets option_names too, in that order, and title, the grid in words.
make_grid() {
    local others key i name word longer combinations=('')
    local -A value_of=() done_with=()
    mapfile -t others < <(printf '%s\n' "${!list_of[@]}" | grep -vx -e norm -e placement | sort)
    option_names=(norm placement "${others[@]}")
    title=''
    for name in "${option_names[@]}"; do
        key=${list_of[$name]}
        [ -z "${done_with[$key]-}" ] || continue
        done_with[$key]=1
        split "${values[$key]}"
        title+="$key ${parts[*]} x "
        longer=()
        for i in "${combinations[@]}"; do
            for word in "${parts[@]}"; do
                assign "$key" "$word"
                printf -v word '%s\n' "${assigned[@]}"
                longer+=("$i$word")
            done
        done
        combinations=("${longer[@]}")
    done
    variant_names=() variant_options=()
    for i in "${!combinations[@]}"; do
        while IFS= read -r word; do value_of[${word%%=*}]=${word#*=}; done <<<"${combinations[i]%$'\n'}"
        variant_names[i]='' variant_options[i]=''
        for name in "${option_names[@]}"; do
            quote "--$name=${value_of[$name]}"
            variant_options[i]+=" $quoted"
            word=$name=${value_of[$name]}
            case $name in norm | placement) word=${value_of[$name]} ;; esac
            encode "$word"
            variant_names[i]+=${variant_names[i]:+-}$encoded
        done
    done
}
