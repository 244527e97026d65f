#!/usr/bin/env bash
# Trains a model by each recipe of --recipe, and prints its loss on the full validation split and its training time
# (`make speedrun`): scripts/speedrun.sh [OPTION of ./train]... [CORPUS]
#
# The recipes train on the same number of characters. Without CORPUS the text is tiny Shakespeare, or the King James
# Bible if that cannot be obtained (data/get_corpora.sh). The runs are written to runs/speedrun, where they replace
# earlier ones. It needs bash 3.2 or newer.
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
train=${TRAIN:-$here/../train}
folder=runs/speedrun
corpora=${CORPORA_DIR:-$here/../data/corpora}

corpus=
for argument; do
    case $argument in
    -h | --help)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --out=* | --recipe=*) why='the comparison sets it itself (use ./train)' ;;
    --*=*) continue ;;
    -*) why='must have the form --NAME=VALUE' ;;
    *)
        corpus=$argument
        continue
        ;;
    esac
    echo "speedrun: $argument: $why" >&2
    exit 2
done

if [ ! -x "$train" ]; then
    echo "speedrun: $train: is missing (make builds it)" >&2
    exit 1
fi
if [ -z "$corpus" ]; then
    for name in shakespeare:tinyshakespeare bible:kjv; do
        corpus=$corpora/${name#*:}.txt
        [ ! -e "$corpus" ] || break
        "$here/../data/get_corpora.sh" "${name%:*}" >/dev/null && break
        corpus=
    done
    [ -n "$corpus" ] || exit 1 # get_corpora.sh has said why
    set -- ${1+"$@"} "$corpus"
fi

trap 'exit 130' INT # once ./train has saved
table=$(printf '%-10s %18s %16s' recipe 'validation loss' 'training time')
for recipe in nanogpt best; do
    echo "speedrun: ./train --recipe=$recipe $*"
    "$train" --recipe="$recipe" --sample=0 --force --out="$folder/$recipe" ${1+"$@"}
    loss=$("$train" --evaluate="$folder/$recipe" | awk '/^loss: / { print $2 }')
    seconds=$(sed -n 's/^ *"seconds": \([^,]*\),*$/\1/p' "$folder/$recipe/summary.json")
    table="$table
$(printf '%-10s %18.4f %14.1f s' "$recipe" "$loss" "$seconds")"
done
echo
echo "$table"
echo "Losses in nats per character on the full validation split of $corpus; one seed. The runs are in $folder."
