#!/usr/bin/env bash
# An ablation: every combination of some options of ./train, each with the same seeds (--help tells how).
#
# options -> grid -> list (FOLDER/grid.txt, one run a line) -> a trial of each variant
#   -> runs side by side (ablate_run.sh, under GNU parallel or xargs) -> results.csv and the table
#
# Whether a run has ended is said by its own summary.json and nothing else; so whatever was killed,
# the same command does what is left, and a run that left a checkpoint goes on from there. Two locks
# keep runs apart: driver/lock is this script's and goes with it, since its children do not inherit it;
# each run has one of its own, which lives as long as its ./train, so that a run left behind by a killed
# driver is waited for and not done twice.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
set -euf
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
train=${TRAIN:-$here/../train}

usage() {
    cat <<'TEXT'
Usage: scripts/ablate.sh [GRID OPTION]... [-- [OPTION of ./train]... [CORPUS]]

Runs ./train for every combination of the values in front of --; each run gets what stands behind it.
  --NAME=A,B,...    values of any option of ./train
                    (default --norm=ln,bn,rms --placement=pre,post, which every grid has)
  --seeds=N         seeds 1 to N (default 5); --seeds=1,3,7 or --seed=7 for just these
  --out=DIR         the ablation's folder (default: runs/ablate-..., named by the arguments without the
                    seeds); a folder can be extended by more values and seeds, and nothing is done again
  --jobs=N          runs side by side (default: one for each core); threads of a run = cores / jobs
  --sshlogin=LIST   spread the runs over machines that share this folder, with GNU parallel
  --dry-run         show the grid and the expected time, and leave nothing behind
  --list            the same, and write DIR/grid.txt, one run a line, for scripts/ablate.slurm

Killed at any moment, the same command goes on, and runs from their checkpoints. DIR then holds
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       what runs printed, locks, job log

Exit status: 0 every run ended (one that diverged has), 1 some failed, 2 wrong usage, 130 or 143 interrupted.
TEXT
}

say() { echo "ablate: $*" >&2; }
die() { # die STATUS MESSAGE
    say "$2"
    exit "$1"
}

quote() { # a word for a shell to read, in $quoted
    quoted=$1
    case $1 in
    *[!A-Za-z0-9_./=,:+%@-]* | '') quoted="'${1//\'/\'\\\'\'}'" ;;
    esac
}

encode() { # a word for a file name, in $encoded: different words stay different
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

split() { # the parts of a comma list, in the array $parts
    local rest=$1, seen=,
    parts=()
    while [ -n "$rest" ]; do
        case $seen in *",${rest%%,*},"*) die 2 "$1: '${rest%%,*}' is there twice" ;; esac
        seen+=${rest%%,*},
        parts+=("${rest%%,*}")
        rest=${rest#*,}
    done
}

# Options: values of the grid by name, and those of this script.
declare -A values=([norm]='ln,bn,rms' [placement]='pre,post')
seeds=5 seed_list='' folder='' jobs='' sshlogin='' dry_run='' list_only=''
while [ $# -gt 0 ]; do
    argument=$1
    shift
    case $argument in
    --) break ;;
    -h | --help) usage && exit 0 ;;
    --dry-run) dry_run=1 && continue ;;
    --list) list_only=1 && continue ;;
    --*=*) value=${argument#*=} ;;
    --*)
        case ${1---} in --*) die 2 "$argument: needs values ($argument=A,B,...)" ;; esac
        value=$1
        shift
        ;;
    *) die 2 "$argument: what every run gets stands behind -- (scripts/ablate.sh --norm=ln,bn -- $argument)" ;;
    esac
    name=${argument#--}
    name=${name%%=*}
    case $value in *[[:cntrl:]]*) die 2 "--$name: its value holds a control character" ;; esac
    case $name in
    out | jobs | sshlogin) [ -n "$value" ] || die 2 "--$name: must not be empty" ;;
    esac
    case $name in
    out) folder=$value ;;
    sshlogin) sshlogin=$value ;;
    jobs) jobs=$value ;;
    seeds) seeds=$value seed_list='' ;;
    seed) seed_list=$value ;;
    *[!a-z0-9-]* | '' | -*) die 2 "$argument: no such option (--help lists them)" ;;
    *) values[$name]=$value ;;
    esac
