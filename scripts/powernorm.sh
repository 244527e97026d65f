#!/usr/bin/env bash
# How batch statistics fluctuate: figures 1 and 2 of Shen et al. 2020 (PowerNorm, arXiv:2003.07845).
#
# Usage: scripts/powernorm.sh [--out=DIR] [--seeds=N] [--jobs=N] [OPTION of ./train]... [CORPUS]
#
# Trains bn and pn, Post-LN, three seeds each, on the corpus and on the same characters in random order
# (the control; the paper's is a vision model). Draws the distances between the batch's mean and variance
# and the running ones, and the gradient terms that flow through them. DIR (default: runs/powernorm) then
# holds powernorm.png, powernorm.csv (the numbers drawn), the shuffled text and the runs. The default corpus
# is tiny Shakespeare; the built-in grammar has no control. If interrupted, the same command continues.

# shellcheck source=SCRIPTDIR/paper.sh
. "$(dirname "$0")/paper.sh"

shuffle() { # shuffle FROM TO: the same characters in an order that is always the same
    "${PYTHON:-python3}" - "$@" <<'PYTHON'
import random
import sys

try:
    with open(sys.argv[1], encoding="utf-8", newline="") as file:
        characters = list(file.read())
except UnicodeDecodeError:
    sys.exit(f"powernorm: {sys.argv[1]}: is not UTF-8")
random.Random(1).shuffle(characters)
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    file.writelines(characters)
PYTHON
}

read_command "$@"
check_probes 20
find_corpus
grid=("--norm=bn,pn" --placement=post)
if [ -n "$corpus" ]; then
    claim_folder
    shuffled=$folder/shuffled-$(basename "$corpus")
    shuffle "$corpus" "$shuffled"
    grid+=(--corpus="$corpus,$shuffled")
fi
"$here/ablate.sh" "${grid[@]}" --seeds=3 --out="$folder" "${front[@]}" -- \
    --n-embd=64 --max-iters=1001 --eval-interval=500 --eval-iters=20 \
    --sample=0 --checkpoint-interval=0 --probe-interval=20 "${common[@]}"
picture powernorm --probes=distance,terms --sites=ln_1
