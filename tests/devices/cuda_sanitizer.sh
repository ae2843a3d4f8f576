#!/bin/sh
# cuda_sanitizer.sh: CUDA's kernels under NVIDIA's compute-sanitizer: accesses outside of buffers,
# races in shared memory, memory that was never written, barriers that some threads miss. It needs a
# GPU; tests that have none run in the emulator of cuda_emulator/, which finds much of it, too.
#
#   cuda_sanitizer.sh path/to/check path/to/fovea
set -u
check=$1
fovea=$2
. "$(dirname "$0")/../verdict.sh"

sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) || {
    echo "skipped: no compute-sanitizer; NVIDIA's CUDA toolkit has it (cuda-sanitizer)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
}
if ! "$fovea" info | grep -q '^cuda:0 '; then
    "$fovea" info | grep '^cuda: '
    echo "skipped: no GPU of NVIDIA's here"
    echo "0 passed, 0 failed, 1 skipped"
    exit 77
fi

under() { # tool, command...
    tool=$1
    shift
    "$sanitizer" --tool "$tool" --error-exitcode 86 --launch-timeout 600 "$@" >"$log" 2>&1
}

log=$(mktemp)
FOVEA_CACHE=$(mktemp -d)
export FOVEA_CACHE
trap 'rm -rf "$log" "$FOVEA_CACHE"' EXIT
for tool in memcheck racecheck initcheck synccheck; do
    under $tool "$check" --device cuda:0 --every 41 --small 2000000
    status=$?
    [ $status = 0 ] || grep -E '^=+ |FAIL' "$log" | head -40
    verdict "$tool of kernels" $status
    under $tool "$fovea" verify synthetic:block-192x3x4 --size 64 --device cuda:0
    status=$?
    [ $status = 0 ] || grep -E '^=+ |FAIL' "$log" | head -40
    verdict "$tool of whole frames" $status
done
verdicts
