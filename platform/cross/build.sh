#!/bin/sh
# build.sh: builds Fovea for another kind of processor and runs the tests under an emulator.
#
#   sh platform/cross/build.sh TARGET [--build-only|--quick|--long] [meson options]
#
#   aarch64 aarch64-clang armhf     ARM of 64 and 32 bits, by gcc or clang, in qemu
#   riscv64 riscv64-clang           RISC-V in qemu; vectors by clang alone
#   musl                            a static program of x86-64
#   windows                         x86-64, by MinGW-w64, under Wine
#
# Installs what is missing (Debian or Ubuntu, see platform/setup-debian.sh), builds into build-TARGET,
# and runs the suites of the CPU without their slowest tests; --quick: a part of it, kernels, golden cases and a
# few frames; --long: all, suite long too. The last line says `N passed, N failed, N skipped`. QEMU_CPU
# (cortex-a53, cortex-a76, max) chooses what qemu emulates, JOBS the number of compilers.
set -eu
cd "$(dirname "$0")/../.."
usage() {
    echo "usage: build.sh aarch64|aarch64-clang|armhf|riscv64|riscv64-clang|musl|windows" \
        "[--build-only|--quick|--long] [meson options]" >&2
    exit 1
}
name=${1:-}
[ -n "$name" ] && shift
build=build-$name
libraries= # folder, and what libraries.sh asks for, where Debian has none of the target
case $name in
aarch64) machine=aarch64-linux-gnu packages=arm64 ;;
aarch64-clang) machine=aarch64-linux-gnu-clang packages='arm64 clang' ;;
armhf) machine=arm-linux-gnueabihf packages=armhf ;;
riscv64 | riscv64-clang)
    machine=riscv64-linux-gnu${name#riscv64}
    packages="riscv64 ${name#riscv64-}"
    libraries='build-riscv64-libraries Linux riscv64 riscv64-linux-gnu-gcc'
    export QEMU_LD_PREFIX=/usr/riscv64-linux-gnu QEMU_CPU="${QEMU_CPU:-rv64,v=true,vlen=128,vext_spec=v1.0}"
    ;;
musl)
    machine=x86_64-linux-musl packages=musl
    libraries='build-musl-libraries Linux x86_64 musl-gcc'
    set -- "$@" -Dcuda=disabled
    ;;
windows)
    machine=x86_64-w64-mingw32 packages=windows
    libraries='build-windows-libraries Windows AMD64 x86_64-w64-mingw32-gcc-posix'
    set -- "$@" -Dcuda=disabled
    export WINEPREFIX="$PWD/build-windows-wine" WINEDEBUG=-all
    export WINEPATH="Z:$(echo "$PWD/build-windows/src" | tr / '\\')" # where the library is
    ;;
*) usage ;;
esac
extent=
case ${1:-} in
--build-only | --quick | --long)
    extent=$1
    shift
    ;;
esac

# shellcheck disable=SC2086
sh platform/setup-debian.sh $packages >&2
if [ -n "$libraries" ]; then
    prefix=$PWD/${libraries%% *}
    mkdir -p "$prefix"
    printf "[constants]\nprefix = '%s'\n" "$prefix" >"$prefix/prefix.ini"
    # shellcheck disable=SC2086
    sh platform/cross/libraries.sh $libraries
    set -- --cross-file "$prefix/prefix.ini" -Dstatic_deps=true -Dptx=disabled "$@"
fi
if [ ! -e "$build/build.ninja" ]; then
    # The cross file chooses the compilers; the environment's are those of the build machine.
    env -u CC -u CXX -u CFLAGS -u CXXFLAGS -u LDFLAGS meson setup "$build" --buildtype release \
        --cross-file "platform/cross/$machine.ini" "$@" >&2
fi
ninja ${JOBS:+-j "$JOBS"} -C "$build" >&2

# These tests measure times, which mean nothing in an emulator, or need an OpenCL driver.
never='bench|floors|tuning|info|device_kernels|devices|oclgrind'
# These tests take minutes each in an emulator.
slow='causal|cli|local|mechanisms|pictures|polaformer|pyramid|pyramids|throughput|trial|verify'
fast='check|frames|golden|headers_c11|headers_cpp17|heads|model_load|op_files|symbols|weights'
listed() {
    meson test -C "$build" --list "$@" 2>/dev/null | sed -n 's|.* / ||p'
}
case $extent in
--build-only) exit 0 ;;
--quick) tests=$(listed --suite quick | grep -xE "$fast") ;;
--long) tests=$(listed | grep -vxE "($never)(_long)?") ;;
*) tests=$(listed --suite quick --suite slow | grep -vxE "$never|$slow") ;;
esac
if [ "$name" = windows ]; then
    # Otherwise, a server that a test starts would keep the pipes open of whoever waits for the
    # test.
    /usr/lib/wine/wineserver64 -p </dev/null >/dev/null 2>&1 || true # one may run already
    trap '/usr/lib/wine/wineserver64 -k' EXIT
    /usr/lib/wine/wine64 wineboot </dev/null >/dev/null 2>&1 || true
fi
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 10 $tests >&2 || true
python3 tests/count.py "$build/meson-logs/testlog.json"
