# shellcheck shell=bash
# The ablation's folder: functions of ablate.sh, on its variables.
# shellcheck disable=SC2034,SC2154 # ablate.sh sets and reads them

# Reads what the folder holds: the lines of grid.txt, by run, and the runs that have ended. Sets $todo to
# the numbers of the other runs.
declare -A number=() has_ended=()
read_folder() {
    local name path summaries=()
    number=() has_ended=()
    if [ -d "$folder" ] && [ ! -d "$folder/driver" ] && [ -n "$(ls -A "$folder")" ]; then
        die 2 "$folder: is not an ablation's folder (another --out)"
    fi
    if [ -e "$folder/driver/shape" ] && [ "$(cat "$folder/driver/shape")" != "$shape" ]; then
        die 2 "$folder: holds another grid: $(cat "$folder/driver/shape") (another --out; only more values and seeds can be added)"
    fi
    if [ -e "$folder/grid.txt" ]; then
        while read -r name _; do number[$name]=$((${#number[@]} + 1)); done <"$folder/grid.txt"
    fi
    for name in "${names[@]}"; do summaries+=("$folder/runs/$name/summary.json"); done
    while read -r path; do
        path=${path%/summary.json}
        has_ended[${path##*/}]=1
    done < <(grep -lsE '"exit_reason": "(done|diverged)"' "${summaries[@]}")
    todo=()
    for i in "${!names[@]}"; do [ -n "${has_ended[${names[i]}]-}" ] || todo+=("$i"); done
}

# Sets known[VARIANT] to the seconds of a run, for each variant with a known time: the mean over its runs
# that are done, or else the result of its last trial (driver/times: JOBS THREADS SECONDS VARIANT).
declare -A known=()
know_times() {
    local name seconds summaries=()
    known=()
    for name in "${!number[@]}"; do summaries+=("$folder/runs/$name/summary.json"); done
    while read -r seconds name; do known[$name]=$seconds; done < <(
        {
            cat "$folder/driver/times" 2>/dev/null || :
            grep -sE '^ *"(exit_reason|seconds)": ' "${summaries[@]}" /dev/null || :
        } | awk -v jobs="$jobs" -v threads="$threads" '
            NF == 4 && $1 == jobs && $2 == threads { trial[$4] = $3 }
            (at = index($0, "/summary.json:")) {
                if (/"exit_reason"/) done = /"done"/
                if (!done || !/"seconds"/) next
                name = substr($0, 1, at - 1)
                sub(/.*\//, "", name)
                sub(/-s[0-9]+$/, "", name)
                sum[name] += $NF
                runs[name]++
            }
            END {
                for (name in trial) if (!(name in runs)) print trial[name], name
                for (name in runs) printf "%.3f %s\n", sum[name] / runs[name], name
            }'
    )
}

keep_times() { # keep_times VARIANT...: stores the times of their trials for the next command
    local i
    {
        cat "$folder/driver/times" 2>/dev/null || :
        for i; do echo "$jobs $threads ${expected[i]} ${variant_names[i]}"; done
    } | put driver/times
}

locked=''
lock() {
    [ -z "$locked" ] || return 0
    locked=1
    if ! command -v flock >/dev/null; then
        say "no flock here (util-linux; macOS: brew install flock): a second ablate.sh in $folder would not be noticed"
        return
    fi
    exec 9>>"$folder/driver/lock"
    flock -n 9 || die 1 "$folder: another ablate.sh is running there ($(tail -n 1 "$folder/driver/lock"))"
    echo "process $$ on $(uname -n)" >"$folder/driver/lock"
}

table() { "${PYTHON:-python3}" "$here/table.py" "$@"; }

write_results() { ! command -v "${PYTHON:-python3}" >/dev/null || table --csv="$folder/results.csv" "$folder" 2>/dev/null || :; }

put() { # put FILE: writes standard input to a file of the folder, completely or not at all
    if ! cat >"$folder/$1.new" || ! mv -f "$folder/$1.new" "$folder/$1"; then
        die 1 "$folder/$1: cannot be written"
    fi
}

