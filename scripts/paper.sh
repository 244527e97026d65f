# shellcheck shell=bash
# Functions of the scripts that reproduce a paper's figure, which source this file.
#
#   read_command "$@"     $folder, and the arrays front (for ablate.sh) and common (for ./train)
#   find_corpus           $corpus: the one given, else tiny Shakespeare, else '': the built-in grammar
#   claim_folder          makes $folder an ablation's folder, to which further files may be added; ends the
#                         script if it holds something else
#   whole_number NAME DEFAULT  prints the value of --NAME= in $common as a whole number, else the default
#   check_probes DEFAULT  ends the script if --probe-interval=0 leaves nothing to draw
#   probed_steps STEP     prints three steps at which every run in $folder was probed, as 0,50,300: the
#                         first, the one nearest to STEP, and the last
#   picture NAME OPTION...  draws the runs in $folder as NAME.png there, its numbers as NAME.csv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$0" .sh)
# shellcheck source=SCRIPTDIR/common/need_bash.sh
. "$here/common/need_bash.sh"
need_bash "$name" 4 4

say() { echo "$name: $*" >&2; }

read_command() {
    local argument
    folder=runs/$name front=() common=() corpus=''
    for argument; do
        case $argument in
        -h | --help)
            sed -n '2,/^$/s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        --out=?*) folder=${argument#--out=} ;;
        --seeds=* | --jobs=*) front+=("$argument") ;;
        --max-tokens=* | --max-iters=auto)
            say "$argument: the picture's steps follow from the number of updates (--max-iters=N)"
            exit 2
            ;;
        --*=*) common+=("$argument") ;;
        -*) say "$argument: no such option (--help tells)" && exit 2 ;;
        *)
            [ -z "$corpus" ] || { say "$argument: a second corpus" && exit 2; }
            corpus=$argument
            ;;
        esac
    done
    if [ -n "$corpus" ] && [ ! -r "$corpus" ]; then
        say "$corpus: cannot be read"
        exit 1
    fi
    "$here/deps.sh" plot
}

find_corpus() {
    [ -z "$corpus" ] || return 0
    corpus=${CORPORA_DIR:-$here/../data/corpora}/tinyshakespeare.txt
    [ -s "$corpus" ] || "$here/../data/get_corpora.sh" shakespeare >/dev/null || corpus=''
    [ -n "$corpus" ] || say 'on the built-in grammar'
}

claim_folder() {
    if [ -d "$folder" ] && [ ! -d "$folder/driver" ] && [ -n "$(ls -A "$folder")" ]; then
        say "$folder: is not an ablation's folder (another --out)"
        exit 2
    fi
    mkdir -p "$folder/driver" || exit 1
}

whole_number() {
    local option value=$2
    for option in "${common[@]}"; do
        case $option in "--$1="*) value=${option#*=} ;; esac
    done
    awk -v value="$value" 'BEGIN { printf "%d", value }'
}

check_probes() {
    if [ "$(whole_number probe-interval "$1")" -lt 1 ]; then
        say '--probe-interval: must be 1 or more, since the picture shows what was probed'
        exit 2
    fi
}

probed_steps() {
    awk -F , -v wanted="$1" '
        function distance(step) { return step < wanted ? wanted - step : step - wanted }
        FNR > 1 && !seen[FILENAME, $1]++ { runs[$1]++ }
        END {
            for (step in runs) if (runs[step] == ARGC - 1) {
                step += 0
                if (first == "" || step < first) first = step
                if (middle == "" || distance(step) < distance(middle)) middle = step
                if (last == "" || step > last) last = step
            }
            print first (middle > first ? "," middle : "") (last > middle ? "," last : "")
        }' "$folder"/runs/*/probes.csv
}

picture() {
    "$here/plot.py" "$folder" "${@:2}" --table="$folder/$1.csv" -o "$folder/$1.png"
}
