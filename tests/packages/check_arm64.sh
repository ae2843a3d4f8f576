#!/bin/sh
# check_arm64.sh: builds the kernel checker for aarch64, warnings as errors, and runs it under qemu:
# references, portable C, NEON and the levels above it; and on processors that lack those.
#
#   check_arm64.sh [--build-only | options of check]
set -eu
cd "$(dirname "$0")/../.."
cc=aarch64-linux-gnu-gcc
need() {
    if ! command -v "$1" >/dev/null 2>&1; then
        echo "no $1; platform/setup-debian.sh emulate installs it"
        exit 77
    fi
}
need $cc
level=-O1
if [ "${1:-}" != --build-only ]; then
    need qemu-aarch64
    level=-O2
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/fovea"
sed 's/@VERSION@/0/; s/@[A-Z]*@/0/' include/fovea/version.h.in >"$out/fovea/version.h"
flags="-std=c11 -Wall -Wextra -Werror -Wno-missing-field-initializers -DNDEBUG -D_POSIX_C_SOURCE=200809L -ffp-contract=off -fno-math-errno
    -fno-trapping-math -DFV_ARCH_ARM64 -DHAVE_TRAIN -DFV_LEVEL_NEON_FP16 -DFV_LEVEL_NEON_SDOT -DFV_LEVEL_NEON_DOT -DFV_LEVEL_NEON_I8MM -Iinclude -I$out -I. -Isrc"
n=0
compile() {
    n=$((n + 1))
    # shellcheck disable=SC2086
    $cc $flags $level "$@" -c -o "$out/$n.o"
}
for f in src/base/abi.c src/ops/extension.c src/ops/foveated.c src/ops/kernel.c src/ops/keys_i8.c src/base/mem.c src/ops/op.c src/ops/position_table.c src/ops/preprocess.c src/ops/quantise.c src/ops/resample.c src/ops/yuv.c src/base/status.c src/base/thread.c src/device/device.c src/device/sweep_calls.c platform/cpu/cpu.c \
    platform/cpu/cpu_backend.c platform/cpu/cpu_rates.c platform/cpu/feature_maps.c platform/cpu/gemm.c platform/os/os_cgroup.c platform/os/os_cores.c platform/os/os_machine.c platform/os/linux/linux_machine.c \
    tests/kernels/oracle_fovea.c tests/kernels/gradients.c tests/kernels/oracle.c tests/kernels/oracle_grad.c tests/kernels/check*.c \
    src/ops/mech_table.c src/ops/ref/*.c src/train/ref/*.c src/train/register.c src/train/cpu/gemm_grad.c src/train/cpu/gemm_grad_kernels.c; do
    compile "$f"
done
# The checker has its own cases and does not need those of fovea_device_verify().
echo 'void fv_cases_training(void); void fv_cases_training(void) {}
void fv_cases_training_narrow(void); void fv_cases_training_narrow(void) {}' >"$out/cases.c"
compile "$out/cases.c"
for f in platform/cpu/tmpl/*_tmpl.c src/train/cpu/*_tmpl.c; do
    case $f in
    */lattn_tmpl.c | */lattn_grad_tmpl.c | *gemm_bf16* | *probe_bf16* | *probe_int8*) ;;
    *)
        compile "$f" -DFV_ISA_C
        compile "$f" -DFV_ISA_NEON
        ;;
    esac
done
compile platform/cpu/tmpl/gemm_tmpl.c -DFV_ISA_NEON_FP16 -march=armv8.2-a+fp16
dot="-DFV_ISA_NEON_DOT -march=armv8.2-a+fp16+dotprod+bf16"
for kind in foveated_i8 gemm_i8 probe_int8 softmax_i8 wsoftmax_i8; do
    compile platform/cpu/tmpl/${kind}_tmpl.c -DFV_ISA_NEON_SDOT -march=armv8.2-a+fp16+dotprod
    compile platform/cpu/tmpl/${kind}_tmpl.c -DFV_ISA_NEON_I8MM -march=armv8.2-a+fp16+dotprod+bf16+i8mm
done
for kind in foveated_bf16 gemm gemm_bf16 lattn_bf16 probe_bf16 softmax_bf16 wsoftmax_bf16; do
    # shellcheck disable=SC2086
    compile platform/cpu/tmpl/${kind}_tmpl.c $dot
done
for mechanism in $(sed -n 's/^FV_MECH([A-Z0-9_]*, \([a-z0-9_]*\), .*/\1/p' src/mech/mech.inc); do
    for f in src/ops/mech_traits.c src/ops/ref/ref_*lattn*.c src/train/ref/ref_*lattn*.c tests/kernels/oracle_mech.c; do
        compile "$f" -DFV_MECHANISM="$mechanism"
    done
    for f in platform/cpu/tmpl/lattn_tmpl.c src/train/cpu/lattn_grad_tmpl.c; do
        compile "$f" -DFV_ISA_C -DFV_MECHANISM="$mechanism"
        compile "$f" -DFV_ISA_NEON -DFV_MECHANISM="$mechanism"
    done
done
$cc -static -o "$out/check" "$out"/*.o -lm -lpthread
[ "${1:-}" != --build-only ] || exit 0
for cpu in cortex-a53 cortex-a76; do
    echo "$cpu:"
    qemu-aarch64 -cpu $cpu "$out/check" --op gemm --every 8
done
echo "max:"
qemu-aarch64 -cpu max "$out/check" "$@"
