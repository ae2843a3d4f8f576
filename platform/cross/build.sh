#!/bin/sh
# build.sh: builds Fovea for another kind of processor and runs the tests under an emulator.
#
#   sh platform/cross/build.sh aarch64|aarch64-clang|armhf [--build-only|--quick|--long] [meson options]
#
# Installs what is missing (Debian or Ubuntu, see platform/setup-debian.sh), builds into build-NAME,
# and runs suite quick in qemu's user mode but for its slowest tests; --quick: a part of it,
# kernels, golden cases and a few frames; --long: all, suite long too. The last line says `N passed,
# N failed, N skipped`. QEMU_CPU (cortex-a53, cortex-a76, max) chooses what is emulated, JOBS the
# number of compilers.
set -eu
cd "$(dirname "$0")/../.."
usage() {
    echo "usage: build.sh aarch64|aarch64-clang|armhf [--build-only|--quick|--long] [meson options]" >&2
    exit 1
}
name=${1:-}
[ -n "$name" ] && shift
case $name in
aarch64) machine=aarch64-linux-gnu packages=arm64 ;;
aarch64-clang) machine=aarch64-linux-gnu-clang packages='arm64 clang' ;;
armhf) machine=arm-linux-gnueabihf packages=armhf ;;
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
build=build-$name
if [ ! -e "$build/build.ninja" ]; then
    # The compilers are the cross file's, not what the environment says of the build machine's.
    env -u CC -u CXX -u CFLAGS -u CXXFLAGS -u LDFLAGS meson setup "$build" --buildtype release \
        --cross-file "platform/cross/$machine.ini" "$@" >&2
fi
ninja ${JOBS:+-j "$JOBS"} -C "$build" >&2

# Judge times, of which an emulator's say nothing; need an OpenCL driver, and say nothing without.
never='bench|floors|tuning|info|device_kernels|devices|oclgrind'
# Take minutes each in an emulator.
slow='causal|cli|local|mechanisms|pictures|polaformer|pyramid|pyramids|throughput|trial|verify'
fast='check|frames|golden|headers_c11|headers_cpp17|heads|model_load|op_files|symbols|weights'
listed() {
    meson test -C "$build" --list "$@" 2>/dev/null | sed -n 's|.* / ||p'
}
case $extent in
--build-only) exit 0 ;;
--quick) tests=$(listed --suite quick | grep -xE "$fast") ;;
--long) tests=$(listed | grep -vxE "($never)(_long)?") ;;
*) tests=$(listed --suite quick | grep -vxE "$never|$slow") ;;
esac
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 10 $tests >&2 || true
exec python3 tests/count.py "$build/meson-logs/testlog.json"
