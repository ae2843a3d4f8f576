"""test_cuda_plans.py: without NVRTC, fallback.txt has every program that plans need, or one of another choice
for the same step, or one of another kernel that replaces it. No program is compiled.

usage: test_cuda_plans.py ROOT CUDA_PLANS EMULATOR DEVICE...

DEVICE is the device that the emulator presents: sm=75, or sm=80,units=8. What sm=72 needs is in fallback.txt as
a program for sm_72 or for sm_75: embed_ptx.py says what the difference is.
"""
import os
import subprocess
import sys
from pathlib import Path


def plans(program, emulator, device):
    """For each step of the plans, the texts of its choices."""
    told = subprocess.run([program, "cuda:0", "--list"], capture_output=True, text=True,
                          env={**os.environ, "FOVEA_CUDA": emulator, "FOVEA_NVRTC": "/none",
                               "FOVEA_CACHE": "", "FOVEA_WISDOM": "", "EMULATED_CUDA": device})
    if told.returncode:
        sys.exit(f"FAIL {device}: {told.stderr}")
    return [line.split("\t") for line in told.stdout.splitlines()]


def main():
    root, program, emulator, *devices = sys.argv[1:]
    sys.path.insert(0, str(Path(root) / "cuda"))
    sys.dont_write_bytecode = True
    import embed_ptx

    programs = list(embed_ptx.listed(Path(root) / "cuda/fallback.txt"))
    have = {program.fields for program in programs}
    arch = min(int(device.partition("=")[2].partition(",")[0]) for device in devices)
    runs = have
    if arch == 72:
        runs = {embed_ptx.with_arch(program.fields, "72") for program in programs
                if program.target([72, 75, 80]) == 72}
    passed, failed, asked = 0, 0, set()
    for device in devices:
        for choices in plans(program, emulator, device):
            wanted = {text: embed_ptx.Program.of(text).fields for text in choices
                      if not embed_ptx.LEFT_OUT.search(text + " ")}
            asked.update(wanted.values())
            found = not wanted or any(fields in runs for fields in wanted.values())
            passed += found
            failed += not found
            if not found:
                print(f"FAIL {device}: not in fallback.txt: {choices[0]}")
    for fields in sorted(have - asked):
        if int(fields[2]) == arch:
            failed += 1
            print(f"FAIL no plan asks for {' '.join(fields)}")
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