done
case $jobs in *[!0-9]* | 0* | ?????*) die 2 "--jobs=$jobs: must be a whole number from 1 to 9999" ;; esac
case $folder in -*) folder=./$folder ;; esac
while [[ $folder == ?*/ ]]; do folder=${folder%/}; done

case $seeds in
*,*) seed_list=${seed_list:-$seeds} ;;
*[!0-9]* | '' | 0* | ?????*) die 2 "--seeds=$seeds: must be a whole number from 1 to 9999, or a list" ;;
esac
split "${seed_list:-$(seq -s , "$seeds")}"
seeds=("${parts[@]}")
for seed in "${seeds[@]}"; do
    if [[ ! $seed =~ ^(0|[1-9][0-9]{0,15})$ ]] || [ "$seed" -gt 9007199254740992 ]; then
        die 2 "--seeds=$seed_list: '$seed' is no whole number from 0 to 9007199254740992"
    fi
done

common=''
operands=''
for word; do
    case $word in *[[:cntrl:]]*) die 2 "$word: holds a control character" ;; esac
    quote "$word"
    common+=" $quoted"
    [ -z "$operands" ] || continue
    name=${word#--}
    name=${name%%=*}
    case $word in
    --) operands=1 ;;
    - | --corpus=-) die 2 "-: standard input cannot feed several runs (give a file)" ;;
    --seed | --seed=* | --out | --out=*) die 2 "--$name: belongs in front of --" ;;
    --preln | --postln) die 2 "$word: names a placement: --placement=LIST belongs in front of --" ;;
    --[a-z]*) [[ ! -v "values[$name]" ]] || die 2 "--$name: is in the grid and belongs in front of --" ;;
    esac
done

# The grid: every variant's part of a name, and its options.
mapfile -t others < <(printf '%s\n' "${!values[@]}" | grep -vx -e norm -e placement | sort)
variant_names=('') variant_options=('')
shape='' title='' default=''
for name in norm placement "${others[@]}"; do
    split "${values[$name]}"
    shape+=" --$name" title+="$name ${parts[*]} x " default+=" --$name=${values[$name]}"
    names=() options=()
    for i in "${!variant_names[@]}"; do
        for value in "${parts[@]}"; do
            quote "--$name=$value"
            case $name in norm | placement) ;; *) value=$name=$value ;; esac
            encode "$value"
            names+=("${variant_names[i]:+${variant_names[i]}-}$encoded")
            options+=("${variant_options[i]} $quoted")
        done
    done
    variant_names=("${names[@]}") variant_options=("${options[@]}")
