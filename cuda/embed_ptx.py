"""embed_ptx.py: programs of fallback.txt, compiled to PTX, as a C file: for machines that have no
NVRTC.

usage: embed_ptx.py OUT.c NVCC OP_H ACTIVATIONS_INC MECH_DIR FALLBACK_TXT
       embed_ptx.py --fold FALLBACK_TXT LIST...

What was compiled before is kept in the folder OUT.c.kept and taken again if nothing has changed.
Without nvcc (NVCC is "none") the list is empty. The NVRTC that comes with nvcc compiles them where there is
one, because it is several times as fast. Both say of their PTX that it is of their own version, and
a driver refuses what is newer than itself; where ptxas agrees, it is said to be of version 7.0, which
every driver of CUDA 11 and later takes.

Architecture 75 of a program without tensor cores stands for sm_72 and later, where the toolkit supports it.
Architecture 72 stands for a program that only a device without tensor cores asks for; toolkits that do
not support it, those of CUDA 13 and later, leave it out.

--fold renews fallback.txt, whose comments are kept, from lists of cuda_plans --list. What is in
LEFT_OUT is not taken: another choice or another kernel stands in for it, more slowly.
"""
import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import count, product
from pathlib import Path

VERSION = "7.0"
# The lowest tiles of products and the widest, and scans in segments: scan.cu has them without.
LEFT_OUT = re.compile(r" -DFV_BM=32 | -DFV_BN=128 | -DFV_SEGMENTS=1 ")
OPERANDS = 9
PLACES = 8 # as cuda_fallback.c has it
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "gpu"))
import embed


class Texts:
    """What programs are put together of, as cuda_texts.c has it."""

    def __init__(self, op_h, activations, mech):
        self.shared, self.cuda, self.mech = ROOT / "gpu/kernels", ROOT / "cuda", mech
        self.names = embed.names(op_h, activations)

    def program(self, name, mechanism):
        own = embed.source
        both = lambda path: embed.for_both(own(path))
        parts = [self.names, own(self.cuda / "cuda_ptx.h"), own(self.cuda / "cuda_prelude.h"),
                 both(self.shared / "prelude.cl")]
        if mechanism:
            parts += [both(self.shared / "vocabulary.cl"),
                      embed.mechanism_text(self.mech, mechanism)]
        parts.append(both(self.cuda / name if name.endswith(".cu")
                          else self.shared / (name + ".cl")))
        return "\n".join(parts) + "\n"


class Program:
    """A program's fields: file, mechanism or -, architecture, group, flags, epilogue, types of the
    operands or - where there is none, then the kernel's own macros. A line of fallback.txt is such
    fields; a field with a|b stands for several programs, one for each. A program that does
    not belong to a step has - for its flags, epilogue and types."""

    def __init__(self, fields):
        self.fields = tuple(fields)
        self.file, mechanism, arch, group, flags, epi, types, *own = fields
        self.mechanism = "" if mechanism == "-" else mechanism
        self.arch = int(arch)
        self.options = [f"-DFV_GROUP={group}"]
        if flags != "-":
            self.options += [f"-DFV_FLAGS={flags}", f"-DFV_EPI={epi}"]
            for i, kind in enumerate(types.split(",")):
                self.options.append(f"-DFV_T{i}={'f32' if kind == '-' else kind}")
                self.options.append(f"-DFV_HAS{i}={int(kind != '-')}")
        self.options += ["-D" + macro for macro in own]

    @classmethod
    def of(cls, text):
        """From what cuda_plans --list says of it: file, mechanism, architecture, options."""
        file, mechanism, arch, *options = text.split()
        value = dict(option.removeprefix("-D").split("=") for option in options)
        first = [value.pop("FV_" + name, "-") for name in ("GROUP", "FLAGS", "EPI")]
        types = []
        for i in range(OPERANDS if "FV_T0" in value else 0):
            kind = value.pop(f"FV_T{i}")
            types.append(kind if value.pop(f"FV_HAS{i}") == "1" else "-")
        made = cls([file, mechanism, arch, *first, ",".join(types) or "-",
                    *(f"{name}={number}" for name, number in value.items())])
        if made.options != options:
            raise ValueError(f"another order of options than fallback.txt has: {text}")
        return made

    def target(self, known):
        """The architecture to compile for, of those that a compiler knows, or None."""
        if self.arch == 75 and not self.file.endswith(".cu") and 72 in known:
            return 72
        return None if self.arch == 72 and 72 not in known else self.arch

    def compile(self, compiler, text, kept):
        """The PTX, without what only people read; None where the compiler does not take the program:
        it may not know the architecture."""
        command = [compiler.version, f"compute_{self.arch}", *self.options]
        name = hashlib.sha256("\0".join([VERSION, *command, text]).encode()).hexdigest()
        done = kept / (name + ".ptx")
        if not done.exists():
            ptx, told = compiler.ptx(text, f"compute_{self.arch}", self.options, kept / name)
            if ptx is None:
                print(f"left out: {' '.join(self.fields)}: {told[:300]}")
                return None
            part = kept / (name + ".part")
            part.write_text(ptx)
            self.lower(compiler.ptxas, part)
            os.replace(part, done)
        lines = re.sub(r"//.*", "", done.read_text()).splitlines()
        return "".join(line.strip() + "\n" for line in lines if line.strip())

    def lower(self, ptxas, path):
        """Says that the PTX is of VERSION, if it is."""
        older = path.with_suffix(".older")
        text = re.sub(r'(?m)^\s*\.pragma "used_bytes_mask .*\n', "", path.read_text()) # a hint, of 8.3
        older.write_text(re.sub(r"(?m)^\.version .*", ".version " + VERSION, text, count=1))
        if ptxas and not subprocess.run([ptxas, f"-arch=sm_{self.arch}", "-O0", older, "-o", os.devnull],
                                        capture_output=True).returncode:
            os.replace(older, path)
        else:
            older.unlink()
            print(f"left at its compiler's version: {' '.join(self.fields)}")


