#!/usr/bin/env python3
"""test_cuda_toolkits.py: the CUDA programs of all plans compile with the NVRTC of a CUDA toolkit, for every
architecture from sm_72 on that it supports. No GPU is needed.

    test_cuda_toolkits.py plan_programs EMULATOR FOLDER VERSION... [--sample] [--every N] [--on SM...] [--jobs N]
    test_cuda_toolkits.py FOLDER --compare OLD NEW

VERSION is 11.8, 12.6 or the like, or 13 for the newest one of CUDA 13. pip installs its NVRTC in FOLDER/VERSION. A
program is compiled for the architectures of the devices whose plans need it: sm_72, sm_75, or sm_80 and later.
With --sample one program of each text is compiled, for one architecture, in turn; with --every N every N-th
program; --on 75 87 leaves out other architectures. FOLDER/VERSION.results has the registers and spills of each
compilation, except of a sample. --compare prints them as a table, for the compilations that both toolkits made.
Standard library only.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import glob
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile

from compilers import Program, Verdict, cell, used_options, verdict_of
from test_cuda_compile import Nvrtc, OPTIONS

OLDEST = 72
# The devices whose plans differ: what the emulator presents, and the architectures that it stands for.
DEVICES = {"sm=72": range(72, 75), "sm=75": range(75, 80), "sm=80,units=8": range(80, 1000),
           "sm=80,units=132": range(80, 1000)}


# ---- toolkits ----


def package(version):
    """pip's name for the NVRTC of a version."""
    major = version.partition(".")[0]
    name = "nvidia-cuda-nvrtc" + (f"-cu{major}" if int(major) < 13 else "")
    return f"{name}=={version}.*"


def install(version, folder):
    """Installs NVRTC in the folder; returns why it could not, or None."""
    if os.path.isdir(folder):
        return None
    part = folder + ".part"
    shutil.rmtree(part, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                           "--no-deps", "--target", part, package(version)], capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
        return f"pip cannot install {package(version)}: {' '.join(errors[:2]) or 'it gives no reason'}"
    os.rename(part, folder)
    return None


def opened(folder):
    """The NVRTC in a folder. It opens its second library by name, so this one is opened first."""
    found = lambda name: sorted(glob.glob(f"{folder}/nvidia/*/lib/{name}.so*"))
    for path in found("libnvrtc-builtins"):
        if ".alt." not in path:
            ctypes.CDLL(path)
    return Nvrtc(next(path for path in found("libnvrtc") if ".alt." not in path))


# ---- programs ----


def listed(lister, emulator, folder, device):
    """The programs that plans for a device need, in a folder of its own."""
    os.mkdir(folder)
    told = subprocess.run([lister, "cuda:0", folder, device], capture_output=True, text=True, check=True,
                          env={**os.environ, "FOVEA_CUDA": emulator, "FOVEA_NVRTC": emulator, "FOVEA_CACHE": "",
                               "FOVEA_WISDOM": "", "EMULATED_CUDA": device})
    return [Program(line, folder) for line in told.stdout.splitlines()]


class Census:
    """All programs, each once."""

    def __init__(self, lister, emulator, folder):
        self.programs, self.of = {}, collections.defaultdict(set)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            folders = [os.path.join(folder, f"of_{i}") for i in range(len(DEVICES))]
            for device, programs in zip(DEVICES, pool.map(listed, itertools.repeat(lister),
                                                          itertools.repeat(emulator), folders, DEVICES)):
                for program in programs:
                    key = os.path.basename(program.path), used_options(program)
                    self.programs.setdefault(key, program)
                    self.of[key].update(DEVICES[device])

    def jobs(self, known, every):
        """(program, architecture) of the compilations of every N-th program."""
        for key in sorted(self.programs)[::every]:
            yield from ((self.programs[key], chip) for chip in known if chip in self.of[key])

    def sample(self, known):
        """One compilation of each text."""
        for i, (_, keys) in enumerate(itertools.groupby(sorted(self.programs), lambda key: key[0])):
            jobs = [(self.programs[key], chip) for key in keys for chip in known if chip in self.of[key]]
            if jobs:
                yield jobs[i % len(jobs)]


