#!/bin/sh
# cross.sh: the kernels compile for aarch64, warnings as errors: definitions, portable C and NEON.
set -eu
cd "$(dirname "$0")/.."
cc=aarch64-linux-gnu-gcc
if ! command -v $cc >/dev/null 2>&1; then
    echo "no $cc; platform/setup-debian.sh test installs it"
    exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sed 's/@VERSION@/0/; s/@[A-Z]*@/0/' include/fovea/version.h.in >"$out/version.h"
mkdir "$out/fovea" && mv "$out/version.h" "$out/fovea/"
flags="-std=c11 -O2 -Wall -Wextra -Werror -Wno-missing-field-initializers -D_POSIX_C_SOURCE=200809L
    -ffp-contract=off -DFV_ARCH_ARM64 -Iinclude -I$out -Iplatform -Isrc"
mechanisms=$(sed -n 's/^FV_MECH(.*, \(.*\))$/\1/p' src/mech/mech.inc)
compile() {
    # shellcheck disable=SC2086
    $cc $flags "$@" -c -o "$out/object.o"
}
for mechanism in $mechanisms; do
    for f in src/ref/*.c; do
        compile "$f" -DFV_MECHANISM="$mechanism"
    done
    for f in platform/tmpl/*_tmpl.c; do
        compile "$f" -DFV_ISA_C -DFV_MECHANISM="$mechanism"
        compile "$f" -DFV_ISA_NEON -DFV_MECHANISM="$mechanism"
    done
done
for f in platform/cpu.c platform/gemm.c platform/os_machine.c platform/os_posix.c; do
    compile "$f"
done
echo "compiled for aarch64"
