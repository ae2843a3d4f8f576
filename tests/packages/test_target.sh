#!/bin/sh
# test_target.sh: another target's build, and the quick part of its tests, by platform/cross/build.sh.
# Skipped where the target's compiler, or what runs its programs, is not installed: nothing is
# installed here.
#
#   test_target.sh TARGET
set -eu
cd "$(dirname "$0")/../.."
case $1 in
aarch64*) tools='aarch64-linux-gnu-gcc qemu-aarch64' purpose=arm64 ;;
armhf) tools='arm-linux-gnueabihf-gcc qemu-arm' purpose=armhf ;;
riscv64*) tools='riscv64-linux-gnu-gcc qemu-riscv64' purpose=riscv64 ;;
musl) tools='musl-gcc' purpose=musl ;;
windows) tools='x86_64-w64-mingw32-gcc-posix /usr/lib/wine/wine64' purpose=windows ;;
esac
case $1 in *-clang) tools="$tools clang" ;; esac
for tool in $tools; do
    if ! command -v "$tool" >/dev/null; then
        echo "no $tool; platform/setup-debian.sh $purpose installs it"
        exit 77
    fi
done
exec sh platform/cross/build.sh "$1" --quick
