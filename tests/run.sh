#!/bin/sh
# run.sh: builds and runs the tests. The last line says `N passed, N failed, N skipped`.
#
#   sh tests/run.sh           the quick suite: every part of the CPU code; on two cores two minutes, and seven if
#                             nothing is compiled yet
#   sh tests/run.sh slow      the slow tests of the CPU code, and a sample of one OpenCL device
#   sh tests/run.sh device    every OpenCL device, Oclgrind, the CUDA emulator, other processors' builds
#   sh tests/run.sh touched   what .ci/run takes: the quick suite, and of slow and device the tests that the change
#                             touches, as many as a budget of a few minutes allows; selected.py says what the change is
#   sh tests/run.sh touched COMMIT   the same for the change from COMMIT to the working tree
#   sh tests/run.sh all       the three suites, and the longest golden cases, the kernels for aarch64 under qemu,
#                             training in several processes, and the fuzzer, which looks for something new
#   sh tests/run.sh PATTERN   the tests of these suites whose names match, and builds only what they need.
#                             A pattern with *, ? or [ is matched with the whole name, any other with a
#                             part of it: yuv, 'check*'
#   sh tests/run.sh quick PATTERN    the same in one suite: quick, slow or device
#   sh tests/run.sh toolkits [VERSION]   the CUDA programs of all plans with the NVRTC of each of CUDA's versions, or of
#                             one (12.6), which pip installs in build/toolkits; hours. `all` has a sample
#   sh tests/run.sh drivers [NAME] [--all]   OpenCL drivers that this machine lacks, unpacked in build/drivers, and
#                             its own; NAME selects those whose names contain it: devices/drivers.py lists them;
#                             --all runs every golden case
#
# BUILD names the build directory. The whole golden set is used where ../shared/golden holds it.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}

suite=quick
case ${1:-} in
drivers)
    sh platform/setup-debian.sh build >&2
    [ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release -Dptx=disabled >&2
    ninja -C "$build" src/cli/fovea >&2
    shift
    exec python3 tests/devices/drivers.py "$build" "$@"
    ;;
quick | slow | device | toolkits | touched | all)
    suite=$1
    shift
    ;;
?*)
    suite=all
    ;;
esac
pattern=${1:-}
case $#$pattern in
0 | 1[!-]*) ;;
*)
    echo "usage: run.sh [quick | slow | device | all] [PATTERN], run.sh touched [COMMIT], run.sh toolkits [VERSION]," \
        "run.sh drivers [NAME] [--all]" >&2
    exit 1
    ;;
esac

# For the suites of the CPU and for single tests only what they need is built; `install` of the device suite needs
# everything. CUDA's programs, for which nvcc needs a quarter of an hour of a core, are compiled ahead of time for
# all tests alone; the device tier knows the list of them.
whole=false
ptx=disabled
packages='test'
suites="--suite $suite"
case $suite$pattern in
touched* | device | all) whole=true ;;
esac
if [ "$suite" = touched ]; then
    suites='--suite quick --suite slow --suite device'
elif [ "$suite" = all ]; then
    suites='--suite quick --suite slow --suite device --suite long'
    if $whole; then
        ptx=auto
        packages='test emulate mpi'
    fi
fi
# shellcheck disable=SC2086
sh platform/setup-debian.sh $packages >&2
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --buildtype release -Dptx=$ptx >&2
elif [ -n "$(find /var/lib/dpkg/status -newer "$build/build.ninja" 2>/dev/null)" ]; then
    # Packages were installed since the last setup: without reconfiguration the build would silently
    # leave out the tests that lacked them.
    meson setup --reconfigure "$build" >&2
fi
if $whole; then
    if [ $ptx = auto ] &&
        meson introspect "$build" --buildoptions | tr '{' '\n' | grep -q '"ptx", "value": "disabled"'; then
        meson configure "$build" -Dptx=auto >&2
    fi
    ninja -C "$build" >&2
fi
list() {
    # shellcheck disable=SC2086
    meson test -C "$build" --list $suites 2>/dev/null | sed -n 's|.* / ||p'
}

names=
if [ "$suite" = touched ]; then
    # shellcheck disable=SC2086
    # Seconds of one test after the other; two cores need half as long.
    names=$(list | python3 tests/selected.py --budget 450 $pattern)
elif [ -n "$pattern" ]; then
    case $pattern in
    *[*?[]*) ;;
    *) pattern="*$pattern*" ;;
    esac
    # shellcheck disable=SC2254
    names=$(list | while read -r name; do
        case $name in
        $pattern) echo "$name" ;;
        esac
    done)
    if [ -z "$names" ]; then
        echo "no test has a name like $pattern: meson test -C $build --list names them" >&2
        exit 1
    fi
fi
rm -f "$build/meson-logs/testlog.json"
# Notes of compilations during which an earlier test was killed, which would forbid their programs.
rm -f "$build"/tests/compiled/*.note
# shellcheck disable=SC2086
meson test -C "$build" --print-errorlogs $suites $names >&2 || true
exec python3 tests/count.py "$build/meson-logs/testlog.json"
