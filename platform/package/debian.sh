#!/bin/sh
# debian.sh: builds the Debian packages that platform/package/debian describes, and prints their names.
#
#   sh platform/package/debian.sh [--cross MACHINE] [--source-only] [FOLDER]
#
# MACHINE is the name of a file in platform/cross (aarch64-linux-gnu), whose tools and libraries
# platform/cross/build.sh installs. Packages go to FOLDER (build-debian-ARCHITECTURE/packages); the source
# package, the .changes and those of debugging symbols are in build-debian-ARCHITECTURE, as is the tree that was
# built. --source-only: that tree and the source package. DEBFULLNAME and DEBEMAIL name who gives the packages away,
# JOBS is the number of compilers.
#
# Needs build-essential, dpkg-dev, debhelper and dh-python (platform/setup-debian.sh build package), not root. Without libopenmpi-dev or
# GStreamer's headers there is no fovea-mpi or gstreamer1.0-fovea.
set -eu
usage() {
    echo "usage: debian.sh [--cross MACHINE] [--source-only] [FOLDER]" >&2
    exit 1
}
output=
machine=
extent=full
while [ $# -gt 0 ]; do
    case $1 in
    --cross)
        machine=${2:?--cross MACHINE}
        shift
        ;;
    --source-only) extent=source ;;
    -*) usage ;;
    *) output=$(mkdir -p "$1" && cd "$1" && pwd) ;;
    esac
    shift
done
cd "$(dirname "$0")/../.."
for tool in dpkg-buildpackage dh dh_python3; do
    if ! command -v $tool >/dev/null; then
        echo "no $tool; sh platform/setup-debian.sh build package installs it" >&2
        exit 1
    fi
done

set -- --unsigned-source --unsigned-changes --build=$extent ${JOBS:+"--jobs=$JOBS"}
architecture=$(dpkg --print-architecture)
profiles=
if [ -n "$machine" ]; then
    if [ ! -e "platform/cross/$machine.ini" ]; then
        echo "no platform/cross/$machine.ini" >&2
        exit 1
    fi
    # The target's compilers are used; the environment's are those of the build machine.
    unset CC CXX CFLAGS CXXFLAGS LDFLAGS
    architecture=$(CC=$machine-gcc dpkg-architecture -f -t"$machine" -qDEB_HOST_ARCH)
    set -- "$@" --host-arch "$architecture"
    profiles=cross,nocheck
fi
has() { # package, of the architecture that is built for
    dpkg-query -W -f '${Status}\n' "$1:$architecture" 2>/dev/null | grep -q ' installed$'
}
has libopenmpi-dev || profiles=${profiles:+$profiles,}pkg.fovea.nompi
has libgstreamer-plugins-base1.0-dev || profiles=${profiles:+$profiles,}pkg.fovea.nogst

# The source package: the files of the repository unchanged, all with one time of change.
version=$(sed -n "s/^ *version: '\([0-9.]*\)',$/\1/p" meson.build)
revision=$version-0fovea1 # less than that of a distribution's own package, which begins with 1
build=$PWD/build-debian-$architecture
tree=$build/fovea-$version
time=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)
rm -rf "$build"
mkdir -p "$tree"
if listed=$(git ls-files 2>/dev/null); then
    printf '%s\n' "$listed"
else
    find . -path './build*' -prune -o -path ./dist -prune -o -path ./.git -prune -o ! -type d -print | sed 's|^\./||'
fi | grep -vx 'bench/digits/digits.csv.gz' | LC_ALL=C sort | # it is another's, see debian/copyright
    tar -c --verbatim-files-from -T - --owner=0 --group=0 --numeric-owner --mode=u+rw,go=rX --mtime="@$time" \
        --transform "s|^|fovea-$version/|S" | gzip -9n >"$build/fovea_$version.orig.tar.gz"
tar -x -C "$build" -f "$build/fovea_$version.orig.tar.gz"
cp -R platform/package/debian "$tree/debian"
whoever=$(sed -n 's/^Maintainer: //p' "$tree/debian/control")
if [ -n "${DEBEMAIL:-}" ]; then
    whoever="${DEBFULLNAME:-Fovea} <$DEBEMAIL>"
    sed -i "s/^Maintainer: .*/Maintainer: $whoever/" "$tree/debian/control"
fi
cat >"$tree/debian/changelog" <<TEXT
fovea ($revision) unstable; urgency=medium

  * Fovea $version, as the repository has it.

 -- $whoever  $(date -u -R -d "@$time")
TEXT

# debhelper sets a home folder of its own, but ccache should use the caller's.
if command -v ccache >/dev/null; then
    CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
    export CCACHE_DIR
fi
cd "$tree"
dpkg-buildpackage "$@" ${profiles:+"-P$profiles"} >&2
[ $extent = full ] || exit 0
output=${output:-$build/packages}
mkdir -p "$output"
for package in $(cd .. && sed -n 's/^ [0-9a-f]\{64\} [0-9]* \(.*\.deb\)$/\1/p' "fovea_${revision}_$architecture.changes"); do
    case $package in *-dbgsym_*) continue ;; esac
    cp "$build/$package" "$output"
    echo "$output/$package"
done
