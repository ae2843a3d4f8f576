#!/bin/sh
# gemm.sh: GEMM beside OpenBLAS, at both x86 levels, on one and two threads. Some minutes.
#
# BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
sh platform/setup-debian.sh build blas >&2
[ -e "$build/build.ninja" ] || meson setup "$build" --buildtype release >&2
ninja -C "$build" bench/gemm_blas >&2
for threads in ${THREADS:-1 2}; do
    OPENBLAS_CORETYPE=Haswell "$build/bench/gemm_blas" avx2 "$threads" libopenblas.so.0
    if grep -q avx512f /proc/cpuinfo; then
        OPENBLAS_CORETYPE=SkylakeX "$build/bench/gemm_blas" avx512 "$threads" libopenblas.so.0
    fi
done
