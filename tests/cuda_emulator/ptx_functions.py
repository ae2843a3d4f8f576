#!/usr/bin/env python3
"""ptx_functions.py: writes the functions of cuda_ptx.h with each asm statement replaced by a call of ptx.h's
interpreter.

    ptx_functions.py path/to/cuda_ptx.h OUT.h CXX

They become static functions of two structs, one for each architecture that the header distinguishes: ptx_sm75
and ptx_sm80. Statements are numbered from 0 across both; `struct ptx_sites` has their number. Standard library
only.
"""
import re
import subprocess
import sys

ARCHITECTURES = (75, 80)


def preprocessed(cxx, path, sm):
    return subprocess.run([cxx, "-E", "-P", "-x", "c++", "-D__CUDA_ARCH__=%d0" % sm, "-D__device__=",
                           "-D__forceinline__=static inline", path],
                          check=True, capture_output=True, text=True).stdout


def skip_string(text, at):
    """The position after the string literal that begins at `at`."""
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def split(text, mark):
    """Splits at marks that are outside brackets and strings."""
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if text[at] == '"':
            at = skip_string(text, at)
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[at], 0)
        if text[at] == mark and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return parts + [text[begin:].strip()]


def closing(text, at):
    """The position of the bracket that closes the one at `at`."""
    depth = 0
    while True:
        if text[at] == '"':
            at = skip_string(text, at)
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1


def operands(text, kind):
    """C++ for a list of "constraint"(expression)."""
    made = []
    for operand in split(text, ","):
        if not operand:
            continue
        end = skip_string(operand, 0)
        made.append("%s(%s, %s)" % (kind, operand[:end], operand[end:].strip()))
    return made


def call(site, volatile, inside):
    """Translates an asm statement to a call."""
    parts = split(inside, ":")
    parts += [""] * (4 - len(parts))
    if len(parts) > 4:
        sys.exit("ptx_functions.py: an asm statement of another form: %s" % inside)
    outs, ins = operands(parts[1], "ptx_out"), operands(parts[2], "ptx_in")
    clobbers = [c for c in split(parts[3], ",") if c]
    unknown = [c for c in clobbers if c != '"memory"']
    if unknown:
        sys.exit("ptx_functions.py: clobbers %s, which nothing here knows" % unknown)
    if not outs + ins:
        return "ptx_run(%d, %s, %d, %d, nullptr, 0, 0)" % (site, parts[0], volatile, bool(clobbers))
    return "{ ptx_operand list_[] = {%s}; ptx_run(%d, %s, %d, %d, list_, %d, %d); }" % (
        ", ".join(outs + ins), site, parts[0], volatile, bool(clobbers), len(outs),
        len(outs + ins))


def with_calls(text, site):
    """Returns the text with calls, and the number of the next statement."""
    out, at = [], 0
    for found in re.finditer(r"\basm\b\s*(volatile\b)?\s*\(", text):
        begin, end = found.end() - 1, closing(text, found.end() - 1)
        out += [text[at:found.start()],
                call(site, bool(found.group(1)), text[begin + 1:end])]
        site += 1
        at = end + 1
    return "".join(out) + text[at:], site


def main():
    path, out, cxx = sys.argv[1:4]
    site = 0
    with open(out, "w", encoding="utf-8") as f:
        for sm in ARCHITECTURES:
            text, after = with_calls(preprocessed(cxx, path, sm), site)
            f.write("struct ptx_sm%d {\nenum { first_site = %d, end_site = %d };\n%s};\n"
                    % (sm, site, after, text))
            site = after


if __name__ == "__main__":
    main()
