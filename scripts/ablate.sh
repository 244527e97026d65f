#!/usr/bin/env bash
# An ablation: every combination of some options of ./train, each with the same seeds (see --help).
#
# options, or a given list -> grid -> list (FOLDER/grid.txt, one run per line) -> a trial of each variant
#   -> runs side by side (ablate/run.sh, under GNU parallel or xargs) -> results.csv and the table
#
# Only a run's own summary.json says that it has ended. So after any kill the same command does what is
# left, and a run that left a checkpoint continues from there. There are two kinds of lock. driver/lock
# keeps a second ablate.sh out of the folder; children do not inherit it, so it is released when this
# script ends. Each run has a lock of its own, which is held as long as its ./train lives. If a killed
# driver leaves a run under way, the next driver waits for it and does not start it twice.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
set -euf
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=SCRIPTDIR/common/need_bash.sh
. "$here/common/need_bash.sh"
need_bash ablate 4 4
train=${TRAIN:-$here/../train}

usage() {
    cat <<'TEXT'
Usage: scripts/ablate.sh [GRID OPTION]... [-- [OPTION of ./train]... [CORPUS]]

Runs ./train for every combination of the values before --. Each run also gets all options after it.
  --NAME=A,B,...    values of any option of ./train. Options that are not given have ./train's defaults;
                    without any, the grid is --norm=ln,bn,rms --placement=pre,post
  --NAME,NAME=A:B,C:D,...
                    options that vary together, one variant for each tuple of values:
                    --batch-size,max-iters=1:24000,4:6000 trains on equal numbers of tokens
  --grid=FILE       train the runs that FILE lists: each line has a name and options, with a seed of its
                    own; # starts a comment. Variants are not tried first
  --seeds=N         seeds 1 to N (default 5); --seeds=1,3,7 or --seed=7: only these seeds
  --out=DIR         folder of the ablation (default: runs/ablate-..., named by the arguments without the
                    seeds); more values and seeds extend a folder, and finished runs are not repeated
  --jobs=N          number of runs side by side (default: one per core); a run has cores / jobs threads
  --sshlogin=LIST   distribute the runs over machines that share this folder, with GNU parallel
  --dry-run         show the grid and the expected time, and write nothing
  --list            do the same, but write DIR/grid.txt, one run per line, for scripts/ablate.slurm

After a kill at any moment, the same command continues runs from their checkpoints. DIR contains
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       output of the runs, times, locks, job log

--help=all and --help=NAME show the options of ./train.

Exit status: 0 every run ended (a diverged run counts), 1 some failed, 2 wrong usage, 130, 143 interrupted.
TEXT
}

say() { echo "ablate: $*" >&2; }
die() { # die STATUS MESSAGE
    say "$2"
    exit "$1"
}

# shellcheck source=SCRIPTDIR/ablate/grid.sh
. "$here/ablate/grid.sh"
# shellcheck source=SCRIPTDIR/ablate/list.sh
. "$here/ablate/list.sh"
# shellcheck source=SCRIPTDIR/ablate/folder.sh
. "$here/ablate/folder.sh"
# shellcheck source=SCRIPTDIR/ablate/watch.sh
. "$here/ablate/watch.sh"

# Options: the lists of the grid, and those of this script.
grid='' seeds=5 seeds_given='' seed_list='' folder='' jobs='' sshlogin='' dry_run='' list_only=''
while [ $# -gt 0 ]; do
    argument=$1
    shift
    case $argument in
    --) break ;;
    -h | --help) usage && exit 0 ;;
    --help=*) exec "$train" "$argument" ;;
    --dry-run) dry_run=1 && continue ;;
    --list) list_only=1 && continue ;;
    --*=*) value=${argument#*=} ;;
    --*)
        case ${1---} in --*) die 2 "$argument: needs values ($argument=A,B,...)" ;; esac
        value=$1
        shift
        ;;
    *) die 2 "$argument: what every run gets belongs after -- (scripts/ablate.sh --norm=ln,bn -- $argument)" ;;
    esac
    name=${argument#--}
    name=${name%%=*}
    case $value in *[[:cntrl:]]*) die 2 "--$name: its value holds a control character" ;; esac
    case $name in
    seed | seeds) seeds_given=1 ;;
    out | jobs | sshlogin | grid) [ -n "$value" ] || die 2 "--$name: must not be empty" ;;
    esac
    case $name in
    out) folder=$value ;;
    grid) grid=$value ;;
    sshlogin) sshlogin=$value ;;
    jobs) jobs=$value ;;
    seeds) seeds=$value seed_list='' ;;
    seed) seed_list=$value ;;
    *[!a-z0-9,-]* | '' | -* | ,* | *, | *,,*) die 2 "$argument: no such option (--help lists them)" ;;
    *) add_list "$name" "$value" ;;
    esac
