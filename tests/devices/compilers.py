#!/usr/bin/env python3
"""compilers.py: compiles the programs that plans need with several compilers, and prints a table of their
resources. No GPU is needed.

    compilers.py FOLDER [--every N] [--all] [--only WORD] [--on CHIP] [--table FILE] [--jobs N]
                 [--verbose]

FOLDER has the output of plan_programs, cl.txt and cuda.txt, and the texts in cl and cuda. Programs whose text is
the same after the preprocessor count once. If a compiler supports several processors, programs are distributed over
them; with --all every program is compiled for each. Missing compilers are reported and left out.

It fails if a program does not build or leaves a symbol undefined. It also reports programs that spill registers,
and those of the most expensive kernels that keep an array in memory. Standard library only.
"""
import argparse
import collections
import functools
import glob
import multiprocessing
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from test_cuda_compile import Nvrtc, OPTIONS

INTEL = ("skl", "tgllp", "adln", "dg2-g10")
AMD = ("gfx90c", "gfx1030")
NVIDIA = (75, 87, 90, 120)
# Kernels whose loops take most of a frame's time: they must not keep an array in memory.
INNER = ("gemm", "gemm.cu", "lattn", "lattn.cu", "softmax", "softmax.cu", "foveated", "foveated.cu",
         "scan", "scan.cu")


class Program:
    """A line of plan_programs."""

    def __init__(self, line, folder):
        (self.profile, self.kernel, self.file, self.mechanism, path, entries,
         *self.options) = line.split()
        self.path = os.path.join(folder, path)
        self.entries = entries.split(",")
        self.is_cuda = path.endswith(".cu")

    def key(self):
        """The key of the program's row in the table."""
        if self.file == "gemm":
            kind = "half" if "_half_" in self.kernel else self.kernel.split("_")[-2]
            return f"gemm.cl, {kind}"
        name = self.file if self.file.endswith(".cu") else self.file + ".cl"
        if self.file in ("lattn", "lattn.cu", "scan", "scan.cu"):
            return f"{name}, {self.entries[0]}"
        return name

    def types(self):
        given = dict(o[2:].split("=") for o in self.options if o.startswith("-DFV_"))
        return ",".join(given[f"FV_T{i}"] if given[f"FV_HAS{i}"] == "1" else "-" for i in range(9))

    def __str__(self):
        own = [o[2:] for o in self.options[self.options.index("-DFV_HAS8=" + self.last()) + 1:]]
        return f"{self.kernel} {self.types()} {' '.join(own)}"

    def last(self):
        return next(o[-1] for o in self.options if o.startswith("-DFV_HAS8="))


# What a compiler reports for a program. `error`: the build failure or the undefined symbols. Registers
# and bytes are per work-item, but Intel's scratch is per thread, and local memory per work-group.
Verdict = collections.namedtuple("Verdict", "error registers spills private local loops",
                                 defaults=(None, 0, 0, 0, 0, 0))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=600)
    return done.returncode, done.stdout + done.stderr


# ---- clang ----

CLANG = ["-x", "cl", "-Xclang", "-finclude-default-header", "-O2"]
# clang's header declares 8-bit dot products only for targets that say they have them.
DOT = ["-cl-ext=+cl_khr_integer_dot_product", "-D__opencl_c_integer_dot_product_input_4x8bit_packed=1",
       "-Dcl_arm_integer_dot_product_accumulate_int8=1"]


def without_dot(options):
    """The options for a device whose compiler has no 8-bit dot products, as found by the library's probe."""
    return ["-DFV_DOT=0" if o.startswith("-DFV_DOT=") else o for o in options]


def preprocessed(clang, program):
    code, text = run([clang, "-E", "-P", "-x", "cl", *DOT, *program.options, program.path])
    return re.sub(r"(?m)^#pragma OPENCL.*\n", "", text) if code == 0 else " ".join(program.options)


def loops_of(edges):
    """The basic blocks in loops: those that can reach themselves."""
    inside, index, stack, number, low = set(), 0, [], {}, {}
    for root in edges:
        if root in number:
            continue
        work = [(root, iter(edges[root]))]
        number[root] = low[root] = index
        index += 1
        stack.append(root)
        while work:
            block, rest = work[-1]
            for to in rest:
                if to not in edges:
                    continue
                if to not in number:
                    number[to] = low[to] = index
                    index += 1
                    stack.append(to)
                    work.append((to, iter(edges[to])))
                    break
                if to in stack:
                    low[block] = min(low[block], number[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[block])
                if low[block] == number[block]:
                    component = []
                    while not component or component[-1] != block:
                        component.append(stack.pop())
                    if len(component) > 1 or block in edges[block]:
                        inside.update(component)
    return inside


SIZES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8}


