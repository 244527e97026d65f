#!/usr/bin/env bash
# Gets real corpora into data/corpora/ (`make data`): each is one UTF-8 text file for ./train.
#
# All but one come from Debian packages: the installed package, else the package unpacked in a temporary
# folder (which needs no special rights), else the package after installing it. Tiny Shakespeare is
# downloaded and checked against its checksum.
set -eu
set -o pipefail
export LC_ALL=C # tools work on bytes, so that sorting and matching are the same everywhere

usage() {
    cat <<'EOF'
Usage: data/get_corpora.sh [--force] [bible | poems | words | shakespeare | quotes | german | italian | russian | polish | c | python]...

  bible        kjv.txt              the King James Bible, a verse on each line
  poems        poems-zh.txt         Tang and Song poems in Chinese: title, author, verses, empty line
  words        words.txt            English words, one on each line
  shakespeare  tinyshakespeare.txt  tiny Shakespeare, as nanoGPT uses it
  quotes       quotes.txt           English quotations and jokes
  german       german.txt           German quotations and jokes
  italian      italian.txt          Italian quotations and jokes
  russian      russian.txt          Russian quotations and jokes
  polish       polish.txt           Polish quotations and jokes
  c            c.txt                C headers of Linux
  python       python.txt           modules of Python's library

Without names: the first four. All but the Bible and Shakespeare are shuffled, always in the same way,
because the end of a corpus is the validation split and the end of a sorted list differs from the rest.
A file that exists is kept; --force creates it again. If one cannot be obtained, a message says why and
the others follow. At the end the script prints path, characters, bytes and different characters.

Environment: CORPORA_DIR (folder to write to), SHAKESPEARE_URL (another address of that file).
Exit status: 0 all that were asked for are there, 1 one is missing, 2 wrong usage.
EOF
}

here=$(dirname "$0")
out=${CORPORA_DIR:-$here/corpora}
shakespeare_url=${SHAKESPEARE_URL:-https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt}
shakespeare_sha256=86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed

say() { echo "get_corpora: $*" >&2; }

# A function that fails sets $why to the reason and returns 1.
fail() {
    why=$*
    return 1
}

# from_debian FILE PACKAGE...: sets $root to a folder under which the packages' files can be read; FILE
# is one of them.
from_debian() {
    local file=$1
    shift
    root=
    [ ! -e "/$file" ] || return 0
    command -v apt-get >/dev/null ||
        fail "comes from Debian's $*, and this system has no apt-get (copy the file from a Debian machine)" || return
    root=$(cd "$tmp" && pwd)
    if (cd "$root" && apt-get -qq download "$@" && for deb in *.deb; do dpkg -x "$deb" .; done) >/dev/null 2>&1 &&
        [ -e "$root/$file" ]; then
        return 0
    fi
    root=
    install "$@"
}

install() { # install PACKAGE...
    local message
    message=$("$here/../scripts/deps.sh" "$@" 2>&1 | tail -n 1) || fail "${message#deps: }"
}

# Shuffles lines, always in the same way: sorted by values of Lehmer's generator, which do not repeat.
shuffle() {
    awk 'BEGIN { x = 20240229 } { x = x * 16807 % 2147483647; printf "%d\t%s\n", x, $0 }' |
        sort -n | cut -f 2-
}

get_bible() {
    from_debian usr/lib/bible.data bible-kjv bible-kjv-text || return
    if ! print_bible; then # the unpacked program may lack a library that its installation provides
        root=
        install bible-kjv bible-kjv-text || return
        print_bible || fail "the program bible of Debian's bible-kjv did not print all 31102 verses"
    fi
}

print_bible() {
    "$root/usr/bin/bible" -p "$root/usr/lib" -f gen1:1-rev22:21 </dev/null >"$tmp/text" 2>/dev/null &&
        [ "$(wc -l <"$tmp/text")" -eq 31102 ]
}

