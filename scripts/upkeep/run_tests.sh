#!/usr/bin/env bash
# Runs test programs one after another and counts: run_tests.sh PROGRAM...
#
# A program is one of Criterion's. FOLDER/pytest stands for the Python tests, tests/{cli,scripts}/test_*.py.
#
# While a program runs, the names of its suites appear. If it fails, its failed assertions are shown, and the
# names of all failed tests are listed before the last line, and why tests were skipped. The last line is
# "N passed, N failed", with ", N skipped" if some were. The whole output of a program is in PROGRAM.log beside it.
#
# FILTER picks tests by a pattern of Criterion's, such as '@(norm|model)/*', and no Python tests. Only
# FILTER='pytest/NAME' picks those: test_NAME.py of both folders, where NAME may have wildcards; 'pytest/cli/NAME' of one.
# A leak that a sanitizer or the log reports is a failure too, since Criterion prints it and passes.
# Exit status 0 only if something ran and nothing failed. A FILTER that matches no test is named.
set -u
passed=0 failed=0 skipped=0 names='' reasons=''
# One job per core, each with one thread: more would compete for the cores. Tests of the threads
# themselves set their number, and threads wait without spinning, since there may be more than cores.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
SCRIPTS=$(cd "$(dirname "$0")/.." && pwd) # for the tests of scripts
export SCRIPTS

# Writes its input to the log, and the name of each suite when a test of it has ended, where $1 is a pattern
# whose second group is the name.
show_progress() {
    local text suite='' column=0 seen=' '
    while IFS= read -r text; do
        printf '%s\n' "$text" >&3
        [[ $text =~ $1 ]] || continue
        suite=${BASH_REMATCH[2]}
        [[ $seen != *" $suite "* ]] || continue
        seen+="$suite "
        ((column += ${#suite} + 1, column > 100)) && printf '\n' && column=${#suite}
        printf ' %s' "$suite"
    done 3>"$program.log"
    [ "$column" -eq 0 ] || echo
}

# run_criterion and run_pytest run the program and set: status; line, empty if there is no result; good, bad
# and left_out, the tests that passed, failed (a crash fails) and were skipped; shown, a pattern of its log's
# lines to show; named and why, sed scripts that print the name of a failed test, and "REASON<tab>SUITE" of a skipped one.
run_criterion() {
    "$program" --verbose --jobs "${CRITERION_JOBS:-0}" --color=never ${FILTER:+--filter "$FILTER"} \
        </dev/null 2>&1 | show_progress '^\[(PASS|FAIL|CRSH)\] ([^ :]+)::'
    status=${PIPESTATUS[0]}
    line=$(grep -a 'Synthesis: Tested:' "$program.log" | tail -n 1)
    count() { sed -n "s/.*$1: *\([0-9]*\).*/\1/p" <<<"$line"; }
    good=$(count Passing) bad=$(count Failing) left_out=0
    shown='^\[(----\] [^C]|FAIL|CRSH|ERR |WARN)'
    named='s/^\[(FAIL|CRSH)\] ([^ ]*::[^ :]*).*/\2/p'
    why='' # it skips none
}

run_pytest() {
    local python
    for python in ${PYTHON:-python3 /usr/bin/python3}; do
        "$python" -c 'import numpy, pytest, xdist' 2>/dev/null && break
    done
    "$python" -m pytest -v -rfEs --tb=short --color=no -p no:cacheprovider -n "${CRITERION_JOBS:-auto}" \
        "${files[@]}" </dev/null 2>&1 |
        show_progress '(PASSED|FAILED|ERROR).* [^ ]*test_([a-z_0-9]+)\.py::'
    status=${PIPESTATUS[0]}
    line=$(grep -aE '^=+ ([0-9]+ [a-z]+,? )+in [0-9.]+s' "$program.log" | tail -n 1)
    count() { if [[ $line =~ ([0-9]+)\ $1 ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi; }
    good=$(count passed) bad=$(($(count failed) + $(count error))) left_out=$(count skipped)
    shown='^(E  |[^ ]*\.py:[0-9]+: )'
    named='s/^(FAILED|ERROR) ([^ ]*).*/\2/p'
    why='s/^SKIPPED \[[0-9]+\] ([^ ]*\/)?(test_)?([a-z_0-9]+)\.py(:[0-9]+)?: (.*)/\5\t\3/p'
}

shopt -s extglob
pattern=${FILTER:-pytest/*}
pattern=${pattern#pytest/}
case $pattern in */*) ;; *) pattern="@(cli|scripts)/$pattern" ;; esac
mapfile -t files < <(compgen -G "$SCRIPTS/../tests/${pattern%/*}/test_${pattern##*/}.py")
for program in "$@"; do
    name=${program##*/}
    case $name/${FILTER:-} in
    pytest/ | pytest/pytest/*)
        [ ${#files[@]} -gt 0 ] || continue
        run_pytest
        ;;
    pytest/* | */pytest/*) continue ;;
    *) run_criterion ;;
    esac
    sanitizer='LeakSanitizer|AddressSanitizer|runtime error:|unexpected leak'
    grep -aE "$shown|Sanitizer|$sanitizer" "$program.log"
    bad_names=$(sed -nE "$named" "$program.log" | sort | uniq -c |
        sed -E "s/^ *([0-9]+) (.*)/  $name: \2 (\1)/; s/ \(1\)$//")
    if [ -z "$line" ]; then
        bad=1 bad_names="  $name: ended with status $status and no result"
    elif grep -aqE "$sanitizer" "$program.log"; then
        bad=$((bad + 1)) bad_names="$bad_names
  $name: a sanitizer found something"
    elif [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
        bad=1 bad_names="  $name: ended with status $status"
    fi
    if [ "$bad" -eq 0 ]; then
        echo "$name: ${good:-0} passed"
    else
        echo "$name: ${good:-0} passed, $bad failed; its whole output: $program.log"
        names="$names
$bad_names"
    fi
    reasons+=$(sed -nE "$why" "$program.log")$'\n'
    passed=$((passed + ${good:-0})) failed=$((failed + bad)) skipped=$((skipped + ${left_out:-0}))
done
[ "$skipped" -eq 0 ] || sort -u <<<"$reasons" | awk -F '\t' '
    $1 != last { printf "%s  %s:", last == "" ? "Skipped:\n" : "\n", last = $1 }
    $1 != "" { printf " %s", $2 }
    END { print "" }'
[ "$failed" -eq 0 ] || printf 'Failed:\n%s\n' "$(sed '/^$/d' <<<"$names")"
[ "$((passed + failed + skipped))" -gt 0 ] || [ -z "${FILTER:-}" ] ||
    echo "run_tests: FILTER='$FILTER': matches no test (SUITE/TEST, such as 'norm/*', or 'pytest/NAME' for" \
        "tests/cli/test_NAME.py and tests/scripts/test_NAME.py)" >&2
echo "$passed passed, $failed failed$([ "$skipped" -eq 0 ] || echo ", $skipped skipped")"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
