#!/usr/bin/env bash
# Runs Criterion test programs one after the other and counts: run_tests.sh PROGRAM...
# The last line is "N passed, N failed". A leak that a sanitizer or the log reports is a failure too,
# since Criterion prints it and passes. Exit status 0 only if something ran and nothing failed.
set -u
passed=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A job for each core, each with one thread: more would fight over the cores. Tests of the threads
# themselves set their number, and wait without spinning where that is more than there are cores.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
SCRIPTS=$(cd "$(dirname "$0")" && pwd) # for the tests of scripts
export SCRIPTS
for program in "$@"; do
    "$program" --jobs "${CRITERION_JOBS:-0}" >"$log" 2>&1
    status=$?
    cat "$log"
    line=$(grep -a 'Synthesis: Tested:' "$log" | tail -n 1 | sed 's/\x1b\[[0-9;]*m//g')
    if [ -z "$line" ]; then
        echo "$program: ended with status $status and no result"
        failed=$((failed + 1))
        continue
    fi
    count() { sed -n "s/.*$1: *\([0-9]*\).*/\1/p" <<<"$line"; }
    passed=$((passed + $(count Passing)))
    bad=$(($(count Failing) + $(count Crashing)))
    if grep -aqE 'LeakSanitizer|AddressSanitizer|runtime error:|unexpected leak' "$log"; then
        echo "$program: a sanitizer found something (see above)"
        bad=$((bad + 1))
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        echo "$program: ended with status $status"
        bad=1
    fi
    failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
