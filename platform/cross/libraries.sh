#!/bin/sh
# libraries.sh: builds the libraries that Fovea and its tests use (jansson, zlib, libpng, libjpeg-turbo,
# cmocka), static, for a target that Debian has no packages of, from Debian's source packages.
#
#   libraries.sh FOLDER SYSTEM PROCESSOR C-COMPILER [CMAKE OPTIONS]
#
# SYSTEM and PROCESSOR are CMake's names (Linux riscv64, Windows AMD64). FOLDER/lib/pkgconfig then
# describes the libraries; existing ones are not built again. Sources come by apt, through a list
# of their own in build-sources: the machine's lists stay as they are.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -lt 4 ]; then
    echo "usage: libraries.sh FOLDER SYSTEM PROCESSOR C-COMPILER [CMAKE OPTIONS]" >&2
    exit 1
fi
prefix=$(mkdir -p "$1" && cd "$1" && pwd)
system=$2
processor=$3
compiler=$4
shift 4
sh "$here/platform/setup-debian.sh" libraries >&2

sources=$here/build-sources
apt_sources() {
    apt-get -qq -o Dir::Etc::sourcelist="$sources/debian.sources" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$sources/lists" -o APT::Sandbox::User=root "$@"
}
fetch() { # source package
    mkdir -p "$sources/lists/partial"
    if [ ! -e "$sources/debian.sources" ]; then
        printf 'Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
            "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
            /usr/share/keyrings/debian-archive-keyring.gpg >"$sources/debian.sources.new"
        mv "$sources/debian.sources.new" "$sources/debian.sources"
        apt_sources update
    fi
    (cd "$sources" && apt_sources source --only-source "$1")
}

have() { # source package
    [ -d "$(echo "$sources/$1"-*/)" ] || fetch "$1" >&2
}

build() { # source package, its description for pkg-config, CMake options
    package=$1
    description=$prefix/lib/pkgconfig/$2.pc
    shift 2
    [ ! -e "$description" ] || return 0
    have "$package"
    cmake -S "$(echo "$sources/$package"-*/)" -B "$prefix/build-$package" -G Ninja \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$processor" \
        -DCMAKE_C_COMPILER="$compiler" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR:STRING=lib -DCMAKE_FIND_ROOT_PATH="$prefix" \
        -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY "$@" >&2
    ninja -C "$prefix/build-$package" install >&2
    if [ ! -e "$description" ]; then # some have none, or one of the shared library alone
        echo "libraries.sh: $package installed no $description" >&2
        exit 1
    fi
}

# Debian's source of zlib lacks files that its CMake build needs.
build_zlib() {
    [ ! -e "$prefix/lib/pkgconfig/zlib.pc" ] || return 0
    have zlib
    mkdir -p "$prefix/build-zlib" "$prefix/include" "$prefix/lib/pkgconfig"
    (
        cd "$prefix/build-zlib"
        "$compiler" -O2 -fPIC -D_LARGEFILE64_SOURCE=1 -include unistd.h -c "$sources"/zlib-*/*.c
        rm -f "$prefix/lib/libz.a"
        "$archiver" rcs "$prefix/lib/libz.a" ./*.o
    )
    cp "$sources"/zlib-*/zlib.h "$sources"/zlib-*/zconf.h "$prefix/include"
    printf 'Name: zlib\nDescription: compression\nVersion: %s\nLibs: -L%s/lib -lz\nCflags: -I%s/include\n' \
        "$(sed -n 's/^#define ZLIB_VERSION "\([0-9.]*\).*/\1/p' "$prefix/include/zlib.h")" "$prefix" "$prefix" \
        >"$prefix/lib/pkgconfig/zlib.pc"
}

archiver=$("$compiler" -print-prog-name=ar)
case $compiler in
musl-gcc) # musl has no headers of the kernel
    mkdir -p "$prefix/include"
    for folder in /usr/include/linux /usr/include/asm-generic "/usr/include/$processor-linux-gnu/asm"; do
        ln -sfn "$folder" "$prefix/include/$(basename "$folder")"
    done
    ;;
esac

build jansson jansson -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_DOCS=OFF "$@"
build_zlib
build libpng1.6 libpng -DPNG_SHARED=OFF -DPNG_EXECUTABLES=OFF -DPNG_TESTS=OFF "$@"
build libjpeg-turbo libjpeg -DENABLE_SHARED=OFF -DWITH_SIMD=OFF "$@"
build cmocka cmocka -DWITH_EXAMPLES=OFF -DWITH_STATIC_LIB=ON "$@"
# cmocka always builds a shared library too, which linkers would prefer.
rm -f "$prefix"/lib/libcmocka.so* "$prefix"/lib/libcmocka.dll.a
[ ! -e "$prefix/lib/libcmocka-static.a" ] || mv "$prefix/lib/libcmocka-static.a" "$prefix/lib/libcmocka.a"
