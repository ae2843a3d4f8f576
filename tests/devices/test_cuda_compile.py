#!/usr/bin/env python3
"""test_cuda_compile.py: every CUDA program compiles for every architecture that the installed toolkit
supports: with NVRTC as in the library, and with nvcc as in the build. No GPU is needed.

    test_cuda_compile.py path/to/cuda_programs [--long] [--jobs N]

The programs are those that the cases of the kernel checker need. One program of each kernel function and
mechanism is compiled, for alternating architectures; with --long, all are compiled for one architecture, and a part
of them for the others. Unsupported architectures are counted as skipped. Standard library only.
"""
import argparse
import ctypes
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile

ARCHITECTURES = (72, 75, 80, 86, 87, 89, 90, 100, 120)
NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so")
FOLDERS = ("", "/usr/local/cuda/lib64/")
OPTIONS = ["-std=c++17", "-default-device", "-w"]


class Nvrtc:
    """NVIDIA's compiler as a library: the installed one, or the file at a path."""

    def __init__(self, path=None):
        self.library = None
        for name in [path] if path else map("".join, itertools.product(FOLDERS, NAMES)):
            try:
                self.library = ctypes.CDLL(name)
                break
            except OSError:
                pass

    def architectures(self):
        count = ctypes.c_int()
        self.library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        known = (ctypes.c_int * count.value)()
        self.library.nvrtcGetSupportedArchs(known)
        return list(known)

    def text(self, program, what):
        """A text of the compiler about a program: "ProgramLog" or "CUBIN"."""
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        out = ctypes.create_string_buffer(size.value)
        getattr(self.library, "nvrtcGet" + what)(program, out)
        return out.raw

    def compile(self, text, options):
        """The binary, or None, and the compiler's messages."""
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text, b"program.cu", 0, None, None)
        given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        failed = self.library.nvrtcCompileProgram(program, len(options), given)
        log = self.text(program, "ProgramLog").decode(errors="replace").strip("\0\n")
        binary = None if failed else self.text(program, "CUBIN")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return binary, log


class Program:
    """A line of cuda_programs."""

    def __init__(self, line):
        since, self.kernel, self.file, self.mechanism, self.entry, *self.options = line.split()
        self.since = int(since)

    def __str__(self):
        return f"{self.kernel} ({self.file} {self.mechanism} {' '.join(self.options)})"


nvrtc = Nvrtc()
texts = {} # by file and mechanism


def by_nvrtc(job):
    """What is wrong with a program for an architecture, or None."""
    program, arch = job
    options = [f"--gpu-architecture=sm_{arch}", *OPTIONS, *program.options]
    binary, log = nvrtc.compile(texts[program.file, program.mechanism], options)
    if not binary:
        return f"sm_{arch} {program}: {log[:1000]}"
    return None if program.entry.encode() in binary else f"sm_{arch} {program}: no {program.entry}"


def by_nvcc(job):
    program, arch, nvcc = job
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.cu")
        with open(path, "wb") as f:
            f.write(texts[program.file, program.mechanism])
        done = subprocess.run([nvcc, "-cubin", f"-arch=sm_{arch}", "-std=c++17", "-w", *program.options,
                               path, "-o", os.path.join(folder, "program.cubin")],
                              capture_output=True, text=True, timeout=600)
    if done.returncode:
        return f"nvcc sm_{arch} {program}: {done.stderr[:1000]}"
    return None


def first_of_each(programs, key):
    found = {}
    for program in programs:
        found.setdefault(key(program), program)
    return list(found.values())


def jobs_for(programs, known, long):
    """(program, architecture) of the compilations with NVRTC."""
    functions = first_of_each(programs, lambda p: (p.file, p.mechanism, p.entry, p.since))
    kernels = first_of_each(programs, lambda p: (p.kernel, p.options[0]))
    if long:
        main = 80 if 80 in known else known[-1]
        jobs = [(p, main) for p in programs] + [(p, a) for a in known if a != main for p in kernels]
    else:
        jobs = [(p, known[i % len(known)]) for i, p in enumerate(functions)]
    # A program for which an architecture is too old is compiled for the next one. Programs for the tensor
    # cores of sm_75 are for sm_75 alone.
    next_one = lambda p: min(k for k in known if k >= p.since)
    return [(p, next_one(p) if a < p.since or p.since == 75 else a) for p, a in jobs]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    counts = dict(passed=0, failed=0, skipped=0)

    def verdicts(wrong):
        for words in wrong:
            counts["failed" if words else "passed"] += 1
            if words:
                print("FAIL", words, flush=True)

    lines = subprocess.run([options.programs], capture_output=True, text=True, check=True).stdout
    programs = [Program(line) for line in lines.splitlines()]
    for program in programs:
        key = program.file, program.mechanism
        if key not in texts:
            texts[key] = subprocess.run([options.programs, *key], capture_output=True,
                                        check=True).stdout
    nvcc = shutil.which("nvcc", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if nvrtc.library:
        known = [a for a in ARCHITECTURES if a in nvrtc.architectures()]
        for arch in ARCHITECTURES:
            if arch not in known:
                print(f"sm_{arch}: skipped, this NVRTC does not know it")
                counts["skipped"] += 1
        with multiprocessing.Pool(options.jobs) as pool:
            jobs = jobs_for(programs, known, options.long)
            verdicts(pool.imap(by_nvrtc, jobs, chunksize=4))
            print(f"NVRTC: {len(jobs)} programs, for " + " ".join(f"sm_{a}" for a in known))
            if nvcc:
                files = first_of_each(programs, lambda p: p.file if options.long else p.since)
                verdicts(pool.imap(by_nvcc, [(p, p.since or 80, nvcc) for p in files]))
                print(f"nvcc: {len(files)} programs")
    else:
        print("skipped: no libnvrtc here; NVIDIA's CUDA toolkit has it")
        counts["skipped"] += 1
    if not nvcc:
        print("nvcc: skipped, there is none here")
        counts["skipped"] += 1
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] else 0 if counts["passed"] else 77


if __name__ == "__main__":
    sys.exit(main())
