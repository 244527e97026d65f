# shellcheck shell=bash
# For scripts that need more than macOS's bash 3.2, which source this file. need_bash NAME MAJOR MINOR
# ends the script NAME with one line if bash is older. It runs under bash 3.2 itself.
need_bash() {
    if ((BASH_VERSINFO[0] * 1000 + BASH_VERSINFO[1] < $2 * 1000 + $3)); then
        echo "$1: needs bash $2.$3 or newer, and this is bash $BASH_VERSION (macOS: brew install bash)" >&2
        exit 1
    fi
}
