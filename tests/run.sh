#!/bin/sh
# run.sh: builds and runs the tests. The last line says `N passed, N failed, N skipped`.
#
#   sh tests/run.sh        the quick suite, some minutes on two cores
#   sh tests/run.sh all    also the longest golden cases, the kernels for aarch64 under qemu, training
#                          in several processes, and the fuzzer, which looks for something new
#
# BUILD names the build directory. The whole golden set is used where ../shared/golden holds it.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

case ${1:-quick} in
quick)
    packages=test
    suites='--suite quick'
    ;;
all)
    packages='test emulate mpi'
    suites='--suite quick --suite long'
    ;;
*)
    echo "usage: run.sh [all]" >&2
    exit 1
    ;;
esac
# shellcheck disable=SC2086
sh platform/setup-debian.sh $packages >&2
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --buildtype release >&2
elif [ -n "$(find /var/lib/dpkg/status -newer "$build/build.ninja" 2>/dev/null)" ]; then
    # Packages have come since: the build would leave out the tests that lacked them, without a word.
    meson setup --reconfigure "$build" >&2
fi
ninja -C "$build" >&2
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --print-errorlogs $suites >&2 || true
exec python3 tests/count.py "$build/meson-logs/testlog.json"
