#!/usr/bin/env bash
# Does one run of an ablation, the LINE-th of FOLDER/grid.txt, unless it has ended:
#   scripts/ablate/run.sh [--threads=N] [--while=PID] FOLDER LINE
#
# ablate.sh and the tasks of ablate.slurm start it. The output of ./train goes to FOLDER/driver/NAME.out.
# FOLDER/driver/NAME.status is "running SINCE", then "ended STATUS SECONDS". NAME.out is the run's lock
# too: it is held as long as ./train lives, even if this script and its driver are killed. A second
# call waits, and finds that the run has ended.
#
# A run that left a checkpoint continues from there. If it cannot (a damaged checkpoint, another text),
# it starts again. A run that fails after it has continued keeps its checkpoint.
#
# With --while, no run is started after the process PID has ended: the queue of a killed driver empties.
# Exit status: that of ./train, but 0 for a run that diverged, since that is a result.
set -euf
threads='' driver=''
while [ "${1#--}" != "${1-}" ]; do
    case $1 in
    --threads=*) threads=$1 ;;
    --while=*) driver=${1#--while=} ;;
    *) break ;;
    esac
    shift
done
if [ $# -ne 2 ]; then
    echo 'Usage: scripts/ablate/run.sh [--threads=N] [--while=PID] FOLDER LINE' >&2
    exit 2
fi
folder=$1 number=$2
case $folder in -*) folder=./$folder ;; esac
train=${TRAIN:-$(dirname "$0")/../../train}
line=''
case $number in *[!0-9]* | '') ;; *) line=$(sed -n "${number}p" "$folder/grid.txt") ;; esac
if [ -z "$line" ]; then
    echo "ablate: $folder/grid.txt: has no line '$number'" >&2
    exit 2
fi
eval "set -- $line" # the driver quoted every word
name=$1
shift
run=$folder/runs/$name
record=$folder/driver/$name

has_ended() { grep -qsE '"exit_reason": "(done|diverged)"' "$run/summary.json"; }

status=0 seconds=0
write() { # write WORD...: a reader sees the old record or the new one
    echo "$@" >"$record.status.$$"
    mv -f "$record.status.$$" "$record.status"
}

exec 8>>"$record.out"
! command -v flock >/dev/null || flock 8
if has_ended; then # before, or while this script waited for the lock
    ! grep -q '"exit_reason": "diverged"' "$run/summary.json" || status=3
    seconds=$(sed -n 's/^ *"seconds": *\([0-9]*\).*/\1/p' "$run/summary.json")
    write ended "$status" "$seconds"
    exit 0
fi
[ -z "$driver" ] || kill -0 "$driver" 2>/dev/null || exit 0

# ./train has a process group of its own and gets exactly one signal for each that this script gets: at
# the first it saves and ends, at the second it dies.
child='' signalled='' stop=''
# shellcheck disable=SC2317 # a trap calls it
forward() {
    signalled=1 stop=1
    [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || :
}
trap forward INT TERM HUP

run_train() { # run_train OPTION...: sets $status
    : >"$record.out"
    set -m
    "$train" --quiet ${threads:+"$threads"} "$@" </dev/null >>"$record.out" 2>&1 &
    child=$!
    set +m
    [ -z "$stop" ] || kill -TERM "$child" 2>/dev/null || :
    while :; do
        signalled='' status=0
        wait "$child" 2>/dev/null || status=$? # a signal ends it too
        [ -n "$signalled" ] || break
    done
    child=''
}

note_start() { # note_start SECONDS: records the start of a run that took SECONDS before it was stopped
    start=$(($(date +%s) - $1))
    write running "$start"
}

continued=''
if [ -e "$run/checkpoint.safetensors" ] && [ -e "$run/log.csv" ]; then
    note_start "$(awk -F , '$2 + 0 > max { max = $2 + 0 } END { printf "%d", max }' <"$run/log.csv")"
    run_train --resume="$run"
    case $status in
    1 | 2) [ ! "$run/config.ini" -nt "$record.status" ] || continued=1 ;; # written when it continues
    *) continued=1 ;;
    esac
fi
if [ -z "$continued" ]; then
    note_start 0
    run_train --force --out="$run" "$@"
fi
write ended "$status" "$(($(date +%s) - start))"
if has_ended; then exit 0; fi
exit "$status"
