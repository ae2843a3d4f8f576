"""test_embed.py: gpu/embed.py shortens the texts of kernels without changing the tokens of any line, and a program of
a file with several kernels contains only the kernel that it is compiled for. No kernel calls a function whose accuracy OpenCL
leaves to the driver.

usage: test_embed.py ROOT
"""
import re
import sys
from pathlib import Path

TOKEN = re.compile(r"""
    "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | \.?\d(?:[eEpP][+-]|[\w.])* | \w+
    | \.\.\. | <<= | >>= | -> | \+\+ | -- | << | >> | <= | >= | == | != | && | \|\|
    | [-+*/%&|^]= | \#\# | ::
    | \S""", re.X)
# Lines whose tokens are hard to separate, and their shortened form.
CASES = [
    ("a = b + c;", "a=b+c;"),
    ("a = - -b + +c - --d;", "a= - -b+ +c- --d;"),
    ("x = 0xe + 1;", "x=0xe +1;"),
    ("x = size + 1;", "x=size+1;"),
    ("a / *b", "a/ *b"),
    ("return x ? .5f : y;", "return x?.5f:y;"),
    ("#define F (x)", "#define F (x)"),
    ("#define F(x, y) ((x) + y)", "#define F(x,y)((x)+y)"),
    ("#define F \\", "#define F \\"),
    ("    return    \\", "return \\"),
    ('asm("ld {%0, %1};" : "=r"(a));', 'asm("ld {%0, %1};":"=r"(a));'),
    ('"a" SUFFIX "b"', '"a" SUFFIX "b"'),
    ("#if A  && defined B", "#if A&&defined B"),
    ("#include <a b.h>", "#include <a b.h>"),
    ("#error do not do  this", "#error do not do  this"),
]


def tokens(line):
    """A line's tokens. The name after #define includes a following parenthesis, which makes the macro a function."""
    found = re.match(r"\s*#\s*define\s+\w+\(", line)
    return [bool(found)] + TOKEN.findall(line)


# The error of these is up to 2e-4 on drivers in use; options of the compiler can have the same effect.
INACCURATE = re.compile(r"\b(?:native|half)_(?:exp|log|pow|sin|cos|tan|sqrt|rsqrt|recip|divide)\w*"
                        r"|-cl-(?:fast-relaxed|unsafe|finite)-\w+")
# Files whose kernels are one kernel and its pre-passes, which programs contain together.
WITH_PRE_PASSES = {"gemm_half.cl", "keys_i8.cl", "softmax_i8.cl", "softmax_scan.cl"}


def unconditional_kernels(text):
    """The names of the kernels that every program of the file contains."""
    depth, names = 0, []
    for line in text.splitlines():
        depth += line.startswith("#if") - line.startswith("#endif")
        found = re.match(r"FV_KERNEL void (\w+)", line)
        if found and depth == 0:
            names.append(found[1])
    return names


def main():
    root = Path(sys.argv[1])
    sys.path.insert(0, str(root / "gpu"))
    sys.dont_write_bytecode = True
    import embed

    failed = 0
    for line, wanted in CASES:
        if embed.squeeze_line(line) != wanted:
            failed += 1
            print(f"FAIL {line!r} became {embed.squeeze_line(line)!r}, not {wanted!r}")
    lines = 0
    files = [file for folder in ("gpu/kernels", "cuda", "src/mech", "src/ops")
             for file in sorted((root / folder).iterdir())
             if file.suffix in (".cl", ".cu", ".cuh", ".h")]
    for file in files:
        for number, line in enumerate(embed.without_comments(file.read_text()).splitlines(), 1):
            lines += 1
            if tokens(line) != tokens(embed.squeeze_line(line)):
                failed += 1
                print(f"FAIL {file}:{number}: {embed.squeeze_line(line)!r} has other tokens")
    kernel_files = sorted((root / "gpu/kernels").glob("*.cl"))
    for file in kernel_files:
        names = unconditional_kernels(file.read_text())
        if len(names) > 1 and file.name not in WITH_PRE_PASSES:
            failed += 1
            print(f"FAIL {file.name}: every program contains {', '.join(names)}; enclose each in FV_COMPILES")
    for file in kernel_files + sorted((root / "cl").glob("*.[ch]")) + sorted((root / "src/mech").glob("*.h")):
        found = INACCURATE.search(file.read_text())
        lines += 1
        if found:
            failed += 1
            print(f"FAIL {file.name}: the accuracy of {found[0]} is not known")
    print(f"{lines + len(CASES) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0 or lines == 0


if __name__ == "__main__":
    sys.exit(main())
