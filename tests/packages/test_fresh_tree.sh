#!/bin/sh
# test_fresh_tree.sh: builds Debian packages for arm64 from nothing, unpacks them into an empty folder,
# and builds and runs the C and C++ examples with the files there, by pkg-config and by CMake.
set -eu
cd "$(dirname "$0")/../.."
. tests/verdict.sh
target=aarch64-linux-gnu
need() { # command or file, package's purpose
    if ! command -v "$1" >/dev/null && [ ! -e "$1" ]; then
        echo "no $1; sh platform/setup-debian.sh $2 installs it"
        exit 77
    fi
}
need $target-gcc arm64
need $target-g++ arm64
need qemu-aarch64 arm64
need /usr/lib/$target/libjansson.so arm64
need /usr/lib/$target/libwebp.so arm64
need cmake test
need dh_python3 package
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

sh platform/package/debian.sh --cross $target "$root/packages" >"$root/list"
for name in libfovea0.1 libfovea-train0.1 libfovea-dev fovea; do
    package=$(grep "/${name}_" "$root/list")
    dpkg-deb -x "$package" "$root/tree"
    status=0
    dpkg-deb -f "$package" Architecture | grep -qx arm64 || status=1
    verdict "$name is for arm64" $status
done
status=0
dpkg-deb -f "$(grep /libfovea0.1_ "$root/list")" Depends >"$root/depends"
grep -q 'libc6 (>= 2' "$root/depends" && grep -q libjansson4 "$root/depends" || status=1
verdict "libfovea0.1 names what it links" $status
status=0
dpkg-deb -f "$(grep /fovea_ "$root/list")" Depends | grep -q 'libfovea0.1 (>= ' || status=1
verdict "fovea needs libfovea0.1" $status

lib=$root/tree/usr/lib/$target
export PKG_CONFIG_LIBDIR="$lib/pkgconfig:/usr/lib/$target/pkgconfig"
export QEMU_SET_ENV="LD_LIBRARY_PATH=$lib"
flags=$(pkg-config --cflags --libs fovea)
examples=$root/tree/usr/share/doc/libfovea-dev/examples
cd "$root"
run() { # name, command...
    name=$1
    shift
    status=0
    qemu-aarch64 "$@" >/dev/null || status=1
    verdict "$name" $status
}
# shellcheck disable=SC2086
for source in "$examples"/*.c "$examples"/*.cpp; do
    name=$(basename "${source%.*}")
    compiler="gcc -std=c11"
    [ "${source##*.}" = c ] || compiler="g++ -std=c++17"
    status=0
    $target-$compiler -Wall -Wextra -Werror "$source" -o "$name" $flags -lm -pthread || status=1
    verdict "$name by pkg-config" $status
done
for linkage in OFF ON; do
    status=0
    cmake -G Ninja -S "$examples" -B "build-$linkage" -DCMAKE_SYSTEM_NAME=Linux \
        -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=$target-gcc \
        -DCMAKE_CXX_COMPILER=$target-g++ -DCMAKE_PREFIX_PATH="$root/tree/usr" \
        -DFovea_USE_STATIC_LIBS=$linkage >cmake.log 2>&1 &&
        cmake --build "build-$linkage" >>cmake.log 2>&1 || status=1
    [ $status = 0 ] || tail -n 20 cmake.log
    verdict "all examples by CMake, static libraries $linkage" $status
done
run "attend, pkg-config" ./attend
run "features, pkg-config" ./features
run "attend, CMake" build-OFF/attend
run "features, CMake" build-OFF/features
unset QEMU_SET_ENV
run "attend, CMake and the static library" build-ON/attend
run "features, CMake and the static library" build-ON/features
export QEMU_SET_ENV="LD_LIBRARY_PATH=$lib"
run "the program" "$root/tree/usr/bin/fovea" info

verdicts
