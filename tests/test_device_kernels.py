#!/usr/bin/env python3
"""test_device_kernels.py: the kernels of every OpenCL device of the machine against their definitions.

    test_device_kernels.py path/to/check path/to/fovea path/to/libhostile_cl.so [--long]

The first device takes one case in 36 of every kernel, of those that there are for each mechanism only
those of KEPT; compiling takes most of the time. With --long it takes all, and the other devices one
case in 6. Kernels for local memory also run on a first device that was made to say that it has some.
The harness itself is tried on the CPU, as a device like any other. Standard library only.
"""
import os
import re
import subprocess
import sys

import test_devices

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "gpu"))
import mech_text  # noqa: E402

KEPT = ("elu1", "identity", "mala")
LEFT_OUT = [name for name in mech_text.mechanisms(os.path.join(ROOT, "src", "mech"))
            if name not in KEPT]
COUNTS = re.compile(r"(\d+) passed, (\d+) failed, (\d+) skipped")


def run(check, device, every, options=(), settings=()):
    """Passed, failed, skipped."""
    p = subprocess.run([check, "--device", device, "--every", str(every), *options],
                       capture_output=True, text=True, errors="replace",
                       env={**os.environ, **dict(settings)})
    skipped = [line for line in p.stdout.splitlines() if "skipped: " in line]
    print("".join("%s: %s\n" % (device, line) for line in skipped), end="")
    last = COUNTS.fullmatch((p.stdout.strip().split("\n") or [""])[-1])
    counts = [int(x) for x in last.groups()] if last else [0, 1, 0]
    if p.returncode and not counts[1]:
        counts[1] = 1
    if counts[1]:
        print("%s, exit %d:\n%s%s" % (device, p.returncode, p.stdout, p.stderr), flush=True)
    return counts


def some(check, device):
    """Names of the kernels of a device, fewer mechanisms."""
    names = subprocess.run([check, "--device", device, "--list"], capture_output=True, text=True,
                           check=True).stdout.split()
    left_out = re.compile("_(%s)_((cpu|mma|segments)_)?(cl|cuda)$" % "|".join(LEFT_OUT))
    return [name for name in names if not left_out.search(name)]


def main():
    check, exe, hostile = (os.path.abspath(a) for a in sys.argv[1:4])
    found = [device for device, _ in test_devices.devices(exe)]
    if not found:
        test_devices.without_devices()
    lies = {"FOVEA_OPENCL": hostile, "HOSTILE_CL": "own=1,vectors=1"}
    if "--long" in sys.argv:
        results = [run(check, "cpu", 1), run(check, found[0], 1)]
        results += [run(check, device, 6) for device in found[1:]]
        results.append(run(check, found[0], 1, ["--kernel", "_tile_cl"], lies))
    else:
        results = [run(check, "cpu", 12)]
        results += [run(check, found[0], 36, ["--kernel", name]) for name in some(check, found[0])]
        results.append(run(check, found[0], 36, ["--kernel", "_tile_cl"], lies))
    print("%d passed, %d failed, %d skipped" % tuple(sum(column) for column in zip(*results)))
    sys.exit(1 if any(failed for _, failed, _ in results) else 0)


if __name__ == "__main__":
    main()
