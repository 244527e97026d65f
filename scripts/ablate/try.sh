#!/usr/bin/env bash
# Tries variants before hours of runs start: ablate/try.sh JOBS THREADS reads lines like those of an
# ablation's grid.txt from standard input and prints "takes" and the expected seconds for each run.
# Before that it prints its progress: "checking N" and "timing N", for the N-th line.
#
# First it starts each run and waits for its config.ini. Then the options are valid, the corpus is read
# and the memory is allocated. If ./train refuses one, its message and exit status are passed on.
# Then the runs train for ten steps, or as many as they make in a second, JOBS at a time as later. The time
# of a step is multiplied by what the options say of the run's length: steps, evaluations, the sample. A
# forward pass counts as a third of a step.
set -euf
export LC_ALL=C
jobs=$1 threads=$2
train=${TRAIN:-$(dirname "$0")/../../train}
tmp=$(mktemp -d)
pids=()
trap 'kill -KILL "${pids[@]}" 2>/dev/null || :; wait 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

start() { # start FOLDER OPTION...
    local folder=$1
    shift
    "$train" --quiet --force --threads="$threads" --out="$folder" "$@" </dev/null >"$folder.out" 2>"$folder.err" &
    pids+=($!)
}

count=0 bad=0
while read -r line; do
    eval "set -- $line"
    folder=$tmp/$count
    shift
    echo "checking $((count + 1))"
    start "$folder" "$@"
    until [ -e "$folder/config.ini" ] || ! kill -0 "${pids[0]}" 2>/dev/null; do sleep 0.02; done
    kill -KILL "${pids[0]}" 2>/dev/null || :
    status=0
    wait "${pids[0]}" 2>/dev/null || status=$?
    pids=()
    if [ ! -e "$folder/config.ini" ]; then
        [ "$status" -ne 0 ] || echo "ablate: ./train ended without training (the options after -- must let it train)" >"$folder.err"
        [ -s "$folder.err" ] || echo "ablate: $*: ./train ended with status $status" >"$folder.err"
        [ "$bad" -eq 2 ] || bad=$((status == 0 ? 2 : status))
    fi
    count=$((count + 1))
done
if [ "$bad" -ne 0 ]; then
    for ((i = 0; i < count; i++)); do cat "$tmp/$i.err"; done | sort -u >&2
    exit "$bad"
fi

has_logged() { # has_logged STEPS N: whether trial N has made these steps, or has ended
    [ "$(wc -l <"$tmp/timed-$2/log.csv")" -gt $(($1 + 1)) ] || ! kill -0 "${pids[$2 - first]}"
} 2>/dev/null

# train_for_a_moment FIRST: JOBS variants side by side. After the last variant it starts again at the
# first, so that the machine is as busy as it will be.
train_for_a_moment() {
    local i pid first=$1 steps tenth deadline=$((SECONDS + 60))
    pids=()
    for ((i = $1; i < $1 + jobs; i++)); do
        start "$tmp/timed-$i" --config="$tmp/$((i % count))/config.ini" \
            --eval-iters=1 --eval-interval=1000000000 --log-interval=1
    done
    tenth=0 steps=10
    for ((i = $1; i < $1 + jobs; i++)); do
        until has_logged "$steps" "$i" || [ "$SECONDS" -gt "$deadline" ]; do
            sleep 0.1
            tenth=$((tenth + 1))
            [ "$tenth" -lt 10 ] || steps=1
        done
    done
    for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || :; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || :; done
    pids=()
}

for ((first = 0; first < count; first += jobs)); do
    echo "timing $((first + 1))"
    train_for_a_moment "$first"
done

for ((i = 0; i < count; i++)); do
    touch "$tmp/timed-$i/summary.json" # a run that did not end within a minute has none
    sed 's/^ *"\([a-z_]*\)": *\(.*[^,]\),*$/\1 = \2/' "$tmp/timed-$i/summary.json" | grep -E '^(tokens_per_second|corpus_characters) ' |
        cat - "$tmp/$i/config.ini" | awk -F ' = ' '
        { value[$1] = $2 }
        END {
            steps = value["max-iters"]
            batch = value["batch-size"] * value["block-size"]
            speed = value["tokens_per_second"]
            step = speed > 0 ? batch * value["grad-accum"] / speed : 0
            forward = step / value["grad-accum"] / 3
            measured = value["val-fraction"]
            if (value["hold-out"] > 0) measured = (1 - measured) * value["hold-out"]
            batches = value["corpus_characters"] * measured / batch
            batches = int(batches) + (batches > int(batches))
            if (value["eval-iters"] > 0 && value["eval-iters"] < batches) batches = value["eval-iters"]
            evaluations = int(steps / value["eval-interval"]) + 1 + (steps % value["eval-interval"] > 0)
            printf "takes %.3f\n", step * steps + forward * (evaluations * batches + value["sample"] / value["batch-size"])
        }'
done
