#!/usr/bin/env python3
"""test_inner_loops.py: checks the machine code of the inner loops of GEMM and attention.

    test_inner_loops.py path/to/build [--verbose]

Compiles the templates of platform/cpu/tmpl with the flags of the build, for NEON and the levels above it with
every installed compiler for AArch64, and for the levels of x86 with the compiler of a build for them, and
disassembles them. The hot loop is the innermost one with the most multiply-adds of the kernel's kind. In it no
instruction may access the stack, and the share of multiply-adds among all vector instructions must reach the
kernel's minimum: one for counting a load of two registers as two instructions, one for counting it as one. The check
itself is tested on loops that must fail: the same with more loads, the same with a spill, and one that was compiled
with half of the registers. Standard library only.
"""
import collections
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TEMPLATE = "tmpl/%s_tmpl.c"
SDOT = "-march=armv8.2-a+fp16+dotprod"
# Kernels: template, level, multiply-adds, what marks loops of others in the same file, the least shares,
# flags (of x86 they are the build's). A product of 2 x 2 rows and columns is worth two or more of the others; as tiles of 32 registers
# have it, its share by registers is 0.72 at most. Sums of float16 are added; the loop has no plain
# product, which the polynomials of epilogues have, and those may hold more multiply-adds than it.
Kernel = collections.namedtuple("Kernel", "template level add other least least_plain flags")
KERNELS = [
    Kernel("gemm", "NEON", r"fmla\s.*\.4s", r"fcvtl|shll", 0.80, 0.80, []),
    Kernel("gemm", "NEON_FP16", r"fmla\s", r"fmul", 0.50, 0.50, ["-march=armv8.2-a+fp16"]),
    Kernel("gemm", "NEON_DOT", r"bfmmla", r"^$", 0.72, 0.80, [SDOT + "+bf16"]),
    Kernel("gemm_bf16", "NEON_DOT", r"bfmmla", r"^$", 0.70, 0.75, [SDOT + "+bf16"]),
    Kernel("gemm_i8", "NEON_SDOT", r"sdot", r"^$", 0.80, 0.80, [SDOT]),
    Kernel("gemm_i8", "NEON_I8MM", r"smmla", r"^$", 0.70, 0.75, [SDOT + "+bf16+i8mm"]),
    Kernel("softmax_i8", "NEON_SDOT", r"sdot", r"^$", 0.75, 0.80, [SDOT]),
    Kernel("softmax_i8", "NEON_I8MM", r"smmla", r"^$", 0.65, 0.75, [SDOT + "+bf16+i8mm"]),
    Kernel("wsoftmax_i8", "NEON_SDOT", r"sdot", r"^$", 0.75, 0.80, [SDOT]),
    Kernel("wsoftmax_i8", "NEON_I8MM", r"smmla", r"^$", 0.65, 0.75, [SDOT + "+bf16+i8mm"]),
]
# Every product of 16 bits is followed by an addition.
KERNELS_X86 = [
    Kernel("gemm", "AVX2", r"vfmadd\w+ps", r"vmulps|vaddps", 0.58, 0.58, []),
    Kernel("gemm_i8", "AVX2", r"vpmaddwd", r"^$", 0.34, 0.34, []),
    Kernel("gemm_i8", "AVX512", r"vpmaddwd", r"^$", 0.38, 0.38, []),
    Kernel("gemm_i8", "AVX_VNNI", r"(\{vex\} )?vpdpbusd", r"^$", 0.58, 0.58, []),
    Kernel("gemm_i8", "AVX512_VNNI", r"vpdpbusd", r"^$", 0.68, 0.68, []),
    Kernel("gemm", "AVX512_BF16", r"vdpbf16ps", r"^$", 0.61, 0.61, []),
    Kernel("softmax_i8", "AVX2", r"vpmaddwd", r"^$", 0.34, 0.34, []),
    Kernel("softmax_i8", "AVX_VNNI", r"(\{vex\} )?vpdpbusd", r"^$", 0.60, 0.60, []),
    Kernel("softmax_i8", "AVX512_VNNI", r"vpdpbusd", r"^$", 0.66, 0.66, []),
    Kernel("wsoftmax_i8", "AVX_VNNI", r"(\{vex\} )?vpdpbusd", r"^$", 0.60, 0.60, []),
    Kernel("wsoftmax_i8", "AVX512_VNNI", r"vpdpbusd", r"^$", 0.66, 0.66, []),
    Kernel("softmax_bf16", "AVX512_BF16", r"vdpbf16ps", r"^$", 0.63, 0.63, []),
]
TAKES_VALUE = ("-o", "-MF", "-MQ", "-MT")
LEFT_OUT = re.compile(r"-M[DP]?$|-c$|-DFV_(ISA|ARCH|LEVEL)_|-fsanitize|-m[a-z0-9-]+(=.*)?$|--coverage")
LEFT_OUT_ALWAYS = re.compile(r"-M[DP]?$|-c$|-DFV_ISA_|-fsanitize|--coverage")

