#!/usr/bin/env bash
# Tests the arithmetic with other compilers and for other processors: archs.sh [COMPILER:ARCH]...
#
# COMPILER is gcc, clang ($CLANG, by default clang-16) or arm (GCC's cross compiler; the programs run
# under qemu). ARCH is a value of -march. Without arguments: all targets of the list below. Targets that
# this machine cannot build or run are named and skipped. The last lines name the targets that failed and
# count the tests. Exit status 0 only if something ran and nothing failed.
set -u
cd "$(dirname "$0")/../.." || exit 1
clang=${CLANG:-clang-16}
say() { echo "archs: $*"; }

targets="gcc:x86-64-v2 gcc:x86-64-v3 gcc:x86-64-v4 gcc:znver1 gcc:znver3 gcc:znver4
    clang:x86-64-v2 clang:x86-64-v3 clang:x86-64-v4 clang:znver1 clang:znver3 clang:znver4 clang:native
    arm:armv8-a"
# Doubles are tested once for each width of vectors and each compiler.
doubles=" gcc:x86-64-v2 gcc:x86-64-v3 clang:native "
# The slowest tests, of the same bits on many threads, run only in this machine's own build.
arithmetic='@(activation|adam|attention|embedding|generate|golden|linear|loss|matmul|measure|model|newton_schulz|norm|norm_power|optimizer|pads|rounding|vecmath)/!(same_bits_for_any_number_of_threads|same_bits_with_attention*|few_tokens_among*)'
# qemu computes each float in software, a hundred times slower.
few='@(@(activation|adam|attention|embedding|golden|linear|loss|matmul|measure|newton_schulz|norm_power|rounding|simd|vecmath)/*|model/a_text_grows*)'

passed=0 failed=0 bad=''
# shellcheck disable=SC2086 # targets are words
[ $# -gt 0 ] || set -- $targets
for target in "$@"; do
    arch=${target#*:} filter=$arithmetic loader=''
    case $target in
    gcc:*) cc=gcc ;;
    clang:*) cc=$clang ;;
    arm:*)
        cc=aarch64-linux-gnu-gcc filter=$few loader=build/arm
        scripts/upkeep/arm_libraries.sh $loader || { say "$target: skipped" && continue; }
        ;;
    *) say "$target: no COMPILER:ARCH" && exit 2 ;;
    esac
    if ! "$cc" -march="$arch" -fopenmp -x c -c /dev/null -o /dev/null 2>/dev/null; then
        say "$target: skipped, $cc is missing or does not know it"
        continue
    fi
    folder=build/$cc-$arch
    programs=$folder/test-float
    case $doubles in *" $target "*) programs="$programs $folder/test-double" ;; esac
    flags=()
    lib=$PWD/$loader/lib
    [ -z "$loader" ] || flags=(CFLAGS="-isystem ${lib%lib}include -L$lib -Wl,-rpath-link,$lib")
    # shellcheck disable=SC2086 # programs are words
    if ! make -s -j"$(getconf _NPROCESSORS_ONLN)" CC="$cc" ARCH="$arch" "${flags[@]}" \
        "$folder/train" $programs; then
        failed=$((failed + 1)) bad="$bad $target"
        continue
    fi
    export QEMU_LD_PREFIX=$PWD/$loader
    "$folder/train" --max-iters=1 --n-layer=1 --eval-iters=1 --sample=0 --quiet --force \
        --out="$folder/trial" >/dev/null 2>&1
    status=$?
    if [ $status -eq 132 ] || [ $status -eq 126 ]; then # an illegal instruction, another machine
        say "$target: skipped, this machine cannot run it"
        continue
    fi
    say "$target:"
    # shellcheck disable=SC2086
    TRAIN=$PWD/$folder/train FILTER=$filter scripts/upkeep/run_tests.sh $programs | tee "$folder/tests.log"
    read -r good _ wrong _ < <(tail -n 1 "$folder/tests.log")
    passed=$((passed + good)) failed=$((failed + ${wrong%,}))
    [ "${wrong%,}" = 0 ] || bad="$bad $target"
done
[ -z "$bad" ] || say "failed:$bad"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
