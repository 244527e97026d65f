#!/usr/bin/env bash
# `make lint`: the layout of the code, the order of the folders, the lengths of files and functions,
# phrases and links in documents and comments, shell and Python scripts. All checks run; the exit status is 0
# only if all of them pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
check() { "$@" || status=1; }

# The first Python that has pyflakes; PYTHON=... names one.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
    "$python" -m pyflakes --version >/dev/null 2>&1 && break
done

mapfile -t code < <(git ls-files -co --exclude-standard '*.c' '*.h')
mapfile -t shell < <(git ls-files -co --exclude-standard '*.sh' '*.slurm' .ci/run)
check clang-format --dry-run --Werror "${code[@]}"
check "$python" scripts/upkeep/check_house.py
check "$python" scripts/upkeep/check_prose.py
check shellcheck -x "${shell[@]}"
check "$python" -m pyflakes scripts/*.py scripts/*/*.py tests/scripts/*.py
exit "$status"
