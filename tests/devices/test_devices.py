#!/usr/bin/env python3
"""test_devices.py: runs the golden vectors with the program on every OpenCL device of the machine, or on
every CUDA device.

    test_devices.py path/to/fovea [--cuda [path/to/libemulated_cuda.so]] [--sample | --long] [--match TEXT]

The first device runs every sixth model and every 24th operator, the others every 36th case; with --long
each runs all; with --sample the first runs a few and the others none. Without a CUDA device the test uses the
emulated one, which is slow: it runs every 36th case, and with --long all except the longest. Compiled kernels are
stored in FOVEA_CACHE, else in the working directory. Standard library only.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import test_golden

SAMPLE = ("models/dinov2-", "ops/mala-", "ops/gated-delta-rule-")
MODELS, OPERATORS, OTHERS = 6, 24, 36  # one in this number of cases is run


def devices(exe, kind="cl:"):
    """Ids and names of the devices of a kind. Mesa's devices exist only if they are enabled by name."""
    os.environ.setdefault("RUSTICL_ENABLE", "llvmpipe")
    os.environ.setdefault("FOVEA_CACHE", os.path.join(os.getcwd(), "kernels"))
    info = json.loads(subprocess.run([exe, "info", "--json"], capture_output=True, text=True,
                                     check=True).stdout)
    return [(d["id"], d["name"]) for d in info["devices"] if d["id"].startswith(kind)]


def cuda_devices(exe, arguments):
    """The CUDA devices, else the emulated one if the first argument names it; and whether it is the
    emulated one."""
    found = devices(exe, "cuda:")
    if found or not arguments or arguments[0].startswith("--"):
        return found, False
    emulator = os.path.abspath(arguments[0])
    os.environ.update(FOVEA_CUDA=emulator, FOVEA_NVRTC=emulator)
    return devices(exe, "cuda:"), True


def options(case):
    """The options of each run: both forms of a causal case, one run of any other."""
    return [["--form", "recurrent"], ["--form", "chunk"]] if case.causal else [[]]


def share(cases, index, long, emulated):
    """The cases that the device of that index runs."""
    if emulated:
        return [c for c in cases if not c.long][::1 if long else OTHERS]
    if long:
        return cases
    if "--sample" in sys.argv:
        first = [[c for c in cases if c.name.startswith(begin)][:1] for begin in SAMPLE]
        return sum(first, []) if index == 0 else []
    if index > 0:
        return cases[::OTHERS]
    models = [c for c in cases if c.name.startswith("models/")]
    return models[::MODELS] + [c for c in cases if c not in models][::OPERATORS]


def without_devices(kind="cl:"):
    print("skipped: no CUDA device here, nor the emulated one" if kind == "cuda:" else
          "no OpenCL device here; sh platform/setup-debian.sh test installs some")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(77)


def main():
    exe, long, match = sys.argv[1], "--long" in sys.argv, ""
    if "--match" in sys.argv:
        match = sys.argv[sys.argv.index("--match") + 1]
    emulated, kind = False, "cl:"
    if "--cuda" in sys.argv:
        kind = "cuda:"
        found, emulated = cuda_devices(exe, sys.argv[sys.argv.index("--cuda") + 1:])
    else:
        found = devices(exe)
    if not found:
        without_devices(kind)
    passed, failed, skipped = 0, 0, 0
    cases = test_golden.cases(exe, match)
    with tempfile.TemporaryDirectory() as folder:
        for index, (device, name) in enumerate(found):
            for case in share(cases, index, long, emulated):
                for extra in options(case):
                    code, message, got = test_golden.run(case.command, ["--device", device] + extra,
                                                         folder)
                    if code in test_golden.REFUSALS and not case.must_work:
                        skipped += 1
                        continue
                    bad = "exit %d: %s" % (code, message) if code else case.compare(got)
                    passed, failed = passed + (not bad), failed + bool(bad)
                    if bad:
                        print("%s on %s (%s) %s: %s"
                              % (case.name, device, name, " ".join(extra), bad), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
