#!/usr/bin/env bash
# Trains three models that differ only in the norm, draws their loss curves and explains them
# (`make demo`): scripts/demo.sh [OPTION of ./train]...
#
# The norms are none, LayerNorm and BatchNorm. The text is the built-in grammar, whose entropy is the lowest
# possible loss. It takes one to two minutes on two cores. The runs and loss.png go to runs/demo, or if that
# exists to runs/demo-2 and so on. It needs bash 3.2 or newer.
set -eu
locale=${LC_ALL-} # for ./train, whose chart follows the terminal's
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
train=${TRAIN:-$here/../train}
norms='none ln bn'

say() { echo "demo: $*"; }

# summary NAME RUN: prints the value of NAME in its summary.json
summary() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$folder/$2/summary.json" | head -n 1; }

# option NAME: prints what the runs have of it
option() { sed -n "s/^$1 = //p" "$folder/ln/config.ini"; }

# Says what the numbers show. Input: lines "result RUN REASON STEPS LOSS ENTROPY", and
# "at RUN STEP LOSS" for each measurement.
words() {
    awk '
        $1 == "at" { measured[$2]++; step[$2, measured[$2]] = $3; loss[$2, measured[$2]] = $4; next }
        { entropy = $6 }
        $3 != "done" { print $2 " " $3 " at step " $4 "."; next }
        {
            steps = $4; last[$2] = $5
            for (i = ++runs; i > 1 && last[order[i - 1]] > $5; i--) order[i] = order[i - 1]
            order[i] = $2 # from the lowest loss up
        }
        END {
            if (!runs) exit
            best = order[1]
            worst = order[runs]
            printf "Validation losses after %d updates, in nats per character. The lowest possible one is the\n", steps
            printf "entropy of the grammar, %.4f:\n", entropy
            for (i = 1; i <= runs; i++) printf "  %-4s  %.4f\n", order[i], last[order[i]]
            if (runs < 2) exit
            for (i = 2; i <= runs; i++)
                if (last[order[i]] - last[order[i - 1]] < 0.02)
                    printf "%s and %s differ by less than 0.02: one seed cannot tell which is better.\n", \
                        order[i - 1], order[i]
            for (i = 1; i <= measured[best] && loss[best, i] > last[worst]; i++) continue
            if (i <= measured[best] && step[best, i] < steps)
                printf "%s reached the final loss of %s by step %d of %d.\n", best, worst, step[best, i], steps
        }'
}

for argument; do
    case $argument in
    -h | --help)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --help=*) exec "$train" "$argument" ;;
    --out=* | --norm=* | --corpus=*) why='the demo sets it itself (use ./train)' ;;
    --*=*) continue ;;
    *) why='must have the form --NAME=VALUE' ;;
    esac
    echo "demo: $argument: $why" >&2
    exit 2
done

if [ ! -x "$train" ]; then
    echo "demo: $train: is missing (make builds it)" >&2
    exit 1
fi
mkdir -p runs
folder=runs/demo number=1
until mkdir "$folder" 2>/dev/null; do
    if [ ! -e "$folder" ]; then
        echo "demo: $folder: cannot be created" >&2
        exit 1
    fi
    number=$((number + 1))
    folder=runs/demo-$number
done

trap 'exit 130' INT # once ./train has saved
say 'three runs that differ only in the norm: same initial weights, same batches'
number=0 beside=
for norm in $norms; do
    number=$((number + 1))
    set -- --norm="$norm" --max-iters=600 --eval-interval=100 --eval-iters=50 --sample=200 \
        --out="$folder/$norm" ${beside:+"--plot-beside=$beside"} ${1+"$@"}
    echo
    say "run $number of 3: ./train $*"
    status=0
    LC_ALL=$locale "$train" "$@" || status=$?
    shift $((number > 1 ? 7 : 6))
    beside=$beside${beside:+,}$folder/$norm # one chart shows all three curves
    case $status in
    0 | 3) ;; # a diverged run is a result
    *) exit "$status" ;;
    esac
done

echo
status=0
title=$(for norm in $norms; do
    [ "$(summary exit_reason "$norm")" != "done" ] || echo "$(summary val_loss "$norm") $norm"
done | sort -n | awk '{ norm[NR] = $2 } END {
    if (NR > 1) print norm[1] " has the lowest validation loss, " norm[NR] " the highest"
    else print "Validation loss with three norms" }')
if "$here/deps.sh" plot && picture=$("$here/plot.py" "$folder" --lines=val --title="$title"); then
    say "the three curves and the entropy: $picture"
else
    status=1
    say "no picture; the runs are in $folder"
fi
for norm in $norms; do
    awk -F , -v run="$norm" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $column["val_loss"] != "" { print "at", run, $column["step"], $column["val_loss"] }' "$folder/$norm/log.csv"
    echo result "$norm" "$(summary exit_reason "$norm")" "$(summary steps "$norm")" \
        "$(summary val_loss "$norm")" "$(summary grammar_entropy "$norm")"
done | words
cat <<TEXT
These results hold for the learning rate $(option learning-rate) and initial weights with a standard deviation of
$(option init-std). Both matter as much as the norm: with a standard deviation of 0.08, a model without a norm gets
below 2 nats after 200 updates, and the one above never did:
  scripts/demo.sh --init-std=0.08
What to try next:
  scripts/ablate.sh --norm=none,ln,bn --placement=pre,post --seeds=3 -- --max-iters=600
                                                  # several seeds and another placement: means and ranges
  ./train --norm=rms --postln --out=runs/rms-post # another norm and placement (./train --list-norms)
  ./train --generate=$folder/ln --prompt="The "   # text that a model writes
TEXT
exit "$status"
