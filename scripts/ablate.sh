#!/usr/bin/env bash
# An ablation: every combination of some options of ./train, each with the same seeds (see --help). ablate/driver.py does it.
python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
    echo "ablate: $python: is missing (scripts/deps.sh ablate installs Python 3)" >&2
    exit 1
fi
LC_ALL=C exec "$python" "$(dirname "$0")/ablate/driver.py" "$@"