def choices(field):
    name, equals, values = field.rpartition("=")
    return [name + equals + value for value in values.split("|")]


def listed(fallback):
    """The programs of fallback.txt."""
    for line in Path(fallback).read_text().splitlines():
        if line and line[0] != "#":
            yield from map(Program, product(*map(choices, line.split())))


# ---- compilers ----

class Nvcc:
    def __init__(self, nvcc):
        self.nvcc = nvcc
        self.ptxas = shutil.which("ptxas", path=os.pathsep.join([os.path.dirname(nvcc), os.environ["PATH"]]))
        self.version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout

    def architectures(self):
        told = subprocess.run([self.nvcc, "--list-gpu-arch"], capture_output=True, text=True).stdout
        return [int(number) for number in re.findall(r"compute_(\d+)$", told, re.M)]

    def ptx(self, text, arch, options, path):
        """The PTX, or None and what the compiler said."""
        source, out = path.with_suffix(".cu"), path.with_suffix(".nvcc")
        source.write_text(text)
        told = subprocess.run([self.nvcc, "-ptx", "-arch=" + arch, "-std=c++17", "-w", *options, source,
                               "-o", out], capture_output=True, text=True)
        ptx = None if told.returncode else out.read_text()
        source.unlink()
        out.unlink(missing_ok=True)
        return ptx, told.stderr


class Nvrtc(Nvcc):
    """The library, called as cuda_program.c calls it."""

    def __init__(self, nvcc, library):
        super().__init__(nvcc)
        self.library = ctypes.CDLL(library)
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = f"NVRTC {major.value}.{minor.value}"

    def call(self, name, *arguments):
        error = getattr(self.library, name)(*arguments)
        if error:
            raise OSError(f"{name}: NVRTC error {error}")

    def architectures(self):
        length = ctypes.c_int()
        self.call("nvrtcGetNumSupportedArchs", ctypes.byref(length))
        known = (ctypes.c_int * length.value)()
        self.call("nvrtcGetSupportedArchs", known)
        return list(known)

    def string(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        self.call(f"nvrtcGet{what}", program, text)
        return text.value.decode()

    def ptx(self, text, arch, options, path):
        all_options = ["--gpu-architecture=" + arch, "-std=c++17", "-default-device", "-w", *options]
        array = (ctypes.c_char_p * len(all_options))(*(o.encode() for o in all_options))
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), text.encode(), b"program.cu", 0, None, None)
        try:
            if self.library.nvrtcCompileProgram(program, len(all_options), array):
                return None, self.string(program, "ProgramLog")
            return self.string(program, "PTX"), ""
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


def compiler_of(nvcc):
    root = Path(nvcc).resolve().parent.parent
    for path in sorted([*root.glob("lib64/libnvrtc.so*"), *root.glob("lib/*/libnvrtc.so*")]):
        try:
            return Nvrtc(nvcc, str(path))
        except OSError:
            continue
    return Nvcc(nvcc)


