#!/bin/sh
# debian.sh: builds and writes Debian packages: libfovea0.1, libfovea-dev, fovea, and fovea-mpi and
# gstreamer1.0-fovea where the build has what is in them.
#
#   sh platform/package/debian.sh [--cross MACHINE] [FOLDER]
#
# MACHINE is the name of a file in platform/cross (aarch64-linux-gnu), whose tools and libraries
# platform/cross/build.sh installs. Packages go to FOLDER (build-debian-ARCHITECTURE/packages).
# DEBFULLNAME and DEBEMAIL name the maintainer. Dependencies are worked out from what the files
# link. Needs dpkg-dev (platform/setup-debian.sh package), not root.
set -eu
output=
machine=
while [ $# -gt 0 ]; do
    case $1 in
    --cross)
        machine=${2:?--cross MACHINE}
        shift
        ;;
    -*)
        echo "usage: debian.sh [--cross MACHINE] [FOLDER]" >&2
        exit 1
        ;;
    *) output=$(mkdir -p "$1" && cd "$1" && pwd) ;;
    esac
    shift
done
cd "$(dirname "$0")/../.."
for tool in dpkg-architecture dpkg-deb dpkg-shlibdeps; do
    if ! command -v $tool >/dev/null; then
        echo "no $tool; sh platform/setup-debian.sh package installs it" >&2
        exit 1
    fi
done

# Everything below asks these variables for the machine that the packages are for.
if [ -n "$machine" ]; then
    cross=$PWD/platform/cross/$machine.ini
    if [ ! -e "$cross" ]; then
        echo "no platform/cross/$machine.ini" >&2
        exit 1
    fi
    eval "$(CC=${machine%-clang}-gcc dpkg-architecture -f -t"${machine%-clang}" -s)"
    set -- --cross-file "$cross"
else
    eval "$(dpkg-architecture -s)"
    set --
fi
architecture=$DEB_HOST_ARCH triplet=$DEB_HOST_MULTIARCH
build=$PWD/build-debian-$architecture
output=${output:-$build/packages}

if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" --buildtype release --prefix /usr --libdir "lib/$triplet" -Dtests=disabled "$@" >&2
fi
ninja ${JOBS:+-j "$JOBS"} -C "$build" >&2
version=$(meson introspect "$build" --projectinfo | sed -n 's/.*"version": "\([^"]*\)".*/\1/p')
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# The layout in which dpkg-shlibdeps finds the packages of one build: debian/PACKAGE.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
stage=$work/stage
meson install -C "$build" --no-rebuild --quiet --strip --destdir "$stage" >&2
mkdir "$work/debian"
cd "$work"
printf 'Source: fovea\n' >debian/control

# take PACKAGE PATH...: moves what was installed to a package's tree.
take() {
    package=$1
    shift
    for path in "$@"; do
        [ -e "$stage/$path" ] || [ -h "$stage/$path" ] || continue
        mkdir -p "debian/$package/$(dirname "$path")"
        mv "$stage/$path" "debian/$package/$path"
    done
}

