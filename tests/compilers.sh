#!/bin/sh
# compilers.sh: what compilers make of every GPU program that plans ask for. No GPU is needed, and a
# quarter of an hour or more. It fails where a program does not build or lacks a function.
#
#   sh tests/compilers.sh                       each program by one chip of each maker, in turn
#   sh tests/compilers.sh --every N             every N-th program
#   sh tests/compilers.sh --all --table FILE    for all chips; FILE gets the table of docs/compilers.md
#
# BUILD names the build directory. OpenCL's programs are those of kinds of devices that PoCL passes for,
# CUDA's those of the emulator's devices: devices/plan_programs.c.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
sh platform/setup-debian.sh test compilers >&2
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release -Dptx=disabled >&2
ninja -C "$build" tests/devices/plan_programs tests/cuda_emulator/libemulated_cuda.so >&2

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/cl" "$folder/cuda"
emulator=$PWD/$build/tests/cuda_emulator/libemulated_cuda.so
FOVEA_CACHE='' FOVEA_WISDOM=''
export FOVEA_CACHE FOVEA_WISDOM
"$build/tests/devices/plan_programs" cl:0 "$folder/cl" mali adreno texture amd intel plain small >"$folder/cl.txt"
for sm in 75 87; do
    FOVEA_CUDA=$emulator FOVEA_NVRTC=$emulator EMULATED_CUDA=sm=$sm \
        "$build/tests/devices/plan_programs" cuda:0 "$folder/cuda" sm$sm
done >"$folder/cuda.txt"
python3 tests/devices/compilers.py "$folder" "$@"
