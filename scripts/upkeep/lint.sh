#!/usr/bin/env bash
# `make lint`: the layout of the code, the order of the folders, the lengths of files and functions,
# phrases and links in documents and comments, shell and Python scripts, the newest commit's subject. All checks run; the exit status is 0
# only if all of them pass.
set -u
cd "$(dirname "$0")/../.." || exit 1
status=0
check() { "$@" || status=1; }

# The first Python that has pyflakes; PYTHON=... names one.
for python in ${PYTHON:-python3 /usr/bin/python3}; do
    "$python" -m pyflakes --version >/dev/null 2>&1 && break
done

# Versions of clang-format lay out the same code differently.
layout=14
format=$(command -v "clang-format-$layout" || echo clang-format)
layout_version() {
    local version
    version=$("$format" --version | sed -nE 's/.*version ([0-9]+).*/\1/p')
    [ "$version" = "$layout" ] && return
    echo "lint: clang-format: version ${version:-unknown}, but the code has the layout of version $layout" \
        "(apt-get install clang-format-$layout, or pip install clang-format==$layout.0.6)" >&2
    return 1
}

newest_subject() {
    local subject
    subject=$(git log --no-merges -1 --format=%s)
    [ ${#subject} -le 72 ] && return
    echo "lint: the newest commit's subject has ${#subject} characters, at most 72 (git commit --amend): $subject" >&2
    return 1
}

mapfile -t code < <(git ls-files -co --exclude-standard '*.c' '*.h')
mapfile -t shell < <(git ls-files -co --exclude-standard '*.sh' '*.slurm' .ci/run)
if layout_version; then check "$format" --dry-run --Werror "${code[@]}"; else status=1; fi
newest_subject || status=1
check "$python" scripts/upkeep/check_house.py
check "$python" scripts/upkeep/check_prose.py
check shellcheck -x "${shell[@]}"
check "$python" -m pyflakes scripts/*.py scripts/*/*.py tests/*.py tests/*/*.py
exit "$status"
