#!/usr/bin/env bash
# Tests the arithmetic with other compilers and for other processors: archs.sh [COMPILER:ARCH]...
#
# COMPILER is gcc, serial (gcc without OpenMP), clang ($CLANG, by default clang-16) or arm (GCC's cross compiler; the
# programs run under qemu). ARCH is a value of -march. Without arguments: all targets of the list below. Targets that
# this machine cannot build or run are named and skipped. The last lines name the targets that failed and
# count the tests. Exit status 0 only if something ran and nothing failed.
set -u
cd "$(dirname "$0")/../.." || exit 1
clang=${CLANG:-clang-16}
say() { echo "archs: $*"; }

# Unpacks Criterion for 64-bit ARM, and the libraries it needs, into a folder: arm_libraries FOLDER
#
# Debian has them as packages of another architecture, and libcriterion-dev cannot be installed for two
# architectures at once. So the packages are downloaded and unpacked, not installed, with package lists
# of their own. Nothing outside FOLDER changes, except for the emulator (scripts/deps.sh arm) and, as
# root, the kernel's table of foreign programs. Ends the subshell with status 1 and a line that says why
# if this machine cannot run such programs.
arm_libraries() (
    fail() { echo "arm: $*" >&2; exit 1; }
    apt() {
        "$1" -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
            -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" "${@:2}"
    }
    download() {
        apt apt-get update
        packages=$(apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
            --no-replaces --no-enhances libcriterion3 libgomp1 | sed -n 's/^\([a-z][^: ]*\).*/\1/p' | sort -u)
        # shellcheck disable=SC2086 # names are words
        (cd "$folder/packages" && apt apt-get download $packages)
    }

    command -v apt-get >/dev/null || fail "needs Debian's packages"
    # The kernel starts programs of other machines by this table, which qemu's package fills.
    table=/proc/sys/fs/binfmt_misc
    [ -e $table/register ] || mount -t binfmt_misc none $table 2>/dev/null || true
    scripts/deps.sh arm || exit 1
    [ -e $table/qemu-aarch64 ] || update-binfmts --enable qemu-aarch64 2>/dev/null || true
    [ -e $table/qemu-aarch64 ] || fail "the kernel does not start programs of other machines (binfmt_misc)"
    [ ! -e "$1/complete" ] || exit 0

    folder=$(mkdir -p "$1" && cd "$1" && pwd)
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/packages" "$folder/root"
    download >"$folder/log" 2>&1 || fail "no packages for it: $(tail -n 1 "$folder/log")"
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root" || fail "$package: cannot be unpacked"; done
    rm -rf "$folder/lists" "$folder/cache" "$folder/packages"
    # One folder of libraries and one of headers (the same for all machines), for the linker and for the emulator's loader.
    mkdir -p "$folder/lib" "$folder/include" &&
        cp -a "$folder"/root/usr/lib/aarch64-linux-gnu/*.so* "$folder"/root/lib/aarch64-linux-gnu/*.so* "$folder/lib/" &&
        ln -sf libcriterion.so.3 "$folder/lib/libcriterion.so" &&
        cp -r /usr/include/criterion /usr/include/boxfort.h "$folder/include/" &&
        rm -rf "$folder/root" && touch "$folder/complete"
)

targets="gcc:x86-64-v2 gcc:x86-64-v3 gcc:x86-64-v4 gcc:znver1 gcc:znver3 gcc:znver4
    clang:x86-64-v2 clang:x86-64-v3 clang:x86-64-v4 clang:znver1 clang:znver3 clang:znver4 clang:native
    serial:native arm:armv8-a"
# Doubles are tested once for each width of vectors and each compiler.
doubles=" gcc:x86-64-v2 gcc:x86-64-v3 clang:native "
# The slowest tests, of the same bits on many threads, run only in this machine's own build.
arithmetic='@(activation|adam|attention|embedding|golden|linear|loss|matmul|measure|model|norm|norm_power|optimizer|pads|rounding|vecmath)/!(same_bits_for_any_number_of_threads|same_bits_with_attention*|few_tokens_among*)'
generation=pytest/cli/generate # and what a trained model writes, by the program itself
# Those of one thread, and few, because qemu computes each float in software, a hundred times slower.
few='@(@(activation|adam|attention|embedding|golden|linear|loss|matmul|measure|norm_power|rounding|simd|vecmath)/*|model/a_text_grows*)'

passed=0 failed=0 bad=''
# shellcheck disable=SC2086 # targets are words
[ $# -gt 0 ] || set -- $targets
for target in "$@"; do
    arch=${target#*:} filters=("$arithmetic" "$generation") loader='' flags=() serial=''
    case $target in
    gcc:*) cc=gcc ;;
    serial:*) cc=gcc serial=-serial flags=(OPENMP=) filters=("$few") ;;
    clang:*) cc=$clang ;;
    arm:*)
        cc=aarch64-linux-gnu-gcc filters=("$few") loader=build/arm
        arm_libraries $loader || { say "$target: skipped" && continue; }
        ;;
    *) say "$target: no COMPILER:ARCH" && exit 2 ;;
    esac
    if ! "$cc" -march="$arch" -fopenmp -x c -c /dev/null -o /dev/null 2>/dev/null; then
        say "$target: skipped, $cc is missing or does not know it"
        continue
    fi
    folder=build/$cc-$arch$serial
    programs=$folder/test-float
    case $doubles in *" $target "*) programs="$programs $folder/test-double" ;; esac
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
        --out="$folder/trial" >"$folder/trial.log" 2>&1
    if [ $? -eq 126 ] || grep -q '^train: processor: lacks' "$folder/trial.log"; then # 126: of another machine
        say "$target: skipped, this machine cannot run it"
        continue
    fi
    say "$target:"
    for filter in "${filters[@]}"; do
        # shellcheck disable=SC2086
        TRAIN=$PWD/$folder/train FILTER=$filter scripts/upkeep/run_tests.sh $programs "$folder/pytest" | tee "$folder/tests.log"
        read -r good _ wrong _ < <(tail -n 1 "$folder/tests.log")
        passed=$((passed + good)) failed=$((failed + ${wrong%,}))
        [ "${wrong%,}" = 0 ] || bad="$bad $target"
    done
done
[ -z "$bad" ] || say "failed:$bad"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
