#!/bin/sh
# run.sh: builds and runs the tests. The last line says `N passed, N failed, N skipped`.
#
#   sh tests/run.sh           the quick suite: all of the CPU, a sample of one OpenCL device; on two cores
#                             three minutes, and seven where nothing was compiled before
#   sh tests/run.sh device    every OpenCL device, Oclgrind, the CUDA emulator, other processors' builds
#   sh tests/run.sh all       both, and the longest golden cases, the kernels for aarch64 under qemu,
#                             training in several processes, and the fuzzer, which looks for something new
#
# BUILD names the build directory. The whole golden set is used where ../shared/golden holds it.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

# Only what the quick suite needs is built for it. CUDA's programs, for which nvcc needs a quarter of an
# hour of a core, are compiled ahead for all tests alone; the device tier knows the list of them.
whole=true
ptx=disabled
case ${1:-quick} in
quick)
    whole=false
    packages=test
    suites='--suite quick'
    ;;
device)
    packages=test
    suites='--suite device'
    ;;
all)
    packages='test emulate mpi'
    ptx=auto
    suites='--suite quick --suite device --suite long'
    ;;
*)
    echo "usage: run.sh [device | all]" >&2
    exit 1
    ;;
esac
# shellcheck disable=SC2086
sh platform/setup-debian.sh $packages >&2
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --buildtype release -Dptx=$ptx >&2
elif [ -n "$(find /var/lib/dpkg/status -newer "$build/build.ninja" 2>/dev/null)" ]; then
    # Packages have come since: the build would leave out the tests that lacked them, without a word.
    meson setup --reconfigure "$build" >&2
fi
if $whole; then
    if [ $ptx = auto ] &&
        meson introspect "$build" --buildoptions | tr '{' '\n' | grep -q '"ptx", "value": "disabled"'; then
        meson configure "$build" -Dptx=auto >&2
    fi
    ninja -C "$build" >&2
fi
rm -f "$build/meson-logs/testlog.json"
# shellcheck disable=SC2086
meson test -C "$build" --print-errorlogs $suites >&2 || true
exec python3 tests/count.py "$build/meson-logs/testlog.json"
