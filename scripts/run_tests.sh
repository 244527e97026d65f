#!/usr/bin/env bash
# Runs Criterion test programs one after another and counts: run_tests.sh PROGRAM...
#
# A program that passes is one line. If one fails, its failed assertions are shown, and the names of all
# failed tests are listed before the last line. The last line is "N passed, N failed", with ", N skipped"
# if some were. The whole output of a program is in PROGRAM.log beside it.
#
# A skipped test prints a line that starts with [SKIP]; Criterion itself does not count it.
# FILTER picks tests by a pattern of Criterion's, such as '@(norm|model)/*'.
# A leak that a sanitizer or the log reports is a failure too, since Criterion prints it and passes.
# Exit status 0 only if something ran and nothing failed.
set -u
passed=0 failed=0 skipped=0 names=''
# One job per core, each with one thread: more would compete for the cores. Tests of the threads
# themselves set their number, and threads wait without spinning, since there may be more than cores.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
SCRIPTS=$(cd "$(dirname "$0")" && pwd) # for the tests of scripts
export SCRIPTS

for program in "$@"; do
    name=${program##*/}
    "$program" --jobs "${CRITERION_JOBS:-0}" --color=never ${FILTER:+--filter "$FILTER"} \
        </dev/null >"$program.log" 2>&1
    status=$?
    line=$(grep -a 'Synthesis: Tested:' "$program.log" | tail -n 1)
    count() { sed -n "s/.*$1: *\([0-9]*\).*/\1/p" <<<"$line"; }
    good=$(count Passing) bad=$(count Failing) # a crash is among those that fail
    left_out=$(grep -ac '^\[SKIP\]' "$program.log")
    # Assertions and messages of sanitizers; the log has the rest.
    grep -aE '^\[(----|FAIL|CRSH|ERR |WARN)\]|Sanitizer|runtime error:|unexpected leak' "$program.log" |
        grep -avE '^\[----\] Criterion v'
    bad_names=$(sed -nE 's/^\[(FAIL|CRSH)\] ([^ ]*::[^ :]*).*/\2/p' "$program.log" | sort | uniq -c |
        sed -E "s/^ *([0-9]+) (.*)/  $name: \2 (\1)/; s/ \(1\)$//")
    if [ -z "$line" ]; then
        bad=1 bad_names="  $name: ended with status $status and no result"
    elif grep -aqE 'LeakSanitizer|AddressSanitizer|runtime error:|unexpected leak' "$program.log"; then
        bad=$((bad + 1)) bad_names="$bad_names
  $name: a sanitizer found something"
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 bad_names="  $name: ended with status $status"
    fi
    if [ "$bad" -eq 0 ]; then
        echo "$name: $good passed"
    else
        echo "$name: ${good:-0} passed, $bad failed; its whole output: $program.log"
        names="$names
$bad_names"
    fi
    passed=$((passed + ${good:-0})) failed=$((failed + bad)) skipped=$((skipped + left_out))
done
[ "$failed" -eq 0 ] || printf 'Failed:\n%s\n' "$(sed '/^$/d' <<<"$names")"
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