def bytes_of(kind):
    """The size of an LLVM type; pointers and structures, which are small or rare, count as 8."""
    total = 1
    while (found := re.match(r"[\[<](\d+) x (.*)[\]>]$", kind)):
        total *= int(found[1])
        kind = found[2]
    return total * SIZES.get(kind, 8)


def private_arrays(body):
    """The bytes of a function's variables that remain in memory, and of those that loops use."""
    size, of = {}, {}
    edges, block, used = {"%entry": []}, "%entry", collections.defaultdict(set)
    for line in body.splitlines():
        if (found := re.match(r"([\w.$-]+):", line)):
            block = "%" + found[1]
            edges[block] = []
        if (found := re.match(r"\s+(%[\w.-]+) = alloca ([^,]+)", line)):
            size[found[1]] = bytes_of(found[2])
            of[found[1]] = {found[1]}
            continue
        names = re.findall(r"%[\w.-]+", line)
        if re.match(r"\s+(br|switch|indirectbr) ", line) or re.match(r"\s+i\d+ \d+, label", line):
            edges[block] += re.findall(r"label (%[\w.-]+)", line)
        # A value computed from an address is an address in the same variable.
        roots = set().union(*(of.get(n, set()) for n in names))
        if (found := re.match(r"\s+(%[\w.-]+) = (getelementptr|bitcast|addrspacecast|phi|select)",
                              line)) and roots:
            of[found[1]] = roots
        elif re.search(r"= load |llvm\.mem(cpy|move)", line):  # a variable that is only written does not count
            used[block] |= roots
    inside = loops_of(edges)
    looped = set().union(*(used[b] for b in inside))
    return sum(size.values()), sum(size[v] for v in looped)


def by_spir(job):
    program, clang = job
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "program.ll")
        code, said = run([clang, "-target", "spir64-unknown-unknown", *CLANG, *DOT,
                          *program.options, "-emit-llvm", "-S", "-o", out, program.path])
        if code:
            return Verdict(said[:2000])
        with open(out) as f:
            text = f.read()
    # Built-in functions are overloaded, so that their names are mangled; those of programs are not.
    missing = re.findall(r"(?m)^declare .*@((?!_Z|llvm\.|__spirv)[\w.]+)\(", text)
    if missing:
        return Verdict("undefined: " + ", ".join(missing))
    private = loops = 0
    for body in re.findall(r"(?m)^define [^\n]*\{\n.*?^\}", text, re.S):
        in_all, in_loops = private_arrays(body)
        private, loops = max(private, in_all), max(loops, in_loops)
    return Verdict(private=private, loops=loops)


def packed_numbers(data, key):
    """The numbers that follow a key in an ELF file's notes, which are in MessagePack."""
    forms = {0xcc: ">B", 0xcd: ">H", 0xce: ">I"}
    at = [found.end() for found in re.finditer(re.escape(key), data)]
    return [data[i] if data[i] < 0x80 else struct.unpack_from(forms[data[i]], data, i + 1)[0]
            for i in at]


def by_amd(job):
    program, clang, library, chip = job
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "program")
        code, said = run([clang, "-target", "amdgcn-amd-amdhsa", "-mcpu=" + chip, "-nogpulib", *CLANG,
                          "-Xclang", "-mlink-builtin-bitcode", "-Xclang", library,
                          *without_dot(program.options), "-o", out, program.path])
        if code and re.search(r"undefined hidden symbol: convert_\w+\(half", said):
            return Verdict()  # libclc has no conversions of float16; AMD's own library has
        if code:
            return Verdict(said[:2000])
        with open(out, "rb") as f:
            data = f.read()
    most = lambda key: max(packed_numbers(data, key), default=0)
    return Verdict(registers=most(b".vgpr_count"), spills=4 * most(b".vgpr_spill_count"),
                   private=most(b".private_segment_fixed_size"),
                   local=most(b".group_segment_fixed_size"))


# ---- Intel ----

MEDIA_VFE_STATE, LOCAL_SURFACE, ENVIRONMENT = 18, 15, 23  # tokens of the fields that a driver patches


