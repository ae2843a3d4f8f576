#!/usr/bin/env python3
"""test_code_blocks.py: C code blocks with functions in README.md and docs compile without a warning.

    test_code_blocks.py COMPILER INCLUDE...

Blocks without a function are excerpts that use names of the reader's program. Standard library only.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def blocks():
    """(where, text) of each block with a function."""
    docs = os.path.join(ROOT, "docs")
    for path in [os.path.join(ROOT, "README.md")] + [os.path.join(docs, n) for n in sorted(os.listdir(docs))]:
        if not path.endswith(".md"):
            continue
        with open(path) as f:
            page = f.read()
        for found in re.finditer(r"^```c\n(.*?)^```$", page, re.M | re.S):
            if re.search(r"^\w[^;{}]*\)\n\{$", found[1], re.M):
                line = page.count("\n", 0, found.start()) + 1
                yield "%s:%d" % (os.path.relpath(path, ROOT), line), found[1]


def main():
    compiler, include = sys.argv[1], ["-I" + folder for folder in sys.argv[2:]]
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for where, text in blocks():
            path = os.path.join(folder, "block.c")
            with open(path, "w") as f:
                f.write(text)
            p = subprocess.run([*compiler.split(), *FLAGS, *include, path], capture_output=True, text=True)
            passed, failed = passed + (p.returncode == 0), failed + (p.returncode != 0)
            if p.returncode:
                print("%s:\n%s" % (where, p.stderr))
    if not passed + failed:
        print("no block with a function in it")
        failed = 1
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main())
