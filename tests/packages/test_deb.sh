#!/bin/sh
# test_deb.sh: builds this machine's Debian packages from nothing, and looks at what is in them; then runs their
# own tests, the README's first page, with the packages unpacked into an empty folder.
set -eu
cd "$(dirname "$0")/../.."
. tests/verdict.sh
for tool in dpkg-buildpackage dh dh_python3 lintian; do
    if ! command -v $tool >/dev/null; then
        echo "no $tool; sh platform/setup-debian.sh package installs it"
        exit 77
    fi
done
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

sh platform/package/debian.sh "$root/packages" >"$root/list"
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
version=$(sed -n "s/^ *version: '\(.*\)',$/\1/p" meson.build)
tree=build-debian-$architecture/fovea-$version
revision=$(dpkg-parsechangelog -l "$tree/debian/changelog" -S Version)
status=0
lintian --allow-root --fail-on error,warning "build-debian-$architecture/fovea_${revision}_$architecture.changes" || status=1
verdict lintian $status

file() { # package: its name, or nothing
    grep "/$1_" "$root/list" || true
}
while read -r package; do
    name=${package##*/}
    name=${name%%_*}
    mkdir -p "$root/each/$name"
    dpkg-deb -R "$package" "$root/each/$name"
    dpkg-deb -x "$package" "$root/all"
done <"$root/list"

# contains PACKAGE PATH...
contains() {
    package=$1
    shift
    status=0
    for path in "$@"; do
        [ -e "$root/each/$package/$path" ] || [ -h "$root/each/$package/$path" ] || {
            echo "$package has no $path"
            status=1
        }
    done
    verdict "what is in $package" $status
}
lib=usr/lib/$triplet
soname=$(sed -n 's/^SONAME = "\(.*\)"$/\1/p' python/fovea/_library.py)
contains libfovea0.1 "$lib/$soname" "$lib/libfovea.so.$version" DEBIAN/shlibs DEBIAN/symbols
contains libfovea-train0.1 "$lib/libfovea-train.so.$version" DEBIAN/shlibs DEBIAN/symbols
# shellcheck disable=SC2046
contains libfovea-dev "$lib/libfovea.so" "$lib/libfovea.a" "$lib/pkgconfig/fovea.pc" \
    "$lib/libfovea-train.so" "$lib/libfovea-train.a" "$lib/pkgconfig/fovea-train.pc" "$lib/cmake/Fovea/FoveaConfig.cmake" \
    usr/include/fovea/version.h $(git ls-files include | grep '\.h\(pp\)\{0,1\}$' | sed 's|^|usr/|') \
    $(git ls-files examples | grep -v meson.build | sed 's|^|usr/share/doc/libfovea-dev/|')
commands=$(LD_LIBRARY_PATH=$root/all/$lib "$root/all/usr/bin/fovea" help | sed -n 's/^  \([a-z]\{2,\}\) .*/\1/p')
# shellcheck disable=SC2046
contains fovea usr/bin/fovea usr/share/man/man1/fovea.1.gz \
    $(for name in $commands; do echo "usr/share/man/man1/fovea-$name.1.gz"; done) \
    usr/share/bash-completion/completions/fovea.bash usr/share/zsh/vendor-completions/_fovea \
    usr/share/fish/vendor_completions.d/fovea.fish usr/share/doc/fovea/README.md.gz \
    $(git ls-files python/fovea/convert | sed 's|^python|usr/share|')
# shellcheck disable=SC2046
contains python3-fovea "usr/lib/python3/dist-packages/fovea-$version.dist-info/METADATA" \
    $(git ls-files python/fovea | sed 's|^python|usr/lib/python3/dist-packages|')
[ -z "$(file gstreamer1.0-fovea)" ] || contains gstreamer1.0-fovea "$lib/gstreamer-1.0/libgstfovea.so"

# Each function of the interface must have the release in which it was added.
for name in fovea fovea-train; do
    status=0
    sed -n "s/.*elf-symbol name='\([^']*\)'.*/\1/p" tests/data/$name.abi | sort -u >"$root/functions"
    sed -n 's/^ \(fovea_[a-z0-9_]*\)@FOVEA_.* .*/\1/p' "$root/each/lib${name}0.1/DEBIAN/symbols" | sort -u >"$root/symbols"
    [ -s "$root/functions" ] && diff "$root/functions" "$root/symbols" || status=1
    verdict "symbols of the interface of lib$name" $status
done

# Required properties of hardened programs and multi-arch packages.
while read -r package; do
    name=${package##*/}
    name=${name%%_*}
    find "$root/each/$name" -type f \( -name '*.so*' -o -path '*/bin/*' \) >"$root/elves"
    while read -r elf; do
        status=0
        readelf -dl "$elf" >"$root/elf"
        ! grep -E 'R(UN)?PATH' "$root/elf" || status=1
        grep -q 'BIND_NOW' "$root/elf" && grep -q GNU_RELRO "$root/elf" || status=1
        verdict "$(basename "$elf") is hardened, and says no path" $status
    done <"$root/elves"
    status=0
    same=$(dpkg-deb -f "$package" Multi-Arch)
    case $name in
    lib* | gst*) [ "$same" = same ] || status=1 ;;
    fovea) [ "$same" = foreign ] || status=1 ;;
    esac
    [ "$(dpkg-deb -f "$package" Version)" = "$revision" ] || status=1
    verdict "control of $name" $status
done <"$root/list"

# Runs the packages' own tests.
export UNPACKED="$root/all" PATH="$root/all/usr/bin:$PATH" LD_LIBRARY_PATH="$root/all/$lib"
export PKG_CONFIG_PATH="$root/all/$lib/pkgconfig" CMAKE_PREFIX_PATH="$root/all/usr" LIBRARY_PATH="$root/all/$lib"
export C_INCLUDE_PATH="$root/all/usr/include" CPLUS_INCLUDE_PATH="$root/all/usr/include"
export PYTHONPATH="$root/all/usr/lib/python3/dist-packages" GST_PLUGIN_PATH="$root/all/$lib/gstreamer-1.0"
export GST_REGISTRY="$root/registry"
play() { # test, the package without which it is not run, a command that fails where something else it needs is missing
    if [ -z "$(file "$2")" ] || ! sh -c "$3" >/dev/null 2>&1; then
        echo "$1: skipped, as there is no $2 here, or this fails: $3"
        skipped=$((skipped + 1))
        return
    fi
    mkdir "$root/$1"
    status=0
    (cd "$tree" && AUTOPKGTEST_TMP=$root/$1 timeout 1200 sh "debian/tests/$1") >"$root/log" 2>&1 || status=1
    [ $status = 0 ] || tail -n 30 "$root/log"
    verdict "test $1" $status
}
play commands fovea 'command -v fovea'
play programs libfovea-dev 'command -v cmake'
play module python3-fovea '/usr/bin/python3 -c "import numpy"'
play pipeline gstreamer1.0-fovea 'command -v gst-launch-1.0'

verdicts