def intel_kernels(data):
    """(SIMD width, scratch of a thread, local memory) of the kernels of a program's binary."""
    at = data.index(struct.pack("<I", 1229870147))
    kernels, skip = struct.unpack_from("<I4xI", data, at + 16)
    at += 28 + skip
    for _ in range(kernels):
        name, patches, code, general, dynamic, surface = struct.unpack_from("<6I", data, at + 12)
        at += 40 + name + code + general + dynamic + surface
        end = at + patches
        width = scratch = local = 0
        while at < end:
            token, size = struct.unpack_from("<II", data, at)
            words = struct.unpack_from(f"<{size // 4 - 2}I", data, at + 8)
            if token == MEDIA_VFE_STATE:
                scratch = words[1]
            elif token == LOCAL_SURFACE:
                local = words[1]
            elif token == ENVIRONMENT:
                width = words[3]
            at += size
        yield width, scratch, local


def by_intel(job):
    program, ocloc, chip = job
    with tempfile.TemporaryDirectory() as folder:
        code, said = run([ocloc, "compile", "-file", program.path, "-device", chip, "-out_dir", folder,
                          "-output", "program", "-options", " ".join(without_dot(program.options))])
        binary = glob.glob(os.path.join(folder, "*.bin"))
        if code or not binary:
            return Verdict(said[:2000])
        with open(binary[0], "rb") as f:
            kernels = list(intel_kernels(f.read()))
    return Verdict(registers=min(k[0] for k in kernels), private=max(k[1] for k in kernels),
                   local=max(k[2] for k in kernels))


# ---- NVIDIA ----

nvrtc = Nvrtc()


def by_nvidia(job):
    program, chip = job
    with open(program.path, "rb") as f:
        text = f.read()
    options = [f"--gpu-architecture=sm_{chip}", *OPTIONS, "--ptxas-options=-v", *program.options]
    binary, said = nvrtc.compile(text, options)
    return verdict_of(said) if binary else Verdict(said[:2000])


def verdict_of(said):
    """What ptxas reports with -v."""
    most = lambda words: max(map(int, re.findall(words, said)), default=0)
    return Verdict(registers=most(r"Used (\d+) registers"), spills=most(r"(\d+) bytes spill stores"),
                   private=most(r"(\d+) bytes stack frame"), local=most(r"(\d+) bytes smem"))


# ---- everything ----


def clang_with_library():
    """The newest clang that can read the installed library of built-in functions for AMD's processors."""
    library = "/usr/lib/clc/amdgcn--amdhsa.bc"
    found = [c for c in (f"clang-{v}" for v in range(30, 13, -1)) if shutil.which(c)] + ["clang"]
    for clang in found:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "one.cl")
            with open(path, "w") as f:
                f.write("kernel void one(global float *x) { x[get_global_id(0)] = exp(*x); }\n")
            command = [clang, "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1030", "-nogpulib", *CLANG,
                       "-Xclang", "-mlink-builtin-bitcode", "-Xclang", library,
                       "-o", os.path.join(folder, "one"), path]
            if os.path.exists(library) and shutil.which(clang) and run(command)[0] == 0:
                return clang, library
    return shutil.which("clang"), None


def distinct(pool, clang, programs):
    """Programs whose texts differ after the preprocessor."""
    cl = [p for p in programs if not p.is_cuda]
    found = {}
    for program, text in zip(cl, pool.starmap(preprocessed, [(clang, p) for p in cl], chunksize=16)):
        found.setdefault((program.key(), text), program)
    for program in programs:
        if program.is_cuda:
            found.setdefault((program.key(), program.path, *used_options(program)), program)
    return list(found.values())


@functools.lru_cache(maxsize=None)
def words_of(path):
    with open(path) as f:
        return frozenset(re.findall(r"\w+", f.read()))


def used_options(program):
    """The options that define what the text mentions; names of types and similar ones are pasted together."""
    names = [option[2:].split("=")[0] for option in program.options]
    return tuple(option for option, name in zip(program.options, names)
                 if re.match(r"FV_(T|HAS)\d$", name) or name in words_of(program.path))


def needs_tensor_cores(program):
    return program.file.endswith(".cu")