# describe PACKAGE SECTION DEPENDS SHORT LONG: control files, and the package. Shared objects and
# programs in it have their dependencies added.
describe() {
    tree=debian/$1
    mkdir -p "$tree/DEBIAN" "$tree/usr/share/doc/$1"
    cat >"$tree/usr/share/doc/$1/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: fovea

Files: *
Copyright: the authors of Fovea
License: Apache-2.0
 On Debian systems the license is in /usr/share/common-licenses/Apache-2.0.
TEXT
    printf '\nPackage: %s\nArchitecture: any\n' "$1" >>debian/control
    depends=$3
    # shellcheck disable=SC2046
    set -- "$@" $(find "$tree" -type f \( -name '*.so*' -o -path '*/bin/*' \))
    package=$1 section=$2 short=$4 long=$5
    shift 5
    if [ $# -gt 0 ]; then
        found=$(dpkg-shlibdeps -O "$@" | sed -n 's/^shlibs:Depends=//p')
        depends=${depends:+$depends, }$found
    fi
    same=same
    [ "$section" = utils ] && same=foreign
    {
        echo "Package: $package"
        echo "Source: fovea"
        echo "Version: $version"
        echo "Architecture: $architecture"
        echo "Multi-Arch: $same"
        echo "Maintainer: ${DEBFULLNAME:-Fovea} <${DEBEMAIL:-root@localhost}>"
        echo "Installed-Size: $(du -sk --apparent-size "$tree" | cut -f1)"
        [ -z "$depends" ] || echo "Depends: $depends"
        echo "Section: $section"
        echo "Priority: optional"
        echo "Description: $short"
        printf '%s\n' "$long" | sed 's/^/ /'
    } >"$tree/DEBIAN/control"
    (cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
    mkdir -p "$output"
    dpkg-deb --root-owner-group --build "$tree" "$output/${package}_${version}_$architecture.deb" >&2
    echo "$output/${package}_${version}_$architecture.deb"
}

lib=usr/lib/$triplet
soversion=${version%.*}
library=libfovea$soversion
element=gstreamer1.0-fovea
mkdir -p "$stage/$lib/gstreamer-1.0"
# shellcheck disable=SC2046
take $library $(cd "$stage" && find "$lib" -maxdepth 1 -name "libfovea.so.$soversion*") usr/share/fovea
# shellcheck disable=SC2046
take $element $(cd "$stage" && find "$lib/gstreamer-1.0" -name '*.so')
# shellcheck disable=SC2046
take libfovea-dev usr/include "$lib/libfovea.so" "$lib/libfovea.a" "$lib/pkgconfig" "$lib/cmake" usr/share/doc/fovea/examples
mkdir -p debian/libfovea-dev/usr/share/doc/libfovea-dev
mv debian/libfovea-dev/usr/share/doc/fovea/examples debian/libfovea-dev/usr/share/doc/libfovea-dev
rmdir debian/libfovea-dev/usr/share/doc/fovea
if [ -e "$stage/usr/share/man" ]; then # not where the build cannot run the program
    gzip -9n "$stage"/usr/share/man/man1/*.1
    mv "$stage/usr/share/zsh/site-functions" "$stage/usr/share/zsh/vendor-completions"
fi
take fovea usr/bin/fovea usr/share/man usr/share/bash-completion usr/share/zsh usr/share/fish
take fovea-mpi "$lib/fovea"
if left=$(cd "$stage" && find . ! -type d) && [ -n "$left" ]; then
    echo "installed, but in none of the packages:" $left >&2
    exit 1
fi

about='Fovea runs ViT, DINOv2, CLIP, SigLIP, MAViT, NaLaFormer and PolaFormer, with softmax or
linear attention, on processors and on OpenCL and CUDA devices, in little memory.'
mkdir -p debian/$library/DEBIAN
# Programs need a library as new as the one that they were linked with: the interface still grows.
echo "libfovea $soversion $library (>= $version)" >debian/$library/DEBIAN/shlibs
echo 'activate-noawait ldconfig' >debian/$library/DEBIAN/triggers
describe $library libs '' 'vision transformers with linear attention at high resolution' "$about"
describe libfovea-dev libdevel "$library (= $version), libjansson-dev" 'vision transformers with linear attention: development files' \
    "$about
.
Headers for C and C++, the static library, descriptions for pkg-config and CMake, and examples."
describe fovea utils '' 'vision transformers with linear attention: command line' \
    "$about
.
The program runs, plans, tunes, trains, verifies and benchmarks models."
[ ! -d debian/fovea-mpi ] || describe fovea-mpi utils "fovea (= $version)" 'vision transformers with linear attention: training in several processes' \
    "$about
.
What fovea adapt loads when mpirun has started it."
[ ! -d debian/$element ] || describe $element libs '' 'vision transformers with linear attention: GStreamer element' \
    "$about
.
The element foveafilter, which adds features and labels to video."
