#!/usr/bin/env bash
# Gradients by layer, Post-LN and Pre-LN: figure 3 of Xiong et al. 2020 (arXiv:2002.04745), in minutes.
#
# Usage: scripts/xiong.sh [--out=DIR] [--seeds=N] [--jobs=N] [OPTION of ./train]... [CORPUS]
#
# Trains models of 3, 6 and 12 layers in both placements, three seeds each. Draws the norm of the gradient
# with respect to every MLP's last matrix, at the start, half-way through the warm-up and at the end. DIR
# (default: runs/xiong) then holds xiong.png, xiong.csv (the numbers drawn) and the runs. The default corpus
# is tiny Shakespeare. If interrupted, the same command continues.

# shellcheck source=SCRIPTDIR/paper.sh
. "$(dirname "$0")/paper.sh"

read_command "$@"
iters=$(whole_number max-iters 301) half=$(($(whole_number warmup-iters 100) / 2))
interval=$((half > 0 ? half : iters > 1 ? iters - 1 : 1)) # so that the steps of the picture are probed
check_probes "$interval"
if [ "$half" -ge "$iters" ]; then
    say "--max-iters=$iters: must be above $half, half of the warm-up, at which the picture shows the gradients"
    exit 2
fi
find_corpus
"$here/ablate.sh" --norm=ln --placement=post,pre --n-layer=3,6,12 --seeds=3 --out="$folder" "${front[@]}" -- \
    --init=xavier --n-embd=64 --block-size=32 --max-iters=301 --warmup-iters=100 --eval-interval=300 --eval-iters=20 \
    --sample=0 --checkpoint-interval=0 --probe-interval="$interval" "${common[@]}" ${corpus:+"$corpus"}
picture xiong --probes=layers --metrics=grad_norm --sites=mlp.c_proj.weight --columns=placement \
    --steps="$(probed_steps "$half")"