def compiled(nvcc, texts, programs, kept):
    """The programs that the compiler supports, for the architecture to compile each for, and their PTX."""
    kept.mkdir(exist_ok=True)
    compiler = compiler_of(nvcc)
    known = compiler.architectures()
    for p in programs:
        p.arch = p.target(known)
    programs = [p for p in programs if p.arch]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(p.compile, compiler, texts.program(p.file, p.mechanism), kept)
                for p in programs]
    return programs, [job.result() for job in jobs]


# ---- the C text ----

def near(text):
    """Each register's number as what it differs by from the last one of its class at its place of a
    line: unrolled code repeats itself then, and half as much is left of it. cuda_fallback.c has the
    way back."""
    last = {}
    out = []
    for line in text.splitlines(True):
        places = count()

        def difference(found):
            kind, number = found.group(1), int(found.group(2))
            place = kind, min(next(places), PLACES - 1)
            before = last.get(place, 0)
            last[place] = number
            return f"%{kind}{number - before}"
        out.append(re.sub(r"%([a-z]+)(\d+)", difference, line))
    return "".join(out)


def packed(text):
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflate.compress(text.encode()) + deflate.flush()


def rows(data):
    text = ",".join(map(str, data))
    return "\n".join(re.findall(r".{1,96}(?:,|$)", text))


def table(programs, ptx):
    """The C text of the list."""
    parts = ["/* Written by embed_ptx.py. */", '#include "cuda/cuda_sources.h"']
    lines = []
    for i, (p, text) in enumerate(zip(programs, ptx)):
        if text is None:
            continue
        short = near(text)
        data = packed(short)
        parts.append(f"static const uint8_t ptx_{i}[] = {{\n{rows(data)}}};")
        options = "".join(" " + option for option in p.options)
        lines.append(f'    {{"{p.file}", "{p.mechanism}", "{options}", {p.arch}, {len(text)}, '
                     f"{len(short)}, {len(data)}, {zlib.adler32(text.encode())}u, ptx_{i}}},")
    return "\n".join([*parts, "const fv_cuda_ptx fv_cuda_ptx_list[] = {", *lines, "    {0},\n};\n"])


# ---- the list ----

def merged(lines, i):
    """Lines that differ in field i alone, as one."""
    out = {}
    for line in lines:
        out.setdefault((line[:i], line[i + 1:]), set()).update(line[i])
    return {(*before, frozenset(field), *after) for (before, after), field in out.items()}


def folded(programs):
    """As few lines as come of merging the field first that saves most. Their macros are the same."""
    lines = {tuple(frozenset([field]) for field in p) for p in programs}
    left = list(range(len(next(iter(lines)))))
    while left:
        best = min(left, key=lambda i: len(merged(lines, i)))
        lines = merged(lines, best)
        left.remove(best)
    for line in lines:
        fields = []
        for field in line:
            name, equals, _ = next(iter(field)).rpartition("=")
            values = sorted((value.removeprefix(name + equals) for value in field),
                            key=lambda v: (not v.isdigit(), int(v) if v.isdigit() else 0, v))
            fields.append(name + equals + "|".join(values))
        yield " ".join(fields)


def with_arch(fields, arch):
    return (*fields[:2], arch, *fields[3:])


def fold(fallback, lists):
    programs = set()
    for path in lists:
        for line in Path(path).read_text().splitlines():
            for choice in line.split("\t"):
                if not LEFT_OUT.search(choice + " "):
                    programs.add(Program.of(choice).fields)
    kinds = {}
    for p in programs:
        if p[2] != "72" or with_arch(p, "75") not in programs:
            kind = (p[0], *(field.partition("=")[0] for field in p[7:]))
            kinds.setdefault(kind, set()).add(p)
    lines = sorted(line for programs in kinds.values() for line in folded(programs))
    fallback = Path(fallback)
    comments = [line for line in fallback.read_text().splitlines() if line.startswith("#")]
    fallback.write_text("\n".join([*comments, *lines]) + "\n")


def main():
    if sys.argv[1] == "--fold":
        fold(sys.argv[2], sys.argv[3:])
        return
    out, nvcc, op_h, activations, mech, fallback = sys.argv[1:]
    programs = [] if nvcc == "none" else list(listed(fallback))
    texts = Texts(op_h, activations, mech)
    ptx = []
    if programs:
        programs, ptx = compiled(nvcc, texts, programs, Path(out + ".kept"))
    Path(out).write_text(table(programs, ptx))


if __name__ == "__main__":
    main()
