#!/bin/sh
# gemm.sh: GEMM compared with OpenBLAS, at both x86 levels, on one and two threads. Some minutes.
#
# BUILD names the build directory.
set -eu
cd "$(dirname "$0")/.."
build=$(sh bench/build.sh "build blas" bench/gemm_blas)
for threads in ${THREADS:-1 2}; do
    OPENBLAS_CORETYPE=Haswell "$build/bench/gemm_blas" avx2 "$threads" libopenblas.so.0
    if grep -q avx512f /proc/cpuinfo; then
        OPENBLAS_CORETYPE=SkylakeX "$build/bench/gemm_blas" avx512 "$threads" libopenblas.so.0
    fi
done