done
if [ -n "$grid" ]; then
    [ ${#list_of[@]} -eq 0 ] || die 2 "--grid=$grid: lists each run; --NAME=A,B,... goes without it"
    [ -z "$seeds_given" ] || die 2 "--grid=$grid: each of its lines names its own --seed; --seeds goes without it"
fi
if [ ${#list_of[@]} -eq 0 ]; then
    add_list norm ln,bn,rms
    add_list placement pre,post
fi
[ -n "${list_of[norm]-}" ] || add_list norm ln
[ -n "${list_of[placement]-}" ] || add_list placement pre
case $jobs in *[!0-9]* | 0* | ?????*) die 2 "--jobs=$jobs: must be a whole number from 1 to 9999" ;; esac
case $folder in -*) folder=./$folder ;; esac
while [[ $folder == ?*/ ]]; do folder=${folder%/}; done

case $seeds in
*,*) seed_list=${seed_list:-$seeds} ;;
*[!0-9]* | '' | 0* | ?????*) die 2 "--seeds=$seeds: must be a whole number from 1 to 9999, or a list" ;;
esac
if [ -z "$seed_list" ]; then
    seed_list=1
    for ((i = 2; i <= seeds; i++)); do seed_list+=,$i; done
fi
split "$seed_list"
seeds=("${parts[@]}")
for seed in "${seeds[@]}"; do
    if [[ ! $seed =~ ^(0|[1-9][0-9]{0,15})$ ]] || [ "$seed" -gt 9007199254740992 ]; then
        die 2 "--seeds=$seed_list: '$seed' is not a whole number from 0 to 9007199254740992"
    fi
done

common='' given_threads=''
operands=''
for word; do
    case $word in *[[:cntrl:]]*) die 2 "$word: holds a control character" ;; esac
    quote "$word"
    common+=" $quoted"
    [ -z "$operands" ] || continue
    name=${word#--}
    own_names "${name%%=*}"
    name=$own
    case $word in
    --) operands=1 ;;
    --out | --out=*) die 2 "--$name: belongs before --" ;;
    - | --corpus=-) die 2 "-: standard input cannot feed several runs (give a file)" ;;
    esac
    [ -z "$grid" ] || continue
    case $word in --threads=*) given_threads=${word#*=} ;; esac
    case $word in
    --seed | --seed=*) die 2 "--$name: belongs before --" ;;
    --preln | --postln) die 2 "$word: names a placement: --placement=LIST belongs before --" ;;
    --[a-z]*) [ -z "${list_of[$name]-}" ] || die 2 "--$name: is in the grid and belongs before --" ;;
    esac
done

