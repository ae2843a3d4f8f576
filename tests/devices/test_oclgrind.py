#!/usr/bin/env python3
"""test_oclgrind.py: runs kernels in Oclgrind, which simulates a device and reports data races and accesses
outside of buffers.

    test_oclgrind.py path/to/check path/to/fovea path/to/libhostile_cl.so [--long]

Runs the smallest golden operator of every mechanism in both forms, and cases of the kernel checker for
some kernels, with --long for all. Any report is a failure. Kernels with their barriers removed are run first to check
that races are reported. Standard library only.

Programs are compiled without optimisation: an optimiser may move a load before a condition, past which another
work-item writes, and Oclgrind would report a race that the program does not have. Oclgrind is registered as a driver
of the OpenCL loader, because dlsym does not find it when it is run as `oclgrind program`.
"""
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models"))
import test_golden

SOME = ("layernorm", "gemm_f32", "gemm_i8", "gemm_w8", "_elu1", "lattn_apply_mala_cl", "wsoftmax", "softmax_local",
        "softmax_i8", "keys_i8",
        "foveated", "cells", "dwconv", "resize_x")
STATES = ("map_", "mean_", "groupnorm") # nearly all small cases, whose calls continue with the state of earlier ones
DRIVER = "liboclgrind-rt-icd.so"


def driver():
    """The path of Oclgrind as a driver, or None."""
    exe = shutil.which("oclgrind")
    if not exe:
        return None
    root = os.path.dirname(os.path.dirname(os.path.realpath(exe)))
    for folder in ("lib/oclgrind", "lib", "lib64"):
        path = os.path.join(root, folder, DRIVER)
        if os.path.exists(path):
            return path
    return None


def environment(folder, path):
    with open(os.path.join(folder, "oclgrind.icd"), "w") as f:
        f.write(path + "\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("OCL")}
    env.update(OCL_ICD_VENDORS=folder, OCLGRIND_DATA_RACES="1", OCLGRIND_CHECK_API="1",
               OCLGRIND_BUILD_OPTIONS="-O0", OCLGRIND_LOG=os.path.join(folder, "log"),
               FOVEA_CACHE="", # binaries of another compiler cannot be used
               MALLOC_ARENA_MAX="1", MALLOC_MMAP_THRESHOLD_="4294967296",
               MALLOC_TRIM_THRESHOLD_="4294967296") # the system's memory management took two thirds of the time
    return env


def run(command, env, more):
    """Exit status, end of the output, Oclgrind's report."""
    log = env["OCLGRIND_LOG"]
    if os.path.exists(log):
        os.remove(log)
    p = subprocess.run(command, env=dict(env, **more), capture_output=True, text=True,
                       errors="replace")
    report = ""
    if os.path.exists(log):
        with open(log, errors="replace") as f:
            report = f.read().strip()
    return p.returncode, (p.stdout + p.stderr).strip()[-600:], report


def kernels(check, hostile, long):
    """(name, command, environment). The hostile driver's settings enable the kernels for CPUs and keep groups small."""
    lies = {"FOVEA_OPENCL": hostile, "HOSTILE_CL": "vectors=8"}
    small = dict(lies, OCLGRIND_MAX_WGSIZE="32")
    base = [check, "--device", "cl:0", "--small"]
    if long:
        return [("kernels", base + ["30000", "--every", "10"], lies),
                ("kernels, groups of 32", base + ["30000", "--every", "5", "--seed", "2"], small)]
    return [("kernels *%s*" % text, base + list(cases) + ["--kernel", text], small)
            for texts, cases in ((SOME, ("10000", "--every", "180")), (STATES, ("5000", "--every", "2")))
            for text in texts]


def operators(exe, folder):
    """The smallest case of every mechanism, map and direction, in all its forms."""
    least = {}
    for case in test_golden.cases(exe, "ops/"):
        key = [case.meta.get(k) for k in ("mechanism", "causal", "feature_map")]
        size = os.path.getsize(case.command[2])
        if not case.long and size < least.get(tuple(key), (1 << 60, None))[0]:
            least[tuple(key)] = size, case
    out = os.path.join(folder, "out.safetensors")
    runs = []
    for _, case in least.values():
        forms = [["--form", "recurrent"], ["--form", "chunk"]] if case.causal else [[]]
        for form in forms:
            command = case.command + ["--device", "cl:0", "-o", out] + form
            runs.append((" ".join([case.name] + form), command, case))
    return runs, out


def main():
    check, exe, hostile = (os.path.abspath(a) for a in sys.argv[1:4])
    path = driver()
    if not path:
        print("no Oclgrind here; sh platform/setup-debian.sh test installs it")
        print("0 passed, 0 failed, 1 skipped")
        return 77
    passed, failed = 0, 0

    def note(name, bad):
        nonlocal passed, failed
        passed, failed = passed + (not bad), failed + bool(bad)
        if bad:
            print("FAIL %s: %s" % (name, bad), flush=True)

    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder, path)
        racy = {"FOVEA_OPENCL": hostile, "HOSTILE_CL": "barrier=0"}
        _, said, report = run([check, "--device", "cl:0", "--small", "30000", "--every", "3",
                               "--kernel", "layernorm_cl"], env, racy)
        note("kernels without barriers", "" if "data race" in report else "no report: " + said)
        for name, command, more in kernels(check, hostile, "--long" in sys.argv):
            code, said, report = run(command, env, more)
            note(name, report[:2000] or (said if code else ""))
        runs, out = operators(exe, folder)
        for name, command, case in runs:
            code, said, report = run(command, env, {})
            bad = report[:2000] or (said if code else "")
            note(name, bad or case.compare(test_golden.load(out)[0]))
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
