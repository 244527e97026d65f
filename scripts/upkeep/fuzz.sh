#!/usr/bin/env bash
# Feeds libFuzzer's inputs to each reader of tests/fuzz/readers.c: fuzz.sh PROGRAM SECONDS [READER]...
#
# It starts with the cases of tests/fuzz/cases.c and the inputs that earlier calls found (corpus/ beside
# PROGRAM). An input that breaks a reader ends the search and is kept in found/ beside PROGRAM. Once the
# reader is repaired, add it to the cases. Exit status 1 if a reader was broken.
set -eu
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1") seconds=$2
shift 2
here=$(cd "$(dirname "$0")/../../tests/fuzz" && pwd)
[ $# -gt 0 ] || set -- safetensors config corpus items vocabulary log formula
cd "$(dirname "$program")"
mkdir -p found
failed=0
for reader in "$@"; do
    mkdir -p "corpus/$reader" "work/$reader"
    flags=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1
        -artifact_prefix="$PWD/found/$reader-" -detect_leaks=0) # fuzz.c looks for leaks itself
    [ ! -e "$here/$reader.dict" ] || flags+=(-dict="$here/$reader.dict")
    if (cd "work/$reader" && "$program" --target="$reader" "${flags[@]}" \
        "../../corpus/$reader") >"work/$reader.log" 2>&1; then
        tried=$(sed -n 's/^stat::number_of_executed_units: *//p' "work/$reader.log")
        kept=$(find "corpus/$reader" -type f | wc -l)
        echo "$reader: $tried inputs, $((kept)) kept, none broke it"
    else
        failed=1
        tail -n 40 "work/$reader.log"
        echo "$reader: broken; see $PWD/work/$reader.log and $PWD/found/"
    fi
done
exit "$failed"