nvrtc = None  # of a process that compiles


def begin(folder):
    global nvrtc
    nvrtc = opened(folder)


def known_in(folder):
    return [chip for chip in opened(folder).architectures() if chip >= OLDEST]


def compile_one(job):
    program, chip = job
    with open(program.path, "rb") as f:
        text = f.read()
    binary, said = nvrtc.compile(text, [f"--gpu-architecture=sm_{chip}", *OPTIONS, "--ptxas-options=-v",
                                        *program.options])
    if not binary:
        return Verdict(said[:1000] or "NVRTC gives no reason")
    missing = [entry for entry in program.entries if entry.encode() not in binary]
    return Verdict(f"no {' '.join(missing)} in it") if missing else verdict_of(said)


def name_of(program):
    return " ".join([os.path.basename(program.path), *program.options])


def test(version, census, options, counts):
    """Compiles with one toolkit."""
    folder = os.path.join(options.folder, version)
    why = install(version, folder)
    if why:
        print(f"{version}: skipped, {why}")
        counts["skipped"] += 1
        return
    # A process has one version of the library.
    with multiprocessing.Pool(1) as one:
        known = one.apply(known_in, (folder,))
    known = [chip for chip in known if chip in (options.on or known)]
    jobs = list(census.sample(known) if options.sample else census.jobs(known, options.every))
    with open(os.devnull if options.sample else folder + ".results", "w") as results, \
            multiprocessing.Pool(options.jobs, begin, (folder,)) as pool:
        for (program, chip), verdict in zip(jobs, pool.imap(compile_one, jobs, chunksize=4)):
            counts["failed" if verdict.error else "passed"] += 1
            if verdict.error:
                print(f"FAIL {version} sm_{chip} {program}: {verdict.error}", flush=True)
            else:
                print(f"sm_{chip}", program.key(), name_of(program), *verdict[1:], sep="\t", file=results,
                      flush=True)
    print(f"{version}: {len(jobs)} compilations of {len({id(p) for p, _ in jobs})} programs, for " +
          " ".join(f"sm_{chip}" for chip in known), flush=True)


# ---- comparison ----


def read_results(path):
    with open(path) as f:
        for line in f:
            chip, key, program, *numbers = line.rstrip("\n").split("\t")
            yield (chip, key, program), Verdict(None, *map(int, numbers))


def compare(folder, versions):
    """Prints the worst values of each kernel and architecture, with one toolkit next to the other."""
    results = [dict(read_results(os.path.join(folder, version + ".results"))) for version in versions]
    common = sorted(results[0].keys() & results[1].keys())
    chips = sorted({chip for chip, _, _ in common}, key=lambda chip: int(chip[3:]))
    columns = [(chip, i) for chip in chips for i in (0, 1)]
    print("| kernels | programs | " + " | ".join(f"{chip}, {versions[i]}" for chip, i in columns) + " |")
    print("|---|---:|" + "---:|" * len(columns))
    for key in sorted({key for _, key, _ in common}):
        of = [job for job in common if job[1] == key]
        cells = [cell(chip, [results[i][job] for job in of if job[0] == chip]) for chip, i in columns]
        print(f"| {key} | {len({program for _, _, program in of})} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--on", type=int, nargs="+")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--compare", nargs=2)
    options = parser.parse_args()
    if options.compare:
        compare(options.paths[0], options.compare)
        return 0
    lister, emulator, options.folder, *versions = options.paths
    os.makedirs(options.folder, exist_ok=True)
    counts = dict(passed=0, failed=0, skipped=0)
    with tempfile.TemporaryDirectory() as folder:
        census = Census(lister, emulator, folder)
        for version in versions:
            test(version, census, options, counts)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0 if counts["passed"] else 77


if __name__ == "__main__":
    sys.exit(main())