def jobs_for(programs, every, clang, library, ocloc):
    """(compiler, function, job) of every compilation."""
    count = collections.Counter()

    def chips(compiler, all_chips):
        if every:
            return all_chips
        count[compiler] += 1
        return [all_chips[count[compiler] % len(all_chips)]]

    for program in programs:
        if program.is_cuda:
            if nvrtc.library:
                known = [a for a in NVIDIA if a in nvrtc.architectures() and
                         (a >= 80 or not needs_tensor_cores(program))]
                # Many programs are the same with and without tensor cores.
                for chip in chips(("nvidia", needs_tensor_cores(program)), known):
                    yield program, f"sm_{chip}", by_nvidia, (program, chip)
            continue
        of_intel = "-DFV_SUBGROUP=1" in program.options
        if clang and not of_intel:
            yield program, "spir64", by_spir, (program, clang)
        if library and not of_intel:
            for chip in chips("amd", AMD):
                yield program, chip, by_amd, (program, clang, library, chip)
        if ocloc:
            for chip in chips("intel", INTEL):
                yield program, chip, by_intel, (program, ocloc, chip)


def compile_one(job):
    program, compiler, function, given = job
    return program, compiler, function(given)


COMPILERS = ("spir64", *AMD, *INTEL, *(f"sm_{a}" for a in NVIDIA))


def faults(program, compiler, verdict):
    """The failures in a result."""
    if verdict.error:
        return ["does not build: " + " ".join(verdict.error.split())[:300]]
    found = []
    if verdict.spills:
        found.append(f"{verdict.spills} bytes spilled")
    if compiler == "spir64":
        if verdict.loops and program.file in INNER:
            found.append(f"{verdict.loops} bytes of arrays in loops")
    elif verdict.private and program.file in INNER:
        found.append(f"{verdict.private} bytes of private memory")
    return found


def cell(compiler, verdicts):
    """The worst result in a row for a compiler."""
    if not verdicts:
        return ""
    most = lambda field: max(getattr(v, field) for v in verdicts)
    if any(v.error for v in verdicts):
        return "fails"
    if compiler == "spir64":
        return f"{most('private')}" + (f", {most('loops')}" if most("loops") else "")
    first = f"SIMD{min(v.registers for v in verdicts)}" if compiler in INTEL else str(most("registers"))
    return first + (f", {most('private')}" if most("private") else "") + \
        (f", **{most('spills')}**" if most("spills") else "")


def write_table(path, results):
    rows = collections.defaultdict(lambda: collections.defaultdict(list))
    for program, compiler, verdict in results:
        rows[program.key()][compiler].append(verdict)
    used = [c for c in COMPILERS if any(rows[r][c] for r in rows)]
    lines = ["| kernels | programs | local | " + " | ".join(used) + " |",
             "|---|---:|---:|" + "---:|" * len(used)]
    for key in sorted(rows):
        programs = {id(p) for p, _, _ in results if p.key() == key}
        local = max(v.local for c in used for v in rows[key][c]) if rows[key] else 0
        lines.append(f"| {key} | {len(programs)} | {local} | " +
                     " | ".join(cell(c, rows[key][c]) for c in used) + " |")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--table", default=os.devnull)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--on", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    programs = []
    for name in ("cl", "cuda"):
        with open(os.path.join(options.folder, name + ".txt")) as f:
            programs += [Program(line, os.path.join(options.folder, name)) for line in f]
    programs = [p for p in programs if options.only in p.key()][::options.every]
    clang, library = clang_with_library()
    ocloc = shutil.which("ocloc")
    for there, words in ((clang, "clang"), (library, "a clang that reads libclc's functions for AMD"),
                         (ocloc, "ocloc"), (nvrtc.library, "NVRTC")):
        if not there:
            print(f"skipped: there is no {words} here")
    with multiprocessing.Pool(options.jobs) as pool:
        some = distinct(pool, clang, programs)
        jobs = [j for j in jobs_for(some, options.all, clang, library, ocloc)
                if j[1].startswith(options.on)]
        print(f"{len(programs)} programs, {len(some)} of them distinct: {len(jobs)} to compile",
              flush=True)
        results = []
        for result in pool.imap_unordered(compile_one, jobs, chunksize=4):
            results.append(result)
            program, compiler, verdict = result
            found = faults(program, compiler, verdict)
            if options.verbose or found:
                print(compiler, f"{program}:", "; ".join(found) or verdict, flush=True)
    write_table(options.table, results)
    broken = sum(verdict.error is not None for _, _, verdict in results)
    print(f"{len(results) - broken} passed, {broken} failed, 0 skipped")
    return broken != 0


if __name__ == "__main__":
    sys.exit(main())
