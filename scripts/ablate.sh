#!/usr/bin/env bash
# An ablation: every combination of some options of ./train, each with the same seeds (see --help), by ablate/driver.py. On
# other machines it starts this script again for each run (--do-line), which ablate/one_run.py does.
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "ablate: $python: is missing (scripts/deps.sh ablate installs Python 3)" >&2
    exit 1
fi
program=driver
[ "${1-}" = --do-line ] && program=one_run
LC_ALL=C exec "$python" "$(dirname "$0")/ablate/$program.py" "$@"
