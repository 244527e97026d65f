#!/usr/bin/env bash
# Runs Criterion test programs one after the other and counts: run_tests.sh PROGRAM...
#
# A program that passes is one line. Of one that fails, its failed assertions are shown, and the names
# of all failed tests come last but one. The last line is "N passed, N failed", with ", N skipped" if
# some were. All that a program printed stays beside it, as PROGRAM.log.
#
# A test that is skipped says so in a line that begins with [SKIP]; Criterion itself leaves it out.
# FILTER picks tests by a pattern of Criterion's, such as '@(norm|model)/*'.
# A leak that a sanitizer or the log reports is a failure too, since Criterion prints it and passes.
# Exit status 0 only if something ran and nothing failed.
set -u
passed=0 failed=0 skipped=0 names=''
# A job for each core, each with one thread: more would fight over the cores. Tests of the threads
# themselves set their number, and wait without spinning where that is more than there are cores.
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
    # Assertions, and what sanitizers say; the log has the rest.
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
