#!/bin/sh
# test_install.sh: installs the build into an empty folder and builds the examples as a user would, from
# what was installed, through pkg-config and CMake.
#
#   test_install.sh BUILD
set -eu
. "$(dirname "$0")/../verdict.sh"
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

meson install -C "$build" --no-rebuild --quiet --destdir "$root/dest"
prefix=$(meson introspect "$build" --buildoptions | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
installed=$root/dest$prefix
PKG_CONFIG_PATH=$(dirname "$(find "$installed" -name fovea.pc)")
PKG_CONFIG_SYSROOT_DIR=$root/dest
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
flags=$(pkg-config --cflags --libs fovea)
examples=$installed/share/doc/fovea/examples
strict='-Wall -Wextra -Werror'

cd "$root" # nothing of the source tree in reach
# shellcheck disable=SC2086
for compiler in gcc clang; do
    status=0
    $compiler -std=c11 $strict "$examples/attend.c" -o attend $flags -lm || status=1
    verdict "attend.c with $compiler" $status
    status=0
    ./attend || status=1
    verdict "attend by $compiler" $status
done
# shellcheck disable=SC2086
for compiler in g++ clang++; do
    status=0
    $compiler -std=c++17 $strict "$examples/features.cpp" -o features $flags || status=1
    verdict "features.cpp with $compiler" $status
    status=0
    ./features || status=1
    verdict "features by $compiler" $status
done
# Runs each pipeline briefly; each prints its frames per second.
for compiler in gcc clang; do
    status=0
    $compiler -std=c11 $strict "$examples/camera.c" -o camera $flags -pthread || status=1
    verdict "camera.c with $compiler" $status
done
for compiler in g++ clang++; do
    status=0
    $compiler -std=c++17 $strict "$examples/pipeline.cpp" -o pipeline $flags -pthread || status=1
    verdict "pipeline.cpp with $compiler" $status
done
for example in camera pipeline; do
    status=0
    ./$example synthetic:vit-ti16 0.5 >said || status=1
    grep -q '^[0-9.]* frames/s.*latency p50 [0-9.]* ms' said || status=1
    verdict "$example" $status
done
for example in camera pipeline features; do
    status=0
    ./$example --help >said 2>message || status=1
    grep -q "^usage: $example \[MODEL" said && [ ! -s message ] || status=1
    verdict "$example --help" $status
done
status=0
./features nowhere 2>message && status=1
grep -q nowhere message || status=1
verdict "a message for a missing model" $status
status=0
env -u LD_LIBRARY_PATH "$installed/bin/fovea" info >/dev/null || status=1
verdict "the program as installed, without ldconfig" $status
if [ -e "$PKG_CONFIG_PATH/fovea-train.pc" ]; then
    cat >trains.c <<'TEXT'
#include <fovea/adapt.h>

int main(void)
{
    fovea_trainer *trainer;
    const fovea_trainer_options options = FOVEA_TRAINER_OPTIONS_INIT;
    return fovea_training_register() || fovea_trainer_create(&trainer, "nowhere", NULL, NULL, &options) != FOVEA_EINVAL;
}
TEXT
    status=0
    # shellcheck disable=SC2046
    gcc -std=c11 $strict trains.c -o trains $(pkg-config --cflags --libs fovea-train) && ./trains || status=1
    verdict "a program with fovea-train.pc" $status
fi
# Programs that only run models do not need the training library.
mkdir without
cp -P "$LD_LIBRARY_PATH"/libfovea.so* without
status=0
for program in attend features; do
    LD_LIBRARY_PATH=$root/without ./$program || status=1
    ! readelf -d $program | grep -q 'libfovea-train' || status=1
done
verdict "programs where libfovea-train is missing" $status
status=0
[ -d "$installed/share/fovea/wisdom" ] || status=1
verdict "a folder for wisdom" $status
status=0
env -u LD_LIBRARY_PATH "$installed/bin/fovea" convert nowhere out 2>message && status=1
grep -q 'fovea convert: nowhere: no such file or folder' message || status=1
verdict "convert as installed" $status

# Moves the tree and removes the shared library, so that programs must use the static one.
unset PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
moved=$root/moved
cp -R "$installed" "$moved"
find "$moved" -name 'libfovea*.so*' -delete
pc=$(dirname "$(find "$moved" -name fovea.pc)")
flags=$(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs fovea)
status=0
# shellcheck disable=SC2086
gcc -std=c11 $strict "$examples/attend.c" -o attend_static $flags && ./attend_static || status=1
verdict "attend with the static library" $status
if [ -e "$pc/fovea-train.pc" ]; then
    status=0
    # shellcheck disable=SC2046
    gcc -std=c11 $strict trains.c -o trains_static $(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs fovea-train) &&
        ./trains_static || status=1
    verdict "training with the static libraries" $status
fi

if command -v cmake >/dev/null; then
    configure() { # prefix, source, build
        cmake -G Ninja -S "$2" -B "$3" -DCMAKE_PREFIX_PATH="$1" >cmake.log 2>&1
    }
    for prefix in "$installed" "$moved"; do
        status=0
        configure "$prefix" "$examples" by_cmake && cmake --build by_cmake >>cmake.log 2>&1 || status=1
        [ $status = 0 ] || tail -n 20 cmake.log
        verdict "all examples by CMake, $prefix" $status
        status=0
        by_cmake/attend && by_cmake/features || status=1
        verdict "programs by CMake, $prefix" $status
        rm -rf by_cmake
    done
    for version in 0.1:TRUE 0.1.0:TRUE 0.2:FALSE 1:FALSE; do
        asked=${version%:*}
        cat >version.cmake <<TEXT
set(PACKAGE_FIND_VERSION $asked)
string(REPLACE "." ";" parts $asked)
list(LENGTH parts PACKAGE_FIND_VERSION_COUNT)
list(APPEND parts 0 0)
list(GET parts 0 PACKAGE_FIND_VERSION_MAJOR)
list(GET parts 1 PACKAGE_FIND_VERSION_MINOR)
include("$(find "$installed" -name FoveaConfigVersion.cmake)")
if(NOT PACKAGE_VERSION_COMPATIBLE STREQUAL ${version#*:})
    message(FATAL_ERROR "version $asked: compatible \${PACKAGE_VERSION_COMPATIBLE}")
endif()
TEXT
        status=0
        cmake -P version.cmake || status=1
        verdict "CMake asks for version $asked" $status
    done
else
    echo "no cmake; platform/setup-debian.sh test installs it"
    skipped=1
fi

verdicts
