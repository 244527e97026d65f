#!/usr/bin/env bash
# Does one run of an ablation, the LINE-th of FOLDER/grid.txt, unless it has ended:
#   scripts/ablate/run.sh [--threads=N] [--while=PID] FOLDER LINE
#
# ablate.sh and the tasks of ablate.slurm start it. The output of ./train goes to FOLDER/driver/NAME.out. When the run has
# ended, FOLDER/driver/NAME.status is "ended STATUS SECONDS HOW". NAME.out is the run's lock too: it is held as long as
# ./train lives, even if this script and its driver are killed. A second call waits, and finds that the run has ended.
#
# A run that left a checkpoint continues from there. If it cannot (a damaged checkpoint, another text), it starts again. A
# run that fails after it has continued keeps its checkpoint.
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
eval "set -- $line" # ablate/plan.py quoted every word
name=$1
shift
run=$folder/runs/$name
record=$folder/driver/$name

has_ended() { grep -qsE '"exit_reason": "(done|diverged)"' "$run/summary.json"; }

of_summary() { # of_summary FORMAT NAME...: prints these numbers of summary.json
    awk -F '[:,] *' -v format="$1" -v names="${*:2}" '
        { gsub(/[ "]/, "", $1); value[$1] = $2 }
        END { split(names, name, " "); printf format, value[name[1]], value[name[2]], value[name[3]] }' "$run/summary.json"
}

duration() { # duration SECONDS: in s, min or h
    if [ "$1" -lt 100 ]; then
        echo "$1 s"
    elif [ "$1" -lt 6000 ]; then
        echo "$((($1 + 30) / 60)) min"
    else
        printf '%d h %02d min\n' $(($1 / 3600)) $(($1 % 3600 / 60))
    fi
}

conclude() { # conclude STATUS SECONDS: records the end, and tells it with the remaining time
    local how began before total place='' left=''
    case $1 in
    0) how=$(of_summary 'val loss %.4f, best %.4f at step %d' val_loss best_val_loss best_step) ;;
    3) how="diverged at step $(of_summary %d steps)" ;;
    130 | 143) how=interrupted ;;
    129 | 1[3-9]?) how="killed by signal $(($1 - 128))" ;;
    *) how="failed with exit status $1" ;;
    esac
    echo "ended $1 $2 $how" >"$record.status.new"
    mv -f "$record.status.new" "$record.status" # a reader sees the old record or the new one
    if [ -e "$folder/driver/started" ]; then # by ablate.sh: when it began, and how many runs had ended, of how many
        read -r began before total <"$folder/driver/started"
        place=$(find "$folder/driver" -name '*.status' | wc -l)
        left="; $(duration $((($(date +%s) - began) * (total - place) / (place - before)))) left"
        place=$((place))/$total
    fi
    [ -z "$stop" ] || left=''
    echo "ablate: ${place:+$place }$name: $how, $2 s$left"
}

status=0 child='' signalled='' stop=''
exec 8>>"$record.out"
! command -v flock >/dev/null || flock 8
if has_ended; then # before, or while this script waited for the lock
    ! grep -q '"exit_reason": "diverged"' "$run/summary.json" || status=3
    conclude "$status" "$(of_summary %d seconds)"
    exit 0
fi
[ -z "$driver" ] || kill -0 "$driver" 2>/dev/null || exit 0

# ./train has a process group of its own and gets exactly one signal for each that this script gets: at
# the first it saves and ends, at the second it dies.
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

continued='' start=$(date +%s)
if [ -e "$run/checkpoint.safetensors" ] && [ -e "$run/log.csv" ]; then
    touch "$record.start"
    taken=$(awk -F , '$2 + 0 > max { max = $2 + 0 } END { printf "%d", max }' <"$run/log.csv")
    run_train --resume="$run"
    case $status in
    1 | 2) [ ! "$run/config.ini" -nt "$record.start" ] || continued=1 ;; # written when it continues
    *) continued=1 ;;
    esac
    rm -f "$record.start"
    [ -z "$continued" ] || start=$((start - taken))
fi
if [ -z "$continued" ]; then
    start=$(date +%s)
    run_train --force --out="$run" "$@"
fi
conclude "$status" "$(($(date +%s) - start))"
if has_ended; then exit 0; fi
exit "$status"
