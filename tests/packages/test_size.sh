#!/bin/sh
# test_size.sh: what the smallest build, the static library without program, training, portable kernels
# and CUDA, adds to what it is linked into: less than 1.5 MB on aarch64. Debian's cross compiler builds
# it.
#
#   test_size.sh FOLDER      FOLDER keeps the build
set -eu
build=$1
triplet=aarch64-linux-gnu
most=1500000
source=$(cd "$(dirname "$0")/../.." && pwd)
for file in /usr/bin/$triplet-gcc /usr/lib/$triplet/libjansson.so; do
    if [ ! -e "$file" ]; then
        echo "no $file; sh platform/setup-debian.sh arm64 installs it"
        exit 77
    fi
done
if [ ! -e "$build/build.ninja" ]; then
    meson setup "$build" "$source" --cross-file "$source/platform/cross/$triplet.ini" \
        --buildtype release -Ddefault_library=static -Dcli=disabled -Dportable=disabled -Dtrain=disabled -Dcuda=disabled >/dev/null
fi
ninja -C "$build" >/dev/null
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
passed=0
failed=0

expect() { # what, bytes
    if [ "$2" -gt 0 ] && [ "$2" -le $most ]; then
        passed=$((passed + 1))
        echo "$1: $2 bytes"
    else
        failed=$((failed + 1))
        echo "FAIL $1: $2 bytes, more than $most"
    fi
}

# Measures the stripped code and data of all objects, whether a program needs them or not.
cp "$build/src/libfovea.a" "$root"
$triplet-strip --strip-unneeded "$root/libfovea.a"
expect "all sections of the library" "$($triplet-size -t "$root/libfovea.a" | awk 'END {print $1 + $2}')"

# A program that loads a model and runs it.
cat >"$root/runs.c" <<'TEXT'
#include <fovea/fovea.h>

int main(int argc, char **argv)
{
    fovea_device *device;
    fovea_model *model;
    fovea_plan *plan;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_frame frame = {.pixels = {argv}};
    fovea_output out = {argv, sizeof *argv};
    return argc < 2 || fovea_device_open(&device, argv[1], NULL) || fovea_model_load(&model, argv[2]) ||
           fovea_plan_create(&plan, model, device, &options) || fovea_run(plan, &frame, &out, 1);
}
TEXT
$triplet-gcc -O2 -I"$source/include" -I"$build/include" "$root/runs.c" "$root/libfovea.a" -ljansson \
    -lm -lpthread -ldl -Wl,--gc-sections -o "$root/runs"
$triplet-strip "$root/runs"
expect "a program that runs models" "$(wc -c <"$root/runs")"

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
