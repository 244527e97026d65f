#!/usr/bin/env bash
# Prints the options that turn on OpenMP in a compiler: scripts/upkeep/openmp.sh [COMPILER [OPTION]...]
#
# It prints one line, [COMPILER] OPTION..., after it has built a test program with them. GCC and LLVM's
# Clang need -fopenmp only. Apple's Clang refuses that; it needs other options and the libomp of Homebrew or
# MacPorts. Options that start with -L or -l are for the linker. Without libomp, if the compiler is `cc`, it
# looks for Homebrew's gcc-NN and prints that name first. If nothing works, it prints -fopenmp, says on
# standard error what to install, and exits with status 1.
#
# The Makefile calls it on macOS, scripts/deps.sh on every system. It runs under bash 3.2.
set -u

builds() { # builds COMPILER OPTION...: tests whether these and $libraries build an OpenMP program
    # shellcheck disable=SC2086 # $libraries are words
    printf '#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n' |
        "$@" -x c - -o "$temporary/program" $libraries >/dev/null 2>&1
}

[ $# -gt 0 ] || set -- cc
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

libraries=''
if builds "$@" -fopenmp; then
    echo '-fopenmp'
    exit 0
fi
for prefix in ${HOMEBREW_PREFIX:+"$HOMEBREW_PREFIX/opt/libomp"} /opt/homebrew/opt/libomp /usr/local/opt/libomp \
    /opt/local brew; do
    [ "$prefix" != brew ] || prefix=$(brew --prefix libomp 2>/dev/null) || continue
    include=$prefix/include
    [ -e "$include/omp.h" ] || include=$prefix/include/libomp
    [ -e "$include/omp.h" ] || continue
    libraries="-L$prefix/lib -lomp"
    [ ! -d "$prefix/lib/libomp" ] || libraries="-L$prefix/lib/libomp -lomp"
    if builds "$@" -Xpreprocessor -fopenmp "-I$include"; then
        echo "-Xpreprocessor -fopenmp -I$include $libraries"
        exit 0
    fi
done
libraries=''
if [ "$*" = cc ]; then
    for ((version = 29; version > 8; version--)); do
        if command -v "gcc-$version" >/dev/null && builds "gcc-$version" -fopenmp; then
            echo "gcc-$version -fopenmp"
            exit 0
        fi
    done
fi
echo '-fopenmp'
how='a compiler that has OpenMP'
[ "$(uname -s)" != Darwin ] || how='brew install libomp, or brew install gcc'
echo "openmp: $* builds no program with OpenMP ($how)" >&2
exit 1
