#!/usr/bin/env bash
# An ablation: every combination of some options of ./train, each with the same seeds (see --help).
#
# options, or a given list -> FOLDER/grid.txt, one run per line, after a trial of each variant (ablate/plan.py)
#   -> runs side by side (ablate/run.sh, under GNU parallel or xargs) -> results.csv and the table (table.py)
#
# Only a run's own summary.json says that it has ended. So after any kill the same command does what is left, and a run
# that left a checkpoint continues from there. There are two kinds of lock. driver/lock keeps a second ablate.sh out of
# the folder; children do not inherit it, so it is released when this script ends. Each run has a lock of its own, which
# is held as long as its ./train lives. If a killed driver leaves a run under way, the next driver waits for it and does
# not start it twice. It runs under bash 3.2.
#
# GNU parallel asks those who publish to cite it: O. Tange, GNU Parallel 2018, doi 10.5281/zenodo.1146014.
# shellcheck disable=SC2317 # functions that traps and attend() call
set -euf
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}

usage() {
    cat <<'TEXT'
Usage: scripts/ablate.sh [GRID OPTION]... [-- [OPTION of ./train]... [CORPUS]]

Runs ./train for every combination of the values before --. All runs also get the options after --.
  --NAME=A,B,...    values of any option of ./train (default: --norm=ln,bn,rms --placement=pre,post)
  --NAME,NAME=A:B,C:D,...
                    options that vary together, one variant for each tuple of values:
                    --batch-size,max-iters=1:24000,4:6000 trains on equal numbers of tokens
  --grid=FILE       train the runs that FILE lists: each line has a name and options, with a seed of its
                    own; # starts a comment. Options are checked only when a run starts
  --seeds=N         seeds 1 to N (default: 5); --seeds=1,3,7 or --seed=7: only these seeds
  --out=DIR         folder of the ablation (default: runs/ablate-..., named by the arguments without the
                    seeds); more values and seeds extend a folder, and finished runs are not repeated
  --jobs=N          number of runs side by side (default: one per core), each with cores / N threads
  --sshlogin=LIST   distribute the runs over machines that share this folder, with GNU parallel
  --dry-run         show the grid and the expected time; train and write nothing
  --list            show the same, and write DIR/grid.txt, one run per line, for scripts/ablate.slurm

After a kill, the same command continues runs from their checkpoints. DIR contains
  grid.txt          each run's name and options     runs/NAME/    each run's folder
  results.csv       one row per run                 driver/       output, times and locks of the runs

--help=all and --help=NAME show the options of ./train.

Exit status: 0 every run ended (a diverged run counts), 1 some failed, 2 wrong usage, 130, 143 interrupted.
TEXT
}

say() { echo "ablate: $*" >&2; }
die() {
    say "$*"
    exit 1
}

is_gnu_parallel() { parallel --version 2>/dev/null | grep -q '^GNU parallel'; } # moreutils has another program of this name

for argument; do
    case $argument in
    --) break ;;
    -h | --help) usage && exit 0 ;;
    --help=*) exec "${TRAIN:-$here/../train}" "$argument" ;;
    --sshlogin | --sshlogin=*)
        is_gnu_parallel || die "--sshlogin needs GNU parallel (scripts/deps.sh ablate installs it)"
        ;;
    esac
done
command -v "$python" >/dev/null || die "$python: is missing (scripts/deps.sh ablate installs Python 3)"

# Child processes are a group of their own. A signal for this script is passed on to them once.
child='' interrupted='' due='' temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
interrupt() {
    interrupted=$1
    [ -z "$due" ] || say 'interrupted: the runs save and end (a second interrupt kills them)'
    [ -z "$child" ] || kill -TERM -- "-$child" 2>/dev/null || :
}
trap 'interrupt 130' INT
trap 'interrupt 143' TERM
trap 'interrupt 129' HUP

