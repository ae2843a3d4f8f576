#!/bin/sh
# check_os.sh: what is the system's (platform/os, src/base) compiles without warnings for every target
# of which a compiler is there; to compile is not to run, which test_target.sh does. Others are named.
set -eu
cd "$(dirname "$0")/../.."
. tests/verdict.sh
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/fovea"
sed 's/@VERSION@/0/; s/@[A-Z]*@/0/' include/fovea/version.h.in >"$out/fovea/version.h"
flags="-c -O1 -Wall -Wextra -Werror -Wshadow -Wmissing-prototypes -Wno-missing-field-initializers
    -D_POSIX_C_SOURCE=200809L -Iinclude -I$out -I. -Isrc"
common='src/base/*.c platform/os/os_cgroup.c platform/os/os_cores.c platform/os/os_posix.c'

try() { # target, files, compiler and its options
    name=$1
    files=$2
    shift 2
    if ! command -v "$1" >/dev/null; then
        skipped=$((skipped + 1))
        echo "skipped $name: no $1"
        return
    fi
    status=0
    for file in $files; do
        # shellcheck disable=SC2086
        "$@" $flags -o "$out/object" "$file" || status=1
    done
    verdict "$name" $status
}
posix="$common platform/os/os_machine.c"
linux="$posix platform/os/linux/*.c"
for triplet in aarch64-linux-gnu arm-linux-gnueabihf riscv64-linux-gnu; do
    try $triplet "$linux" $triplet-gcc -std=c11
done
windows=$PWD/platform/os/windows
try windows "$common platform/os/os_no_dmabuf.c $windows/*.c" x86_64-w64-mingw32-gcc-posix -std=gnu11 -include "$windows/posix.h" \
    -I"$windows/include" -D__USE_MINGW_ANSI_STDIO=1 -D_FILE_OFFSET_BITS=64 -D_WIN32_WINNT=0x0A00 -D_CRT_RAND_S
mkdir "$out/kernel"
for folder in /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm"; do
    ln -s "$folder" "$out/kernel/$(basename "$folder")"
done
try musl "$linux" musl-gcc -std=c11 -isystem "$out/kernel"
verdicts
