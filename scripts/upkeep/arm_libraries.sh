#!/usr/bin/env bash
# Unpacks Criterion for 64-bit ARM, and the libraries it needs, into a folder: arm_libraries.sh FOLDER
#
# Debian has them as packages of another architecture, and libcriterion-dev cannot be installed for two
# architectures at once. So the packages are downloaded and unpacked, not installed, with package lists
# of their own. Nothing outside FOLDER changes, except for the emulator (scripts/deps.sh arm) and, as
# root, the kernel's table of foreign programs. Exit status 1, with a line that says why, if this machine
# cannot run such programs.
set -eu
folder=$1
say() { echo "arm: $*" >&2; }
fail() { say "$*"; exit 1; }

command -v apt-get >/dev/null || fail "needs Debian's packages"
# The kernel starts programs of other machines by this table, which qemu's package fills.
table=/proc/sys/fs/binfmt_misc
[ -e $table/register ] || mount -t binfmt_misc none $table 2>/dev/null || true
"$(dirname "$0")/../deps.sh" arm || exit 1
[ -e $table/qemu-aarch64 ] || update-binfmts --enable qemu-aarch64 2>/dev/null || true
[ -e $table/qemu-aarch64 ] || fail "the kernel does not start programs of other machines (binfmt_misc)"
[ ! -e "$folder/complete" ] || exit 0

folder=$(mkdir -p "$folder" && cd "$folder" && pwd)
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/packages" "$folder/root"
apt() {
    "$1" -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User=root \
        -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" "${@:2}"
}
{
    apt apt-get update
    packages=$(apt apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances libcriterion3 libgomp1 | sed -n 's/^\([a-z][^: ]*\).*/\1/p' | sort -u)
    # shellcheck disable=SC2086 # names are words
    (cd "$folder/packages" && apt apt-get download $packages)
} >"$folder/log" 2>&1 || fail "no packages for it: $(tail -n 1 "$folder/log")"
for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/root"; done
rm -rf "$folder/lists" "$folder/cache" "$folder/packages"
# One folder of libraries and one of headers, for the linker and for the emulator's loader.
mkdir -p "$folder/lib" "$folder/include"
cp -a "$folder"/root/usr/lib/aarch64-linux-gnu/*.so* "$folder"/root/lib/aarch64-linux-gnu/*.so* "$folder/lib/"
ln -sf libcriterion.so.3 "$folder/lib/libcriterion.so"
cp -r /usr/include/criterion /usr/include/boxfort.h "$folder/include/" # the same for all machines
rm -rf "$folder/root"
touch "$folder/complete"
