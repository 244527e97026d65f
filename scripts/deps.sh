#!/usr/bin/env bash
# Names what normlab's commands need and this machine lacks, and installs it with apt-get.
#
# It looks for the thing itself (a command, a header, a Python module, a file) and not for a package, so
# that a Criterion built by hand or another distribution's compiler counts. It runs under macOS's bash 3.2.
set -euf
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    cat <<'EOF'
Usage: scripts/deps.sh [GROUP | PACKAGE]...

Installs the missing packages of the named groups, or single packages by Debian's name.
  build     a C compiler with OpenMP, and make                (default)
  test      all that the tests need: Criterion, pytest, and what the scripts that they run need   (default)
  data      the texts that data/get_corpora.sh reads, and curl
  plot      numpy and matplotlib
  ablate    Python, and GNU parallel for --sshlogin of scripts/ablate.sh, which distributes runs over machines
  study     Python's modules for scripts/study.py, and GNU parallel, for --sshlogin
  report    scipy, statsmodels and jinja2, for scripts/compare.py and the report
  pytorch   PyTorch, for scripts/normlab.py, the tests against it and the golden numbers
  lint      clang-format, shellcheck and pyflakes
  clang     clang (or clang-NN, if CC names that) with OpenMP and libFuzzer
  mpi       MPICH, for make MPI=1 and mpirun; Open MPI and others that have mpicc serve too
  arm       a cross compiler for 64-bit ARM, and an emulator that the kernel starts
  web       Emscripten and Chart.js, for make web
  browser   Chromium and Selenium, for make web-check
  latex     pdflatex with booktabs, for the test that a study's tables fit
  notebook  nbformat, nbconvert and ipykernel, to make and run Jupyter notebooks

It prints nothing if nothing is missing. It installs on Debian and Ubuntu, as root or with sudo. On
other systems it names the packages to install. CC and PYTHON choose the compiler and the Python.
--list [GROUP | PACKAGE]... installs nothing, and prints Debian's packages, their groups, and what is looked for.
Exit status: 0 nothing is missing, 1 something is still missing, 2 wrong usage.
EOF
}

read -ra compiler <<<"${CC:-cc}"
case ${compiler[0]} in
*clang-[0-9]*) version=-${compiler[0]##*-} ;; # its packages have the same number
*) version='' ;;
esac

# Debian's package (after commas, others that belong to it), its groups, the test for it, and its names in
# Fedora, Arch, Homebrew and MSYS2: "-" or nothing if that system has no such package, "xcode" if it is among
# Apple's command line tools.
table="
gcc                         build   command:cc                        gcc                 gcc                xcode                 gcc
libc6-dev                   build   header:math.h                     glibc-devel         glibc              xcode                 msys2-runtime-devel
libomp$version-dev          build   openmp:                           libomp-devel        openmp             libomp
make                        build   command:make                      make                make               xcode                 make
libcriterion-dev            test    header:criterion/criterion.h      -                   criterion          criterion
python3                     test,ablate  command:python3                   python3             python             python                python
python3-pytest              test,browser  python:pytest                     python3-pytest      python-pytest      pytest
python3-pytest-xdist        test    python:xdist                      python3-pytest-xdist  python-pytest-xdist  -
bash                        test    bash:4004                     bash                bash               bash                  bash
git                         test,lint  command:git                     git                 git                xcode                 git
bible-kjv                   data    command:bible                     -                   -                  -
bible-kjv-text              data    file:/usr/lib/bible.data          -                   -                  -
fortunes-zh                 data    file:/usr/share/games/fortunes/tang300   -            -                  -
wamerican                   data    file:/usr/share/dict/american-english    -            -                  -
curl,ca-certificates        data    command:curl                      curl                curl               curl                  curl
python3-numpy               test,plot,study,report  python:numpy                      python3-numpy       python-numpy       numpy
python3-matplotlib          test,plot,study,report  python:matplotlib                 python3-matplotlib  python-matplotlib  python-matplotlib
parallel                    test,ablate,study,report  gnu:parallel                      parallel            parallel           parallel              parallel
python3-scipy               test,study,report  python:scipy                      python3-scipy       python-scipy       scipy
python3-statsmodels         test,study,report  python:statsmodels          python3-statsmodels  python-statsmodels  -
python3-pandas              test,study,report  python:pandas               python3-pandas      python-pandas      -
python3-jinja2              test,report  python:jinja2                     python3-jinja2      python-jinja       -
python3-torch               pytorch python:torch                      python3-torch       python-pytorch     pytorch
clang-format                lint    command:clang-format              clang-tools-extra   clang              clang-format
shellcheck                  lint    command:shellcheck                ShellCheck          shellcheck         shellcheck
python3-pyflakes            lint    python:pyflakes                   python3-pyflakes    python-pyflakes    pyflakes
clang$version               clang   command:clang$version             clang               clang              llvm
libclang-rt$version-dev     clang   clang$version:-fsanitize=fuzzer   compiler-rt         compiler-rt        -
libomp$version-dev          clang   clang$version:-fopenmp            libomp-devel        openmp             libomp
mpich                       mpi     command:mpirun                    mpich               mpich              mpich
libmpich-dev                mpi     command:mpicc                     mpich-devel         mpich              mpich
gcc-aarch64-linux-gnu       arm     command:aarch64-linux-gnu-gcc     gcc-aarch64-linux-gnu  aarch64-linux-gnu-gcc  -
libc6-dev-arm64-cross       arm     arm:math.h                        -                   aarch64-linux-gnu-glibc  -
qemu-user-static,binfmt-support  arm  command:qemu-aarch64-static      qemu-user-static    qemu-user-static   -
emscripten,node-acorn       web      command:emcc                     emscripten          emscripten         emscripten
libjs-chart.js              web      file:/usr/share/javascript/chart.js/chart.min.js  -  -                 -
chromium                    browser  command:chromium                 chromium            chromium           chromium
chromium-driver             browser  command:chromedriver             chromedriver        chromium           chromedriver
python3-selenium            browser  python:selenium                  python3-selenium    python-selenium    -
texlive-latex-base          latex    command:pdflatex                  texlive-latex       texlive-latex      texlive               texlive-latex
texlive-latex-recommended   latex    tex:booktabs.sty                  texlive-booktabs    texlive-latexrecommended  texlive         -
python3-nbformat            notebook  python:nbformat                 python3-nbformat    python-nbformat    jupyterlab
python3-nbconvert           notebook  python:nbconvert                python3-nbconvert   jupyter-nbconvert  jupyterlab
python3-ipykernel           notebook  python:ipykernel                python3-ipykernel   python-ipykernel   jupyterlab
"

