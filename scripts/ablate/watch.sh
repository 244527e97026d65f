#!/usr/bin/env bash
# The progress of an ablation and its remaining time: functions of ablate.sh, on its variables.
#
# names, variants and expected (seconds) describe the runs. pending holds the numbers of the runs that have
# not ended, since the start times of those under way, ended a line "TOOK EXPECTED" for each other run.
# shellcheck disable=SC2154 # ablate.sh sets them

number_of() { # number_of 3 run: "3 runs"
    echo "$1 $2$([ "$1" -eq 1 ] || echo s)"
}

live() { # a line that the next one replaces, cut to the terminal's width; nothing unless that is a terminal
    local width
    [ -t 2 ] || return 0
    width=$(stty size <&2 2>/dev/null) || width=''
    width=${width##* }
    [ "${width:-0}" -gt 0 ] || width=80
    printf '\r%s\033[K' "${1:0:width-1}" >&2
}

look_at_trial() { # shows the progress of ablate/try.sh, from its last line
    local word variant
    [ -t 2 ] || return 0
    read -r word variant < <(tail -n 1 "$temporary/trial") || return 0
    [ "$word" = takes ] || live "$word variant $variant of ${#tried[@]}: ${variant_names[tried[variant - 1]]}"
}

duration() { # duration SECONDS: in s, min or h
    local s
    printf -v s '%.0f' "$1"
    if [ "$s" -lt 100 ]; then
        echo "$s s"
    elif [ "$s" -lt 6000 ]; then
        echo "$(((s + 30) / 60)) min"
    else
        printf '%d h %02d min\n' $((s / 3600)) $((s % 3600 / 60))
    fi
}

# The seconds until all runs have ended, $1 at a time in this order, from lines "ended TOOK EXPECTED",
# "running EXPECTED SINCE" and "waiting EXPECTED". The ended runs correct the expectations of the others.
time_left() {
    awk -v jobs="$1" '
        $1 == "ended" { took += $2; expected += $3 }
        $1 == "running" { end[++running] = $2; since[running] = $3 }
        $1 == "waiting" { length_of[++waiting] = $2 }
        END {
            factor = took > 0 && expected > 0 ? took / expected : 1
            if (jobs < running) jobs = running
            for (i = 1; i <= running; i++) end[i] = end[i] * factor > since[i] ? end[i] * factor - since[i] : 0
            for (n = 1; n <= waiting; n++) {
                slot = 1
                for (i = 2; i <= jobs; i++) if (end[i] < end[slot]) slot = i
                end[slot] += length_of[n] * factor
            }
            for (i = 1; i <= jobs; i++) if (end[i] > last) last = end[i]
            print last + 0
        }'
}

how_it_failed() { # how_it_failed STATUS, in words
    case $1 in
    130 | 143) echo "interrupted" ;;
    129 | 1[3-9]?) echo "killed by signal $(($1 - 128))" ;;
    *) echo "failed with exit status $1" ;;
    esac
}

say_ended() { # say_ended RUN STATUS SECONDS: prints the line of a run that has ended
    local summary=$folder/runs/${names[$1]}/summary.json text result=()
    mapfile -t result < <(sed -n -E 's/^ *"(steps|val_loss|best_val_loss|best_step)": *([^,]*),?$/\2/p' "$summary" 2>/dev/null)
    case $2 in
    0) printf -v text 'val loss %.4f, best %.4f at step %d' "${result[@]:1}" ;;
    3) text="diverged at step ${result[0]}" ;;
    *) text=$(how_it_failed "$2") ;;
    esac
    live ''
    said=$((said + 1))
    text="$said/$total ${names[$1]}: $text, $3 s"
    [ -n "$interrupted" ] || text+="; $(left) left"
    say "$text"
}

left() { # the remaining time
    local line i now
    if [ -n "$unknown" ] && [ ${#ended[@]} -eq 0 ]; then
        echo 'unknown time'
        return
    fi
    printf -v now '%(%s)T' -1
    for line in "${ended[@]}"; do echo "ended $line"; done >"$temporary/times"
    for i in "${pending[@]}"; do
        if [ -n "${since[i]-}" ]; then
            echo "running ${expected[variants[i]]} $((now - since[i]))"
        else
            echo "waiting ${expected[variants[i]]}"
        fi
    done >>"$temporary/times"
    duration "$(time_left "$((${#since[@]} > 0 ? ${#since[@]} : jobs))" <"$temporary/times")"
}

# Reads the records of the runs in $pending, prints which have ended, and shows the progress. results.csv
# is written again after TABLE_SECONDS or more: Python needs 0.2 to 0.5 s of a processor for it, and many
# seconds in a folder of thousands of runs. So it rests TABLE_RESTS times as long as it took.
TABLE_SECONDS=10 TABLE_RESTS=50 outdated='' table_due=0
look() {
    local i word a b start news=() still=()
    since=()
    for i in "${pending[@]}"; do
        word=''
        [ ! -e "$folder/driver/${names[i]}.status" ] || read -r word a b <"$folder/driver/${names[i]}.status"
        case $word in
        ended) news+=("$i $a $b") && ended+=("$b ${expected[variants[i]]}") && continue ;;
        running) since[i]=$a ;;
        esac
        still+=("$i")
    done
    pending=("${still[@]}")
    # shellcheck disable=SC2086 # words
    for i in "${news[@]}"; do say_ended $i; done
    [ ${#news[@]} -eq 0 ] || outdated=1
    if [ -n "$outdated" ] && [ "$SECONDS" -ge "$table_due" ]; then
        start=$SECONDS
        write_results
        outdated='' table_due=$((SECONDS + TABLE_SECONDS + TABLE_RESTS * (SECONDS - start)))
    fi
    [ ! -t 2 ] || [ ${#pending[@]} -eq 0 ] || [ -n "$interrupted" ] ||
        live "$((total - ${#pending[@]})) of $total runs have ended, ${#since[@]} under way, $(left) left"
}
