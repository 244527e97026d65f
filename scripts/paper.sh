# shellcheck shell=bash
# For scripts that reproduce a paper's figure, which source it: their command line, and the text.
#
#   read_command "$@"     $folder, and the arrays front (for ablate.sh) and common (for ./train)
#   find_corpus           $corpus: the one given, else tiny Shakespeare, else '': the built-in grammar
#   picture NAME OPTION...  draws the runs in $folder as NAME.png there, its numbers as NAME.csv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$0" .sh)

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

picture() {
    "$here/plot.py" "$folder" "${@:2}" --table="$folder/$1.csv" -o "$folder/$1.png"
}
