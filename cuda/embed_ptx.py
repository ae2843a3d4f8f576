"""embed_ptx.py: programs of fallback.txt, compiled by nvcc to PTX, as a C file: for machines that have
no NVRTC.

usage: embed_ptx.py OUT.c NVCC OP_H MECH_DIR FALLBACK_TXT

What was compiled before is kept in the folder OUT.c.kept and taken again if nothing has changed.
Without nvcc (NVCC is "none") the list is empty. nvcc says of its PTX that it is of its own version,
and a driver refuses what is newer than itself; where ptxas agrees, it is said to be of version 7.0,
which every driver of CUDA 11 and later takes.
"""
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

VERSION = "7.0"
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "gpu"))
import embed


class Texts:
    """What programs are put together of, as cuda_texts.c has it."""

    def __init__(self, op_h, mech):
        self.shared, self.cuda, self.mech = ROOT / "gpu/kernels", ROOT / "cuda", mech
        self.names = embed.names(Path(op_h).read_text())

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
    """A line of fallback.txt: file, mechanism or -, architecture, group, flags, epilogue, types of
    the operands or - where there is none, then the kernel's own macros."""

    def __init__(self, line):
        self.file, mechanism, arch, group, flags, epi, types, *own = line.split()
        self.mechanism = "" if mechanism == "-" else mechanism
        self.arch = int(arch)
        self.options = [f"-DFV_GROUP={group}", f"-DFV_FLAGS={flags}", f"-DFV_EPI={epi}"]
        for i, kind in enumerate(types.split(",")):
            self.options.append(f"-DFV_T{i}={'f32' if kind == '-' else kind}")
            self.options.append(f"-DFV_HAS{i}={int(kind != '-')}")
        self.options += ["-D" + macro for macro in own]

    def compile(self, nvcc, text, kept):
        """The PTX, without what only people read; None where nvcc does not take the program: it may
        not know the architecture."""
        command = [nvcc, "-ptx", f"-arch=compute_{self.arch}", "-std=c++17", "-w", *self.options]
        name = hashlib.sha256("\0".join([VERSION, *command, text]).encode()).hexdigest()
        done = kept / (name + ".ptx")
        if not done.exists():
            written = kept / (name + ".cu")
            written.write_text(text)
            told = subprocess.run([*command, written, "-o", kept / (name + ".part")],
                                  capture_output=True, text=True)
            written.unlink()
            if told.returncode:
                print(f"left out: {self.file} {' '.join(command[1:])}: {told.stderr[:300]}")
                return None
            self.lower(nvcc, kept / (name + ".part"))
            os.replace(kept / (name + ".part"), done)
        lines = re.sub(r"//.*", "", done.read_text()).splitlines()
        return "".join(line.strip() + "\n" for line in lines if line.strip())

    def lower(self, nvcc, path):
        """Says that the PTX is of VERSION, if it is."""
        older = path.with_suffix(".older")
        text = re.sub(r'(?m)^\s*\.pragma "used_bytes_mask .*\n', "", path.read_text()) # a hint, of 8.3
        older.write_text(re.sub(r"(?m)^\.version .*", ".version " + VERSION, text, count=1))
        ptxas = shutil.which("ptxas", path=os.pathsep.join([os.path.dirname(nvcc), os.environ["PATH"]]))
        if ptxas and not subprocess.run([ptxas, f"-arch=sm_{self.arch}", "-O0", older, "-o", os.devnull],
                                        capture_output=True).returncode:
            os.replace(older, path)
        else:
            older.unlink()
            print(f"left at its compiler's version: {self.file} {' '.join(self.options)}")


def compiled(nvcc, texts, programs, kept):
    kept.mkdir(exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(p.compile, nvcc, texts.program(p.file, p.mechanism), kept)
                for p in programs]
    return [job.result() for job in jobs]


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
        data = packed(text)
        parts.append(f"static const uint8_t ptx_{i}[] = {{\n{rows(data)}}};")
        options = "".join(" " + option for option in p.options)
        lines.append(f'    {{"{p.file}", "{p.mechanism}", "{options}", {p.arch}, {len(text)}, '
                     f"{len(data)}, ptx_{i}}},")
    return "\n".join([*parts, "const fv_cuda_ptx fv_cuda_ptx_list[] = {", *lines, "    {0},\n};\n"])


def main():
    out, nvcc, op_h, mech, fallback = sys.argv[1:]
    lines = [line for line in Path(fallback).read_text().splitlines() if line and line[0] != "#"]
    programs = [] if nvcc == "none" else [Program(line) for line in lines]
    ptx = compiled(nvcc, Texts(op_h, mech), programs, Path(out + ".kept"))
    Path(out).write_text(table(programs, ptx))


main()