# The package has files of fortune: items separated by lines of `%`, with terminal colours. In tang300
# and song100 an item starts with title and author. The Song lyrics are in `chinese`, among proverbs
# and manuals; only they end with an indented `-- author《title》`.
get_poems() {
    local dir=usr/share/games/fortunes
    from_debian "$dir/tang300" fortunes-zh || return
    dir=$root/$dir
    awk '
        function end_item(    title) {
            if (last != "" && !among_others) {
                print substr(verses "\001" last, 2)
            } else if (lyric) {
                title = index(last, "《")
                print substr(last, title) "\001作者：" substr(last, 1, title - 1) verses
            }
            verses = last = ""
            lyric = 0
        }
        FNR == 1 { end_item(); among_others = FILENAME ~ /chinese$/ }
        { gsub(/\033\[[0-9;]*m/, ""); sub(/[ \t]+$/, "") }
        /^%/ { end_item(); next }
        /./ {
            if (last != "") verses = verses "\001" last
            lyric = sub(/^      +-- */, "") && /《.*》$/
            sub(/^[ \t]+/, "")
            sub(/^题目:/, "")
            if (sub(/^作者(:|：)/, "作者：")) sub(/（.*/, "") # the years of birth and death
            last = $0
        }
        END { end_item() }' "$dir/tang300" "$dir/song100" "$dir/chinese" |
        shuffle | awk '{ gsub(/\001/, "\n"); print separator $0; separator = "\n" }' >"$tmp/text" ||
        fail "the files of Debian's fortunes-zh are not as expected" || return
    [ -s "$tmp/text" ] || fail "Debian's fortunes-zh contains no poems"
}

get_words() {
    from_debian usr/share/dict/american-english wamerican || return
    shuffle <"$root/usr/share/dict/american-english" >"$tmp/text" ||
        fail "Debian's wamerican cannot be read"
}

# Shuffles items, which end with the character \001; in an item, \002 stands for the end of a line.
shuffle_items() {
    tr '\001' '\n' | grep -v '^\002*$' | shuffle | tr '\002' '\n' | grep -v "$(printf '[\001-\010\016-\037]')" >"$tmp/text"
}

# get_quotes FOLDER FIRST PACKAGE: all files of fortune in this folder, of which FIRST is one.
get_quotes() {
    from_debian "$1/$2" "$3" || return
    {
        find -L "$root/$1" -maxdepth 1 -type f ! -name '*.dat' ! -name '*.u8' -print0 | sort -z | xargs -0 sed 's/^//'
        echo
    } | tr '\n' '\002' | sed 's/\o002%\o002/\o002\o001/g' | shuffle_items ||
        fail "the files of Debian's $3 are not as expected"
}

SOURCES=1500000 # bytes of source files

# get_sources FOLDER FIRST PACKAGE SUFFIX: source files of this folder, of which FIRST is one.
get_sources() {
    from_debian "$1/$2" "$3" || return
    find -L "$root/$1" -maxdepth 1 -type f -name "*$4" | sort | while read -r file; do
        tr '\n' '\002' <"$file" && printf '\002\001'
    done | shuffle_items || fail "the files of Debian's $3 are not as expected" || return
    head -c "$SOURCES" "$tmp/text" | sed '$d' >"$tmp/cut" # whole lines
    mv "$tmp/cut" "$tmp/text"
}

get_shakespeare() {
    local sum
    command -v curl >/dev/null || install curl || return
    curl -fsSL --connect-timeout 15 --max-time 300 -o "$tmp/text" "$shakespeare_url" 2>"$tmp/curl" ||
        fail "$shakespeare_url: $(tail -n 1 "$tmp/curl") (try later, or put the file at $out/tinyshakespeare.txt)" || return
    sum=$(sha256sum "$tmp/text" 2>/dev/null || shasum -a 256 "$tmp/text")
    [ "${sum%% *}" = "$shakespeare_sha256" ] ||
        fail "$shakespeare_url: SHA-256 is ${sum%% *}, not $shakespeare_sha256 (the file has changed)"
}

file_of() {
    case $1 in
    bible) echo kjv.txt ;;
    poems) echo poems-zh.txt ;;
    words) echo words.txt ;;
    shakespeare) echo tinyshakespeare.txt ;;
    *) echo "$1.txt" ;;
    esac
}

get() { # get NAME: writes the corpus to $tmp/text
    case $1 in
    bible) get_bible ;;
    poems) get_poems ;;
    words) get_words ;;
    shakespeare) get_shakespeare ;;
    quotes) get_quotes usr/share/games/fortunes people fortunes ;;
    german) get_quotes usr/share/games/fortunes/de computer fortunes-de ;;
    italian) get_quotes usr/share/games/fortunes/it computer fortunes-it ;;
    russian) get_quotes usr/share/games/fortunes/ru love_s fortunes-ru ;;
    polish) get_quotes usr/share/games/fortunes/pl dowcipy fortunes-pl ;;
    c) get_sources usr/include/linux if.h linux-libc-dev .h ;;
    python) get_sources usr/lib/python3.11 json/__init__.py libpython3.11-stdlib .py ;;
    esac
}

# Prints the numbers of characters and of different characters of a text; fails if it is not UTF-8.
count() {
    iconv -f UTF-8 -t UTF-32BE "$1" 2>/dev/null | od -An -v -t x4 | awk '
        { n += NF; for (i = 1; i <= NF; i++) different += !seen[$i]++ }
        END { print n + 0, different + 0 }'
}

names=''
force=0
for argument; do
    case $argument in
    -h | --help) usage && exit 0 ;;
    --force) force=1 ;;
    bible | poems | words | shakespeare | quotes | german | italian | russian | polish | c | python) names="$names $argument" ;;
    *) say "no corpus '$argument' (bible, poems, words, shakespeare, quotes, german, italian, russian, polish, c, python)" && exit 2 ;;
    esac
done
names=${names:-bible poems words shakespeare}

# In the target's folder, so that the last rename does not cross file systems.
{ mkdir -p "$out" && tmp=$(mktemp -d "$out/.partial.XXXXXX"); } 2>/dev/null ||
    { say "$out: cannot write to this folder (set CORPORA_DIR to another)" && exit 1; }
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

status=0
report=''
for name in $names; do
    file=$out/$(file_of "$name")
    why='unknown reason'
    if [ ! -s "$file" ] || [ "$force" = 1 ]; then
        rm -rf "${tmp:?}"/*
        if ! get "$name" 2>/dev/null; then
            printf '%4096s' ' ' 2>/dev/null >"$tmp/room" || why="$out: no space left"
            say "$name: $why"
            status=1
            continue
        fi
        source=$tmp/text
    else
        source=$file
    fi
    if ! counts=$(count "$source"); then
        say "$name: $file is not UTF-8 text (create it again with --force)"
        status=1
        continue
    fi
    [ "$source" = "$file" ] || mv "$source" "$file"
    report+=$(printf '%s: %d characters, %d bytes, %d different characters' \
        "$file" "${counts% *}" "$(wc -c <"$file")" "${counts#* }")$'\n'
done
printf '%s' "$report"
exit "$status"
