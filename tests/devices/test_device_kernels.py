#!/usr/bin/env python3
"""test_device_kernels.py: compares the kernels of every OpenCL device of the machine with their references.

    test_device_kernels.py path/to/check path/to/fovea path/to/libhostile_cl.so [FAMILY | --sample] [--long]

FAMILY: only kernels of a family of operations, see FAMILIES. The first device runs one case in 288 of every
kernel, with the mechanisms of KEPT only and without 16-bit convolutions, which share the text of the matrix
multiplications; compiling takes most of the time. With --sample it runs as many cases of one kernel per family. With
--long it runs all, and the other devices run one case in 6. Kernels for local memory also run on a first device that
is made to report local memory, and kernels in float16 arithmetic on one that emulates it. Standard library only.
"""
import os
import re
import subprocess
import sys

import test_devices

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "gpu"))
import mech_text  # noqa: E402

KEPT = ("elu1", "identity", "mala")
LEFT_OUT = [name for name in mech_text.mechanisms(os.path.join(ROOT, "src", "mech"))
            if name not in KEPT]
# A kernel belongs to the first family whose prefix its name has.
FAMILIES = {
    "products": r"(gemm|conv)_",
    "softmax": r"(w?softmax|foveated|keys_i8)_",
    "linear": r"w?lattn_",
    "scans": r"scan_",
    "rows": "",
}
SAMPLE = ("gemm_f32_wide_cl", "softmax_wide_cl", "lattn_apply_elu1_cl", "scan_step_identity_cl",
          "layernorm_wide_cl")  # what a processor runs as an OpenCL device
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


def family(name):
    return next(f for f, begin in FAMILIES.items() if re.match(begin, name))


def kernels(check, device, wanted=None, settings=()):
    """The names of a device's kernels, of one family or all."""
    names = subprocess.run([check, "--device", device, "--list"], capture_output=True, text=True,
                           check=True, env={**os.environ, **dict(settings)}).stdout.split()
    return [name for name in names if wanted in (None, family(name))]


def some(names):
    """The kernels without most mechanisms, and without some convolutions."""
    left_out = re.compile("^conv_b?f16_|_(%s)_((local|mma|mma_f16|segments)_)?(cl|cuda)$" % "|".join(LEFT_OUT))
    return [name for name in names if not left_out.search(name)]


def with_dots(lies, words):
    """Returns the settings `lies` of the hostile OpenCL device, with the int8 dot products of one extension:
    cl_khr_integer_dot_product (1) or cl_arm_integer_dot_product_accumulate_int8 (2)."""
    return {**lies, "HOSTILE_CL": lies["HOSTILE_CL"] + ",dots=%d" % words}


def main():
    check, exe, hostile = (os.path.abspath(a) for a in sys.argv[1:4])
    wanted = next((a for a in sys.argv[4:] if a in FAMILIES), None)
    found = [device for device, _ in test_devices.devices(exe)]
    if not found:
        test_devices.without_devices()
    lies = {"FOVEA_OPENCL": hostile, "HOSTILE_CL": "own=1,vectors=1"}
    every = 1 if "--long" in sys.argv else 288
    names = {device: kernels(check, device, wanted) for device in found}
    if "--sample" in sys.argv:
        results = [run(check, found[0], every, ["--kernel", name])
                   for name in names[found[0]] if name in SAMPLE]
    else:
        few = names[found[0]] if "--long" in sys.argv else some(names[found[0]])
        results = [run(check, found[0], every, ["--kernel", name]) for name in few]
        if "--long" in sys.argv:
            results += [run(check, device, 6, ["--kernel", name])
                        for device in found[1:] for name in names[device]]
        staged = {"products": ["_tile_cl"], "softmax": ["softmax_local_cl", "foveated_local_cl", "softmax_i8_local_cl"],
                  "linear": ["_elu1_local_cl", "_mala_local_cl", "_pola_local_cl"]}
        for kind in staged if wanted is None else (wanted,) if wanted in staged else ():
            results += [run(check, found[0], every, ["--kernel", text], lies)
                        for text in staged[kind]]
        if wanted in (None, "products"):
            half = {**lies, "HOSTILE_CL": lies["HOSTILE_CL"] + ",half=2"}
            results.append(run(check, found[0], every, ["--kernel", "_half"], half))
            lanes = {**half, "HOSTILE_CL": half["HOSTILE_CL"] + ",subgroups=1"}
            results.append(run(check, found[0], min(every, 2), ["--kernel", "_subgroup"], lanes))
            for words in (1, 2):
                results.append(run(check, found[0], every, ["--kernel", "gemm_i8"], with_dots(lies, words)))
        if wanted in (None, "softmax"):
            for words, kernel in ((1, "softmax_i8_local_cl"), (2, "softmax_i8_cl")):
                results.append(run(check, found[0], every, ["--kernel", kernel], with_dots(lies, words)))
    print("%d passed, %d failed, %d skipped" % tuple(sum(column) for column in zip(*results)))
    sys.exit(1 if any(failed for _, failed, _ in results) else 0)


if __name__ == "__main__":
    main()
