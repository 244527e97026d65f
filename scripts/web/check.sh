#!/usr/bin/env bash
# Tests build/web/index.html in headless Chromium: check.sh [FILTER], a FILTER of pytest's -k such as "deep-postln or laboratory".
set -eu
cd "$(dirname "$0")/../.."
for python in ${PYTHON:-python3 /usr/bin/python3}; do
    "$python" -c 'import pytest, selenium' 2>/dev/null && break
done
exec "$python" -m pytest -q -rf --tb=short -p no:cacheprovider --confcutdir=tests/web ${1:+-k "$1"} tests/web
