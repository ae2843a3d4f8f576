#!/bin/sh
# NVRTC 12.2: __dp4a, an intrinsic that CUDA's headers declare for sm_61 and later, is declared but has no
# definition. A kernel that calls it passes the front end, and ptxas then ends the compilation with
# "Unresolved extern function '_Z6__dp4aiii'". NVRTC 11.8 and 12.0 do the same; NVRTC 12.4 compiles the kernel.
# The instruction itself, as inline PTX, compiles with both. No GPU is needed.
#
#   sh findings/nvrtc122_dp4a_unresolved.sh      exit 0: it is still so; Linux on amd64, pip, 60 MB
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 12.2.140 12.4.127; do
    python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
        --target "$version" "nvidia-cuda-nvrtc-cu12==$version"
done
cat >compile.py <<'P'
import ctypes
import sys

lib = ctypes.CDLL(sys.argv[1] + "/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
call = '__dp4a(p[1], p[2], p[3])'
if sys.argv[2] == "ptx":
    call = 'dot(p[1], p[2], p[3])'
source = '''
__device__ int dot(int a, int b, int sum)
{
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
    return sum;
}
extern "C" __global__ void k(int *p) { p[0] = ''' + call + '; }'
program, size = ctypes.c_void_p(), ctypes.c_size_t()
lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None)
options = (ctypes.c_char_p * 1)(b"-arch=sm_80")
status = lib.nvrtcCompileProgram(program, 1, options)
lib.nvrtcGetProgramLogSize(program, ctypes.byref(size))
log = ctypes.create_string_buffer(size.value)
lib.nvrtcGetProgramLog(program, log)
print("status %d" % status, log.value.decode().strip())
P
for version in 12.2.140 12.4.127; do
    for form in intrinsic ptx; do
        printf '%s %s: ' $version $form
        python3 compile.py $version $form
    done
done >seen
cat seen
grep -q '^12.2.140 intrinsic: status [1-9].*Unresolved extern function' seen
grep -qx '12.2.140 ptx: status 0 *' seen
grep -qx '12.4.127 intrinsic: status 0 *' seen