done
shape="${shape# } --$common"
encode "${others[*]}"
encoded=${encoded//%20/-}
: "${folder:=runs/ablate-norm-placement${encoded:+-$encoded}-$(printf '%s' "$default --$common" | cksum | cut -d ' ' -f 1)}"

names=() lines=() variants=() # of the runs; all variants with the first seed come first
for seed in "${seeds[@]}"; do
    for i in "${!variant_names[@]}"; do
        names+=("${variant_names[i]}-s$seed")
        lines+=("${variant_names[i]}-s$seed${variant_options[i]} --seed=$seed$common")
        variants+=("$i")
        [ "${#names[-1]}" -le 200 ] || die 2 "${names[-1]}: too long for a file's name (shorten the values)"
    done
done

# What the folder has already: numbers of lines by run, runs that have ended.
declare -A number=() has_ended=()
read_folder() {
    local name path summaries=()
    number=() has_ended=()
    if [ -d "$folder" ] && [ ! -d "$folder/driver" ] && [ -n "$(ls -A "$folder")" ]; then
        die 2 "$folder: is not an ablation's folder (another --out)"
    fi
    if [ -e "$folder/driver/shape" ] && [ "$(cat "$folder/driver/shape")" != "$shape" ]; then
        die 2 "$folder: holds another grid: $(cat "$folder/driver/shape") (another --out; more values and seeds would fit)"
    fi
    if [ -e "$folder/grid.txt" ]; then
        while read -r name _; do number[$name]=$((${#number[@]} + 1)); done <"$folder/grid.txt"
    fi
    for name in "${names[@]}"; do summaries+=("$folder/runs/$name/summary.json"); done
    while read -r path; do
        path=${path%/summary.json}
        has_ended[${path##*/}]=1
    done < <(grep -lsE '"exit_reason": "(done|diverged)"' "${summaries[@]}")
    todo=()
    for i in "${!names[@]}"; do [ -n "${has_ended[${names[i]}]-}" ] || todo+=("$i"); done
}

locked=''
lock() {
    [ -z "$locked" ] || return 0
    locked=1
    if ! command -v flock >/dev/null; then
        say "no flock(1) here (util-linux): nothing keeps a second ablate.sh out of $folder"
        return
    fi
    exec 9>>"$folder/driver/lock"
    flock -n 9 || die 1 "$folder: another ablate.sh is at work there ($(tail -n 1 "$folder/driver/lock"))"
    echo "process $$ on $(uname -n)" >"$folder/driver/lock"
}

# Processes under way are a group of their own; signals for this script are passed on to it once.
child='' interrupted='' temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
interrupt() {
    interrupted=$1
    [ -z "$child" ] || say 'interrupted: what is under way saves and ends (a second time: it dies at once)'
    [ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null || :
}
trap 'interrupt 130' INT
trap 'interrupt 143' TERM
trap 'interrupt 129' HUP
under_way() { kill -0 -- "-$child" 2>/dev/null; }

# shellcheck source=SCRIPTDIR/ablate_watch.sh
. "$here/ablate_watch.sh"

try() { # tries the variants that have runs to do: expected[VARIANT] = seconds of a run
    local i status=0 tried=()
    expected=()
    for i in "${todo[@]}"; do
        [ -z "${expected[${variants[i]}]-}" ] || continue
        expected[variants[i]]=0
        tried+=("${variants[i]}")
        echo "${lines[i]}"
    done >"$temporary/variants"
    set -m
    "$here/ablate_try.sh" "$jobs" "$threads" <"$temporary/variants" >"$temporary/seconds" &
    child=$!
    set +m
    wait "$child" || status=$?
    while under_way; do sleep 0.1; done
    [ -z "$interrupted" ] || exit "$interrupted"
    [ "$status" -eq 0 ] || exit "$status"
    for i in "${tried[@]}"; do read -r "expected[$i]"; done <"$temporary/seconds"
}

show() { # the grid and the time
    local how='' i all least most
    [ ${#todo[@]} -eq ${#names[@]} ] || how="; $((${#names[@]} - ${#todo[@]})) have ended, ${#todo[@]} to do"
    echo "grid:     ${#names[@]} runs: ${title}seed ${seeds[*]}$how"
    [ -z "$common" ] || echo "each:    $common"
    echo "folder:   $folder"
    [ ${#todo[@]} -gt 0 ] || return 0
    all=$(for i in "${todo[@]}"; do echo "waiting ${expected[variants[i]]}"; done | time_left "$jobs")
    least=$(printf '%s\n' "${expected[@]}" | sort -g | head -n 1)
    least=$(duration "$least")
    most=$(printf '%s\n' "${expected[@]}" | sort -g | tail -n 1)
    most=$(duration "$most")
    [ "$least" = "$most" ] || most="$least to $most"
    echo "expected: $most a run, $(duration "$all") in all, $jobs side by side" \
        "with ${threads} thread$([ "$threads" -eq 1 ] || echo s) each${sshlogin:+ if there were only this machine}" \
        "(an estimate, from a second of training)"
}

is_gnu_parallel() { parallel --version 2>/dev/null | grep -q '^GNU parallel'; } # Debian's moreutils has another

start_runs() { # start_runs RUN...: in the background, as the group $child
    local i options=(--threads="$threads") logins=()
    for i; do echo "${number[${names[i]}]}"; done >"$temporary/numbers"
    set -m
    if is_gnu_parallel; then
        if [ -n "$sshlogin" ]; then
            logins=(--sshlogin "$sshlogin" --workdir . ${given_jobs:+-j "$given_jobs"})
        else
            logins=(-j "$jobs")
            options+=(--while=$$)
        fi
        PARALLEL_SHELL=/bin/bash parallel --plain --will-cite --quote "${logins[@]}" \
            --joblog "$folder/driver/joblog" -a "$temporary/numbers" \
            "$here/ablate_run.sh" "${options[@]}" "$folder" </dev/null >/dev/null 2>"$folder/driver/runner.err" &
    else
        xargs -P "$jobs" -n 1 "$here/ablate_run.sh" "${options[@]}" --while=$$ "$folder" \
            <"$temporary/numbers" >/dev/null 2>"$folder/driver/runner.err" &
    fi
    child=$!
    set +m
}

table() { "${PYTHON:-python3}" "$here/table.py" "$@"; }

write_results() { ! command -v "${PYTHON:-python3}" >/dev/null || table --csv="$folder/results.csv" "$folder" 2>/dev/null || :; }

# Runs what is to do until nothing of it is left that was not begun: the death of xargs, or of a
# script that it started, must not end the grid.
run_all() {
    local before i
    total=${#names[@]} said=$((${#names[@]} - ${#todo[@]})) pending=("${todo[@]}") ended=() since=()
    for i in "${todo[@]}"; do rm -f "$folder/driver/${names[i]}.status"; done
    while [ ${#pending[@]} -gt 0 ]; do
        before=${#pending[@]}
        start_runs "${pending[@]}"
        while under_way; do
            look
            sleep 0.5 >/dev/null 2>&1 &
            wait $! || : # or until a signal comes
        done
        look
        [ ! -t 2 ] || printf '\r\033[K' >&2
        [ -z "$interrupted" ] || return 0
        for i in "${!pending[@]}"; do # a record without an end is that of a script that was killed
            [ ! -e "$folder/driver/${names[pending[i]]}.status" ] || unset "pending[i]"
        done
        [ ${#pending[@]} -lt "$before" ] || die 1 "no run can be started: $(tail -n 1 "$folder/driver/runner.err")"
    done
}

# The table, and what is to be said of runs that did not end. Sets $status.
conclude() {
    local i word code message
    read_folder
    write_results
    status=0
    if [ -n "$interrupted" ]; then
        say "interrupted: $((${#names[@]} - ${#todo[@]})) of ${#names[@]} runs have ended; the same command goes on"
        exit "$interrupted"
    fi
    if command -v "${PYTHON:-python3}" >/dev/null; then
        table "$folder" || status=1
    else
        say "no python3 here: no table and no results.csv (scripts/table.py $folder prints it)"
    fi
    [ ${#todo[@]} -gt 0 ] || return 0
    status=1
    say "${#todo[@]} of ${#names[@]} runs failed; the same command tries them again:"
    for i in "${todo[@]}"; do
        word=''
        [ ! -e "$folder/driver/${names[i]}.status" ] || read -r word code _ <"$folder/driver/${names[i]}.status"
        message=$(tail -n 1 "$folder/driver/${names[i]}.out" 2>/dev/null) || :
        if [ "$word" = ended ]; then code=$(how_it_failed "$code"); else code='did not end: its script was killed'; fi
        say "${names[i]}: $code${message:+: $message}"
    done
}

put() { # put FILE: standard input into a file of the folder, whole or not at all
    if ! cat >"$folder/$1.new" || ! mv -f "$folder/$1.new" "$folder/$1"; then
        die 1 "$folder/$1: cannot be written"
    fi
}

proceed() {
    local i
    read_folder
    printf '%s\n' "$shape" | put driver/shape
    {
        [ ! -e "$folder/grid.txt" ] || cat "$folder/grid.txt"
        for i in "${!names[@]}"; do [ -n "${number[${names[i]}]-}" ] || echo "${lines[i]}"; done
    } | put grid.txt
    read_folder
    if [ -n "$list_only" ]; then
        echo "list:     $folder/grid.txt, $(wc -l <"$folder/grid.txt") runs"
        return
    fi
    run_all
    conclude
    exit "$status"
}

[ -x "$train" ] || die 1 "$train: is not there (make builds it)"
[ -z "$sshlogin" ] || is_gnu_parallel || die 1 "--sshlogin needs GNU parallel (scripts/deps.sh ablate installs it)"
[ -n "$dry_run" ] || [ ! -d "$folder/driver" ] || lock
read_folder
given_jobs=$jobs
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
jobs=${jobs:-$cores}
[ ${#todo[@]} -eq 0 ] || [ "$jobs" -le ${#todo[@]} ] || jobs=${#todo[@]}
threads=$((cores > jobs ? cores / jobs : 1))
[ -z "$sshlogin" ] || [ -n "$given_jobs" ] || threads=1 # then GNU parallel starts one run for each core
# The lock's number is closed for children; the shell keeps it under another that they do not get.
[ ${#todo[@]} -eq 0 ] || try 9>&-
show
[ -z "$dry_run" ] || exit 0
if ! mkdir -p "$folder/driver" "$folder/runs" 2>/dev/null || [ ! -w "$folder/driver" ]; then
    die 1 "$folder: cannot be made or written to"
fi
lock
proceed 9>&-
