#!/usr/bin/env bash
# Prints "yes" if a pattern of Criterion's picks a test of these files: picks.sh PATTERN FILE.c...
#
# The Makefile asks it which test programs `make check FILTER=...` needs. Such a pattern is one of Bash's with
# extglob, and is compared with SUITE/TEST.
shopt -s extglob
pattern=$1
shift
while read -r test; do
    # shellcheck disable=SC2053 # the right side is a pattern
    [[ $test == $pattern ]] && echo yes && exit
done < <(sed -nE 's|^Test\((\w+), (\w+).*|\1/\2|p' "$@")
