#!/bin/sh
# test_baseline.sh: the x86-64 build on a processor that has nothing newer than SSE 4.2, by qemu: what
# is not compiled for a higher level must not contain an instruction of one.
#
#   test_baseline.sh path/to/check path/to/fovea
set -eu
. "$(dirname "$0")/../verdict.sh"
check=$1
emulator=qemu-x86_64
processor=Nehalem
if ! command -v $emulator >/dev/null; then
    echo "no $emulator; sh platform/setup-debian.sh emulate installs it"
    exit 77
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# The emulator must refuse instructions that the emulated processor lacks.
cat >"$root/newer.c" <<'TEXT'
int main(void)
{
    __asm__ volatile("vpaddd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
    return 0;
}
TEXT
status=0
cc "$root/newer.c" -o "$root/newer" || status=1
(ulimit -c 0 && $emulator -cpu $processor "$root/newer") 2>/dev/null && status=1
verdict "an AVX2 instruction is illegal here" $status

status=0
$emulator -cpu $processor "$check" --every 7 >"$root/log" 2>&1 || status=1
tail -n 3 "$root/log"
verdict "kernels" $status

# Runs whole models and operators through the program.
printf '#!/bin/sh\nexec %s -cpu %s "%s" "$@"\n' $emulator $processor "$2" >"$root/fovea"
chmod +x "$root/fovea"
status=0
python3 -B "$(dirname "$0")/../models/test_golden.py" "$root/fovea" --once >"$root/log" 2>&1 || status=1
tail -n 3 "$root/log"
verdict "golden cases" $status
status=0
grep -q '^levels: scalar$' "$root/log" || status=1
verdict "no level but the lowest" $status

verdicts
