#!/bin/sh
# targets.sh: other targets end to end, from a clean clone of the repository: platform/cross/build.sh with its
# tests, the installation, and out of that the program (its version, info, a model and a picture) under qemu or
# Wine, a static one in an empty system.
#
#   sh tests/packages/targets.sh [--build-only|--quick|--long] [-Dmeson=option ...] [TARGET ...]
#
# All targets of build.sh without a name; --quick unless something else is said; `--` alone is build.sh's own
# choice of tests. A target takes a quarter of an hour and more. WORK is a folder that keeps the clone, the
# builds and TARGET.log, else one that goes at the end. What is missing is installed, as root.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/verdict.sh"
extent=--quick
options=-Dptx=disabled # programs of GPUs are the same for all targets, and take a quarter of an hour
targets=
for word in "$@"; do
    case $word in
    --) extent= ;;
    --*) extent=$word ;;
    -*) options="$options $word" ;;
    *) targets="$targets $word" ;;
    esac
done
if [ -n "${WORK:-}" ]; then
    work=$(mkdir -p "$WORK" && cd "$WORK" && pwd)
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
[ -e "$work/fovea/.git" ] || git clone -q "$root" "$work/fovea"
cd "$work/fovea"
version=$(sed -n "s/^ *version: '\([0-9.]*\)',$/\1/p" meson.build)

# Starts the installed program, $bin, as the target's system would, with the given arguments.
start() {
    case $target in
    aarch64*) qemu-aarch64 "$bin/fovea" "$@" ;;
    armhf) qemu-arm "$bin/fovea" "$@" ;;
    riscv64*)
        QEMU_LD_PREFIX=/usr/riscv64-linux-gnu \
            qemu-riscv64 -cpu rv64,v=true,vlen=128,vext_spec=v1.0 "$bin/fovea" "$@"
        ;;
    musl) (cd "$bin" && unshare -r chroot . /fovea "$@") ;;
    windows)
        WINEPREFIX=$work/fovea/build-windows-wine WINEDEBUG=-all \
            timeout 600 /usr/lib/wine/wine64 "$bin/fovea.exe" "$@"
        ;;
    esac </dev/null
}

runs() {
    for part in fovea.h fovea.hpp; do
        [ -s "$installed/usr/local/include/fovea/$part" ] || return 1
    done
    [ -n "$(find "$installed" -name fovea.pc)" ] || return 1
    cp tests/data/picture_wide.ppm "$bin"
    start --version | tr -d '\r' | tee "$work/version" >&2
    [ "$(cat "$work/version")" = "fovea $version" ] || return 1
    start info | tee "$work/info" >&2
    grep -q '^cpu  ' "$work/info" || return 1
    picture=$bin/picture_wide.ppm
    case $target in
    musl) picture=/picture_wide.ppm ;;
    windows) picture=Z:$picture ;;
    esac
    start run synthetic:vit-ti16 "$picture" 2>&1 | tee "$work/run" >&2
    grep -q ' tokens, ' "$work/run"
}

for target in ${targets:-aarch64 aarch64-clang armhf riscv64 riscv64-clang musl windows}; do
    log=$work/$target.log
    before=$failed
    installed=$work/installed-$target
    bin=$installed/usr/local/bin
    status=0
    # shellcheck disable=SC2086
    sh platform/cross/build.sh "$target" $extent $options >"$log" 2>&1 || status=1
    verdict "$target: build.sh" $status
    echo "$target: $(tail -n 1 "$log" | grep ' passed, ' || echo 'no tests')"
    rm -rf "$installed"
    status=0
    meson install -C "build-$target" --no-rebuild --destdir "$installed" >>"$log" 2>&1 || status=1
    verdict "$target: installation" $status
    status=0
    runs 2>>"$log" || status=1
    verdict "$target: the program" $status
    [ "$failed" = "$before" ] || tail -n 15 "$log"
done
verdicts
