#!/usr/bin/env bash
# Every norm in every placement with five seeds on one corpus, and the table of what came out:
#   scripts/compare.sh CORPUS [OPTION of ./train]...
#
# Runs go side by side, one thread each, into a folder of runs/ that the arguments name (or into
# $COMPARE_DIR); a run that has ended is not done again, so the command can be repeated after an
# interruption. Exit status 1 if a run did not end; one that diverged has ended.
set -eu
if [ $# -eq 0 ] || [ "${1#--}" != "$1" ]; then
    echo "Usage: scripts/compare.sh CORPUS [OPTION of ./train]..." >&2
    exit 2
fi
folder=${COMPARE_DIR:-runs/compare-$(printf '%s\n' "$@" | cksum | cut -d ' ' -f 1)}
jobs=$(nproc)
mkdir -p "$folder"
for seed in 1 2 3 4 5; do
    for norm in none ln bn rms; do
        for placement in pre post; do
            run=$folder/$norm-$placement-s$seed
            grep -qsE '"exit_reason": "(done|diverged)"' "$run/summary.json" ||
                printf '%s\0' "--norm=$norm" "--placement=$placement" "--seed=$seed" "--out=$run"
        done
    done
done | xargs -0 -r -n 4 -P "$jobs" ./train --quiet --force --threads=1 "$@" || true
ended=$(find "$folder" -name summary.json -exec grep -lE '"exit_reason": "(done|diverged)"' {} + | wc -l)
[ "$ended" -eq 0 ] || "${PYTHON:-python3}" "$(dirname "$0")/table.py" "$folder"/*/
if [ "$ended" -lt 40 ]; then
    echo "compare: $((40 - ended)) of 40 runs have not ended (see above)" >&2
    exit 1
fi
