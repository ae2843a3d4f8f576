#!/usr/bin/env python3
"""test_cuda_kernels.py: compares the kernels of every CUDA device with their references.

    test_cuda_kernels.py path/to/check path/to/fovea [path/to/libemulated_cuda.so] [--sample | --long]

Without a CUDA device the test uses the emulated one. It runs one case in 17 of every kernel, with a few
mechanisms only and without 16-bit convolutions; then the same cases with the threads of a block in the opposite
order, because a missing barrier shows in one of the two orders. Kernels without barriers are run first to check that
missing barriers are found. Kernels that only an sm_75 device has, and one that all devices have, run one case in 34.
With --sample, one case in 288 of a kernel of each family runs, with one order of threads.
With --long, one case in 4 of all kernels runs, and some on a device of each architecture. A real device runs one case
in 17 of the same kernels (compiling them takes most of the time), and with --long all cases of all kernels. Standard
library only.
"""
import os
import sys

import test_devices
from test_device_kernels import kernels, run, some

ARCHITECTURES = (72, 75, 86, 87, 89, 90)
SAMPLE = ("gemm_f32_tile_cuda", "gemm_f32_direct_cuda", "softmax_cuda", "lattn_apply_elu1_cuda", "scan_step_identity_cuda",
          "layernorm_cuda", "sine_cuda")
EVERY = 17  # one case in 17, unless all are asked for


def lies(**values):
    return {"EMULATED_CUDA": ",".join("%s=%d" % item for item in values.items())}


def races(check):
    """Whether errors of kernels without barriers are found."""
    quiet = {"stdout": os.dup(1)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    wrong = [any(run(check, "cuda:0", 24, ["--kernel", name], lies(barrier=0, order=order))[1] > 0
                 for order in (0, 1)) for name in ("layernorm_cuda", "gemm_f32_tile_cuda")]
    os.dup2(quiet["stdout"], 1)
    if not all(wrong):
        print("kernels without barriers pass: %s" % wrong)
    return [int(all(wrong)), int(not all(wrong)), 0]


def emulated(check, long):
    os.environ["FOVEA_CUBLASLT"] = os.environ["FOVEA_CUDA"]  # it has that, too
    results = [races(check)]
    if long:
        results += [run(check, "cuda:0", 4, (), lies(order=order)) for order in (0, 1)]
        for sm in ARCHITECTURES:
            version = 12000 if sm < 75 else 13000
            results.append(run(check, "cuda:0", 48, (), lies(sm=sm, version=version)))
        return results
    names = some(kernels(check, "cuda:0"))
    for order in (0, 1):
        results += [run(check, "cuda:0", EVERY, ["--kernel", name], lies(order=order))
                    for name in names]
    halves = [name for name in some(kernels(check, "cuda:0", settings=lies(sm=75)))
              if name.endswith("_mma_f16_cuda") or name == "dwconv_cuda"]
    return results + [run(check, "cuda:0", 2 * EVERY, ["--kernel", name], lies(sm=75))
                      for name in halves]


def sample(check, device):
    return [run(check, device, 288, ["--kernel", name]) for name in kernels(check, device) if name in SAMPLE]


def main():
    check, exe = (os.path.abspath(a) for a in sys.argv[1:3])
    found, is_emulated = test_devices.cuda_devices(exe, sys.argv[3:])
    if not found:
        test_devices.without_devices("cuda:")
    if "--sample" in sys.argv:
        results = sample(check, found[0][0])
    elif is_emulated:
        results = emulated(check, "--long" in sys.argv)
    elif "--long" in sys.argv:
        results = [run(check, device, 1) for device, _ in found]
    else:
        results = [run(check, device, EVERY, ["--kernel", name]) for device, _ in found
                   for name in some(kernels(check, device))]
    print("%d passed, %d failed, %d skipped" % tuple(sum(column) for column in zip(*results)))
    sys.exit(1 if any(failed for _, failed, _ in results) else 0)


if __name__ == "__main__":
    main()