say() { echo "deps: $*" >&2; }

has() { # has KIND:NAME
    local name=${1#*:}
    case $1 in
    command:cc) command -v "${compiler[0]}" ;;
    command:*) command -v "$name" ;;
    gnu:*) "$name" --version </dev/null | grep '^GNU ' ;; # moreutils has another parallel
    file:*) [ -e "$name" ] ;;
    header:*)
        [ -e "/usr/include/$name" ] || [ -e "/opt/homebrew/include/$name" ] ||
            "${compiler[@]}" -E -include "$name" -x c /dev/null
        ;;
    arm:*) aarch64-linux-gnu-gcc -E -include "$name" -x c /dev/null ;;
    openmp:*) # a missing compiler is reported by its own row
        ! command -v "${compiler[0]}" || "$here/upkeep/openmp.sh" "${compiler[@]}"
        ;;
    tex:*) kpsewhich "$name" ;;
    bash:*) bash -c '((BASH_VERSINFO[0] * 1000 + BASH_VERSINFO[1] >= $1))' deps "$name" ;;
    clang*) # what it can build with this flag
        printf '#include <stddef.h>\nint LLVMFuzzerTestOneInput(const char *c, size_t n) { return c[n]; }\n%s\n' \
            "$([ "$name" = -fsanitize=fuzzer ] || echo 'int main(void) { return 0; }')" |
            "${1%%:*}" "$name" -x c - -o /dev/null
        ;;
    python:*)
        # A program needs all its modules in one Python. Debian's packages serve /usr/bin/python3, which need
        # not be the first on PATH.
        # shellcheck disable=SC2086 # modules are words
        if [ -n "${PYTHON:-}" ]; then
            has_modules "$PYTHON" "$name"
        else
            has_modules python3 $together || has_modules /usr/bin/python3 "$name"
        fi
        ;;
    esac >/dev/null 2>&1
}

has_modules() { # has_modules PYTHON NAME...
    "$1" -c 'import sys, importlib.util as u; sys.exit(None in map(u.find_spec, sys.argv[1:]))' "${@:2}"
}

is_wanted() { # is_wanted GROUPS NAME
    local name
    for name in ${1//,/ } "$2"; do
        case $wanted in *" $name "*) return 0 ;; esac
    done
    return 1
}