Loop = collections.namedtuple("Loop", "adds vectors pairs stack")


class Arm64:
    """The syntax of AArch64's instructions, and the compilers for it."""
    kernels = KERNELS
    branch = re.compile(r"(?:b\.\w+|b|cbn?z|tbn?z)\s+(?:.*,\s*)?(?:0x)?([0-9a-f]+)\b")
    vector = re.compile(r"\b[vqdsh]\d+\b")
    stack, comment, load, spill = ("[sp", "[x29"), "//", "ldr q0, [x0]", "str q0, [sp, #16]"

    def __init__(self, build):
        self.where, self.flags, self.templates = build_flags(build, "C")[1:]
        self.flags = self.flags + ["-DFV_ARCH_ARM64"] + [
            "-DFV_LEVEL_NEON_" + name for name in ("FP16", "SDOT", "DOT", "I8MM")]
        self.compilers = []
        if shutil.which("aarch64-linux-gnu-gcc"):
            self.compilers.append(["aarch64-linux-gnu-gcc"])
        if shutil.which("clang") and os.path.isdir("/usr/aarch64-linux-gnu/include"):
            self.compilers.append(["clang", "--target=aarch64-linux-gnu", "-isystem",
                                   "/usr/aarch64-linux-gnu/include"])
        self.objdump = shutil.which("aarch64-linux-gnu-objdump") or "llvm-objdump"

    def flags_of(self, kernel):
        return self.flags + kernel.flags + ["-DFV_ISA_" + kernel.level]


class X86:
    branch = re.compile(r"j\w+\s+(?:0x)?([0-9a-f]+)\b")
    vector = re.compile(r"%[xyz]mm\d+\b")
    stack, comment, load, spill = ("(%rsp", "(%rbp"), "#", "vmovups (%rax),%ymm0", "vmovups %ymm0,(%rsp)"

    def __init__(self, build):
        self.build = build
        compiler, self.where, _, self.templates = build_flags(build, "C")
        levels = all_flags(build)
        self.compilers = [compiler] if "-DFV_ARCH_X86" in levels else []
        self.kernels = [k for k in KERNELS_X86 if "-DFV_ISA_" + k.level in levels]  # the compiler may lack some
        self.objdump = "objdump"

    def flags_of(self, kernel):
        return build_flags(self.build, kernel.level, LEFT_OUT_ALWAYS)[2] + ["-DFV_ISA_" + kernel.level]


def commands(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        return [(c, shlex.split(c["command"])) for c in json.load(f)]


def all_flags(build):
    return set(w for c, words in commands(build) if c["file"].endswith("_tmpl.c") for w in words)


def build_flags(build, level, left_out=LEFT_OUT):
    """The compiler of a level's kernels, its working directory and flags in the build (without those for outputs),
    and the folder of the templates."""
    for c, words in commands(build):
        if not c["file"].endswith(TEMPLATE % "gemm_i8") and not c["file"].endswith(TEMPLATE % "gemm"):
            continue
        if "-DFV_ISA_" + level not in words or "-include" in words:  # emulated for tests
            continue
        first = next(i for i, w in enumerate(words) if w.startswith("-"))
        flags, skip = [], False
        for word in words[first:]:
            if not skip and word not in TAKES_VALUE and word != c["file"] and not left_out.match(word):
                flags.append(word)
            skip = not skip and word in TAKES_VALUE
        compiler = [w for w in words[:first] if not w.endswith("ccache")]
        return compiler, c["directory"], flags, c["file"][:c["file"].rindex("tmpl/")]
    raise SystemExit("the build does not compile products of " + level)


def disassemble(arch, compiler, kernel, more, folder):
    output, source = os.path.join(folder, "kernel.o"), arch.templates + TEMPLATE % kernel.template
    subprocess.run(compiler + arch.flags_of(kernel) + more + ["-c", source, "-o", output], cwd=arch.where,
                   check=True)
    said = subprocess.run([arch.objdump, "-d", "--no-show-raw-insn", output], capture_output=True,
                          text=True, check=True)
    functions = [[]]
    for line in said.stdout.split("\n"):
        if re.match(r"[0-9a-f]+ <.*>:$", line):
            functions.append([])
        m = re.match(r"\s*([0-9a-f]+):\s+(.*)$", line)
        if m:
            functions[-1].append((int(m.group(1), 16), m.group(2)))
    return functions


def innermost(arch, code):
    """The bodies of the innermost loops of a function."""
    spans = []
    for at, text in code:
        m = arch.branch.match(text)
        if m and int(m.group(1), 16) <= at:
            spans.append((int(m.group(1), 16), at))
    for low, high in spans:
        if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in spans):
            yield [text for at, text in code if low <= at <= high]