# The grid; its shape, which all commands that extend a folder have in common; and the folder's name.
names=() lines=() variants=() # of the runs; all variants with the first seed come first
make_runs() {
    local name i seed default=''
    make_grid
    title+="seed ${seeds[*]}"
    for name in "${option_names[@]}"; do
        shape+=" --$name"
        default+=" --$name=${values[$name]-${values[${list_of[$name]}]}}"
    done
    shape="${shape# } --$common"
    encode "${option_names[*]:2}"
    encoded=${encoded//%20/-}
    : "${folder:=runs/ablate-norm-placement${encoded:+-$encoded}-$(printf '%s' "$default --$common" | cksum | cut -d ' ' -f 1)}"
    for seed in "${seeds[@]}"; do
        for i in "${!variant_names[@]}"; do
            names+=("${variant_names[i]}-s$seed")
            lines+=("${variant_names[i]}-s$seed${variant_options[i]} --seed=$seed$common")
            variants+=("$i")
            [ "${#names[-1]}" -le 200 ] || die 2 "${names[-1]}: too long for a file's name (shorten the values)"
        done
    done
}
shape='' unknown='' # unknown: nothing is known of the runs' times
if [ -n "$grid" ]; then
    note_common "$@"
    read_list "$grid"
    title="from $grid"
    shape="--grid --$common"
    encode "$(basename "$grid" .txt)"
    : "${folder:=runs/ablate-$encoded-$(printf '%s' "$common" | cksum | cut -d ' ' -f 1)}"
else
    make_runs
fi

# The child processes are a group of their own. A signal for this script is passed on to them once.
child='' interrupted='' temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
interrupt() {
    interrupted=$1
    [ -z "$child" ] || say 'interrupted: the runs save and end (a second interrupt kills them)'
    [ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null || :
}
trap 'interrupt 130' INT
trap 'interrupt 143' TERM
trap 'interrupt 129' HUP
under_way() { kill -0 -- "-$child" 2>/dev/null; }

# Sets expected[VARIANT] to the seconds of a run, for the variants with runs to do. Variants without a known
# time are tried; $tried holds their numbers.
try() {
    local i variant status=0
    know_times
    expected=() tried=()
    for i in "${todo[@]}"; do
        variant=${variants[i]}
        [ -z "${expected[variant]-}" ] || continue
        expected[variant]=${known[${variant_names[variant]}]-}
        [ -z "${expected[variant]}" ] || continue
        expected[variant]=0
        tried+=("$variant")
        echo "${lines[i]}"
    done >"$temporary/variants"
    [ ${#tried[@]} -gt 0 ] || return 0
    i=$((${#tried[@]} * 7 / jobs / 10 + ${#tried[@]} / 8 + 1)) # some 0.7 s for each round, and 0.1 s to check each
    [ -t 2 ] || say "trying $(number_of ${#tried[@]} variant) first, about $(duration "$i")"
    set -m
    "$here/ablate/try.sh" "$jobs" "$threads" <"$temporary/variants" >"$temporary/trial" &
    child=$!
    set +m
    while under_way; do
        look_at_trial
        sleep 0.2 >/dev/null 2>&1 &
        wait $! || : # or until a signal comes
    done
    live ''
    wait "$child" || status=$?
    [ -z "$interrupted" ] || exit "$interrupted"
    [ "$status" -eq 0 ] || exit "$status"
    for i in "${tried[@]}"; do read -r "expected[$i]"; done < <(sed -n 's/^takes //p' "$temporary/trial")
}

show() { # the grid and the time
    local progress='' i all lowest range
    [ ${#todo[@]} -eq ${#names[@]} ] || progress="; $((${#names[@]} - ${#todo[@]})) have ended, ${#todo[@]} to do"
    echo "grid:     ${#names[@]} runs: $title$progress"
    [ -z "$common" ] || echo "each:    $common"
    echo "folder:   $folder"
    [ ${#todo[@]} -gt 0 ] || return 0
    if [ -n "$unknown" ]; then
        echo "expected: known when the first runs have ended; $jobs side by side with $(number_of "$threads" thread) each"
        return 0
    fi
    all=$(for i in "${todo[@]}"; do echo "waiting ${expected[variants[i]]}"; done | time_left "$jobs")
    lowest=$(printf '%s\n' "${expected[@]}" | sort -g | head -n 1)
    lowest=$(duration "$lowest")
    range=$(printf '%s\n' "${expected[@]}" | sort -g | tail -n 1)
    range=$(duration "$range")
    [ "$lowest" = "$range" ] || range="$lowest to $range"
    echo "expected: $range a run, $(duration "$all") in all, $jobs side by side" \
        "with $(number_of "$threads" thread) each${sshlogin:+ on this machine alone}" \
        "(an estimate, from $([ ${#tried[@]} -gt 0 ] && echo 'a few steps' || echo 'earlier runs'))"
}

is_gnu_parallel() { parallel --version 2>/dev/null | grep -q '^GNU parallel'; } # moreutils has another program of this name

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
            "$here/ablate/run.sh" "${options[@]}" "$folder" </dev/null >/dev/null 2>"$folder/driver/runner.err" &
    else
        xargs -P "$jobs" -n 1 "$here/ablate/run.sh" "${options[@]}" --while=$$ "$folder" \
            <"$temporary/numbers" >/dev/null 2>"$folder/driver/runner.err" &
    fi
    child=$!
    set +m
}

# Starts runs until every run was started once: a kill of xargs, or of a script that it started, must not
# end the grid.
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
        live ''
        [ -z "$interrupted" ] || return 0
        for i in "${!pending[@]}"; do # a record without an end: its script was killed
            [ ! -e "$folder/driver/${names[pending[i]]}.status" ] || unset "pending[i]"
        done
        [ ${#pending[@]} -lt "$before" ] || die 1 "no run can be started: $(tail -n 1 "$folder/driver/runner.err")"
    done
}

# Says how to compare the variants by their seeds.
advise() {
    local name word baseline=''
    if [ -n "$grid" ]; then
        # Of runs that differ in many options, two values do not name a comparison.
        split "$differing"
        [ ${#parts[@]} -lt 1 ] || [ ${#parts[@]} -gt 4 ] ||
            say "scripts/compare.py $folder --a NAME=VALUE --b NAME=VALUE compares variants by their common seeds (they differ in $differing)"
        return
    fi
    [ ${#variant_names[@]} -gt 1 ] && [ ${#seeds[@]} -gt 1 ] || return 0
    for name in "${option_names[@]}"; do
        split "${values[${list_of[$name]}]}"
        [ ${#parts[@]} -gt 1 ] || continue
        case $name:$baseline in norm:* | placement:* | *:) ;; *) continue ;; esac
        assign "${list_of[$name]}" "${parts[0]}"
        for word in "${assigned[@]}"; do [ "${word%%=*}" != "$name" ] || baseline+=,$word; done
    done
    quote "${baseline#,}"
    say "scripts/compare.py $folder --baseline $quoted compares the variants by their seeds"
}

# Prints the table and names the runs that did not end. Sets $status.
conclude() {
    local i word code message
    read_folder
    write_results
    status=0
    if [ -n "$interrupted" ]; then
        say "interrupted: $((${#names[@]} - ${#todo[@]})) of ${#names[@]} runs have ended; the same command continues"
        exit "$interrupted"
    fi
    if command -v "${PYTHON:-python3}" >/dev/null; then
        table "$folder" || status=1
        advise
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

proceed() {
    local i
    read_folder
    printf '%s\n' "$shape" | put driver/shape
    {
        [ ! -e "$folder/grid.txt" ] || cat "$folder/grid.txt"
        for i in "${!names[@]}"; do [ -n "${number[${names[i]}]-}" ] || echo "${lines[i]}"; done
    } | put grid.txt
    read_folder
    [ ${#tried[@]} -eq 0 ] || keep_times "${tried[@]}"
    if [ -n "$list_only" ]; then
        echo "list:     $folder/grid.txt, ${#number[@]} runs"
        return
    fi
    run_all
    conclude
    exit "$status"
}

[ -x "$train" ] || die 1 "$train: is missing (make builds it)"
[ -z "$sshlogin" ] || is_gnu_parallel || die 1 "--sshlogin needs GNU parallel (scripts/deps.sh ablate installs it)"
[ -n "$dry_run" ] || [ ! -d "$folder/driver" ] || lock
read_folder
[ -z "$grid" ] || check_listed
given_jobs=$jobs
cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null) || cores=$(getconf _NPROCESSORS_ONLN)
jobs=${jobs:-$cores}
[ ${#todo[@]} -eq 0 ] || [ "$jobs" -le ${#todo[@]} ] || jobs=${#todo[@]}
threads=$((cores > jobs ? cores / jobs : 1))
[ -z "$sshlogin" ] || [ -n "$given_jobs" ] || threads=1 # then GNU parallel starts one run for each core
threads=${given_threads:-$threads}                        # a run's own option comes after it and counts
# Children do not get the lock: 9>&- closes it for them while this shell keeps it open.
tried=()
if [ -n "$grid" ]; then expect_known; elif [ ${#todo[@]} -gt 0 ]; then try 9>&-; fi
show
[ -z "$dry_run" ] || exit 0
if ! mkdir -p "$folder/driver" "$folder/runs" 2>/dev/null || [ ! -w "$folder/driver" ]; then
    die 1 "$folder: cannot be created or written to"
fi
lock
proceed 9>&-
