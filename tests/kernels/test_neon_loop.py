#!/usr/bin/env python3
"""test_neon_loop.py: what compilers make of the inner loops of GEMM and attention on AArch64.

    test_neon_loop.py path/to/build [--verbose]

Compiles the templates of platform/cpu/tmpl with the flags of the build, for NEON and the levels above it,
with every compiler for AArch64 that is here, and disassembles them. The hot loop is the innermost one
with the most multiply-adds of the kernel's kind. In it no instruction may touch the stack, and the
multiply-adds' share of all vector instructions must reach the kernel's: where a load of two registers
counts as two, and where it counts as the instruction that it is. The judgement is tried on loops that must fail: the same with more loads, the same with a spill, and one that
the compiler was left half of the registers for. Standard library only.
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
# flags. A product of 2 x 2 rows and columns is worth two or more of the others; as tiles of 32 registers
# have it, its share by registers is 0.72 at most. Sums of float16 are added up; the loop has no plain
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
]
TAKES_VALUE = ("-o", "-MF", "-MQ", "-MT")
LEFT_OUT = re.compile(r"-M[DP]?$|-c$|-DFV_(ISA|ARCH|LEVEL)_|-fsanitize|-m[a-z0-9-]+(=.*)?$|--coverage")

Loop = collections.namedtuple("Loop", "adds vectors pairs stack")


def compilers():
    found = []
    if shutil.which("aarch64-linux-gnu-gcc"):
        found.append(["aarch64-linux-gnu-gcc"])
    if shutil.which("clang") and os.path.isdir("/usr/aarch64-linux-gnu/include"):
        found.append(["clang", "--target=aarch64-linux-gnu", "-isystem",
                      "/usr/aarch64-linux-gnu/include"])
    return found


def build_flags(build):
    """Where and with what the build compiles the portable kernel, the machine's own flags left out, and
    the folder of the templates."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        commands = json.load(f)
    for c in commands:
        words = shlex.split(c["command"])
        if not c["file"].endswith(TEMPLATE % "gemm") or "-DFV_ISA_C" not in words:
            continue
        first = next(i for i, w in enumerate(words) if w.startswith("-"))
        flags, skip = [], False
        for word in words[first:]:
            if not skip and word not in TAKES_VALUE and word != c["file"] and not LEFT_OUT.match(word):
                flags.append(word)
            skip = not skip and word in TAKES_VALUE
        return c["directory"], flags, c["file"][:-len(TEMPLATE % "gemm")]
    raise SystemExit("the build does not compile " + TEMPLATE % "gemm")


def disassemble(compiler, where, flags, source, folder):
    output = os.path.join(folder, "gemm.o")
    levels = ["-DFV_LEVEL_NEON_" + name for name in ("FP16", "SDOT", "DOT", "I8MM")]
    subprocess.run(compiler + flags + ["-DFV_ARCH_ARM64"] + levels + ["-c", source, "-o", output],
                   cwd=where, check=True)
    tool = shutil.which("aarch64-linux-gnu-objdump") or "llvm-objdump"
    said = subprocess.run([tool, "-d", "--no-show-raw-insn", output], capture_output=True, text=True,
                          check=True)
    functions = [[]]
    for line in said.stdout.split("\n"):
        if re.match(r"[0-9a-f]+ <.*>:$", line):
            functions.append([])
        m = re.match(r"\s*([0-9a-f]+):\s+(.*)$", line)
        if m:
            functions[-1].append((int(m.group(1), 16), m.group(2)))
    return functions


def innermost(code):
    """The bodies of the innermost loops of a function."""
    spans = []
    for at, text in code:
        m = re.match(r"(?:b\.\w+|b|cbn?z|tbn?z)\s+(?:.*,\s*)?(?:0x)?([0-9a-f]+)\b", text)
        if m and int(m.group(1), 16) <= at:
            spans.append((int(m.group(1), 16), at))
    for low, high in spans:
        if not any(low <= a and b <= high and (a, b) != (low, high) for a, b in spans):
            yield [text for at, text in code if low <= at <= high]


def is_vector(text):
    return re.search(r"\b[vqdsh]\d+\b", text.split("//")[0])


def measure(body, add):
    vectors = [text for text in body if is_vector(text)]
    return Loop(sum(bool(re.match(add, text)) for text in body), len(vectors),
                sum(text.startswith("ldp") for text in vectors),
                sum("[sp" in text or "[x29" in text for text in body))


def hot_loop(functions, kernel):
    """Its text."""
    found = [[]]
    for code in functions:
        found += [body for body in innermost(code)
                  if not any(re.match(kernel.other, t) for t in body)]
    def size(body):
        loop = measure(body, kernel.add)
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

    def note(self, what, body, kernel, good=True):
        """One loop; `good`: whether nothing may be wrong with it, or something must."""
        loop = measure(body, kernel.add)
        wrong = fault(loop, kernel)
        right = good == (wrong is None)
        self.passed, self.failed = self.passed + right, self.failed + (not right)
        if self.verbose or not right:
            print("%s%s, %s %s: %s; %s" % ("" if right else "FAIL ", what, kernel.template, kernel.level,
                                           describe(loop), wrong or "good"))


def main(argv):
    where, flags, templates = build_flags(os.path.abspath(argv[0]))
    found = compilers()
    if not found:
        print("no compiler for aarch64; platform/setup-debian.sh test installs one")
        return 77
    count = Count("--verbose" in argv)
    with tempfile.TemporaryDirectory() as folder:
        def look(compiler, kernel, more):
            own = kernel.flags + ["-DFV_ISA_" + kernel.level]
            source = templates + TEMPLATE % kernel.template
            return hot_loop(disassemble(compiler, where, flags + own + more, source, folder), kernel)

        for compiler in found:
            for kernel in KERNELS:
                body = look(compiler, kernel, [])
                count.note(compiler[0], body, kernel)
                count.note("more loads", body + ["ldr q0, [x0]"] * (len(body) // 3), kernel, False)
                count.note("a spill", body + ["str q0, [sp, #16]"], kernel, False)
        if found[0][0].endswith("gcc"):
            few = ["-ffixed-v%d" % i for i in range(16, 32)]
            split = next(k for k in KERNELS if k.template == "gemm" and k.level == "NEON_DOT")
            count.note("half of the registers", look(found[0], split, few), split, False)
    print("%d passed, %d failed, 0 skipped" % (count.passed, count.failed))
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