list=''
wanted=" $* "
case $wanted in
*' --help '* | *' -h '*) usage && exit 0 ;;
'  ') wanted=' build test ' ;;
' --list '*) list=1 wanted=${wanted#* --list} ;;
esac
wanted_modules() {
    local package group probe
    while read -r package group probe _; do
        [ "${probe%%:*}" != python ] || ! is_wanted "$group" "${package%%,*}" || echo "${probe#*:}"
    done <<<"$table"
}
together=$(wanted_modules)

if [ -n "$list" ]; then
    while read -r package group probe _; do
        if [ -n "$package" ] && { [ "$wanted" = ' ' ] || is_wanted "$group" "${package%%,*}"; }; then
            echo "$package $group $probe"
        fi
    done <<<"$table"
    exit 0
fi

known=' ' groups=' '
missing='' packages='' unpackaged='' xcode=''
native='' to_native=''         # packages of this system, and what they are for
modules='' to_modules='' pip='' # Python's modules alike; those that pip installs too, by Debian's names
# The column of the table that has this system's names, and its command.
column=0 how="your system's package manager (these are Debian's names):"
while read -r number manager words; do
    if command -v "$manager" >/dev/null; then
        column=$number how=$words
        break
    fi
done <<<'3 dnf sudo dnf install
4 pacman sudo pacman -S
5 brew brew install'
case $(uname -s) in
MSYS*) column=6 how='pacman -S' ;; # few of Arch's packages
MINGW*)
    say "the compilers of this shell lack POSIX: use MSYS2's MSYS shell, or WSL with Debian or Ubuntu in it"
    exit 1
    ;;
*) pip=" $(sed '/^#/d; s/^/python3-/' "$here/requirements.txt" | tr '\n' ' ')" ;;
esac
while read -ra row; do
    [ ${#row[@]} -gt 0 ] || continue
    name=${row[0]%%,*}
    known="$known$name "
    for group in ${row[1]//,/ }; do
        case $groups in *" $group "*) ;; *) groups="$groups$group " ;; esac
    done
    is_wanted "${row[1]}" "$name" || continue
    case "$missing " in *" $name "*) continue ;; esac
    if has "${row[2]}"; then continue; fi
    missing="$missing $name"
    packages="$packages ${row[0]//,/ }"
    there=${row[column]:--}
    [ "$column" -ne 0 ] || there=$name
    case $pip/$there in
    *" $name "*) modules="$modules $there" to_modules="$to_modules $name" ;;
    */-) unpackaged="$unpackaged $name" ;;
    */xcode) xcode="$xcode $name" ;;
    *)
        to_native="$to_native $name"
        case "$native " in *" $there "*) ;; *) native="$native $there" ;; esac
        ;;
    esac
done <<<"$table"

for name in $wanted; do
    case $known$groups in *" $name "*) continue ;; esac
    say "no group or package '$name' (groups:${groups% })"
    exit 2
done
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null; then
    case "$modules " in # one Python must have all
    *' - '*) ;;
    *) native="$native$modules" to_native="$to_native$to_modules" to_modules='' ;;
    esac
    [ -z "$xcode" ] || say "missing:$xcode; Apple's command line tools have it: xcode-select --install"
    [ -z "$native" ] || say "missing:$to_native; to get it: $how$native"
    [ -z "$to_modules" ] || say "missing:$to_modules; in a virtual environment: python3 -m venv venv &&" \
        ". venv/bin/activate && pip install -r scripts/requirements.txt"
    [ "$column" -ne 6 ] || unpackaged="$unpackaged${unpackaged:+ (WSL with Debian or Ubuntu in it has all)}"
    [ -z "$unpackaged" ] || say "missing, and not packaged for this system:$unpackaged"
    exit 1
fi

by_hand="apt-get update && apt-get install$packages"
as_root=''
if [ "$(id -u)" -ne 0 ]; then
    by_hand="sudo apt-get update && sudo apt-get install$packages"
    # Without a terminal sudo cannot ask for a password.
    if ! command -v sudo >/dev/null || { [ ! -t 0 ] && ! sudo -n true 2>/dev/null; }; then
        say "missing:$missing; no rights to install it here: run $by_hand"
        exit 1
    fi
    as_root=sudo
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
    # shellcheck disable=SC2086 # an empty as_root is no word
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 \
        -o DPkg::Lock::Timeout=120 "$@" </dev/null >>"$log" 2>&1
}

say "missing:$missing; installing with apt-get"
# shellcheck disable=SC2086 # package names are words
if ! apt install --no-install-recommends $packages; then # the lists may be absent or old
    : >"$log"
    if ! { apt update && apt install --no-install-recommends $packages; }; then
        say "apt-get failed: $(grep -m 1 '^E:' "$log" || tail -n 1 "$log"); by hand: $by_hand"
        exit 1
    fi
fi

removed=$(sed -n 's/^Removing \([^ ]*\) .*/\1/p' "$log" | tr '\n' ' ')
[ -z "$removed" ] || say "apt-get removed ${removed}because of a conflict"

# The environment may hide what was installed: another CC or PYTHON, a PATH without /usr/bin.
still=''
while read -r package group probe _; do
    case "$missing " in *" ${package%%,*} "*) has "$probe" || still="$still ${package%%,*}" ;; esac
done <<<"$table"
if [ -n "$still" ]; then
    say "installed, but not found by ${compiler[0]}, ${PYTHON:-python3} or PATH:$still"
    exit 1
fi