attend() { # attend COMMAND...: runs it as the group $child; sets $status when the whole group has ended
    set -m
    "$@" 9>&- &
    child=$!
    set +m
    while kill -0 -- "-$child" 2>/dev/null; do
        [ -z "$due" ] || [ "$SECONDS" -lt "$due" ] || write_results 9>&-
        sleep 0.2 >/dev/null 2>&1 9>&- &
        wait $! || : # or until a signal comes
    done
    status=0
    wait "$child" || status=$?
    child=''
    [ -z "$interrupted" ] || status=$interrupted
}

# Writes results.csv, and sets $due to when it is written again: that takes 0.2 to 0.5 s of a processor, and many seconds
# in a folder of thousands of runs.
write_results() {
    local start=$SECONDS
    "$python" "$here/table.py" --csv="$folder/results.csv" "$folder" >/dev/null 2>&1 || :
    due=$((SECONDS + 10 + 50 * (SECONDS - start)))
}

engine() { # engine WORD...: does the runs of $temporary/todo by this command and a line's number, side by side
    local where=(-j "$jobs")
    [ -z "$sshlogin" ] || where=(--sshlogin "$sshlogin" --workdir . ${given_jobs:+-j "$given_jobs"})
    if is_gnu_parallel; then
        PARALLEL_SHELL=/bin/bash parallel --plain --will-cite --quote --ungroup --joblog "$folder/driver/joblog" \
            -a "$temporary/todo" "${where[@]}" "$@" </dev/null
    else
        xargs -P "$jobs" -n 1 "$@" <"$temporary/todo"
    fi >&2 2>"$folder/driver/runner.err"
}

lock() {
    if ! command -v flock >/dev/null; then
        say "no flock here (util-linux; macOS: brew install flock): a second ablate.sh in $folder would not be noticed"
        return
    fi
    exec 9>>"$folder/driver/lock"
    flock -n 9 || die "$folder: another ablate.sh is running there ($(tail -n 1 "$folder/driver/lock"))"
    echo "process $$ on $(uname -n)" >"$folder/driver/lock"
}

cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null) || cores=$(getconf _NPROCESSORS_ONLN)
attend "$python" "$here/ablate/plan.py" "$temporary" "$cores" "$@"
[ "$status" -eq 0 ] || exit "$status"
[ -e "$temporary/plan" ] || exit 0 # --dry-run or --list
folder='' jobs='' given_jobs='' threads='' sshlogin='' alone='' runs='' advice=''
# shellcheck source=/dev/null
. "$temporary/plan" # sets these
lock
while read -r name; do rm -f "$folder/driver/$name.status"; done <"$temporary/names"
before=$(find "$folder/driver" -name '*.status' | wc -l)
echo "$(date +%s) $before $((before + $(wc -l <"$temporary/todo")))" >"$folder/driver/started"
due=$((SECONDS + 10))
attend engine "$here/ablate/run.sh" --threads="$threads" ${alone:+--while=$$} "$folder"
write_results
rm -f "$folder/driver/started"

while read -r name; do
    grep -qsE '"exit_reason": "(done|diverged)"' "$folder/runs/$name/summary.json" || echo "$name"
done <"$temporary/names" >"$temporary/failed"
failed=$(wc -l <"$temporary/failed")
if [ -n "$interrupted" ]; then
    say "interrupted: $((runs - failed)) of $runs runs have ended; the same command continues"
    exit "$interrupted"
fi
status=0
"$python" "$here/table.py" "$folder" || status=1
[ -z "$advice" ] || say "scripts/compare.py $folder $advice"
[ "$failed" -gt 0 ] || exit "$status"
say "$failed of $runs runs failed; the same command tries them again:"
while read -r name; do
    how='did not end: it was killed or never started'
    [ ! -e "$folder/driver/$name.status" ] || read -r _ _ _ how <"$folder/driver/$name.status"
    message=$(tail -n 1 "$folder/driver/$name.out" 2>/dev/null) || :
    say "$name: $how${message:+: $message}"
done <"$temporary/failed"
exit 1
