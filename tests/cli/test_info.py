#!/usr/bin/env python3
"""test_info.py: `fovea info` reports in one line each which part of OpenCL is missing, and whether compilers work.

    test_info.py path/to/fovea [CUDA_EMULATOR]

Standard library only.
"""
import json
import os
import subprocess
import sys
import tempfile


def info(exe, settings, *options):
    env = {k: v for k, v in os.environ.items() if k != "RUSTICL_ENABLE"}
    p = subprocess.run([exe, "info", *options], capture_output=True, text=True,
                       env={**env, **settings})
    return p.returncode, p.stdout


def states(exe, settings):
    """Runs `fovea info`; returns its lines about OpenCL, and the ids of OpenCL devices."""
    code, text = info(exe, settings)
    if code:
        return ["exit %d" % code], []
    ids = [d["id"] for d in json.loads(info(exe, settings, "--json")[1])["devices"]]
    return ([line for line in text.split("\n") if line.startswith("cl: ")],
            [i for i in ids if i.startswith("cl:")])


def compilers(exe, folder):
    """Says of every device whether its compiler works, and of PoCL whether it can write to its own cache."""
    cache = {"FOVEA_CACHE": os.path.join(folder, "kernels")}
    pocl = [d for d in json.loads(info(exe, cache, "--json")[1])["devices"]
            if d["driver"].startswith("Portable Computing Language")]
    if not pocl:
        return [None, None]
    text = info(exe, cache)[1]
    works = pocl[0]["compiler"] == "works" and "\n         compiler works\n" in text
    file = os.path.join(folder, "file")
    open(file, "w").close()
    settings = {"FOVEA_CACHE": "", "POCL_CACHE_DIR": file}
    quirks = [d["quirks"] for d in json.loads(info(exe, settings, "--json")[1])["devices"] if d["id"] == pocl[0]["id"]]
    told = "cannot write to its own cache %s (POCL_CACHE_DIR)" % file in quirks[0]
    if not works or not told:
        print("compilers: %s, %s" % (pocl[0], quirks))
    return [works, told]


def nvrtc(exe, folder, emulator):
    """Says of a CUDA device whether NVRTC compiles for it, and nothing of a compiler where NVRTC is missing."""
    settings = {"FOVEA_CACHE": os.path.join(folder, "cuda"), "FOVEA_CUDA": emulator}
    told = []
    for library in emulator, "missing":
        devices = json.loads(info(exe, dict(settings, FOVEA_NVRTC=library), "--json")[1])["devices"]
        told += [(d["compiler"], "no NVRTC" in d["quirks"]) for d in devices if d["id"] == "cuda:0"]
    right = told == [("works", False), ("", True)]
    if not right:
        print("nvrtc: %s" % told)
    return right


def main():
    exe = os.path.abspath(sys.argv[1])
    passed, failed, skipped = 0, 0, 0
    have = {"OCL_ICD_VENDORS": "libOpenCL.so" in states(exe, {})[0][0],
            "rusticl": os.path.exists("/etc/OpenCL/vendors/rusticl.icd")}
    with tempfile.TemporaryDirectory() as folder:
        empty = os.path.join(folder, "empty")
        vendors = os.path.join(folder, "vendors")
        os.mkdir(empty)
        os.mkdir(vendors)
        with open(os.path.join(vendors, "rusticl.icd"), "w") as f:
            f.write("libRusticlOpenCL.so.1\n")
        broken = os.path.join(folder, "broken")
        os.mkdir(broken)
        for name in ("lost", "rusticl"):
            with open(os.path.join(broken, name + ".icd"), "w") as f:
                f.write("/none/libLost.so\n" if name == "lost" else "libRusticlOpenCL.so.1\n")
        lost = os.path.join(broken, "lost.icd")
        reason = ("the driver that lost.icd names cannot be opened", "/none/libLost.so", "No such file")
        cases = [
            ("no library", {"FOVEA_OPENCL": "/none/libOpenCL.so"}, ("cannot be opened", "unset")),
            ("another library", {"FOVEA_OPENCL": "libm.so.6"}, ("lacks cl", "OpenCL 1.2")),
            ("no .icd file", {"OCL_ICD_VENDORS": empty}, ("finds no driver", ".icd", "install")),
            ("a platform without devices", {"OCL_ICD_VENDORS": vendors},
             ("have no device", "rusticl", "RUSTICL_ENABLE")),
            ("an .icd file of a library that is lost", {"OCL_ICD_VENDORS": lost}, reason),
            ("the same beside another driver", {"OCL_ICD_VENDORS": broken}, reason + ("rusticl",)),
        ]
        for name, settings, words in cases:
            if not all(there for what, there in have.items() if what in settings or what in words):
                skipped += 1
                continue
            lines, devices = states(exe, settings)
            good = len(lines) == 1 and all(w in lines[0] for w in words) and not devices
            passed, failed = passed + good, failed + (not good)
            if not good:
                print("%s: %s, devices: %s" % (name, lines, devices))
        emulator = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
        for good in compilers(exe, folder) + [nvrtc(exe, folder, emulator) if emulator else None]:
            passed, failed, skipped = passed + (good is True), failed + (good is False), skipped + (good is None)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
