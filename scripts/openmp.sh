#!/usr/bin/env bash
# Prints how OpenMP is had from a compiler: scripts/openmp.sh COMPILER [OPTION]...
#
# The answer is one line, [COMPILER] OPTION..., and each is tried by building a program. -fopenmp is all
# that GCC and LLVM's Clang need. Apple's Clang refuses it; with Homebrew's or MacPorts' libomp it does the
# same by other options (-L and -l are the linker's). If libomp is not there, and the compiler is just the
# system's `cc`, the answer is a gcc-NN with its name in front. Exit status 1, with -fopenmp as the
# answer and what to install on standard error: there is no OpenMP to be had.
#
# The Makefile asks on macOS, and scripts/deps.sh everywhere. It runs under bash 3.2.
set -u

builds() { # builds COMPILER OPTION...: whether they build a program with OpenMP, linked with $libraries
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