def measure(arch, body, add):
    vectors = [text for text in body if arch.vector.search(text.split(arch.comment)[0])]
    return Loop(sum(bool(re.match(add, text)) for text in body), len(vectors),
                sum(text.startswith("ldp") for text in vectors),
                sum(any(at in text for at in arch.stack) for text in body))


def hot_loop(arch, functions, kernel):
    """The text of the hot loop."""
    found = [[]]
    for code in functions:
        found += [body for body in innermost(arch, code)
                  if not any(re.match(kernel.other, t) for t in body)]

    def size(body):
        loop = measure(arch, body, kernel.add)
        return loop.adds, -loop.vectors
    return max(found, key=size)


def fault(loop, kernel):
    if not loop.adds:
        return "no loop with multiply-adds"
    if loop.stack:
        return "%d instructions touch the stack" % loop.stack
    for least, vectors in ((kernel.least, loop.vectors + loop.pairs),
                           (kernel.least_plain, loop.vectors)):
        if loop.adds < least * vectors:
            return "less than %.2f of its vector instructions are multiply-adds" % least
    return None


def describe(loop):
    return "%d multiply-adds of %d vector instructions, %d of them loads of two registers: %.3f, %.3f" % (
        loop.adds, loop.vectors, loop.pairs, loop.adds / max(loop.vectors, 1),
        loop.adds / max(loop.vectors + loop.pairs, 1))


class Count:
    def __init__(self, verbose):
        self.passed = self.failed = 0
        self.verbose = verbose

    def note(self, arch, what, body, kernel, good=True):
        """Checks one loop; `good`: whether it must pass or must fail."""
        loop = measure(arch, body, kernel.add)
        wrong = fault(loop, kernel)
        right = good == (wrong is None)
        self.passed, self.failed = self.passed + right, self.failed + (not right)
        if self.verbose or not right:
            print("%s%s, %s %s: %s; %s" % ("" if right else "FAIL ", what, kernel.template, kernel.level,
                                           describe(loop), wrong or "good"))


def main(argv):
    build, count, found = os.path.abspath(argv[0]), Count("--verbose" in argv), 0
    with tempfile.TemporaryDirectory() as folder:
        for arch in Arm64(build), X86(build):
            def look(compiler, kernel, more):
                return hot_loop(arch, disassemble(arch, compiler, kernel, more, folder), kernel)

            for compiler in arch.compilers:
                for kernel in arch.kernels:
                    body = look(compiler, kernel, [])
                    count.note(arch, compiler[0], body, kernel)
                    count.note(arch, "more loads", body + [arch.load] * (len(body) // 2), kernel, False)
                    count.note(arch, "a spill", body + [arch.spill], kernel, False)
                found += 1
            if arch.compilers and arch.compilers[0][0] == "aarch64-linux-gnu-gcc":
                few = ["-ffixed-v%d" % i for i in range(16, 32)]
                split = next(k for k in arch.kernels if k.template == "gemm" and k.level == "NEON_DOT")
                count.note(arch, "half of the registers", look(arch.compilers[0], split, few), split, False)
    if not found:
        print("no compiler for aarch64 or x86; platform/setup-debian.sh test installs one")
        return 77
    print("%d passed, %d failed, 0 skipped" % (count.passed, count.failed))
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
